/* SPDX-License-Identifier: MIT */
#include "shard/resident/bitmap.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/background.h"
#include "base/clock.h"

enum { HUGE_PAGE = 2 << 20, STATE_BITS = 3, FEW_BITS = 4 /* even */, COPIED_WORDS = 512 };

_Static_assert(sizeof(atomic_word) == 8, "words lie in memory as the bytes of a shard do");

/* The place of bit @p of a block in word p / 64: bit 7 - p % 8 of byte p / 8. */
static inline unsigned word_shift(unsigned p)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (p ^ 7) % 64;
#else
    return 63 - p % 64;
#endif
}

/* --- memory --- */

/* Map @bytes zero bytes, which take memory only once they are written. If a huge page fits, they begin at the
 * boundary of one, and whole huge pages are advised: in 177 MiB a look-up takes 72 ns with them, 126 ns
 * without. */
static void *map(size_t bytes, size_t *mapped)
{
    size_t huge = bytes / HUGE_PAGE * HUGE_PAGE;
    size_t room = bytes + (huge > 0 ? HUGE_PAGE : 0);
    uint8_t *at =
        mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    *mapped = bytes;
    if (huge == 0)
        return at;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = -(uintptr_t)at % HUGE_PAGE;
    size_t end = (before + bytes + page - 1) / page * page;
    if (before > 0)
        (void)munmap(at, before);
    if (end < room)
        (void)munmap(at + end, room - end);
    (void)madvise(at + before, huge, MADV_HUGEPAGE); /* without huge pages it is only slower */
    return at + before;
}

enum err bitmap_new(struct bitmap **out, const struct geometry *g, uint16_t tag, struct error *e)
{
    struct bitmap *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    b->geometry = *g;
    b->tag = tag;
    b->block_words = g->block_bits / 64;
    b->shard_bytes = geometry_shard_bytes(g);
    b->shard_words = b->shard_bytes / 8;
    b->shard_pages = (b->shard_bytes + BITMAP_PAGE - 1) / BITMAP_PAGE;
    b->words = map((size_t)g->shards * b->shard_bytes, &b->mapped);
    b->marks = map((size_t)g->shards * b->shard_pages * sizeof(*b->marks), &b->marks_mapped);
    b->state = calloc(g->shards, sizeof(*b->state));
    b->marked = calloc(g->shards, sizeof(*b->marked));
    b->loaded = calloc(g->shards, sizeof(*b->loaded));
    b->copies = calloc(g->shards, sizeof(*b->copies));
    b->checked = calloc(g->shards, sizeof(*b->checked));
    if (b->words == NULL || b->marks == NULL || b->state == NULL || b->marked == NULL || b->loaded == NULL ||
        b->copies == NULL || b->checked == NULL) {
        bitmap_free(b);
        return error_set(e, ERR_NOMEM, "no memory for %u shards of %u bytes", g->shards,
                         geometry_shard_bytes(g));
    }
    *out = b;
    return ERR_OK;
}

void bitmap_free(struct bitmap *b)
{
    if (b == NULL)
        return;
    if (b->words != NULL)
        (void)munmap(b->words, b->mapped);
    if (b->marks != NULL)
        (void)munmap(b->marks, b->marks_mapped);
    free(b->state);
    free(b->marked);
    free(b->loaded);
    free(b->copies);
    free(b->checked);
    free(b);
}

size_t bitmap_overhead(const struct bitmap *b)
{
    return sizeof(*b) + b->marks_mapped +
           b->geometry.shards * (sizeof(*b->state) + sizeof(*b->marked) + sizeof(*b->loaded) +
                                 sizeof(*b->copies) + sizeof(*b->checked));
}

static atomic_word *shard_words(const struct bitmap *b, uint32_t shard)
{
    return b->words + (size_t)shard * b->shard_words;
}

static atomic_word *shard_marks(const struct bitmap *b, uint32_t shard)
{
    return b->marks + (size_t)shard * b->shard_pages;
}

static atomic_word *block_words(const struct bitmap *b, const struct key_place *place)
{
    return shard_words(b, place->shard) + (size_t)place->block * b->block_words;
}

/* The word with the marks of a block: that lies within one page, as both are powers of two. */
static atomic_word *block_marks(const struct bitmap *b, const struct key_place *place)
{
    return shard_marks(b, place->shard) + place->block * (b->block_words / (BITMAP_UNIT / 8)) / 64;
}

static void clear(uintptr_t from, uintptr_t to)
{
    for (; from < to; from += 8)
        atomic_store_explicit((atomic_word *)from, 0,
                              memory_order_release); // NOLINT(performance-no-int-to-ptr)
}

/* Zero @shard: give whole pages back to the system, and clear the parts of pages that it shares with
 * neighbours. */
static void forget(struct bitmap *b, uint32_t shard)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)shard_words(b, shard), to = from + b->shard_bytes;
    uintptr_t first = (from + page - 1) / page * page, last = to / page * page;
    if (first >= last ||
        madvise((void *)first, last - first, MADV_DONTNEED) != 0) // NOLINT(performance-no-int-to-ptr)
        first = last = to;
    clear(from, first);
    clear(last, to);
    for (uint32_t i = 0; i < b->shard_pages; i++)
        atomic_store_explicit(&shard_marks(b, shard)[i], 0, memory_order_relaxed);
    atomic_store_explicit(&b->marked[shard], 0, memory_order_relaxed);
    b->loaded[shard] = 0;
}

struct reserve {
    struct bitmap *bitmap;
    size_t at, end; /* in words */
};

/* Write to each page without changing it. */
static void reserve(void *arg, uint64_t until)
{
    struct reserve *r = arg;
    size_t page = (size_t)sysconf(_SC_PAGESIZE) / sizeof(*r->bitmap->words);
    for (; r->at < r->end && (until == UINT64_MAX || clock_mono_us() < until); r->at += page)
        atomic_fetch_or_explicit(&r->bitmap->words[r->at], 0, memory_order_relaxed);
}

void bitmap_reserve(struct bitmap *b, uint32_t first, uint32_t count)
{
    struct reserve r = {
        .bitmap = b, .at = (size_t)first * b->shard_words, .end = (size_t)(first + count) * b->shard_words};
    uint64_t bytes = (uint64_t)count * b->shard_bytes;
    if (bytes > BITMAP_FEW_BYTES)
        background_run(reserve, &r, clock_mono_us() + bytes / BITMAP_CLEAR_RATE);
    else
        reserve(&r, UINT64_MAX);
}

/* --- states --- */

static uint32_t state_of(const struct bitmap *b, uint32_t shard)
{
    return atomic_load_explicit(&b->state[shard], memory_order_acquire);
}

enum bitmap_state bitmap_state(const struct bitmap *b, uint32_t shard)
{
    return (enum bitmap_state)(state_of(b, shard) % BITMAP_STATES);
}

bool bitmap_is_loading(const struct bitmap *b, uint32_t shard)
{
    enum bitmap_state state = bitmap_state(b, shard);
    return state == BITMAP_LOADING || state == BITMAP_RELOADING;
}

uint32_t bitmap_stamp(const struct bitmap *b, uint32_t shard)
{
    uint32_t state = state_of(b, shard);
    return state % BITMAP_STATES >= BITMAP_RESIDENT ? state : 0;
}

bool bitmap_stayed(const struct bitmap *b, uint32_t shard, uint32_t stamp)
{
    return stamp != 0 && bitmap_stamp(b, shard) == stamp;
}

void bitmap_change(struct bitmap *b, uint32_t shard, enum bitmap_state state)
{
    uint32_t version = (state_of(b, shard) >> STATE_BITS) + 1;
    atomic_store(&b->state[shard], version << STATE_BITS | (uint32_t)state);
    if (state == BITMAP_ABSENT)
        forget(b, shard);
    else if (state == BITMAP_RELOADING)
        b->loaded[shard] = 0;
}

/* --- look-up --- */

static void fetch(const struct bitmap *b, const atomic_word *block)
{
    for (unsigned word = 0; word < b->block_words; word += BITMAP_UNIT / 8)
        __builtin_prefetch((const void *)(block + word), 0, 3);
}

void bitmap_fetch(const struct bitmap *b, const struct key_place *place)
{
    fetch(b, block_words(b, place));
    __builtin_prefetch((const void *)block_marks(b, place), 1, 3);
}

void bitmap_aim(const struct bitmap *b, struct key_hash hash, struct bitmap_aim *out)
{
    struct key_place at;
    hash_block(&b->geometry, hash, &at);
    *out = (struct bitmap_aim){.block = block_words(b, &at), .low = hash.low, .shard = at.shard};
    fetch(b, out->block);
}

/* The bit as the lowest bit of the result. */
static inline uint64_t is_set(const atomic_word *block, unsigned p)
{
    return atomic_load_explicit(&block[p / 64], memory_order_acquire) >> word_shift(p);
}

/* Places bits as hash_place() does; with an odd number the last one of a pair is left out. The first few bits
 * already show nearly all absent keys. Nobody can foretell which bit does, so there is no branch for each
 * bit. */
static inline bool all_there(const struct bitmap *b, const struct bitmap_aim *aim)
{
    uint64_t state = aim->low, range = b->geometry.block_bits - BLOCK_TAG_BITS, all = 1;
    unsigned one, two, hashes = b->geometry.hashes;
    for (unsigned i = 1; i < hashes; i += 2) {
        hash_two_bits(&state, range, &one, &two);
        all &= is_set(aim->block, one) & is_set(aim->block, two);
        if (i == FEW_BITS - 1 && all == 0)
            return false;
    }
    if (hashes % 2 != 0) {
        hash_two_bits(&state, range, &one, &two);
        all &= is_set(aim->block, one);
    }
    return all != 0;
}

/* A shard may have to be loaded again while it is looked at: "no" counts only if its state was the same
 * before and after. A set bit is true forever. */
static uint8_t answer(const struct bitmap *b, uint32_t shard, uint32_t before, bool all)
{
    bool whole = before % BITMAP_STATES >= BITMAP_RESIDENT && state_of(b, shard) == before;
    return (uint8_t)(all ? BITMAP_YES : whole ? BITMAP_NO : BITMAP_UNKNOWN);
}

/* Memory of a shard that is absent is not read: the system may take up to a huge page for a read, and clears
 * it first. */
uint8_t bitmap_see(const struct bitmap *b, const struct bitmap_aim *aim)
{
    uint32_t before = state_of(b, aim->shard);
    if (before % BITMAP_STATES == BITMAP_ABSENT)
        return BITMAP_UNKNOWN;
    return answer(b, aim->shard, before, all_there(b, aim));
}

/* --- bits --- */

/* Mark behind the bits: a thread that takes the mark finds the bits in its copy, or the mark is set once
 * more. */
static void mark(struct bitmap *b, uint32_t shard, uint32_t unit, uint64_t units)
{
    atomic_fetch_or_explicit(&shard_marks(b, shard)[unit / 64], units << unit % 64, memory_order_release);
    atomic_store_explicit(&b->marked[shard], 1, memory_order_release);
}

/* Return the units of the block in which a bit was not set. */
static uint64_t set_bits(struct bitmap *b, const struct key_place *place)
{
    atomic_word *block = block_words(b, place);
    uint64_t units = 0;
    for (unsigned i = 0; i < b->geometry.hashes; i++) {
        unsigned p = place->bits[i];
        atomic_word *word = &block[p / 64];
        uint64_t bit = UINT64_C(1) << word_shift(p);
        if ((atomic_load(word) & bit) == 0 && (atomic_fetch_or(word, bit) & bit) == 0)
            units |= UINT64_C(1) << p / 8 / BITMAP_UNIT;
    }
    return units;
}

/* Wait until no words are copied into @shard. */
static uint32_t copies_of(const struct bitmap *b, uint32_t shard)
{
    uint32_t copies;
    while ((copies = atomic_load(&b->copies[shard])) % 2 != 0)
        sched_yield();
    return copies;
}

bool bitmap_set(struct bitmap *b, const struct key_place *place)
{
    uint64_t units = 0;
    uint32_t copies;
    do {
        copies = copies_of(b, place->shard);
        units |= set_bits(b, place);
    } while (atomic_load(&b->copies[place->shard]) != copies);
    if (units != 0) /* a block lies within one page: both are powers of two */
        mark(b, place->shard, place->block * (b->block_words / (BITMAP_UNIT / 8)), units);
    return units != 0;
}

/* --- loading --- */

static enum err check_tags(const struct bitmap *b, uint32_t shard, uint32_t offset, const uint8_t *bytes,
                           uint32_t length, struct error *e)
{
    uint32_t block_bytes = b->block_words * 8;
    for (uint32_t at = 0; at < length; at += block_bytes)
        if ((bytes[at] << 8 | bytes[at + 1]) != b->tag)
            return error_set(e, ERR_LOST, "block %u of shard %u does not begin with its tag",
                             (offset + at) / block_bytes, shard);
    return ERR_OK;
}

static enum err check_piece(const struct bitmap *b, uint32_t shard, uint32_t offset, const uint8_t *bytes,
                            uint32_t length, struct error *e)
{
    if (!bitmap_is_loading(b, shard) || offset != b->loaded[shard] || length % (b->block_words * 8) != 0 ||
        length > b->shard_bytes - offset)
        return error_set(e, ERR_CONFLICT, "shard %u: %u bytes at %u are not the next piece", shard, length,
                         offset);
    return check_tags(b, shard, offset, bytes, length, e);
}

/* OR @count words. One atomic OR for each would take five times as long. A bit that is set between the load
 * and the store of its word is lost: the thread that set it finds that `copies` is another one afterwards,
 * and sets it again. So does a thread that found such a bit set. */
static void or_words(struct bitmap *b, uint32_t shard, uint32_t at, const uint8_t *from, uint32_t count)
{
    atomic_word *to = shard_words(b, shard) + at;
    atomic_fetch_add(&b->copies[shard], 1);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value;
        memcpy(&value, from + (size_t)i * 8, 8);
        atomic_store_explicit(&to[i], atomic_load(&to[i]) | value, memory_order_relaxed);
    }
    atomic_fetch_add(&b->copies[shard], 1);
}

enum err bitmap_or(struct bitmap *b, uint32_t shard, uint32_t offset, const void *bytes, uint32_t length,
                   struct error *e)
{
    enum err code = check_piece(b, shard, offset, bytes, length, e);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < length / 8; i += COPIED_WORDS) {
        uint32_t left = length / 8 - i;
        or_words(b, shard, offset / 8 + i, (const uint8_t *)bytes + (size_t)i * 8,
                 left < COPIED_WORDS ? left : COPIED_WORDS);
    }
    b->loaded[shard] += length;
    return ERR_OK;
}

enum err bitmap_join(struct bitmap *b, uint32_t shard, uint32_t offset, const void *bytes, uint32_t length,
                     struct error *e)
{
    if (bitmap_stamp(b, shard) == 0 || offset % BITMAP_UNIT != 0 || length % (b->block_words * 8) != 0 ||
        offset > b->shard_bytes || length > b->shard_bytes - offset)
        return error_set(e, ERR_CONFLICT, "shard %u is not whole in memory", shard);
    enum err code = check_tags(b, shard, offset, bytes, length, e);
    const uint8_t *from = bytes;
    atomic_word *to = shard_words(b, shard) + offset / 8;
    for (uint32_t i = 0; i < length / 8 && code == ERR_OK; i++) {
        uint64_t value;
        memcpy(&value, from + (size_t)i * 8, 8);
        uint64_t old = atomic_fetch_or_explicit(&to[i], value, memory_order_relaxed);
        if ((old & ~value) != 0) /* the thread that sets a bit later marks it itself */
            mark(b, shard, (offset + i * 8) / BITMAP_UNIT, 1);
    }
    return code;
}

bool bitmap_is_loaded(const struct bitmap *b, uint32_t shard)
{
    return b->loaded[shard] == b->shard_bytes;
}
