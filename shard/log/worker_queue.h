/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_WORKER_QUEUE_H
#define SHARD_LOG_WORKER_QUEUE_H
/* A queue from any thread to a worker. It wakes the worker's event loop. */
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "base/error.h"

/* Lies in the storage of what is queued, for example a request. */
struct worker_queue_item {
    TAILQ_ENTRY(worker_queue_item) next;
    void *of; /* the struct that holds the item */
};

typedef void worker_queue_fn(void *arg);

struct worker_queue {
    pthread_mutex_t lock;
    TAILQ_HEAD(worker_queue_items, worker_queue_item) items; /* guarded by @lock */
    struct mailbox *mailbox;
    struct event *wake;
    worker_queue_fn *fn;
    void *arg;
};

/* Let @base's loop call @fn when something was put. False: no memory. */
MUST_CHECK bool worker_queue_init(struct worker_queue *b, struct event_base *base, worker_queue_fn *fn,
                                  void *arg);
/* May be called after worker_queue_init() failed. No thread puts anything any more. */
void worker_queue_fini(struct worker_queue *b);

/* @of: what worker_queue_take() returns. @by_worker: the caller is the thread that runs the loop. */
void worker_queue_put(struct worker_queue *b, struct worker_queue_item *item, void *of, bool by_worker);
/* Take the oldest item's @of; NULL: the queue is empty. */
void *worker_queue_take(struct worker_queue *b);
/* Remove an item that is in the queue. */
void worker_queue_remove(struct worker_queue *b, struct worker_queue_item *item);
/* Let the loop call @fn, with nothing put. */
void worker_queue_wake(struct worker_queue *b, bool by_worker);
#endif
