/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_SCRIPT_H
#define TESTS_INTEGRATION_SCRIPT_H
/* Scripts of tests/clients, judged by the TAP that they write. */
#include "tests/integration/fixture.h"

/* @port, under @name in the environment of scripts. */
void script_set_port(const char *name, uint16_t port);

/* How many lines of @text begin so. */
size_t script_count_lines(const char *text, const char *begins);

/* Called time and again while a script runs, with all that it wrote so far. Main thread. */
typedef void script_attend_fn(const char *output, void *arg);

/* Run @argv (NULL-terminated) with a log in @directory, calling @attend (NULL: nobody) meanwhile, and print
 * what it wrote. The test fails unless it ends in time with status 0, after as many lines `ok` as its plan
 * (`1..N`) announced, at least one; it is skipped at status 77: the script could not run here. Main thread
 * only. */
void script_run(const char *const *argv, const char *directory, unsigned deadline_ms,
                script_attend_fn *attend, void *arg);
#endif
