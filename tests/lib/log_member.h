/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_LOG_MEMBER_H
#define TESTS_LIB_LOG_MEMBER_H
/* All that a process has of a filter that is a log: a worker's loop and a control, in threads of their own.
 * Calls block, and may come from any thread. */
#include <pthread.h>
#include "base/mailbox.h"
#include "shard/request/control.h"
#include "shard/request/key_request.h"

struct log_member {
    struct budget budget;
    struct sync_client *link; /* the control's */
    struct log_filter *filter;
    struct control_thread *controls;
    struct control *control;
    pthread_t thread; /* the control's */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool woken, stops, pauses, paused;
    enum err failing; /* what the control ended with last, and its text */
    uint64_t next;    /* when the control is to be called again */
    struct error last;
    pthread_t worker; /* runs the loop */
    struct event_base *base;
    struct mailbox *mailbox;
    struct event *letters;
    struct async_client *store;
    struct request_port *port;
};

struct log_member_options {
    const struct nodes *nodes; /* borrowed */
    const struct names *names;
    uint64_t memory; /* bytes of shards that are in memory at most */
    unsigned timeout_ms;
    uint64_t retain_us;       /* how long entries stay in a lane that are folded */
    uint64_t writer_grace_us; /* as of a control */
    bool folds;
    /* As in struct control_options; 0: what tests want as a rule. */
    const char *owner;
    const char *sync_client_name; /* of the control's connections; NULL: none */
    uint64_t log_max, fold_interval_us, look_interval_us;
    unsigned lease_ms;
};

/* Make the filter @names, which gets an incarnation: without a source, on all nodes, one key of 10,000 a
 * false positive, each layer twice as large as the one before. As log_make(). */
MUST_CHECK enum err log_member_make(struct sync_client *l, struct names *names, uint64_t capacity,
                                    unsigned lanes, uint32_t shard_bytes, struct error *e);

/* ERR_NOMEM. */
MUST_CHECK enum err log_member_open(struct log_member *m, const struct log_member_options *o,
                                    struct error *e);
void log_member_close(struct log_member *m);
/* As a process that is killed: it leaves the register to others. */
void log_member_abandon(struct log_member *m);
/* The control does nothing until it goes on. */
void log_member_pause(struct log_member *m);
void log_member_go_on(struct log_member *m);
/* Whether the control folds from now on. */
void log_set_folding(struct control *c, bool folds);

/* Check or add @count keys, each the decimal text of its number; @answers gets an enum key_answer of each.
 * Errors of key_request.h. */
MUST_CHECK enum err log_member_ask(struct log_member *m, bool adds, const uint64_t *keys, unsigned count,
                                   uint8_t *answers, struct error *e);
#endif
