/* SPDX-License-Identifier: MIT */
#include "migrate/build/bitmaps.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORD_BITS = 64, LINE_BYTES = 64, LINE_COUNTS = LINE_BYTES / sizeof(uint64_t), COUNTS_MAX = 1 << 19 };

/* Bit p of a block is bit 7 - p % 8 of byte p / 8 (block.h). XOR with this gives its number in a word of
 * memory. */
enum { BIT_FLIP = __BYTE_ORDER == __LITTLE_ENDIAN ? 7 : 63 };

/* The lock of a block: the first bit of its tag, as bitmaps hold no tags. */
#define LOCK (UINT64_C(1) << BIT_FLIP)

struct bitmaps {
    struct geometry geometry;
    size_t block_words, shard_words, words;
    uint32_t first; /* first of the shards that are held */
    bool alone;     /* there is one writer, so blocks need no lock */
    unsigned lanes; /* rows of counts: one per writer, or one for all */
    size_t stride;  /* counts per row, a multiple of a cache line */
    uint64_t *counts;
    uint64_t *bits;
};

/* --- construction --- */

static size_t counts_bytes(const struct bitmaps *b)
{
    return b->lanes * b->stride * sizeof(*b->counts);
}

enum err bitmaps_new(struct bitmaps **out, const struct geometry *g, uint32_t held, unsigned writers,
                     struct error *e)
{
    struct bitmaps *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "bitmaps: out of memory");
    *b = (struct bitmaps){.geometry = *g,
                          .block_words = g->block_bits / WORD_BITS,
                          .shard_words = geometry_shard_bytes(g) / sizeof(uint64_t),
                          .alone = writers == 1};
    b->words = held * b->shard_words;
    /* A count that two writers share is a cache line that moves between processors. With many shards two
     * writers rarely need the same line. */
    b->lanes = (uint64_t)writers * held <= COUNTS_MAX ? writers : 1;
    b->stride = (held + LINE_COUNTS - 1) / LINE_COUNTS * LINE_COUNTS;
    b->counts = aligned_alloc(LINE_BYTES, counts_bytes(b));
    if (b->counts != NULL)
        memset(b->counts, 0, counts_bytes(b));
    size_t bytes = b->words * sizeof(*b->bits);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    b->bits = map == MAP_FAILED ? NULL : map;
    if (b->counts == NULL || b->bits == NULL) {
        bitmaps_free(b);
        return error_set(e, ERR_NOMEM, "no memory for %zu bytes of bitmaps; lower build_memory", bytes);
    }
    (void)madvise(b->bits, bytes, MADV_HUGEPAGE); /* a key is one random access: fewer TLB misses */
    *out = b;
    return ERR_OK;
}

void bitmaps_free(struct bitmaps *b)
{
    if (b == NULL)
        return;
    if (b->bits != NULL)
        (void)munmap(b->bits, b->words * sizeof(*b->bits));
    free(b->counts);
    free(b);
}

void bitmaps_writer_init(struct bitmaps_writer *w, struct bitmaps *b, unsigned index)
{
    *w = (struct bitmaps_writer){.bitmaps = b, .added = b->counts + index % b->lanes * b->stride};
}

void bitmaps_hold(struct bitmaps *b, uint32_t first)
{
    /* After MADV_DONTNEED anonymous memory reads as zeros. */
    if (madvise(b->bits, b->words * sizeof(*b->bits), MADV_DONTNEED) != 0)
        memset(b->bits, 0, b->words * sizeof(*b->bits));
    memset(b->counts, 0, counts_bytes(b));
    b->first = first;
}

/* --- bits --- */

static inline uint64_t *shard_at(const struct bitmaps *b, uint32_t shard)
{
    return b->bits + (shard - b->first) * b->shard_words;
}

static inline uint64_t *block_at(const struct bitmaps *b, const struct key_place *place)
{
    return shard_at(b, place->shard) + place->block * b->block_words;
}

/* For one writer at a time; a bitmaps_or() may run meanwhile. */
static bool set_bits(uint64_t *block, const struct key_place *place, unsigned hashes)
{
    uint64_t unset = 0;
    for (unsigned i = 0; i < hashes; i++) {
        uint64_t *word = &block[place->bits[i] / WORD_BITS];
        uint64_t mask = UINT64_C(1) << (place->bits[i] % WORD_BITS ^ BIT_FLIP);
        uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
        unset |= ~old & mask;
        __atomic_store_n(word, old | mask, __ATOMIC_RELAXED);
    }
    return unset != 0;
}

/* The count is stored after the bits (release), so whoever reads it in bitmaps_added() sees the bits. */
static void count_new(struct bitmaps_writer *w, uint32_t index, bool own_lane)
{
    uint64_t *added = &w->added[index];
    if (own_lane)
        __atomic_store_n(added, __atomic_load_n(added, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
    else
        (void)__atomic_fetch_add(added, 1, __ATOMIC_RELEASE);
}

/* Several writers lock a block in turn: that is one atomic operation instead of one per bit, on a cache line
 * that has to come from memory anyway. Two writers rarely want the same block at the same time. What is new
 * is counted before the block is free: a writer that finds its key's bits there may end its page, and a flush
 * behind that page must write them. */
static void set_shared(struct bitmaps_writer *w, uint64_t *block, const struct key_place *place)
{
    const struct bitmaps *b = w->bitmaps;
    while ((__atomic_fetch_or(block, LOCK, __ATOMIC_ACQUIRE) & LOCK) != 0)
        (void)sched_yield();
    if (set_bits(block, place, b->geometry.hashes))
        count_new(w, place->shard - b->first, b->lanes > 1);
    __atomic_store_n(block, __atomic_load_n(block, __ATOMIC_RELAXED) & ~LOCK, __ATOMIC_RELEASE);
}

void bitmaps_apply(struct bitmaps_writer *w)
{
    const struct bitmaps *b = w->bitmaps;
    for (unsigned i = 0; i < w->waiting; i++) {
        const struct key_place *place = &w->place[i];
        uint64_t *block = block_at(b, place);
        if (!b->alone)
            set_shared(w, block, place);
        else if (set_bits(block, place, b->geometry.hashes))
            count_new(w, place->shard - b->first, true);
    }
    w->waiting = 0;
}

void bitmaps_put(struct bitmaps_writer *w, struct key_hash h)
{
    const struct bitmaps *b = w->bitmaps;
    struct key_place *place = &w->place[w->waiting];
    hash_place(&b->geometry, h, place);
    const uint64_t *block = block_at(b, place);
    for (size_t i = 0; i < b->block_words; i += LINE_BYTES / sizeof(*block))
        __builtin_prefetch(block + i, 1);
    if (++w->waiting == BITMAPS_AHEAD)
        bitmaps_apply(w);
}

uint64_t bitmaps_added(const struct bitmaps *b, uint32_t shard)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < b->lanes; i++)
        sum += __atomic_load_n(&b->counts[i * b->stride + shard - b->first], __ATOMIC_ACQUIRE);
    return sum;
}

bool bitmaps_or(const struct bitmaps *b, uint32_t shard, uint32_t at, uint8_t *bytes)
{
    const uint64_t *from = shard_at(b, shard) + at / sizeof(*from);
    uint64_t lacked = 0;
    for (size_t i = 0; i < BITMAPS_UNIT / sizeof(*from); i++) {
        uint64_t had, bits = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
        if (i == 0 && at / sizeof(*from) % b->block_words == 0)
            bits &= ~LOCK;
        memcpy(&had, bytes + i * sizeof(had), sizeof(had));
        lacked |= bits & ~had;
        had |= bits;
        memcpy(bytes + i * sizeof(had), &had, sizeof(had));
    }
    return lacked != 0;
}
