/* SPDX-License-Identifier: MIT */
/* Makes filters beside a large keyspace of others. Nodes are not scanned if they are known to have no shard
 * of an earlier incarnation; otherwise such shards are found. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/lib/proxy.h"
#include "tests/lib/raw.h"

enum {
    FOREIGN = 200000,
    REPLY_MS = 30000,
    FILTERS = 300,
    COMMANDS_MAX = 24,
    KEYS = 300,
    COUNTS = 40,
    GUARD_US = 60 * 1000 * 1000
};

/* Redis nodes, a coordinator, and another one behind a proxy that stops single threads of it. */
static struct world {
    unsigned nodes;
    struct temp_redis redis[2];
    struct client node[2];
    struct proxy *proxy;
    struct daemon daemon[2];
    struct client client[2];
} w;

/* The proxy can hold coordinator 1's requests as the user `held`. */
static int start(unsigned nodes)
{
    struct error e = {""};
    char list[2][160] = {"", ""};
    static const char *const user[2] = {"", "held:pw@"};
    w = (struct world){.nodes = nodes};
    must(proxy_start(&w.proxy, &e), e);
    proxy_count_as_job(w.proxy, "twinbloom-making");
    for (unsigned i = 0; i < nodes; i++) {
        unsigned route;
        uint16_t port;
        must(temp_redis_start(&w.redis[i], NULL, &e), e);
        must(client_open(&w.node[i], w.redis[i].port, REPLY_MS, &e), e);
        must(client_ok(&w.node[i], &e, "DEBUG POPULATE %d foreign", FOREIGN), e);
        must(client_ok(&w.node[i], &e, "ACL SETUSER held on >pw ~* &* +@all"), e);
        must(proxy_add(w.proxy, WIRE_REDIS, w.redis[i].port, &route, &port, &e), e);
        for (unsigned d = 0; d < 2; d++) {
            size_t at = strlen(list[d]);
            (void)snprintf(list[d] + at, sizeof(list[d]) - at, "%sredis://%s127.0.0.1:%u", i > 0 ? ", " : "",
                           user[d], port);
        }
    }
    for (unsigned d = 0; d < 2; d++) {
        const struct daemon_options o = {.nodes = list[d],
                                         .service = "timeout = 20s\nthreads = 1\ncheck_interval = 200ms\n",
                                         .redis = "shard_bytes = 1KiB\ntimeout = 10s\n"};
        must(daemon_start(&w.daemon[d], &o, &e), e);
        must(client_open(&w.client[d], w.daemon[d].port, REPLY_MS, &e), e);
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    bool clean = true;
    for (unsigned i = 0; i < 2; i++) {
        client_close(&w.client[i]);
        clean &= daemon_fini(&w.daemon[i]);
    }
    proxy_stop(w.proxy);
    for (unsigned i = 0; i < w.nodes; i++) {
        client_close(&w.node[i]);
        temp_redis_fini(&w.redis[i]);
    }
    return clean ? 0 : -1;
}

static int start_one(void **state)
{
    (void)state;
    return start(1);
}

static int start_two(void **state)
{
    (void)state;
    return start(2);
}

static int64_t integer(struct client *c, const char *command)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_integer(c, &n, &e, command), e);
    return n;
}

static void ok(struct client *c, const char *command)
{
    struct error e = {""};
    must(client_ok(c, &e, command), e);
}

static bool is_listed(struct client *c, const char *name)
{
    redisReply *r = client_command(c, "KEYS %s", name);
    assert_non_null(r);
    bool listed = r->type == REDIS_REPLY_ARRAY && r->elements == 1;
    freeReplyObject(r);
    return listed;
}

static uint64_t calls_of(unsigned node, const char *command)
{
    char field[64];
    redisReply *r = client_command(&w.node[node], "INFO commandstats");
    assert_non_null(r);
    (void)snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    const char *at = strstr(r->str, field);
    uint64_t calls = at == NULL ? 0 : strtoull(at + strlen(field), NULL, 10);
    freeReplyObject(r);
    return calls;
}

/* --- one node --- */

/* The controller has had the filter made aside, which waits for the mutex. The controller ends first, and
 * gets its call back only then: a sanitizer reports it at the end if nobody frees it. */
static void test_stop__waits_for_a_filter_that_is_being_made_aside(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    const struct daemon_options o = {.nodes = w.redis[0].url,
                                     .service = "timeout = 20s\nthreads = 1\ncheck_interval = 200ms\n",
                                     .redis = "prefix = stopping\ntimeout = 1s\n",
                                     .filters = "[filter conf]\ncapacity = 100\n"};
    ok(&w.node[0], "SET stopping:{conf}:expansion_flag somebody:1 PX 600000");
    must(daemon_start(&d, &o, &e), e);
    clock_sleep_us(1000 * 1000); /* the controller has tried */
    assert_true(daemon_fini(&d));
    assert_int_equal(integer(&w.node[0], "EXISTS stopping:{conf}:view"), 0);
}

static void test_make__scans_nothing_and_takes_few_commands(void **state)
{
    (void)state;
    ok(&w.client[1], "BF.RESERVE first 0.01 10"); /* until connected */
    uint64_t scans = calls_of(0, "scan");
    proxy_count(w.proxy, "held", 0, PROXY_BEFORE);
    ok(&w.client[1], "BF.RESERVE second 0.01 10");
    uint64_t counted = proxy_counted(w.proxy);
    proxy_release(w.proxy, true);
    if (counted == 0 || counted > COMMANDS_MAX)
        fail_msg("%" PRIu64 " commands", counted);
    assert_int_equal(calls_of(0, "scan") - scans, 0);
    assert_int_equal(integer(&w.client[1], "DEL first second"), 2);
}

static void test_make__costs_the_same_for_the_hundredth(void **state)
{
    (void)state;
    char command[64];
    uint64_t scans = calls_of(0, "scan"), commands[3];
    for (unsigned third = 0; third < 3; third++) {
        proxy_count(w.proxy, "held", 0, PROXY_BEFORE);
        for (unsigned i = 0; i < FILTERS / 3; i++) {
            (void)snprintf(command, sizeof(command), "BF.RESERVE many%u.%u 0.01 10", third, i);
            ok(&w.client[1], command);
        }
        commands[third] = proxy_counted(w.proxy);
        proxy_release(w.proxy, true);
    }
    assert_int_equal(calls_of(0, "scan") - scans, 0);
    assert_true(commands[0] >= FILTERS / 3);
    if (commands[2] > commands[0] + commands[0] / 10)
        fail_msg("%d filters: %" PRIu64 " commands, then %" PRIu64, FILTERS / 3, commands[0], commands[2]);
}

static void test_make__is_listed_and_expires_however_often_it_was_deleted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        ok(&w.client[i % 2], "BF.RESERVE again 0.01 10");
        if (!is_listed(&w.client[0], "again"))
            fail_msg("time %u: it is not listed", i);
        assert_int_equal(integer(&w.client[0], "DEL again"), 1);
        assert_false(is_listed(&w.client[0], "again"));
    }
    ok(&w.client[0], "BF.RESERVE again 0.01 10");
    assert_int_equal(integer(&w.client[0], "PEXPIRE again 100"), 1);
    uint64_t until = clock_mono_us() + 5000000;
    while (integer(&w.client[1], "EXISTS again") != 0)
        if (clock_mono_us() > until)
            fail_msg("it does not expire");
}

/* The controller finds the registered name of a deleted filter, and is stopped before its n-th request;
 * meanwhile another coordinator makes the filter. */
static bool lists_after(uint64_t n)
{
    uint64_t until = clock_mono_us() + 3000000;
    ok(&w.client[0], "BF.RESERVE late 0.01 10");
    redisReply *r = client_command(&w.node[0], "HGET twinbloom:{late}:view incarnation");
    char incarnation[32];
    (void)snprintf(incarnation, sizeof(incarnation), "%s", r->str);
    freeReplyObject(r);
    assert_int_equal(integer(&w.client[0], "DEL late"), 1);
    proxy_count(w.proxy, "held", n, PROXY_BEFORE);
    assert_int_equal(integer(&w.node[0], "SADD twinbloom:filters late"), 1);
    freeReplyObject(client_command(&w.node[0], "HSET twinbloom:incarnations late %s", incarnation));
    while (!proxy_is_held(w.proxy) && clock_mono_us() < until)
        clock_sleep_us(1000);
    bool held = proxy_is_held(w.proxy);
    ok(&w.client[0], "BF.RESERVE late 0.01 10");
    assert_true(is_listed(&w.client[0], "late"));
    proxy_release(w.proxy, true);
    clock_sleep_us(20 * 1000);
    if (integer(&w.node[0], "SISMEMBER twinbloom:filters late") != 1)
        fail_msg("stopped before request %" PRIu64 ", the controller took a later filter off the list", n);
    assert_int_equal(integer(&w.client[0], "DEL late"), 1);
    return held;
}

/* A request that is under way when a connection is reset may fail with CLUSTERDOWN, so try again. */
static void reset_connections(void)
{
    uint64_t until = clock_mono_us() + 5000000;
    proxy_reset(w.proxy, 0, NULL, false);
    for (unsigned d = 0; d < 2; d++) {
        char command[48];
        (void)snprintf(command, sizeof(command), "BF.INSERT reset%u ITEMS a", d);
        redisReply *r = client_command(&w.client[d], command);
        while (r != NULL && r->type != REDIS_REPLY_ARRAY && clock_mono_us() < until) {
            freeReplyObject(r);
            clock_sleep_us(10000);
            r = client_command(&w.client[d], command);
        }
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
        freeReplyObject(r);
        (void)snprintf(command, sizeof(command), "DEL reset%u", d);
        assert_int_equal(integer(&w.client[d], command), 1);
    }
}

static void test_make__is_not_taken_off_the_list_by_who_comes_late(void **state)
{
    (void)state;
    proxy_count_as_job(w.proxy, "twinbloom-controller");
    reset_connections();
    for (uint64_t n = 1; n <= 12; n++)
        assert_true(lists_after(n));
}

/* How many counts have a reply. */
static unsigned replied(const int *fd, unsigned count)
{
    unsigned n = 0;
    char byte;
    for (unsigned i = 0; i < count; i++)
        n += recv(fd[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    return n;
}

/* Pause in a loop that waits until the time @until (monotonic, us). */
static void pause_until(uint64_t until, const char *awaited)
{
    if (clock_mono_us() > until)
        fail_msg("waited in vain until %s", awaited);
    clock_sleep_us(1000);
}

/* Commands that inspect filters wait for each other; an add that needs a new filter does not wait for
 * them. */
static void test_make__does_not_wait_for_counts(void **state)
{
    (void)state;
    struct error e = {""};
    int fd[COUNTS];
    char reply[64];
    ok(&w.client[0], "BF.RESERVE large 0.01 1000000");
    must(client_madd(&w.client[0], "large", fixture_code, 0, KEYS, &e), e);
    for (unsigned i = 0; i < COUNTS; i++) {
        fd[i] = raw_open(w.daemon[0].port);
        assert_true(fd[i] >= 0);
        assert_true(raw_puts(fd[i], "TB.COUNT large\r\n"));
    }
    for (uint64_t until = clock_mono_us() + GUARD_US; replied(fd, COUNTS) == 0;)
        pause_until(until, "the first count is answered, and all others wait behind it");
    assert_int_equal(integer(&w.client[0], "BF.ADD fresh key"), 1);
    unsigned before = replied(fd, COUNTS);
    for (unsigned i = 0; i < COUNTS; i++) {
        assert_true(raw_read_until(fd[i], "\r\n", reply, sizeof(reply)));
        assert_int_equal(reply[0], ':');
        raw_close(fd[i]);
    }
    if (before == COUNTS)
        fail_msg("the add was answered behind all counts");
    assert_int_equal(integer(&w.client[0], "DEL large fresh"), 2);
}

/* Names are deleted one by one, a few at a time: whoever makes a filter does not wait for all of them. */
static void test_make__does_not_wait_for_names_that_are_deleted(void **state)
{
    (void)state;
    enum { NAMES = 6000, BEGUN = 50 };
    uint64_t before = calls_of(0, "exists");
    int fd = raw_open(w.daemon[0].port);
    assert_true(raw_send_del(fd, NAMES));
    for (uint64_t until = clock_mono_us() + GUARD_US; calls_of(0, "exists") < before + BEGUN;)
        pause_until(until, "the first names are deleted");
    assert_int_equal(integer(&w.client[0], "BF.ADD beside key"), 1);
    assert_int_equal(replied(&fd, 1), 0);
    assert_int_equal(integer(&w.client[0], "DEL beside"), 1);
    assert_true(raw_expect(fd, ":0\r\n"));
    raw_close(fd);
}

/* --- two nodes --- */

/* Wait until both coordinators have scanned node 1, so that they do not write the results later. */
static void wait_for_scans_to_end(void)
{
    uint64_t before, scans = calls_of(1, "scan"), until = clock_mono_us() + GUARD_US;
    do {
        pause_until(until, "the coordinators have scanned node 1");
        before = scans;
        clock_sleep_us(500000);
        scans = calls_of(1, "scan");
    } while (scans != before);
}

static void test_make__looks_aside_where_a_registry_is_lost(void **state)
{
    (void)state;
    struct client waiting = {0};
    struct error e = {""};
    ok(&w.client[0], "BF.RESERVE other 0.01 10");
    wait_for_scans_to_end();
    uint64_t scans = calls_of(1, "scan"); /* the controller may look as soon as the registry is deleted */
    assert_int_equal(integer(&w.node[1], "DEL twinbloom:incarnations"), 1);
    must(client_open(&waiting, w.daemon[0].port, REPLY_MS, &e), e);
    assert_int_equal(redisAppendCommand(waiting.redis, "BF.RESERVE aside 0.01 10"), REDIS_OK);
    int done = 0;
    while (!done)
        assert_int_equal(redisBufferWrite(waiting.redis, &done), REDIS_OK);
    uint64_t worst = 0, scan_began = clock_mono_us();
    while (integer(&w.node[1], "EXISTS twinbloom:incarnations") == 0 ||
           integer(&w.node[1], "HEXISTS twinbloom:incarnations {complete}") == 0) {
        pause_until(scan_began + GUARD_US, "the registry of node 1 is complete again");
        uint64_t began = clock_mono_us();
        freeReplyObject(client_command(&w.client[0], "BF.INFO other"));
        uint64_t took = clock_mono_us() - began;
        worst = took > worst ? took : worst;
    }
    uint64_t whole = clock_mono_us() - scan_began;
    redisReply *r = NULL;
    assert_int_equal(redisGetReply(waiting.redis, (void **)&r), REDIS_OK);
    assert_string_equal(r->str, "OK");
    freeReplyObject(r);
    client_close(&waiting);
    uint64_t made = calls_of(1, "scan") - scans; /* one SCAN returns 1,000 keys or a few more */
    if (made < FOREIGN / 1000 * 9 / 10)
        fail_msg("%" PRIu64 " calls of SCAN", made);
    if (worst > 300000 && worst > whole / 4) /* a part of the scan, on a busy machine */
        fail_msg("BF.INFO of another filter took %" PRIu64 " us of %" PRIu64, worst, whole);
    scans = calls_of(1, "scan");
    ok(&w.client[0], "BF.RESERVE after 0.01 10"); /* the registry is complete again */
    assert_int_equal(calls_of(1, "scan") - scans, 0);
    assert_int_equal(integer(&w.client[0], "DEL other aside after"), 3);
}

static uint64_t absent(unsigned d, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(&w.client[d], "kept", fixture_code, first, count, &present, NULL, &e), e);
    return count - present;
}

/* Check each key by a command of its own, so that none waits for another. */
static void ask_for_each(unsigned d, uint64_t first, uint64_t count)
{
    int done = 0;
    for (uint64_t i = first; i < first + count; i++) {
        char key[CLIENT_KEY_MAX];
        size_t length = fixture_code(i, key);
        assert_int_equal(redisAppendCommand(w.client[d].redis, "BF.EXISTS kept %b", key, length), REDIS_OK);
    }
    while (!done)
        assert_int_equal(redisBufferWrite(w.client[d].redis, &done), REDIS_OK);
}

static uint64_t denied(unsigned d, uint64_t count)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(w.client[d].redis, (void **)&r), REDIS_OK);
        n += r->type == REDIS_REPLY_INTEGER && r->integer == 0;
        freeReplyObject(r);
    }
    return n;
}

/* The metadata node is emptied while one coordinator sleeps and the other one restarts. The filter is made
 * again, and the sleeper must not answer from the old shards of the other node. */
static void test_make__sweeps_what_outlived_a_lost_view(void **state)
{
    (void)state;
    struct error e = {""};
    ok(&w.client[0], "BF.RESERVE kept 0.01 20000");
    must(client_madd(&w.client[0], "kept", fixture_code, 0, KEYS, &e), e);
    assert_int_equal(absent(1, 0, KEYS), 0);
    daemon_pause(&w.daemon[1]);
    client_close(&w.client[0]);
    daemon_kill(&w.daemon[0]);
    ok(&w.node[0], "FLUSHALL");
    must(daemon_launch(&w.daemon[0], &e), e);
    must(client_open(&w.client[0], w.daemon[0].port, REPLY_MS, &e), e);
    ok(&w.client[0], "BF.RESERVE kept 0.01 20000");
    must(client_madd(&w.client[0], "kept", fixture_code, KEYS, KEYS, &e), e);
    ask_for_each(1, KEYS, KEYS);
    daemon_resume(&w.daemon[1]);
    assert_int_equal(denied(1, KEYS), 0);
    assert_int_equal(absent(0, KEYS, KEYS), 0);
    assert_true(is_listed(&w.client[1], "kept"));
}

int main(void)
{
    const struct CMUnitTest one[] = {
        cmocka_unit_test(test_stop__waits_for_a_filter_that_is_being_made_aside),
        cmocka_unit_test(test_make__scans_nothing_and_takes_few_commands),
        cmocka_unit_test(test_make__does_not_wait_for_counts),
        cmocka_unit_test(test_make__does_not_wait_for_names_that_are_deleted),
        cmocka_unit_test(test_make__costs_the_same_for_the_hundredth),
        cmocka_unit_test(test_make__is_listed_and_expires_however_often_it_was_deleted),
        cmocka_unit_test(test_make__is_not_taken_off_the_list_by_who_comes_late),
    };
    const struct CMUnitTest two[] = {
        cmocka_unit_test(test_make__looks_aside_where_a_registry_is_lost),
        cmocka_unit_test(test_make__sweeps_what_outlived_a_lost_view),
    };
    int failed = cmocka_run_group_tests_name("one node", one, start_one, stop);
    return failed + cmocka_run_group_tests_name("two nodes", two, start_two, stop);
}
