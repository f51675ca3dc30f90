/* SPDX-License-Identifier: MIT */
/* Checks and adds of threads without an event loop, on a real Redis: they hold up nobody when Redis hangs. */
#include "tests/integration/log_redis.h"

#include <stdio.h>
#include <string.h>

#include "shard/control/key_client.h"
#include "tests/lib/proxy.h"

enum { TIMEOUT_MS = 300, GUARD_MS = 5000, TRIES = 20 };

static enum err ask(struct key_client *c, bool adds, const char *key, uint8_t *answer, struct error *e)
{
    size_t length = strlen(key);
    return key_client_ask(c, adds, &key, &length, 1, answer, e);
}

/* The replies to one client come behind its deadline, when its thread has gone on to other things. */
static void test_a_client_whose_replies_are_late__holds_up_no_other(void **state)
{
    struct error e = {""};
    struct proxy *proxy;
    struct nodes through;
    struct filters *filters;
    unsigned route;
    uint16_t port;
    char url[64];
    uint8_t answer;
    (void)state;
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(log_member_make(on.link, &on.names, 1000, 1, 32768, &e), e);
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, on.redis.port, &route, &port, &e), e);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", port);
    must(nodes_parse(&through, url, &e), e);
    const struct filters_options o = {.nodes = &on.nodes,
                                      .prefix = "tb",
                                      .owner = "test",
                                      .memory = UINT64_MAX,
                                      .timeout_ms = GUARD_MS,
                                      .threads = 1,
                                      .log_max = UINT64_C(1) << 20};
    must(filters_new(&filters, &o, &e), e);
    struct key_client *late = NULL, *other = NULL;
    must(key_client_open(&late, filters, &through, TIMEOUT_MS, "f", 1, &e), e);
    must(key_client_open(&other, filters, &on.nodes, GUARD_MS, "f", 1, &e), e);
    must(ask(other, true, "a", &answer, &e), e);
    must(ask(late, false, "b", &answer, &e), e);
    proxy_set(proxy, route, &(struct proxy_fault){.swallow = true});
    enum err code;
    unsigned tries = 0;
    do /* the maintainer may just be reading the lane, for this check, too */
        code = ask(late, false, "b", &answer, &e);
    while (code == ERR_OK && ++tries < TRIES);
    assert_int_not_equal(code, ERR_OK);
    must(ask(other, true, "b", &answer, &e), e);
    assert_int_equal(answer, KEY_ADDED);
    proxy_lift(proxy);
    key_client_free(other);
    key_client_free(late);
    filters_free(filters, GUARD_MS);
    proxy_stop(proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_whose_replies_are_late__holds_up_no_other),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
