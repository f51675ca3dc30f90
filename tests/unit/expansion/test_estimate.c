/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "expansion/decide/estimate.h"
#include "shard/filter/generation.h"

static const uint64_t gib = UINT64_C(1) << 30;

static struct estimate_input usual(void)
{
    return (struct estimate_input){.keys = UINT64_C(30000000000),
                                   .error_rate = 0.001,
                                   .growth = 1,
                                   .shard_bytes = SHARD_BYTES_DEFAULT,
                                   .node_memory = 64 * gib,
                                   .scan_rate = 1e6,
                                   .readers = 1,
                                   .spill_bytes = 64 * gib};
}

static struct estimate made(struct estimate_input in)
{
    struct estimate est;
    struct error e = {""};
    if (estimate_make(&est, &in, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return est;
}

static void assert_fits(struct estimate_input in, enum err expected, const char *text)
{
    struct estimate est = made(in);
    struct error e = {""};
    assert_int_equal(estimate_fits(&est, &in, &e), expected);
    if (strstr(e.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, text);
}

static void test_estimate__of_30_billion_keys(void **state)
{
    (void)state;
    struct estimate est = made(usual());
    assert_true(est.geometry.shards > 50000 && est.geometry.shards < 56000);
    assert_true(geometry_rate(&est.geometry, UINT64_C(30000000000)) <= 0.001);
    assert_true(est.memory == geometry_memory_log(&est.geometry));
    assert_int_equal(est.nodes_needed, 2);
    assert_int_equal(est.nodes, 2);
    assert_true(est.during <= est.node_room && est.node_room < 58 * gib);
    assert_true(est.during >= est.before + est.after);
    assert_true(fabs(est.scan_s - 30000) < 1e-6);
    assert_true(est.rebuild_s > est.scan_s + est.sweep_s + est.upload_s);
    assert_fits(usual(), ERR_OK, "");
}

/* With one node fewer, the share of a node exceeds its memory. All shards have a place. */
static void test_estimate__takes_the_fewest_nodes(void **state)
{
    (void)state;
    for (uint64_t memory = 2 * gib; memory <= 200 * gib; memory += 7 * gib) {
        struct estimate_input in = usual();
        in.node_memory = memory;
        struct estimate est = made(in);
        assert_true(est.nodes_needed > 0);
        for (uint64_t nodes = est.nodes_needed > 1 ? est.nodes_needed - 1 : 1; nodes <= est.nodes_needed;
             nodes++) {
            in.nodes = (unsigned)nodes;
            struct estimate with = made(in);
            assert_true((with.during <= with.node_room) == (nodes == est.nodes_needed));
            assert_true(with.node_shards * nodes >= with.geometry.shards);
        }
    }
}

static void test_estimate__does_not_overflow_with_a_million_million_keys(void **state)
{
    (void)state;
    struct estimate_input in = usual();
    struct estimate small = made(in);
    in.keys = UINT64_C(1000000000000);
    in.growth = 4;
    in.build_memory = gib;
    struct estimate est = made(in);
    double times = 1e12 / 30e9;
    assert_true(fabs((double)est.memory / (double)small.memory - times) < times * 1e-3);
    assert_true(fabs((double)est.next_memory / (double)est.memory - 4) < 0.01);
    assert_true(est.next_keys == UINT64_C(4000000000000));
    assert_true(est.spilled == in.keys * 16 && est.spill_peak == 64 * gib);
    assert_true(est.partitions == (geometry_bytes(&est.next) + gib - 1) / gib);
    assert_true(geometry_rate(&est.geometry, in.keys) <= 0.001);
    assert_true(geometry_rate(&est.next, est.next_keys) <= 0.001);
}

static void test_estimate__spills_only_what_does_not_fit(void **state)
{
    (void)state;
    struct estimate_input in = usual();
    assert_true(made(in).spilled == 0 && made(in).partitions == 1); /* build_memory is 0: unknown */
    struct estimate est = made(in);
    in.build_memory = geometry_bytes(&est.next);
    assert_true(made(in).spilled == 0 && made(in).partitions == 1);
    in.build_memory--;
    assert_true(made(in).spilled == 16 * in.keys && made(in).partitions == 2);
    in.spill_bytes = 1000 * gib;
    assert_true(made(in).spill_peak == 16 * in.keys);
}

static void test_estimate_fits__names_the_remedy(void **state)
{
    (void)state;
    struct estimate_input in = usual();
    in.nodes = 1;
    assert_fits(in, ERR_REFUSED, "2 nodes hold it");
    in.nodes = 2;
    assert_fits(in, ERR_OK, "");
    in.nodes = GENERATION_NODES_MAX + 1;
    assert_fits(in, ERR_REFUSED, "more than the 64");
    in = usual();
    in.node_memory = gib; /* even 64 such nodes are too small */
    assert_fits(in, ERR_REFUSED, "they need more memory");
    in.node_memory = 1000; /* a node has no room for one shard */
    assert_true(made(in).nodes_needed == 0);
    assert_fits(in, ERR_REFUSED, "they need more memory");
    in.node_memory = 0;
    assert_fits(in, ERR_OK, "");
    assert_int_equal(made(in).nodes, 1);
}

static void assert_range(struct estimate_input in, const char *text)
{
    struct estimate est;
    struct error e = {""};
    assert_int_equal(estimate_make(&est, &in, &e), ERR_RANGE);
    if (strstr(e.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, text);
}

static void test_estimate__refuses_what_has_no_meaning(void **state)
{
    (void)state;
    struct estimate_input in = usual();
    in.keys = 0;
    assert_range(in, "capacity is 0");
    in = usual();
    in.keys = (UINT64_C(1) << 53) + 1;
    assert_range(in, "2^53");
    in.keys = UINT64_C(1) << 52;
    in.growth = 3;
    assert_range(in, "2^53");
    in = usual();
    in.growth = (double)NAN;
    assert_range(in, "growth");
    in = usual();
    in.readers = 0;
    assert_range(in, "0 readers");
    in = usual();
    in.scan_rate = 0;
    assert_range(in, "scan rate 0");
    in = usual();
    in.error_rate = 1;
    assert_range(in, "error rate 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate__of_30_billion_keys),
        cmocka_unit_test(test_estimate__takes_the_fewest_nodes),
        cmocka_unit_test(test_estimate__does_not_overflow_with_a_million_million_keys),
        cmocka_unit_test(test_estimate__spills_only_what_does_not_fit),
        cmocka_unit_test(test_estimate_fits__names_the_remedy),
        cmocka_unit_test(test_estimate__refuses_what_has_no_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
