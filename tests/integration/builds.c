/* SPDX-License-Identifier: MIT */
#include "tests/integration/builds.h"

#include <inttypes.h>

unsigned builds_ms = BUILDS_LONG_MS;
char builds_spilled[] = "spilled";
struct log_process builds;
struct build *builds_build;

static int begin(void **state, unsigned layers)
{
    struct error e = {""};
    struct generation shape;
    if (log_setup(state) != 0)
        return -1;
    shape = log_shape();
    shape.layer_count = layers;
    shape.layers[1] = shape.layers[0];
    shape.layers[1].geometry.shards = 3;
    builds = (struct log_process){.link = sync_client_new(&log_servers.nodes, builds_ms, NULL)};
    assert_non_null(builds.link);
    must(builder_new(&builds.builder, builds.link, &log_names, &e), e);
    must(builder_begin(builds.builder, &shape, "", &e), e);
    must(builder_start(builds.builder, &e), e);
    return 0;
}

int builds_setup(void **state)
{
    return begin(state, 1);
}

int builds_setup_two_layers(void **state)
{
    return begin(state, 2);
}

int builds_teardown(void **state)
{
    (void)state;
    build_free(builds_build);
    builds_build = NULL;
    builds_ms = BUILDS_LONG_MS;
    log_close(&builds);
    return 0;
}

uint32_t builds_shards(void)
{
    return builds.builder->shape.layers[0].geometry.shards;
}

struct build_options builds_options(void **state)
{
    return (struct build_options){.memory = *state == builds_spilled ? 1 : UINT64_MAX,
                                  .writers = 1,
                                  .spill_dir = log_directory,
                                  .spill_bytes = 1 << 30};
}

void builds_make(struct build_options o)
{
    struct error e = {""};
    build_free(builds_build);
    builds_build = NULL;
    must(build_new(&builds_build, builds.builder, &o, &e), e);
}

void builds_flush(void)
{
    struct error e = {""};
    must(build_flush(builds_build, &e), e);
}

void builds_flush_gives(enum err code)
{
    struct error e = {""};
    gives(code, build_flush(builds_build, &e), e);
}

struct key_hash builds_hash(uint64_t number)
{
    return hash_mix(log_key(number), builds.builder->shape.seed);
}

void builds_put(unsigned writer, uint64_t first, unsigned count)
{
    struct error e = {""};
    for (uint64_t i = first; i < first + count; i++)
        build_put(builds_build, writer, log_key(i));
    must(build_page_end(builds_build, writer, &e), e);
}

void builds_all_there(uint64_t first, unsigned count)
{
    uint64_t missing = log_missing_in(&builds.builder->shape, first, first + count);
    if (missing > 0)
        fail_msg("%" PRIu64 " of the keys %" PRIu64 " ... are missing", missing, first);
}

static void move(uint32_t shard, bool away)
{
    struct key_name name, there;
    names_log_shard(&log_names, (struct shard_id){builds.builder->shape.number, 0, shard}, &name);
    there = name;
    there.text[there.length++] = '~';
    const struct key_name *from = away ? &name : &there, *to = away ? &there : &name;
    assert_string_equal(
        servers_text(&log_servers, shard % 2, "RENAME %b %b", from->text, from->length, to->text, to->length),
        "OK");
}

void builds_lose(uint32_t shard)
{
    move(shard, true);
}

void builds_find(uint32_t shard)
{
    move(shard, false);
}

static void tag(uint32_t shard, uint16_t tag)
{
    const struct geometry *g = &builds.builder->shape.layers[0].geometry;
    const char bytes[2] = {(char)(tag >> 8), (char)tag};
    struct key_name name;
    names_log_shard(&log_names, (struct shard_id){builds.builder->shape.number, 0, shard}, &name);
    unsigned at = header_bytes(g) + (g->blocks - 1) * g->block_bits / 8;
    (void)servers_integer(&log_servers, shard % 2, "SETRANGE %b %u %b", name.text, name.length, at, bytes,
                          sizeof(bytes));
}

void builds_spoil(uint32_t shard)
{
    tag(shard, builds.builder->fold.tag ^ 1);
}

void builds_mend(uint32_t shard)
{
    tag(shard, builds.builder->fold.tag);
}
