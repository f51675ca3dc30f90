/* SPDX-License-Identifier: MIT */
#include "service/config/live_config.h"

#include <pthread.h>
#include <stdlib.h>

struct live_config {
    pthread_mutex_t lock;
    _Atomic(const struct config *) current; /* written under the lock */
};

struct live_config *live_config_new(const struct config *first)
{
    struct live_config *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    (void)pthread_mutex_init(&l->lock, NULL);
    atomic_init(&l->current, config_hold(first));
    return l;
}

void live_config_free(struct live_config *l)
{
    if (l == NULL)
        return;
    config_release(l->current);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

const struct config *live_config_acquire(struct live_config *l)
{
    HOLD(&l->lock);
    return config_hold(l->current);
}

/* The address cannot be that of a later one while the caller holds it. */
bool live_config_is(struct live_config *l, const struct config *c)
{
    return atomic_load_explicit(&l->current, memory_order_acquire) == c;
}

bool live_config_replace(struct live_config *l, const struct config *expected, const struct config *next)
{
    (void)pthread_mutex_lock(&l->lock);
    bool first = l->current == expected;
    if (first) {
        l->current = config_hold(next);
        log_set_level(next->log_level); /* under the lock: of two changes the later one's level stays */
        log_set_format(next->log_format);
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (first)
        config_release(expected);
    return first;
}
