/* SPDX-License-Identifier: MIT */
/* Commands with very many keys: done in slices, answered in one piece. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/lib/raw.h"

enum { KEY_ROOM = 16, HEAD = 8 };

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    return fixture_start(
        &fixture,
        &(struct fixture_options){.nodes = 2, .daemons = 1, .service = "threads = 2\nbatch_max = 1000000\n"});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* A command under construction: some words, then keys "k<number>". */
struct words {
    size_t count;
    const char **argv;
    size_t *lengths;
    char (*keys)[KEY_ROOM];
};

static void words_init(struct words *w, size_t keys)
{
    *w = (struct words){.argv = calloc(keys + HEAD, sizeof(char *)),
                        .lengths = calloc(keys + HEAD, sizeof(size_t)),
                        .keys = calloc(keys + 1, KEY_ROOM)};
    assert_true(w->argv != NULL && w->lengths != NULL && w->keys != NULL);
}

static void words_fini(struct words *w)
{
    free(w->argv);
    free(w->lengths);
    free(w->keys);
}

static void word(struct words *w, const char *text)
{
    w->lengths[w->count] = strlen(text);
    w->argv[w->count++] = text;
}

/* Append @count keys with the numbers @first, @first + @step, ... */
static void words_keys(struct words *w, unsigned first, unsigned count, unsigned step)
{
    for (unsigned i = 0; i < count; i++) {
        w->lengths[w->count] = (size_t)snprintf(w->keys[i], KEY_ROOM, "k%u", first + i * step);
        w->argv[w->count++] = w->keys[i];
    }
}

static void append(const struct words *w)
{
    assert_int_equal(redisAppendCommandArgv(fixture.client[0].redis, (int)w->count, w->argv, w->lengths),
                     REDIS_OK);
}

static redisReply *next_reply(void)
{
    redisReply *r = NULL;
    if (redisGetReply(fixture.client[0].redis, (void **)&r) != REDIS_OK)
        fail_msg("no reply: %s", fixture.client[0].redis->errstr);
    return r;
}

static redisReply *run(struct words *w)
{
    append(w);
    redisReply *r = next_reply();
    words_fini(w);
    return r;
}

static void keyed(struct words *w, const char *command, const char *filter, unsigned first, unsigned count,
                  unsigned step)
{
    words_init(w, count);
    word(w, command);
    word(w, filter);
    words_keys(w, first, count, step);
}

static redisReply *ask(const char *command, const char *filter, unsigned first, unsigned count, unsigned step)
{
    struct words w;
    keyed(&w, command, filter, first, count, step);
    return run(&w);
}

static size_t count_of(const redisReply *r, int64_t value)
{
    size_t count = 0;
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    for (size_t i = 0; i < r->elements; i++)
        count += r->element[i]->type == REDIS_REPLY_INTEGER && r->element[i]->integer == value;
    return count;
}

static void expect_integer(int64_t value)
{
    redisReply *r = next_reply();
    if (r->type != REDIS_REPLY_INTEGER || r->integer != value)
        fail_msg("type %d, %lld, %s", r->type, r->integer, r->str == NULL ? "" : r->str);
    freeReplyObject(r);
}

static void reserve(const char *filter, const char *rest)
{
    struct error e;
    char command[128];
    (void)snprintf(command, sizeof(command), "BF.RESERVE %s 0.001 %s", filter, rest);
    must(client_ok(&fixture.client[0], &e, command), e);
}

static void test_batch__of_a_million_keys_is_answered_in_their_order(void **state)
{
    (void)state;
    enum { ALL = 1000000, STEP = 5, ADDED = ALL / STEP };
    struct words w;
    reserve("million", "300000");
    redisReply *r = ask("BF.MADD", "million", 0, ADDED, STEP);
    assert_int_equal(r->elements, ADDED);
    assert_in_range(count_of(r, 1), ADDED - ADDED / 100, ADDED);
    freeReplyObject(r);
    /* The commands before and after the batch in the pipeline keep their places. */
    redisContext *redis = fixture.client[0].redis;
    assert_int_equal(redisAppendCommand(redis, "BF.ADD million before"), REDIS_OK);
    keyed(&w, "BF.MEXISTS", "million", 0, ALL, 1);
    append(&w);
    words_fini(&w);
    assert_int_equal(redisAppendCommand(redis, "BF.EXISTS million before"), REDIS_OK);
    assert_int_equal(redisAppendCommand(redis, "BF.ADD million before"), REDIS_OK);
    expect_integer(1);
    r = next_reply();
    assert_int_equal(r->elements, ALL);
    for (unsigned i = 0; i < ALL; i += STEP)
        if (r->element[i]->integer != 1)
            fail_msg("k%u was added, and is reported absent", i);
    assert_in_range(count_of(r, 1), ADDED, ADDED + ALL / 500);
    freeReplyObject(r);
    expect_integer(1);
    expect_integer(0);
}

static void test_batch__is_followed_by_a_check_that_sees_what_it_added(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    struct words w;
    reserve("order", "10000");
    keyed(&w, "BF.MADD", "order", 0, KEYS, 1);
    append(&w);
    words_fini(&w);
    for (unsigned i = 0; i < KEYS; i += 100)
        assert_int_equal(redisAppendCommand(fixture.client[0].redis, "BF.EXISTS order k%u", i), REDIS_OK);
    redisReply *r = next_reply();
    assert_int_equal(r->elements, KEYS);
    freeReplyObject(r);
    for (unsigned i = 0; i < KEYS; i += 100)
        expect_integer(1);
}

static void test_batch__runs_inside_a_transaction(void **state)
{
    (void)state;
    enum { KEYS = 2000 };
    struct words add, check;
    keyed(&add, "BF.MADD", "transaction", 0, KEYS, 1);
    keyed(&check, "BF.MEXISTS", "transaction", 0, KEYS, 1);
    redisContext *redis = fixture.client[0].redis;
    assert_int_equal(redisAppendCommand(redis, "MULTI"), REDIS_OK);
    append(&add);
    append(&check);
    assert_int_equal(redisAppendCommand(redis, "BF.ADD transaction k1"), REDIS_OK);
    assert_int_equal(redisAppendCommand(redis, "EXEC"), REDIS_OK);
    words_fini(&add);
    words_fini(&check);
    for (unsigned i = 0; i < 4; i++)
        freeReplyObject(next_reply());
    redisReply *r = next_reply();
    assert_int_equal(r->elements, 3);
    assert_int_equal(r->element[0]->elements, KEYS);
    assert_int_equal(count_of(r->element[1], 1), KEYS);
    assert_int_equal(r->element[2]->integer, 0);
    freeReplyObject(r);
}

/* The filter is in memory, so that the batch itself waits for nothing. There are two workers, and some of the
 * other connections have the batch's worker. */
static void test_batch__lets_others_go_first_where_memory_answers(void **state)
{
    (void)state;
    enum { KEYS = 200000, TIMES = 5, OTHERS = 4 };
    redisContext *redis = fixture.client[0].redis;
    char reply[16];
    struct words w;
    struct error e;
    int others[OTHERS];
    if (!fixture_has_memory())
        skip();
    for (unsigned i = 0; i < OTHERS; i++)
        assert_true((others[i] = raw_open(fixture.daemon[0].port)) >= 0);
    reserve("served", "300000");
    freeReplyObject(ask("BF.MADD", "served", 0, KEYS, 1));
    must(client_ok(&fixture.client[0], &e, "MULTI"), e);
    words_init(&w, KEYS * TIMES);
    word(&w, "BF.MEXISTS");
    word(&w, "served");
    for (unsigned i = 0; i < TIMES; i++)
        words_keys(&w, 0, KEYS, 1);
    freeReplyObject(run(&w));
    assert_int_equal(redisAppendCommand(redis, "EXEC"), REDIS_OK);
    for (int done = 0; done == 0;)
        assert_int_equal(redisBufferWrite(redis, &done), REDIS_OK);
    for (unsigned i = 0; i < OTHERS; i++)
        assert_true(raw_puts(others[i], "PING\r\n"));
    for (unsigned i = 0; i < OTHERS; i++)
        assert_true(raw_expect(others[i], "+PONG\r\n"));
    ssize_t begun = recv(redis->fd, reply, sizeof(reply), MSG_PEEK | MSG_DONTWAIT);
    assert_true(begun <= (ssize_t)sizeof("*1\r\n") -
                             1); /* at most the beginning of EXEC's reply, nothing of the batch */
    redisReply *r = next_reply();
    assert_int_equal(count_of(r->element[0], 1), KEYS * TIMES);
    freeReplyObject(r);
    for (unsigned i = 0; i < OTHERS; i++)
        raw_close(others[i]);
}

static void test_batch__to_a_full_filter_ends_with_the_first_key_that_was_refused(void **state)
{
    (void)state;
    reserve("full", "1000 NONSCALING");
    redisReply *r = ask("BF.MADD", "full", 0, 3000, 1);
    assert_in_range(r->elements, 1001, 1100);
    const redisReply *last = r->element[r->elements - 1];
    assert_int_equal(last->type, REDIS_REPLY_ERROR);
    assert_string_equal(last->str, "ERR non scaling filter is full");
    unsigned kept = (unsigned)r->elements - 1;
    freeReplyObject(r);
    r = ask("BF.MEXISTS", "full", 0, kept, 1);
    assert_int_equal(count_of(r, 1), kept);
    freeReplyObject(r);
}

static void test_batch__on_a_filter_that_is_not_there(void **state)
{
    (void)state;
    struct words w;
    redisReply *r = ask("BF.MEXISTS", "nowhere", 0, 3000, 1);
    assert_int_equal(count_of(r, 0), 3000);
    freeReplyObject(r);
    words_init(&w, 3000);
    word(&w, "BF.INSERT");
    word(&w, "nowhere");
    word(&w, "NOCREATE");
    word(&w, "ITEMS");
    words_keys(&w, 0, 3000, 1);
    r = run(&w);
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    assert_string_equal(r->str, "ERR not found");
    freeReplyObject(r);
    r = ask("BF.MADD", "made-by-a-batch", 0, 3000,
            1); /* the default capacity is 100, so the filter grows meanwhile */
    assert_int_equal(r->elements, 3000);
    freeReplyObject(r);
    r = ask("BF.MEXISTS", "made-by-a-batch", 0, 3000, 1);
    assert_int_equal(count_of(r, 1), 3000);
    freeReplyObject(r);
}

static void test_batch__that_is_too_long_is_refused_and_the_connection_lives(void **state)
{
    (void)state;
    redisReply *r = ask("BF.MEXISTS", "long", 0, 1000001, 1);
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    assert_string_equal(r->str, "RANGE 1000001 keys in one command: at most 1000000 are allowed (batch_max)");
    freeReplyObject(r);
    r = client_command(&fixture.client[0], "PING");
    assert_string_equal(r->str, "PONG");
    freeReplyObject(r);
}

static void test_batch__whose_client_goes_away_harms_nobody(void **state)
{
    (void)state;
    char head[64];
    for (int i = 0; i < 5; i++) {
        int fd = raw_open(fixture.daemon[0].port);
        assert_true(fd >= 0);
        (void)snprintf(head, sizeof(head), "*50002\r\n$10\r\nBF.MEXISTS\r\n$4\r\ngone\r\n");
        assert_true(raw_puts(fd, head));
        for (int k = 0; k < 50000 - 7 * i; k++)
            assert_true(raw_puts(fd, "$3\r\nabc\r\n"));
        raw_close(fd);
    }
    redisReply *r = client_command(&fixture.client[0], "PING");
    assert_string_equal(r->str, "PONG");
    freeReplyObject(r);
}

static void test_batch__with_a_node_that_does_not_answer_is_answered_from_memory(void **state)
{
    (void)state;
    enum { KEYS = 2000, FEW = 50 };
    reserve("stopped", "200000");
    redisReply *r = ask("BF.MADD", "stopped", 0, KEYS, 1);
    freeReplyObject(r);
    assert_int_equal(kill(fixture.redis[1].process.pid, SIGSTOP), 0);
    redisReply *few = ask("BF.MEXISTS", "stopped", 0, FEW, 1);
    redisReply *many = ask("BF.MEXISTS", "stopped", 0, KEYS, 1);
    assert_int_equal(kill(fixture.redis[1].process.pid, SIGCONT), 0);
    assert_int_equal(count_of(few, 1), FEW);
    assert_int_equal(count_of(many, 1), KEYS);
    freeReplyObject(few);
    freeReplyObject(many);
    for (unsigned i = 0; i < 100; i++) { /* until the connection to the node is open again */
        r = ask("BF.MEXISTS", "stopped", 0, KEYS, 1);
        size_t found = count_of(r, 1);
        freeReplyObject(r);
        if (found == KEYS)
            return;
    }
    fail_msg("the node answers again, and keys are still errors");
}

int main(void)
{
#define TEST(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        TEST(test_batch__of_a_million_keys_is_answered_in_their_order),
        TEST(test_batch__is_followed_by_a_check_that_sees_what_it_added),
        TEST(test_batch__runs_inside_a_transaction),
        TEST(test_batch__lets_others_go_first_where_memory_answers),
        TEST(test_batch__to_a_full_filter_ends_with_the_first_key_that_was_refused),
        TEST(test_batch__on_a_filter_that_is_not_there),
        TEST(test_batch__that_is_too_long_is_refused_and_the_connection_lives),
        TEST(test_batch__whose_client_goes_away_harms_nobody),
        TEST(test_batch__with_a_node_that_does_not_answer_is_answered_from_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
