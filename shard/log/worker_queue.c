/* SPDX-License-Identifier: MIT */
#include "shard/log/worker_queue.h"

#include "base/mailbox.h"

static void on_wake(evutil_socket_t fd, short events, void *arg)
{
    struct worker_queue *b = arg;
    (void)fd;
    if ((events & EV_READ) != 0)
        mailbox_run(b->mailbox);
    b->fn(b->arg);
}

bool worker_queue_init(struct worker_queue *b, struct event_base *base, worker_queue_fn *fn, void *arg)
{
    *b = (struct worker_queue){.fn = fn, .arg = arg, .mailbox = mailbox_new()};
    (void)pthread_mutex_init(&b->lock, NULL); /* cannot fail, as it sets no attributes */
    TAILQ_INIT(&b->items);
    if (b->mailbox != NULL)
        b->wake = event_new(base, mailbox_fd(b->mailbox), EV_READ | EV_PERSIST, on_wake, b);
    return b->wake != NULL && event_add(b->wake, NULL) == 0;
}

void worker_queue_fini(struct worker_queue *b)
{
    if (b->wake != NULL)
        event_free(b->wake);
    mailbox_free(b->mailbox);
    (void)pthread_mutex_destroy(&b->lock);
}

void worker_queue_wake(struct worker_queue *b, bool by_worker)
{
    if (by_worker)
        event_active(b->wake, EV_TIMEOUT, 0);
    else
        mailbox_wake(b->mailbox);
}

/* Wakes under the lock, so that the thread that takes the last item does not free the queue meanwhile. */
void worker_queue_put(struct worker_queue *b, struct worker_queue_item *item, void *of, bool by_worker)
{
    (void)pthread_mutex_lock(&b->lock);
    item->of = of;
    if (TAILQ_EMPTY(&b->items))
        worker_queue_wake(b, by_worker);
    TAILQ_INSERT_TAIL(&b->items, item, next);
    (void)pthread_mutex_unlock(&b->lock);
}

void *worker_queue_take(struct worker_queue *b)
{
    (void)pthread_mutex_lock(&b->lock);
    struct worker_queue_item *item = TAILQ_FIRST(&b->items);
    if (item != NULL)
        TAILQ_REMOVE(&b->items, item, next);
    (void)pthread_mutex_unlock(&b->lock);
    return item == NULL ? NULL : item->of;
}

void worker_queue_remove(struct worker_queue *b, struct worker_queue_item *item)
{
    (void)pthread_mutex_lock(&b->lock);
    TAILQ_REMOVE(&b->items, item, next);
    (void)pthread_mutex_unlock(&b->lock);
}
