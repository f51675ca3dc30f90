/* SPDX-License-Identifier: MIT */
#include "service/meter/fills.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Those in a row that say the same are one entry; the oldest first. */
struct curve {
    struct fill *array;
    unsigned count, room;
    uint32_t interval_s, span_s; /* how far it goes back */
};

struct fills {
    uint64_t incarnation;
    struct curve fine, coarse;
};

struct fills *fills_new(void)
{
    struct fills *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->fine = (struct curve){.interval_s = FILLS_FINE_S, .span_s = FILLS_FINE * FILLS_FINE_S};
    s->coarse = (struct curve){.interval_s = FILLS_COARSE_S, .span_s = FILLS_COARSE * FILLS_COARSE_S};
    return s;
}

void fills_free(struct fills *s)
{
    if (s == NULL)
        return;
    free(s->fine.array);
    free(s->coarse.array);
    free(s);
}

/* Time of the newest sample; 0: there is none. */
static uint32_t newest(const struct curve *c)
{
    return c->count == 0 ? 0 : c->array[c->count - 1].until_s;
}

static bool says_the_same(const struct fill *a, const struct fill *b)
{
    const size_t from = offsetof(struct fill, rate);
    return memcmp((const char *)a + from, (const char *)b + from, sizeof(*a) - from) == 0;
}

static void put(struct curve *c, const struct fill *one)
{
    unsigned old = 0;
    if (c->count > 0 && one->at_s < newest(c) + c->interval_s)
        return;
    while (old < c->count && c->array[old].until_s + c->span_s <= one->at_s)
        old++;
    c->count -= old;
    if (old > 0)
        memmove(c->array, c->array + old, c->count * sizeof(c->array[0]));
    if (c->count == 0 || !says_the_same(&c->array[c->count - 1], one)) {
        unsigned room = c->count < c->room ? c->room : c->room + c->room / 4 + 2;
        struct fill *larger = room == c->room ? c->array : realloc(c->array, room * sizeof(*larger));
        if (larger == NULL)
            return;
        c->array = larger;
        c->room = room;
        c->array[c->count++] = *one;
    }
    c->array[c->count - 1].until_s = one->at_s;
}

void fills_note(struct fills *s, uint64_t incarnation, const struct fill *one)
{
    /* If the clock was set back far, the curve would go back, too. */
    bool back = one->at_s + FILLS_COARSE_S < newest(&s->fine);
    if (s->incarnation != incarnation || back) {
        s->incarnation = incarnation;
        s->fine.count = s->coarse.count = 0;
    }
    put(&s->fine, one);
    put(&s->coarse, one);
}

/* Copy the samples of before @before to @out. */
static size_t read_curve(const struct curve *c, uint32_t before, struct fill *out)
{
    size_t count = 0;
    for (const struct fill *one = c->array; one < c->array + c->count; one++)
        for (uint32_t at = one->at_s; at <= one->until_s; at += c->interval_s) {
            uint32_t is = one->until_s - at < c->interval_s ? one->until_s : at;
            if (is + c->span_s <= newest(c) || is >= before)
                continue;
            out[count] = *one;
            out[count++].at_s = is;
        }
    return count;
}

size_t fills_read(const struct fills *s, struct fill *out)
{
    struct fill *fine = out + FILLS_COARSE;
    size_t fines = read_curve(&s->fine, UINT32_MAX, fine);
    size_t count = read_curve(&s->coarse, fines == 0 ? UINT32_MAX : fine->at_s, out);
    memmove(out + count, fine, fines * sizeof(*fine));
    return count + fines;
}
