/* SPDX-License-Identifier: MIT */
/* A coordinator that was stopped during three expansions goes on correctly: its answers are right at once,
 * and its adds are not lost. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 3000, ADDED = 200, EXPANSIONS = 3, AT_ONCE_MS = 3000, FALSE_KEYS = 2000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 20000,
                                               .rate = "0.001",
                                               .service = "check_interval = 100ms\n"};

static uint64_t first_of(unsigned round)
{
    return 100000 + round * UINT64_C(1000);
}

/* Write rows as callers do: the row, then its key. */
static void add(unsigned d, unsigned round)
{
    struct error e = {""};
    fixture_insert(fixture.db, first_of(round), ADDED);
    must(client_madd(&fixture.client[d], FILTER, fixture_code, first_of(round), ADDED, &e), e);
}

static void expand(void)
{
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    must(client_when_free(&fixture.client[0], 30000, &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, 60000, &e), e);
    fixture_wait(&fixture, 0, "job_state", "done");
}

static redisReply *next_reply(struct client *c)
{
    redisReply *r = NULL;
    if (redisGetReply(c->redis, (void **)&r) != REDIS_OK)
        fail_msg("no reply: %s", c->redis->errstr);
    return r;
}

/* Send checks and an add, which wait in the coordinator's socket while it is stopped. */
static void send_to_sleeper(struct client *c)
{
    for (unsigned round = 0; round <= EXPANSIONS; round++)
        assert_int_equal(redisAppendCommand(c->redis, "BF.EXISTS " FILTER " c%llu",
                                            (unsigned long long)first_of(round) + ADDED - 1),
                         REDIS_OK);
    assert_int_equal(redisAppendCommand(c->redis, "BF.ADD " FILTER " sent-while-it-slept"), REDIS_OK);
    int done = 0;
    while (!done)
        assert_int_equal(redisBufferWrite(c->redis, &done), REDIS_OK);
}

static void expect_one(struct client *c, const char *what, unsigned round)
{
    redisReply *r = next_reply(c);
    if (r->type != REDIS_REPLY_INTEGER || r->integer != 1)
        fail_msg("%s %u: %s", what, round, r->type == REDIS_REPLY_INTEGER ? "0" : r->str);
    freeReplyObject(r);
}

static void test_coordinator__stopped_through_three_expansions_answers_right_at_once(void **state)
{
    (void)state;
    struct client *sleeper = &fixture.client[1];
    add(1, 0);
    fixture_all_present(&fixture, 1, 0, ROWS);
    daemon_pause(&fixture.daemon[1]);
    for (unsigned round = 1; round <= EXPANSIONS; round++) {
        expand();
        add(0, round);
    }
    send_to_sleeper(sleeper);
    uint64_t began = clock_mono_us();
    daemon_resume(&fixture.daemon[1]);
    for (unsigned round = 0; round <= EXPANSIONS; round++)
        expect_one(sleeper, "a key of round", round);
    expect_one(sleeper, "the add", 0);
    uint64_t took_ms = (clock_mono_us() - began) / 1000;
    if (took_ms > AT_ONCE_MS)
        fail_msg("it took %llu ms", (unsigned long long)took_ms);
    for (unsigned round = 0; round <= EXPANSIONS; round++)
        fixture_all_present(&fixture, 1, first_of(round), ADDED);
    fixture_all_present(&fixture, 1, 0, ROWS);
    assert_true(fixture_false_positives(&fixture, 1, FALSE_KEYS) <= FALSE_KEYS / 100);
}

static void test_coordinator__that_slept_adds_what_all_find(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t found = 0;
    add(1, EXPANSIONS + 1);
    for (unsigned d = 0; d < 2; d++) {
        fixture_all_present(&fixture, d, first_of(EXPANSIONS + 1), ADDED);
        must(client_integer(&fixture.client[d], &found, &e, "BF.EXISTS " FILTER " sent-while-it-slept"), e);
        assert_int_equal(found, 1);
    }
    expand(); /* the keys are in the next generation, too */
    for (unsigned d = 0; d < 2; d++) {
        for (unsigned round = 0; round <= EXPANSIONS + 1; round++)
            fixture_all_present(&fixture, d, first_of(round), ADDED);
        fixture_all_present(&fixture, d, 0, ROWS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coordinator__stopped_through_three_expansions_answers_right_at_once),
        cmocka_unit_test(test_coordinator__that_slept_adds_what_all_find),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
