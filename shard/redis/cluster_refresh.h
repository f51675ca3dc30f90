/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_CLUSTER_REFRESH_H
#define SHARD_REDIS_CLUSTER_REFRESH_H
/* How a thread asks a Redis Cluster for its map of slots: over a connection of its own, one node after the
 * other. @name: of the connection, a literal. @timeout_ms bounds all of it. @ends (NULL: none): set by
 * another thread, no further node is asked. */
#include <stdatomic.h>
#include <stdbool.h>
#include "base/error.h"
#include "shard/filter/slots.h"
#include "shard/redis/nodes/nodes.h"

/* @all: with masters that have no slots. *@out is the caller's also after an error. ERR_UNREACHABLE,
 * ERR_TIMEOUT, ERR_REFUSED, ERR_PARSE, ERR_NOMEM. */
MUST_CHECK enum err cluster_ask(const struct nodes *nodes, const char *name, bool all, unsigned timeout_ms,
                                const atomic_bool *ends, struct slot_map *out, struct error *e);
/* After cluster_may_refresh(): ask, and give all threads the result. */
enum err cluster_refresh(const struct nodes *nodes, const char *name, unsigned timeout_ms,
                         const atomic_bool *ends, struct error *e);
#endif
