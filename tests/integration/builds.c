/* SPDX-License-Identifier: MIT */
#include "tests/integration/builds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/block.h"
#include "shard/fence_dump.h"

char builds_spilled[] = "spilled";

void builds_make(struct filter *f, const uint32_t *shards, unsigned layers)
{
    struct error e = {""};
    uint64_t lost = 99;
    f->view = (struct view){.incarnation = f->fence.names.incarnation,
                            .epoch = 1,
                            .phase = PHASE_STEADY,
                            .last_generation = 2,
                            .sourced = true};
    struct generation *g = &f->view.slot[0];
    *g = filter_generation(f, 2, shards[0], 1);
    g->layer_count = layers;
    for (unsigned i = 0; i < layers; i++) {
        g->layers[i] = g->layers[0];
        g->layers[i].geometry.shards = shards[i];
        must(fence_create(&f->fence, g, i, &e), e);
    }
    must(fence_publish(&f->fence, &f->view, MUTEX, &e), e);
    must(fence_complete(&f->fence, &f->view, &lost, &e), e);
    assert_int_equal(lost, 0);
}

struct build_options builds_options(struct filter *f, const char *spill_dir)
{
    static struct fence_output output;
    const struct generation *g = &f->view.slot[f->view.current];
    fence_output_init(&output, &f->fence, &f->view, g, TOKEN);
    return (struct build_options){.output = &output.output,
                                  .generation = g,
                                  .memory = UINT64_MAX,
                                  .writers = 1,
                                  .spill_dir = spill_dir,
                                  .spill_bytes = 1 << 30};
}

struct key_hash builds_hash(const struct filter *f, unsigned number)
{
    char key[16];
    int n = snprintf(key, sizeof(key), "k%u", number);
    return hash_key(f->view.slot[f->view.current].seed, key, (size_t)n);
}

void builds_put(struct filter *f, struct build *b, unsigned writer, unsigned first, unsigned count)
{
    struct error e = {""};
    struct build_writer *w = build_writer(b, writer);
    for (unsigned i = first; i < first + count; i++)
        build_put(w, builds_hash(f, i));
    must(build_page_end(w, &e), e);
}

void builds_all_there(struct filter *f, unsigned first, unsigned count)
{
    enum { AT_ONCE = 4000 };
    for (unsigned done = 0; done < count; done += AT_ONCE) {
        unsigned some = count - done < AT_ONCE ? count - done : AT_ONCE;
        size_t there = filter_check(f, &f->view.slot[f->view.current], first + done, some);
        if (there != some)
            fail_msg("%zu of the keys k%u ... are missing", some - there, first + done);
    }
}

void builds_layer_is(struct filter *f, unsigned layer, unsigned first, unsigned count)
{
    const struct generation *g = &f->view.slot[f->view.current];
    const struct geometry *geometry = &g->layers[layer].geometry;
    struct error e = {""};
    uint32_t bytes = geometry_shard_bytes(geometry);
    uint8_t *expected = calloc(2 * (size_t)geometry->shards, bytes);
    assert_non_null(expected);
    uint8_t *there = expected + (size_t)geometry->shards * bytes;
    for (unsigned i = first; i < first + count; i++) {
        struct key_place place;
        hash_place(geometry, builds_hash(f, i), &place);
        (void)block_set(geometry, &place, expected + (size_t)place.shard * bytes);
    }
    const struct dump_run all = {
        .layer = layer, .count = geometry->shards, .bytes = geometry->shards * bytes};
    must(fence_read_shards(&f->fence, &f->view, g, &all, there, &e), e);
    for (uint64_t i = 0; i < (uint64_t)geometry->shards * bytes; i++)
        if (there[i] != expected[i])
            fail_msg("shard %" PRIu64 " of layer %u does not have the bits that it should have", i / bytes,
                     layer);
    free(expected);
}

static void move(struct filter *f, uint32_t shard, bool away)
{
    struct key_name there;
    const struct key_name *name = filter_shard(f, f->view.slot[f->view.current].number, shard, f->view.epoch);
    there = *name;
    there.text[there.length++] = '~';
    const struct key_name *from = away ? name : &there, *to = away ? &there : name;
    assert_string_equal(servers_text(f->servers, filter_node(f, shard), "RENAME %b %b", from->text,
                                     from->length, to->text, to->length),
                        "OK");
}

void builds_lose(struct filter *f, uint32_t shard)
{
    move(f, shard, true);
}

void builds_find(struct filter *f, uint32_t shard)
{
    move(f, shard, false);
}
