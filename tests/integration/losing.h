/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LOSING_H
#define TESTS_INTEGRATION_LOSING_H
/* Nodes of a list lose some of a filter's shards, while the other nodes go on. */
#include "tests/integration/healing.h"

enum { LOSING_NODES = 3, LOSING_ROWS = 30000 };

/* Start three nodes and two coordinators, with LOSING_ROWS rows in small shards. @filter: more lines of the
 * filter. */
int losing_start(struct fixture *f, const char *filter);

/* As above on a cluster of three masters. */
int losing_start_cluster(struct fixture *f);

/* FLUSHALL of a node, or of a master of the cluster. */
void losing_flush(struct fixture *f, unsigned node);

/* How many shards of generation @generation node @node has. */
unsigned losing_shards(struct fixture *f, unsigned node, int64_t generation);
#endif
