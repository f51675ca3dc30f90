/* SPDX-License-Identifier: MIT */
/* The sweep of a lost view's shards: those of exactly this filter, and nothing else. */
#include "tests/integration/filters.h"

#include <stdio.h>
#include <string.h>

enum { SHARDS = 5, FILTERS = 10 };

/* Names that are prefixes, patterns and near misses of each other. */
static const char *const filters[FILTERS] = {"a",       "a.b",   "a.1", "a*", "{a}",
                                             "a.1.2.3", "a.1.2", "[a]", "a?", "a\\"};

static struct servers servers;
static struct filter f[FILTERS];

static int start(void **state)
{
    (void)state;
    return servers_start(&servers, 2);
}

static int stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    for (int i = 0; i < FILTERS; i++) {
        filter_init(&f[i], &servers, filters[i]);
        filter_make(&f[i], SHARDS);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < FILTERS; i++)
        filter_fini(&f[i]);
    return 0;
}

/* A digest of all keys and values of a node. */
static const char *digest(unsigned node)
{
    return servers_text(&servers, node, "DEBUG DIGEST");
}

static void test_fence_sweep__takes_the_shards_of_exactly_this_filter(void **state)
{
    (void)state;
    struct error e = {""};
    for (int i = 0; i < FILTERS; i++) {
        uint64_t swept = 0;
        must(fence_sweep(&f[i].fence, MUTEX, &swept, &e), e);
        assert_int_equal(swept, SHARDS);
        filter_all_are(&f[i], &f[i].view.slot[0], 1, "tombstone");
        for (int other = i + 1; other < FILTERS; other++)
            filter_all_are(&f[other], &f[other].view.slot[0], 1, "shard");
        must(fence_sweep(&f[i].fence, MUTEX, &swept, &e), e);
        assert_int_equal(swept, 0);
    }
}

static void test_fence_sweep__takes_shards_of_every_incarnation_and_stage(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t swept = 0;
    struct filter *a = &f[0];
    a->fence.names.incarnation = 0x1234;
    struct generation g = filter_generation(a, 17, 3, 1);
    must(fence_create(&a->fence, &g, 0, &e), e);
    must(fence_sweep(&a->fence, MUTEX, &swept, &e), e);
    assert_int_equal(swept, SHARDS + 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_string_equal(filter_kind(a, &g, i, filter_new_shard(a, 17, i)), "tombstone");
}

static void test_fence_sweep__touches_no_other_key(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t swept = 0;
    char before[2][64];
    static const char *const others[] = {
        PREFIX ":{a}:expansion_flag",
        PREFIX ":{a}:token",
        PREFIX ":{a.1.2.3}:token",
        PREFIX ":{a.1.2.3}:0123456789abcde.e1",
        PREFIX ":{a.1.2.3}:0123456789ABCDEF.e1",
        PREFIX ":{a.1.2.3}x:0123456789abcdef.e1",
        PREFIX ":{a.1.2}:0123456789abcdef.e1",
        PREFIX ":{a.1.2.}:0123456789abcdef.e1",
        PREFIX ":{a.1..3}:0123456789abcdef.e1",
        PREFIX ":{a.1.2.3.4}:0123456789abcdef.e1",
        PREFIX ":{a.x.2.3}:0123456789abcdef.e1",
        PREFIX ":{b.1.2.3}:0123456789abcdef.e1",
        PREFIX ":{aa.1.2.3}:0123456789abcdef.e1",
        PREFIX ":a.1.2.3:0123456789abcdef.e1",
        "other:{a.1.2.3}:0123456789abcdef.e1",
        "x" PREFIX ":{a.1.2.3}:0123456789abcdef.e1",
    };
    must(fence_sweep(&f[0].fence, MUTEX, &swept, &e), e);
    for (unsigned node = 0; node < 2; node++) {
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
            assert_string_equal(servers_text(&servers, node, "SET %s value", others[i]), "OK");
        (void)snprintf(before[node], sizeof(before[node]), "%s", digest(node));
    }
    must(fence_sweep(&f[0].fence, MUTEX, &swept, &e), e);
    assert_int_equal(swept, 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        for (unsigned node = 0; node < 2; node++)
            if (strcmp(servers_text(&servers, node, "TYPE %s", others[i]), "string") != 0)
                fail_msg("%s was taken for a shard of the filter a", others[i]);
    for (unsigned node = 0; node < 2; node++)
        assert_string_equal(digest(node), before[node]);
}

/* A prefix may hold any printable character, those of patterns too. */
static void test_fence_sweep__touches_nothing_when_its_mutex_is_lost(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t swept = 0;
    struct key_name flag;
    names_filter_key(&f[0].fence.names, "expansion_flag", &flag);
    assert_string_equal(servers_text(&servers, NODE_HOME, "SET %b another:8", flag.text, flag.length), "OK");
    assert_int_equal(fence_sweep(&f[0].fence, MUTEX, &swept, &e), ERR_MUTEX_LOST);
    assert_int_equal(swept, 0);
    filter_all_are(&f[0], &f[0].view.slot[0], 1, "shard");
}

static void test_fence_sweep__takes_its_prefix_for_no_pattern(void **state)
{
    (void)state;
    struct error e = {""};
    static const char *const prefixes[] = {"t?st", "[t]est", "t*t"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        static struct fence other;
        uint64_t swept = 99;
        memset(&other, 0, sizeof(other));
        must(names_init(&other.names, prefixes[i], "a", 1, &e), e);
        other.names.incarnation = INCARNATION;
        other.link = f[0].fence.link;
        other.tombstone_ms = TOMBSTONE_MS;
        struct key_name flag;
        names_filter_key(&other.names, "expansion_flag", &flag);
        assert_string_equal(servers_text(&servers, NODE_HOME, "SET %b " MUTEX, flag.text, flag.length), "OK");
        struct generation g = filter_generation(&f[0], 2, 3, 1);
        must(fence_create(&other, &g, 0, &e), e);
        must(fence_sweep(&other, MUTEX, &swept, &e), e);
        fence_fini(&other);
        filter_all_are(&f[0], &f[0].view.slot[0], 1, "shard");
        assert_int_equal(swept, 3);
    }
}

static void test_fence_sweep__fences_a_coordinator_that_holds_the_lost_view(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t swept, lost = 99;
    static const char *const keys[] = {"k0"};
    static const size_t lengths[] = {2};
    static struct view old;
    uint8_t found[1];
    struct filter *a = &f[0];
    old = a->view;
    (void)filter_add(a, &old.slot[0], 0, 1);
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{a}:view"), 1);
    must(fence_sweep(&a->fence, MUTEX, &swept, &e), e);
    a->fence.names.incarnation = INCARNATION + 1;
    filter_make(a, SHARDS);
    filter_all_are(a, &a->view.slot[0], 1, "shard");
    assert_int_equal(filter_check(a, &a->view.slot[0], 0, 1), 0);
    a->fence.names.incarnation = INCARNATION;
    gives(ERR_LOST, fence_check(&a->fence, &old, &old.slot[0], 1, keys, lengths, found, &e), e);
    gives(ERR_LOST, fence_add(&a->fence, &old, &old.slot[0], 1, keys, lengths, found, &e), e);
    old.fenced_epoch = 0; /* a driver that had not completed its fence */
    gives(ERR_FENCED, fence_complete(&a->fence, &old, &lost, &e), e);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fence_sweep__takes_the_shards_of_exactly_this_filter),
        TEST(test_fence_sweep__takes_shards_of_every_incarnation_and_stage),
        TEST(test_fence_sweep__touches_no_other_key),
        TEST(test_fence_sweep__takes_its_prefix_for_no_pattern),
        TEST(test_fence_sweep__touches_nothing_when_its_mutex_is_lost),
        TEST(test_fence_sweep__fences_a_coordinator_that_holds_the_lost_view),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
