/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_INJECT_KINDS_H
#define TESTS_FAULT_INJECT_KINDS_H
/* The functions of the rows of the table in inject.c. Private to that table. */
#include "tests/fault/inject.h"

typedef bool inject_begin_fn(struct injection *i);
typedef void inject_end_fn(struct injection *i);

/* End the program if a server of the test did not start, because nothing can be tested then. */
void must_start(enum err err, const char *what, const struct error *e);
/* Copy the name of any key at i->node that matches @pattern. False: there is no such key. */
bool pick_key(struct injection *i, const char *pattern, char *out, size_t size);
/* True if nodes have shards of a generation that was there when a fault took or changed shards: one may still
 * be missing, or wrong. */
bool shards_may_be_hit(struct injection *i);

/* inject_process.c */
inject_begin_fn kill_begin, end_begin, stop_begin, clock_begin;
inject_end_fn launch_end, stop_end, clock_end;
inject_begin_fn redis_restart_begin, redis_kill_begin, redis_stop_begin;
inject_end_fn redis_with_data, redis_empty, redis_stop_end;
inject_begin_fn postgres_restart_begin, postgres_crash_begin;
inject_end_fn postgres_end;

/* inject_everything.c */
inject_begin_fn everything_begin;

/* inject_cluster.c */
inject_begin_fn failover_begin, failover_lagging_begin, failover_manual_begin, failover_takeover_begin,
    slot_moved_begin;
inject_end_fn failover_end, slot_moved_end;

/* inject_network.c */
inject_begin_fn network_reset, network_cut, network_lost_reply, network_slow_request, network_slow_reply,
    network_swallow, network_refuse;
inject_end_fn network_end;

/* inject_data.c */
inject_begin_fn client_kill, shard_deleted, shard_overwritten, shard_cut, shard_of_wrong_type, view_deleted,
    job_deleted, mutex_deleted, token_deleted, flushall;
inject_begin_fn redis_full_begin, redis_evict_begin, redis_misconf_begin;
inject_end_fn redis_full_end, redis_misconf_end;
inject_begin_fn postgres_terminate, table_locked_begin, transaction_open_begin;
inject_end_fn session_end;
#endif
