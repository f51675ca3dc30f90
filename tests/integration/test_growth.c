/* SPDX-License-Identifier: MIT */
/* Filters without a source get far more keys than their capacity. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

enum { ABSENT = 20000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 2, .daemons = 1, .service = "timeout = 20s\n"};

static void reserve(const char *command)
{
    fixture_ask(&fixture, 0, command);
}

/* All of @keys are added and found. Of absent keys about the share @rate is present. */
static void takes(const char *filter, uint64_t keys, double rate)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_madd(&fixture.client[0], filter, fixture_code, 0, keys, &e), e);
    must(client_mexists(&fixture.client[0], filter, fixture_code, 0, keys, &present, NULL, &e), e);
    assert_int_equal(present, keys);
    must(client_mexists(&fixture.client[0], filter, fixture_absent_code, 0, ABSENT, &present, NULL, &e), e);
    assert_true((double)present <= 1.25 * rate * ABSENT);
}

static int64_t layers_of(const char *filter)
{
    redisReply *r = client_command(&fixture.client[0], "BF.INFO %s FILTERS", filter);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 1);
    int64_t layers = r->element[0]->integer;
    freeReplyObject(r);
    return layers;
}

static void test_growth__by_layers_of_one_size_goes_on(void **state)
{
    (void)state;
    reserve("BF.RESERVE one 0.01 100 EXPANSION 1");
    takes("one", 30000, 0.01);
    assert_in_range(layers_of("one"), 9, 24);
}

static void test_growth__at_a_small_rate_goes_on(void **state)
{
    (void)state;
    reserve("BF.RESERVE nine 0.000000001 100");
    takes("nine", 20000, 0);
    reserve("BF.RESERVE ten 0.0000000001 100");
    takes("ten", 5000, 0);
    reserve("BF.RESERVE eleven 1e-11 100 EXPANSION 1");
    takes("eleven", 3000, 0);
}

static void nodes_are_full(bool full)
{
    struct error e = {""};
    for (unsigned i = 0; i < fixture.nodes; i++) {
        struct client c = {0};
        must(client_open(&c, fixture.redis[i].port, 10000, &e), e);
        must(client_ok(&c, &e, "CONFIG SET maxmemory %s", full ? "1" : "0"), e);
        client_close(&c);
    }
}

/* A repeated key is not counted, so add keys until the count is @capacity. */
static void fill_up(const char *filter, int64_t capacity)
{
    struct error e = {""};
    int64_t items = 0, ignored;
    for (unsigned i = 0; items < capacity; i++) {
        must(client_integer(&fixture.client[0], &items, &e, "BF.CARD %s", filter), e);
        if (items < capacity)
            must(client_integer(&fixture.client[0], &ignored, &e, "BF.ADD %s more%u", filter, i), e);
    }
}

/* A new key is an entry in the log, which Redis refuses. A key that is there needs none. Checks go on. */
static void takes_no_entry(const char *filter)
{
    struct error e = {""};
    uint64_t present = 0;
    int64_t added = 1;
    redisReply *r = client_command(&fixture.client[0], "BF.ADD %s another", filter);
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR);
    if (strstr(r->str, "OOM command not allowed when used memory") == NULL)
        fail_msg("%s", r->str);
    freeReplyObject(r);
    must(client_integer(&fixture.client[0], &added, &e, "BF.ADD %s c5", filter), e);
    assert_int_equal(added, 0);
    must(client_mexists(&fixture.client[0], filter, fixture_code, 0, 100, &present, NULL, &e), e);
    assert_int_equal(present, 100);
    int64_t found = 1;
    must(client_integer(&fixture.client[0], &found, &e, "BF.EXISTS %s another", filter), e);
    assert_int_equal(found, 0);
}

static void test_filter__that_cannot_grow_still_knows_its_keys(void **state)
{
    (void)state;
    struct error e = {""};
    reserve("BF.RESERVE stuck 0.000001 100");
    must(client_madd(&fixture.client[0], "stuck", fixture_code, 0, 100, &e), e);
    fill_up("stuck", 100);
    nodes_are_full(true);
    takes_no_entry("stuck");
    nodes_are_full(false);
    takes("stuck", 1000, 0);
}

/* Keys that are there take no room, in whatever layer they are. */
static void test_keys__that_are_added_again_are_not_counted_again(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t once = 0, twice = 0;
    reserve("BF.RESERVE again 0.01 1000");
    must(client_madd(&fixture.client[0], "again", fixture_code, 0, 4000, &e), e);
    must(client_integer(&fixture.client[0], &once, &e, "BF.CARD again"), e);
    assert_in_range(once, 3800, 4000);
    must(client_madd(&fixture.client[0], "again", fixture_code, 0, 4000, &e), e);
    must(client_integer(&fixture.client[0], &twice, &e, "BF.CARD again"), e);
    assert_int_equal(twice, once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth__by_layers_of_one_size_goes_on),
        cmocka_unit_test(test_growth__at_a_small_rate_goes_on),
        cmocka_unit_test(test_filter__that_cannot_grow_still_knows_its_keys),
        cmocka_unit_test(test_keys__that_are_added_again_are_not_counted_again),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
