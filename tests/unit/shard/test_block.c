/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "shard/filter/block.h"

enum { TAG = 0x8001, BLOCK_BYTES = 64, SHARD_BYTES = 3 * BLOCK_BYTES };

static const struct geometry geometry = {.shards = 1, .blocks = 3, .block_bits = 512, .hashes = 3};
static const struct key_place place = {.shard = 0, .block = 1, .bits = {16, 300, 511}};

static void test_block_fill__writes_the_tag_into_each_block_and_nothing_else(void **state)
{
    (void)state;
    uint8_t shard[SHARD_BYTES];
    memset(shard, 0xff, sizeof(shard));
    block_fill(&geometry, 0xabcd, shard);
    for (unsigned i = 0; i < SHARD_BYTES; i++)
        assert_int_equal(shard[i], i % BLOCK_BYTES == 0 ? 0xab : i % BLOCK_BYTES == 1 ? 0xcd : 0);
}

static void test_block_set__sets_bits_as_redis_numbers_them_in_its_block_alone(void **state)
{
    (void)state;
    uint8_t shard[SHARD_BYTES];
    uint8_t expected[SHARD_BYTES];
    block_fill(&geometry, TAG, shard);
    block_fill(&geometry, TAG, expected);
    expected[BLOCK_BYTES + 2] |= 0x80;  /* bit 16 */
    expected[BLOCK_BYTES + 37] |= 0x08; /* bit 300 = 37 * 8 + 4 */
    expected[BLOCK_BYTES + 63] |= 0x01; /* bit 511 */
    assert_true(block_set(&geometry, &place, shard));
    assert_memory_equal(shard, expected, sizeof(shard));
}

static void test_block_set__tells_whether_any_bit_was_new(void **state)
{
    (void)state;
    uint8_t shard[SHARD_BYTES];
    block_fill(&geometry, TAG, shard);
    assert_true(block_set(&geometry, &place, shard));
    assert_false(block_set(&geometry, &place, shard));
    struct key_place other = place;
    other.bits[1] = 301;
    assert_true(block_set(&geometry, &other, shard));
    other.bits[2] = other.bits[0];
    assert_false(block_set(&geometry, &other, shard));
}

static void test_block_test__needs_every_bit(void **state)
{
    (void)state;
    uint8_t shard[SHARD_BYTES];
    block_fill(&geometry, TAG, shard);
    const uint8_t *block = shard + BLOCK_BYTES;
    assert_int_equal(block_test(&geometry, TAG, &place, block, BLOCK_BYTES), BLOCK_ABSENT);
    (void)block_set(&geometry, &place, shard);
    assert_int_equal(block_test(&geometry, TAG, &place, block, BLOCK_BYTES), BLOCK_PRESENT);
    for (unsigned i = 0; i < geometry.hashes; i++) {
        uint8_t one_less[BLOCK_BYTES];
        memcpy(one_less, block, BLOCK_BYTES);
        one_less[place.bits[i] / 8] = 0;
        assert_int_equal(block_test(&geometry, TAG, &place, one_less, BLOCK_BYTES), BLOCK_ABSENT);
    }
}

static void test_block_test__takes_no_answer_from_a_block_without_its_tag(void **state)
{
    (void)state;
    uint8_t shard[SHARD_BYTES];
    block_fill(&geometry, TAG, shard);
    (void)block_set(&geometry, &place, shard);
    uint8_t *block = shard + BLOCK_BYTES;
    for (unsigned bit = 0; bit < BLOCK_TAG_BITS; bit++) {
        block[bit / 8] ^= (uint8_t)(0x80u >> bit % 8);
        assert_int_equal(block_test(&geometry, TAG, &place, block, BLOCK_BYTES), BLOCK_BAD);
        block[bit / 8] ^= (uint8_t)(0x80u >> bit % 8);
    }
    uint8_t zeros[BLOCK_BYTES] = {0};
    assert_int_equal(block_test(&geometry, TAG, &place, zeros, BLOCK_BYTES), BLOCK_BAD);
}

static void test_block_test__takes_no_answer_of_another_length(void **state)
{
    (void)state;
    uint8_t shard[SHARD_BYTES];
    block_fill(&geometry, TAG, shard);
    (void)block_set(&geometry, &place, shard);
    for (size_t length = 0; length <= 2 * BLOCK_BYTES; length++)
        if (length != BLOCK_BYTES)
            assert_int_equal(block_test(&geometry, TAG, &place, shard + BLOCK_BYTES, length), BLOCK_BAD);
    assert_int_equal(block_test(&geometry, TAG, &place, "", 0), BLOCK_BAD);
}

static void test_block__works_in_the_smallest_geometry(void **state)
{
    (void)state;
    struct geometry g = {.shards = 1, .blocks = 1, .block_bits = BLOCK_BITS_MIN, .hashes = 1};
    uint8_t shard[BLOCK_BYTES];
    assert_int_equal(geometry_shard_bytes(&g), sizeof(shard));
    block_fill(&g, TAG, shard);
    struct key_place p;
    hash_place(&g, hash_key(1, "x", 1), &p);
    assert_int_equal(block_test(&g, TAG, &p, shard, sizeof(shard)), BLOCK_ABSENT);
    assert_true(block_set(&g, &p, shard));
    assert_int_equal(block_test(&g, TAG, &p, shard, sizeof(shard)), BLOCK_PRESENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_fill__writes_the_tag_into_each_block_and_nothing_else),
        cmocka_unit_test(test_block_set__sets_bits_as_redis_numbers_them_in_its_block_alone),
        cmocka_unit_test(test_block_set__tells_whether_any_bit_was_new),
        cmocka_unit_test(test_block_test__needs_every_bit),
        cmocka_unit_test(test_block_test__takes_no_answer_from_a_block_without_its_tag),
        cmocka_unit_test(test_block_test__takes_no_answer_of_another_length),
        cmocka_unit_test(test_block__works_in_the_smallest_geometry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
