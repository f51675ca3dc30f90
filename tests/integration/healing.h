/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_HEALING_H
#define TESTS_INTEGRATION_HEALING_H
/* Masters of a cluster that die after their replicas have missed what was written last. */
#include "tests/integration/fixture.h"

enum { HEALING_WAIT_MS = 60000 };

/* SQL of public.gate(id), for `where`: two rows that are read only while their gate is open, the first one,
 * and one in the middle of 20,000. */
enum { HEALING_FIRST = 7, HEALING_MIDDLE = 8 };
extern const char healing_gate[];
void healing_shut(struct fixture *f, int which);
void healing_open(struct fixture *f, int which);

/* Masters that hold shards of the filter, but not its view; @n is 0 or 1. */
unsigned healing_other(struct fixture *f, unsigned n);

/* Nothing that node @i is told from now on reaches its replicas. */
void healing_cut_off(struct fixture *f, unsigned i);
/* Kill it, wait until its replica has taken its place; which one. */
unsigned healing_fail_over(struct fixture *f, unsigned i);

/* Rows in transactions of @each, their keys added before the commit, by coordinator @d. */
void healing_insert_and_add(struct fixture *f, unsigned d, uint64_t first, uint64_t count, uint64_t each);

/* Until coordinator @d has all shards of the filter in memory: what one lacks is healed from the table alone.
 */
void healing_is_resident(struct fixture *f, unsigned d);

/* Until coordinator @d says that nothing is degraded, and answers exactly; and never is one of the codes [0,
 * count) reported absent meanwhile. */
void healing_await(struct fixture *f, unsigned d, uint64_t count);
/* The same by each that runs, and every code of [0, count) is present then. */
void healing_is_whole(struct fixture *f, uint64_t count);
/* Until the view, which the node of @home has, accepts that of @port: all writers have written to it what
 * they had, which a writer that is killed before has not. */
void healing_accepts(uint16_t home, uint16_t port);
/* The same of node @i of the cluster. */
void healing_is_accepted(struct fixture *f, unsigned i);
/* A coordinator that has nothing in memory: it answers from what is in Redis. */
void healing_start_again(struct fixture *f, unsigned d);

/* A field of the record. */
int64_t healing_number(struct fixture *f, unsigned d, const char *field);
void healing_is(struct fixture *f, unsigned d, const char *field, const char *wanted);
#endif
