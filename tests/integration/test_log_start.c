/* SPDX-License-Identifier: MIT */
/* A coordinator that starts answers at once, from the blocks that the requests need, and loads the filter's
 * shards after that. All shards of this filter cannot be loaded within a second, because a process limits the
 * rate of its loads (BUDGET_LOAD_RATE). */
#include "tests/integration/fixture.h"

#include <stdio.h>

#include "base/clock.h"

enum {
    KEYS = 2000,
    CAPACITY = 250 * 1000 * 1000, /* about 480 MB at the rate below */
    SHARDS = 3000,                /* or more */
    AT_ONCE_MS = 5000,            /* with sanitizers, on a busy machine */
    LOADED_MS = 120000
};

static struct fixture fixture;
static struct error e;

static struct client *client(void)
{
    return &fixture.client[0];
}

static size_t key(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "k%llu", (unsigned long long)number);
}

static int64_t number(const char *field)
{
    int64_t n = 0;
    must(client_status_number(client(), FILTER, field, &n, &e), e);
    return n;
}

static int64_t ask(const char *command, const char *name)
{
    int64_t n = -1;
    must(client_integer(client(), &n, &e, "%s " FILTER " %s", command, name), e);
    return n;
}

static int setup_with(const char *lines)
{
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .daemons = 1, .redis_lines = lines}) !=
        0)
        return -1;
    must(client_ok(client(), &e, "BF.RESERVE " FILTER " 0.001 %d", CAPACITY), e);
    must(client_madd(client(), FILTER, key, 0, KEYS, &e), e);
    assert_true(number("shards") >= SHARDS);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with("shard_bytes = 128KiB\n");
}

static int setup_without_memory(void **state)
{
    (void)state;
    return setup_with("shard_bytes = 128KiB\nresident_memory = 0\n");
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static unsigned since_ms(uint64_t began)
{
    return (unsigned)((clock_mono_us() - began) / 1000);
}

/* Check keys at a new coordinator, which has nothing in memory. Returns how many shards it has loaded by
 * then. */
static int64_t start_and_ask(void)
{
    daemon_kill(&fixture.daemon[0]);
    uint64_t began = clock_mono_us();
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    unsigned up = since_ms(began);
    assert_int_equal(ask("BF.EXISTS", "k0"), 1);
    assert_int_equal(ask("BF.EXISTS", "nowhere"), 0);
    unsigned checked = since_ms(began);
    assert_int_equal(ask("BF.ADD", "k1"), 0);
    assert_int_equal(ask("BF.ADD", "fresh"), 1);
    unsigned added = since_ms(began);
    int64_t loaded = number("resident_shards");
    print_message(
        "up after %u ms, two checks answered after %u, two adds after %u: %lld of %lld shards loaded\n", up,
        checked, added, (long long)loaded, (long long)number("shards"));
    assert_in_range(added, 0, AT_ONCE_MS);
    return loaded;
}

static void all_is_there(void)
{
    uint64_t present;
    must(client_mexists(client(), FILTER, key, 0, KEYS, &present, NULL, &e), e);
    assert_int_equal(present, KEYS);
    must(client_mexists(client(), FILTER, fixture_absent_code, 0, KEYS, &present, NULL, &e), e);
    assert_in_range(present, 0, KEYS / 50);
    assert_int_equal(ask("BF.EXISTS", "fresh"), 1);
}

static void test_start__is_answered_before_the_shards_are_loaded(void **state)
{
    (void)state;
    int64_t shards = number("shards");
    must(client_wait_status_least(client(), FILTER, "resident_shards", shards, LOADED_MS, &e), e);
    assert_in_range(start_and_ask(), 0, shards - 1);
    all_is_there();
    must(client_wait_status_least(client(), FILTER, "resident_shards", shards, LOADED_MS, &e), e);
    all_is_there();
}

static void test_start__is_answered_without_memory_for_shards(void **state)
{
    (void)state;
    assert_int_equal(start_and_ask(), 0);
    all_is_there();
    assert_int_equal(number("resident_shards"), 0);
}

int main(void)
{
    const struct CMUnitTest with_memory[] = {
        cmocka_unit_test(test_start__is_answered_before_the_shards_are_loaded),
    };
    const struct CMUnitTest without_memory[] = {
        cmocka_unit_test(test_start__is_answered_without_memory_for_shards),
    };
    int failed = cmocka_run_group_tests(with_memory, setup, teardown);
    return failed + cmocka_run_group_tests(without_memory, setup_without_memory, teardown);
}
