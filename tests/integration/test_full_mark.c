/* SPDX-License-Identifier: MIT */
/* A filter that does not grow is full by a mark in its lane. The lane's node gets another replication id, as
 * when its first replica attaches, and its history goes on. All coordinators agree on what is behind the
 * mark. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { CAPACITY = 500, MORE = 20, REPLY_MS = 10000, WAIT_MS = 30000 };
#define VIEW "twinbloom:{" FILTER "}:view"

static struct fixture fixture;
static struct client node;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .daemons = 2});
    must(client_open(&node, fixture.redis[0].port, REPLY_MS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&node);
    return fixture_stop(&fixture);
}

static void field_of(const char *name, char *out, size_t size)
{
    redisReply *r = client_command(&node, "HGET " VIEW " %s", name);
    assert_non_null(r);
    (void)snprintf(out, size, "%s", r->type == REDIS_REPLY_STRING ? r->str : "");
    freeReplyObject(r);
}

/* Wait until the field differs from @was. */
static void await_field(const char *name, const char *was)
{
    char is[200];
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    for (field_of(name, is, sizeof(is)); strcmp(is, was) == 0; field_of(name, is, sizeof(is))) {
        if (clock_mono_us() > until)
            fail_msg("%s is %s for ever", name, was);
        clock_sleep_us(20 * 1000);
    }
}

/* Add new keys one by one until the filter is full. */
static void fill(void)
{
    for (unsigned i = 0; i < 2 * CAPACITY; i++) {
        redisReply *r = client_command(&fixture.client[0], "BF.ADD " FILTER " key%u", i);
        assert_non_null(r);
        bool full = r->type == REDIS_REPLY_ERROR;
        freeReplyObject(r);
        if (full)
            return;
    }
    fail_msg("the filter is never full");
}

static void test_a_full_mark__means_the_same_to_all_under_another_replication_id(void **state)
{
    (void)state;
    struct error e = {""};
    char lanes[200];
    client_close(&fixture.client[1]);
    daemon_kill(&fixture.daemon[1]);
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE " FILTER " 0.0001 %u NONSCALING", CAPACITY), e);
    fill();
    await_field("full1.0", "");
    clock_sleep_us(2 * 1000 * 1000); /* folded behind the mark */
    /* As a folder leaves it that is killed between writing and counting. */
    char keys[200], fewer[200];
    field_of("keys1", keys, sizeof(keys));
    const char *counted = strchr(keys + 2, ' '); /* "1 <keys> <where they were counted>" */
    assert_non_null(counted);
    (void)snprintf(fewer, sizeof(fewer), "1 %d%s", CAPACITY / 2, counted);
    redisReply *r = client_command(&node, "HSET " VIEW " keys1 %s", fewer);
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_INTEGER);
    freeReplyObject(r);
    field_of("lanes", lanes, sizeof(lanes));
    must(client_ok(&node, &e, "DEBUG CHANGE-REPL-ID"), e);
    await_field("lanes", lanes);
    must(daemon_launch(&fixture.daemon[1], &e), e);
    must(client_open(&fixture.client[1], fixture.daemon[1].port, REPLY_MS, &e), e);
    for (unsigned i = 0; i < MORE; i++) {
        int64_t present = 0;
        r = client_command(&fixture.client[1], "BF.ADD " FILTER " more%u", i);
        assert_non_null(r);
        bool added = r->type == REDIS_REPLY_INTEGER;
        freeReplyObject(r);
        must(client_integer(&fixture.client[0], &present, &e, "BF.EXISTS " FILTER " more%u", i), e);
        if (added)
            assert_int_equal(present, 1);
    }
    int64_t old = 0;
    must(client_integer(&fixture.client[1], &old, &e, "BF.EXISTS " FILTER " key0"), e);
    assert_int_equal(old, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_full_mark__means_the_same_to_all_under_another_replication_id,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
