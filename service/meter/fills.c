/* SPDX-License-Identifier: MIT */
#include "service/meter/fills.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { FORGET_S = 24 * 3600, CHAINS = 1024 };

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
    struct sampled *chain[CHAINS];
    unsigned count;
    uint32_t forgot_s; /* when old ones were last looked for */
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
    for (size_t i = 0; i < CHAINS; i++)
        for (struct sampled *one = s->chain[i], *next; one != NULL; one = next) {
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

static struct sampled **chain_of(struct fills *s, const char *name, size_t length)
{
    return &s->chain[XXH3_64bits(name, length) % CHAINS];
}

static struct sampled *find(struct fills *s, const char *name, size_t length)
{
    struct sampled *one = *chain_of(s, name, length);
    while (one != NULL && (one->length != length || memcmp(one->name, name, length) != 0))
        one = one->link;
    return one;
}

static void forget_old(struct fills *s, struct sampled **link, uint32_t now_s)
{
    struct sampled *one;
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
    bool looks = s->count >= FILLS_FILTERS_MAX && now_s - s->forgot_s >= FILLS_FINE_S;
    for (size_t i = 0; i < CHAINS && looks; i++)
        forget_old(s, &s->chain[i], now_s);
    if (looks)
        s->forgot_s = now_s;
    struct sampled *one = s->count >= FILLS_FILTERS_MAX ? NULL : calloc(1, sizeof(*one) + length);
    if (one == NULL)
        return NULL;
    memcpy(one->name, name, length);
    one->length = length;
    one->fine = (struct ring){.array = one->fine_ones, .size = FILLS_FINE};
    one->coarse = (struct ring){.array = one->coarse_ones, .size = FILLS_COARSE};
    struct sampled **chain = chain_of(s, name, length);
    one->link = *chain;
    *chain = one;
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
