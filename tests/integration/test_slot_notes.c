/* SPDX-License-Identifier: MIT */
/* Notes of replication slots, on a real Redis: a coordinator names a slot while another one forgets it. */
#include "tests/integration/filters.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "expansion/follow/slots.h"
#include "tests/lib/client.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

#define FIELD "place/slot"

enum { REPLY_MS = 5000 };

static struct temp_redis redis;
static struct client client;
static struct proxy *proxy;
static struct nodes nodes;
static atomic_bool stop;

static int set_up(void **state)
{
    struct error e = {""};
    char url[64];
    unsigned route;
    uint16_t port;
    (void)state;
    must(temp_redis_start(&redis, NULL, &e), e);
    must(client_open(&client, redis.port, REPLY_MS, &e), e);
    must(proxy_start(&proxy, &e), e);
    proxy_count_as_job(proxy, "*");
    must(proxy_add(proxy, WIRE_REDIS, redis.port, &route, &port, &e), e);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", (unsigned)port);
    must(nodes_parse(&nodes, url, &e), e);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client_close(&client);
    proxy_stop(proxy);
    temp_redis_fini(&redis);
    return 0;
}

static void *reconcile(void *arg)
{
    struct error *e = arg;
    const struct slots_options o = {
        .nodes = &nodes, .prefix = "tb", .dsn = "", .redis_timeout_ms = REPLY_MS, .stop = &stop};
    must(slots_reconcile(&o, e), *e);
    return NULL;
}

/* What the note says once a coordinator has forgotten it, which named it meanwhile as @meanwhile (NULL:
 * none). */
static void forgets(const char *meanwhile, const char *expected)
{
    struct error e = {""};
    pthread_t thread;
    freeReplyObject(client_command(&client, "HSET tb:slots " FIELD " malformed"));
    proxy_count_only(proxy, FIELD);
    proxy_count(proxy, "", 1, PROXY_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, reconcile, &e), 0);
    assert_true(proxy_await_held(proxy, REPLY_MS));
    if (meanwhile != NULL)
        freeReplyObject(client_command(&client, "HSET tb:slots " FIELD " %s", meanwhile));
    proxy_release(proxy, true);
    (void)pthread_join(thread, NULL);
    redisReply *r = client_command(&client, "HGET tb:slots " FIELD);
    assert_non_null(r);
    assert_string_equal(r->type == REDIS_REPLY_STRING ? r->str : "", expected);
    freeReplyObject(r);
}

static void test_a_note__is_forgotten(void **state)
{
    (void)state;
    forgets(NULL, "");
}

static void test_a_note_that_is_written_meanwhile__stays(void **state)
{
    (void)state;
    forgets("1700000000000:f", "1700000000000:f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_note__is_forgotten),
        cmocka_unit_test(test_a_note_that_is_written_meanwhile__stays),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
