/* SPDX-License-Identifier: MIT */
/* Commands as they are on the wire: replies and error texts to the byte. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/raw.h"

static struct fixture fixture;
static struct daemon guarded; /* one with a password */

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .daemons = 1}) != 0)
        return -1;
    must(daemon_start(&guarded,
                      &(struct daemon_options){.nodes = fixture.node_list, .service = "password = s3cret\n"},
                      &e),
         e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&guarded);
    return fixture_stop(&fixture) == 0 && clean ? 0 : -1;
}

static int open_raw(void)
{
    int fd = raw_open(fixture.daemon[0].port);
    assert_true(fd >= 0);
    return fd;
}

/* A request as an inline line, and the reply without the CRLF at its end. */
struct exchange {
    const char *request;
    const char *reply;
};

static void run_exchanges(int fd, const struct exchange *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text), "%s\r\n", rows[i].request);
        assert_true(raw_puts(fd, text));
        (void)snprintf(text, sizeof(text), "%s\r\n", rows[i].reply);
        if (!raw_expect(fd, text))
            fail_msg("wrong reply to: %s", rows[i].request);
    }
}

#define RUN(rows)                                                                                            \
    do {                                                                                                     \
        int fd_ = open_raw();                                                                                \
        run_exchanges(fd_, rows, sizeof(rows) / sizeof((rows)[0]));                                          \
        raw_close(fd_);                                                                                      \
    } while (0)

static void test_bf_reserve__validates_in_the_order_of_the_contract(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.RESERVE r 0.01 1000", "+OK"},
        {"BF.RESERVE r 0.01 1000", "-ERR item exists"},
        {"bf.reserve r1 1e-2 100 expansion 4", "+OK"},
        {"BF.RESERVE r2 .01 100 NONSCALING", "+OK"},
        {"BF.RESERVE", "-ERR wrong number of arguments for 'bf.reserve' command"},
        {"BF.RESERVE x 0.01", "-ERR wrong number of arguments for 'bf.reserve' command"},
        {"BF.RESERVE x 0.01 100 EXPANSION 2 NONSCALING x",
         "-ERR wrong number of arguments for 'bf.reserve' command"},
        {"BF.RESERVE x abc 100", "-ERR bad error rate"},
        {"BF.RESERVE x abc def", "-ERR bad error rate"},
        {"BF.RESERVE x 0 100", "-ERR (0 < error rate range < 1) "},
        {"BF.RESERVE x 1 100", "-ERR (0 < error rate range < 1) "},
        {"BF.RESERVE x 0.01 abc", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 +5", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 1.5", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 0", "-ERR (capacity should be larger than 0)"},
        {"BF.RESERVE x 0.01 100 EXPANSION", "-ERR no expansion"},
        {"BF.RESERVE x 0.01 100 EXPANSION abc", "-ERR bad expansion"},
        {"BF.RESERVE x 0.01 100 EXPANSION 0", "-ERR expansion should be greater or equal to 1"},
        {"BF.RESERVE x 0.01 100 EXPANSION 2 NONSCALING", "-Nonscaling filters cannot expand"},
        {"BF.EXISTS x a", ":0"},
        {"BF.RESERVE x 0.01 100", "+OK"}, /* none of those made it */
    };
    RUN(rows);
}

static void test_bf_reserve__refuses_an_absurd_capacity_and_lives_on(void **state)
{
    (void)state;
    int fd = open_raw();
    char reply[1024];
    assert_true(raw_puts(fd, "BF.RESERVE absurd 0.0001 9223372036854775807\r\n"));
    assert_true(raw_read_until(fd, "\r\n", reply, sizeof(reply)));
    static const char begins[] = "-ERR could not create filter";
    if (strncmp(reply, begins, sizeof(begins) - 1) != 0)
        fail_msg("%s", reply);
    assert_true(raw_puts(fd, "PING\r\n"));
    assert_true(raw_expect(fd, "+PONG\r\n"));
    raw_close(fd);
}

static void test_bf_add__creates_counts_and_remembers(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.EXISTS added a", ":0"},
        {"BF.MEXISTS added a b", "*2\r\n:0\r\n:0"},
        {"BF.CARD added", ":0"},
        {"BF.ADD added a", ":1"},
        {"BF.ADD added a", ":0"},
        {"bf.exists added a", ":1"},
        {"BF.EXISTS added b", ":0"},
        {"BF.MADD added b c b", "*3\r\n:1\r\n:1\r\n:0"},
        {"BF.MEXISTS added a b c d", "*4\r\n:1\r\n:1\r\n:1\r\n:0"},
        {"BF.CARD added", ":3"},
        {"BF.INFO added CAPACITY", "*1\r\n:100"},
        {"BF.INFO added EXPANSION", "*1\r\n:2"},
        {"BF.ADD added", "-ERR wrong number of arguments for 'bf.add' command"},
        {"BF.ADD added a b", "-ERR wrong number of arguments for 'bf.add' command"},
        {"BF.MADD added", "-ERR wrong number of arguments for 'bf.madd' command"},
        {"BF.EXISTS added", "-ERR wrong number of arguments for 'bf.exists' command"},
        {"BF.MEXISTS added", "-ERR wrong number of arguments for 'bf.mexists' command"},
        {"BF.CARD", "-ERR wrong number of arguments for 'bf.card' command"},
        {"BF.NOSUCH k", "-ERR unknown command 'BF.NOSUCH', with args beginning with: 'k' "},
        {"BF.ADD \"f{a}b\" x", ":1"},
        {"BF.EXISTS \"f{a}b\" x", ":1"},
        {"BF.EXISTS \"f{a}\" x", ":0"},
        {"BF.EXISTS \"fab\" x", ":0"},
        {"BF.ADD {} x", ":1"},
        {"BF.EXISTS {} x", ":1"},
    };
    RUN(rows);
}

static void test_bf_add__to_a_full_filter_that_does_not_scale_is_an_error(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.RESERVE full 0.000001 5 NONSCALING", "+OK"},
        {"BF.MADD full a b c", "*3\r\n:1\r\n:1\r\n:1"},
        {"BF.MADD full d e f g", "*3\r\n:1\r\n:1\r\n-ERR non scaling filter is full"},
        {"BF.MEXISTS full d e f", "*3\r\n:1\r\n:1\r\n:0"},
        {"BF.ADD full a", ":0"},
        {"BF.ADD full z", "-ERR non scaling filter is full"},
        {"BF.INSERT full ITEMS a z", "*2\r\n:0\r\n-ERR non scaling filter is full"},
        {"BF.INFO full EXPANSION", "*1\r\n$-1"},
    };
    RUN(rows);
}

static void test_bf_insert__reads_its_options(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.INSERT i CAPACITY 1000 ERROR 0.001 ITEMS a b", "*2\r\n:1\r\n:1"},
        {"BF.INSERT i NOCREATE ITEMS a", "*1\r\n:0"},
        {"BF.INSERT i CAPACITY 5 ITEMS c", "*1\r\n:1"},
        {"BF.INFO i CAPACITY", "*1\r\n:1000"},
        {"BF.INSERT nothere NOCREATE ITEMS a", "-ERR not found"},
        {"BF.INSERT i", "-ERR wrong number of arguments for 'bf.insert' command"},
        {"BF.INSERT i CAPACITY 100", "-ERR wrong number of arguments for 'bf.insert' command"},
        {"BF.INSERT i ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"},
        {"BF.INSERT i FOO 1 ITEMS a", "-Unknown argument received"},
        {"BF.INSERT i CAPACITY abc ITEMS a", "-Bad capacity"},
        {"BF.INSERT i ERROR abc ITEMS a", "-Bad error rate"},
        {"BF.INSERT i EXPANSION abc ITEMS a", "-Bad expansion"},
        {"BF.INSERT i CAPACITY 0 ITEMS a", "-Bad argument received"},
        {"BF.INSERT i ERROR 2 ITEMS a", "-Bad argument received"},
        {"BF.INSERT twice CAPACITY 10 CAPACITY 5000 ITEMS a", "*1\r\n:1"},
        {"BF.INFO twice CAPACITY", "*1\r\n:5000"},
        {"BF.INSERT ITEMS ITEMS ITEMS", "*1\r\n:1"}, /* words are not looked for in the key */
        {"BF.EXISTS ITEMS ITEMS", ":1"},
    };
    RUN(rows);
}

static void test_bf_info__knows_its_fields(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.RESERVE info 0.01 500 EXPANSION 3", "+OK"},
        {"BF.MADD info a b", "*2\r\n:1\r\n:1"},
        {"BF.INFO info capacity", "*1\r\n:500"},
        {"BF.INFO info FILTERS", "*1\r\n:1"},
        {"BF.INFO info ITEMS", "*1\r\n:2"},
        {"BF.INFO info EXPANSION", "*1\r\n:3"},
        {"BF.INFO info FOO", "-Invalid information value"},
        {"BF.INFO nothere FOO", "-ERR not found"},
        {"BF.INFO nothere", "-ERR not found"},
        {"BF.INFO", "-ERR wrong number of arguments for 'bf.info' command"},
    };
    RUN(rows);
    static const char *const names[] = {"Capacity", "Size", "Number of filters", "Number of items inserted",
                                        "Expansion rate"};
    redisReply *r = client_command(&fixture.client[0], "BF.INFO info");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 10);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(r->element[2 * i]->str, names[i]);
        assert_int_equal(r->element[2 * i + 1]->type, REDIS_REPLY_INTEGER);
    }
    assert_true(r->element[3]->integer > 500 * 9 / 8); /* ten bits a key, in bytes */
    freeReplyObject(r);
}

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
    static const int64_t wanted[] = {0, 1, 1}; /* EXISTS before, ADD, EXISTS after */
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
    /* An EXISTS right behind its ADD sees it; an ECHO tells the order. */
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

static void test_handshakes__are_answered(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"PING", "+PONG"},
        {"ping hello", "$5\r\nhello"},
        {"ECHO \"a b\"", "$3\r\na b"},
        {"SELECT 0", "+OK"},
        {"CLIENT SETNAME tester", "+OK"},
        {"CLIENT GETNAME", "$6\r\ntester"},
        {"CLIENT SETINFO lib-name x", "+OK"},
        {"MULTI", "+OK"},
        {"BF.ADD tx a", "+QUEUED"},
        {"BF.EXISTS tx a", "+QUEUED"},
        {"EXEC", "*2\r\n:1\r\n:1"},
        {"MULTI", "+OK"},
        {"BF.ADD tx b", "+QUEUED"},
        {"DISCARD", "+OK"},
        {"BF.EXISTS tx b", ":0"},
        {"HELLO 4", "-NOPROTO unsupported protocol version"},
        {"HELLO abc", "-ERR Protocol version is not an integer or out of range"},
        {"HELLO 2 FOO", "-ERR Syntax error in HELLO option 'FOO'"},
        {"RESET", "+RESET"},
        {"CLIENT GETNAME", "$-1"},
    };
    RUN(rows);
    struct error e = {""};
    int64_t n = 0;
    must(client_integer(&fixture.client[0], &n, &e, "CLIENT ID"), e);
    must(client_integer(&fixture.client[0], &n, &e, "COMMAND COUNT"), e);
    assert_true(n > 20);
    redisReply *r = client_command(&fixture.client[0], "INFO");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING && strstr(r->str, "redis_version:") != NULL);
    freeReplyObject(r);
    r = client_command(&fixture.client[0], "CONFIG GET save");
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 2);
    freeReplyObject(r);
}

static void test_resp3__has_booleans_and_maps(void **state)
{
    (void)state;
    char hello[2048];
    int fd = open_raw();
    assert_true(raw_puts(fd, "HELLO 3\r\n"));
    assert_true(raw_read_until(fd, "$7\r\nmodules\r\n", hello, sizeof(hello)));
    assert_memory_equal(hello, "%7\r\n", 4);
    assert_non_null(strstr(hello, "$5\r\nproto\r\n:3\r\n"));
    assert_true(raw_read_until(fd, "\r\n", hello, sizeof(hello)));
    if (strcmp(hello, "*0\r\n") != 0)
        fail_msg("modules: %s", hello);
    static const struct exchange rows[] = {
        {"BF.RESERVE three 0.001 700 NONSCALING", "+OK"},
        {"BF.ADD three a", "#t"},
        {"BF.ADD three a", "#f"},
        {"BF.EXISTS three a", "#t"},
        {"BF.EXISTS three b", "#f"},
        {"BF.MADD three a c", "*2\r\n#f\r\n#t"},
        {"BF.MEXISTS three a d", "*2\r\n#t\r\n#f"},
        {"BF.INSERT three ITEMS a e", "*2\r\n#f\r\n#t"},
        {"BF.CARD three", ":3"},
        {"BF.INFO three CAPACITY", "%1\r\n+Capacity\r\n:700"},
        {"BF.INFO three EXPANSION", "%1\r\n+Expansion rate\r\n_"},
        {"CLIENT GETNAME", "_"},
        {"BF.INFO nothere", "-ERR not found"},
    };
    run_exchanges(fd, rows, sizeof(rows) / sizeof(rows[0]));
    assert_true(raw_puts(fd, "BF.INFO three\r\n"));
    assert_true(raw_expect(fd, "%5\r\n+Capacity\r\n:700\r\n+Size\r\n:"));
    raw_close(fd);
}

static void test_password__is_asked_for(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.ADD secret a", "-NOAUTH Authentication required."},
        {"PING", "-NOAUTH Authentication required."},
        {"AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled."},
        {"HELLO 3 AUTH default wrong", "-WRONGPASS invalid username-password pair or user is disabled."},
        {"BF.EXISTS secret a", "-NOAUTH Authentication required."},
        {"AUTH s3cret", "+OK"},
        {"BF.ADD secret a", ":1"},
        {"PING", "+PONG"},
        {"RESET", "+RESET"},
        {"PING", "-NOAUTH Authentication required."},
    };
    int fd = raw_open(guarded.port);
    assert_true(fd >= 0);
    run_exchanges(fd, rows, sizeof(rows) / sizeof(rows[0]));
    raw_close(fd);
}

static void test_quit__answers_then_closes(void **state)
{
    (void)state;
    int fd = open_raw();
    assert_true(raw_puts(fd, "PING\r\nQUIT\r\nBF.ADD after-quit a\r\n"));
    assert_true(raw_expect(fd, "+PONG\r\n+OK\r\n"));
    assert_true(raw_expect_close(fd));
    raw_close(fd);
    struct error e = {""};
    int64_t n = -1;
    must(client_integer(&fixture.client[0], &n, &e, "BF.EXISTS after-quit a"), e);
    assert_int_equal(n, 0);
}

static void is_answered_and_closed(const char *request, const char *reply)
{
    int fd = open_raw();
    assert_true(raw_puts(fd, request));
    if (!raw_expect(fd, reply))
        fail_msg("wrong reply to: %.60s", request);
    if (!raw_expect_close(fd))
        fail_msg("left open after: %.60s", request);
    raw_close(fd);
}

static void test_protocol_errors__are_answered_then_the_connection_closes(void **state)
{
    (void)state;
    enum { TOO_LONG = 64 * 1024 + 16 };
    is_answered_and_closed("*abc\r\n", "-ERR Protocol error: invalid multibulk length\r\n");
    is_answered_and_closed("*1\r\n:5\r\n", "-ERR Protocol error: expected '$', got ':'\r\n");
    is_answered_and_closed("*1\r\n$abc\r\n", "-ERR Protocol error: invalid bulk length\r\n");
    is_answered_and_closed("*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n");
    is_answered_and_closed("PING \"abc\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n");
    is_answered_and_closed("PING\r\n*1\r\n:5\r\n", "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n");
    char *line = malloc(TOO_LONG + 1);
    assert_non_null(line);
    memset(line, 'x', TOO_LONG);
    line[TOO_LONG] = '\0';
    is_answered_and_closed(line, "-ERR Protocol error: too big inline request\r\n");
    free(line);
}

static void test_requests__may_be_empty_or_come_byte_by_byte(void **state)
{
    (void)state;
    int fd = open_raw();
    assert_true(raw_puts(fd, "*0\r\n*-1\r\n\r\nPING\r\n"));
    assert_true(raw_expect(fd, "+PONG\r\n"));
    static const char add[] = "*3\r\n$6\r\nBF.ADD\r\n$5\r\nbytes\r\n$4\r\na\r\nb\r\nECHO x\r\n";
    for (size_t i = 0; i < sizeof(add) - 1; i++)
        assert_true(raw_send(fd, add + i, 1));
    assert_true(raw_expect(fd, ":1\r\n$1\r\nx\r\n"));
    raw_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf_reserve__validates_in_the_order_of_the_contract),
        cmocka_unit_test(test_bf_reserve__refuses_an_absurd_capacity_and_lives_on),
        cmocka_unit_test(test_bf_add__creates_counts_and_remembers),
        cmocka_unit_test(test_bf_add__to_a_full_filter_that_does_not_scale_is_an_error),
        cmocka_unit_test(test_bf_insert__reads_its_options),
        cmocka_unit_test(test_bf_info__knows_its_fields),
        cmocka_unit_test(test_filters__grow_past_their_capacity_and_keep_their_rate),
        cmocka_unit_test(test_keys__may_be_empty_binary_or_a_megabyte),
        cmocka_unit_test(test_pipeline__answers_ten_thousand_commands_in_order),
        cmocka_unit_test(test_handshakes__are_answered),
        cmocka_unit_test(test_resp3__has_booleans_and_maps),
        cmocka_unit_test(test_password__is_asked_for),
        cmocka_unit_test(test_quit__answers_then_closes),
        cmocka_unit_test(test_protocol_errors__are_answered_then_the_connection_closes),
        cmocka_unit_test(test_requests__may_be_empty_or_come_byte_by_byte),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
