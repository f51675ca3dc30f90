/* SPDX-License-Identifier: MIT */
/* The happy path of a flush in memory is: write each shard with new keys. With spilled hashes: seal what was
 * put; for each partition read its hashes, set their bits, write its shards, drop the hashes.
 *
 * Possible failure modes are: an error of the output, and a caller that stops the flush. In memory a shard
 * counts as flushed when its write has arrived, and its bits stay. Spilled hashes are dropped only when all
 * shards of their partition have arrived; until then the next flush repeats the whole partition. */
#include "migrate/build/build.h"

#include <stdlib.h>
#include <string.h>
#include "migrate/build/bitmaps.h"

struct build {
    struct build_options o;
    struct builder *builder;
    struct log_output output;
    struct geometry geometry; /* of the output's layer */
    struct periodic periodic;
    struct partitions partitions;
    /* In memory: all shards, for all writers. Spilled: one partition, for the driver. */
    struct bitmaps *bitmaps;
    struct spill *spill; /* NULL: bitmaps in memory */
    /* In memory: of the rows, and behind them the one of the lanes' entries. Spilled: the driver's. */
    struct bitmaps_writer *writers;
};

/* --- construction --- */

static enum err make_parts(struct build *b, struct error *e)
{
    unsigned writers = b->o.writers + 1;
    enum err code = spill_plan(&b->spill, &b->partitions, &b->geometry, 1, &b->o, writers, e);
    if (code == ERR_OK && b->spill != NULL)
        writers = 1;
    if (code == ERR_OK)
        code = bitmaps_new(&b->bitmaps, &b->geometry, b->partitions.each, writers, e);
    if (code != ERR_OK)
        return code;
    b->output.bitmaps = b->bitmaps;
    b->writers = aligned_alloc(_Alignof(struct bitmaps_writer), writers * sizeof(*b->writers));
    if (b->writers == NULL)
        return error_set(e, ERR_NOMEM, "build: out of memory");
    for (unsigned i = 0; i < writers; i++)
        bitmaps_writer_init(&b->writers[i], b->bitmaps, i);
    return ERR_OK;
}

enum err build_new(struct build **out, struct builder *builder, const struct build_options *o,
                   struct error *e)
{
    struct build *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "build: out of memory");
    builder_go_back(builder); /* the bitmaps are empty */
    b->o = *o;
    b->builder = builder;
    b->geometry = builder->shape.layers[builder->shape.layer_count - 1].geometry;
    b->periodic = (struct periodic){.output = &b->output, .work = o->poll};
    enum err code = log_output_init(&b->output, builder, e);
    if (code == ERR_OK)
        code = make_parts(b, e);
    if (code == ERR_OK)
        *out = b;
    else
        build_free(b);
    return code;
}

void build_free(struct build *b)
{
    if (b == NULL)
        return;
    bitmaps_free(b->bitmaps);
    spill_free(b->spill);
    free(b->writers);
    log_output_fini(&b->output);
    free(b);
}

/* --- writers --- */

void build_put(struct build *b, unsigned writer, struct key_hash h)
{
    struct key_hash mixed = hash_mix(h, b->builder->shape.seed);
    if (b->spill == NULL)
        bitmaps_put(&b->writers[writer], mixed);
    else
        spill_put(spill_writer(b->spill, writer), partitions_of(&b->partitions, mixed), mixed);
}

enum err build_page_end(struct build *b, unsigned writer, struct error *e)
{
    if (b->spill != NULL)
        return spill_page_end(spill_writer(b->spill, writer), e);
    bitmaps_apply(&b->writers[writer]);
    return ERR_OK;
}

/* --- entries of the lanes --- */

static enum err put_entry(void *arg, const struct tail_record *record, struct error *e UNUSED)
{
    struct build *b = arg;
    for (unsigned i = 0; i < record->entry.count; i++)
        build_put(b, b->o.writers, log_entry_hash(&record->entry, i));
    return ERR_OK;
}

/* An error may come after positions have moved: the entries that they passed are handed over in that case,
 * too. */
enum err build_follow(struct build *b, struct error *e)
{
    struct error why;
    enum err code = builder_follow(b->builder, put_entry, b, e);
    enum err ended = build_page_end(b, b->o.writers, code == ERR_OK ? e : &why);
    return code == ERR_OK ? ended : code;
}

/* --- figures --- */

uint64_t build_spilled_bytes(const struct build *b)
{
    return b->spill != NULL ? spill_bytes(b->spill) : 0;
}

bool build_wants_flush(const struct build *b)
{
    return build_spilled_bytes(b) > b->o.spill_bytes / 2;
}

bool build_is_full(const struct build *b)
{
    return b->spill != NULL && build_spilled_bytes(b) >= b->o.spill_bytes;
}

uint32_t build_partitions(const struct build *b)
{
    return b->partitions.count;
}

uint64_t build_take_count(struct build *b)
{
    uint64_t n = b->output.fresh;
    b->output.fresh = 0;
    return n;
}

/* --- flush --- */

static enum err write_shards(struct build *b, uint32_t first, uint32_t count, struct error *e)
{
    enum err code = ERR_OK;
    for (uint32_t i = first; i < first + count && code == ERR_OK; i++) {
        if (bitmaps_added(b->bitmaps, i) == b->output.written[i])
            continue;
        code = periodic_call(&b->periodic, e);
        if (code == ERR_OK)
            code = log_output_put(&b->output, i, e);
    }
    return code == ERR_OK ? log_output_wait(&b->output, e) : code;
}

static enum err set_bits(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e)
{
    struct build *b = arg;
    for (uint32_t i = 0; i < count; i++)
        bitmaps_put(b->writers, hashes[i]);
    return periodic_call(&b->periodic, e);
}

/* Nothing of a partition counts as written before all of it is. */
static enum err drain_partition(void *arg, uint32_t partition, struct error *e)
{
    struct build *b = arg;
    uint32_t first, count;
    const uint64_t fresh = b->output.fresh;
    partitions_shards(&b->partitions, partition, &b->geometry, &first, &count);
    bitmaps_hold(b->bitmaps, first);
    memset(b->output.written + first, 0, count * sizeof(*b->output.written));
    b->writers->waiting = 0;
    enum err code = spill_file_read(spill_sealed(b->spill), partition, set_bits, b, e);
    bitmaps_apply(b->writers);
    if (code == ERR_OK)
        code = write_shards(b, first, count, e);
    if (code != ERR_OK)
        b->output.fresh = fresh;
    return code;
}

/* After an error no write is under way: either the output gave up, or the writes were awaited before @poll
 * was called. */
enum err build_flush(struct build *b, struct error *e)
{
    if (b->spill == NULL)
        return write_shards(b, 0, b->geometry.shards, e);
    enum err code = spill_drain(b->spill, &b->periodic, drain_partition, b, e);
    bitmaps_hold(b->bitmaps, 0); /* frees the memory */
    return code;
}

/* Note the positions before writing what they passed. If no row is put meanwhile, the counted keys are
 * exactly those up to the positions. */
static enum err bring(struct build *b, struct error *e)
{
    enum err code = build_follow(b, e);
    builder_note(b->builder);
    sync_client_pin(b->builder->fold.redis);
    if (code == ERR_OK)
        code = builder_prepare(b->builder, e);
    if (code == ERR_OK)
        code = build_flush(b, e);
    if (code == ERR_OK)
        b->builder->keys += build_take_count(b);
    if (code == ERR_OK)
        code = builder_wrote(b->builder, e);
    sync_client_unpin(b->builder->fold.redis);
    return code;
}

enum err build_checkpoint(struct build *b, const void *rows, size_t length, struct error *e)
{
    enum err code = bring(b, e);
    return code == ERR_OK ? builder_record(b->builder, rows, length, e) : code;
}

enum err build_cutover(struct build *b, bool heals, struct error *e)
{
    bool read = false;
    enum err code = ERR_OK;
    while (code == ERR_OK && !read) {
        code = bring(b, e);
        if (code == ERR_OK)
            code = builder_cutover(b->builder, heals, &read, e);
    }
    return code;
}
