/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_BREAKS_H
#define TESTS_FAULT_LOG_BREAKS_H
/* What all of log_break shares: servers, members, and the filter. Functions return false on failure, and say
 * why. */
#include <pthread.h>
#include <stdatomic.h>
#include "tests/fault/log/ledger.h"
#include "tests/fault/log/swap.h"
#include "tests/lib/log_member.h"
#include "shard/view/log_view.h"

enum {
    BREAKS_NODES_MAX = 3,
    BREAKS_KEYS = 2000,
    BREAKS_TIMEOUT_MS = 2000,
    BREAKS_END_US = 20000 * 1000,
    BREAKS_LOOK_US = 1000
};

/* Where the filter lies: two lanes, on the first two nodes; one, on the first; lane and shards on the second;
 * the lane on the second, and shards there and on the third, or there alone. With one lane, as in the
 * service, adds of keys that are there append nothing. */
enum layout { TWO_LANES, ONE_LANE, HOME_APART, LANE_APART, ALL_APART, LAYOUTS };

struct breaks {
    const char *kind;
    unsigned nodes; /* that are there */
    struct swap_node node[BREAKS_NODES_MAX];
    struct proxy *proxy;
    struct nodes a, b; /* of the process whose connections break; of the others */
    struct names names;
    struct sync_client *link;
    struct log_view *view;
    struct ledger *ledger;
    struct log_member member, other, checker;
    bool has_other, has_checker, opened;
    bool swaps; /* servers are replaced, besides broken connections */
    enum layout layout;
    unsigned look_us; /* look_interval of the members */
    _Atomic uint64_t next;
    pthread_t checks;
    _Atomic bool checks_end;
    _Atomic unsigned lost; /* keys that the checker has missed */
    unsigned heals;        /* filters that only a build has healed */
};

extern struct breaks breaks;

bool breaks_said(enum err code, const struct error *e);
bool breaks_is(const char *kind);

bool breaks_load_view(void);
/* Make and delete the filter, until the request is answered. */
bool breaks_make(const struct nodes *nodes);
bool breaks_drop(const struct nodes *nodes);
/* Make the filter, and open its members. */
bool breaks_open_all(void);
void breaks_close_all(void);
/* Open another member, which has added a key, and has all shards in memory. */
bool breaks_open_other(const struct nodes *nodes);

bool breaks_add(struct log_member *m, unsigned count);
bool breaks_is_folded(void);
bool breaks_wait_until_folded(uint64_t us);
/* Build a generation from the acknowledged keys, and cut over. @on: bits of the nodes that get its shards; 0:
 * those of before. */
bool breaks_build(const struct nodes *nodes, unsigned on, bool back);
bool breaks_newcomer_is_right(void);
/* Whoever lives, and a new process, which only has the data in Redis, find all acknowledged keys. */
bool breaks_all_is_there(void);
#endif
