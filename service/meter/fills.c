/* SPDX-License-Identifier: MIT */
#include "service/meter/fills.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FORGET_S = 24 * 3600 };

/* The last entries of an array that is written in a circle. */
struct ring {
    struct fill *array;
    unsigned size, count, next;
};

struct sampled {
    struct sampled *link;
    uint64_t incarnation;
    struct ring fine, coarse;
    struct fill fine_ones[FILLS_FINE], coarse_ones[FILLS_COARSE];
    size_t length;
    char name[];
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
        free(one);
    }
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* --- rings --- */

static void put(struct ring *r, const struct fill *one)
{
    r->array[r->next] = *one;
    r->next = (r->next + 1) % r->size;
    r->count += r->count < r->size;
}

static const struct fill *at(const struct ring *r, unsigned i)
{
    return &r->array[(r->next + r->size - r->count + i) % r->size];
}

/* Time of the newest entry; 0: there is none. */
static uint32_t newest(const struct ring *r)
{
    return r->count == 0 ? 0 : at(r, r->count - 1)->at_s;
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
        uint32_t last = newest(&one->fine);
        if (last > now_s || now_s - last <= FORGET_S) {
            link = &one->link;
            continue;
        }
        *link = one->link;
        free(one);
        s->count--;
    }
}

static struct sampled *make(struct fills *s, const char *name, size_t length, uint32_t now_s)
{
    if (s->count >= FILLS_FILTERS_MAX)
        forget_old(s, now_s);
    struct sampled *one = s->count >= FILLS_FILTERS_MAX ? NULL : calloc(1, sizeof(*one) + length);
    if (one == NULL)
        return NULL;
    memcpy(one->name, name, length);
    one->length = length;
    one->fine = (struct ring){.array = one->fine_ones, .size = FILLS_FINE};
    one->coarse = (struct ring){.array = one->coarse_ones, .size = FILLS_COARSE};
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
    HOLD(&s->lock);
    struct sampled *of = find(s, name, length);
    if (of == NULL)
        of = make(s, name, length, one->at_s);
    /* If the clock was set back far, the curve would go back, too. */
    bool back = of != NULL && one->at_s + FILLS_COARSE_S < newest(&of->fine);
    if (of != NULL && (of->incarnation != incarnation || back)) {
        of->incarnation = incarnation;
        of->fine.count = of->coarse.count = 0;
    }
    if (of != NULL && is_due(one->at_s, newest(&of->fine), FILLS_FINE_S))
        put(&of->fine, one);
    if (of != NULL && is_due(one->at_s, newest(&of->coarse), FILLS_COARSE_S))
        put(&of->coarse, one);
}

size_t fills_read(struct fills *s, const char *name, size_t length, struct fill *out)
{
    size_t count = 0;
    HOLD(&s->lock);
    const struct sampled *of = find(s, name, length);
    unsigned fine = of == NULL ? 0 : of->fine.count, coarse = of == NULL ? 0 : of->coarse.count;
    uint32_t from = fine == 0 ? UINT32_MAX : at(&of->fine, 0)->at_s;
    for (unsigned i = 0; i < coarse; i++) {
        const struct fill *one = at(&of->coarse, i);
        if (one->at_s < from) /* the finer ones begin here */
            out[count++] = *one;
    }
    for (unsigned i = 0; i < fine; i++)
        out[count++] = *at(&of->fine, i);
    return count;
}
