/* SPDX-License-Identifier: MIT */
/* Adds that are acknowledged only when a replica has them, for filters that are logs. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { TIMEOUT_MS = 1000, FAST_MS = TIMEOUT_MS / 2, GUARD_MS = 20000, SILENT_MS = 300 };

static struct fixture f;
static struct temp_redis replica;
static struct client master, to_replica;

static void wait_linked(void)
{
    struct error e = {""};
    int64_t replicas = 0;
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (replicas != 1) {
        assert_true(clock_mono_us() < until);
        must(client_ok(&master, &e, "SET link-probe 1"), e);
        must(client_integer(&master, &replicas, &e, "WAIT 1 100"), e);
    }
}

static void attach_replica(struct fixture *fixture)
{
    struct error e = {""};
    static char port[8];
    (void)snprintf(port, sizeof(port), "%u", fixture->redis[0].port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, "--repl-timeout", "3600", NULL};
    must(client_open(&master, fixture->redis[0].port, GUARD_MS, &e), e);
    must(client_ok(&master, &e, "CONFIG SET repl-diskless-sync-delay 0"), e);
    must(client_ok(&master, &e, "CONFIG SET repl-timeout 3600"), e);
    must(temp_redis_start(&replica, extra, &e), e);
    must(client_open(&to_replica, replica.port, GUARD_MS, &e), e);
    wait_linked();
}

static int start(const char *redis_lines, const char *service)
{
    struct error e = {""};
    const struct fixture_options o = {
        .nodes = 1, .daemons = 1, .redis_lines = redis_lines, .service = service, .prepare = attach_replica};
    if (fixture_start(&f, &o) != 0)
        return -1;
    must(client_ok(&f.client[0], &e, "BF.RESERVE acked 0.001 10000"), e);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return start("add_acks = 1\n", "timeout = 1s\n");
}

static int setup_disk(void **state)
{
    (void)state;
    return start("add_fsync = yes\n", "timeout = 1s\n");
}

static int teardown(void **state)
{
    (void)state;
    (void)kill(replica.process.pid, SIGCONT);
    client_close(&to_replica);
    client_close(&master);
    int code = fixture_stop(&f);
    temp_redis_fini(&replica);
    return code;
}

/* Add a key. Returns the reply; *@ms: how long it took. */
static int64_t add(const char *filter, const char *key, struct error *e, unsigned *ms)
{
    int64_t fresh = -1;
    uint64_t began = clock_mono_us();
    e->text[0] = '\0';
    if (client_integer(&f.client[0], &fresh, e, "BF.ADD %s %s", filter, key) != ERR_OK)
        fresh = -1;
    *ms = (unsigned)((clock_mono_us() - began) / 1000);
    return fresh;
}

static void is_acknowledged(const char *filter, const char *key, int64_t fresh)
{
    struct error e;
    unsigned ms;
    int64_t answer = add(filter, key, &e, &ms);
    if (answer != fresh)
        fail_msg("%s: %lld, %s", key, (long long)answer, e.text);
}

static void is_not_acknowledged(const char *filter, const char *key)
{
    struct error e;
    unsigned ms;
    assert_int_equal(add(filter, key, &e, &ms), -1);
    assert_in_range(ms, TIMEOUT_MS / 2, 3 * TIMEOUT_MS);
    if (strstr(e.text, "not acknowledged, though its keys may be in the filter") == NULL)
        fail_msg("%s: %s", key, e.text);
}

static void is_present(const char *filter, const char *key)
{
    struct error e = {""};
    int64_t answer = 0;
    uint64_t began = clock_mono_us();
    must(client_integer(&f.client[0], &answer, &e, "BF.EXISTS %s %s", filter, key), e);
    assert_int_equal(answer, 1);
    assert_in_range((clock_mono_us() - began) / 1000, 0, FAST_MS);
}

static void test_add__is_acknowledged_while_the_replica_follows(void **state)
{
    (void)state;
    char key[16];
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        is_acknowledged("acked", key, 1);
        is_acknowledged("acked", key, 0);
    }
}

/* Checks are answered meanwhile. */
static void test_add__is_not_acknowledged_while_the_replica_is_stopped(void **state)
{
    (void)state;
    is_acknowledged("acked", "before", 1);
    (void)kill(replica.process.pid, SIGSTOP);
    is_not_acknowledged("acked", "first");
    is_not_acknowledged("acked", "second");
    is_present("acked", "before");
    is_present("acked", "first");
    (void)kill(replica.process.pid, SIGCONT);
    wait_linked();
    is_acknowledged("acked", "first", 0);
    is_acknowledged("acked", "third", 1);
}

/* The key is present, but perhaps only on the master. */
static void test_add__of_a_key_that_is_there_waits_too(void **state)
{
    (void)state;
    struct error e = {""};
    must(client_ok(&f.client[0], &e, "BF.RESERVE fixed 0.001 1 NONSCALING"), e);
    is_acknowledged("acked", "old", 1);
    is_acknowledged("fixed", "old", 1);
    (void)kill(replica.process.pid, SIGSTOP);
    is_not_acknowledged("acked", "old");
    is_not_acknowledged("fixed", "old"); /* the filter is full, so nothing is appended */
}

static void test_add__goes_on_when_the_replica_comes_back_in_time(void **state)
{
    (void)state;
    redisReply *r = NULL;
    is_acknowledged("acked", "before", 1);
    (void)kill(replica.process.pid, SIGSTOP);
    uint64_t began = clock_mono_us();
    assert_int_equal(redisAppendCommand(f.client[0].redis, "BF.ADD acked late"), REDIS_OK);
    int sent = 0;
    while (!sent)
        assert_int_equal(redisBufferWrite(f.client[0].redis, &sent), REDIS_OK);
    clock_sleep_us(SILENT_MS * 1000);
    (void)kill(replica.process.pid, SIGCONT);
    assert_int_equal(redisGetReply(f.client[0].redis, (void **)&r), REDIS_OK);
    assert_int_equal(r->type, REDIS_REPLY_INTEGER);
    assert_int_equal(r->integer, 1);
    freeReplyObject(r);
    assert_true(clock_mono_us() - began >= SILENT_MS * 1000ull);
}

static void test_add__without_a_replica_is_an_error_that_says_so(void **state)
{
    (void)state;
    struct error e = {""};
    is_acknowledged("acked", "before", 1);
    must(client_ok(&to_replica, &e, "REPLICAOF NO ONE"), e);
    clock_sleep_us(SILENT_MS * 1000);
    is_not_acknowledged("acked", "alone");
    is_present("acked", "alone");
}

/* Redis before 7.2 has no WAITAOF; later ones refuse it without appendonly. */
static void test_add__that_needs_a_disk_is_refused_where_there_is_none(void **state)
{
    (void)state;
    struct error e;
    unsigned ms;
    assert_int_equal(add("acked", "key", &e, &ms), -1);
    if (strstr(e.text, "WAITAOF") == NULL)
        fail_msg("%s", e.text);
    is_present("acked", "key");
}

int main(void)
{
#define ROW(t, s) cmocka_unit_test_setup_teardown(t, s, teardown)
    const struct CMUnitTest tests[] = {
        ROW(test_add__is_acknowledged_while_the_replica_follows, setup),
        ROW(test_add__is_not_acknowledged_while_the_replica_is_stopped, setup),
        ROW(test_add__of_a_key_that_is_there_waits_too, setup),
        ROW(test_add__goes_on_when_the_replica_comes_back_in_time, setup),
        ROW(test_add__without_a_replica_is_an_error_that_says_so, setup),
        ROW(test_add__that_needs_a_disk_is_refused_where_there_is_none, setup_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
