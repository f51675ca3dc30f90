/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "shard/filter/hash.h"

/* If the counts are spread evenly, their chi-square is about @n - 1, give or take sqrt(2 (n - 1)). */
static void assert_even(const uint32_t *counts, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += counts[i];
    double expected = total / (double)n;
    double chi = 0;
    for (size_t i = 0; i < n; i++)
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    double freedom = (double)n - 1;
    if (fabs(chi - freedom) > 5 * sqrt(2 * freedom))
        fail_msg("chi-square %.1f with %.0f degrees of freedom", chi, freedom);
}

enum { KEYS = 400000 };

static void spread(struct geometry g, uint64_t seed)
{
    size_t blocks = (size_t)g.shards * g.blocks;
    uint32_t shard[64] = {0};
    static uint32_t block[64 * 1024];
    memset(block, 0, sizeof(block));
    uint32_t within[1024] = {0};
    uint32_t bit[BLOCK_BITS_MAX] = {0};
    assert_true(g.shards <= 64 && g.blocks <= 1024);
    for (uint64_t i = 0; i < KEYS; i++) {
        struct key_place p;
        hash_place(&g, hash_key(seed, &i, sizeof(i)), &p);
        assert_true(p.shard < g.shards && p.block < g.blocks);
        shard[p.shard]++;
        within[p.block]++;
        block[(size_t)p.shard * g.blocks + p.block]++;
        for (unsigned k = 0; k < g.hashes; k++) {
            assert_in_range(p.bits[k], BLOCK_TAG_BITS, g.block_bits - 1);
            bit[p.bits[k]]++;
        }
    }
    if (g.shards > 1)
        assert_even(shard, g.shards);
    assert_even(within, g.blocks);
    assert_even(block, blocks);
    assert_even(bit + BLOCK_TAG_BITS, g.block_bits - BLOCK_TAG_BITS);
}

static void test_hash_place__spreads_over_shards_blocks_and_bits(void **state)
{
    (void)state;
    spread((struct geometry){.shards = 7, .blocks = 131, .block_bits = 512, .hashes = 6}, 1);
    spread((struct geometry){.shards = 64, .blocks = 512, .block_bits = 2048, .hashes = 10},
           0xfeedfacecafebeef);
    spread((struct geometry){.shards = 1, .blocks = 1000, .block_bits = 4096, .hashes = 13}, UINT64_MAX);
}

static void test_hash_place__gives_bits_independent_of_each_other_and_of_the_block(void **state)
{
    (void)state;
    /* 4096 - 16 = 16 * 255 positions: sixteen equal cells. */
    const struct geometry g = {.shards = 4, .blocks = 4, .block_bits = 4096, .hashes = 4};
    static uint32_t cells[6][256];
    for (uint64_t i = 0; i < KEYS; i++) {
        struct key_place p;
        hash_place(&g, hash_key(5, &i, sizeof(i)), &p);
        unsigned c[5];
        for (unsigned k = 0; k < 4; k++)
            c[k] = (p.bits[k] - 16u) / 255;
        c[4] = p.shard * 4 + p.block;
        cells[0][c[0] * 16 + c[1]]++;
        cells[1][c[1] * 16 + c[2]]++;
        cells[2][c[0] * 16 + c[2]]++;
        cells[3][c[2] * 16 + c[3]]++;
        cells[4][c[0] * 16 + c[4]]++;
        cells[5][c[3] * 16 + c[4]]++;
    }
    for (int i = 0; i < 6; i++)
        assert_even(cells[i], 256);
}

static void test_hash_key__is_xxh3_128(void **state)
{
    (void)state;
    struct key_hash h = hash_key(0, "", 0); /* a published test vector; stored filters depend on it */
    assert_true(h.high == 0x99aa06d3014798d8 && h.low == 0x6001c324468d497f);
}

static void test_hash_key__depends_on_the_seed_and_every_byte(void **state)
{
    (void)state;
    struct key_hash a = hash_key(1, "a\0b", 3);
    struct key_hash seed = hash_key(2, "a\0b", 3);
    struct key_hash byte = hash_key(1, "a\0c", 3);
    struct key_hash length = hash_key(1, "a\0b", 2);
    assert_true(a.high != seed.high && a.low != seed.low);
    assert_true(a.high != byte.high && a.low != byte.low);
    assert_true(a.high != length.high && a.low != length.low);
}

/* --- hash_mix --- */

static const uint64_t mixes[] = {1, 2, UINT64_C(1) << 63, UINT64_MAX, 0xfeedfacecafebeef};
enum { MIXES = sizeof(mixes) / sizeof(mixes[0]) };

static void test_hash_mix__by_zero_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        struct key_hash h = hash_key(9, &i, sizeof(i));
        struct key_hash same = hash_mix(h, 0);
        assert_true(same.high == h.high && same.low == h.low);
    }
}

static int by_high_and_low(const void *a, const void *b)
{
    const struct key_hash *x = a, *y = b;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* A mix that is no bijection would merge hashes that differ in few bits, or hashes with an equal half. */
static void test_hash_mix__keeps_different_hashes_apart(void **state)
{
    (void)state;
    static struct key_hash all[1 << 18];
    const size_t n = sizeof(all) / sizeof(all[0]);
    for (int m = 0; m < MIXES; m++) {
        for (uint64_t i = 0; i < n; i++)
            all[i] = hash_mix((struct key_hash){.high = i % 512, .low = (i / 512) << 40}, mixes[m]);
        qsort(all, n, sizeof(all[0]), by_high_and_low);
        for (size_t i = 1; i < n; i++)
            assert_true(by_high_and_low(&all[i - 1], &all[i]) < 0);
    }
}

static void flip(struct key_hash *h, unsigned bit)
{
    if (bit < 64)
        h->low ^= UINT64_C(1) << bit;
    else
        h->high ^= UINT64_C(1) << (bit - 64);
}

static void test_hash_mix__spreads_every_bit_over_all_others(void **state)
{
    (void)state;
    enum { SAMPLES = 4000 };
    static uint32_t flips[128][128];
    for (int m = 0; m < MIXES; m++) {
        memset(flips, 0, sizeof(flips));
        for (uint64_t i = 0; i < SAMPLES; i++)
            for (unsigned in = 0; in < 128; in++) {
                struct key_hash a = hash_key(i, &i, sizeof(i)), b = a;
                flip(&b, in);
                a = hash_mix(a, mixes[m]);
                b = hash_mix(b, mixes[m]);
                for (unsigned out = 0; out < 128; out++)
                    flips[in][out] +=
                        (uint32_t)((out < 64 ? (a.low ^ b.low) >> out : (a.high ^ b.high) >> (out - 64)) & 1);
            }
        for (unsigned in = 0; in < 128; in++)
            for (unsigned out = 0; out < 128; out++)
                assert_in_range(flips[in][out], SAMPLES * 2 / 5, SAMPLES * 3 / 5);
    }
}

/* A change of one bit of the mix changes half of the bits of each hash. */
static void test_hash_mix__depends_on_every_bit_of_the_mix(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t changed = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            struct key_hash h = hash_key(3, &i, sizeof(i));
            struct key_hash a = hash_mix(h, 0xfeedfacecafebeef);
            struct key_hash b = hash_mix(h, 0xfeedfacecafebeef ^ UINT64_C(1) << bit);
            changed += (unsigned)__builtin_popcountll(a.high ^ b.high) +
                       (unsigned)__builtin_popcountll(a.low ^ b.low);
        }
        assert_in_range(changed, 62000, 66000);
    }
}

static void test_hash_mix__does_not_change_between_versions(void **state)
{
    (void)state;
    struct key_hash h = hash_mix((struct key_hash){.high = 1, .low = 2}, 3);
    assert_true(h.high == 0x0000000000000001 && h.low == 0x9e3779b9e17d05af);
}

/* Fixed values, because a change of the mapping would make every stored filter unreadable. */
static void test_hash_place__does_not_change_between_versions(void **state)
{
    (void)state;
    const struct geometry g = {.shards = 19, .blocks = 383, .block_bits = 2048, .hashes = 3};
    struct key_place p;
    hash_place(&g, (struct key_hash){.high = UINT64_C(1) << 63, .low = 0}, &p);
    assert_int_equal(p.shard, 9);   /* floor(19 / 2) */
    assert_int_equal(p.block, 191); /* floor(383 / 2) */
    /* splitmix64 of 0 begins e220a8397b1dcdaf 6e789e6aa1b965f4. */
    assert_int_equal(p.bits[0], 16 + (UINT64_C(0xe220a839) * 2032 >> 32));
    assert_int_equal(p.bits[1], 16 + (UINT64_C(0x7b1dcdaf) * 2032 >> 32));
    assert_int_equal(p.bits[2], 16 + (UINT64_C(0x6e789e6a) * 2032 >> 32));
}

static void test_hash_place__bears_the_largest_geometry_and_odd_numbers_of_hashes(void **state)
{
    (void)state;
    const struct key_hash ends[] = {{0, 0}, {UINT64_MAX, UINT64_MAX}};
    for (unsigned k = 1; k <= GEOMETRY_HASHES_MAX; k++)
        for (unsigned i = 0; i < 2; i++) {
            struct geometry g = {UINT32_C(1) << 31, 16383, 512, k};
            struct key_place p;
            hash_place(&g, ends[i], &p);
            assert_int_equal(p.shard, i == 0 ? 0 : 0x7fffffff);
            assert_int_equal(p.block, i == 0 ? 0 : 16382);
        }
}

static void test_hash_tag__differs_by_incarnation_filter_and_generation_and_is_never_zero(void **state)
{
    (void)state;
    uint16_t tag = hash_tag(1, "f", 1, 1);
    assert_int_equal(tag, hash_tag(1, "f", 1, 1));
    assert_int_not_equal(tag, hash_tag(2, "f", 1, 1));
    assert_int_not_equal(tag, hash_tag(1, "g", 1, 1));
    assert_int_not_equal(tag, hash_tag(1, "f", 1, 2));
    static uint32_t high[256];
    static uint32_t low[256];
    for (uint64_t i = 0; i < KEYS; i++) {
        tag = hash_tag(i * 7919, "short-link", 10, i);
        assert_int_not_equal(tag, 0);
        high[tag >> 8]++;
        low[tag & 0xff]++;
    }
    assert_even(high, 256);
    assert_even(low, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_place__spreads_over_shards_blocks_and_bits),
        cmocka_unit_test(test_hash_place__gives_bits_independent_of_each_other_and_of_the_block),
        cmocka_unit_test(test_hash_mix__by_zero_changes_nothing),
        cmocka_unit_test(test_hash_mix__keeps_different_hashes_apart),
        cmocka_unit_test(test_hash_mix__spreads_every_bit_over_all_others),
        cmocka_unit_test(test_hash_mix__depends_on_every_bit_of_the_mix),
        cmocka_unit_test(test_hash_mix__does_not_change_between_versions),
        cmocka_unit_test(test_hash_key__is_xxh3_128),
        cmocka_unit_test(test_hash_key__depends_on_the_seed_and_every_byte),
        cmocka_unit_test(test_hash_place__does_not_change_between_versions),
        cmocka_unit_test(test_hash_place__bears_the_largest_geometry_and_odd_numbers_of_hashes),
        cmocka_unit_test(test_hash_tag__differs_by_incarnation_filter_and_generation_and_is_never_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
