/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "expansion/decide/plan.h"

static struct plan_input usual(void)
{
    return (struct plan_input){.current_capacity = 1000000,
                               .growth = 1.5,
                               .headroom = 1.3,
                               .error_rate = 0.001,
                               .shard_bytes = SHARD_BYTES_DEFAULT,
                               .build_memory = UINT64_C(512) << 20,
                               .node_count = 2};
}

static struct plan made(struct plan_input in)
{
    struct plan p;
    struct error e = {""};
    if (plan_make(&p, &in, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return p;
}

static void assert_refused(struct plan_input in, const char *expected)
{
    struct plan p;
    struct plan before;
    memset(&p, 0x5a, sizeof(p));
    memcpy(&before, &p, sizeof(p));
    struct error e = {""};
    assert_int_equal(plan_make(&p, &in, &e), ERR_RANGE);
    if (strstr(e.text, expected) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, expected);
    assert_memory_equal(&p, &before, sizeof(p));
}

static void test_plan_make__shrinks_where_most_was_deleted(void **state)
{
    (void)state;
    struct plan_input in = usual();
    in.keep_capacity = true;
    in.least_capacity = 100000;
    in.items = 900000;
    in.source_rows = 450001; /* a little more than half of the keys have rows: the capacity stays */
    assert_true(made(in).capacity == 1000000);
    in.source_rows = 450000;
    assert_true(made(in).capacity == 585000); /* rows * headroom */
    in.source_rows = 1000;
    assert_true(made(in).capacity == 100000); /* the configured capacity is the minimum */
    in.source_rows = 0;                       /* unknown */
    assert_true(made(in).capacity == 1000000);
    in.source_rows = 1000;
    in.least_capacity = 2000000; /* a larger minimum does not raise the capacity */
    assert_true(made(in).capacity == 1000000);
    in.least_capacity = 100000;
    in.keep_capacity = false; /* a full filter grows */
    assert_true(made(in).capacity == 1500000);
}

static void test_plan_make__grows_by_the_larger_of_growth_and_rows(void **state)
{
    (void)state;
    struct plan_input in = usual();
    assert_true(made(in).capacity == 1500000);
    in.source_rows = 1000000; /* rows * headroom is less than growth gives */
    assert_true(made(in).capacity == 1500000);
    in.source_rows = 2000000;
    assert_true(made(in).capacity == 2600000);
    in.current_capacity = 100;
    in.growth = 1.1;
    in.source_rows = 0;
    assert_true(made(in).capacity == 110);
    in.current_capacity = 3;
    in.growth = 1.5;
    assert_true(made(in).capacity == 5);
}

static void test_plan_make__takes_the_configured_capacity_for_a_keep_capacity(void **state)
{
    (void)state;
    struct plan_input in = usual();
    in.keep_capacity = true;
    assert_true(made(in).capacity == 1000000);
    in.source_rows = 1000;
    assert_true(made(in).capacity == 1000000);
    in.source_rows = 1000000;
    assert_true(made(in).capacity == 1300000);
}

static void test_plan_make__takes_what_an_operator_wants_if_the_rows_fit(void **state)
{
    (void)state;
    struct plan_input in = usual();
    in.wanted_capacity = 700000;
    in.source_rows = 700000;
    assert_true(made(in).capacity == 700000);
    in.source_rows = 700001;
    assert_refused(in, "capacity 700,000 is smaller than the source's 700,001 rows");
}

static void test_plan_make__refuses_what_has_no_meaning(void **state)
{
    (void)state;
    struct plan_input in = usual();
    in.growth = 0.99;
    assert_refused(in, "growth is 0.99");
    in.growth = (double)NAN;
    assert_refused(in, "growth");
    in.growth = DBL_MAX;
    assert_refused(in, "out of range");
    in = usual();
    in.source_rows = 5;
    in.headroom = 0;
    assert_refused(in, "headroom is 0");
    in = usual();
    in.node_count = 0;
    assert_refused(in, "no Redis node");
    in = usual();
    in.build_memory = 0;
    assert_refused(in, "build_memory is 0");
    in = usual();
    in.error_rate = 1.0;
    assert_refused(in, "capacity 1500000: ");
    in = usual();
    in.current_capacity = 0;
    assert_refused(in, "capacity 0: ");
}

static void test_plan_make__counts_headers_and_memory_of_both_generations(void **state)
{
    (void)state;
    struct plan_input in = usual();
    in.current_capacity = 20000;
    in.shard_bytes = 4096;
    in.memory_now = 123456;
    struct plan p = made(in);
    struct geometry g;
    assert_int_equal(geometry_plan(&g, 30000, 0.001, 4096, NULL), ERR_OK);
    assert_memory_equal(&p.geometry, &g, sizeof(g));
    assert_true(p.bytes == geometry_bytes(&g) + (uint64_t)g.shards * g.block_bits / 8);
    assert_true(p.error_rate >= 0.001 && p.error_rate <= 0.001);
    assert_true(p.memory_new > p.bytes);
    assert_true(p.memory_peak == in.memory_now + p.memory_new);
    in.build_memory = geometry_bytes(&g); /* without headers */
    assert_int_equal(made(in).partitions, 1);
    struct plan_node node = {.before = 1000};
    plan_place(&p, &node, 1);
    assert_true(node.during == 1000 + p.memory_new && node.after == p.memory_new);
}

static void test_plan_make__divides_the_build_into_passes(void **state)
{
    (void)state;
    struct plan_input in = usual();
    in.current_capacity = 10000000;
    struct plan p = made(in);
    assert_int_equal(p.partitions, 1);
    const uint64_t bytes = geometry_bytes(&p.geometry);
    in.build_memory = bytes;
    assert_int_equal(made(in).partitions, 1);
    in.build_memory = bytes - 1;
    assert_int_equal(made(in).partitions, 2);
    in.build_memory = bytes / 3 + 1;
    assert_int_equal(made(in).partitions, 3);
    in.build_memory = 1;
    assert_true(p.geometry.shards > 3);
    assert_int_equal(made(in).partitions, p.geometry.shards);
}

/* A plan of 5 shards of 1,000 bytes each: with 2 nodes, they get 3 and 2 shards. */
static const struct plan five = {.geometry = {.shards = 5, .blocks = 1, .block_bits = 512, .hashes = 7},
                                 .memory_new = 5000};

static void test_plan_fits__compares_each_nodes_share_with_its_limit(void **state)
{
    (void)state;
    struct plan_node nodes[2] = {{.name = "a:1", .used = 100, .maxmemory = 3100, .policy = "noeviction"},
                                 {.name = "b:2", .used = 1000000, .maxmemory = 0, .policy = "noeviction"}};
    char warning[256] = "untouched";
    struct error e = {""};
    assert_int_equal(plan_fits(&five, nodes, 2, warning, &e), ERR_OK);
    assert_string_equal(warning, "");
    nodes[0].used = 101;
    assert_int_equal(plan_fits(&five, nodes, 2, warning, &e), ERR_REFUSED);
    assert_string_equal(e.text, "Redis a:1 has too little memory: 101 bytes used + 3,000 needed for 3 of 5 "
                                "shards > maxmemory 3,100");
    nodes[0].maxmemory = 0;
    nodes[1].maxmemory = 999999; /* already exceeded */
    assert_int_equal(plan_fits(&five, nodes, 2, warning, &e), ERR_REFUSED);
    assert_non_null(strstr(e.text, "b:2"));
    nodes[1].maxmemory = 1001999; /* this node gets 2 shards */
    assert_int_equal(plan_fits(&five, nodes, 2, warning, &e), ERR_REFUSED);
    assert_non_null(strstr(e.text, "2,000 needed for 2 of 5 shards"));
    nodes[1].maxmemory = 1002000;
    assert_int_equal(plan_fits(&five, nodes, 2, warning, &e), ERR_OK);
    nodes[1].maxmemory = UINT64_MAX;
    assert_int_equal(plan_fits(&five, nodes, 2, warning, &e), ERR_OK);
    assert_int_equal(plan_fits(&five, nodes, 0, warning, &e), ERR_REFUSED);
}

/* All nodes together have a hundred times the memory that is needed. */
static void test_plan_fits__refuses_where_one_node_is_full_and_the_others_are_empty(void **state)
{
    (void)state;
    struct plan_node nodes[3] = {{.name = "a:1", .maxmemory = 500000},
                                 {.name = "b:2", .used = 498001, .maxmemory = 500000},
                                 {.name = "c:3", .maxmemory = 500000}};
    char warning[256];
    struct error e = {""};
    assert_int_equal(plan_fits(&five, nodes, 3, warning, &e), ERR_REFUSED);
    assert_string_equal(e.text, "Redis b:2 has too little memory: 498,001 bytes used + 2,000 needed for 2 of "
                                "5 shards > maxmemory 500,000");
    nodes[1].used = 498000;
    assert_int_equal(plan_fits(&five, nodes, 3, warning, &e), ERR_OK);
}

static void test_plan_fits__asks_nothing_of_a_node_that_takes_no_shard(void **state)
{
    (void)state;
    const struct plan one = {.geometry = {.shards = 1, .blocks = 1, .block_bits = 512, .hashes = 7},
                             .memory_new = 1000};
    struct plan_node nodes[2] = {{.name = "a:1", .maxmemory = 1000},
                                 {.name = "b:2", .used = 100, .maxmemory = 99}};
    char warning[256];
    assert_int_equal(plan_fits(&one, nodes, 2, warning, NULL), ERR_OK);
    assert_int_equal(nodes[1].shards, 0);
}

static void test_plan_place__shows_each_node_before_during_and_after(void **state)
{
    (void)state;
    struct plan_node nodes[7] = {{.before = 700}, {.before = 400}};
    plan_place(&five, nodes, 2);
    assert_true(nodes[0].shards == 3 && nodes[1].shards == 2);
    assert_true(nodes[0].before == 700 && nodes[0].during == 3700 && nodes[0].after == 3000);
    assert_true(nodes[1].before == 400 && nodes[1].during == 2400 && nodes[1].after == 2000);
    plan_place(&five, nodes, 7);
    uint64_t shards = 0;
    for (unsigned i = 0; i < 7; i++)
        shards += nodes[i].shards;
    assert_int_equal(shards, 5);
    assert_true(nodes[6].shards == 0 && nodes[6].during == 0 && nodes[6].after == 0);
}

/* A filter moves to other nodes. The nodes that it leaves are last. */
static void test_plan_place__gives_nothing_to_a_node_that_is_left(void **state)
{
    (void)state;
    struct plan_node nodes[3] = {{.name = "b:2", .maxmemory = 3000},
                                 {.name = "c:3"},
                                 {.name = "a:1", .before = 4000, .used = 9, .maxmemory = 8, .leaving = true}};
    char warning[256];
    assert_int_equal(plan_fits(&five, nodes, 3, warning, NULL), ERR_OK); /* a:1 is full, but gets no shard */
    assert_true(nodes[0].shards == 3 && nodes[1].shards == 2 && nodes[2].shards == 0);
    assert_true(nodes[2].before == 4000 && nodes[2].during == 4000 && nodes[2].after == 0);
    nodes[0].leaving = nodes[1].leaving = true;
    plan_place(&five, nodes, 3);
    assert_true(nodes[0].shards == 0 && nodes[1].shards == 0 && nodes[2].shards == 0);
}

/* In a cluster, the number of shards of a node is random, and depends on the node's share of the slots. The
 * plan reserves three standard deviations above the mean. */
static void test_plan_place__allows_for_chance_where_slots_decide(void **state)
{
    (void)state;
    const struct plan many = {.geometry = {.shards = 10000, .blocks = 1, .block_bits = 512, .hashes = 7},
                              .memory_new = 10000000};
    struct plan_node nodes[4] = {{.share = 0.5, .by_slots = true, .before = 7},
                                 {.share = 0.4999, .by_slots = true},
                                 {.share = 0.0001, .by_slots = true},
                                 {.share = 0, .by_slots = true}};
    plan_place(&many, nodes, 4);
    assert_int_equal(nodes[0].shards, 5150); /* the standard deviation is 50 */
    assert_true(nodes[0].after == 5150000 && nodes[0].during == 7 + 5150000);
    assert_int_equal(nodes[1].shards, 5149);
    assert_int_equal(nodes[2].shards, 4);
    assert_true(nodes[3].shards == 0 && nodes[3].during == 0); /* a master without slots */
    struct plan_node one = {.share = 1, .by_slots = true};
    plan_place(&five, &one, 1);
    assert_int_equal(one.shards, 5); /* not more than all shards */
    struct plan_node two[2] = {{.share = 0.5, .by_slots = true}, {.share = 0.5, .by_slots = true}};
    plan_place(&five, two, 2);
    assert_true(two[0].shards == 5 && two[1].shards == 5);
}

static void test_plan_fits__says_that_slots_are_chance(void **state)
{
    (void)state;
    struct plan_node nodes[2] = {
        {.name = "a:1", .share = 0.5, .by_slots = true},
        {.name = "b:2", .share = 0.5, .by_slots = true, .used = 100, .maxmemory = 5099}};
    char warning[256];
    struct error e = {""};
    assert_int_equal(plan_fits(&five, nodes, 2, warning, &e), ERR_REFUSED);
    assert_string_equal(e.text, "Redis b:2 has too little memory: 100 bytes used + 5,000 needed for up to 5 "
                                "of 5 shards > maxmemory 5,099");
    nodes[1].maxmemory = 5100;
    assert_int_equal(plan_fits(&five, nodes, 2, warning, &e), ERR_OK);
}

/* 30 billion and 1,000 billion keys: no number is truncated to 32 bits. */
static void test_plan_make__holds_what_no_single_node_could(void **state)
{
    (void)state;
    struct plan_input in = usual();
    in.node_count = 64;
    in.wanted_capacity = UINT64_C(30000000000);
    in.memory_now = UINT64_C(60) << 30;
    struct plan p = made(in);
    assert_true(p.geometry.shards > 50000 && p.geometry.shards < 60000);
    assert_true(p.bytes > UINT64_C(54000000000) && p.bytes < UINT64_C(58000000000));
    assert_true(p.memory_new >= p.bytes && p.memory_new < p.bytes + p.bytes / 50);
    assert_true(p.memory_peak == in.memory_now + p.memory_new);
    assert_true(p.partitions == geometry_bytes(&p.geometry) / in.build_memory + 1);
    assert_true(geometry_rate(&p.geometry, p.capacity) <= 0.001);
    in.wanted_capacity = UINT64_C(1000000000000);
    struct plan large = made(in);
    assert_true(large.bytes > UINT64_C(1800000000000) && large.bytes < UINT64_C(1950000000000));
    assert_true(large.memory_new >= large.bytes);
    assert_true(geometry_rate(&large.geometry, large.capacity) <= 0.001);
    struct plan_node nodes[64] = {{.before = 0}};
    plan_place(&large, nodes, 64);
    uint64_t after = 0;
    for (unsigned i = 0; i < 64; i++)
        after += nodes[i].after;
    assert_true(after >= large.memory_new && after < large.memory_new + large.geometry.shards);
}

static void test_plan_fits__takes_the_machines_memory_where_no_limit_is_set(void **state)
{
    (void)state;
    struct error e = {""};
    char warning[256];
    struct plan_node node = {.name = "a:1", .used = 100, .machine = 5100}; /* room for 5 shards */
    assert_int_equal(plan_fits(&five, &node, 1, warning, &e), ERR_OK);
    node.used = 101;
    assert_int_equal(plan_fits(&five, &node, 1, warning, &e), ERR_REFUSED);
    /* maxmemory counts even if it is more than the machine has. */
    node.maxmemory = 1000000;
    assert_int_equal(plan_fits(&five, &node, 1, warning, &e), ERR_OK);
}

static void test_plan_fits__warns_of_a_policy_that_evicts(void **state)
{
    (void)state;
    struct plan_node nodes[3] = {{.name = "a:1", .policy = "noeviction"},
                                 {.name = "b:2", .policy = "allkeys-lru"},
                                 {.name = "c:3", .policy = "volatile-ttl"}};
    char warning[256] = "untouched";
    assert_int_equal(plan_fits(&five, nodes, 3, warning, NULL), ERR_OK);
    assert_string_equal(warning, "Redis b:2 evicts keys when memory is short (maxmemory-policy allkeys-lru): "
                                 "set it to noeviction");
    nodes[0].maxmemory = 1; /* a plan that is refused has the warning, too */
    assert_int_equal(plan_fits(&five, nodes, 3, warning, NULL), ERR_REFUSED);
    assert_non_null(strstr(warning, "b:2"));
    nodes[0].maxmemory = 0;
    nodes[0].policy[0] = '\0'; /* the server did not report its policy */
    assert_int_equal(plan_fits(&five, nodes, 1, warning, NULL), ERR_OK);
    assert_string_equal(warning, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_make__shrinks_where_most_was_deleted),
        cmocka_unit_test(test_plan_make__grows_by_the_larger_of_growth_and_rows),
        cmocka_unit_test(test_plan_make__takes_the_configured_capacity_for_a_keep_capacity),
        cmocka_unit_test(test_plan_make__takes_what_an_operator_wants_if_the_rows_fit),
        cmocka_unit_test(test_plan_make__refuses_what_has_no_meaning),
        cmocka_unit_test(test_plan_make__counts_headers_and_memory_of_both_generations),
        cmocka_unit_test(test_plan_make__divides_the_build_into_passes),
        cmocka_unit_test(test_plan_fits__compares_each_nodes_share_with_its_limit),
        cmocka_unit_test(test_plan_fits__refuses_where_one_node_is_full_and_the_others_are_empty),
        cmocka_unit_test(test_plan_fits__asks_nothing_of_a_node_that_takes_no_shard),
        cmocka_unit_test(test_plan_place__shows_each_node_before_during_and_after),
        cmocka_unit_test(test_plan_place__gives_nothing_to_a_node_that_is_left),
        cmocka_unit_test(test_plan_place__allows_for_chance_where_slots_decide),
        cmocka_unit_test(test_plan_fits__says_that_slots_are_chance),
        cmocka_unit_test(test_plan_make__holds_what_no_single_node_could),
        cmocka_unit_test(test_plan_fits__takes_the_machines_memory_where_no_limit_is_set),
        cmocka_unit_test(test_plan_fits__warns_of_a_policy_that_evicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
