/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LOSING_H
#define TESTS_INTEGRATION_LOSING_H
/* Nodes of a list that lose some of a filter's shards, while the others go on. */
#include "tests/integration/healing.h"

enum { LOSING_NODES = 3, LOSING_ROWS = 30000 };

/* Three nodes, two coordinators, LOSING_ROWS rows in small shards. @filter: more lines of the filter. */
int losing_start(struct fixture *f, const char *filter);

/* The same on a cluster of three masters. */
int losing_start_cluster(struct fixture *f);

/* FLUSHALL of a node, or of a master of the cluster. */
void losing_flush_unseen(struct fixture *f, unsigned node);
/* Then coordinator 0 is asked: it notices the loss, and says no to none. */
void losing_flush(struct fixture *f, unsigned node);

/* Until coordinator @d has another epoch than @epoch: what was lost has been noticed, and is given up. */
void losing_noticed(struct fixture *f, unsigned d, int64_t epoch);

/* How many shards of generation @generation node @node has. */
unsigned losing_shards(struct fixture *f, unsigned node, int64_t generation);

/* Until coordinator @d says that nothing is degraded, and no job runs; and never is one of the codes [0,
 * count) reported absent meanwhile. */
void losing_await(struct fixture *f, unsigned d, uint64_t count);

/* Every code of [0, count) is present, by both coordinators, and "no" is said as ever. */
void losing_is_whole(struct fixture *f, uint64_t count);

/* Which coordinator drives the job. */
unsigned losing_owner(struct fixture *f, unsigned asked);

/* Slow jobs down to so many rows a second; 0: no more. */
void losing_throttle(struct fixture *f, unsigned d, unsigned rows);
#endif
