/* SPDX-License-Identifier: MIT */
/* The connections of an event loop to several nodes. A node that is away does not slow down requests to other
 * nodes; requests to it fail at once. */
#include "tests/integration/wired.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "shard/redis/async_client.h"
#include "shard/redis/nodes/cluster.h"

enum { TIMEOUT_MS = 600, SLACK_MS = 2000, GUARD_MS = 20000, GOOD = 0, BAD = 1 };

static const char ping[] = "*1\r\n$4\r\nPING\r\n";

static struct wired w;
static struct event_base *base;
static struct async_client *store;
static struct {
    unsigned sent, refused, answered, failed;
} told[2];

static int start(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    wired_start(&w, "redis", "no");
    base = event_base_new();
    return base != NULL ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    event_base_free(base);
    wired_stop(&w);
    return 0;
}

static void open_async(void)
{
    memset(told, 0, sizeof(told));
    store = async_client_new(base, &w.nodes, TIMEOUT_MS, NULL);
    assert_non_null(store);
}

static int close_async(void **state)
{
    (void)state;
    async_client_free(store);
    store = NULL;
    struct node_health_figures f;
    node_health_read(&w.nodes, BAD, &f);
    assert_int_equal(f.loops_down, 0);
    assert_int_equal(f.connections, 0);
    return 0;
}

static void on_reply(void *arg, const redisReply *reply)
{
    unsigned node = *(unsigned *)arg;
    told[node].answered += reply != NULL;
    told[node].failed += reply == NULL;
}

static bool send_ping(struct async_client *s, unsigned where, async_client_reply_fn *fn, void *arg)
{
    static struct slot_redirect redirect;
    static const size_t end = sizeof(ping) - 1;
    return async_client_send_together(s, where, &redirect, 1, ping, &end, fn, arg) == 1;
}

static void ask(unsigned node)
{
    static unsigned nodes[] = {GOOD, BAD};
    bool sent = send_ping(store, node, on_reply, &nodes[node]);
    told[node].sent += sent;
    told[node].refused += !sent;
}

static void run(unsigned ms)
{
    const struct timeval tv = {ms / 1000, (suseconds_t)(ms % 1000 * 1000)};
    (void)event_base_loopexit(base, &tv);
    (void)event_base_dispatch(base);
}

static void run_until_count(const unsigned *count, unsigned wanted)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (*count < wanted && clock_mono_us() < until)
        run(5);
    assert_int_equal(*count, wanted);
}

/* The good node answers at once, whatever the bad one does. */
static void good_answers(void)
{
    unsigned before = told[GOOD].answered;
    uint64_t began = clock_mono_us();
    ask(GOOD);
    while (told[GOOD].answered == before && clock_mono_us() < began + TIMEOUT_MS * 1000 / 2)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(told[GOOD].answered, before + 1);
    assert_int_equal(told[GOOD].refused + told[GOOD].failed, 0);
}

static bool is_down(void)
{
    const char *name, *why;
    return async_client_any_down(store, &name, &why);
}

static struct node_health_figures health(void)
{
    struct node_health_figures f;
    node_health_read(&w.nodes, BAD, &f);
    return f;
}

/* Run until @more attempts to connect have failed; further attempts follow. */
static void run_until_it_failed(unsigned more)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull, wanted = health().failures + more;
    while (health().failures < wanted && clock_mono_us() < until)
        run(10);
    assert_true(is_down() && health().failures >= wanted);
}

static void run_until_up(void)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (is_down() && clock_mono_us() < until)
        run(10);
    assert_false(is_down());
    assert_string_equal(async_client_why(store, BAD), "");
    ask(BAD);
    run_until_count(&told[BAD].answered, 1);
}

/* Requests to the bad node are refused at once, and nothing is sent. */
static void bad_refuses(void)
{
    unsigned refused = told[BAD].refused;
    uint64_t began = clock_mono_us();
    for (int i = 0; i < 1000; i++)
        ask(BAD);
    assert_int_equal(told[BAD].refused, refused + 1000);
    assert_true(clock_mono_us() - began < TIMEOUT_MS * 1000 / 2);
}

static void test_store__goes_round_a_node_that_refuses_and_finds_it_again(void **state)
{
    (void)state;
    struct error e = {""};
    struct temp_redis other;
    must(temp_redis_prepare(&other, NULL, &e), e);
    wired_use(&w, NULL, "redis://127.0.0.1:%u, redis://127.0.0.1:%u", w.redis.port, other.port);
    open_async();
    struct node_health_figures f = health();
    assert_string_equal(node_health_state(&f), "unused");
    ask(BAD);
    good_answers();
    run_until_count(&told[BAD].failed, told[BAD].sent);
    assert_true(is_down());
    assert_non_null(strstr(async_client_why(store, BAD), "refused"));
    bad_refuses();
    run_until_it_failed(3);
    bad_refuses();
    good_answers();
    f = health();
    assert_string_equal(node_health_state(&f), "down");
    assert_int_equal(f.connections, 0);
    assert_true(f.failures >= 3 && f.error_ms > 0);
    assert_non_null(strstr(f.error, "refused"));
    must(temp_redis_restart(&other, false, &e), e);
    run_until_up();
    f = health();
    assert_string_equal(node_health_state(&f), "up");
    assert_int_equal(f.connections, 1);
    assert_int_equal(f.reconnects, 0); /* it was the first connection */
    temp_redis_kill(&other);
    run(20);
    must(temp_redis_restart(&other, false, &e), e);
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (health().reconnects == 0 && clock_mono_us() < until) /* even without requests */
        run(10);
    assert_int_equal(health().reconnects, 1);
    temp_redis_fini(&other);
    good_answers();
}

/* The bad node accepts connections and sends nothing: only the first requests wait. */
static void test_store__waits_once_for_a_silent_node(void **state)
{
    (void)state;
    static const char *const schemes[] = {"redis", "rediss"};
    for (int i = 0; i < 2; i++) {
        uint16_t port;
        int listener = wired_listen(&port);
        wired_use(&w, NULL, "redis://127.0.0.1:%u, %s://127.0.0.1:%u", w.redis.port, schemes[i], port);
        open_async();
        uint64_t began = clock_mono_us();
        ask(BAD);
        assert_int_equal(told[BAD].sent, 1);
        good_answers();
        while (told[BAD].failed == 0 && clock_mono_us() < began + GUARD_MS * 1000ull)
            run(5);
        assert_in_range((clock_mono_us() - began) / 1000, TIMEOUT_MS - 20, TIMEOUT_MS + SLACK_MS);
        assert_non_null(
            strstr(async_client_why(store, BAD), i == 0 ? "an answer to the login" : "a TLS handshake"));
        run(100); /* until the next attempt is under way */
        bad_refuses();
        good_answers();
        run_until_it_failed(3);
        bad_refuses();
        (void)close_async(NULL);
        (void)close(listener);
    }
    open_async();
}

static void test_store__drops_a_node_that_was_stopped(void **state)
{
    (void)state;
    struct error e = {""};
    struct temp_redis other;
    must(temp_redis_start(&other, NULL, &e), e);
    wired_use(&w, NULL, "redis://127.0.0.1:%u, redis://127.0.0.1:%u", w.redis.port, other.port);
    open_async();
    run_until_up();
    process_signal(&other.process, SIGSTOP);
    uint64_t began = clock_mono_us();
    for (int i = 0; i < 100; i++)
        ask(BAD);
    good_answers();
    while (told[BAD].failed < 100 && clock_mono_us() < began + GUARD_MS * 1000ull) {
        run(5);
        good_answers();
    }
    assert_in_range((clock_mono_us() - began) / 1000, TIMEOUT_MS - 20, TIMEOUT_MS + SLACK_MS);
    assert_string_equal(async_client_why(store, BAD), "no reply within the deadline");
    bad_refuses();
    process_signal(&other.process, SIGCONT);
    told[BAD].answered = 0;
    run_until_up();
    temp_redis_fini(&other);
}

/* The loop goes on while a name server does not answer, and not every attempt starts a thread. */
static void test_store__is_not_held_up_by_a_host_that_is_looked_up(void **state)
{
    (void)state;
    wired_use(&w, NULL, "redis://here.test:%u, redis://slow.test:%u", w.redis.port, w.redis.port);
    open_async();
    ask(GOOD);
    run_until_count(&told[GOOD].answered, 1);
    ask(BAD);
    for (uint64_t until = clock_mono_us() + 3ull * WIRED_SLOW_MS * 1000; clock_mono_us() < until;) {
        good_answers();
        run(20);
    }
    assert_int_equal(told[BAD].failed, 1);
    assert_in_range(atomic_load(&wired_slow_lookups), 2, 3 * WIRED_SLOW_MS / TIMEOUT_MS);
    assert_true(is_down() && health().failures >= 3);
    assert_non_null(strstr(async_client_why(store, BAD), "the address of the host"));
    clock_sleep_us(WIRED_SLOW_MS * 1200); /* until the abandoned threads have ended */
}

static void test_store__says_why_a_login_is_refused(void **state)
{
    (void)state;
    wired_use(&w, NULL, "redis://127.0.0.1:%u, unix://some:wrong@%s", w.redis.port, w.socket);
    open_async();
    ask(BAD);
    run_until_it_failed(3);
    assert_non_null(strstr(async_client_why(store, BAD), "WRONGPASS"));
    bad_refuses();
    good_answers();
    (void)wired_ask(&w, "ACL SETUSER some on >wrong +@all ~*");
    told[BAD].answered = 0;
    run_until_up();
    (void)wired_ask(&w, "ACL DELUSER some");
}

/* The pause is 20 ms at first and doubles up to half a second; each is shortened by up to a half at
 * random. */
static void test_store__tries_less_and_less_often(void **state)
{
    (void)state;
    uint16_t port;
    unsigned attempts = 0;
    int listener = wired_listen(&port);
    wired_use(&w, NULL, "redis://127.0.0.1:%u, redis://127.0.0.1:%u", w.redis.port, port);
    open_async();
    ask(BAD);
    (void)fcntl(listener, F_SETFL, O_NONBLOCK);
    for (uint64_t until = clock_mono_us() + 3000000; clock_mono_us() < until;) {
        run(10);
        int fd = accept(listener, NULL, NULL);
        attempts += fd >= 0;
        if (fd >= 0)
            (void)close(fd);
    }
    if (attempts < 5 || attempts > 20)
        fail_msg("%u attempts", attempts);
    (void)close(listener);
}

/* A node of a cluster does not answer, and the loop that asks it for the map does not run any more. */
static void test_a_client_that_rests__lets_others_ask_for_the_map(void **state)
{
    (void)state;
    struct error e = {""};
    static struct nodes seeds;
    uint16_t port;
    char text[64];
    int listener = wired_listen(&port);
    (void)snprintf(text, sizeof(text), "redis://127.0.0.1:%u", port);
    must(cluster_parse_seeds(&seeds, text, &e), e);
    struct nodes n = {.cluster = cluster_new(&seeds)};
    struct async_client *one = async_client_new(base, &n, TIMEOUT_MS, NULL);
    assert_false(send_ping(one, WHERE_SLOT, NULL, NULL));
    clock_sleep_us(2 * CLUSTER_PAUSE_MAX_MS * 1000);
    assert_false(cluster_may_refresh(n.cluster));
    async_client_rest(one);
    clock_sleep_us(2 * CLUSTER_PAUSE_MAX_MS * 1000);
    assert_true(cluster_may_refresh(n.cluster));
    cluster_refreshed(n.cluster, NULL);
    async_client_free(one);
    cluster_free(n.cluster);
    (void)close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_store__goes_round_a_node_that_refuses_and_finds_it_again, close_async),
        cmocka_unit_test_teardown(test_store__waits_once_for_a_silent_node, close_async),
        cmocka_unit_test_teardown(test_store__drops_a_node_that_was_stopped, close_async),
        cmocka_unit_test_teardown(test_store__is_not_held_up_by_a_host_that_is_looked_up, close_async),
        cmocka_unit_test_teardown(test_store__says_why_a_login_is_refused, close_async),
        cmocka_unit_test_teardown(test_store__tries_less_and_less_often, close_async),
        cmocka_unit_test(test_a_client_that_rests__lets_others_ask_for_the_map),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
