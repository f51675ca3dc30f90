/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_HEALING_H
#define TESTS_INTEGRATION_HEALING_H
/* Masters of a cluster die after their replicas have missed the last writes. */
#include "tests/integration/fixture.h"

enum { HEALING_WAIT_MS = 60000 };

/* SQL of the function public.gate(id), for `where`. Two rows can be read only while their gates are open: the
 * first one, and one in the middle of 20,000. */
enum { HEALING_FIRST = 7, HEALING_MIDDLE = 8 };
extern const char healing_gate[];
void healing_shut(struct fixture *f, int which);
void healing_open(struct fixture *f, int which);

/* A master that holds shards of the filter, but not its view; @n, 0 or 1, chooses one. */
unsigned healing_other(struct fixture *f, unsigned n);

/* From now on no write to node @i reaches its replicas. */
void healing_cut_off(struct fixture *f, unsigned i);
/* Kill node @i and wait until its replica has taken over. Returns the replica's number. */
unsigned healing_fail_over(struct fixture *f, unsigned i);

/* Insert rows in transactions of @each. Coordinator @d adds their keys before the commit. */
void healing_insert_and_add(struct fixture *f, unsigned d, uint64_t first, uint64_t count, uint64_t each);

/* Wait until coordinator @d has all shards of the filter in memory. A shard that it lacks would be healed
 * only from the table. */
void healing_is_resident(struct fixture *f, unsigned d);

/* Wait until coordinator @d reports nothing as degraded, and reports absent codes as absent. Meanwhile none
 * of the codes [0, count) may be reported absent. */
void healing_await(struct fixture *f, unsigned d, uint64_t count);
/* As above for each coordinator that runs; then every code of [0, count) must be present. */
void healing_is_whole(struct fixture *f, uint64_t count);
/* Wait until the view, at the node with port @home, accepts the node with port @port. Then all writers have
 * appended again the entries that the node had lost; a writer that is killed earlier may not have. */
void healing_accepts(uint16_t home, uint16_t port);
/* As above for node @i of the cluster. */
void healing_is_accepted(struct fixture *f, unsigned i);
/* Restart coordinator @d, with nothing in memory: it answers from the data in Redis. */
void healing_start_again(struct fixture *f, unsigned d);

/* The value of field @field of the record, as a number. */
int64_t healing_number(struct fixture *f, unsigned d, const char *field);
void healing_is(struct fixture *f, unsigned d, const char *field, const char *wanted);
#endif
