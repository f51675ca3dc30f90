/* SPDX-License-Identifier: MIT */
#include "migrate/verify/compare.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/buffer.h"

enum { AHEAD = 16 /* hides the latency of memory */, READ_BYTES = 4 << 20 };

struct compare_writer {
    _Alignas(64) uint64_t tested; /* since compare_finish() */
    unsigned waiting;
    struct key_hash hash[AHEAD];
    struct bitmap_aim *aim; /* AHEAD for each layer */
};

struct compare {
    struct log_input *input;
    struct build_options o;
    struct periodic periodic;
    unsigned layer_count;
    struct geometry geometry[GENERATION_LAYERS_MAX];
    struct partitions partitions;
    struct spill *spill;            /* NULL: shards in memory */
    bool loaded;                    /* shards in memory: all have been read */
    struct bitmap_aim *aims;        /* of all writers and the driver */
    struct compare_writer *writers; /* the last one is the driver's */
    uint64_t tested;                /* of what was finished */
    pthread_mutex_t lock;           /* guards the fields below while writers test */
    uint64_t total;                 /* missing hashes */
    struct buffer missing;          /* the first of them; where memory is short, fewer than that */
};

/* --- construction --- */

static enum err make_writers(struct compare *c, struct error *e)
{
    unsigned count = c->o.writers + 1;
    size_t each = (size_t)c->layer_count * AHEAD;
    c->aims = calloc(count, each * sizeof(*c->aims));
    c->writers = aligned_alloc(_Alignof(struct compare_writer), count * sizeof(*c->writers));
    if (c->aims == NULL || c->writers == NULL)
        return error_set(e, ERR_NOMEM, "compare: out of memory");
    for (unsigned i = 0; i < count; i++)
        c->writers[i] = (struct compare_writer){.aim = c->aims + i * each};
    return ERR_OK;
}

enum err compare_new(struct compare **out, struct log_input *input, const struct build_options *o,
                     struct error *e)
{
    if (input->generation->layer_count == 0)
        return error_set(e, ERR_RANGE, "there is no generation");
    struct compare *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "compare: out of memory");
    (void)pthread_mutex_init(&c->lock, NULL);
    c->input = input;
    c->o = *o;
    c->periodic = (struct periodic){.work = o->poll};
    c->layer_count = input->generation->layer_count;
    for (unsigned i = 0; i < c->layer_count; i++)
        c->geometry[i] = input->generation->layers[i].geometry;
    enum err code = spill_plan(&c->spill, &c->partitions, c->geometry, c->layer_count, o, o->writers, e);
    if (code == ERR_OK)
        code = make_writers(c, e);
    if (code == ERR_OK)
        *out = c;
    else
        compare_free(c);
    return code;
}

void compare_free(struct compare *c)
{
    if (c == NULL)
        return;
    spill_free(c->spill);
    (void)pthread_mutex_destroy(&c->lock);
    buffer_fini(&c->missing);
    free(c->writers);
    free(c->aims);
    free(c);
}

/* --- testing --- */

static void test_waiting(struct compare *c, struct compare_writer *w)
{
    struct bitmap *const *layers = c->input->resident->layer;
    for (unsigned i = 0; i < w->waiting; i++) {
        bool present = false;
        for (unsigned layer = 0; layer < c->layer_count && !present; layer++)
            present = bitmap_see(layers[layer], &w->aim[layer * AHEAD + i]) == BITMAP_YES;
        if (present)
            continue;
        HOLD(&c->lock);
        c->total++;
        if (c->missing.length < COMPARE_MISSING_MAX * sizeof(w->hash[i]))
            buffer_append(&c->missing, &w->hash[i], sizeof(w->hash[i]));
    }
    w->tested += w->waiting;
    w->waiting = 0;
}

static void test_put(struct compare *c, struct compare_writer *w, struct key_hash h)
{
    for (unsigned layer = 0; layer < c->layer_count; layer++)
        bitmap_aim(c->input->resident->layer[layer], h, &w->aim[layer * AHEAD + w->waiting]);
    w->hash[w->waiting++] = h;
    if (w->waiting == AHEAD)
        test_waiting(c, w);
}

/* --- writers --- */

void compare_put(struct compare *c, unsigned writer, struct key_hash h)
{
    if (c->spill == NULL)
        test_put(c, &c->writers[writer], h);
    else
        spill_put(spill_writer(c->spill, writer), partitions_of(&c->partitions, h), h);
}

enum err compare_page_end(struct compare *c, unsigned writer, struct error *e)
{
    if (c->spill != NULL)
        return spill_page_end(spill_writer(c->spill, writer), e);
    test_waiting(c, &c->writers[writer]);
    return ERR_OK;
}

bool compare_is_full(const struct compare *c)
{
    return c->spill != NULL && spill_bytes(c->spill) >= c->o.spill_bytes;
}

/* --- reading shards --- */

/* Read some shards per call, so that @poll is asked in between. */
static enum err read_layer(struct compare *c, unsigned layer, uint32_t first, uint32_t count, struct error *e)
{
    uint32_t bytes = geometry_shard_bytes(&c->geometry[layer]);
    uint32_t at_once = READ_BYTES / bytes;
    enum err code = ERR_OK;
    log_input_drop(c->input, layer, 0, c->geometry[layer].shards);
    for (uint32_t done = 0; done < count && code == ERR_OK; done += at_once) {
        uint32_t some = count - done < at_once ? count - done : at_once;
        code = periodic_call(&c->periodic, e);
        if (code == ERR_OK)
            code = log_input_read(c->input, layer, first + done, some, e);
    }
    return code;
}

static enum err read_partition(struct compare *c, uint32_t partition, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < c->layer_count && code == ERR_OK; layer++) {
        uint32_t first, count;
        partitions_shards(&c->partitions, partition, &c->geometry[layer], &first, &count);
        code = read_layer(c, layer, first, count, e);
    }
    return code;
}

enum err compare_load(struct compare *c, struct error *e)
{
    enum err code = c->spill != NULL ? ERR_OK : read_partition(c, 0, e);
    c->loaded = code == ERR_OK;
    return code;
}

/* --- what was found --- */

static void take_tested(struct compare *c, struct compare_writer *w)
{
    c->tested += w->tested;
    w->tested = 0;
}

static enum err test_some(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e)
{
    struct compare *c = arg;
    for (uint32_t i = 0; i < count; i++)
        test_put(c, &c->writers[c->o.writers], hashes[i]);
    return periodic_call(&c->periodic, e);
}

static enum err test_partition(void *arg, uint32_t partition, struct error *e)
{
    struct compare *c = arg;
    struct compare_writer *w = &c->writers[c->o.writers];
    const uint64_t total = c->total;
    const size_t length = c->missing.length;
    enum err code = read_partition(c, partition, e);
    if (code == ERR_OK)
        code = spill_file_read(spill_sealed(c->spill), partition, test_some, c, e);
    if (code != ERR_OK) { /* the whole partition is tested again */
        c->total = total;
        c->missing.length = length;
        w->waiting = 0;
        w->tested = 0;
        return code;
    }
    test_waiting(c, w);
    take_tested(c, w);
    return ERR_OK;
}

enum err compare_finish(struct compare *c, struct error *e)
{
    enum err code = ERR_OK;
    if (c->spill != NULL) {
        code = spill_drain(c->spill, &c->periodic, test_partition, c, e);
    } else if (!c->loaded) {
        return error_set(e, ERR_CONFLICT, "keys cannot be compared before the shards are read");
    } else {
        for (unsigned i = 0; i < c->o.writers; i++)
            take_tested(c, &c->writers[i]);
    }
    if (code == ERR_OK && c->missing.length > 0)
        qsort(c->missing.data, c->missing.length / sizeof(struct key_hash), sizeof(struct key_hash),
              key_hash_compare);
    return code;
}

uint64_t compare_tested(const struct compare *c)
{
    return c->tested;
}

uint64_t compare_missing_total(const struct compare *c)
{
    return c->total;
}

const struct key_hash *compare_missing(const struct compare *c, size_t *count)
{
    *count = c->missing.length / sizeof(struct key_hash);
    return (const void *)c->missing.data;
}
