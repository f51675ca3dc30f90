/* SPDX-License-Identifier: MIT */
/* The happy path is, in memory: for each shard with new keys, take its bits and upload them. With spilled
 * hashes: seal what was put; for each partition read its hashes, set their bits, upload its shards, forget
 * it.
 *
 * Possible failure modes are: the output's, and a caller who wants to stop. In memory the bits of uploads
 * that are not known to have arrived are kept and uploaded first by the next flush. Spilled hashes are
 * forgotten only when all shards of their partition have arrived: the next flush does the whole partition
 * again. */
#include "migrate/build_internal.h"

static enum err upload(struct build *b, uint32_t shard, const void *bytes, struct error *e)
{
    return b->o.output->put(b->o.output, b->layer.number, shard, bytes, e);
}

/* --- memory --- */

static uint64_t *slot_bits(struct build *b, unsigned slot)
{
    return b->layer.uploads.bits + slot * (geometry_shard_bytes(&b->layer.geometry) / sizeof(uint64_t));
}

/* Wait until at most @in_flight uploads are under way; the slots of the others are free. */
static enum err settle(struct build *b, unsigned in_flight, struct error *e)
{
    struct build_uploads *u = &b->layer.uploads;
    unsigned left = 0;
    enum err code = b->o.output->wait(b->o.output, in_flight, &left, e);
    if (code != ERR_OK)
        return code;
    unsigned arrived = u->count - left;
    u->first = (u->first + arrived) % BUILD_OUTPUT_MAX;
    u->count -= arrived;
    return ERR_OK;
}

/* What a flush that failed has left. */
static enum err upload_again(struct build *b, struct error *e)
{
    struct build_uploads *u = &b->layer.uploads;
    enum err code = ERR_OK;
    for (unsigned i = 0; i < u->count && code == ERR_OK; i++) {
        unsigned slot = (u->first + i) % BUILD_OUTPUT_MAX;
        code = upload(b, u->shard[slot], slot_bits(b, slot), e);
    }
    return code == ERR_OK ? settle(b, 0, e) : code;
}

static enum err take_and_upload(struct build *b, uint32_t shard, uint64_t added, struct error *e)
{
    struct build_uploads *u = &b->layer.uploads;
    enum err code = settle(b, BUILD_OUTPUT_MAX - 1, e);
    if (code != ERR_OK)
        return code;
    unsigned slot = (u->first + u->count++) % BUILD_OUTPUT_MAX;
    u->shard[slot] = shard;
    if (b->o.counts_once)
        bitmaps_copy(b->layer.bitmaps, shard, slot_bits(b, slot));
    else
        bitmaps_take(b->layer.bitmaps, shard, slot_bits(b, slot));
    b->layer.flushed[shard] = added;
    return upload(b, shard, slot_bits(b, slot), e);
}

static enum err flush_memory(struct build *b, struct error *e)
{
    enum err code = upload_again(b, e);
    for (uint32_t i = 0; i < b->layer.geometry.shards && code == ERR_OK; i++) {
        uint64_t added = bitmaps_added(b->layer.bitmaps, i);
        if (added == b->layer.flushed[i])
            continue;
        code = pulse_beat(&b->pulse, e);
        if (code == ERR_OK)
            code = take_and_upload(b, i, added, e);
    }
    return code == ERR_OK ? settle(b, 0, e) : code;
}

/* --- spilled hashes --- */

struct drain {
    struct build *build;
    uint64_t hashes;
};

static enum err set_bits(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e)
{
    struct drain *d = arg;
    for (uint32_t i = 0; i < count; i++)
        bitmaps_put(&d->build->keys, hashes[i]);
    d->hashes += count;
    return pulse_beat(&d->build->pulse, e);
}

static enum err upload_partition(struct build *b, struct error *e)
{
    struct bitmaps *maps = b->layer.bitmaps;
    uint32_t end = bitmaps_first(maps) + bitmaps_count(maps);
    enum err code = ERR_OK;
    for (uint32_t i = bitmaps_first(maps); i < end && code == ERR_OK; i++) {
        if (bitmaps_added(maps, i) == 0)
            continue;
        code = pulse_beat(&b->pulse, e);
        if (code == ERR_OK)
            code = upload(b, i, bitmaps_bytes(maps, i), e);
    }
    unsigned left = 0;
    return code == ERR_OK ? b->o.output->wait(b->o.output, 0, &left, e) : code;
}

static void count_partition(struct build *b, uint64_t hashes)
{
    struct build_layer *l = &b->layer;
    uint32_t first = bitmaps_first(l->bitmaps);
    for (uint32_t i = first; i < first + bitmaps_count(l->bitmaps); i++) {
        l->flushed[i] += bitmaps_added(l->bitmaps, i);
        l->drained_new += bitmaps_added(l->bitmaps, i);
    }
    l->drained += hashes;
}

static enum err drain_partition(struct build *b, uint32_t partition, struct error *e)
{
    struct build_layer *l = &b->layer;
    struct drain d = {.build = b};
    uint32_t first, count;
    if (!spill_holds(l->spill, partition))
        return ERR_OK;
    partitions_shards(&l->partitions, partition, &l->geometry, &first, &count);
    bitmaps_hold(l->bitmaps, first, count);
    b->keys.waiting = 0;
    enum err code = spill_read(l->spill, partition, set_bits, &d, e);
    if (code != ERR_OK)
        return code;
    bitmaps_apply(&b->keys);
    code = upload_partition(b, e);
    if (code != ERR_OK)
        return code;
    count_partition(b, d.hashes);
    spill_forget(l->spill, partition);
    return ERR_OK;
}

static enum err drain(struct build *b, struct error *e)
{
    enum err code = spill_seal(b->layer.spill, &b->pulse, e);
    for (uint32_t i = 0; i < b->layer.partitions.count && code == ERR_OK; i++)
        code = drain_partition(b, i, e);
    return code;
}

/* What a flush that failed had sealed does not hold what was put since. */
static enum err flush_spilled(struct build *b, struct error *e)
{
    enum err code = spill_is_sealed(b->layer.spill) ? drain(b, e) : ERR_OK;
    if (code == ERR_OK)
        code = drain(b, e);
    bitmaps_hold(b->layer.bitmaps, 0, 0); /* gives the memory back */
    return code;
}

/* --- both --- */

/* The link is the caller's again; what comes of the uploads no longer matters, as they are repeated. */
static void leave_none_in_flight(struct build *b)
{
    struct error ignored;
    unsigned left = 0;
    enum err code = b->o.output->wait(b->o.output, 0, &left, &ignored);
    (void)code;
}

enum err build_flush(struct build *b, struct error *e)
{
    enum err code = build_spills(b) ? flush_spilled(b, e) : flush_memory(b, e);
    if (code != ERR_OK)
        leave_none_in_flight(b);
    return code;
}

bool build_is_flushed(const struct build *b)
{
    const struct build_layer *l = &b->layer;
    if (build_spills(b))
        return spill_is_empty(l->spill);
    for (unsigned i = 0; i < b->o.writers; i++)
        if (b->writers[i].keys.waiting > 0)
            return false;
    for (uint32_t i = 0; i < l->geometry.shards; i++)
        if (bitmaps_added(l->bitmaps, i) != l->flushed[i])
            return false;
    return l->uploads.count == 0;
}
