/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DOCTOR_DOCTOR_H
#define SERVICE_DOCTOR_DOCTOR_H
/* The doctor: checks everything that the service needs (Redis, Postgres, other coordinators), and reports for
 * each thing whether it is well, what was found, and the remedy. It changes nothing except scratch keys of
 * its own.
 *
 * The happy path is: each probe of the table checks and reports. Possible failure modes are: a server
 * cannot be reached (a problem, reported once by the probe for that; probes that need the server report
 * nothing), or it replies in an unexpected form (a problem). With servers that do not reply a run takes a few
 * times redis.timeout and postgres.timeout. */
#include <stdio.h>
#include "service/config/config.h"
#include "shard/redis/nodes/nodes.h"

enum doctor_state { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_PROBLEM };
enum { DOCTOR_STATES = DOCTOR_PROBLEM + 1 };

/* "ok", "warning", "problem". */
const char *doctor_state_name(enum doctor_state state);

/* Strings are borrowed for the call. */
struct doctor_finding {
    const char *probe;
    const char *subject; /* what was examined: a node, a table, ...; "": the whole service */
    enum doctor_state state;
    const char *found;
    const char *remedy; /* "": nothing to do */
};

typedef void doctor_finding_fn(void *arg, const struct doctor_finding *f);

struct doctor_options {
    const struct config *config;
    const struct nodes *nodes; /* made by service_reach_nodes() */
    const char *version;       /* this program's */
    doctor_finding_fn *fn;     /* called for each finding, in the order of the probes */
    void *arg;
};

/* Run all probes. Blocks. */
void doctor_run(const struct doctor_options *o);

/* doctor_run() for a service that does not start: prints findings to @to. Returns an exit status: 0 no
 * problem, 1 a problem. */
int doctor_alone(const struct config *config, const char *version, FILE *to);
#endif
