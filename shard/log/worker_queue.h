/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_WORKER_QUEUE_H
#define SHARD_LOG_WORKER_QUEUE_H
/* What any thread leaves for a worker, in the order in which it came; the worker's event loop is woken. */
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "base/error.h"

/* In the storage of what is left: a request, say. */
struct worker_queue_item {
    TAILQ_ENTRY(worker_queue_item) next;
    void *of; /* what it is in */
};

typedef void worker_queue_fn(void *arg);

struct worker_queue {
    pthread_mutex_t lock;
    TAILQ_HEAD(worker_queue_items, worker_queue_item) items; /* under the lock */
    struct mailbox *mailbox;
    struct event *wake;
    worker_queue_fn *fn;
    void *arg;
};

/* Have @fn called by @base's loop when something was put. False: no memory. */
MUST_CHECK bool worker_queue_init(struct worker_queue *b, struct event_base *base, worker_queue_fn *fn,
                                  void *arg);
/* Also of one that could not be made. Nobody puts anything any more. */
void worker_queue_fini(struct worker_queue *b);

/* @by_worker: the caller is in the thread that runs the loop. */
void worker_queue_put(struct worker_queue *b, struct worker_queue_item *item, void *of, bool by_worker);
/* What was put first; NULL: there is nothing. */
void *worker_queue_take(struct worker_queue *b);
/* It is there, and nobody takes it any more. */
void worker_queue_remove(struct worker_queue *b, struct worker_queue_item *item);
/* Have @fn called, with nothing put. */
void worker_queue_wake(struct worker_queue *b, bool by_worker);
#endif
