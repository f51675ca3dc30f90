/* SPDX-License-Identifier: MIT */
/* Filters as keys of Redis: requests and replies. */
#include "tests/integration/keyspace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/filter/geometry.h"
#include "tests/lib/raw.h"

/* A request as an inline command, and the reply without its last CRLF. */
struct exchange {
    const char *request;
    const char *reply;
};

static void run_exchanges(const struct exchange *rows, size_t count)
{
    int fd = raw_open(keyspace.fixture.daemon[0].port);
    assert_true(fd >= 0);
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text), "%s\r\n", rows[i].request);
        assert_true(raw_puts(fd, text));
        (void)snprintf(text, sizeof(text), "%s\r\n", rows[i].reply);
        if (!raw_expect(fd, text))
            fail_msg("wrong reply to: %s", rows[i].request);
    }
    raw_close(fd);
}

#define RUN(rows) run_exchanges(rows, sizeof(rows) / sizeof((rows)[0]))

/* --- expiry --- */

/* A coordinator with a log in memory learns of its deletion. */
static void is_forgotten(unsigned d, const char *name)
{
    uint64_t until = clock_mono_us() + UINT64_C(5000000);
    while (keyspace_present(d, name, 0, 100) > 0 && clock_mono_us() < until)
        clock_sleep_us(20000);
    assert_int_equal(keyspace_present(d, name, 0, 100), 0);
}

/* A coordinator that had the log repeats once a second that it exists: until then a new filter of that name
 * is refused as lost. */
static int64_t is_made_again(const char *name)
{
    uint64_t until = clock_mono_us() + UINT64_C(5000000);
    struct error e = {""};
    int64_t added = 0;
    enum err code = client_integer(&keyspace.fixture.client[0], &added, &e, "BF.ADD %s a", name);
    while (strstr(e.text, "LOST ") != NULL && clock_mono_us() < until) {
        e = (struct error){""};
        clock_sleep_us(20000);
        code = client_integer(&keyspace.fixture.client[0], &added, &e, "BF.ADD %s a", name);
    }
    must(code, e);
    return added;
}

static void test_expire__deletes_at_its_time_everywhere(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE due 0.001 10000");
    keyspace_add(0, "due", 0, 100);
    keyspace_add(1, "due", 0, 100);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "PTTL due"), -1);
    uint64_t began = clock_mono_us();
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "PEXPIRE due 700"), 1);
    assert_int_equal(keyspace_present(1, "due", 0, 100), 100);
    int64_t left = keyspace_integer(&keyspace.fixture.client[1], "PTTL due");
    assert_true(left > 0 && left <= 700);
    keyspace_wait_integer(&keyspace.fixture.client[1], "EXISTS due", 0);
    uint64_t took = (clock_mono_us() - began) / 1000;
    if (took < 690 || took > 700 + 1500)
        fail_msg("deleted after %" PRIu64 " ms", took);
    for (unsigned d = 0; d < 2; d++)
        is_forgotten(d, "due");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "PTTL due"), -2);
    assert_int_equal(is_made_again("due"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "PTTL due"), -1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL due"), 1);
}

static void test_expire__is_taken_away_in_time(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE kept 0.01 100");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "PEXPIRE kept 600"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "PERSIST kept"), 1);
    clock_sleep_us(1500 * 1000);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "EXISTS kept"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "PERSIST kept"), 0);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "DEL kept"), 1);
}

static void test_expire__keeps_to_what_redis_does(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"EXPIRE nosuch 10", ":0"},
        {"TTL nosuch", ":-2"},
        {"PERSIST nosuch", ":0"},
        {"EXPIRETIME nosuch", ":-2"},
        {"BF.RESERVE e 0.01 100", "+OK"},
        {"TTL e", ":-1"},
        {"EXPIRETIME e", ":-1"},
        {"PERSIST e", ":0"},
        {"EXPIRE e 100 XX", ":0"},
        {"EXPIRE e 100 GT", ":0"},
        {"EXPIRE e 100 NX", ":1"},
        {"TTL e", ":100"},
        {"EXPIRE e 200 NX", ":0"},
        {"EXPIRE e 50 GT", ":0"},
        {"expire e 200 xx gt", ":1"},
        {"TTL e", ":200"},
        {"EXPIREAT e 33177117420", ":1"},
        {"EXPIRETIME e", ":33177117420"},
        {"PEXPIRETIME e", ":33177117420000"},
        {"PEXPIREAT e 33177117420001", ":1"},
        {"PEXPIRETIME e", ":33177117420001"},
        {"PERSIST e", ":1"},
        {"TTL e", ":-1"},
        {"EXPIRE e x", "-ERR value is not an integer or out of range"},
        {"EXPIRE e 10 FOO", "-ERR Unsupported option FOO"},
        {"EXPIRE e 10 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"},
        {"EXPIRE e 10 GT LT", "-ERR GT and LT options at the same time are not compatible"},
        {"EXPIRE e 9223372036854775807", "-ERR invalid expire time in 'expire' command"},
        {"PEXPIRE e 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"},
        {"EXPIRE e", "-ERR wrong number of arguments for 'expire' command"},
        {"EXPIRE e -1 XX", ":0"},
        {"EXISTS e", ":1"},
        {"EXPIRE e -1", ":1"},
        {"EXISTS e", ":0"},
        {"BF.RESERVE e 0.01 100", "+OK"},
        {"PEXPIREAT e 1", ":1"},
        {"EXISTS e", ":0"},
    };
    RUN(rows);
}

/* --- names --- */

static void test_names__are_those_of_filters_that_exist(void **state)
{
    (void)state;
    keyspace_ask_redis("SADD twinbloom:filters a-name-without-a-view");
    static const struct exchange rows[] = {
        {"DBSIZE", ":1"},
        {"RANDOMKEY", "$5\r\nfixed"},
        {"KEYS *", "*1\r\n$5\r\nfixed"},
        {"BF.RESERVE n1 0.01 100", "+OK"},
        {"DBSIZE", ":2"},
        {"KEYS n*", "*1\r\n$2\r\nn1"},
        {"KEYS N*", "*0"},
        {"KEYS a*", "*0"},
        {"EXISTS a-name-without-a-view", ":0"},
        {"TYPE n1", "+MBbloom--"},
        {"TYPE a-name-without-a-view", "+none"},
        {"SCAN 0 MATCH n*", "*2\r\n$1\r\n0\r\n*1\r\n$2\r\nn1"},
        {"SCAN 0 MATCH n* TYPE string", "*2\r\n$1\r\n0\r\n*0"},
        {"SCAN 0 COUNT 100 MATCH n* TYPE MBbloom--", "*2\r\n$1\r\n0\r\n*1\r\n$2\r\nn1"},
        {"KEYS [m-o]1", "*1\r\n$2\r\nn1"},
        {"KEYS \\n?", "*1\r\n$2\r\nn1"},
        {"KEYS [^n]1", "*0"},
        {"SCAN x", "-ERR invalid cursor"},
        {"SCAN 0 COUNT 0", "-ERR syntax error"},
        {"SCAN 0 COUNT x", "-ERR value is not an integer or out of range"},
        {"SCAN 0 MATCH", "-ERR syntax error"},
        {"SCAN 0 FOO bar", "-ERR syntax error"},
        {"MEMORY USAGE nosuch", "$-1"},
        {"MEMORY USAGE n1 SAMPLES", "-ERR syntax error"},
        {"MEMORY DOCTOR x", "-ERR unknown subcommand 'DOCTOR'. Try MEMORY USAGE key."},
        {"DEL nosuch", ":0"},
        {"DEL", "-ERR wrong number of arguments for 'del' command"},
        {"DEL n1", ":1"},
        {"DBSIZE", ":1"},
        {"RENAME n1 n2", "-ERR unknown command 'RENAME', with args beginning with: 'n1' 'n2' "},
    };
    RUN(rows);
    assert_true(keyspace_integer(&keyspace.fixture.client[0], "MEMORY USAGE fixed") > 1000);
    keyspace_ask_redis("SREM twinbloom:filters a-name-without-a-view");
}

/* Redis has one thread for all clients, so the coordinator matches clients' patterns itself. */
static void test_names__patterns_are_matched_here_and_have_a_bound(void **state)
{
    (void)state;
    char pattern[1100];
    memset(pattern, '*', sizeof(pattern));
    struct client *c = &keyspace.fixture.client[0], redis = {0};
    struct error e = {""};
    must(client_open(&redis, keyspace.fixture.redis[0].port, 10000, &e), e);
    must(client_ok(&redis, &e, "CONFIG SET slowlog-log-slower-than 0"), e);
    must(client_ok(&redis, &e, "CONFIG SET slowlog-max-len 100"), e);
    for (size_t length = 1024; length <= 1025; length++) {
        const char *const keys[] = {"KEYS", pattern}, *const scan[] = {"SCAN", "0", "MATCH", pattern};
        for (int i = 0; i < 2; i++) {
            const size_t lengths[] = {4, i == 0 ? length : 1, 5, length};
            redisReply *r = client_argv(c, i == 0 ? 2 : 4, i == 0 ? keys : scan, lengths);
            assert_non_null(r);
            assert_int_equal(r->type, length == 1024 ? REDIS_REPLY_ARRAY : REDIS_REPLY_ERROR);
            if (r->type == REDIS_REPLY_ERROR)
                assert_string_equal(r->str, "RANGE the pattern is too long: at most 1024 bytes are allowed");
            freeReplyObject(r);
        }
    }
    redisReply *log = client_command(&redis, "SLOWLOG GET 100");
    assert_true(log != NULL && log->elements > 0);
    for (size_t i = 0; i < log->elements; i++)
        for (size_t j = 0; j < log->element[i]->element[3]->elements; j++)
            assert_null(strstr(log->element[i]->element[3]->element[j]->str, "***"));
    freeReplyObject(log);
    must(client_ok(&redis, &e, "CONFIG SET slowlog-log-slower-than 10000"), e);
    client_close(&redis);
}

static void test_scan__comes_past_every_name_once_it_is_through(void **state)
{
    (void)state;
    enum { NAMES = 200 }; /* Redis returns a small set in one reply */
    struct error e = {""};
    bool seen[NAMES] = {false};
    for (int i = 0; i < NAMES; i++)
        must(client_ok(&keyspace.fixture.client[i % 2], &e, "BF.RESERVE many%d 0.01 10", i), e);
    char cursor[32] = "0";
    unsigned calls = 0;
    do {
        redisReply *reply =
            client_command(&keyspace.fixture.client[0], "SCAN %s MATCH many* COUNT 7", cursor);
        assert_non_null(reply);
        assert_int_equal(reply->elements, 2);
        (void)snprintf(cursor, sizeof(cursor), "%s", reply->element[0]->str);
        for (size_t i = 0; i < reply->element[1]->elements; i++) {
            const char *name = reply->element[1]->element[i]->str;
            assert_memory_equal(name, "many", 4);
            long n = strtol(name + 4, NULL, 10);
            assert_in_range(n, 0, NAMES - 1);
            seen[n] = true;
        }
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0 && ++calls < 1000);
    assert_true(calls > 2);
    for (int i = 0; i < NAMES; i++) {
        assert_true(seen[i]);
        int64_t n = 0;
        must(client_integer(&keyspace.fixture.client[0], &n, &e, "DEL many%d", i), e);
        assert_int_equal(n, 1);
    }
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "DBSIZE"), 1);
}

/* A thread that tends a filter with writers meets a key that is no view: those are not its writers. */
static void test_wrong_type__has_nobody_doubted(void **state)
{
    enum { NAMES = 16 };
    char command[80];
    (void)state;
    (void)keyspace_integer(&keyspace.fixture.client[0], "BF.ADD busy a");
    (void)keyspace_integer(&keyspace.fixture.client[1], "BF.ADD busy b");
    for (unsigned i = 0; i < NAMES; i++) {
        (void)snprintf(command, sizeof(command), "SET twinbloom:{alien%u}:view value", i);
        keyspace_ask_redis(command);
        (void)snprintf(command, sizeof(command), "BF.EXISTS alien%u a", i);
        (void)keyspace_refusal(&keyspace.fixture.client[0], command);
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.ADD busy a"), 0);
        (void)snprintf(command, sizeof(command), "DEL twinbloom:{alien%u}:view", i);
        keyspace_ask_redis(command);
    }
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL busy"), 1);
}

static void test_wrong_type__is_said_as_redis_says_it(void **state)
{
    (void)state;
    keyspace_ask_redis("SET twinbloom:{other}:view value");
#define WRONG "-WRONGTYPE Operation against a key holding the wrong kind of value"
    static const struct exchange rows[] = {
        {"BF.ADD other a", WRONG},
        {"BF.MADD other a b", WRONG},
        {"BF.EXISTS other a", WRONG},
        {"BF.MEXISTS other a b", WRONG},
        {"BF.CARD other", WRONG},
        {"BF.INFO other", WRONG},
        {"BF.DEBUG other", WRONG},
        {"BF.RESERVE other 0.01 10", WRONG},
        {"BF.INSERT other ITEMS a", WRONG},
        {"TB.MADD other a", WRONG},
        {"TB.COUNT other", WRONG},
        {"TB.INIT other 0.01 10", WRONG},
        {"DEL other", WRONG},
        {"EXPIRE other 10", WRONG},
        {"EXISTS other", ":0"},
        {"TYPE other", "+none"},
    };
    RUN(rows);
    keyspace_ask_redis("DEL twinbloom:{other}:view");
}

/* --- what Redisson has --- */

static void test_tb__counts_and_makes_only_what_is_not_there(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"TB.INIT r 0.01 1000", ":1"},
        {"TB.INIT r 0.5 9", ":0"},
        {"BF.INFO r CAPACITY", "*1\r\n:1000"},
        {"TB.INIT r 2 9", "-ERR (0 < error rate range < 1) "},
        {"TB.INIT r 0.1", "-ERR wrong number of arguments for 'tb.init' command"},
        {"TB.INIT r 0.1 9 EXPANSION 2 x y", "-ERR wrong number of arguments for 'tb.init' command"},
        {"TB.MADD r a b c", ":3"},
        {"TB.MADD r a b d", ":1"},
        {"TB.MEXISTS r a b x", ":2"},
        {"TB.MEXISTS nosuch a b", ":0"},
        {"TB.COUNT nosuch", "-ERR not found"},
        {"TB.COUNT r", ":4"},
        {"TB.INIT full 0.001 3 NONSCALING", ":1"},
        {"TB.MADD full a b c", ":3"},
        {"TB.MADD full a x b", "-ERR non scaling filter is full; 2 of 3 keys were done"},
        {"TB.MADD full a b c", ":0"},
        {"TB.MADD made-by-adding a", ":1"},
        {"DEL r full made-by-adding", ":3"},
    };
    RUN(rows);
}

static void test_tb_count__estimates_over_all_layers(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE counted 0.001 1000");
    keyspace_add(0, "counted", 0, 10000);
    int64_t n = keyspace_integer(&keyspace.fixture.client[1], "TB.COUNT counted");
    if (n < 9800 || n > 10200)
        fail_msg("%" PRId64 " of 10000", n);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL counted"), 1);
}

static void test_bf_debug__prints_size_and_layers(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE debugged 0.02 100");
    keyspace_add(0, "debugged", 0, 90);
    redisReply *r = client_command(&keyspace.fixture.client[0], "BF.DEBUG debugged");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 2);
    char line[256];
    int64_t items = keyspace_integer(&keyspace.fixture.client[0], "BF.CARD debugged");
    struct geometry g;
    struct error e = {""};
    must(geometry_plan(&g, 100, 0.01, 1024, &e), e);
    assert_in_range(items, 85, 90);
    (void)snprintf(line, sizeof(line), "size:%" PRId64, items);
    assert_string_equal(r->element[0]->str, line);
    (void)snprintf(line, sizeof(line),
                   "bytes:%" PRIu64 " bits:%" PRIu64 " hashes:%" PRIu32
                   " hashwidth:64 capacity:100 size:%" PRId64 " ratio:0.01",
                   geometry_bytes(&g), geometry_bytes(&g) * 8, g.hashes, items);
    assert_string_equal(r->element[1]->str, line);
    freeReplyObject(r);
    assert_string_equal(keyspace_refusal(&keyspace.fixture.client[0], "BF.DEBUG nosuch"), "ERR not found");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL debugged"), 1);
}

/* --- the command line --- */

static const struct cli_result *twinbloom(const char *arguments)
{
    return fixture_cli(keyspace.fixture.daemon[1].port, arguments);
}

static void ends(const char *arguments, int code, const char *text)
{
    const struct cli_result *r = twinbloom(arguments);
    assert_string_equal(r->text, text);
    assert_int_equal(r->code, code);
}

static void is_refused(const char *arguments, int code, const char *part)
{
    const struct cli_result *r = twinbloom(arguments);
    if (r->code != code || strstr(r->text, part) == NULL)
        fail_msg("%s: code %d\n%s", arguments, r->code, r->text);
}

static void test_cli__counts_and_drops(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE cli 0.001 1000");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "TB.MADD cli a b c"), 3);
    ends("count cli", 0, "3\n");
    ends("count cli --json", 0, "{\"filter\":\"cli\",\"count\":3}\n");
    is_refused("delete cli", 2, ""); /* there is no terminal to ask for confirmation */
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "EXISTS cli"), 1);
    ends("delete --yes cli", 0, "The filter cli is deleted.\n");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "EXISTS cli"), 0);
    is_refused("delete --yes cli", 4, "");
    is_refused("delete --yes fixed", 4, "is configured");
    is_refused("count nosuch", 4, "does not exist");
}

struct damage {
    const char *field, *command, *said;
};

static bool says_damaged(const char *text)
{
    static const char begins[] = "key twinbloom:{hurt}:view in Redis: view is damaged: ";
    return strncmp(text, begins, sizeof(begins) - 1) == 0;
}

/* The error names the key, the field and the value, and its remedy works. */
static void is_told_and_comes_back(const struct damage *c)
{
    struct error e = {""};
    int64_t n;
    char text[1024] = "";
    redisReply *was = client_command(&keyspace.redis[0], "HGET twinbloom:{hurt}:view %s", c->field);
    assert_int_equal(was->type, REDIS_REPLY_STRING);
    keyspace_ask_redis(c->command);
    must(client_status(&keyspace.fixture.client[0], "hurt", "redis", text, sizeof(text), &e), e);
    if (!says_damaged(text) || strstr(text, c->said) == NULL || strstr(text, "or delete the key") != NULL)
        fail_msg("%s: %s", c->command, text);
    must(client_integer(&keyspace.redis[0], &n, &e, "HSET twinbloom:{hurt}:view %s %b", c->field, was->str,
                        (size_t)was->len),
         e);
    freeReplyObject(was);
    must(client_wait_status(&keyspace.fixture.client[0], "hurt", "redis", "ok", KEYSPACE_REPLY_MS, &e), e);
    for (unsigned d = 0; d < 2; d++)
        assert_int_equal(keyspace_present(d, "hurt", 0, 100), 100);
}

static void test_damaged_view__is_told_and_comes_back(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE hurt 0.001 10000");
    keyspace_add(0, "hurt", 0, 100);
    assert_int_equal(keyspace_present(1, "hurt", 0, 100), 100);
    static const struct damage rows[] = {
        {"version", "HSET twinbloom:{hurt}:view version many",
         "field version must be a whole number, 1 or more; here is \"many\". Write the field as it was"},
        {"generation1", "HSET twinbloom:{hurt}:view generation1 number=3",
         "field generation1: seed= is missing. Write the field as it was"},
        {"sourced", "HDEL twinbloom:{hurt}:view sourced",
         "field sourced is missing. Write the field as it was"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_told_and_comes_back(&rows[i]);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL hurt"), 1);
}

/* No request has named the filter before. */
static void test_damaged_view__is_told_to_who_asks_first(void **state)
{
    (void)state;
    static const char *const asked[] = {"BF.ADD broken a", "BF.EXISTS broken a"};
    keyspace_ask_redis("HSET twinbloom:{broken}:view format 3 incarnation what");
    for (unsigned i = 0; i < 4; i++) {
        uint64_t began = clock_mono_us();
        const char *text = keyspace_refusal(&keyspace.fixture.client[i / 2], asked[i % 2]);
        if (strstr(text,
                   "key twinbloom:{broken}:view in Redis: view is damaged: field incarnation must be") ==
            NULL)
            fail_msg("%s: %s", asked[i % 2], text);
        assert_true(clock_mono_us() - began < 1000 * 1000);
    }
    keyspace_ask_redis("DEL twinbloom:{broken}:view");
    /* The name is free at once. */
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "BF.ADD broken a"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL broken"), 1);
}

/* As that of a filter with many writers. */
static void test_view__of_many_fields_is_one_like_others(void **state)
{
    (void)state;
    char command[80];
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.ADD wide a"), 1);
    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(command, sizeof(command), "HSET twinbloom:{wide}:view lacks.%032x 0", i);
        keyspace_ask_redis(command);
    }
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "EXPIRE wide 1000"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL wide"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names__are_those_of_filters_that_exist),
        cmocka_unit_test(test_names__patterns_are_matched_here_and_have_a_bound),
        cmocka_unit_test(test_scan__comes_past_every_name_once_it_is_through),
        cmocka_unit_test(test_expire__deletes_at_its_time_everywhere),
        cmocka_unit_test(test_expire__is_taken_away_in_time),
        cmocka_unit_test(test_expire__keeps_to_what_redis_does),
        cmocka_unit_test(test_damaged_view__is_told_and_comes_back),
        cmocka_unit_test(test_damaged_view__is_told_to_who_asks_first),
        cmocka_unit_test(test_view__of_many_fields_is_one_like_others),
        cmocka_unit_test(test_wrong_type__has_nobody_doubted),
        cmocka_unit_test(test_wrong_type__is_said_as_redis_says_it),
        cmocka_unit_test(test_tb__counts_and_makes_only_what_is_not_there),
        cmocka_unit_test(test_tb_count__estimates_over_all_layers),
        cmocka_unit_test(test_bf_debug__prints_size_and_layers),
        cmocka_unit_test(test_cli__counts_and_drops),
    };
    return cmocka_run_group_tests(tests, keyspace_setup, keyspace_teardown);
}
