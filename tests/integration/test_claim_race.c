/* SPDX-License-Identifier: MIT */
/* Two coordinators with different lists of nodes, each the first on its nodes, start at the same moment. One
 * is held between its check of the nodes and its write; meanwhile the other one starts and makes a filter. */
#include "tests/integration/fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/view/claim.h"
#include "tests/lib/proxy.h"

enum { HELD_MS = 10000, REQUESTS_MAX = 50, HOME = 0, OURS = 1, THEIRS = 2, SERVERS = 3 };

static struct temp_redis redis[SERVERS];
static struct proxy *proxy;
static uint16_t home; /* the proxy's port for the metadata node */
static struct daemon daemon_;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned route;
    for (unsigned i = 0; i < SERVERS; i++)
        must(temp_redis_start(&redis[i], NULL, &e), e);
    must(proxy_start(&proxy, &e), e);
    proxy_count_as_job(proxy, "held");
    must(proxy_add(proxy, WIRE_REDIS, redis[HOME].port, &route, &home, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&daemon_);
    proxy_stop(proxy);
    for (unsigned i = 0; i < SERVERS; i++)
        temp_redis_fini(&redis[i]);
    return clean ? 0 : -1;
}

static void list_of(unsigned other, char out[64])
{
    (void)snprintf(out, 64, "127.0.0.1:%u, 127.0.0.1:%u", home, redis[other].port);
}

/* --- the one that is held --- */

struct start {
    struct nodes nodes;
    struct sync_client *link;
    pthread_t thread;
    enum err code;
    bool whole;
    struct error e;
};

static void *claim(void *arg)
{
    struct start *s = arg;
    s->code = claim_nodes(s->link, "twinbloom", &s->whole, &s->e);
    return NULL;
}

static struct start *start_held(uint64_t n, enum proxy_moment moment)
{
    char text[128];
    struct error e = {""};
    struct start *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    (void)snprintf(text, sizeof(text), "redis://127.0.0.1:%u, %s", home, redis[THEIRS].url);
    must(nodes_parse(&s->nodes, text, &e), e);
    s->link = sync_client_new(&s->nodes, HELD_MS, "held");
    assert_non_null(s->link);
    proxy_count(proxy, "", n, moment);
    assert_int_equal(pthread_create(&s->thread, NULL, claim, s), 0);
    (void)proxy_await_held(proxy, HELD_MS);
    return s;
}

static void let_go(struct start *s)
{
    proxy_release(proxy, true);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
}

static void forget(struct start *s)
{
    sync_client_free(s->link);
    free(s);
}

/* --- the other one --- */

static void to(unsigned server, const char *command, char *out, size_t size)
{
    struct error e = {""};
    struct client c = {0};
    must(client_open(&c, redis[server].port, HELD_MS, &e), e);
    redisReply *r = redisCommand(c.redis, command);
    assert_non_null(r);
    if (out != NULL)
        (void)snprintf(out, size, "%s", r->str != NULL ? r->str : "");
    freeReplyObject(r);
    client_close(&c);
}

static void start_and_make_a_filter(void)
{
    char nodes[128];
    struct error e = {""};
    struct client c = {0};
    (void)snprintf(nodes, sizeof(nodes), "redis://127.0.0.1:%u, %s", home, redis[OURS].url);
    must(daemon_start(&daemon_, &(struct daemon_options){.nodes = nodes, .redis = "shard_bytes = 16KiB\n"},
                      &e),
         e);
    must(client_open(&c, daemon_.port, HELD_MS, &e), e);
    must(client_ok(&c, &e, "BF.RESERVE spread 0.001 1000000"), e);
    client_close(&c);
}

/* The number of the request after which the metadata node has a list of nodes. */
static uint64_t request_that_writes(void)
{
    char list[128] = "";
    uint64_t n = 0;
    while (list[0] == '\0' && ++n < REQUESTS_MAX) {
        struct start *s = start_held(n, PROXY_AFTER);
        assert_true(proxy_is_held(proxy));
        to(HOME, "GET twinbloom:nodes", list, sizeof(list));
        let_go(s);
        assert_int_equal(s->code, ERR_OK);
        forget(s);
        for (unsigned i = 0; i < SERVERS; i++)
            to(i, "FLUSHALL", NULL, 0);
    }
    return n;
}

static void test_claim_nodes__does_not_write_over_a_list_that_it_has_not_judged(void **state)
{
    (void)state;
    char ours[64], theirs[64], list[128];
    list_of(OURS, ours);
    list_of(THEIRS, theirs);
    struct start *s = start_held(request_that_writes(), PROXY_BEFORE);
    to(HOME, "GET twinbloom:nodes", list, sizeof(list));
    assert_string_equal(list, "");
    start_and_make_a_filter();
    let_go(s);
    to(HOME, "GET twinbloom:nodes", list, sizeof(list));
    assert_string_equal(list, ours);
    assert_int_equal(s->code, ERR_CONFIG);
    if (strstr(s->e.text, ours) == NULL || strstr(s->e.text, theirs) == NULL)
        fail_msg("the error lacks a list: %s", s->e.text);
    forget(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claim_nodes__does_not_write_over_a_list_that_it_has_not_judged),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
