/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_DOCTORING_H
#define TESTS_INTEGRATION_DOCTORING_H
/* An installation with one node, a table and a coordinator. The doctor runs in both ways: by the command
 * line, which asks a coordinator, and by a daemon that does not serve. Main thread only. */
#include "tests/integration/fixture.h"

enum { DOCTORING_ROWS = 2000, DOCTORING_WAIT_MS = 20000 };

#define WITH_TABLE(more)                                                                                     \
    "[filter links]\ncapacity = 4000\nerror_rate = 0.01\ntable = short_link\nid_column = id\nkey = "         \
    "code\n" more

extern struct fixture fixture;
extern struct client redis; /* to the node */

/* For CMocka: start and stop everything. */
int doctoring_start(void **state);
int doctoring_stop(void **state);

/* Run `twinbloom doctor`. The result is valid until the next call. */
const struct cli_result *by_command(const char *options);
/* Run `twinbloomd --doctor` with the configuration @o. The result is valid until the next call. */
const struct cli_result *alone_by(const struct daemon_options *o);
/* As alone_by(), with these nodes, this DSN, lines of [redis] and filters. */
const struct cli_result *alone(const char *nodes, const char *dsn, const char *lines, const char *filters);

/* The result must have a line "state probe ... part"; with @remedy in the next line. */
void says(const struct cli_result *r, const char *state, const char *probe, const char *part,
          const char *remedy);
/* Both ways must report a problem, with exit status 1. */
void is_problem(const char *probe, const char *part, const char *remedy);
/* The result must have no warnings and no problems. */
void all_is_well(const struct cli_result *r);
/* Send a command to the node, which must reply OK. */
void ask_redis(const char *command);
#endif
