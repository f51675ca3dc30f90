/* SPDX-License-Identifier: MIT */
/* Pinned blocks, while shards load. A whole block lacks nothing:
 *
 *   an entry is applied                      | and is in the block, because
 *   -----------------------------------------+------------------------------------------------------------
 *   behind the pin                           | its bits are set there, whatever the shard's state is
 *   before it, the shard not resident then   | it is in the overlay when the reply is taken; or it was
 *                                            | dropped there: `folded` had passed it before the read began,
 *                                            | so the reply has it
 *   before it, the shard resident then       | no block is asked for while the shard is resident
 *
 * Two locks decide what "behind the pin" means. States change under the write lock of `changing`; entries and
 * pins take its read lock, so a shard has one state for both. An entry of a shard that is not resident goes
 * into the overlay first, and then looks whether any block is pinned. A pin is counted first, and then begins
 * its read under the overlay's lock. So if the entry did not see the pin, the read began after the entry was
 * in the overlay. */
#include "shard/resident/resident.h"

uint32_t resident_view(const struct resident *r)
{
    return atomic_load_explicit(&r->view, memory_order_acquire);
}

/* Under the write lock: a reply is taken before both steps, or behind both. Whole blocks stay whole: the
 * argument above does not need a view. */
void resident_discard(struct resident *r)
{
    pthread_rwlock_wrlock(&r->changing);
    overlay_discard(r->overlay);
    atomic_fetch_add(&r->view, 1);
    pthread_rwlock_unlock(&r->changing);
}

static enum err pin(struct resident *r, const struct block_at *at, struct overlay_read *read,
                    enum resident_pin *out, struct error *e)
{
    const struct bitmap *b = r->layer[at->layer];
    bool whole = false;
    *out = PIN_NEEDLESS;
    if (bitmap_stamp(b, at->shard) != 0)
        return ERR_OK;
    enum err code = blocks_pin(r->blocks, at, b->geometry.block_bits / 8, r->base, &whole, e);
    if (code != ERR_OK)
        return code;
    *out = whole ? PIN_WHOLE : PIN_ASK;
    if (!whole)
        overlay_read_begin(r->overlay, read);
    return ERR_OK;
}

enum err resident_pin(struct resident *r, uint32_t view, const struct block_at *at, struct overlay_read *read,
                      enum resident_pin *out, struct error *e)
{
    pthread_rwlock_rdlock(&r->changing);
    enum err code = resident_view(r) == view
                        ? pin(r, at, read, out, e)
                        : error_set(e, ERR_FENCED, "the view of the filter changed meanwhile");
    pthread_rwlock_unlock(&r->changing);
    return code;
}

bool resident_take_block(struct resident *r, const struct block_at *at, struct overlay_read *read,
                         uint8_t *bytes)
{
    pthread_rwlock_rdlock(&r->changing);
    bool counts = overlay_read_end(r->overlay, read, at->layer, &r->layer[at->layer]->geometry, at->shard,
                                   at->block, bytes);
    if (counts)
        blocks_fill(r->blocks, at, r->base, bytes);
    pthread_rwlock_unlock(&r->changing);
    return counts;
}

void resident_drop_read(struct resident *r, struct overlay_read *read)
{
    overlay_read_cancel(r->overlay, read);
}

void resident_unpin(struct resident *r, const struct block_at *at)
{
    blocks_unpin(r->blocks, at);
}
