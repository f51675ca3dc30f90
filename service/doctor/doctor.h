/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_DOCTOR_H
#define SERVICE_ADMIN_DOCTOR_H
/* The doctor: looks at everything that the service needs (Redis, Postgres, other coordinators) and says of
 * each thing whether it is well, what was found, and what to do. It changes nothing but a scratch key of its
 * own.
 *
 * The happy path is: each probe of the table looks and tells what it found. Possible failure modes are:
 * something cannot be reached (a problem, told once by the probe that is for that; probes that need it say
 * nothing), or it answers in an unexpected form (a problem). A look takes as long as servers that do not
 * answer: a few times redis.timeout and postgres.timeout. */
#include <stddef.h>
#include <stdio.h>
#include "service/config/config.h"
#include "shard/redis/nodes/nodes.h"

enum doctor_state { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_PROBLEM };
enum { DOCTOR_STATES = DOCTOR_PROBLEM + 1 };

/* "ok", "warning", "problem". */
const char *doctor_state_name(enum doctor_state state);

/* Texts are borrowed for the call. */
struct doctor_finding {
    const char *probe;
    const char *subject; /* what was looked at: a node, a table, ...; "": the service as a whole */
    enum doctor_state state;
    const char *found;
    const char *remedy; /* what to do; "": nothing */
};

typedef void doctor_finding_fn(void *arg, const struct doctor_finding *f);

struct doctor_options {
    const struct config *config;
    const struct nodes *nodes; /* as service_reach_nodes() made them */
    const char *version;       /* of this program */
    doctor_finding_fn *fn;     /* called for each finding, in the order of the probes */
    void *arg;
};

/* Run all probes. Blocks. */
void doctor_run(const struct doctor_options *o);

/* doctor_run() without a service, for one that does not start: findings as text on @to. Returns an exit
 * status: 0 no problem, 1 a problem. */
int doctor_alone(const struct config *config, const char *version, FILE *to);
#endif
