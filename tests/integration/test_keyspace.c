/* SPDX-License-Identifier: MIT */
/* Filters as keys of Redis: what is on the wire, and deleting them under two coordinators. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "shard/geometry.h"
#include "tests/lib/raw.h"

enum { REPLY_MS = 20000, SETTLE_MS = 20000, KEYS = 3000 };

static struct fixture fixture;
static struct client redis[2]; /* the nodes themselves */

/* A short lease, as one that dies holds up who comes next; small shards, so that there are many. The filter
 * `fixed` is configured. */
static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = 2}) != 0)
        return -1;
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .service = "check_interval = 3s\ntimeout = 5s\n",
                                     .redis = "shard_bytes = 1KiB\ntimeout = 2s\n",
                                     .expansion = "lease = 3s\n",
                                     .filters = "[filter fixed]\ncapacity = 1000\nerror_rate = 0.01\n"};
    for (unsigned i = 0; i < 2; i++) {
        must(daemon_start(&fixture.daemon[i], &o, &e), e);
        must(client_open(&fixture.client[i], fixture.daemon[i].port, REPLY_MS, &e), e);
        must(client_open(&redis[i], fixture.redis[i].port, REPLY_MS, &e), e);
    }
    must(client_wait_status(&fixture.client[1], "fixed", "built", "1", SETTLE_MS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        client_close(&redis[i]);
    return fixture_stop(&fixture);
}

/* A request as an inline line, and the reply without the CRLF at its end. */
struct exchange {
    const char *request;
    const char *reply;
};

static void run_exchanges(const struct exchange *rows, size_t count)
{
    int fd = raw_open(fixture.daemon[0].port);
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

static int64_t integer(struct client *c, const char *command)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_integer(c, &n, &e, command), e);
    return n;
}

/* The error that a command gives, in static storage. */
static const char *refusal(struct client *c, const char *command)
{
    static char text[512];
    redisReply *reply = client_command(c, command);
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ERROR)
        fail_msg("%s: no error", command);
    (void)snprintf(text, sizeof(text), "%s", reply->str);
    freeReplyObject(reply);
    return text;
}

static void ask_redis(const char *command)
{
    redisReply *reply = client_command(&redis[0], command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    freeReplyObject(reply);
}

/* Until @command, an integer, gives @wanted. */
static void wait_integer(struct client *c, const char *command, int64_t wanted)
{
    uint64_t until = clock_mono_us() + SETTLE_MS * 1000ull;
    int64_t n;
    while ((n = integer(c, command)) != wanted) {
        if (clock_mono_us() > until)
            fail_msg("%s gives %" PRId64 ", not %" PRId64, command, n, wanted);
        clock_sleep_us(10 * 1000);
    }
}

static void add(unsigned d, const char *filter, uint64_t first, uint64_t count)
{
    struct error e = {""};
    must(client_madd(&fixture.client[d], filter, fixture_code, first, count, &e), e);
}

static uint64_t present(unsigned d, const char *filter, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&fixture.client[d], filter, fixture_code, first, count, &n, NULL, &e), e);
    return n;
}

static void count_lasting(const char *name, void *arg)
{
    struct client *c = arg;
    int64_t ttl = 0;
    struct error e = {""};
    must(client_integer(c, &ttl, &e, "PTTL %s", name), e);
    if (ttl == -1)
        fail_msg("%s stays for ever", name);
}

static void nothing_is_left_of(const char *filter)
{
    struct error e = {""};
    char pattern[64];
    static const char *const tails[] = {"}:*", ".*}:*"};
    for (unsigned node = 0; node < 2; node++)
        for (unsigned i = 0; i < 2; i++) {
            (void)snprintf(pattern, sizeof(pattern), "twinbloom:{%s%s", filter, tails[i]);
            must(client_scan(&redis[node], pattern, count_lasting, &redis[node], &e), e);
        }
}

/* --- deleting --- */

static void test_del__deletes_for_both_coordinators_and_lets_the_name_begin_anew(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE gone 0.001 10000");
    add(0, "gone", 0, KEYS);
    assert_int_equal(present(1, "gone", 0, KEYS), KEYS);
    assert_int_equal(integer(&fixture.client[0], "EXISTS gone gone nosuch"), 2);
    assert_int_equal(integer(&fixture.client[0], "DEL gone gone nosuch"), 1);
    for (unsigned d = 0; d < 2; d++) {
        assert_int_equal(present(d, "gone", 0, KEYS), 0);
        assert_int_equal(integer(&fixture.client[d], "EXISTS gone"), 0);
        assert_string_equal(refusal(&fixture.client[d], "BF.INFO gone"), "ERR not found");
        assert_int_equal(integer(&fixture.client[d], "BF.CARD gone"), 0);
    }
    clock_sleep_us(1500 * 1000); /* counts of single shards come a second late */
    nothing_is_left_of("gone");
    assert_int_equal(integer(&redis[0], "SISMEMBER twinbloom:filters gone"), 0);
    assert_int_equal(integer(&fixture.client[1], "BF.ADD gone a"), 1);
    assert_int_equal(integer(&fixture.client[0], "BF.EXISTS gone a"), 1);
    /* The other coordinator's count comes to Redis a moment later. */
    for (unsigned i = 0; i < 600 && integer(&fixture.client[0], "BF.CARD gone") != 1; i++)
        clock_sleep_us(50 * 1000);
    assert_int_equal(integer(&fixture.client[0], "BF.CARD gone"), 1);
    /* Counts of the one before may come yet: they are of another generation. */
    assert_int_equal(integer(&redis[0], "HINCRBY twinbloom:{gone}:view last_generation 0"), 2);
    assert_int_equal(integer(&redis[0], "TTL twinbloom:{gone}:token"), -1);
    assert_int_equal(integer(&redis[0], "TTL twinbloom:{gone}:view"), -1);
    assert_int_equal(integer(&fixture.client[0], "UNLINK gone"), 1);
}

/* Nobody tells it: the fence alone. */
static void test_del__fences_a_coordinator_that_was_stopped_through_it_all(void **state)
{
    (void)state;
    struct error e = {""};
    fixture_ask(&fixture, 0, "BF.RESERVE stopped 0.001 10000");
    add(1, "stopped", 0, KEYS);
    daemon_pause(&fixture.daemon[1]);
    assert_int_equal(integer(&fixture.client[0], "DEL stopped"), 1);
    fixture_ask(&fixture, 0, "BF.RESERVE stopped 0.001 10000");
    add(0, "stopped", KEYS, KEYS);
    /* Waits in its socket while it sleeps: the first thing that it does with its old view. */
    redisReply *reply;
    assert_int_equal(redisAppendCommand(fixture.client[1].redis, "BF.EXISTS stopped c%d", KEYS), REDIS_OK);
    assert_int_equal(redisAppendCommand(fixture.client[1].redis, "BF.ADD stopped late"), REDIS_OK);
    int done = 0;
    while (!done)
        assert_int_equal(redisBufferWrite(fixture.client[1].redis, &done), REDIS_OK);
    daemon_resume(&fixture.daemon[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(redisGetReply(fixture.client[1].redis, (void **)&reply), REDIS_OK);
        assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
        assert_int_equal(reply->integer, 1);
        freeReplyObject(reply);
    }
    assert_int_equal(integer(&fixture.client[0], "BF.EXISTS stopped late"), 1);
    assert_int_equal(present(1, "stopped", KEYS, KEYS), KEYS);
    assert_true(present(1, "stopped", 0, KEYS) < KEYS / 20);

    daemon_pause(&fixture.daemon[1]); /* and once more, to find nothing */
    assert_int_equal(integer(&fixture.client[0], "DEL stopped"), 1);
    daemon_resume(&fixture.daemon[1]);
    assert_int_equal(present(1, "stopped", KEYS, KEYS), 0);
    must(client_ok(&fixture.client[1], &e, "BF.RESERVE stopped 0.01 10"), e);
    assert_int_equal(integer(&fixture.client[1], "DEL stopped"), 1);
}

/* One connection that adds without pause, and remembers when each key was begun. */
struct adder {
    struct client client;
    atomic_bool stop;
    unsigned first;
    unsigned count;
    uint64_t begun[200000];
};

static void *run_adder(void *arg)
{
    struct adder *a = arg;
    while (!atomic_load(&a->stop) && a->count < sizeof(a->begun) / sizeof(a->begun[0])) {
        int64_t n;
        struct error e;
        a->begun[a->count] = clock_mono_us();
        if (client_integer(&a->client, &n, &e, "BF.ADD busy c%u", a->first + a->count) != ERR_OK) {
            print_error("%s\n", e.text);
            a->begun[a->count] = 0; /* not acknowledged */
        }
        a->count++;
    }
    return NULL;
}

static void test_del__loses_no_key_whose_add_began_after_its_reply(void **state)
{
    (void)state;
    static struct adder adders[2];
    pthread_t threads[2];
    struct error e = {""};
    unsigned deletions = 0;
    uint64_t replied = 0, until = clock_mono_us() + 3000 * 1000;
    for (unsigned i = 0; i < 2; i++) {
        adders[i].first = i * 1000000;
        must(client_open(&adders[i].client, fixture.daemon[i].port, REPLY_MS, &e), e);
        assert_int_equal(pthread_create(&threads[i], NULL, run_adder, &adders[i]), 0);
    }
    while (clock_mono_us() < until) {
        clock_sleep_us(20 * 1000);
        deletions += integer(&fixture.client[deletions % 2], "DEL busy") == 1;
        replied = clock_mono_us();
    }
    clock_sleep_us(300 * 1000);
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&adders[i].stop, true);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        client_close(&adders[i].client);
    }
    assert_true(deletions > 5);
    for (unsigned i = 0; i < 2; i++) {
        unsigned after = 0;
        for (unsigned k = 0; k < adders[i].count; k++)
            if (adders[i].begun[k] > replied) {
                after++;
                for (unsigned d = 0; d < 2; d++)
                    if (present(d, "busy", adders[i].first + k, 1) != 1)
                        fail_msg("coordinator %u reports key %u of adder %u absent", d, k, i);
            }
        assert_true(after > 10);
    }
    assert_int_equal(integer(&fixture.client[0], "DEL busy"), 1);
}

/* What a coordinator has left that died behind the first step: it is the script's own field. */
static void test_del__is_completed_by_a_keeper_where_its_driver_died(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE half 0.001 10000");
    add(0, "half", 0, KEYS);
    ask_redis("HSET twinbloom:{half}:view dropped begun");
    wait_integer(&redis[0], "HEXISTS twinbloom:{half}:view epoch", 0);
    wait_integer(&redis[0], "SISMEMBER twinbloom:filters half", 0);
    assert_int_equal(present(0, "half", 0, KEYS) + present(1, "half", 0, KEYS), 0);
    nothing_is_left_of("half");
}

static void wake_keepers(void)
{
    redisReply *reply = client_command(&redis[0], "PUBLISH twinbloom:events %s", "released next");
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
}

static void test_del__is_completed_by_who_makes_the_name_anew(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 30; i++) { /* keepers come before, after and in the middle of it */
        fixture_ask(&fixture, 0, "BF.RESERVE next 0.001 10000");
        add(1, "next", 0, 500);
        ask_redis("HSET twinbloom:{next}:view dropped begun");
        wake_keepers();
        clock_sleep_us(i * 1000);
        fixture_ask(&fixture, 0, "BF.RESERVE next 0.01 10000");
        assert_true(present(1, "next", 0, 500) < 50);
        add(1, "next", 0, 500);
        assert_int_equal(present(0, "next", 0, 500), 500);
        assert_int_equal(integer(&fixture.client[1], "DEL next"), 1);
    }
}

static void test_del__takes_all_layers(void **state)
{
    (void)state;
    struct error e = {""};
    char layers[16];
    fixture_ask(&fixture, 0, "BF.RESERVE layered 0.01 100 EXPANSION 2");
    add(0, "layered", 0, 2000);
    must(client_status(&fixture.client[0], "layered", "layers", layers, sizeof(layers), &e), e);
    assert_true(strcmp(layers, "4") >= 0);
    assert_int_equal(integer(&fixture.client[1], "DEL layered"), 1);
    assert_int_equal(present(0, "layered", 0, 2000), 0);
    clock_sleep_us(1500 * 1000);
    nothing_is_left_of("layered");
}

static void test_del__completes_a_fence_first(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE open 0.001 1000");
    add(0, "open", 0, 100);
    ask_redis("HSET twinbloom:{open}:view fenced_epoch 0");
    assert_int_equal(integer(&fixture.client[1], "DEL open"), 1);
    assert_int_equal(present(0, "open", 0, 100), 0);
    nothing_is_left_of("open");
}

static void test_del__refuses_while_somebody_holds_the_mutex(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE held 0.001 1000");
    add(0, "held", 0, 100);
    ask_redis("SET twinbloom:{held}:expansion_flag somebody:99 PX 60000");
    const char *text = refusal(&fixture.client[0], "DEL held");
    if (strstr(text, "ERR filter 'held' is busy: ") != text || strstr(text, "somebody:99") == NULL ||
        strstr(text, "abort its job first") == NULL)
        fail_msg("%s", text);
    assert_int_equal(present(1, "held", 0, 100), 100);
    assert_int_equal(integer(&redis[0], "HEXISTS twinbloom:{held}:view dropped"), 0);
    ask_redis("DEL twinbloom:{held}:expansion_flag");
    assert_int_equal(integer(&fixture.client[0], "DEL held"), 1);
}

static void test_del__refuses_configured_filters_before_it_touches_any(void **state)
{
    (void)state;
    static const char text[] = "ERR filter 'fixed' is configured: remove its section first";
    fixture_ask(&fixture, 0, "BF.RESERVE beside 0.01 100");
    assert_string_equal(refusal(&fixture.client[0], "DEL beside fixed"), text);
    assert_int_equal(integer(&fixture.client[0], "EXISTS beside fixed"), 2);
    assert_string_equal(refusal(&fixture.client[0], "EXPIRE fixed 100"), text);
    assert_string_equal(refusal(&fixture.client[0], "PEXPIRE fixed 0"), text);
    assert_int_equal(integer(&fixture.client[0], "TTL fixed"), -1);
    assert_int_equal(integer(&fixture.client[0], "DEL beside"), 1);
}

static void test_del__is_no_loss_when_its_marker_has_expired(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE marked 0.01 100");
    add(0, "marked", 0, 10);
    add(1, "marked", 0, 10);
    assert_int_equal(integer(&fixture.client[0], "DEL marked"), 1);
    /* Coordinator 1 hears of it, or looks; no request of it names the filter. */
    clock_sleep_us(2000 * 1000);
    assert_int_equal(integer(&redis[0], "DEL twinbloom:{marked}:view"), 1);
    for (unsigned d = 0; d < 2; d++)
        assert_int_equal(present(d, "marked", 0, 10), 0);
    assert_int_equal(integer(&fixture.client[1], "BF.ADD marked x"), 1);
    assert_int_equal(integer(&fixture.client[1], "DEL marked"), 1);
}

static void test_keeper__puts_back_a_name_that_was_taken_away_late(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE late 0.01 100");
    assert_int_equal(integer(&fixture.client[0], "BF.ADD late a"), 1);
    ask_redis("SREM twinbloom:filters late");
    wait_integer(&redis[0], "SISMEMBER twinbloom:filters late", 1);
    assert_int_equal(integer(&fixture.client[0], "DEL late"), 1);
}

/* --- expiry --- */

static void test_expire__deletes_at_its_time_everywhere(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE due 0.001 10000");
    add(0, "due", 0, 100);
    add(1, "due", 0, 100);
    assert_int_equal(integer(&fixture.client[0], "PTTL due"), -1);
    uint64_t began = clock_mono_us();
    assert_int_equal(integer(&fixture.client[0], "PEXPIRE due 700"), 1);
    assert_int_equal(present(1, "due", 0, 100), 100);
    int64_t left = integer(&fixture.client[1], "PTTL due");
    assert_true(left > 0 && left <= 700);
    wait_integer(&fixture.client[1], "EXISTS due", 0);
    uint64_t took = (clock_mono_us() - began) / 1000;
    if (took < 690 || took > 700 + 1500)
        fail_msg("deleted after %" PRIu64 " ms", took);
    for (unsigned d = 0; d < 2; d++)
        assert_int_equal(present(d, "due", 0, 100), 0);
    assert_int_equal(integer(&fixture.client[0], "PTTL due"), -2);
    assert_int_equal(integer(&fixture.client[0], "BF.ADD due a"), 1);
    assert_int_equal(integer(&fixture.client[0], "PTTL due"), -1);
    assert_int_equal(integer(&fixture.client[0], "DEL due"), 1);
}

static void test_expire__is_taken_away_in_time(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE kept 0.01 100");
    assert_int_equal(integer(&fixture.client[0], "PEXPIRE kept 600"), 1);
    assert_int_equal(integer(&fixture.client[1], "PERSIST kept"), 1);
    clock_sleep_us(1500 * 1000);
    assert_int_equal(integer(&fixture.client[1], "EXISTS kept"), 1);
    assert_int_equal(integer(&fixture.client[1], "PERSIST kept"), 0);
    assert_int_equal(integer(&fixture.client[1], "DEL kept"), 1);
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
    ask_redis("SADD twinbloom:filters a-name-without-a-view");
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
    assert_true(integer(&fixture.client[0], "MEMORY USAGE fixed") > 1000);
    ask_redis("SREM twinbloom:filters a-name-without-a-view");
}

static void test_scan__comes_past_every_name_once_it_is_through(void **state)
{
    (void)state;
    enum { NAMES = 200 }; /* a small set comes at once */
    struct error e = {""};
    bool seen[NAMES] = {false};
    for (int i = 0; i < NAMES; i++)
        must(client_ok(&fixture.client[i % 2], &e, "BF.RESERVE many%d 0.01 10", i), e);
    char cursor[32] = "0";
    unsigned calls = 0;
    do {
        redisReply *reply = client_command(&fixture.client[0], "SCAN %s MATCH many* COUNT 7", cursor);
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
        must(client_integer(&fixture.client[0], &n, &e, "DEL many%d", i), e);
        assert_int_equal(n, 1);
    }
    assert_int_equal(integer(&fixture.client[1], "DBSIZE"), 1);
}

static void test_wrong_type__is_said_as_redis_says_it(void **state)
{
    (void)state;
    ask_redis("SET twinbloom:{other}:view value");
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
    ask_redis("DEL twinbloom:{other}:view");
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
        {"TB.MADD full a x b", "-ERR non scaling filter is full; 2 of 3 items were done"},
        {"TB.MADD full a b c", ":0"},
        {"TB.MADD made-by-adding a", ":1"},
        {"DEL r full made-by-adding", ":3"},
    };
    RUN(rows);
}

static void test_tb_count__estimates_over_all_layers(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE counted 0.001 1000");
    add(0, "counted", 0, 10000);
    int64_t n = integer(&fixture.client[1], "TB.COUNT counted");
    if (n < 9800 || n > 10200)
        fail_msg("%" PRId64 " of 10000", n);
    assert_int_equal(integer(&fixture.client[0], "DEL counted"), 1);
}

static void test_bf_debug__prints_size_and_layers(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE debugged 0.02 100");
    add(0, "debugged", 0, 90);
    redisReply *r = client_command(&fixture.client[0], "BF.DEBUG debugged");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 2);
    char line[256];
    int64_t items = integer(&fixture.client[0], "BF.CARD debugged");
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
    assert_string_equal(refusal(&fixture.client[0], "BF.DEBUG nosuch"), "ERR not found");
    assert_int_equal(integer(&fixture.client[0], "DEL debugged"), 1);
}

/* --- the command line --- */

/* What it prints, and the exit code. Main thread only. */
static const char *twinbloom(const char *arguments, int *code)
{
    static char text[1024];
    char line[512];
    (void)snprintf(line, sizeof(line), "%s -p %u %s 2>&1 < /dev/null", TWINBLOOM_CLI, fixture.daemon[1].port,
                   arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(text, 1, sizeof(text) - 1, pipe);
    text[n] = '\0';
    int status = pclose(pipe);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
}

static void test_cli__counts_and_drops(void **state)
{
    (void)state;
    int code;
    fixture_ask(&fixture, 0, "BF.RESERVE cli 0.001 1000");
    assert_int_equal(integer(&fixture.client[0], "TB.MADD cli a b c"), 3);
    assert_string_equal(twinbloom("count cli", &code), "3\n");
    assert_int_equal(code, 0);
    assert_string_equal(twinbloom("count cli --json", &code), "{\"filter\":\"cli\",\"count\":3}\n");
    (void)twinbloom("drop cli", &code); /* nobody is there to be asked */
    assert_int_equal(code, 2);
    assert_int_equal(integer(&fixture.client[0], "EXISTS cli"), 1);
    assert_string_equal(twinbloom("drop --yes cli", &code), "The filter cli is deleted.\n");
    assert_int_equal(code, 0);
    assert_int_equal(integer(&fixture.client[0], "EXISTS cli"), 0);
    (void)twinbloom("drop --yes cli", &code);
    assert_int_equal(code, 1);
    assert_non_null(strstr(twinbloom("drop --yes fixed", &code), "is configured"));
    assert_int_equal(code, 3);
    assert_non_null(strstr(twinbloom("count nosuch", &code), "not found"));
    assert_int_equal(code, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names__are_those_of_filters_that_exist),
        cmocka_unit_test(test_scan__comes_past_every_name_once_it_is_through),
        cmocka_unit_test(test_del__deletes_for_both_coordinators_and_lets_the_name_begin_anew),
        cmocka_unit_test(test_del__fences_a_coordinator_that_was_stopped_through_it_all),
        cmocka_unit_test(test_del__loses_no_key_whose_add_began_after_its_reply),
        cmocka_unit_test(test_del__is_completed_by_a_keeper_where_its_driver_died),
        cmocka_unit_test(test_del__is_completed_by_who_makes_the_name_anew),
        cmocka_unit_test(test_del__takes_all_layers),
        cmocka_unit_test(test_del__completes_a_fence_first),
        cmocka_unit_test(test_del__refuses_while_somebody_holds_the_mutex),
        cmocka_unit_test(test_del__refuses_configured_filters_before_it_touches_any),
        cmocka_unit_test(test_del__is_no_loss_when_its_marker_has_expired),
        cmocka_unit_test(test_keeper__puts_back_a_name_that_was_taken_away_late),
        cmocka_unit_test(test_expire__deletes_at_its_time_everywhere),
        cmocka_unit_test(test_expire__is_taken_away_in_time),
        cmocka_unit_test(test_expire__keeps_to_what_redis_does),
        cmocka_unit_test(test_wrong_type__is_said_as_redis_says_it),
        cmocka_unit_test(test_tb__counts_and_makes_only_what_is_not_there),
        cmocka_unit_test(test_tb_count__estimates_over_all_layers),
        cmocka_unit_test(test_bf_debug__prints_size_and_layers),
        cmocka_unit_test(test_cli__counts_and_drops),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
