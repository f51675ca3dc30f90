/* SPDX-License-Identifier: MIT */
#include "shard/resident/blocks.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>
#include "shard/filter/block.h"

enum { STRIPES = 16, BUCKETS_MIN = 16 };

struct pin {
    LIST_ENTRY(pin) next; /* in its bucket */
    struct block_at at;
    unsigned holders;
    uint32_t whole; /* the base that the block was read for; 0: it was not read */
    uint32_t length;
    uint8_t bytes[];
};
LIST_HEAD(pins, pin);

/* A part of the blocks; a block's hash says which. */
struct stripe {
    pthread_mutex_t lock;
    struct pins *buckets; /* NULL: no block is pinned */
    size_t bucket_count;  /* a power of two */
    uint64_t count, bytes;
};

struct blocks {
    _Atomic uint64_t pinned;
    struct budget *budget;
    struct stripe stripe[STRIPES];
};

struct blocks *blocks_new(struct budget *budget)
{
    struct blocks *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return NULL;
    b->budget = budget;
    for (unsigned i = 0; i < STRIPES; i++)
        (void)pthread_mutex_init(&b->stripe[i].lock, NULL); /* does not fail with default attributes */
    return b;
}

void blocks_free(struct blocks *b)
{
    if (b == NULL)
        return;
    assert(b->pinned == 0);
    for (unsigned i = 0; i < STRIPES; i++) {
        free(b->stripe[i].buckets); /* left over if there was no memory for a pin */
        (void)pthread_mutex_destroy(&b->stripe[i].lock);
    }
    free(b);
}

/* --- the map; all under the stripe's lock --- */

static uint64_t hash(const struct block_at *at)
{
    uint64_t h = ((uint64_t)at->shard << 32 | at->block) + at->layer * UINT64_C(0xd6e8feb86659fd93);
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

static struct stripe *stripe_of(struct blocks *b, const struct block_at *at)
{
    return &b->stripe[hash(at) % STRIPES];
}

static struct pins *bucket_of(struct stripe *s, const struct block_at *at)
{
    return &s->buckets[hash(at) / STRIPES & (s->bucket_count - 1)];
}

static struct pin *find(struct stripe *s, const struct block_at *at)
{
    struct pin *p = NULL;
    if (s->count > 0)
        LIST_FOREACH(p, bucket_of(s, at), next)
    if (p->at.block == at->block && p->at.shard == at->shard && p->at.layer == at->layer)
        break;
    return p;
}

/* Have as many buckets as blocks. False: no memory for the first buckets. Later, without memory, chains
 * grow. */
static bool widen(struct stripe *s)
{
    struct pins *was = s->buckets;
    size_t was_count = s->bucket_count;
    if (s->count < was_count)
        return true;
    size_t count = was_count == 0 ? BUCKETS_MIN : was_count * 2;
    struct pins *wider = calloc(count, sizeof(*wider));
    if (wider == NULL)
        return was != NULL;
    s->buckets = wider;
    s->bucket_count = count;
    for (size_t i = 0; i < was_count; i++)
        while (!LIST_EMPTY(&was[i])) {
            struct pin *p = LIST_FIRST(&was[i]);
            LIST_REMOVE(p, next);
            LIST_INSERT_HEAD(bucket_of(s, &p->at), p, next);
        }
    free(was);
    return true;
}

static uint64_t bytes_of(uint32_t length)
{
    return sizeof(struct pin) + length;
}

static enum err add_pin(struct blocks *b, struct stripe *s, const struct block_at *at, uint32_t length,
                        struct error *e)
{
    if (!budget_pin(b->budget, bytes_of(length)))
        return error_set(
            e, ERR_NOMEM,
            "requests under way need more than %d MiB of blocks of shards that are not in memory; "
            "repeat it, or raise resident_memory",
            BUDGET_PINNED_MAX >> 20);
    struct pin *p = widen(s) ? calloc(1, bytes_of(length)) : NULL;
    if (p == NULL) {
        budget_unpin(b->budget, bytes_of(length));
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    p->at = *at;
    p->holders = 1;
    p->length = length;
    LIST_INSERT_HEAD(bucket_of(s, at), p, next);
    s->count++;
    s->bytes += bytes_of(length);
    b->pinned++;
    return ERR_OK;
}

static void remove_pin(struct blocks *b, struct stripe *s, struct pin *p)
{
    LIST_REMOVE(p, next);
    s->count--;
    s->bytes -= bytes_of(p->length);
    b->pinned--;
    budget_unpin(b->budget, bytes_of(p->length));
    free(p);
    if (s->count > 0)
        return;
    free(s->buckets);
    s->buckets = NULL;
    s->bucket_count = 0;
}

/* --- holders --- */

bool blocks_any(const struct blocks *b)
{
    return atomic_load_explicit(&b->pinned, memory_order_relaxed) > 0;
}

void blocks_size(struct blocks *b, uint64_t *count, uint64_t *bytes)
{
    *count = *bytes = 0;
    for (unsigned i = 0; i < STRIPES; i++) {
        pthread_mutex_lock(&b->stripe[i].lock);
        *count += b->stripe[i].count;
        *bytes += b->stripe[i].bytes;
        pthread_mutex_unlock(&b->stripe[i].lock);
    }
}

enum err blocks_pin(struct blocks *b, const struct block_at *at, uint32_t length, uint32_t base, bool *whole,
                    struct error *e)
{
    struct stripe *s = stripe_of(b, at);
    enum err code = ERR_OK;
    pthread_mutex_lock(&s->lock);
    struct pin *p = find(s, at);
    *whole = p != NULL && p->whole == base;
    if (p != NULL)
        p->holders++;
    else
        code = add_pin(b, s, at, length, e);
    pthread_mutex_unlock(&s->lock);
    return code;
}

void blocks_unpin(struct blocks *b, const struct block_at *at)
{
    struct stripe *s = stripe_of(b, at);
    pthread_mutex_lock(&s->lock);
    struct pin *p = find(s, at);
    assert(p != NULL);
    if (--p->holders == 0)
        remove_pin(b, s, p);
    pthread_mutex_unlock(&s->lock);
}

void blocks_fill(struct blocks *b, const struct block_at *at, uint32_t base, const uint8_t *bytes)
{
    struct stripe *s = stripe_of(b, at);
    pthread_mutex_lock(&s->lock);
    struct pin *p = find(s, at);
    assert(p != NULL && base != 0);
    if (p->whole != base)
        for (uint32_t i = 0; i < p->length; i++)
            p->bytes[i] |= bytes[i];
    p->whole = base;
    pthread_mutex_unlock(&s->lock);
}

/* --- bits --- */

static struct block_at at_of(unsigned layer, const struct key_place *place)
{
    return (struct block_at){.layer = layer, .shard = place->shard, .block = place->block};
}

enum bitmap_answer blocks_look(struct blocks *b, unsigned layer, const struct geometry *g, uint32_t base,
                               const struct key_place *place)
{
    const struct block_at at = at_of(layer, place);
    struct stripe *s = stripe_of(b, &at);
    enum bitmap_answer answer = BITMAP_UNKNOWN;
    pthread_mutex_lock(&s->lock);
    const struct pin *p = find(s, &at);
    if (p != NULL && block_has(g, place, p->bytes)) /* in a block that is not whole, too, a set bit is true */
        answer = BITMAP_YES;
    else if (p != NULL && p->whole == base)
        answer = BITMAP_NO;
    pthread_mutex_unlock(&s->lock);
    return answer;
}

enum blocks_set blocks_set(struct blocks *b, unsigned layer, const struct geometry *g, uint32_t base,
                           const struct key_place *place)
{
    const struct block_at at = at_of(layer, place);
    struct stripe *s = stripe_of(b, &at);
    enum blocks_set set = BLOCKS_SILENT;
    pthread_mutex_lock(&s->lock);
    struct pin *p = find(s, &at);
    if (p != NULL) {
        struct key_place within = *place;
        within.block = 0;
        bool is_new = block_set(g, &within, p->bytes);
        set = p->whole != base ? BLOCKS_SILENT : is_new ? BLOCKS_NEW : BLOCKS_OLD;
    }
    pthread_mutex_unlock(&s->lock);
    return set;
}
