/* SPDX-License-Identifier: MIT */
/* A master becomes a replica, and the address of its node leads to the server that took its place.
 * Connections outlive that: nothing closes them but this side. */
#include "tests/integration/log_members.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "base/clock.h"
#include "shard/control/key_client.h"
#include "shard/redis/acks.h"
#include "shard/view/handle.h"
#include "shard/view/registry.h"
#include "shard/view/view_load.h"
#include "tests/lib/daemon.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

enum { FORMER, NEXT, SERVERS, REPLY_MS = 5000, KEYS = 100, GUARD_US = 20 * 1000 * 1000 };

static struct temp_redis server[SERVERS];
static struct client client[SERVERS];
static struct proxy *proxy;
static unsigned route;
static struct nodes nodes; /* one node, behind the proxy */
static struct sync_client *l;
static struct names names;
static uint8_t answers[KEYS];

static int set_up(void **state)
{
    struct error e = {""};
    uint16_t port;
    char url[64];
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(proxy_start(&proxy, &e), e);
    for (unsigned i = 0; i < SERVERS; i++) {
        must(temp_redis_start(&server[i], NULL, &e), e);
        must(client_open(&client[i], server[i].port, REPLY_MS, &e), e);
        must(client_ok(&client[i], &e, "CONFIG SET repl-diskless-sync-delay 0"), e);
    }
    must(client_ok(&client[NEXT], &e, "REPLICAOF 127.0.0.1 %u", server[FORMER].port), e);
    must(proxy_add(proxy, WIRE_REDIS, server[FORMER].port, &route, &port, &e), e);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", port);
    must(nodes_parse(&nodes, url, &e), e);
    l = sync_client_new(&nodes, REPLY_MS, NULL);
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, 100 * KEYS, 1, 32768, &e), e);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sync_client_free(l);
    for (unsigned i = 0; i < SERVERS; i++) {
        client_close(&client[i]);
        temp_redis_fini(&server[i]);
    }
    proxy_stop(proxy);
    return 0;
}

/* Wait until the replica has all that its master has. */
static void await_replica(void)
{
    struct error e = {""};
    int64_t replicas = 0;
    uint64_t until = clock_mono_us() + GUARD_US;
    while (replicas != 1) {
        assert_true(clock_mono_us() < until);
        must(client_ok(&client[FORMER], &e, "SET probe 1"), e);
        must(client_integer(&client[FORMER], &replicas, &e, "WAIT 1 100"), e);
    }
}

/* In the right order: no two servers are masters at a time. The former master does not hear of the next one,
 * and keeps its data. */
static void fail_over(void)
{
    struct error e = {""};
    await_replica();
    must(client_ok(&client[FORMER], &e, "REPLICAOF 127.0.0.1 1"), e);
    proxy_lead(proxy, route, server[NEXT].port);
    must(client_ok(&client[NEXT], &e, "REPLICAOF NO ONE"), e);
}

static void test_a_process__goes_on_at_the_next_master(void **state)
{
    struct error e = {""};
    static struct log_member m;
    uint64_t until;
    (void)state;
    log_members_open(&m, &nodes, &names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    fail_over();
    until = clock_mono_us() + GUARD_US;
    while (log_member_add(&m, KEYS, KEYS, answers, &e) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    assert_int_equal(log_member_count(&m, 0, 2 * KEYS, KEY_PRESENT), 2 * KEYS);
    log_member_close(&m);
}

/* The former master does not have a filter that was made at the next one. */
static void test_a_filter__is_not_denied_by_a_replica(void **state)
{
    struct error e = {""};
    struct filters *filters;
    struct key_client *c = NULL;
    static struct log_member m;
    struct names later;
    const char *key = "0";
    size_t length = 1;
    uint8_t answer = KEY_NO_ANSWER;
    const struct filters_options o = {.nodes = &nodes,
                                      .prefix = "tb",
                                      .owner = "test",
                                      .memory = UINT64_MAX,
                                      .timeout_ms = REPLY_MS,
                                      .threads = 1,
                                      .log_max = UINT64_C(1) << 20};
    (void)state;
    must(filters_new(&filters, &o, &e), e);
    must(key_client_open(&c, filters, &nodes, REPLY_MS, "f", 1, &e), e);
    must(key_client_ask(c, false, &key, &length, 1, &answer, &e), e);
    fail_over();
    struct sync_client *fresh = sync_client_new(&nodes, REPLY_MS, NULL);
    must(names_init(&later, "tb", "g", 1, &e), e);
    must(log_member_make(fresh, &later, 100 * KEYS, 1, 32768, &e), e);
    log_members_open(&m, &nodes, &later, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, 1), 1);
    must(key_client_open(&c, filters, &nodes, REPLY_MS, "g", 1, &e), e);
    must(key_client_ask(c, false, &key, &length, 1, &answer, &e), e);
    assert_int_equal(answer, KEY_PRESENT);
    log_member_close(&m);
    key_client_free(c);
    filters_free(filters, REPLY_MS);
    sync_client_free(fresh);
}

/* No reply of a replica says what there is. */
static void test_a_view__is_not_read_from_a_replica(void **state)
{
    struct error e = {""};
    struct log_view *view = calloc(1, sizeof(*view));
    struct names none;
    (void)state;
    must(names_init(&none, "tb", "none", 4, &e), e);
    gives(ERR_NOT_FOUND, log_view_load(l, &none, view, &e), e);
    fail_over();
    gives(ERR_UNREACHABLE, log_view_load(l, &none, view, &e), e);
    must(log_view_load(l, &names, view, &e), e);
    free(view);
}

/* --- a server that was left behind --- */

/* The former master runs on, as it was, and its address leads back to it. The view has never taken its
 * replication id, as it had it from the beginning. */
static void test_a_server_that_was_left_behind__is_not_a_new_one(void **state)
{
    struct error e = {""};
    static struct log_member m, reader;
    uint64_t until = clock_mono_us() + GUARD_US;
    (void)state;
    await_replica();
    must(client_ok(&client[FORMER], &e, "FLUSHALL"), e); /* its id is another one since the replica came */
    must(log_member_make(l, &names, 100 * KEYS, 1, 32768, &e), e);
    log_members_open(&m, &nodes, &names, 0, true);
    log_members_open(&reader, &nodes, &names, 0, false);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    assert_int_equal(log_member_count(&reader, 0, KEYS, KEY_PRESENT), KEYS);
    await_replica();
    must(client_ok(&client[NEXT], &e, "REPLICAOF NO ONE"), e);
    proxy_aim(proxy, route, server[NEXT].port);
    while (log_member_add(&m, KEYS, KEYS, answers, &e) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    while (log_member_check(&reader, KEYS, KEYS, answers, &e) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    log_member_pause(&m);
    proxy_aim(proxy, route, server[FORMER].port);
    for (unsigned i = 0; i < 100; i++) {
        if (log_member_check(&reader, KEYS, KEYS, answers, &e) == ERR_OK)
            for (unsigned k = 0; k < KEYS; k++)
                assert_int_not_equal(answers[k], KEY_ABSENT);
        clock_sleep_us(20 * 1000);
    }
    log_member_go_on(&m);
    log_member_abandon(&m);
    log_member_abandon(&reader);
}

/* --- which filters there are --- */

static enum err look_at_registry(struct sync_client *c, struct error *e)
{
    struct registry_said said;
    return registry_look(c, &names, &said, e);
}

static enum err look_at_deleted(struct sync_client *c, struct error *e)
{
    uint64_t deleted;
    return registry_look_deleted(c, &names, &deleted, e);
}

static enum err scan(struct sync_client *c, struct error *e)
{
    struct buffer pattern = {0};
    char cursor[SYNC_CLIENT_CURSOR] = "0";
    redisReply *page;
    buffer_puts(&pattern, "*");
    enum err code = sync_client_scan(c, NODE_HOME, cursor, &pattern, NULL, &page, e);
    buffer_fini(&pattern);
    freeReplyObject(page);
    return code;
}

static enum err load_handle(struct sync_client *c, struct error *e)
{
    struct handle f = {.redis = c, .names = names};
    struct view *v = calloc(1, sizeof(*v));
    enum err code = handle_load(&f, v, e);
    handle_fini(&f);
    free(v);
    return code;
}

static enum err list_names(struct sync_client *c, struct error *e)
{
    return sync_client_command(c, NODE_HOME, NULL, e, "SMEMBERS tb:filters");
}

/* Each question over a connection of its own, which was made before. */
static void test_what_there_is__is_not_asked_of_a_replica(void **state)
{
    enum err (*const ask[])(struct sync_client * c, struct error * e) = {look_at_registry, look_at_deleted,
                                                                         scan, load_handle, list_names};
    enum { QUESTIONS = sizeof(ask) / sizeof(ask[0]) };
    struct sync_client *old[QUESTIONS];
    struct error e = {""};
    (void)state;
    for (unsigned i = 0; i < QUESTIONS; i++) {
        old[i] = sync_client_new(&nodes, REPLY_MS, NULL);
        must(ask[i](old[i], &e), e);
    }
    fail_over();
    for (unsigned i = 0; i < QUESTIONS; i++) {
        gives(ERR_UNREACHABLE, ask[i](old[i], &e), e);
        must(ask[i](old[i], &e), e);
        sync_client_free(old[i]);
    }
}

/* The reply to @command, once the node answers. */
static int64_t told(struct client *c, const char *command)
{
    struct error e = {""};
    int64_t n = -1;
    uint64_t until = clock_mono_us() + GUARD_US;
    while (client_integer(c, &n, &e, command) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    return n;
}

static void test_names__are_not_denied_by_a_replica(void **state)
{
    enum { STOP_MS = 10000 };
    static struct daemon d;
    struct client c = {0};
    struct error e = {""};
    char list[NODE_NAME_MAX + 16];
    (void)state;
    (void)snprintf(list, sizeof(list), "redis://%s", nodes.node[0].name);
    const struct daemon_options o = {.nodes = list, .redis = "prefix = tb\n"};
    must(daemon_start(&d, &o, &e), e);
    must(client_open(&c, d.port, REPLY_MS, &e), e);
    assert_int_equal(told(&c, "EXISTS f g"), 1);
    assert_int_equal(told(&c, "DBSIZE"), 0);
    fail_over();
    struct sync_client *fresh = sync_client_new(&nodes, REPLY_MS, NULL);
    struct names later;
    must(names_init(&later, "tb", "g", 1, &e), e);
    must(log_member_make(fresh, &later, 100 * KEYS, 1, 32768, &e), e);
    must(sync_client_command(fresh, NODE_HOME, NULL, &e, "SADD tb:filters g"), e);
    assert_int_equal(told(&c, "EXISTS f g"), 2);
    must(client_ok(&client[NEXT], &e, "REPLICAOF 127.0.0.1 1"), e); /* the daemon is connected to it by now */
    must(client_ok(&client[FORMER], &e, "REPLICAOF NO ONE"), e);
    proxy_lead(proxy, route, server[FORMER].port);
    assert_int_equal(told(&c, "DBSIZE"), 0);
    sync_client_free(fresh);
    client_close(&c);
    assert_true(daemon_stop(&d, STOP_MS));
    assert_true(daemon_fini(&d));
}

/* --- acknowledgements --- */

struct acked {
    bool is_told;
    enum ack_outcome outcome;
};

static void on_acked(void *arg, enum ack_outcome outcome, const char *why)
{
    struct acked *a = arg;
    (void)why;
    *a = (struct acked){.is_told = true, .outcome = outcome};
}

static void test_acknowledgements__are_asked_of_the_next_master(void **state)
{
    static const char key[] = "tb:{f}:view";
    const struct ack_need need = {.replicas = 0, .fsync = false, .timeout_ms = 100};
    struct event_base *base = event_base_new();
    struct async_client *async = async_client_new(base, &nodes, REPLY_MS, NULL);
    uint64_t until = clock_mono_us() + GUARD_US;
    struct acked a = {.outcome = ACK_BROKEN};
    unsigned given = 0;
    (void)state;
    while (given < 2 && clock_mono_us() < until) {
        a.is_told = false;
        if (async_client_await_acks(async, NODE_HOME, key, sizeof(key) - 1, 0, &need, on_acked, &a))
            while (!a.is_told)
                (void)event_base_loop(base, EVLOOP_ONCE);
        else
            (void)event_base_loop(base, EVLOOP_ONCE);
        if (a.outcome == ACK_GIVEN && given++ == 0)
            fail_over();
        a.outcome = ACK_BROKEN;
    }
    async_client_free(async);
    event_base_free(base);
    assert_int_equal(given, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_process__goes_on_at_the_next_master, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_filter__is_not_denied_by_a_replica, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_view__is_not_read_from_a_replica, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_was_left_behind__is_not_a_new_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_there_is__is_not_asked_of_a_replica, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names__are_not_denied_by_a_replica, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_acknowledgements__are_asked_of_the_next_master, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
