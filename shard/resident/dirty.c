/* SPDX-License-Identifier: MIT */
#include "shard/resident/dirty.h"

#include <string.h>

enum { PAGE_UNITS = BITMAP_PAGE / BITMAP_UNIT };

_Static_assert(PAGE_UNITS == 64, "a page's marks are one word");

static atomic_word *page_marks(const struct bitmap *b, uint32_t shard, uint32_t page)
{
    return &b->marks[(size_t)shard * b->shard_pages + page];
}

/* The last page of a shard may have fewer units. */
static unsigned page_units(const struct bitmap *b, uint32_t page)
{
    uint32_t left = b->shard_bytes / BITMAP_UNIT - page * PAGE_UNITS;
    return left < PAGE_UNITS ? left : PAGE_UNITS;
}

static uint64_t all_units(unsigned units)
{
    return units == PAGE_UNITS ? UINT64_MAX : (UINT64_C(1) << units) - 1;
}

static void mark_page(struct bitmap *b, uint32_t shard, uint32_t page, uint64_t units)
{
    atomic_fetch_or_explicit(page_marks(b, shard, page), units, memory_order_release);
    atomic_store_explicit(&b->marked[shard], 1, memory_order_release);
}

static void copy(struct bitmap *b, struct dirty_batch *out, uint32_t offset, uint32_t length)
{
    const atomic_word *from = b->words + ((size_t)out->shard * b->shard_bytes + offset) / 8;
    struct dirty_piece *last = out->count > 0 ? &out->piece[out->count - 1] : NULL;
    if (last != NULL && last->offset + last->length == offset)
        last->length += length;
    else
        out->piece[out->count++] = (struct dirty_piece){.offset = offset, .length = length};
    for (uint32_t i = 0; i < length / 8; i++) {
        uint64_t value = atomic_load_explicit(&from[i], memory_order_acquire); /* acquire: the stamp is looked
                                                                                * at afterwards */
        memcpy(out->bytes + out->length, &value, 8);
        out->length += 8;
    }
}

/* Copy each run of units that are set in @units. */
static void copy_units(struct bitmap *b, struct dirty_batch *out, uint32_t page, uint64_t units)
{
    while (units != 0) {
        unsigned first = (unsigned)__builtin_ctzll(units);
        uint64_t run = ~(units >> first);
        unsigned count = run == 0 ? PAGE_UNITS : (unsigned)__builtin_ctzll(run);
        copy(b, out, page * BITMAP_PAGE + first * BITMAP_UNIT, count * BITMAP_UNIT);
        units = first + count == PAGE_UNITS ? 0 : units >> (first + count) << (first + count);
    }
}

static void take_page(struct bitmap *b, struct dirty_batch *out, uint32_t page)
{
    uint64_t units = atomic_exchange_explicit(page_marks(b, out->shard, page), 0, memory_order_acq_rel);
    if (__builtin_popcountll(units) >= DIRTY_PAGE_AT)
        units = all_units(page_units(b, page));
    copy_units(b, out, page, units);
}

bool dirty_next(const struct bitmap *b, uint32_t *shard)
{
    for (; *shard < b->geometry.shards; ++*shard)
        if (atomic_load_explicit(&b->marked[*shard], memory_order_acquire) != 0 &&
            bitmap_stamp(b, *shard) != 0)
            return true;
    return false;
}

static void take_pages(struct bitmap *b, uint32_t *page, struct dirty_batch *out)
{
    for (; *page < b->shard_pages; ++*page) {
        if (atomic_load_explicit(page_marks(b, out->shard, *page), memory_order_relaxed) == 0)
            continue;
        if (out->length > DIRTY_BATCH_BYTES - BITMAP_PAGE) { /* the next page may not fit, whatever is marked
                                                              * there by then */
            atomic_store_explicit(&b->marked[out->shard], 1, memory_order_release);
            return;
        }
        take_page(b, out, *page);
    }
}

/* Only a whole shard is copied: one that is not lacks bits that Redis has, and would overwrite them. So may
 * one that has to be loaded again since. The shard's flag @marked is cleared at the first page only, as marks
 * that come later set it again. */
bool dirty_take_from(struct bitmap *b, uint32_t shard, uint32_t *page, struct dirty_batch *out)
{
    uint32_t stamp = bitmap_stamp(b, shard);
    out->shard = shard;
    out->count = 0;
    out->length = 0;
    if (stamp == 0 ||
        (*page == 0 && atomic_exchange_explicit(&b->marked[shard], 0, memory_order_acq_rel) == 0))
        return false;
    take_pages(b, page, out);
    if (out->count > 0 && !bitmap_stayed(b, shard, stamp)) {
        dirty_put_back(b, out);
        out->count = 0;
    }
    return out->count > 0;
}

bool dirty_copy(struct bitmap *b, uint32_t shard, uint32_t *page, struct dirty_batch *out)
{
    out->shard = shard;
    out->count = 0;
    out->length = 0;
    for (; *page < b->shard_pages && out->length <= DIRTY_BATCH_BYTES - BITMAP_PAGE; ++*page)
        copy_units(b, out, *page, all_units(page_units(b, *page)));
    return out->count > 0;
}

void dirty_put_back(struct bitmap *b, const struct dirty_batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++) {
        uint32_t unit = batch->piece[i].offset / BITMAP_UNIT, left = batch->piece[i].length / BITMAP_UNIT;
        for (unsigned some; left > 0; unit += some, left -= some) {
            unsigned at = unit % PAGE_UNITS;
            some = left < PAGE_UNITS - at ? left : PAGE_UNITS - at;
            mark_page(b, batch->shard, unit / PAGE_UNITS, all_units(some) << at);
        }
    }
}

void dirty_mark_all(struct bitmap *b, uint32_t shard)
{
    for (uint32_t page = 0; page < b->shard_pages; page++)
        mark_page(b, shard, page, all_units(page_units(b, page)));
}

uint64_t dirty_bytes(const struct bitmap *b, uint32_t shard)
{
    uint64_t units = 0;
    if (atomic_load_explicit(&b->marked[shard], memory_order_acquire) != 0)
        for (uint32_t page = 0; page < b->shard_pages; page++)
            units += (unsigned)__builtin_popcountll(
                atomic_load_explicit(page_marks(b, shard, page), memory_order_relaxed));
    return units * BITMAP_UNIT;
}
