/* SPDX-License-Identifier: MIT */
/* Counts of new keys, which a coordinator sends to Redis. */
#include "tests/integration/operations.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"

enum { RECOVER_MS = 30000 };

static long long counted(const char *field)
{
    const char *text = servers_text(&servers, 0, "HGET " PREFIX ":{f}:count %s", field);
    uint64_t n = 0;
    return number_u64(text, strlen(text), &n) ? (long long)n : 0;
}

static long long counted_by_shard(uint64_t generation, uint32_t shards)
{
    long long sum = 0;
    for (uint32_t i = 0; i < shards; i++) {
        char field[32];
        (void)snprintf(field, sizeof(field), "%llu.0.%u", (unsigned long long)generation, i);
        sum += counted(field);
    }
    return sum;
}

/* Counts of single shards go out once a second; Redis may be slow to take them. */
static void expect_counts(uint64_t generation, uint32_t shards, long long wanted)
{
    char field[32];
    (void)snprintf(field, sizeof(field), "%llu.0", (unsigned long long)generation);
    for (uint64_t until = clock_mono_us() + RECOVER_MS * 1000ull; clock_mono_us() < until;) {
        if (counted(field) == wanted && counted_by_shard(generation, shards) == wanted)
            break;
        coordinator_run(&one, 100);
        if (two.base != NULL)
            coordinator_run(&two, 100);
    }
    assert_int_equal(counted(field), wanted);
    assert_int_equal(counted_by_shard(generation, shards), wanted);
}

static void test_catalog__counts_new_keys_in_redis(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 400);
    unsigned fresh = coordinator_results(&one, 400, KEY_YES);
    coordinator_add(&one, 0, 400);
    coordinator_add(&two, 0, 450);
    fresh += coordinator_results(&two, 450, KEY_YES);
    coordinator_run(&one, 1300);
    coordinator_run(&two, 1300);
    expect_counts(2, SHARDS, fresh);
}

static void test_catalog__counts_both_generations_while_one_is_built(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 200);
    unsigned fresh = coordinator_results(&one, 200, KEY_YES);
    filter_open(&f, 3, true);
    coordinator_add(&one, 200, 200);
    unsigned late = coordinator_results(&one, 200, KEY_YES);
    coordinator_run(&one, 1300);
    expect_counts(2, SHARDS, fresh + late);
    assert_in_range(counted("3.0"), 195, 200);
    expect_counts(3, 3, counted("3.0"));
}

/* More shards than are sent at one time, by a view that is replaced before it is their turn, and by one that
 * stays. */
static void test_catalog__counts_every_one_of_many_shards(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    servers_flush(&servers);
    filter_fini(&f);
    filter_init(&f, &servers, "f");
    filter_make(&f, MANY);
    coordinator_add(&one, 0, 1000);
    unsigned fresh = coordinator_results(&one, 1000, KEY_YES);
    assert_true(fresh > 900);
    filter_open(&f, MANY, true);
    assert_int_equal(coordinator_check(&one, 0, 1000, KEY_YES), 1000);
    assert_true(one.retried);
    coordinator_run(&one, 500);
    expect_counts(2, MANY, fresh);
    coordinator_add(&one, 1000, 1000);
    coordinator_run(&one, 1300);
    assert_in_range(counted("3.0"), 990, 1000);
    expect_counts(3, MANY, counted("3.0"));
    expect_counts(2, MANY, counted("2.0"));
}

static void raise_flag(void *arg)
{
    *(bool *)arg = true;
}

static void test_catalog_flush__calls_back_when_redis_has_the_counts(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 200);
    unsigned fresh = coordinator_results(&one, 200, KEY_YES);
    bool flushed = false;
    catalog_flush(one.catalog, raise_flag, &flushed);
    while (!flushed)
        assert_int_equal(event_base_loop(one.base, EVLOOP_ONCE), 0);
    assert_int_equal(counted("2.0"), fresh);
    flushed = false;
    expect_counts(2, SHARDS, fresh);                  /* those of single shards are there, too */
    coordinator_run(&one, 100);                       /* and their answers here */
    catalog_flush(one.catalog, raise_flag, &flushed); /* nothing is under way: at once */
    assert_true(flushed);
}

/* Whether key k<@number> belongs to the second node, whose shards are the odd ones. */
static bool is_of_the_other_node(unsigned number)
{
    const struct generation *g = view_current(&f.view);
    struct key_place place;
    char key[16];
    int length = snprintf(key, sizeof(key), "k%u", number);
    hash_place(&g->layers[0].geometry, hash_key(g->seed, key, (size_t)length), &place);
    return place.shard % 2 == 1;
}

/* Add keys of the other node, one by one, from *@next on, until @most are acknowledged or one is not; how
 * many. */
static unsigned add_to_the_other_node(unsigned *next, unsigned most)
{
    unsigned added = 0;
    while (added < most) {
        unsigned key = (*next)++;
        if (!is_of_the_other_node(key))
            continue;
        if (coordinator_ask(&one, OPERATION_ADD, key, 1) != ERR_OK)
            return added;
        added++;
    }
    return added;
}

/* Without a source, a layer may not be overfilled by event loops that know nothing of each other. */
static void test_catalog__adds_a_share_of_the_room_while_home_does_not_count(void **state)
{
    (void)state;
    enum { SHARE = 1000 * SHARDS / 16 };
    unsigned next = 0;
    assert_int_equal(servers_integer(&servers, 0, "HSET " PREFIX ":{f}:view sourced 0"), 0);
    assert_int_equal(add_to_the_other_node(&next, 10), 10); /* connected, and all is counted */
    coordinator_run(&one, 100);
    process_signal(&servers.redis[0].process, SIGSTOP);
    unsigned added = 10 + add_to_the_other_node(&next, 1);
    coordinator_run(&one, 300);
    coordinator_give(&one, COORDINATOR_TIMEOUT_MS);
    added += add_to_the_other_node(&next, 2 * SHARE);
    coordinator_give(&one, COORDINATOR_PATIENT_MS);
    process_signal(&servers.redis[0].process, SIGCONT);
    assert_in_range(added, SHARE / 2, SHARE + 10);
    for (int i = 0; i < 100 && counted("2.0") < (long long)added * 9 / 10; i++)
        coordinator_run(&one, 100);
    assert_in_range(counted("2.0"), added * 9 / 10, added * 2);
    assert_int_equal(add_to_the_other_node(&next, SHARE), SHARE); /* as ever */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, operations_setup_patient, operations_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_catalog__counts_new_keys_in_redis),
        TEST(test_catalog__counts_every_one_of_many_shards),
        TEST(test_catalog__counts_both_generations_while_one_is_built),
        TEST(test_catalog__adds_a_share_of_the_room_while_home_does_not_count),
        TEST(test_catalog_flush__calls_back_when_redis_has_the_counts),
    };
    return cmocka_run_group_tests(tests, operations_start, operations_stop);
}
