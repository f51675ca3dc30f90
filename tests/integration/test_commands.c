/* SPDX-License-Identifier: MIT */
/* BF.* at length: filters that grow, keys of all sizes, long pipelines. test_contract_* test the protocol
 * itself. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 1, .daemons = 1};

static void test_filters__grow_past_their_capacity_and_keep_their_rate(void **state)
{
    (void)state;
    enum { KEYS = 5000, ABSENT = 5000 };
    struct client *c = &fixture.client[0];
    struct error e = {""};
    uint64_t present = 0;
    int64_t n = 0;
    must(client_ok(c, &e, "BF.RESERVE growing 0.01 200"), e);
    must(client_madd(c, "growing", fixture_code, 0, KEYS, &e), e);
    must(client_mexists(c, "growing", fixture_code, 0, KEYS, &present, NULL, &e), e);
    assert_int_equal(present, KEYS);
    must(client_mexists(c, "growing", fixture_absent_code, 0, ABSENT, &present, NULL, &e), e);
    if (present > ABSENT / 100 + 28) /* the rate, and four standard deviations */
        fail_msg("%llu of %d absent keys are reported present", (unsigned long long)present, ABSENT);
    redisReply *r = client_command(c, "BF.INFO growing FILTERS");
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 1);
    n = r->element[0]->integer;
    freeReplyObject(r);
    assert_true(n > 1);
}

static void test_keys__may_be_empty_binary_or_a_megabyte(void **state)
{
    (void)state;
    enum { BIG = 1 << 20 };
    char binary[256];
    char *big = malloc(BIG);
    struct client *c = &fixture.client[0];
    assert_non_null(big);
    memset(big, 'x', BIG);
    for (size_t i = 0; i < sizeof(binary); i++)
        binary[i] = (char)i;
    const struct {
        const char *bytes;
        size_t length;
    } keys[] = {{"", 0}, {binary, sizeof(binary)}, {binary, 1}, {"\r\n", 2}, {big, BIG}, {big, BIG - 1}};
    static const int64_t wanted[] = {0, 1, 1}; /* EXISTS before the ADD, ADD, EXISTS after it */
    static const char *const commands[] = {"BF.EXISTS", "BF.ADD", "BF.EXISTS"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        for (size_t k = 0; k < 3; k++) {
            struct error e = {""};
            int64_t n = -1;
            must(client_integer(c, &n, &e, "%s odd %b", commands[k], keys[i].bytes, keys[i].length), e);
            if (n != wanted[k])
                fail_msg("key %zu: %s said %lld", i, commands[k], (long long)n);
        }
    free(big);
}

static void test_pipeline__answers_ten_thousand_commands_in_order(void **state)
{
    (void)state;
    enum { KEYS = 5000 };
    redisContext *redis = fixture.client[0].redis;
    struct error e = {""};
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE piped 0.001 %d", 2 * KEYS), e);
    /* An EXISTS after its ADD in the pipeline sees the key; ECHO shows the order. */
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(redisAppendCommand(redis, "BF.ADD piped k%d", i), REDIS_OK);
        if (i % 2 == 0)
            assert_int_equal(redisAppendCommand(redis, "BF.EXISTS piped k%d", i), REDIS_OK);
        else
            assert_int_equal(redisAppendCommand(redis, "ECHO k%d", i), REDIS_OK);
    }
    for (int i = 0; i < 2 * KEYS; i++) {
        char text[32];
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(redis, (void **)&r), REDIS_OK);
        (void)snprintf(text, sizeof(text), "k%d", i / 2);
        if (i % 4 == 3) {
            assert_int_equal(r->type, REDIS_REPLY_STRING);
            assert_string_equal(r->str, text);
        } else {
            assert_int_equal(r->type, REDIS_REPLY_INTEGER);
            if (i % 4 == 1 && r->integer != 1)
                fail_msg("%s was added before it was asked for", text);
        }
        freeReplyObject(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters__grow_past_their_capacity_and_keep_their_rate),
        cmocka_unit_test(test_keys__may_be_empty_binary_or_a_megabyte),
        cmocka_unit_test(test_pipeline__answers_ten_thousand_commands_in_order),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
