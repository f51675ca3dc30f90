/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <stdlib.h>
#include "shard/filter/block.h"
#include "shard/filter/geometry.h"

static struct geometry plan(uint64_t keys, double rate)
{
    struct geometry g;
    struct error e;
    assert_int_equal(geometry_plan(&g, keys, rate, SHARD_BYTES_DEFAULT, &e), ERR_OK);
    return g;
}

static double memory_ratio(const struct geometry *g, uint64_t keys, double rate)
{
    double blocks = (double)keys * (g->blocks + 1.0) / g->blocks; /* a header takes a block without keys */
    return (double)geometry_memory_log(g) * 8 / blocks / geometry_classic_bits(rate);
}

static void test_geometry_plan__keeps_the_rate_at_capacity(void **state)
{
    (void)state;
    static const double rates[] = {0.9, 0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9};
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++)
        for (uint64_t keys = 1; keys < 1000000000000; keys = keys * 73 / 10) {
            struct geometry g = plan(keys, rates[r]);
            assert_int_equal(geometry_check(&g, NULL), ERR_OK);
            assert_true(geometry_rate(&g, keys) <= rates[r]);
            assert_true(geometry_shard_bytes(&g) <= SHARD_BYTES_DEFAULT);
        }
}

static void test_geometry_plan__wastes_little_memory(void **state)
{
    (void)state;
    const uint64_t keys[] = {1000000, 1200000, 1500000, 3000000, 10000000, 100000000};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct geometry g = plan(keys[i], 1e-3);
        assert_true(memory_ratio(&g, keys[i], 1e-3) <= 1.05);
    }
    for (uint64_t n = 300000; n < 3000000000; n += n / 77) {
        struct geometry g = plan(n, 1e-3);
        assert_true(memory_ratio(&g, n, 1e-3) <= 1.07);
    }
    /* For a few hundred kilobytes more is wasted: there are four size classes per doubling, and no partial
     * blocks. */
    for (uint64_t n = 100000; n < 300000; n += n / 143) {
        struct geometry g = plan(n, 1e-3);
        assert_true(memory_ratio(&g, n, 1e-3) <= 1.101);
    }
}

/* The size classes of jemalloc, by another rule than in the code. */
static uint64_t class_of(uint64_t size)
{
    for (uint64_t unit = 16;; unit *= 2)
        for (uint64_t quarter = 4; quarter < 8; quarter++)
            if (quarter * unit >= size)
                return quarter * unit;
}

static void test_geometry_plan__no_other_number_of_shards_takes_much_less(void **state)
{
    (void)state;
    for (uint64_t n = 50000; n < 20000000; n = n * 137 / 100) {
        struct geometry g = plan(n, 1e-3);
        uint64_t block = g.block_bits / 8;
        uint64_t low = 1;
        uint64_t high = (uint64_t)g.shards * g.blocks;
        while (low < high) { /* fewest blocks that keep the rate */
            struct geometry one = {.shards = 1, .block_bits = g.block_bits, .hashes = g.hashes};
            one.blocks = (uint32_t)((low + high) / 2);
            if (geometry_rate(&one, n) <= 1e-3)
                high = one.blocks;
            else
                low = one.blocks + 1u;
        }
        uint64_t most = SHARD_BYTES_MAX / block - 1; /* without the header */
        uint64_t fewest = (low + most - 1) / most;
        uint64_t best = UINT64_MAX;
        for (uint64_t shards = fewest; shards <= 8 * fewest; shards++) {
            uint64_t length = ((low + shards - 1) / shards + 1) * block;
            if (length > SHARD_BYTES_MAX)
                continue;
            uint64_t memory = shards * (class_of(length + 10) + 120);
            best = memory < best ? memory : best;
        }
        assert_true((double)geometry_memory_log(&g) <= 1.01 * (double)best);
    }
}

static void test_geometry_plan__takes_the_smallest_block_within_five_percent(void **state)
{
    (void)state;
    assert_int_equal(plan(1000000, 0.1).block_bits, 512);
    assert_int_equal(plan(1000000, 1e-2).block_bits, 1024);
    assert_int_equal(plan(1000000, 1e-3).block_bits, 2048);
    assert_int_equal(plan(1000000, 1e-4).block_bits, 2048);
    assert_int_equal(plan(1000000, 1e-6).block_bits, 4096);
    assert_int_equal(plan(1000000, 1e-9).block_bits, 4096);
}

static void test_geometry_plan__no_other_number_of_hashes_does_better(void **state)
{
    (void)state;
    static const double rates[] = {0.5, 0.1, 1e-2, 1e-3, 1e-6, 1e-9};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct geometry g = plan(30000000000, rates[i]);
        /* Just above the load at which the planned number of hashes keeps the rate, no other number keeps
         * it. */
        uint64_t keys = 30000000000;
        while (geometry_rate(&g, keys) <= rates[i])
            keys += keys / 10000;
        for (unsigned k = 1; k <= GEOMETRY_HASHES_MAX; k++) {
            struct geometry other = g;
            other.hashes = k;
            assert_true(k == g.hashes || geometry_rate(&other, keys) > rates[i]);
        }
    }
}

static void test_geometry_plan__takes_one_key_and_thirty_thousand_million(void **state)
{
    (void)state;
    struct geometry one = plan(1, 1e-3);
    assert_int_equal(one.shards, 1);
    assert_int_equal(one.blocks, 1);
    struct geometry large = plan(30000000000, 1e-3);
    assert_in_range(large.shards, 50000, 60000);
    assert_true(memory_ratio(&large, 30000000000, 1e-3) < 1.04);
}

static void test_geometry_plan__refuses_what_it_cannot_do(void **state)
{
    (void)state;
    const struct geometry before = {9, 9, 9, 9};
    struct geometry g = before;
    struct error e;
    static const double rates[] = {0, 1, -1, 2, NAN, INFINITY, 1e-28, 1e-300, 5e-324};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        assert_int_equal(geometry_plan(&g, 1000, rates[i], SHARD_BYTES_DEFAULT, &e), ERR_RANGE);
    assert_int_equal(geometry_plan(&g, 0, 1e-3, SHARD_BYTES_DEFAULT, &e), ERR_RANGE);
    assert_int_equal(geometry_plan(&g, 1000, 1e-3, SHARD_BYTES_MIN - 1, &e), ERR_RANGE);
    assert_int_equal(geometry_plan(&g, 1000, 1e-3, SHARD_BYTES_MAX + 1, &e), ERR_RANGE);
    assert_int_equal(geometry_plan(&g, UINT64_MAX, 1e-3, SHARD_BYTES_DEFAULT, &e), ERR_RANGE);
    assert_non_null(strstr(e.text, "2^31 shards"));
    assert_int_equal(geometry_plan(&g, 60000000000, 1e-3, SHARD_BYTES_MIN, NULL), ERR_OK);
    g = before;
    assert_int_equal(geometry_plan(&g, 600000000000000, 1e-3, SHARD_BYTES_MIN, NULL), ERR_RANGE);
    assert_memory_equal(&g, &before, sizeof(g));
}

static void test_geometry_plan__bears_rates_next_to_one(void **state)
{
    (void)state;
    static const double rates[] = {0.6, 0.99, 0.9999999, 1 - 1e-12, 1 - 0x1p-53};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct geometry g = plan(1000, rates[i]);
        assert_true(geometry_rate(&g, 1000) <= rates[i]);
    }
}

static void test_geometry_plan__is_quick(void **state)
{
    (void)state;
    clock_t start = clock();
    for (int i = 0; i < 10; i++)
        (void)plan(123456789, i % 2 ? 1e-9 : 1e-3);
    double ms = (double)(clock() - start) * 1000 / CLOCKS_PER_SEC / 10;
    assert_true(ms < 60); /* 1 to 3 ms without sanitizers */
}

/* The formula of most texts. It uses only the mean of the set bits, and all bits of the block. */
static double plain_rate(unsigned bits, unsigned k, double mean)
{
    double sum = 0;
    for (unsigned j = 1; j < 4000; j++)
        sum += exp(j * log(mean) - mean - lgamma(j + 1.0)) * pow(1 - pow(1 - 1.0 / bits, (double)j * k), k);
    return sum;
}

static double exact_rate(unsigned bits, unsigned k, double mean)
{
    struct geometry g = {.shards = 1000, .blocks = 1000, .block_bits = bits, .hashes = k};
    return geometry_rate(&g, (uint64_t)(mean * 1e6));
}

static double bits_per_key(double (*formula)(unsigned, unsigned, double), unsigned bits, double rate,
                           unsigned k_low)
{
    double best = INFINITY;
    for (unsigned k = k_low; k < k_low + 5; k++) {
        double low = 1;
        double high = 600;
        for (int i = 0; i < 24; i++) {
            double middle = (low + high) / 2;
            if (formula(bits, k, middle) <= rate)
                low = middle;
            else
                high = middle;
        }
        best = fmin(best, bits / low);
    }
    return best;
}

/* The figures of the usual formula are published. Ours are higher because of the tag, which takes 16 bits of
 * each block, and because of the spread of the set bits, which the usual formula ignores. The spread matters
 * little in large blocks, and much in small ones. */
static void test_geometry_rate__gives_the_known_table_and_the_price_of_tag_and_spread(void **state)
{
    (void)state;
    static const struct {
        double rate;
        unsigned bits, k_low;
        double plain, exact;
    } rows[] = {
        {1e-2, 512, 4, 9.9, 10.25},    {1e-2, 1024, 4, 9.8, 9.92},    {1e-2, 2048, 5, 9.7, 9.75},
        {1e-2, 4096, 5, 9.7, 9.67},    {1e-3, 512, 7, 15.5, 16.09},   {1e-3, 1024, 8, 15.0, 15.22},
        {1e-3, 2048, 8, 14.7, 14.79},  {1e-3, 4096, 8, 14.6, 14.58},  {1e-4, 512, 9, 22.0, 22.84},
        {1e-4, 1024, 10, 20.6, 20.97}, {1e-4, 2048, 11, 19.9, 20.06}, {1e-4, 4096, 11, 19.6, 19.61},
        {1e-6, 512, 13, 38.6, 40.42},  {1e-6, 1024, 15, 33.7, 34.40}, {1e-6, 2048, 16, 31.3, 31.55},
        {1e-6, 4096, 17, 30.0, 30.15},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double plain = bits_per_key(plain_rate, rows[i].bits, rows[i].rate, rows[i].k_low);
        double exact = bits_per_key(exact_rate, rows[i].bits, rows[i].rate, rows[i].k_low);
        assert_true(fabs(plain - rows[i].plain) < 0.1);
        assert_true(fabs(exact - rows[i].exact) < 0.01);
        assert_true(exact > plain && exact < 1.06 * plain);
    }
}

/* With one hash, a key is a false positive if one given bit of m is set. With a Poisson load the probability
 * is 1 - e^-(load/m). */
static void test_geometry_rate__agrees_with_the_closed_form_for_one_hash(void **state)
{
    (void)state;
    for (uint64_t keys = 1; keys < UINT64_C(1) << 40; keys *= 3) {
        struct geometry g = {.shards = 10, .blocks = 1000, .block_bits = 512, .hashes = 1};
        double expected = -expm1(-(double)keys / 10000 / 496);
        assert_true(fabs(geometry_rate(&g, keys) - expected) <= 1e-9 * expected);
    }
}

static void test_geometry_rate__grows_from_none_to_one(void **state)
{
    (void)state;
    struct geometry g = plan(1000000, 1e-9);
    double last = 0;
    assert_true(geometry_rate(&g, 0) == 0);
    for (uint64_t keys = 1; keys < UINT64_C(9000000000000000000); keys += keys / 2 + 1) {
        double rate = geometry_rate(&g, keys);
        assert_true(rate > 0 && rate <= 1 && rate >= last * (1 - 1e-12));
        last = rate;
    }
    assert_true(last == 1);
}

static void test_geometry_check__refuses_what_no_plan_makes(void **state)
{
    (void)state;
    const struct geometry smallest = {.shards = 1, .blocks = 1, .block_bits = BLOCK_BITS_MIN, .hashes = 1};
    assert_int_equal(geometry_check(&smallest, NULL), ERR_OK);
    assert_int_equal(geometry_bytes(&smallest), 64);
    static const struct geometry bad[] = {
        {0, 1, 512, 1},     {0x80000001, 1, 512, 1}, {1, 0, 512, 1},
        {1, 16384, 512, 1}, {1, UINT32_MAX, 512, 1}, {1, 1, 256, 1},
        {1, 1, 8192, 1},    {1, 1, 1000, 1},         {1, 1, 0, 1},
        {1, 1, 512, 0},     {1, 2048, 4096, 1},      {1, 1, 512, GEOMETRY_HASHES_MAX + 1},
    };
    struct error e;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(geometry_check(&bad[i], &e), ERR_RANGE);
    struct geometry largest = {UINT32_C(1) << 31, 16383, 512, GEOMETRY_HASHES_MAX};
    assert_int_equal(geometry_check(&largest, NULL), ERR_OK);
    assert_true(geometry_bytes(&largest) == (UINT64_C(1) << 31) * SHARD_BYTES_MAX);
}

/* The share of usable bits that are not set. */
static double zeros(const struct geometry *g, uint16_t tag, uint8_t *const *shards)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < g->shards; i++)
        for (uint32_t b = 0; b < geometry_shard_bytes(g); b++)
            set += (unsigned)__builtin_popcount(shards[i][b]);
    uint64_t blocks = (uint64_t)g->shards * g->blocks;
    set -= blocks * (unsigned)__builtin_popcount(tag);
    return 1 - (double)set / ((double)blocks * (g->block_bits - BLOCK_TAG_BITS));
}

static void estimate_is_near(const struct geometry *g, uint64_t keys)
{
    const uint16_t tag = 0xa50f;
    struct key_place place;
    uint8_t **shards = calloc(g->shards, sizeof(*shards));
    assert_non_null(shards);
    for (uint32_t i = 0; i < g->shards; i++) {
        shards[i] = malloc(geometry_shard_bytes(g));
        assert_non_null(shards[i]);
        block_fill(g, tag, shards[i]);
    }
    for (uint64_t i = 0; i < keys; i++) {
        hash_place(g, hash_key(0x5eed, &i, sizeof(i)), &place);
        (void)block_set(g, &place, shards[place.shard]);
    }
    double estimate = geometry_keys(g, zeros(g, tag, shards)), off = estimate / (double)keys - 1;
    if (fabs(off) > 0.02)
        fail_msg("%g for %llu keys", estimate, (unsigned long long)keys);
    for (uint32_t i = 0; i < g->shards; i++)
        free(shards[i]);
    free(shards);
}

static void test_geometry_keys__is_within_two_percent_of_what_was_added(void **state)
{
    (void)state;
    static const double rates[] = {0.3, 0.01, 1e-3, 1e-6};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct geometry g = plan(200000, rates[i]);
        estimate_is_near(&g, 20000);
        estimate_is_near(&g, 100000);
        estimate_is_near(&g, 200000);
        estimate_is_near(&g, 400000);
    }
    struct geometry one = {.shards = 1, .blocks = 1, .block_bits = 4096, .hashes = 7};
    estimate_is_near(&one, 200);
}

static void test_geometry_keys__is_finite_at_both_ends(void **state)
{
    (void)state;
    struct geometry g = plan(1000, 0.01);
    assert_true(geometry_keys(&g, 1) == 0);
    assert_true(geometry_keys(&g, 0) > 1000 && isfinite(geometry_keys(&g, 0)));
    assert_true(geometry_keys(&g, 0.4) > geometry_keys(&g, 0.5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_geometry_keys__is_within_two_percent_of_what_was_added),
        cmocka_unit_test(test_geometry_keys__is_finite_at_both_ends),
        cmocka_unit_test(test_geometry_plan__keeps_the_rate_at_capacity),
        cmocka_unit_test(test_geometry_plan__wastes_little_memory),
        cmocka_unit_test(test_geometry_plan__no_other_number_of_shards_takes_much_less),
        cmocka_unit_test(test_geometry_plan__takes_the_smallest_block_within_five_percent),
        cmocka_unit_test(test_geometry_plan__no_other_number_of_hashes_does_better),
        cmocka_unit_test(test_geometry_plan__takes_one_key_and_thirty_thousand_million),
        cmocka_unit_test(test_geometry_plan__refuses_what_it_cannot_do),
        cmocka_unit_test(test_geometry_plan__bears_rates_next_to_one),
        cmocka_unit_test(test_geometry_plan__is_quick),
        cmocka_unit_test(test_geometry_rate__gives_the_known_table_and_the_price_of_tag_and_spread),
        cmocka_unit_test(test_geometry_rate__agrees_with_the_closed_form_for_one_hash),
        cmocka_unit_test(test_geometry_rate__grows_from_none_to_one),
        cmocka_unit_test(test_geometry_check__refuses_what_no_plan_makes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
