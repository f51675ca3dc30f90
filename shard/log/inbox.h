/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_INBOX_H
#define SHARD_LOG_INBOX_H
/* What any thread leaves for a worker, in the order in which it came; the worker's event loop is woken. */
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "base/error.h"

/* In the storage of what is left: a request, say. */
struct inbox_item {
    TAILQ_ENTRY(inbox_item) next;
    void *of; /* what it is in */
};

typedef void inbox_fn(void *arg);

struct inbox {
    pthread_mutex_t lock;
    TAILQ_HEAD(inbox_items, inbox_item) items; /* under the lock */
    struct mailbox *mailbox;
    struct event *wake;
    inbox_fn *fn;
    void *arg;
};

/* Have @fn called by @base's loop when something was put. False: no memory. */
MUST_CHECK bool inbox_init(struct inbox *b, struct event_base *base, inbox_fn *fn, void *arg);
/* Also of one that could not be made. Nobody puts anything any more. */
void inbox_fini(struct inbox *b);

/* @by_worker: the caller is in the thread that runs the loop. */
void inbox_put(struct inbox *b, struct inbox_item *item, void *of, bool by_worker);
/* What was put first; NULL: there is nothing. */
void *inbox_take(struct inbox *b);
/* It is there, and nobody takes it any more. */
void inbox_remove(struct inbox *b, struct inbox_item *item);
/* Have @fn called, with nothing put. */
void inbox_wake(struct inbox *b, bool by_worker);
#endif
