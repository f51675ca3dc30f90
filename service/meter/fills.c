/* SPDX-License-Identifier: MIT */
#include "service/meter/fills.h"

#include <stdbool.h>
#include <stdlib.h>

/* The last entries of an array that is written in a circle. */
struct ring {
    struct fill *array;
    unsigned size, count, next;
};

struct fills {
    uint64_t incarnation;
    struct ring fine, coarse;
    struct fill fine_ones[FILLS_FINE], coarse_ones[FILLS_COARSE];
};

struct fills *fills_new(void)
{
    struct fills *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->fine = (struct ring){.array = s->fine_ones, .size = FILLS_FINE};
    s->coarse = (struct ring){.array = s->coarse_ones, .size = FILLS_COARSE};
    return s;
}

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

static bool is_due(uint32_t now, uint32_t last, uint32_t interval)
{
    return last == 0 || now >= last + interval;
}

void fills_note(struct fills *s, uint64_t incarnation, const struct fill *one)
{
    /* If the clock was set back far, the curve would go back, too. */
    bool back = one->at_s + FILLS_COARSE_S < newest(&s->fine);
    if (s->incarnation != incarnation || back) {
        s->incarnation = incarnation;
        s->fine.count = s->coarse.count = 0;
    }
    if (is_due(one->at_s, newest(&s->fine), FILLS_FINE_S))
        put(&s->fine, one);
    if (is_due(one->at_s, newest(&s->coarse), FILLS_COARSE_S))
        put(&s->coarse, one);
}

size_t fills_read(const struct fills *s, struct fill *out)
{
    size_t count = 0;
    uint32_t from = s->fine.count == 0 ? UINT32_MAX : at(&s->fine, 0)->at_s;
    for (unsigned i = 0; i < s->coarse.count; i++) {
        const struct fill *one = at(&s->coarse, i);
        if (one->at_s < from) /* the finer ones begin here */
            out[count++] = *one;
    }
    for (unsigned i = 0; i < s->fine.count; i++)
        out[count++] = *at(&s->fine, i);
    return count;
}
