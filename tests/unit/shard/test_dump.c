/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "shard/filter/block.h"
#include "shard/filter/dump.h"

enum { SHARDS_0 = 9, SHARDS_1 = 3 };

/* Two layers: shards of a MiB, four to a chunk, and small ones, all in one chunk. */
static struct view view_of_two_layers(void)
{
    struct view v = {.incarnation = 0xabcdef, .epoch = 3, .current = 1, .expansion = 2};
    v.slot[1] = (struct generation){
        .number = 5, .seed = 0x1234, .built = true, .capacity = 300, .error_rate = 0.01, .layer_count = 2};
    v.slot[1].layers[0] =
        (struct layer){.geometry = {SHARDS_0, (1 << 14) - 1, 512, 7}, .capacity = 100, .error_rate = 0.005};
    v.slot[1].layers[1] =
        (struct layer){.geometry = {SHARDS_1, 10, 1024, 8}, .capacity = 200, .error_rate = 0.0025};
    return v;
}

static struct dump_header header_of(const struct view *v, unsigned layers)
{
    struct dump_header h;
    struct error e = {""};
    assert_int_equal(dump_header_of(&h, v, layers, &e), ERR_OK);
    return h;
}

static void test_dump_header__is_decoded_as_it_was_encoded(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    struct dump_header h = header_of(&v, 2), again;
    struct buffer bytes = {0};
    struct error e = {""};
    h.seed = 0x77; /* the filter's seed; the summary of its view does not have it */
    h.nonce = 0x99;
    h.layers[0].items = 77;
    h.layers[1].items = 13;
    dump_header_encode(&h, &bytes);
    assert_true(dump_is_header(bytes.data, bytes.length));
    assert_int_equal(dump_header_decode(&again, bytes.data, bytes.length, &e), ERR_OK);
    assert_int_equal(again.id, h.id);
    assert_int_equal(again.seed, 0x77);
    assert_int_equal(again.nonce, 0x99);
    assert_int_equal(again.mix, 0x1234);
    assert_int_equal(again.capacity, 300);
    assert_true(again.error_rate == 0.01);
    assert_int_equal(again.expansion, 2);
    assert_int_equal(again.chunk_bytes, DUMP_CHUNK_BYTES);
    assert_int_equal(again.chunks, 3 + 1);
    assert_int_equal(again.layer_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_memory_equal(&again.layers[i].geometry, &v.slot[1].layers[i].geometry,
                            sizeof(struct geometry));
        assert_int_equal(again.layers[i].capacity, v.slot[1].layers[i].capacity);
        assert_true(again.layers[i].error_rate == v.slot[1].layers[i].error_rate);
        assert_int_equal(again.layers[i].items, h.layers[i].items);
    }
    buffer_fini(&bytes);
}

static void test_dump_header__is_refused_with_any_byte_changed_or_cut(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    struct dump_header h = header_of(&v, 2), again;
    struct buffer bytes = {0};
    struct error e = {""};
    dump_header_encode(&h, &bytes);
    for (size_t i = 0; i < bytes.length; i++) {
        bytes.data[i] ^= 0x10;
        assert_int_equal(dump_header_decode(&again, bytes.data, bytes.length, &e), ERR_PARSE);
        bytes.data[i] ^= 0x10;
        char *cut = malloc(i + 1); /* exact size, so that a sanitizer reports a read beyond the end */
        memcpy(cut, bytes.data, i);
        assert_int_equal(dump_header_decode(&again, cut, i, &e), ERR_PARSE);
        free(cut);
    }
    buffer_puts(&bytes, "x");
    assert_int_equal(dump_header_decode(&again, bytes.data, bytes.length, &e), ERR_PARSE);
    buffer_fini(&bytes);
}

static void spoil_rate(struct dump_header *h)
{
    h->error_rate = NAN;
}
static void spoil_capacity(struct dump_header *h)
{
    h->capacity = 0;
}
static void spoil_expansion(struct dump_header *h)
{
    h->expansion = DUMP_EXPANSION_MAX + 1;
}
static void spoil_small_chunks(struct dump_header *h)
{
    h->chunk_bytes = DUMP_CHUNK_HEADER;
}
static void spoil_chunks_below_a_shard(struct dump_header *h)
{
    h->chunk_bytes = DUMP_CHUNK_HEADER + 512;
}
static void spoil_large_chunks(struct dump_header *h)
{
    h->chunk_bytes = DUMP_CHUNK_LIMIT + 1;
}
static void spoil_chunk_count(struct dump_header *h)
{
    h->chunks++;
}
static void spoil_shards(struct dump_header *h)
{
    h->layers[0].geometry.shards = 0;
}
static void spoil_blocks(struct dump_header *h)
{
    h->layers[1].geometry.blocks = UINT32_MAX;
}
static void spoil_block_bits(struct dump_header *h)
{
    h->layers[1].geometry.block_bits = 0;
}
static void spoil_hashes(struct dump_header *h)
{
    h->layers[1].geometry.hashes = GEOMETRY_HASHES_MAX + 1;
}
static void spoil_layer_rate(struct dump_header *h)
{
    h->layers[1].error_rate = 1;
}
static void spoil_layer_capacity(struct dump_header *h)
{
    h->layers[1].capacity = UINT64_MAX;
}
static void spoil_items(struct dump_header *h)
{
    h->layers[1].items = UINT64_MAX;
}
/* More chunks than a header may have, with the matching number. */
static void spoil_size(struct dump_header *h)
{
    h->layers[0].geometry.shards = UINT32_C(1) << 31;
    h->chunks = (UINT32_C(1) << 29) + 1;
}

/* The checksum is right: somebody made this header, and it was not damaged. */
static void test_dump_header__is_refused_with_a_value_out_of_bounds(void **state)
{
    (void)state;
    static void (*const spoil[])(struct dump_header *) = {
        spoil_rate,         spoil_capacity,       spoil_expansion, spoil_small_chunks,
        spoil_large_chunks, spoil_chunk_count,    spoil_shards,    spoil_chunks_below_a_shard,
        spoil_blocks,       spoil_block_bits,     spoil_hashes,    spoil_layer_rate,
        spoil_size,         spoil_layer_capacity, spoil_items};
    struct view v = view_of_two_layers();
    for (size_t i = 0; i < sizeof(spoil) / sizeof(spoil[0]); i++) {
        struct dump_header h = header_of(&v, 2), again;
        struct buffer bytes = {0};
        struct error e = {""};
        spoil[i](&h);
        dump_header_encode(&h, &bytes);
        if (dump_header_decode(&again, bytes.data, bytes.length, &e) != ERR_PARSE)
            fail_msg("spoil[%zu] was not refused", i);
        assert_null(strstr(e.text, "checksum"));
        buffer_fini(&bytes);
    }
}

/* The seed is the filter's. The summary of its view does not have it. */
static void test_dump_header__of_a_log_has_a_mix(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    struct dump_header h = header_of(&v, 2), again;
    struct buffer bytes = {0};
    struct error e = {""};
    h.seed = 0x77;
    dump_header_encode(&h, &bytes);
    assert_int_equal(dump_header_decode(&again, bytes.data, bytes.length, &e), ERR_OK);
    assert_int_equal(again.seed, 0x77);
    assert_int_equal(again.mix, 0x1234);
    assert_int_equal(dump_position(&again, 2), dump_position(&h, 2));
    assert_int_equal(dump_header_decode(&again, bytes.data, bytes.length - 8, &e), ERR_PARSE);
    buffer_fini(&bytes);
}

static void test_dump_header__of_another_version_is_refused(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    struct dump_header h = header_of(&v, 1), again;
    struct buffer bytes = {0};
    struct error e = {""};
    dump_header_encode(&h, &bytes);
    bytes.data[8] = DUMP_VERSION + 1;
    XXH64_hash_t sum = XXH3_64bits(bytes.data, bytes.length - 8);
    memcpy(bytes.data + bytes.length - 8, &sum, 8);
    assert_int_equal(dump_header_decode(&again, bytes.data, bytes.length, &e), ERR_PARSE);
    assert_non_null(strstr(e.text, "version"));
    for (int former = 1; former < DUMP_VERSION; former++) {
        bytes.data[8] = (char)former;
        assert_int_equal(dump_header_decode(&again, bytes.data, bytes.length, &e), ERR_FORMAT);
    }
    buffer_fini(&bytes);
}

static void test_dump_run_at__covers_every_shard_once_in_order(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    struct dump_header h = header_of(&v, 2);
    struct dump_run run;
    unsigned layer = 0;
    uint32_t next = 0;
    for (uint32_t n = 1; n <= h.chunks; n++) {
        assert_true(dump_run_at(&h, n, &run));
        if (run.layer != layer) {
            assert_int_equal(next, h.layers[layer].geometry.shards);
            layer++;
            next = 0;
        }
        assert_int_equal(run.layer, layer);
        assert_int_equal(run.first, next);
        assert_in_range(run.bytes + DUMP_CHUNK_HEADER, 1, h.chunk_bytes);
        assert_int_equal(run.bytes, run.count * geometry_shard_bytes(&h.layers[layer].geometry));
        for (uint32_t i = 0; i < run.count; i++)
            assert_int_equal(dump_chunk_of(&h, layer, run.first + i), n);
        next += run.count;
    }
    assert_int_equal(layer, 1);
    assert_int_equal(next, SHARDS_1);
    assert_false(dump_run_at(&h, 0, &run));
    assert_false(dump_run_at(&h, h.chunks + 1, &run));
}

static void test_dump_position__is_below_2_to_46_and_of_one_dump(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    struct dump_header h = header_of(&v, 2), other = header_of(&v, 1);
    v.slot[1].number += 2;
    struct dump_header rebuilt = header_of(&v, 2), later = h;
    h.nonce = UINT64_C(0xfedcba9876543210);
    later.nonce = h.nonce + 1;
    for (uint32_t n = 1; n <= h.chunks + 1; n++) {
        uint64_t position = dump_position(&h, n);
        uint32_t found;
        assert_in_range(position, 1, (UINT64_C(1) << 46) - 1);
        assert_int_equal(dump_position_layers(position), 2);
        assert_true(dump_position_chunk(&h, position, &found));
        assert_int_equal(found, n);
        assert_false(dump_position_chunk(&other, position, &found));
        assert_false(dump_position_chunk(&rebuilt, position, &found));
        assert_false(dump_position_chunk(&later, position, &found));
        dump_position_nonce(&later, position);
        assert_true(dump_position_chunk(&later, position, &found));
        later.nonce++;
        assert_false(dump_position_chunk(&h, position | UINT64_C(1) << 60, &found));
    }
    uint32_t found;
    assert_false(dump_position_chunk(&h, dump_position(&h, 0), &found));
    assert_false(dump_position_chunk(&h, dump_position(&h, h.chunks + 2), &found));
    assert_int_equal(dump_position_layers(5), 0);
    assert_int_equal(dump_position_layers(UINT64_MAX), 0);
}

static void test_dump_header_of__of_successive_generations_has_other_positions(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    for (unsigned i = 0; i < 1000; i++) {
        struct dump_header h = header_of(&v, 2);
        v.slot[v.current].number++;
        struct dump_header next = header_of(&v, 2);
        assert_int_not_equal(dump_position(&h, 1), dump_position(&next, 1));
    }
}

/* A filter of the same name that is made later has the same generation and the same geometry. */
static void test_dump_header_of__of_a_filter_that_was_made_again_has_other_positions(void **state)
{
    (void)state;
    enum { AS_MANY = 1023 };
    struct view v = view_of_two_layers();
    struct dump_header h = header_of(&v, 2);
    for (unsigned i = 0; i < AS_MANY; i++) {
        uint32_t found;
        v.incarnation++;
        struct dump_header again = header_of(&v, 2);
        assert_false(dump_position_chunk(&again, dump_position(&h, 1), &found));
    }
}

/* 70,000 chunks. */
static void test_dump_header_of__is_refused_where_there_are_too_many_chunks(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    struct dump_header h;
    struct error e = {""};
    v.slot[v.current].layers[0].geometry = (struct geometry){70000 * 4, (1 << 14) - 1, 512, 7};
    assert_int_equal(dump_header_of(&h, &v, 1, &e), ERR_RANGE);
    assert_non_null(strstr(e.text, "65534"));
}

static void test_dump_header_of__depends_on_incarnation_generation_and_layers(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    uint64_t id = header_of(&v, 2).id;
    assert_int_equal(header_of(&v, 2).id, id);
    assert_int_not_equal(header_of(&v, 1).id, id);
    v.incarnation++;
    assert_int_not_equal(header_of(&v, 2).id, id);
    struct dump_header h;
    struct error e = {""};
    assert_int_equal(dump_header_of(&h, &v, 0, &e), ERR_RANGE);
    assert_int_equal(dump_header_of(&h, &v, 3, &e), ERR_RANGE);
}

static void test_dump_chunk__is_refused_with_any_byte_changed_or_cut(void **state)
{
    (void)state;
    struct view v = view_of_two_layers();
    struct dump_header h = header_of(&v, 2);
    struct dump_run run;
    struct dump_chunk chunk;
    struct error e = {""};
    assert_true(dump_run_at(&h, 4, &run)); /* the chunk of small shards */
    size_t length = DUMP_CHUNK_HEADER + run.bytes;
    uint8_t *bytes = malloc(length + 1);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 7);
    dump_chunk_encode(&h, 4, &run, bytes);
    assert_int_equal(dump_chunk_decode(&chunk, bytes, length, &e), ERR_OK);
    assert_int_equal(chunk.id, h.id);
    assert_int_equal(chunk.number, 4);
    assert_memory_equal(&chunk.run, &run, sizeof(run));
    assert_ptr_equal(chunk.shards, bytes + DUMP_CHUNK_HEADER);
    assert_int_equal(dump_chunk_decode(&chunk, bytes, length + 1, &e), ERR_PARSE);
    for (size_t i = 0; i < length; i++) {
        bytes[i] ^= 1;
        assert_int_equal(dump_chunk_decode(&chunk, bytes, length, &e), ERR_PARSE);
        bytes[i] ^= 1;
        assert_int_equal(dump_chunk_decode(&chunk, bytes, i, &e), ERR_PARSE);
    }
    free(bytes);
}

static void test_dump_tags__are_taken_out_and_put_in_of_every_block(void **state)
{
    (void)state;
    struct geometry g = {1, 10, 1024, 8};
    size_t length = geometry_shard_bytes(&g);
    uint8_t shard[1280], other[1280];
    assert_int_equal(length, sizeof(shard));
    block_fill(&g, 0xbeef, shard);
    for (size_t i = 0; i < length; i++)
        if (i % 128 > 1)
            shard[i] = (uint8_t)i;
    memcpy(other, shard, length);
    assert_true(dump_tags_strip(&g, 0xbeef, shard));
    for (size_t i = 0; i < length; i++)
        assert_int_equal(shard[i], i % 128 > 1 ? (uint8_t)i : 0);
    assert_true(dump_tags_put(&g, 0xbeef, shard));
    assert_memory_equal(shard, other, length);
    assert_false(dump_tags_put(&g, 0xbeef, shard));
    shard[9 * 128] = 0; /* the last block has lost its tag */
    assert_false(dump_tags_strip(&g, 0xbeef, shard));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dump_header__is_decoded_as_it_was_encoded),
        cmocka_unit_test(test_dump_header__is_refused_with_any_byte_changed_or_cut),
        cmocka_unit_test(test_dump_header__is_refused_with_a_value_out_of_bounds),
        cmocka_unit_test(test_dump_header__of_a_log_has_a_mix),
        cmocka_unit_test(test_dump_header__of_another_version_is_refused),
        cmocka_unit_test(test_dump_run_at__covers_every_shard_once_in_order),
        cmocka_unit_test(test_dump_position__is_below_2_to_46_and_of_one_dump),
        cmocka_unit_test(test_dump_header_of__of_successive_generations_has_other_positions),
        cmocka_unit_test(test_dump_header_of__of_a_filter_that_was_made_again_has_other_positions),
        cmocka_unit_test(test_dump_header_of__is_refused_where_there_are_too_many_chunks),
        cmocka_unit_test(test_dump_header_of__depends_on_incarnation_generation_and_layers),
        cmocka_unit_test(test_dump_chunk__is_refused_with_any_byte_changed_or_cut),
        cmocka_unit_test(test_dump_tags__are_taken_out_and_put_in_of_every_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
