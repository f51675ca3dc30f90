/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "shard/resident/header.h"

static const struct header sample = {.tag = 0xbee5,
                                     .incarnation = 0x0102030405060708,
                                     .generation = 7,
                                     .writer = {.number = 9, .random = 0xfedcba9876543210},
                                     .layer = 2,
                                     .shard = 1047,
                                     .blocks = 4095,
                                     .block_bits = 2048,
                                     .hashes = 10};

static void assert_says(const struct error *e, const char *part)
{
    if (strstr(e->text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e->text, part);
}

static void test_header__is_read_as_it_was_written(void **state)
{
    (void)state;
    uint8_t bytes[BLOCK_BITS_MAX / 8];
    struct header h = {0};
    for (unsigned bits = BLOCK_BITS_MIN; bits <= BLOCK_BITS_MAX; bits *= 2) {
        struct header one = sample;
        one.block_bits = (uint16_t)bits;
        memset(bytes, 0xaa, sizeof(bytes));
        header_encode(&one, bytes);
        assert_int_equal(header_decode(&h, bytes, bits / 8, "s", NULL), ERR_OK);
        assert_true(h.tag == one.tag && h.incarnation == one.incarnation && h.generation == one.generation);
        assert_true(h.writer.number == one.writer.number && h.writer.random == one.writer.random);
        assert_true(h.layer == one.layer && h.shard == one.shard);
        assert_true(h.blocks == one.blocks && h.block_bits == bits && h.hashes == one.hashes);
        for (unsigned i = HEADER_BYTES; i < bits / 8; i++)
            assert_int_equal(bytes[i], 0);
        if (bits < BLOCK_BITS_MAX)
            assert_int_equal(bytes[bits / 8], 0xaa);
    }
}

/* Other versions and scripts read these bytes. */
static void test_header__has_this_form(void **state)
{
    (void)state;
    static const uint8_t expected[] = {
        'T',  'B',  'S', 'H', 0, 1, 0xbe, 0xe5, 1, 2,    3, 4, 5,    6,    7,    8,    0,    0,    0,
        0,    0,    0,   0,   7, 0, 0,    0,    0, 0,    0, 0, 9,    0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54,
        0x32, 0x10, 0,   0,   0, 2, 0,    0,    4, 0x17, 0, 0, 0x0f, 0xff, 8,    0,    0,    10};
    uint8_t bytes[256];
    header_encode(&sample, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
    assert_int_equal(HEADER_WRITER_AT, 24);
}

static void test_header_decode__refuses_what_is_no_header(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct header h = {.generation = 99};
    struct error e = {""};
    header_encode(&sample, bytes);
    assert_int_equal(header_decode(&h, NULL, 0, "P:{f.7.2.1047}:1", &e), ERR_LOST);
    assert_string_equal(e.text, "shard P:{f.7.2.1047}:1 is missing");
    for (size_t n = 1; n < HEADER_BYTES; n++)
        assert_int_equal(header_decode(&h, bytes, n, "s", &e), ERR_LOST);
    for (unsigned i = 0; i < HEADER_BYTES * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_int_not_equal(header_decode(&h, bytes, sizeof(bytes), "s", &e), ERR_OK);
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(h.generation, 99);
    bytes[0] = 'X';
    assert_int_equal(header_decode(&h, bytes, sizeof(bytes), "s", &e), ERR_LOST);
    assert_says(&e, "does not begin with the header");
}

static void test_header_decode__says_that_a_later_version_wrote_it(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct header h;
    struct error e = {""};
    header_encode(&sample, bytes);
    bytes[5] = 2;
    memset(bytes + 6, 0x55, 50); /* only the other version knows what they mean */
    assert_int_equal(header_decode(&h, bytes, sizeof(bytes), "s", &e), ERR_FORMAT);
    assert_string_equal(e.text, "shard s has format 2; this version reads formats up to 1: upgrade it");
    bytes[5] = 0;
    assert_int_equal(header_decode(&h, bytes, sizeof(bytes), "s", &e), ERR_LOST);
}

static void test_header_check__refuses_another_shard(void **state)
{
    (void)state;
    struct error e = {""};
    assert_int_equal(header_check(&sample, &sample, "s", &e), ERR_OK);
    struct header other[] = {sample, sample, sample, sample, sample, sample, sample, sample};
    other[0].tag ^= 1;
    other[1].incarnation ^= 1;
    other[2].generation++;
    other[3].layer++;
    other[4].shard++;
    other[5].blocks++;
    other[6].block_bits = 512;
    other[7].hashes++;
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        assert_int_equal(header_check(&other[i], &sample, "P:{f.7.2.1047}:1", &e), ERR_LOST);
        assert_says(&e, "P:{f.7.2.1047}:1");
    }
}

static void test_header_check__knows_a_writer_of_the_future(void **state)
{
    (void)state;
    struct error e = {""};
    struct header found = sample;
    /* The writer is earlier than the view's. */
    found.writer = (struct writer_token){.number = 8, .random = UINT64_MAX};
    assert_int_equal(header_check(&found, &sample, "s", &e), ERR_OK);
    found.writer = (struct writer_token){.number = 10, .random = 0};
    assert_int_equal(header_check(&found, &sample, "s", &e), ERR_FENCED);
    assert_string_equal(e.text,
                        "shard s was written under token 10, later than the view's 9: load the view again");
    found.writer = (struct writer_token){.number = 9, .random = sample.writer.random + 1};
    assert_int_equal(header_check(&found, &sample, "s", &e), ERR_FENCED);
}

static void test_header_check_made__knows_a_maker_of_the_past(void **state)
{
    (void)state;
    struct error e = {""};
    struct header found = sample;
    found.writer.number = 9;
    assert_int_equal(header_check_made(&found, 0, "s", &e), ERR_OK);
    assert_int_equal(header_check_made(&found, 9, "s", &e), ERR_OK);
    assert_int_equal(header_check_made(&found, 10, "P:{f.7.2.1047}:1", &e), ERR_LOST);
    assert_says(&e, "P:{f.7.2.1047}:1");
}

static void test_writer_compare__orders_as_the_bytes_of_headers_do(void **state)
{
    (void)state;
    static const struct writer_token tokens[] = {
        {0, 0},         {0, 1}, {1, 0}, {1, UINT64_MAX}, {255, 3}, {256, 2}, {256, UINT64_C(1) << 63},
        {UINT64_MAX, 0}};
    const size_t n = sizeof(tokens) / sizeof(tokens[0]);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            uint8_t bytes[2][256];
            struct header h = sample;
            h.writer = tokens[i];
            header_encode(&h, bytes[0]);
            h.writer = tokens[k];
            header_encode(&h, bytes[1]);
            int order = memcmp(bytes[0] + HEADER_WRITER_AT, bytes[1] + HEADER_WRITER_AT, HEADER_WRITER_BYTES);
            int compared = writer_compare(&tokens[i], &tokens[k]);
            assert_true((order < 0) == (compared < 0) && (order > 0) == (compared > 0));
            assert_true((compared < 0) == (i < k) && (compared == 0) == (i == k));
        }
}

/* --- the memory of a plan with headers --- */

/* The size class of jemalloc for a string of @length bytes, with its header and terminator. */
static uint64_t class_of(uint64_t length)
{
    for (uint64_t unit = 16;; unit *= 2)
        for (uint64_t quarter = 4; quarter < 8; quarter++)
            if (quarter * unit >= length + 12)
                return quarter * unit;
}

/* The smallest number of blocks that keeps the rate. */
static uint64_t blocks_for(const struct geometry *g, uint64_t keys, double rate)
{
    uint64_t low = 1, high = (uint64_t)g->shards * g->blocks;
    while (low < high) {
        struct geometry one = {.shards = 1, .block_bits = g->block_bits, .hashes = g->hashes};
        one.blocks = (uint32_t)((low + high) / 2);
        if (geometry_rate(&one, keys) <= rate)
            high = one.blocks;
        else
            low = one.blocks + 1u;
    }
    return low;
}

/* The memory of all shards in Redis, with the best number of shards. */
static uint64_t least_memory(const struct geometry *g, uint64_t keys, double rate, uint64_t limit)
{
    uint64_t block = header_bytes(g), blocks = blocks_for(g, keys, rate), best = UINT64_MAX;
    uint64_t fewest = (blocks + limit / block - 2) / (limit / block - 1);
    for (uint64_t shards = fewest; shards <= 8 * fewest + 64; shards++) {
        uint64_t memory = shards * (class_of((1 + (blocks + shards - 1) / shards) * block) + 128);
        best = memory < best ? memory : best;
    }
    return best;
}

static void test_geometry_plan__has_room_for_the_header(void **state)
{
    (void)state;
    static const double rates[] = {0.3, 1e-2, 1e-3, 1e-6};
    for (uint64_t limit = SHARD_BYTES_MIN; limit < SHARD_BYTES_MAX; limit = limit * 17 / 11)
        for (uint64_t keys = 1; keys < 30000000; keys = keys * 41 / 10 + 1)
            for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
                struct geometry g;
                assert_int_equal(geometry_plan(&g, keys, rates[r], (uint32_t)limit, NULL), ERR_OK);
                assert_int_equal(geometry_check(&g, NULL), ERR_OK);
                assert_true(geometry_rate(&g, keys) <= rates[r]);
                uint64_t all = header_shard_bytes(&g), more = all + header_bytes(&g);
                assert_true(all <= limit);
                /* The shard fills its size class. */
                assert_true(more > limit || class_of(more) > class_of(all));
            }
}

static void test_geometry_plan__takes_little_more_memory_than_need_be(void **state)
{
    (void)state;
    for (uint64_t keys = 20000; keys < 300000000; keys = keys * 17 / 10) {
        struct geometry g;
        assert_int_equal(geometry_plan(&g, keys, 1e-3, SHARD_BYTES_DEFAULT, NULL), ERR_OK);
        uint64_t memory = g.shards * (class_of(header_shard_bytes(&g)) + 128);
        assert_true((double)memory <= 1.01 * (double)least_memory(&g, keys, 1e-3, SHARD_BYTES_DEFAULT));
        assert_true(class_of(header_shard_bytes(&g)) <= 1 << 20); /* also for the largest shards */
    }
}

static void test_geometry_plan__refuses_shards_without_room_for_a_block(void **state)
{
    (void)state;
    struct geometry g;
    struct error e = {""};
    assert_int_equal(geometry_plan(&g, 1000, 1e-3, SHARD_BYTES_MIN - 1, &e), ERR_RANGE);
    assert_says(&e, "shard size 1023 is not between 1024 and 1048512 bytes");
    /* Rates that lead to every block size. */
    static const double rates[] = {0.5, 1e-1, 1e-2, 1e-3, 1e-6, 1e-9, 1e-20};
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++)
        assert_int_equal(geometry_plan(&g, 1000, rates[r], SHARD_BYTES_MIN, &e), ERR_OK);
    assert_int_equal(geometry_plan(&g, UINT64_MAX, 1e-3, SHARD_BYTES_DEFAULT, &e), ERR_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header__is_read_as_it_was_written),
        cmocka_unit_test(test_header__has_this_form),
        cmocka_unit_test(test_header_decode__refuses_what_is_no_header),
        cmocka_unit_test(test_header_decode__says_that_a_later_version_wrote_it),
        cmocka_unit_test(test_header_check__refuses_another_shard),
        cmocka_unit_test(test_header_check__knows_a_writer_of_the_future),
        cmocka_unit_test(test_header_check_made__knows_a_maker_of_the_past),
        cmocka_unit_test(test_writer_compare__orders_as_the_bytes_of_headers_do),
        cmocka_unit_test(test_geometry_plan__has_room_for_the_header),
        cmocka_unit_test(test_geometry_plan__takes_little_more_memory_than_need_be),
        cmocka_unit_test(test_geometry_plan__refuses_shards_without_room_for_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
