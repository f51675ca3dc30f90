/* SPDX-License-Identifier: MIT */
#include "migrate/verify/compare.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "migrate/build/bitmaps.h"
#include "migrate/build/partitions.h"
#include "migrate/build/spill.h"

enum { AHEAD = BITMAPS_AHEAD, LIST_MIN = 64, READ_BYTES = 4 << 20 };

/* The result of one thread. */
struct findings {
    struct key_hash *missing;
    size_t count, room;
    uint64_t total, tested;
};

struct compare_writer {
    _Alignas(64) struct compare *compare;
    struct spill_writer *spill; /* NULL: shards in memory */
    struct findings findings;
    unsigned waiting;
    struct key_hash hash[AHEAD];
    struct key_place *place; /* AHEAD places for each layer */
};

struct compare {
    struct log_input *input;
    struct build_options o;
    struct periodic periodic;
    unsigned layer_count;
    struct geometry geometry[GENERATION_LAYERS_MAX];
    struct partitions partitions;
    struct bitmaps *maps[GENERATION_LAYERS_MAX]; /* all shards, or those of one partition */
    struct spill *spill;                         /* NULL: shards in memory */
    bool loaded;                                 /* shards in memory: all have been read */
    struct key_place *places;                    /* places of all writers and the driver */
    struct compare_writer *writers;              /* the last one is the driver's */
    atomic_uint_least64_t listed;                /* missing hashes in all lists together */
    struct findings findings;                    /* results of all that was finished */
};

/* --- construction --- */

static bool spills(const struct compare *c)
{
    return c->partitions.count > 1;
}

static enum err plan(struct compare *c, struct error *e)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < c->layer_count; i++)
        bytes += geometry_bytes(&c->geometry[i]);
    enum err code =
        partitions_plan(&c->partitions, c->geometry, c->layer_count, c->o.memory, "build_memory", e);
    if (code != ERR_OK || !spills(c))
        return code;
    if (c->o.spill_dir == NULL || c->o.spill_dir[0] == '\0' || c->o.spill_bytes == 0)
        return error_set(e, ERR_CONFIG,
                         "%" PRIu64 " bytes of shards do not fit into build_memory (%" PRIu64
                         "), and there is no spill_dir",
                         bytes, c->o.memory);
    return spill_new(&c->spill, c->o.spill_dir, c->partitions.count, c->o.writers, e);
}

static enum err make_writers(struct compare *c, struct error *e)
{
    unsigned count = c->o.writers + 1;
    size_t each = (size_t)c->layer_count * AHEAD;
    c->places = calloc(count, each * sizeof(*c->places));
    c->writers = aligned_alloc(_Alignof(struct compare_writer), count * sizeof(*c->writers));
    if (c->places == NULL || c->writers == NULL)
        return error_set(e, ERR_NOMEM, "compare: out of memory");
    for (unsigned i = 0; i < count; i++)
        c->writers[i] =
            (struct compare_writer){.compare = c,
                                    .spill = spills(c) && i < c->o.writers ? spill_writer(c->spill, i) : NULL,
                                    .place = c->places + i * each};
    return ERR_OK;
}

enum err compare_new(struct compare **out, struct log_input *input, const struct build_options *o,
                     struct error *e)
{
    if (o->writers == 0 || o->writers > BUILD_WRITERS_MAX)
        return error_set(e, ERR_RANGE, "%u writers are not between 1 and %d", o->writers, BUILD_WRITERS_MAX);
    if (input->generation->layer_count == 0)
        return error_set(e, ERR_RANGE, "there is no generation");
    struct compare *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "compare: out of memory");
    c->input = input;
    c->o = *o;
    c->periodic = (struct periodic){.fn = o->poll, .arg = o->poll_arg};
    c->layer_count = input->generation->layer_count;
    for (unsigned i = 0; i < c->layer_count; i++)
        c->geometry[i] = input->generation->layers[i].geometry;
    enum err code = plan(c, e);
    if (code == ERR_OK)
        code = make_writers(c, e);
    for (unsigned i = 0; i < c->layer_count && code == ERR_OK; i++)
        code = bitmaps_new(&c->maps[i], &c->geometry[i],
                           partitions_shards_max(&c->partitions, &c->geometry[i]), 1, e);
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
    for (unsigned i = 0; i < c->layer_count; i++)
        bitmaps_free(c->maps[i]);
    for (unsigned i = 0; c->writers != NULL && i <= c->o.writers; i++)
        free(c->writers[i].findings.missing);
    spill_free(c->spill);
    free(c->findings.missing);
    free(c->writers);
    free(c->places);
    free(c);
}

/* --- testing --- */

static bool make_room(struct findings *f, size_t more)
{
    if (f->room - f->count >= more)
        return true;
    size_t room = f->room == 0 ? LIST_MIN : 2 * f->room;
    room = room < f->count + more ? f->count + more : room;
    struct key_hash *list = realloc(f->missing, room * sizeof(*list));
    if (list == NULL)
        return false;
    f->missing = list;
    f->room = room;
    return true;
}

/* A list that cannot grow is cut; the total shows that there are more. */
static void is_missing(struct compare *c, struct findings *f, struct key_hash h)
{
    f->total++;
    if (atomic_load_explicit(&c->listed, memory_order_relaxed) >= COMPARE_MISSING_MAX || !make_room(f, 1))
        return;
    if (atomic_fetch_add(&c->listed, 1) < COMPARE_MISSING_MAX)
        f->missing[f->count++] = h;
    else
        (void)atomic_fetch_sub(&c->listed, 1);
}

static void test_waiting(struct compare_writer *w)
{
    struct compare *c = w->compare;
    for (unsigned i = 0; i < w->waiting; i++) {
        bool present = false;
        for (unsigned layer = 0; layer < c->layer_count && !present; layer++)
            present = bitmaps_test(c->maps[layer], &w->place[layer * AHEAD + i]);
        if (!present)
            is_missing(c, &w->findings, w->hash[i]);
    }
    w->findings.tested += w->waiting;
    w->waiting = 0;
}

static void test_put(struct compare_writer *w, struct key_hash h)
{
    const struct compare *c = w->compare;
    for (unsigned layer = 0; layer < c->layer_count; layer++) {
        struct key_place *place = &w->place[layer * AHEAD + w->waiting];
        hash_place(&c->geometry[layer], h, place);
        bitmaps_prefetch(c->maps[layer], place);
    }
    w->hash[w->waiting++] = h;
    if (w->waiting == AHEAD)
        test_waiting(w);
}

/* --- writers --- */

struct compare_writer *compare_writer(struct compare *c, unsigned index)
{
    return &c->writers[index];
}

void compare_put(struct compare_writer *w, struct key_hash h)
{
    if (w->spill == NULL)
        test_put(w, h);
    else
        spill_put(w->spill, partitions_of(&w->compare->partitions, h), h);
}

enum err compare_page_end(struct compare_writer *w, struct error *e)
{
    if (w->spill != NULL)
        return spill_page_end(w->spill, e);
    test_waiting(w);
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
    bitmaps_hold(c->maps[layer], first);
    for (uint32_t done = 0; done < count && code == ERR_OK; done += at_once) {
        uint32_t some = count - done < at_once ? count - done : at_once;
        code = periodic_call(&c->periodic, e);
        if (code == ERR_OK)
            code = log_input_read(c->input, layer, first + done, some,
                                  bitmaps_bytes(c->maps[layer], first + done), e);
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
    enum err code = spills(c) ? ERR_OK : read_partition(c, 0, e);
    c->loaded = code == ERR_OK;
    return code;
}

/* --- what was found --- */

/* Add one thread's findings to the common ones. If memory runs out, the list is cut; the total stays
 * right. */
static void gather(struct compare *c, struct findings *from)
{
    struct findings *all = &c->findings;
    all->total += from->total;
    all->tested += from->tested;
    if (from->count > 0 && make_room(all, from->count)) {
        memcpy(all->missing + all->count, from->missing, from->count * sizeof(*from->missing));
        all->count += from->count;
    } else {
        (void)atomic_fetch_sub(&c->listed, from->count);
    }
    free(from->missing);
    *from = (struct findings){0};
}

static void throw_away(struct compare *c, struct compare_writer *w)
{
    (void)atomic_fetch_sub(&c->listed, w->findings.count);
    free(w->findings.missing);
    w->findings = (struct findings){0};
    w->waiting = 0;
}

static enum err test_some(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e)
{
    struct compare_writer *w = arg;
    for (uint32_t i = 0; i < count; i++)
        test_put(w, hashes[i]);
    return periodic_call(&w->compare->periodic, e);
}

static enum err test_partition(struct compare *c, uint32_t partition, struct error *e)
{
    struct compare_writer *w = &c->writers[c->o.writers];
    if (!spill_file_holds(spill_sealed(c->spill), partition))
        return ERR_OK;
    enum err code = read_partition(c, partition, e);
    if (code == ERR_OK)
        code = spill_file_read(spill_sealed(c->spill), partition, test_some, w, e);
    if (code != ERR_OK) {
        throw_away(c, w);
        return code;
    }
    test_waiting(w);
    gather(c, &w->findings);
    spill_file_forget(spill_sealed(c->spill), partition);
    return ERR_OK;
}

static enum err test_sealed(struct compare *c, struct error *e)
{
    enum err code = spill_seal(c->spill, &c->periodic, e);
    for (uint32_t i = 0; i < c->partitions.count && code == ERR_OK; i++)
        code = test_partition(c, i, e);
    return code;
}

enum err compare_finish(struct compare *c, struct error *e)
{
    enum err code = ERR_OK;
    if (spills(c)) {
        code = spill_is_sealed(c->spill) ? test_sealed(c, e) : ERR_OK; /* hashes that a failed finish left */
        if (code == ERR_OK)
            code = test_sealed(c, e);
    } else if (!c->loaded) {
        return error_set(e, ERR_CONFLICT, "keys cannot be compared before the shards are read");
    } else {
        for (unsigned i = 0; i < c->o.writers; i++)
            gather(c, &c->writers[i].findings);
    }
    if (code == ERR_OK && c->findings.count > 0)
        qsort(c->findings.missing, c->findings.count, sizeof(*c->findings.missing), key_hash_compare);
    return code;
}

uint64_t compare_tested(const struct compare *c)
{
    return c->findings.tested;
}

uint64_t compare_missing_total(const struct compare *c)
{
    return c->findings.total;
}

const struct key_hash *compare_missing(const struct compare *c, size_t *count)
{
    *count = c->findings.count;
    return c->findings.missing;
}
