/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_DROP_CALL_H
#define TESTS_INTEGRATION_DROP_CALL_H
/* Calls filter_drop() of filter "f" as the admin thread or a controller does. This is a file of its own
 * because the tests' struct client and the service's have the same name. Its connection is that of a job, for
 * life_kill() and life_put_to_sleep(). */
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

enum drop_call_when { CALL_NOW, CALL_IF_DUE, CALL_IF_BEGUN };

MUST_CHECK enum err drop_call(const struct nodes *nodes, const char *prefix, enum drop_call_when when,
                              struct error *e);
/* As drop_call() with CALL_NOW, by a process that has seen incarnation @seen of the filter. */
MUST_CHECK enum err drop_call_seen(const struct nodes *nodes, const char *prefix, uint64_t seen,
                                   struct error *e);
#endif
