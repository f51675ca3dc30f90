/* SPDX-License-Identifier: MIT */
#include "service/meter/fills.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FORGET_S = 24 * 3600 };

/* The last entries of an array that is written in a circle. */
struct ring {
    unsigned count, next;
};

struct sampled {
    struct sampled *link;
    char *name;
    size_t length;
    uint64_t incarnation;
    struct ring fine_ring, coarse_ring;
    struct fill fine[FILLS_FINE], coarse[FILLS_COARSE];
};

struct fills {
    pthread_mutex_t lock;
    struct sampled *filters;
    unsigned count;
};

struct fills *fills_new(void)
{
    struct fills *s = calloc(1, sizeof(*s));
    if (s != NULL)
        (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

void fills_free(struct fills *s)
{
    if (s == NULL)
        return;
    for (struct sampled *one = s->filters, *next; one != NULL; one = next) {
        next = one->link;
        free(one->name);
        free(one);
    }
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* --- rings --- */

static void put(struct fill *array, unsigned size, struct ring *ring, const struct fill *one)
{
    array[ring->next] = *one;
    ring->next = (ring->next + 1) % size;
    ring->count += ring->count < size;
}

static const struct fill *at(const struct fill *array, unsigned size, const struct ring *ring, unsigned i)
{
    return &array[(ring->next + size - ring->count + i) % size];
}

/* Time of the newest entry; 0: there is none. */
static uint32_t newest(const struct fill *array, unsigned size, const struct ring *ring)
{
    return ring->count == 0 ? 0 : at(array, size, ring, ring->count - 1)->at_s;
}

/* --- filters --- */

static struct sampled *find(struct fills *s, const char *name, size_t length)
{
    for (struct sampled *one = s->filters; one != NULL; one = one->link)
        if (one->length == length && memcmp(one->name, name, length) == 0)
            return one;
    return NULL;
}

static void forget_old(struct fills *s, uint32_t now_s)
{
    struct sampled **link = &s->filters, *one;
    while ((one = *link) != NULL) {
        uint32_t last = newest(one->fine, FILLS_FINE, &one->fine_ring);
        if (last > now_s || now_s - last <= FORGET_S) {
            link = &one->link;
            continue;
        }
        *link = one->link;
        free(one->name);
        free(one);
        s->count--;
    }
}

static struct sampled *make(struct fills *s, const char *name, size_t length, uint32_t now_s)
{
    if (s->count >= FILLS_FILTERS_MAX)
        forget_old(s, now_s);
    struct sampled *one = s->count >= FILLS_FILTERS_MAX ? NULL : calloc(1, sizeof(*one));
    if (one == NULL || (one->name = malloc(length + 1)) == NULL) {
        free(one);
        return NULL;
    }
    memcpy(one->name, name, length);
    one->name[length] = '\0';
    one->length = length;
    one->link = s->filters;
    s->filters = one;
    s->count++;
    return one;
}

static bool is_due(uint32_t now, uint32_t last, uint32_t interval)
{
    return last == 0 || now >= last + interval;
}

void fills_note(struct fills *s, const char *name, size_t length, uint64_t incarnation,
                const struct fill *one)
{
    (void)pthread_mutex_lock(&s->lock);
    struct sampled *of = find(s, name, length);
    if (of == NULL)
        of = make(s, name, length, one->at_s);
    /* If the clock was set back far, the curve would go back, too. */
    bool back = of != NULL && one->at_s + FILLS_COARSE_S < newest(of->fine, FILLS_FINE, &of->fine_ring);
    if (of != NULL && (of->incarnation != incarnation || back)) {
        of->incarnation = incarnation;
        of->fine_ring = of->coarse_ring = (struct ring){0};
    }
    if (of != NULL && is_due(one->at_s, newest(of->fine, FILLS_FINE, &of->fine_ring), FILLS_FINE_S))
        put(of->fine, FILLS_FINE, &of->fine_ring, one);
    if (of != NULL && is_due(one->at_s, newest(of->coarse, FILLS_COARSE, &of->coarse_ring), FILLS_COARSE_S))
        put(of->coarse, FILLS_COARSE, &of->coarse_ring, one);
    (void)pthread_mutex_unlock(&s->lock);
}

size_t fills_read(struct fills *s, const char *name, size_t length, struct fill *out)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&s->lock);
    const struct sampled *of = find(s, name, length);
    unsigned fine = of == NULL ? 0 : of->fine_ring.count, coarse = of == NULL ? 0 : of->coarse_ring.count;
    uint32_t from = fine == 0 ? UINT32_MAX : at(of->fine, FILLS_FINE, &of->fine_ring, 0)->at_s;
    for (unsigned i = 0; i < coarse; i++) {
        const struct fill *one = at(of->coarse, FILLS_COARSE, &of->coarse_ring, i);
        if (one->at_s < from) /* the finer ones begin here */
            out[count++] = *one;
    }
    for (unsigned i = 0; i < fine; i++)
        out[count++] = *at(of->fine, FILLS_FINE, &of->fine_ring, i);
    (void)pthread_mutex_unlock(&s->lock);
    return count;
}
