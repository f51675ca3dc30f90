/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_ERAS_CASE_H
#define TESTS_INTEGRATION_ERAS_CASE_H
/* A filter whose shards' node gets another replication id, for the tests of eras. All use `on` of
 * log_redis.h. */
#include "shard/members/eras.h"
#include "tests/integration/log_redis.h"

enum { ERAS_CASE_WRITERS = 3 };

extern struct eras eras_case_watch;
/* Ids of writers that have no process. */
extern const uint8_t eras_case_writer[ERAS_CASE_WRITERS][LOG_WRITER_BYTES];

/* For each test: one filter, and a watch that has seen nothing. */
int eras_case_set_up(void **state);
int eras_case_tear_down(void **state);
#define ERAS_TEST(name) cmocka_unit_test_setup_teardown(name, eras_case_set_up, eras_case_tear_down)

/* Load the view again. */
void eras_case_load(void);
/* A writer registers, or leaves. */
void eras_case_registers(const uint8_t id[LOG_WRITER_BYTES]);
void eras_case_leaves(const uint8_t id[LOG_WRITER_BYTES]);
enum eras_action eras_case_look(void);

void eras_case_degrades(void);
/* A build heals the filter. @loses: one of its shards is lost, too. */
void eras_case_heals(bool loses);
#endif
