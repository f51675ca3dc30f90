/* SPDX-License-Identifier: MIT */
/* A node that has been away for as long as a request may take: requests for its shards fail at once, those
 * for the shards of others are answered as ever, and it is found when it comes back. */
#include "tests/integration/coordinator.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { SHARDS = 6, KEYS = 300, FAST_MS = COORDINATOR_TIMEOUT_MS / 3, GUARD_MS = 20000 };

static struct servers servers;
static struct filter f;
static struct coordinator one, fresh;

static const struct filter_policy sourced = {.configured = true, .sourced = true};

static int start(void **state)
{
    (void)state;
    return servers_start(&servers, 2);
}

static int stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    coordinator_open(&one, &servers, sourced);
    coordinator_add(&one, 0, KEYS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    coordinator_close(&fresh);
    filter_fini(&f);
    return 0;
}

static unsigned node_of(unsigned key)
{
    const struct generation *g = &f.view.slot[f.view.current];
    char text[16];
    struct key_place place;
    int n = snprintf(text, sizeof(text), "k%u", key);
    hash_place(&g->layers[0].geometry, hash_key(g->seed, text, (size_t)n), &place);
    return filter_node(&f, place.shard);
}

/* A key of @node, from @from on. */
static unsigned key_on(unsigned node, unsigned from)
{
    while (node_of(from) != node)
        from++;
    return from;
}

/* The status of a check, and how long it took. */
static enum err timed(struct coordinator *c, unsigned first, unsigned count, unsigned *ms)
{
    uint64_t began = clock_mono_us();
    enum err status = coordinator_ask(c, OPERATION_CHECK, first, count);
    *ms = (unsigned)((clock_mono_us() - began) / 1000);
    return status;
}

static void run_until_dead(struct coordinator *c, unsigned node)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (!store_is_dead(catalog_store(c->catalog), node, COORDINATOR_TIMEOUT_MS * 1000ull)) {
        assert_true(clock_mono_us() < until);
        coordinator_run(c, 20);
    }
}

static bool answered[KEYS];

static void note_answered(struct operation *op, void *arg)
{
    for (size_t i = 0; i < operation_keys(op); i++)
        answered[i] = operation_answered(op, i);
    coordinator_done_release(op, arg);
}

/* All of node 1's keys at once fail, those of node 0 among them are answered; then each alone. */
static void fails_fast(unsigned dead)
{
    unsigned ms;
    char name[NODE_NAME_MAX];
    (void)snprintf(name, sizeof(name), "%s", servers.nodes.node[dead].name);
    uint64_t began = clock_mono_us();
    (void)coordinator_start(&one, OPERATION_CHECK, "f", 0, KEYS, note_answered);
    coordinator_wait(&one);
    assert_in_range((clock_mono_us() - began) / 1000, 0, FAST_MS);
    assert_int_equal(one.status, ERR_UNREACHABLE);
    assert_non_null(strstr(one.error, name));
    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(answered[i], node_of(i) != dead);
        if (answered[i])
            assert_int_equal(one.result[i], KEY_YES);
    }
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(timed(&one, key_on(dead, i), 1, &ms), ERR_UNREACHABLE);
        assert_in_range(ms, 0, FAST_MS);
        assert_int_equal(timed(&one, key_on(1 - dead, i), 1, &ms), ERR_OK);
        assert_in_range(ms, 0, FAST_MS);
        assert_int_equal(one.result[0], KEY_YES);
    }
}

static void wait_recovered(struct coordinator *c)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (coordinator_ask(c, OPERATION_CHECK, 0, KEYS) != ERR_OK)
        assert_true(clock_mono_us() < until);
    assert_int_equal(coordinator_results(c, KEYS, KEY_YES), KEYS);
}

static void test_operation__fails_at_once_where_a_node_is_dead(void **state)
{
    (void)state;
    for (unsigned dead = 0; dead < 2; dead++) { /* the node with the view, too: it is known */
        struct error e = {""};
        unsigned ms;
        temp_redis_kill(&servers.redis[dead]);
        assert_int_equal(timed(&one, key_on(dead, 0), 1, &ms), ERR_UNREACHABLE);
        assert_in_range(ms, COORDINATOR_TIMEOUT_MS / 2, 2 * COORDINATOR_TIMEOUT_MS); /* it might come back */
        run_until_dead(&one, dead);
        fails_fast(dead);
        must(temp_redis_restart(&servers.redis[dead], false, &e), e);
        client_close(&servers.client[dead]);
        must(client_open(&servers.client[dead], servers.redis[dead].port, 5000, &e), e);
        wait_recovered(&one);
        servers_flush(&servers); /* it came back empty */
        (void)teardown(NULL);
        (void)setup(NULL);
    }
}

/* It takes connections as ever, and answers nothing. */
static void test_operation__fails_at_once_where_a_node_is_stopped(void **state)
{
    (void)state;
    for (unsigned dead = 0; dead < 2; dead++) {
        unsigned ms;
        process_signal(&servers.redis[dead].process, SIGSTOP);
        (void)timed(&one, key_on(dead, 0), 1, &ms);
        run_until_dead(&one, dead);
        fails_fast(dead);
        process_signal(&servers.redis[dead].process, SIGCONT);
        wait_recovered(&one);
    }
}

/* Who does not know the view cannot ask any node. */
static void test_operation__fails_at_once_where_the_home_node_was_never_there(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned ms;
    temp_redis_kill(&servers.redis[0]);
    coordinator_open(&fresh, &servers, sourced);
    assert_int_equal(timed(&fresh, key_on(1, 0), 1, &ms), ERR_UNREACHABLE);
    run_until_dead(&fresh, 0);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(timed(&fresh, key_on(1, i), 1, &ms), ERR_UNREACHABLE);
        assert_in_range(ms, 0, FAST_MS);
        assert_int_equal(coordinator_ask(&fresh, OPERATION_ADD, key_on(1, i), 1), ERR_UNREACHABLE);
    }
    assert_non_null(strstr(fresh.error, servers.nodes.node[0].name));
    must(temp_redis_restart(&servers.redis[0], false, &e), e);
    client_close(&servers.client[0]);
    must(client_open(&servers.client[0], servers.redis[0].port, 5000, &e), e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_operation__fails_at_once_where_a_node_is_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_operation__fails_at_once_where_a_node_is_stopped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_operation__fails_at_once_where_the_home_node_was_never_there,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
