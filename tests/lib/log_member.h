/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_LOG_MEMBER_H
#define TESTS_LIB_LOG_MEMBER_H
/* What one process has for a filter: a worker's event loop and a control, each in its own thread. Calls
 * block. Any thread. */
#include <pthread.h>
#include "base/mailbox.h"
#include "shard/control/control.h"
#include "shard/request/key_request.h"

struct log_member {
    struct budget budget;
    struct sync_client *link; /* used by the control */
    struct log_filter *filter;
    struct control_thread *controls;
    struct control *control;
    pthread_t thread; /* runs the control */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool woken, stops, pauses, paused;
    enum err failing; /* the last error of the control; its text is in `last` */
    uint64_t next;    /* when the control is to be called next */
    struct error last;
    pthread_t worker; /* runs the event loop */
    struct event_base *base;
    struct mailbox *mailbox;
    struct event *letters;
    struct async_client *store;
    struct request_port *port;
};

struct log_member_options {
    const struct nodes *nodes; /* borrowed */
    const struct names *names;
    uint64_t memory; /* limit of shards in memory, in bytes */
    unsigned timeout_ms;
    uint64_t retain_us;       /* how long folded entries stay in a lane */
    uint64_t writer_grace_us; /* as in struct control_options */
    bool folds;
    /* As in struct control_options; 0: the usual value for tests. */
    const char *owner;
    const char *sync_client_name; /* name of the control's connections; NULL: none */
    uint64_t log_max, fold_interval_us, look_interval_us;
    unsigned lease_ms;
};

/* Create the filter @names and set its incarnation. The filter has no source, uses all nodes, has an error
 * rate of 1 in 10,000, and each layer is twice as large as the one before. Errors as log_make(). */
MUST_CHECK enum err log_member_make(struct sync_client *l, struct names *names, uint64_t capacity,
                                    unsigned lanes, uint32_t shard_bytes, struct error *e);

/* ERR_NOMEM. */
MUST_CHECK enum err log_member_open(struct log_member *m, const struct log_member_options *o,
                                    struct error *e);
void log_member_close(struct log_member *m);
/* Stop like a process that was killed: its registration as a writer stays for others to remove. */
void log_member_abandon(struct log_member *m);
/* Pause the control until log_member_go_on(). */
void log_member_pause(struct log_member *m);
void log_member_go_on(struct log_member *m);
/* Set whether the control folds from now on. */
void log_set_folding(struct control *c, bool folds);
/* Set the time between two looks at the view without a reason, while the member is paused. */
void log_set_look_interval(struct control *c, uint64_t us);

/* Check or add @count keys. Each key is a number in decimal text. @answers gets an enum key_answer for each.
 * Errors of key_request.h. */
MUST_CHECK enum err log_member_ask(struct log_member *m, bool adds, const uint64_t *keys, unsigned count,
                                   uint8_t *answers, struct error *e);
#endif
