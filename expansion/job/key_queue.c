/* SPDX-License-Identifier: MIT */
#include "expansion/job/key_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/clock.h"
#include "migrate/source/scan.h"

enum { ROOM = 4 * 1024 * 1024 /* bytes; a key that is longer fits only into an empty queue */ };

struct key_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed, failed;
    struct buffer in;  /* keys as of scan_keep_key() */
    struct buffer out; /* keys that are being taken out */
    size_t at;         /* position in `out` */
};

struct key_queue *key_queue_new(void)
{
    struct key_queue *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return NULL;
    (void)pthread_mutex_init(&b->lock, NULL);
    (void)pthread_cond_init(&b->changed, NULL);
    return b;
}

void key_queue_free(struct key_queue *b)
{
    if (b == NULL)
        return;
    (void)pthread_cond_destroy(&b->changed);
    (void)pthread_mutex_destroy(&b->lock);
    buffer_fini(&b->in);
    buffer_fini(&b->out);
    free(b);
}

bool key_queue_put(struct key_queue *b, const char *key, size_t length)
{
    (void)pthread_mutex_lock(&b->lock);
    while (!b->closed && b->in.length > 0 && b->in.length + length > ROOM)
        (void)pthread_cond_wait(&b->changed, &b->lock);
    bool room = buffer_reserve(&b->in, sizeof(length) + length) != NULL;
    b->failed |= !room;
    bool fine = room && !b->closed;
    if (fine) {
        scan_keep_key(&b->in, key, length);
        (void)pthread_cond_broadcast(&b->changed);
    }
    (void)pthread_mutex_unlock(&b->lock);
    return fine;
}

bool key_queue_failed(struct key_queue *b)
{
    (void)pthread_mutex_lock(&b->lock);
    bool failed = b->failed;
    (void)pthread_mutex_unlock(&b->lock);
    return failed;
}

void key_queue_close(struct key_queue *b)
{
    (void)pthread_mutex_lock(&b->lock);
    b->closed = true;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
}

/* Swap the buffers: what came in can be taken out. */
static void turn(struct key_queue *b, unsigned wait_ms)
{
    const struct timespec until = clock_mono_after((uint64_t)wait_ms * 1000);
    (void)pthread_mutex_lock(&b->lock);
    int late = wait_ms == 0;
    while (b->in.length == 0 && !b->closed && late == 0)
        late = pthread_cond_clockwait(&b->changed, &b->lock, CLOCK_MONOTONIC, &until);
    struct buffer taken = b->in;
    b->in = b->out;
    b->out = taken;
    buffer_clear(&b->in);
    b->at = 0;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
}

size_t key_queue_take(struct key_queue *b, size_t max, const char **keys, size_t *lengths, unsigned wait_ms)
{
    if (b->at == b->out.length)
        turn(b, wait_ms);
    return scan_kept_keys(&b->out, &b->at, max, keys, lengths);
}
