/* SPDX-License-Identifier: MIT */
/* Measures the false-positive rate of full filters, with the real hash and blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include "shard/filter/block.h"

enum { TAG = 0xbee5, SEED = 20250101 };

static uint8_t *filled(const struct geometry *g, uint64_t keys)
{
    uint8_t *shards = malloc(geometry_bytes(g));
    assert_non_null(shards);
    for (uint32_t i = 0; i < g->shards; i++)
        block_fill(g, TAG, shards + (size_t)i * geometry_shard_bytes(g));
    for (uint64_t key = 0; key < keys; key++) {
        struct key_place p;
        hash_place(g, hash_key(SEED, &key, sizeof(key)), &p);
        (void)block_set(g, &p, shards + (size_t)p.shard * geometry_shard_bytes(g));
    }
    return shards;
}

static enum block_answer look(const struct geometry *g, const uint8_t *shards, uint64_t key)
{
    struct key_place p;
    hash_place(g, hash_key(SEED, &key, sizeof(key)), &p);
    const uint8_t *shard = shards + (size_t)p.shard * geometry_shard_bytes(g);
    return block_test(g, TAG, &p, shard + (size_t)p.block * (g->block_bits / 8), g->block_bits / 8);
}

/* Returns the share of @probes absent keys that are reported present. The first bits of a key do not depend
 * on the number of hashes, so a few bits suffice for most keys. */
static double measured(const struct geometry *g, const uint8_t *shards, uint64_t probes)
{
    struct geometry first = *g;
    first.hashes = g->hashes < 4 ? g->hashes : 4;
    uint64_t found = 0;
    for (uint64_t i = 0; i < probes; i++) {
        uint64_t key = (UINT64_C(1) << 40) + i;
        enum block_answer answer = look(&first, shards, key);
        assert_int_not_equal(answer, BLOCK_BAD);
        if (answer == BLOCK_PRESENT)
            found += look(g, shards, key) == BLOCK_PRESENT;
    }
    return (double)found / (double)probes;
}

static void check_rate(double target, uint64_t keys, uint64_t probes)
{
    struct geometry g;
    assert_int_equal(geometry_plan(&g, keys, target, SHARD_BYTES_DEFAULT, NULL), ERR_OK);
    uint8_t *shards = filled(&g, keys);
    for (uint64_t key = 0; key < keys; key++)
        if (look(&g, shards, key) != BLOCK_PRESENT)
            fail_msg("key %llu was added and is absent", (unsigned long long)key);
    double rate = measured(&g, shards, probes);
    double expected = geometry_rate(&g, keys);
    double sigma = sqrt(expected / (double)probes);
    print_message("target %g expected %.4g measured %.4g +- %.2g\n", target, expected, rate, sigma);
    assert_true(expected <= target);
    assert_true(rate <= target + 3 * sigma);
    /* Besides the sampling error, the random load of the blocks makes a difference of a few percent. */
    assert_true(fabs(rate - expected) <= 4 * sigma + 0.06 * expected);
    free(shards);
}

static void test_full_filter__keeps_one_in_a_hundred(void **state)
{
    (void)state;
    check_rate(1e-2, 300000, 2000000);
}

static void test_full_filter__keeps_one_in_a_thousand(void **state)
{
    (void)state;
    check_rate(1e-3, 500000, 5000000);
}

static void test_full_filter__keeps_one_in_ten_thousand(void **state)
{
    (void)state;
    check_rate(1e-4, 500000, 10000000);
}

static void test_full_filter__keeps_one_in_a_million(void **state)
{
    (void)state;
    check_rate(1e-6, 1000000, 25000000);
}

/* In small blocks the usual formula is a fifth too low, because it ignores the spread of the set bits. Ours
 * must be exact. */
static void test_formula__is_exact_in_small_blocks(void **state)
{
    (void)state;
    const struct geometry g = {.shards = 3, .blocks = 30000, .block_bits = 512, .hashes = 9};
    const uint64_t keys = 90000 * 32;
    uint8_t *shards = filled(&g, keys);
    double rate = measured(&g, shards, 8000000);
    double expected = geometry_rate(&g, keys);
    print_message("expected %.5g measured %.5g\n", expected, rate);
    assert_true(fabs(rate / expected - 1) < 0.04);
    free(shards);
}

/* --- two generations of the same keys --- */

static struct key_place mixed(const struct geometry *g, uint64_t key, uint64_t mix)
{
    struct key_place p;
    hash_place(g, hash_mix(hash_key(SEED, &key, sizeof(key)), mix), &p);
    return p;
}

static bool finds(const struct geometry *g, const uint8_t *shards, uint64_t key, uint64_t mix)
{
    struct key_place p = mixed(g, key, mix);
    size_t block_bytes = g->block_bits / 8;
    const uint8_t *block = shards + (size_t)p.shard * geometry_shard_bytes(g) + p.block * block_bytes;
    return block_test(g, TAG, &p, block, block_bytes) == BLOCK_PRESENT;
}

static void test_two_generations__share_no_false_positives(void **state)
{
    (void)state;
    enum { FILTER_KEYS = 100000, PROBES = 1000000 };
    static const uint64_t mix[2] = {0x5eed, 0x5eee};
    struct geometry g;
    uint8_t *shards[2];
    assert_int_equal(geometry_plan(&g, FILTER_KEYS, 0.02, SHARD_BYTES_DEFAULT, NULL), ERR_OK);
    for (int i = 0; i < 2; i++) {
        shards[i] = calloc(1, geometry_bytes(&g));
        assert_non_null(shards[i]);
        for (uint32_t s = 0; s < g.shards; s++)
            block_fill(&g, TAG, shards[i] + (size_t)s * geometry_shard_bytes(&g));
        for (uint64_t key = 0; key < FILTER_KEYS; key++) {
            struct key_place p = mixed(&g, key, mix[i]);
            (void)block_set(&g, &p, shards[i] + (size_t)p.shard * geometry_shard_bytes(&g));
        }
    }
    double first = 0, second = 0, both = 0;
    for (uint64_t i = 0; i < PROBES; i++) {
        uint64_t key = (UINT64_C(1) << 40) + i;
        bool a = finds(&g, shards[0], key, mix[0]), b = finds(&g, shards[1], key, mix[1]);
        first += a;
        second += b;
        both += a && b;
    }
    double expected = first * second / PROBES;
    print_message("first %.0f second %.0f both %.0f, expected %.0f\n", first, second, both, expected);
    assert_true(first > 1000 && second > 1000);
    assert_true(fabs(both - expected) <= 4 * sqrt(expected));
    free(shards[0]);
    free(shards[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_filter__keeps_one_in_a_hundred),
        cmocka_unit_test(test_full_filter__keeps_one_in_a_thousand),
        cmocka_unit_test(test_full_filter__keeps_one_in_ten_thousand),
        cmocka_unit_test(test_full_filter__keeps_one_in_a_million),
        cmocka_unit_test(test_formula__is_exact_in_small_blocks),
        cmocka_unit_test(test_two_generations__share_no_false_positives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
