/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_OPERATIONS_H
#define TESTS_INTEGRATION_OPERATIONS_H
/* Two coordinators, and a filter with a source on two servers: for tests of operations, before each of which
 * it is made anew, empty. */
#include "tests/integration/coordinator.h"

enum { SHARDS = 6 };

extern struct servers servers;
extern struct filter f;
extern struct coordinator one, two;
extern const struct filter_policy sourced;

/* For CMocka: the group's, and each test's; patient: as coordinator_open_patient(). */
int operations_start(void **state);
int operations_stop(void **state);
int operations_setup(void **state);
int operations_setup_patient(void **state);
int operations_teardown(void **state);
#endif
