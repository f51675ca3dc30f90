/* SPDX-License-Identifier: MIT */
/* A filter that is a log while one of its Redis nodes does not answer. The first node has the lane and half
 * of the shards, the second one the other half. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { TIMEOUT_MS = 500, SHORT_MS = 100, SLACK_MS = 250, KEYS = 1000, RECOVER_MS = 30000 };

static struct fixture fixture;
static struct error e;

static int setup(void **state)
{
    (void)state;
    return fixture_start(&fixture,
                         &(struct fixture_options){.nodes = 2, .daemons = 1, .service = "timeout = 500ms\n"});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static int go_on(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        process_signal(&fixture.redis[i].process, SIGCONT);
    return 0;
}

static struct client *client(void)
{
    return &fixture.client[0];
}

static size_t key(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "k%llu", (unsigned long long)number);
}

/* Make a filter with the keys 0 to KEYS - 1, and wait until all shards are in memory. */
static void make(const char *filter)
{
    char command[200];
    (void)snprintf(command, sizeof(command), "BF.RESERVE %s 0.001 100000", filter);
    fixture_ask(&fixture, 0, "CONFIG SET service.timeout 20s");
    fixture_ask(&fixture, 0, command);
    must(client_madd(client(), filter, key, 0, KEYS, &e), e);
    must(client_wait_status(client(), filter, "state", "serving", RECOVER_MS, &e), e);
    int64_t shards;
    must(client_status_number(client(), filter, "shards", &shards, &e), e);
    assert_true(shards >= 4);
    must(client_wait_status_least(client(), filter, "resident_shards", shards, RECOVER_MS, &e), e);
    fixture_ask(&fixture, 0, "CONFIG SET service.timeout 500ms");
}

static unsigned since_ms(uint64_t began)
{
    return (unsigned)((clock_mono_us() - began) / 1000);
}

/* The reply, which must come within @most ms. */
static redisReply *ask_within(unsigned most, const char *command)
{
    uint64_t began = clock_mono_us();
    redisReply *r = client_command(client(), command);
    unsigned took = since_ms(began);
    assert_non_null(r);
    if (took > most)
        fail_msg("%s took %u ms, not %u at most", command, took, most);
    return r;
}

static void is_present(const char *command)
{
    redisReply *r = ask_within(SLACK_MS, command);
    assert_int_equal(r->type, REDIS_REPLY_INTEGER);
    assert_int_equal(r->integer, 1);
    freeReplyObject(r);
}

/* The command must fail when its deadline is over. */
static void is_error(unsigned timeout_ms, const char *command)
{
    redisReply *r = ask_within(timeout_ms + SLACK_MS, command);
    if (r->type != REDIS_REPLY_ERROR)
        fail_msg("%s: no error", command);
    if (strstr(r->str, "Redis node") == NULL)
        fail_msg("%s: %s", command, r->str);
    freeReplyObject(r);
}

static void test_shards_node_is_away__a_filter_in_memory_answers_everything(void **state)
{
    (void)state;
    uint64_t present;
    make("one");
    process_signal(&fixture.redis[1].process, SIGSTOP);
    uint64_t began = clock_mono_us();
    for (unsigned round = 1; round <= 5; round++) {
        must(client_madd(client(), "one", key, (uint64_t)round * KEYS, KEYS, &e), e);
        must(client_mexists(client(), "one", key, 0, (uint64_t)(round + 1) * KEYS, &present, NULL, &e), e);
        assert_int_equal(present, (round + 1) * KEYS);
        must(client_mexists(client(), "one", fixture_absent_code, 0, KEYS, &present, NULL, &e), e);
        assert_in_range(present, 0, KEYS / 50);
        clock_sleep_us(300 * 1000); /* long enough for a fold, and to notice that the node is away */
    }
    assert_true(since_ms(began) < 10000);
    process_signal(&fixture.redis[1].process, SIGCONT);
    must(client_wait_status(client(), "one", "fold_lag_entries", "0", RECOVER_MS, &e), e);
    must(client_mexists(client(), "one", key, 0, 6 * KEYS, &present, NULL, &e), e);
    assert_int_equal(present, 6 * KEYS);
    daemon_kill(&fixture.daemon[0]); /* the keys that were folded since are complete */
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    uint64_t until = clock_mono_us() + RECOVER_MS * 1000ull;
    while (client_mexists(client(), "one", key, 0, 6 * KEYS, &present, NULL, &e) != ERR_OK)
        assert_true(clock_mono_us() < until); /* until it is loaded */
    assert_int_equal(present, 6 * KEYS);
}

static void absent_is_answered_again(const char *filter)
{
    uint64_t until = clock_mono_us() + RECOVER_MS * 1000ull;
    int64_t n = 1;
    while (client_integer(client(), &n, &e, "BF.EXISTS %s nowhere", filter) != ERR_OK)
        assert_true(clock_mono_us() < until);
    assert_int_equal(n, 0);
    must(client_integer(client(), &n, &e, "BF.ADD %s fresher", filter), e);
    assert_int_equal(n, 1);
}

static void test_lanes_node_is_away__present_is_answered_and_the_rest_is_an_error_in_time(void **state)
{
    (void)state;
    make("two");
    process_signal(&fixture.redis[0].process, SIGSTOP);
    for (unsigned round = 0; round < 3; round++) {
        is_present("BF.EXISTS two k1");
        is_error(TIMEOUT_MS, "BF.EXISTS two nowhere");
        is_error(TIMEOUT_MS, "BF.ADD two fresh");
    }
    is_present("BF.EXISTS two k2");
    redisReply *r = ask_within(TIMEOUT_MS + SLACK_MS, "BF.MEXISTS two k1 nowhere k2 elsewhere");
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 4);
    for (unsigned i = 0; i < 4; i += 2) {
        assert_int_equal(r->element[i]->type, REDIS_REPLY_INTEGER);
        assert_int_equal(r->element[i]->integer, 1);
        assert_int_equal(r->element[i + 1]->type, REDIS_REPLY_ERROR);
    }
    freeReplyObject(r);
    process_signal(&fixture.redis[0].process, SIGCONT);
    absent_is_answered_again("two");
}

/* Nothing listens on the port. Later another process has the data, under another replication id. */
static void
test_lanes_node_that_died_is_away__present_is_answered_and_the_rest_is_an_error_in_time(void **state)
{
    (void)state;
    uint64_t present;
    make("six");
    struct client redis;
    must(client_open(&redis, fixture.redis[0].port, RECOVER_MS, &e), e);
    must(client_ok(&redis, &e, "SAVE"), e);
    client_close(&redis);
    temp_redis_kill(&fixture.redis[0]);
    for (unsigned round = 0; round < 3; round++) {
        is_present("BF.EXISTS six k1");
        is_error(TIMEOUT_MS, "BF.EXISTS six nowhere");
        is_error(TIMEOUT_MS, "BF.ADD six fresh");
    }
    is_present("BF.EXISTS six k2");
    must(temp_redis_restart(&fixture.redis[0], true, &e), e);
    absent_is_answered_again("six");
    must(client_mexists(client(), "six", key, 0, KEYS, &present, NULL, &e), e);
    assert_int_equal(present, KEYS);
}

/* Each slice of a batch after a late one gets little time. */
static void test_lanes_node_is_away__a_long_batch_does_not_wait_for_each_of_its_parts(void **state)
{
    (void)state;
    enum { MANY = 4000 };
    static const char *argv[MANY + 2];
    static char names[MANY][CLIENT_KEY_MAX];
    make("three");
    argv[0] = "BF.MEXISTS";
    argv[1] = "three";
    for (unsigned i = 0; i < MANY; i++) {
        (void)(i % 2 == 0 ? key(i % KEYS, names[i]) : fixture_absent_code(i, names[i]));
        argv[i + 2] = names[i];
    }
    process_signal(&fixture.redis[0].process, SIGSTOP);
    uint64_t began = clock_mono_us();
    redisReply *r = client_argv(client(), MANY + 2, argv, NULL);
    unsigned took = since_ms(began);
    process_signal(&fixture.redis[0].process, SIGCONT);
    assert_non_null(r);
    assert_int_equal(r->elements, MANY);
    for (unsigned i = 0; i < MANY; i += 2) {
        assert_int_equal(r->element[i]->type, REDIS_REPLY_INTEGER);
        assert_int_equal(r->element[i]->integer, 1);
    }
    freeReplyObject(r);
    if (took > 5000) /* 16 pairs of slices with TIMEOUT_MS each would take 8 s */
        fail_msg("%u ms", took);
    absent_is_answered_again("three");
}

/* The currently configured deadline counts, not the one at the coordinator's start. */
static void test_deadline__is_the_one_that_is_configured_now(void **state)
{
    (void)state;
    make("four");
    must(client_ok(client(), &e, "CONFIG SET service.timeout 100ms"), e);
    process_signal(&fixture.redis[0].process, SIGSTOP);
    for (unsigned round = 0; round < 3; round++) {
        is_error(SHORT_MS, "BF.EXISTS four nowhere");
        is_error(SHORT_MS, "BF.ADD four fresh");
    }
    process_signal(&fixture.redis[0].process, SIGCONT);
    must(client_ok(client(), &e, "CONFIG SET service.timeout 3s"), e);
    process_signal(&fixture.redis[0].process, SIGSTOP); /* for longer than the coordinator's first deadline */
    uint64_t began = clock_mono_us();
    redisAppendCommand(client()->redis, "BF.EXISTS four nowhere");
    int done = 0;
    while (done == 0)
        assert_int_equal(redisBufferWrite(client()->redis, &done), REDIS_OK);
    clock_sleep_us(800 * 1000);
    process_signal(&fixture.redis[0].process, SIGCONT);
    redisReply *r;
    assert_int_equal(redisGetReply(client()->redis, (void **)&r), REDIS_OK);
    if (r->type != REDIS_REPLY_INTEGER)
        fail_msg("%s", r->str);
    assert_int_equal(r->integer, 0);
    assert_in_range(since_ms(began), 800, 3000);
    freeReplyObject(r);
}

/* No layer can be made, as some of its shards would be on that node. */
static void test_shards_node_is_down__a_filter_that_is_full_takes_more_keys(void **state)
{
    (void)state;
    uint64_t present;
    fixture_ask(&fixture, 0, "BF.RESERVE five 0.001 20000");
    must(client_madd(client(), "five", key, 0, 19 * KEYS, &e), e);
    must(client_wait_status(client(), "five", "fold_lag_entries", "0", RECOVER_MS, &e), e);
    struct client redis;
    must(client_open(&redis, fixture.redis[1].port, RECOVER_MS, &e), e);
    must(client_ok(&redis, &e, "SAVE"), e);
    client_close(&redis);
    temp_redis_kill(&fixture.redis[1]);
    for (unsigned i = 19; i < 25; i++) {
        must(client_madd(client(), "five", key, (uint64_t)i * KEYS, KEYS, &e), e);
        must(client_mexists(client(), "five", key, 0, (uint64_t)(i + 1) * KEYS, &present, NULL, &e), e);
        assert_int_equal(present, (i + 1) * KEYS);
    }
    must(temp_redis_restart(&fixture.redis[1], true, &e), e);
    must(client_wait_status(client(), "five", "fold_lag_entries", "0", RECOVER_MS, &e), e);
    must(client_mexists(client(), "five", key, 0, 25 * KEYS, &present, NULL, &e), e);
    assert_int_equal(present, 25 * KEYS);
}

/* --- without shards in memory --- */

static int setup_without_memory(void **state)
{
    (void)state;
    /* AddressSanitizer gives out memory that says "present", as memory that checks have used does. */
    const char *options = getenv("ASAN_OPTIONS");
    char filled[512];
    (void)snprintf(filled, sizeof(filled), "%s:malloc_fill_byte=1", options != NULL ? options : "");
    (void)setenv("ASAN_OPTIONS", filled, 1);
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 2,
                                                             .daemons = 1,
                                                             .service = "timeout = 500ms\n",
                                                             .redis_lines = "resident_memory = 0\n"});
}

struct answers {
    unsigned yes, no, errors;
};

/* Check many keys by one command, which must be answered in time. */
static struct answers ask_many(client_key_fn *name, unsigned count)
{
    struct answers a = {0};
    static const char *argv[200 + 2] = {"BF.MEXISTS", "blocks"};
    static char names[200][CLIENT_KEY_MAX];
    for (unsigned i = 0; i < count; i++) {
        (void)name(i, names[i]);
        argv[i + 2] = names[i];
    }
    uint64_t began = clock_mono_us();
    redisReply *r = client_argv(client(), (int)count + 2, argv, NULL);
    assert_in_range(since_ms(began), 0, 2 * TIMEOUT_MS + SLACK_MS);
    assert_non_null(r);
    a.errors = r->type == REDIS_REPLY_ERROR ? count : 0; /* no key has an answer */
    for (size_t i = 0; i < r->elements; i++) {
        a.errors += r->element[i]->type == REDIS_REPLY_ERROR;
        a.yes += r->element[i]->type == REDIS_REPLY_INTEGER && r->element[i]->integer == 1;
        a.no += r->element[i]->type == REDIS_REPLY_INTEGER && r->element[i]->integer == 0;
    }
    freeReplyObject(r);
    assert_int_equal(a.yes + a.no + a.errors, count);
    return a;
}

/* A key whose blocks came is answered, with "absent" only if the lane was read. */
static void test_blocks_of_one_node_are_away__their_keys_alone_have_no_answer(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    fixture_ask(&fixture, 0, "CONFIG SET service.timeout 20s");
    fixture_ask(&fixture, 0, "BF.RESERVE blocks 0.001 100000");
    must(client_madd(client(), "blocks", key, 0, KEYS, &e), e);
    fixture_ask(&fixture, 0, "CONFIG SET service.timeout 500ms");
    process_signal(&fixture.redis[1].process, SIGSTOP);
    struct answers there = ask_many(key, COUNT), absent = ask_many(fixture_absent_code, COUNT);
    process_signal(&fixture.redis[1].process, SIGCONT);
    assert_int_equal(there.no, 0);
    assert_in_range(there.yes, COUNT / 5, COUNT - COUNT / 5);
    assert_in_range(absent.no, COUNT / 5, COUNT - COUNT / 5);
    uint64_t until = clock_mono_us() + RECOVER_MS * 1000ull;
    while (ask_many(key, COUNT).yes != COUNT || ask_many(fixture_absent_code, COUNT).errors > 0)
        assert_true(clock_mono_us() < until);
    process_signal(&fixture.redis[0].process, SIGSTOP); /* the node with the lane */
    there = ask_many(key, COUNT);
    absent = ask_many(fixture_absent_code, COUNT);
    process_signal(&fixture.redis[0].process, SIGCONT);
    assert_int_equal(there.no, 0);
    assert_int_equal(absent.no, 0);
}

/* Send @command for the keys 0 to @count - 1 in one pipeline. Returns how many replies were 1, and how many
 * errors. */
static struct answers ask_pipeline(const char *command, unsigned count)
{
    struct answers a = {0};
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(redisAppendCommand(client()->redis, "%s unanswered k%u", command, i), REDIS_OK);
    for (unsigned i = 0; i < count; i++) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(client()->redis, (void **)&r), REDIS_OK);
        a.errors += r->type == REDIS_REPLY_ERROR;
        a.yes += r->type == REDIS_REPLY_INTEGER && r->integer == 1;
        freeReplyObject(r);
    }
    return a;
}

/* An add that has failed must not reply with what a check before it has found: their memory may be the same.
 */
static void test_redis_is_away__adds_behind_checks_fail(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    fixture_ask(&fixture, 0, "BF.RESERVE unanswered 0.001 100000");
    must(client_madd(client(), "unanswered", key, 0, COUNT, &e), e);
    assert_true(daemon_stop(&fixture.daemon[0], RECOVER_MS)); /* it has these keys in memory */
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    for (unsigned count = 1; count <= COUNT; count += COUNT - 1) {
        assert_int_equal(ask_pipeline("BF.EXISTS", count).yes, count);
        for (unsigned i = 0; i < 2; i++)
            process_signal(&fixture.redis[i].process, SIGSTOP);
        struct answers added = ask_pipeline("BF.ADD", count);
        for (unsigned i = 0; i < 2; i++)
            process_signal(&fixture.redis[i].process, SIGCONT);
        assert_int_equal(added.errors, count);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, go_on)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shards_node_is_away__a_filter_in_memory_answers_everything),
        TEST(test_lanes_node_is_away__present_is_answered_and_the_rest_is_an_error_in_time),
        TEST(test_lanes_node_that_died_is_away__present_is_answered_and_the_rest_is_an_error_in_time),
        TEST(test_lanes_node_is_away__a_long_batch_does_not_wait_for_each_of_its_parts),
        TEST(test_shards_node_is_down__a_filter_that_is_full_takes_more_keys),
        TEST(test_deadline__is_the_one_that_is_configured_now),
    };
    const struct CMUnitTest without_memory[] = {
        TEST(test_blocks_of_one_node_are_away__their_keys_alone_have_no_answer),
        TEST(test_redis_is_away__adds_behind_checks_fail),
    };
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    return failed + cmocka_run_group_tests(without_memory, setup_without_memory, teardown);
}
