/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_DOCTORING_H
#define TESTS_INTEGRATION_DOCTORING_H
/* An installation with one node, a table and a coordinator, and the doctor asked in both ways: by the command
 * line, which asks a coordinator, and by a daemon that does not serve. Main thread only. */
#include "tests/integration/fixture.h"

enum { DOCTORING_ROWS = 2000, DOCTORING_WAIT_MS = 20000 };

#define WITH_TABLE(more)                                                                                     \
    "[filter links]\ncapacity = 4000\nerror_rate = 0.01\ntable = short_link\nid_column = id\nkey = "         \
    "code\n" more

extern struct fixture fixture;
extern struct client redis; /* to the node */

/* For CMocka: everything runs, and ends. */
int doctoring_start(void **state);
int doctoring_stop(void **state);

/* twinbloom doctor. The result lives until the next call. */
const struct cli_result *by_command(const char *options);
/* twinbloomd --doctor, with a configuration of its own. The result lives until the next call. */
const struct cli_result *alone_by(const struct daemon_options *o);
/* The same with nodes, a dsn, lines of [redis] and filters. */
const struct cli_result *alone(const char *nodes, const char *dsn, const char *lines, const char *filters);

/* A line "state probe ... part" is there; with @remedy, in the line that follows. */
void says(const struct cli_result *r, const char *state, const char *probe, const char *part,
          const char *remedy);
/* Both ways: a problem, and exit status 1. */
void is_problem(const char *probe, const char *part, const char *remedy);
/* No warnings, no problems. */
void all_is_well(const struct cli_result *r);
/* A command that the node must answer with OK. */
void ask_redis(const char *command);
#endif
