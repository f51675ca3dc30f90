/* SPDX-License-Identifier: MIT */
/* The happy path of a flush in memory is: for each shard with new keys, copy its bits and write the copy.
 * With spilled hashes: seal what was put; for each partition read its hashes, set their bits, write its
 * shards, drop the hashes.
 *
 * Possible failure modes are: an error of the output, and a caller that stops the flush. In memory a shard
 * counts as flushed when its write has arrived, and its bits stay. Spilled hashes are dropped only when all
 * shards of their partition have arrived; until then the next flush repeats the whole partition. */
#include "migrate/build/build.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "migrate/build/bitmaps.h"
#include "migrate/build/log_output.h"
#include "migrate/build/partitions.h"
#include "migrate/build/spill.h"

struct build_writer {
    _Alignas(64) struct spill_writer *spill; /* NULL: bitmaps in memory */
    struct bitmaps_writer keys;              /* used with bitmaps in memory */
};

/* Copies of shards that are being written to Redis, because the bitmaps go on changing. */
struct under_way {
    uint64_t *bits; /* LOG_OUTPUT_MAX shards */
    unsigned count;
    uint32_t shard[LOG_OUTPUT_MAX];
    uint64_t added[LOG_OUTPUT_MAX]; /* keys in the copy of each shard */
};

struct build {
    struct build_options o;
    struct builder *builder;
    struct log_output output;
    struct geometry geometry; /* of the output's layer */
    struct periodic periodic;
    struct partitions partitions;
    /* In memory: all shards, for all writers. Spilled: one partition, for the driver. */
    struct bitmaps *bitmaps;
    struct spill *spill;          /* NULL: bitmaps in memory */
    struct under_way sent;        /* used with bitmaps in memory */
    uint64_t *flushed;            /* by shard: number of keys in Redis; used with bitmaps in memory */
    uint64_t fresh;               /* new keys flushed since build_take_count() */
    struct bitmaps_writer keys;   /* the driver's, when hashes are spilled */
    struct build_writer *writers; /* of the rows; behind them the one of the lanes' entries */
    unsigned writer_count;
};

static bool spills(const struct build *b)
{
    return b->partitions.count > 1;
}

/* --- construction --- */

static enum err plan(struct build *b, struct error *e)
{
    const struct build_options *o = &b->o;
    enum err code = partitions_plan(&b->partitions, &b->geometry, 1, o->memory, "build_memory", e);
    if (code == ERR_OK && spills(b) &&
        (o->spill_dir == NULL || o->spill_dir[0] == '\0' || o->spill_bytes == 0))
        code = error_set(e, ERR_CONFIG,
                         "bitmaps of %" PRIu64 " bytes do not fit into build_memory (%" PRIu64
                         "), and there is no spill_dir",
                         geometry_bytes(&b->geometry), o->memory);
    return code;
}

static enum err make_parts(struct build *b, struct error *e)
{
    const struct build_options *o = &b->o;
    b->writers = aligned_alloc(_Alignof(struct build_writer), b->writer_count * sizeof(*b->writers));
    b->flushed = calloc(b->geometry.shards, sizeof(*b->flushed));
    if (!spills(b))
        b->sent.bits = calloc(LOG_OUTPUT_MAX, geometry_shard_bytes(&b->geometry));
    if (b->writers == NULL || b->flushed == NULL || (!spills(b) && b->sent.bits == NULL))
        return error_set(e, ERR_NOMEM, "build: out of memory");
    enum err code =
        bitmaps_new(&b->bitmaps, &b->geometry, b->partitions.each, spills(b) ? 1 : b->writer_count, e);
    if (code == ERR_OK && spills(b))
        code = spill_new(&b->spill, o->spill_dir, b->partitions.count, b->writer_count, e);
    return code;
}

static void make_writers(struct build *b)
{
    if (spills(b))
        bitmaps_writer_init(&b->keys, b->bitmaps, 0);
    for (unsigned i = 0; i < b->writer_count; i++) {
        struct build_writer *w = &b->writers[i];
        memset(w, 0, sizeof(*w));
        if (spills(b))
            w->spill = spill_writer(b->spill, i);
        else
            bitmaps_writer_init(&w->keys, b->bitmaps, i);
    }
}

enum err build_new(struct build **out, struct builder *builder, const struct build_options *o,
                   struct error *e)
{
    if (o->writers == 0 || o->writers > BUILD_WRITERS_MAX)
        return error_set(e, ERR_RANGE, "%u writers are not between 1 and %d", o->writers, BUILD_WRITERS_MAX);
    struct build *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "build: out of memory");
    builder_go_back(builder); /* the bitmaps are empty */
    b->o = *o;
    b->builder = builder;
    b->geometry = builder->shape.layers[builder->shape.layer_count - 1].geometry;
    b->writer_count = o->writers + 1;
    b->periodic = (struct periodic){.output = &b->output, .fn = o->poll, .arg = o->poll_arg};
    enum err code = log_output_init(&b->output, builder, e);
    if (code == ERR_OK)
        code = plan(b, e);
    if (code == ERR_OK)
        code = make_parts(b, e);
    if (code != ERR_OK) {
        build_free(b);
        return code;
    }
    make_writers(b);
    *out = b;
    return ERR_OK;
}

void build_free(struct build *b)
{
    if (b == NULL)
        return;
    bitmaps_free(b->bitmaps);
    spill_free(b->spill);
    free(b->sent.bits);
    free(b->flushed);
    free(b->writers);
    log_output_fini(&b->output);
    free(b);
}

/* --- writers --- */

void build_put(struct build *b, unsigned writer, struct key_hash h)
{
    struct build_writer *w = &b->writers[writer];
    struct key_hash mixed = hash_mix(h, b->builder->shape.seed);
    if (w->spill == NULL)
        bitmaps_put(&w->keys, mixed);
    else
        spill_put(w->spill, partitions_of(&b->partitions, mixed), mixed);
}

enum err build_page_end(struct build *b, unsigned writer, struct error *e)
{
    struct build_writer *w = &b->writers[writer];
    if (w->spill != NULL)
        return spill_page_end(w->spill, e);
    bitmaps_apply(&w->keys);
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
    return spills(b) ? spill_bytes(b->spill) : 0;
}

bool build_wants_flush(const struct build *b)
{
    return build_spilled_bytes(b) > b->o.spill_bytes / 2;
}

bool build_is_full(const struct build *b)
{
    return spills(b) && build_spilled_bytes(b) >= b->o.spill_bytes;
}

uint32_t build_partitions(const struct build *b)
{
    return b->partitions.count;
}

uint64_t build_take_count(struct build *b)
{
    uint64_t n = b->fresh;
    b->fresh = 0;
    return n;
}

/* --- flush of bitmaps in memory --- */

static enum err arrive(struct build *b, struct error *e)
{
    struct under_way *s = &b->sent;
    enum err code = log_output_wait(&b->output, e);
    for (unsigned i = 0; i < s->count && code == ERR_OK; i++) {
        b->fresh += s->added[i] - b->flushed[s->shard[i]];
        b->flushed[s->shard[i]] = s->added[i];
    }
    s->count = 0;
    return code;
}

static enum err send(struct build *b, uint32_t shard, uint64_t added, struct error *e)
{
    struct under_way *s = &b->sent;
    enum err code = s->count == LOG_OUTPUT_MAX ? arrive(b, e) : ERR_OK;
    if (code != ERR_OK)
        return code;
    uint64_t *bits = s->bits + s->count * (geometry_shard_bytes(&b->geometry) / sizeof(*bits));
    s->shard[s->count] = shard;
    s->added[s->count++] = added;
    bitmaps_copy(b->bitmaps, shard, bits);
    return log_output_put(&b->output, shard, bits, e);
}

/* --- flush of spilled hashes --- */

static enum err set_bits(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e)
{
    struct build *b = arg;
    for (uint32_t i = 0; i < count; i++)
        bitmaps_put(&b->keys, hashes[i]);
    return periodic_call(&b->periodic, e);
}

static enum err write_partition(struct build *b, uint32_t first, uint32_t count, struct error *e)
{
    uint64_t fresh = 0;
    enum err code = ERR_OK;
    for (uint32_t i = first; i < first + count && code == ERR_OK; i++) {
        uint64_t added = bitmaps_added(b->bitmaps, i);
        if (added == 0)
            continue;
        fresh += added;
        code = periodic_call(&b->periodic, e);
        if (code == ERR_OK)
            code = log_output_put(&b->output, i, bitmaps_bytes(b->bitmaps, i), e);
    }
    if (code == ERR_OK)
        code = log_output_wait(&b->output, e);
    if (code == ERR_OK)
        b->fresh += fresh;
    return code;
}

static enum err drain_partition(struct build *b, uint32_t partition, struct error *e)
{
    uint32_t first, count;
    if (!spill_file_holds(spill_sealed(b->spill), partition))
        return ERR_OK;
    partitions_shards(&b->partitions, partition, &b->geometry, &first, &count);
    bitmaps_hold(b->bitmaps, first);
    b->keys.waiting = 0;
    enum err code = spill_file_read(spill_sealed(b->spill), partition, set_bits, b, e);
    if (code != ERR_OK)
        return code;
    bitmaps_apply(&b->keys);
    code = write_partition(b, first, count, e);
    if (code == ERR_OK)
        spill_file_forget(spill_sealed(b->spill), partition);
    return code;
}

static enum err drain(struct build *b, struct error *e)
{
    enum err code = spill_seal(b->spill, &b->periodic, e);
    for (uint32_t i = 0; i < b->partitions.count && code == ERR_OK; i++)
        code = drain_partition(b, i, e);
    return code;
}

/* --- both --- */

/* After an error no write is under way: either the output gave up, or the writes were awaited before @poll
 * was called. */
enum err build_flush(struct build *b, struct error *e)
{
    enum err code = ERR_OK;
    b->sent.count = 0; /* copies of a failed flush: they are written again */
    if (spills(b)) {
        /* A failed flush leaves a sealed file, which lacks the hashes put since. That file comes first. */
        code = spill_is_sealed(b->spill) ? drain(b, e) : ERR_OK;
        if (code == ERR_OK)
            code = drain(b, e);
        bitmaps_hold(b->bitmaps, 0); /* frees the memory */
        return code;
    }
    for (uint32_t i = 0; i < b->geometry.shards && code == ERR_OK; i++) {
        uint64_t added = bitmaps_added(b->bitmaps, i);
        if (added == b->flushed[i])
            continue;
        code = periodic_call(&b->periodic, e);
        if (code == ERR_OK)
            code = send(b, i, added, e);
    }
    return code == ERR_OK ? arrive(b, e) : code;
}

/* Note the positions before writing what they passed. If no row is put meanwhile, the counted keys are
 * exactly those up to the positions. */
static enum err bring(struct build *b, struct error *e)
{
    enum err code = build_follow(b, e);
    builder_note(b->builder);
    if (code == ERR_OK && !b->builder->took_over)
        code = builder_take_over(b->builder, e);
    if (code == ERR_OK)
        code = build_flush(b, e);
    if (code == ERR_OK)
        b->builder->keys += build_take_count(b);
    return code == ERR_OK ? builder_wrote(b->builder, e) : code;
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
