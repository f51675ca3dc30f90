/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_SCRIPT_H
#define TESTS_INTEGRATION_SCRIPT_H
/* Runs scripts of tests/clients and judges the TAP that they write. */
#include "tests/integration/fixture.h"

/* Set the environment variable @name of scripts to @port. */
void script_set_port(const char *name, uint16_t port);

/* How many lines of @text begin with @begins. */
size_t script_count_lines(const char *text, const char *begins);

/* Called repeatedly while a script runs, with all its output so far. Main thread. */
typedef void script_attend_fn(const char *output, void *arg);

/* Run @argv (NULL-terminated) with a log in @directory, call @attend (NULL: nothing) meanwhile, and print the
 * script's output. The test fails unless the script ends in time with status 0, after as many lines `ok` as
 * its plan (`1..N`) announced, at least one. Status 77 skips the test: the script could not run here. Main
 * thread only. */
void script_run(const char *const *argv, const char *directory, unsigned deadline_ms,
                script_attend_fn *attend, void *arg);
#endif
