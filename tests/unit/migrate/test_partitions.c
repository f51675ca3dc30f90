/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "migrate/build/partitions.h"

enum { BLOCKS = 8, SHARD_BYTES = BLOCKS * 64 };

static struct geometry of(uint32_t shards)
{
    return (struct geometry){.shards = shards, .blocks = BLOCKS, .block_bits = 512, .hashes = 7};
}

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static struct partitions planned(const struct geometry *g, unsigned count, uint64_t memory)
{
    struct partitions p = {0};
    struct error e = {""};
    if (partitions_plan(&p, g, count, memory, "memory", &e) != ERR_OK)
        fail_msg("%s", e.text);
    return p;
}

/* In every layer, the shard of a hash belongs to the hash's partition. */
static void hash_lies_in_its_partition(const struct partitions *p, const struct geometry *g, unsigned count,
                                       struct key_hash h)
{
    uint32_t partition = partitions_of(p, h);
    assert_true(partition < p->count);
    for (unsigned i = 0; i < count; i++) {
        struct key_place place;
        uint32_t first, shards;
        hash_place(&g[i], h, &place);
        partitions_shards(p, partition, &g[i], &first, &shards);
        assert_in_range(place.shard, first, first + shards - 1);
        assert_true(shards <= partitions_shards_max(p, &g[i]));
        assert_true(first + shards <= g[i].shards);
    }
}

static void test_partitions_plan__is_one_where_all_shards_fit(void **state)
{
    (void)state;
    struct geometry g[] = {of(10), of(3)};
    assert_int_equal(planned(g, 2, 13 * SHARD_BYTES).count, 1);
    assert_int_equal(planned(g, 1, 10 * SHARD_BYTES).count, 1);
    struct partitions p = planned(g, 2, UINT64_MAX);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t first, count;
        partitions_shards(&p, 0, &g[i], &first, &count);
        assert_int_equal(first, 0);
        assert_int_equal(count, g[i].shards);
    }
}

static void test_partitions_plan__takes_as_few_as_the_memory_allows(void **state)
{
    (void)state;
    struct geometry g = of(10);
    assert_int_equal(planned(&g, 1, 10 * SHARD_BYTES - 1).count, 2);
    assert_int_equal(planned(&g, 1, 5 * SHARD_BYTES).count, 2);
    assert_int_equal(planned(&g, 1, 4 * SHARD_BYTES).count, 3);
    assert_int_equal(planned(&g, 1, 3 * SHARD_BYTES).count, 4);
    assert_int_equal(planned(&g, 1, SHARD_BYTES).count, 10);
}

static void test_partitions_plan__never_divides_a_shard(void **state)
{
    (void)state;
    struct geometry g[] = {of(1), of(1)}, many = of(1024);
    assert_int_equal(planned(g, 1, 1).count, 1);
    assert_int_equal(planned(g, 2, 1).count, 1);
    assert_int_equal(planned(&many, 1, 0).count, 1024);
}

static void test_partitions_plan__says_how_much_memory_it_needs(void **state)
{
    (void)state;
    struct partitions p;
    struct error e = {""};
    struct geometry g = of(5000); /* 1000 partitions of five shards */
    assert_int_equal(partitions_plan(&p, &g, 1, 5 * SHARD_BYTES - 1, "build_memory", &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "build_memory"));
    assert_non_null(strstr(e.text, "2560 are needed"));
    assert_int_equal(planned(&g, 1, 5 * SHARD_BYTES).count, 1000);
}

static void test_partitions_shards__divides_one_layer_without_gaps_or_overlaps(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 3, 7, 64, 100, 1023, 1024, 1025, 4097, 100003};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct geometry g = of(sizes[i]);
        for (uint64_t fit = (sizes[i] + 1023) / 1024; fit < sizes[i]; fit = fit * 3 / 2 + 1) {
            struct partitions p = planned(&g, 1, fit * SHARD_BYTES);
            uint32_t next_shard = 0;
            for (uint32_t j = 0; j < p.count; j++) {
                uint32_t first, count;
                partitions_shards(&p, j, &g, &first, &count);
                assert_int_equal(first, next_shard);
                assert_in_range(count, 1, fit);
                next_shard = first + count;
            }
            assert_int_equal(next_shard, sizes[i]);
        }
    }
}

static void test_partitions_of__a_hash_lies_in_its_partition_in_every_layer(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (unsigned round = 0; round < 300; round++) {
        struct geometry g[4];
        unsigned count = 1 + (unsigned)(next(&seed) % 4);
        uint64_t bytes = 0;
        for (unsigned i = 0; i < count; i++) {
            g[i] = of(1 + (uint32_t)(next(&seed) % (round < 200 ? 90 : 1000000)));
            bytes += geometry_bytes(&g[i]);
        }
        struct partitions p = planned(g, count, bytes / (1 + next(&seed) % 200) + 8 * SHARD_BYTES);
        for (unsigned i = 0; i < 100; i++)
            hash_lies_in_its_partition(&p, g, count, (struct key_hash){.high = next(&seed)});
        hash_lies_in_its_partition(&p, g, count, (struct key_hash){.high = 0});
        hash_lies_in_its_partition(&p, g, count, (struct key_hash){.high = UINT64_MAX});
    }
}

/* The first and the last hash of each shard, where an error of rounding would be visible. */
static void test_partitions_of__is_exact_at_the_borders(void **state)
{
    (void)state;
    __extension__ typedef unsigned __int128 wide;
    struct geometry g[] = {of(101), of(7), of(64)};
    for (uint64_t fit = 3; fit < 172; fit++) {
        struct partitions p = planned(g, 3, fit * SHARD_BYTES);
        for (unsigned layer = 0; layer < 3; layer++)
            for (uint32_t i = 1; i < g[layer].shards; i++) {
                uint64_t first = (uint64_t)((((wide)i << 64) + g[layer].shards - 1) / g[layer].shards);
                hash_lies_in_its_partition(&p, g, 3, (struct key_hash){.high = first});
                hash_lies_in_its_partition(&p, g, 3, (struct key_hash){.high = first - 1});
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitions_plan__is_one_where_all_shards_fit),
        cmocka_unit_test(test_partitions_plan__takes_as_few_as_the_memory_allows),
        cmocka_unit_test(test_partitions_plan__never_divides_a_shard),
        cmocka_unit_test(test_partitions_plan__says_how_much_memory_it_needs),
        cmocka_unit_test(test_partitions_shards__divides_one_layer_without_gaps_or_overlaps),
        cmocka_unit_test(test_partitions_of__a_hash_lies_in_its_partition_in_every_layer),
        cmocka_unit_test(test_partitions_of__is_exact_at_the_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
