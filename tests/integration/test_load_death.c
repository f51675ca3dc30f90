/* SPDX-License-Identifier: MIT */
/* Death at every step of a load: the coordinator is killed at its n-th request to Redis, for n = 1, 2, 3 and
 * so on. The next coordinator finds nothing, or the whole filter, and can complete the load. */
#include "tests/integration/dumps.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

enum { HELD_MS = 20000, KEYS = 3000, REQUESTS_MAX = 400 };

static struct two two;
static struct proxy *proxy;
static struct daemon mortal; /* behind the proxy; two.to is a connection to it */

static struct daemon_options options_for(const char *nodes)
{
    return (struct daemon_options){.nodes = nodes,
                                   .service = "timeout = 20s\nthreads = 1\ncheck_interval = 1h\n",
                                   .redis = "prefix = other\ntimeout = 10s\n",
                                   .expansion = "lease = 300ms\n"};
}

static int setup(void **state)
{
    (void)state;
    static char nodes[64];
    unsigned route;
    uint16_t proxied;
    struct error e = {""};
    if (two_start(&two) != 0)
        return -1;
    must(proxy_start(&proxy, &e), e);
    proxy_count_as_job(proxy, "twinbloom-admin");
    must(proxy_add(proxy, WIRE_REDIS, two.redis.port, &route, &proxied, &e), e);
    (void)snprintf(nodes, sizeof(nodes), "redis://127.0.0.1:%u", proxied);
    const struct daemon_options o = options_for(nodes);
    assert_true(daemon_stop(&two.daemon, 20000)); /* this coordinator knows the node by another name, */
    struct client c = {0};
    must(client_open(&c, two.redis.port, TWO_REPLY_MS, &e), e);
    must(client_ok(&c, &e, "FLUSHALL"), e); /* and has stored that name there, maybe with its filter */
    client_close(&c);
    must(daemon_prepare(&mortal, &o, &e), e);
    return 0;
}

static void launch(void)
{
    struct error e = {""};
    client_close(&two.to);
    must(daemon_launch(&mortal, &e), e);
    must(client_open(&two.to, mortal.port, TWO_REPLY_MS, &e), e);
}

static int teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&mortal);
    proxy_stop(proxy);
    return two_stop(&two) == 0 && clean ? 0 : -1;
}

/* The reply to a piece. NULL: the coordinator is held. */
static redisReply *wait_reply(redisContext *c)
{
    uint64_t until = clock_mono_us() + HELD_MS * 1000ull;
    while (clock_mono_us() < until) {
        struct pollfd fd = {.fd = c->fd, .events = POLLIN};
        void *reply = NULL;
        assert_int_equal(redisGetReplyFromReader(c, &reply), REDIS_OK);
        if (reply != NULL || proxy_is_held(proxy))
            return reply;
        if (poll(&fd, 1, 5) == 1)
            assert_int_equal(redisBufferRead(c), REDIS_OK);
    }
    fail_msg("no reply, and not held");
    return NULL;
}

/* The lease of 300 ms may expire on a busy machine: the piece is refused, and may be sent again. */
static bool lease_was_lost(const char *why)
{
    return strstr(why, "MUTEXLOST the mutex ") == why && strstr(why, " was lost") != NULL;
}

/* Load until the coordinator is dead. True: the load ended before the @n-th request. */
static bool load_until_death(const struct dump *d, const char *name, uint64_t n, enum proxy_moment moment)
{
    bool held = false;
    redisContext *c = two.to.redis;
    proxy_count(proxy, "", n, moment);
    for (size_t i = 0; i < d->count && !held; i++) {
        char position[24];
        int done = 0, length = snprintf(position, sizeof(position), "%" PRId64, d->piece[i].position);
        const char *argv[] = {"BF.LOADCHUNK", name, position, d->piece[i].data};
        const size_t lengths[] = {12, strlen(name), (size_t)length, d->piece[i].length};
        assert_int_equal(redisAppendCommandArgv(c, 4, argv, lengths), REDIS_OK);
        while (!done)
            assert_int_equal(redisBufferWrite(c, &done), REDIS_OK);
        redisReply *reply = wait_reply(c);
        bool refused = reply != NULL && reply->type == REDIS_REPLY_ERROR;
        if (refused && !lease_was_lost(reply->str))
            fail_msg("request %" PRIu64 ", piece %zu: %s", n, i, reply->str);
        held = reply == NULL;
        i -= refused;
        freeReplyObject(reply);
    }
    daemon_kill(&mortal);
    proxy_release(proxy, false);
    return !held;
}

/* A coordinator that was not part of the load has all keys, or none. */
static void nothing_or_all(const char *name, uint64_t n)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(&two.to, name, fixture_code, 0, KEYS, &present, NULL, &e), e);
    if (present != 0 && present != KEYS)
        fail_msg("death at request %" PRIu64 ": %" PRIu64 " of %d keys are there", n, present, KEYS);
    redisReply *r = client_command(&two.to, "BF.CARD %s", name);
    if (present == 0 && r->integer != 0)
        fail_msg("death at request %" PRIu64 ": no keys, but %lld items", n, r->integer);
    freeReplyObject(r);
}

static enum err load_all(const struct dump *d, const char *name, struct error *e)
{
    enum err code = ERR_OK;
    for (size_t i = 0; i < d->count && code == ERR_OK; i++)
        do
            code = dump_load(&d->piece[i], &two.to, name, e);
        while (code == ERR_REFUSED && lease_was_lost(e->text));
    return code;
}

static void finish(const struct dump *d, const char *name, uint64_t n)
{
    struct error e = {""};
    redisReply *there = client_command(&two.to, "BF.INFO %s", name);
    bool made = there->type == REDIS_REPLY_ARRAY;
    freeReplyObject(there);
    enum err code = made ? ERR_OK : load_all(d, name, &e);
    if (code != ERR_OK)
        fail_msg("death at request %" PRIu64 ": %s", n, e.text);
    two_all_present(&two.to, name, 0, KEYS);
    two_same_info(&two, "deadly", name);
}

static void die_everywhere(enum proxy_moment moment, const char *prefix)
{
    static struct dump d;
    struct error e = {""};
    must(dump_rest(&d, &two.from, "deadly", &e), e);
    bool over = false;
    uint64_t n = 0;
    launch();
    while (!over && n < REQUESTS_MAX) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%s%" PRIu64, prefix, ++n);
        over = load_until_death(&d, name, n, moment);
        launch();
        nothing_or_all(name, n);
        finish(&d, name, n);
    }
    assert_true(over);
    assert_in_range(n, 20, REQUESTS_MAX);
    daemon_kill(&mortal);
    dump_free(&d);
}

static void test_load__dead_after_any_request_leaves_nothing_or_all(void **state)
{
    (void)state;
    struct dump d = {0};
    two_make_layers(&two, "deadly", &d);
    dump_free(&d);
    die_everywhere(PROXY_AFTER, "after");
}

static void test_load__dead_before_any_request_leaves_nothing_or_all(void **state)
{
    (void)state;
    die_everywhere(PROXY_BEFORE, "before");
}

/* Delete the load during its last chunk. True: the filter did not exist yet. */
static bool forget(const char *name)
{
    struct error e = {""};
    int64_t gone = 0;
    redisReply *r = client_command(&two.to_node, "HGET other:{%s}:load state", name);
    bool loading = r->type == REDIS_REPLY_STRING && strcmp(r->str, "loading") == 0;
    freeReplyObject(r);
    if (loading)
        must(client_integer(&two.to_node, &gone, &e, "DEL other:{%s}:load", name), e);
    return gone == 1;
}

static void test_load__that_is_given_up_makes_no_filter(void **state)
{
    (void)state;
    struct dump d = {0};
    struct error e = {""};
    bool held = true;
    uint64_t n = 0, forgotten = 0;
    must(dump_rest(&d, &two.from, "deadly", &e), e);
    const struct piece *last = &d.piece[d.count - 1];
    launch();
    while (held && n < REQUESTS_MAX) {
        char name[32], position[24];
        int done = 0, length = snprintf(position, sizeof(position), "%" PRId64, last->position);
        (void)snprintf(name, sizeof(name), "given%" PRIu64, ++n);
        for (size_t i = 0; i + 1 < d.count; i++)
            must(dump_load(&d.piece[i], &two.to, name, &e), e);
        const char *argv[] = {"BF.LOADCHUNK", name, position, last->data};
        const size_t lengths[] = {12, strlen(name), (size_t)length, last->length};
        proxy_count(proxy, "", n, PROXY_BEFORE);
        assert_int_equal(redisAppendCommandArgv(two.to.redis, 4, argv, lengths), REDIS_OK);
        while (!done)
            assert_int_equal(redisBufferWrite(two.to.redis, &done), REDIS_OK);
        redisReply *reply = wait_reply(two.to.redis);
        held = reply == NULL;
        bool forgot = held && forget(name);
        proxy_release(proxy, true);
        if (held && redisGetReply(two.to.redis, (void **)&reply) != REDIS_OK)
            fail_msg("request %" PRIu64 ": no reply", n);
        redisReply *there = client_command(&two.to, "BF.INFO %s", name);
        if (forgot && (reply->type != REDIS_REPLY_ERROR || there->type != REDIS_REPLY_ERROR))
            fail_msg("request %" PRIu64 ": the load was forgotten, and the filter is there", n);
        if (!forgot && held && there->type == REDIS_REPLY_ARRAY)
            two_all_present(&two.to, name, 0, KEYS);
        forgotten += forgot;
        freeReplyObject(reply);
        freeReplyObject(there);
    }
    assert_false(held);
    assert_in_range(forgotten, 5, REQUESTS_MAX);
    daemon_kill(&mortal);
    dump_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__dead_after_any_request_leaves_nothing_or_all),
        cmocka_unit_test(test_load__dead_before_any_request_leaves_nothing_or_all),
        cmocka_unit_test(test_load__that_is_given_up_makes_no_filter),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
