/* SPDX-License-Identifier: MIT */
/* A registry is lost while keys are searched to complete it; or was lost alone. */
#include "tests/integration/log_redis.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "shard/request/log_filter_state.h"
#include "shard/view/registry.h"
#include "tests/lib/proxy.h"

enum { REPLY_MS = 5000, WAIT_US = 10 * 1000 * 1000, FILTERS = 40, REQUESTS_MAX = 100 };

#define REGISTRY "tb:incarnations"

static struct proxy *proxy;

struct search {
    struct nodes nodes;
    struct sync_client *link;
    pthread_t thread;
    atomic_bool ended;
    enum err code;
    struct error e;
};

static int start(void **state)
{
    struct error e = {""};
    must(proxy_start(&proxy, &e), e);
    return log_redis_start(state);
}

static int stop(void **state)
{
    proxy_stop(proxy);
    return log_redis_stop(state);
}

static int64_t integer(const char *command)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_integer(&on.client, &n, &e, command), e);
    return n;
}

/* A shard of each filter, but neither views nor a registry. */
static void leave_only_shards(void)
{
    struct error e = {""};
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    assert_int_equal(integer("SADD tb:filters f0"), 1);
    for (unsigned i = 0; i < FILTERS; i++)
        must(client_ok(&on.client, &e, "SET tb:{f%u.0.0.0}:000000000000000a shard", i), e);
}

static void *complete(void *arg)
{
    struct search *s = arg;
    struct handle f = {.redis = s->link, .names = on.names};
    s->code = registry_complete(&f, &s->e);
    handle_fini(&f);
    atomic_store(&s->ended, true);
    return NULL;
}

/* Search, and lose the registry before the @n-th request. False: there were fewer requests. */
static bool lose_before(struct search *s, uint64_t n)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    leave_only_shards();
    atomic_store(&s->ended, false);
    proxy_count(proxy, "", n, PROXY_BEFORE);
    assert_int_equal(pthread_create(&s->thread, NULL, complete, s), 0);
    while (!proxy_is_held(proxy) && !atomic_load(&s->ended) && clock_mono_us() < until)
        clock_sleep_us(1000);
    bool held = proxy_is_held(proxy);
    assert_true(held || atomic_load(&s->ended));
    if (held)
        (void)integer("DEL " REGISTRY);
    proxy_release(proxy, true);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    must(s->code, s->e);
    return held;
}

static void test_a_registry_that_is_lost_during_the_search__is_not_complete_without_its_names(void **state)
{
    static struct search s;
    struct error e = {""};
    unsigned route, complete_ones = 0;
    uint16_t port;
    char url[64];
    (void)state;
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, on.redis.port, &route, &port, &e), e);
    proxy_count_as_job(proxy, "searches");
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", port);
    must(nodes_parse(&s.nodes, url, &e), e);
    s.link = sync_client_new(&s.nodes, REPLY_MS, "searches");
    assert_non_null(s.link);
    uint64_t n = 1;
    for (bool held = true; held; n++) {
        assert_true(n < REQUESTS_MAX);
        held = lose_before(&s, n);
        bool is_complete = integer("HEXISTS " REGISTRY " {complete}") == 1;
        int64_t named = integer("HLEN " REGISTRY) - is_complete;
        if (is_complete && named != FILTERS)
            fail_msg("lost before request %" PRIu64 ": complete with %" PRId64 " names", n, named);
        complete_ones += is_complete;
        if (!held)
            assert_true(is_complete);
    }
    assert_true(n > 4 && complete_ones > 1);
    sync_client_free(s.link);
}

static bool names_another(const char *filter)
{
    struct error e = {""};
    struct handle f = {.redis = on.link};
    bool named = false;
    must(names_init(&f.names, "tb", filter, strlen(filter), &e), e);
    f.names.incarnation = 11;
    must(registry_enter(&f, &named, &e), e);
    handle_fini(&f);
    return named;
}

/* Redis may evict single keys, even if it has not yet, as far as it tells. */
static void test_a_registry_that_may_be_evicted__does_not_deny_a_filter(void **state)
{
    struct error e = {""};
    (void)state;
    leave_only_shards();
    assert_int_equal(integer("DEL tb:filters"), 1);
    must(client_ok(&on.client, &e, "CONFIG RESETSTAT"), e);
    must(client_ok(&on.client, &e, "CONFIG SET maxmemory-policy allkeys-random"), e);
    bool named = names_another("f0");
    must(client_ok(&on.client, &e, "CONFIG SET maxmemory-policy noeviction"), e);
    assert_true(named);
}

/* A search that finds shards of two incarnations names none of them. */
static void test_a_filter_that_is_found_twice__is_named_as_that(void **state)
{
    struct error e = {""};
    struct handle f = {.redis = on.link, .names = on.names};
    (void)state;
    leave_only_shards();
    must(client_ok(&on.client, &e, "SET tb:{f1.0.0.0}:000000000000000b shard"), e);
    must(registry_complete(&f, &e), e);
    assert_int_equal(integer("HSTRLEN " REGISTRY " f0"), 16);
    assert_int_equal(integer("HSTRLEN " REGISTRY " f1"), strlen("several"));
    handle_fini(&f);
}

/* The registry names it under several incarnations, and each may have to be searched for later. */
static void test_a_filter_of_several_incarnations__leaves_the_list_alone(void **state)
{
    struct error e = {""};
    struct handle f = {.redis = on.link};
    (void)state;
    must(names_init(&f.names, "tb", "twice", 5, &e), e);
    assert_int_equal(integer("HSET " REGISTRY " twice several"), 1);
    assert_int_equal(integer("SADD tb:filters twice"), 1);
    must(registry_leave(&f, 11, &e), e);
    assert_int_equal(integer("SISMEMBER tb:filters twice"), 0);
    assert_int_equal(integer("HSTRLEN " REGISTRY " twice"), strlen("several"));
    handle_fini(&f);
}

static void succeeds(uint64_t incarnation, enum err expected)
{
    struct error e = {""};
    struct handle f = {.redis = on.link};
    must(names_init(&f.names, "tb", "later", 5, &e), e);
    f.names.incarnation = incarnation;
    gives(expected, registry_succeed(&f, &e), e);
    handle_fini(&f);
}

/* Who slept while it made a filter again does not take the place of who did so meanwhile. */
static void test_a_later_incarnation__stays_named(void **state)
{
    (void)state;
    succeeds(12, ERR_OK);
    succeeds(11, ERR_CONFLICT);
    assert_int_equal(integer("HSTRLEN " REGISTRY " later"), 16);
    succeeds(12, ERR_OK);
    succeeds(13, ERR_OK);
}

/* Redis was allowed to evict single keys, and is not any more. What is left names the filter. */
static void test_a_registry_that_was_evicted__does_not_deny_a_filter(void **state)
{
    struct error e = {""};
    (void)state;
    leave_only_shards();
    assert_int_equal(integer("DEL tb:filters"), 1);
    must(client_ok(&on.client, &e, "SET evicted x EX 1000"), e);
    must(client_ok(&on.client, &e, "CONFIG SET maxmemory-policy volatile-random"), e);
    must(client_ok(&on.client, &e, "CONFIG SET maxmemory 1"), e);
    gives(ERR_REFUSED, client_ok(&on.client, &e, "SET refused x"), e);
    must(client_ok(&on.client, &e, "CONFIG SET maxmemory 0"), e);
    must(client_ok(&on.client, &e, "CONFIG SET maxmemory-policy noeviction"), e);
    assert_int_equal(integer("EXISTS evicted"), 0);
    assert_true(names_another("f0"));
    assert_false(names_another("another"));
}

/* Whoever meets it learns which key is in the way. */
static void test_a_foreign_key_in_place_of_a_registry__is_named(void **state)
{
    static const char foreign[] =
        ": " REGISTRY " is not a hash, or tb:filters is not a set: delete or rename the foreign key";
    struct error e = {""};
    struct handle f = {.redis = on.link};
    struct registry_said said;
    bool named = false;
    (void)state;
    must(names_init(&f.names, "tb", "f", 1, &e), e);
    f.names.incarnation = 11;
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(client_ok(&on.client, &e, "SET " REGISTRY " x"), e);
    gives(ERR_REFUSED, registry_enter(&f, &named, &e), e);
    assert_non_null(strstr(e.text, foreign));
    gives(ERR_REFUSED, registry_leave(&f, 11, &e), e);
    assert_non_null(strstr(e.text, foreign));
    gives(ERR_REFUSED, registry_complete(&f, &e), e);
    assert_non_null(strstr(e.text, foreign));
    gives(ERR_REFUSED, registry_look(on.link, &f.names, &said, &e), e);
    assert_non_null(strstr(e.text, REGISTRY " is not a hash: delete or rename the foreign key"));
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(client_ok(&on.client, &e, "SET tb:filters x"), e);
    gives(ERR_REFUSED, registry_leave(&f, 11, &e), e);
    assert_non_null(strstr(e.text, foreign));
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    handle_fini(&f);
}

/* A filter of its own, to which it has added @keys keys. */
static void open_with_keys(struct log_member *m, unsigned keys)
{
    enum { TIMEOUT_MS = 500 };
    struct error e = {""};
    log_redis_make(1000, 1, 4096);
    const struct log_member_options o = {
        .nodes = &on.nodes, .names = &on.names, .memory = UINT64_MAX, .timeout_ms = TIMEOUT_MS};
    must(log_member_open(m, &o, &e), e);
    assert_int_equal(log_member_added(m, 0, keys), keys);
}

/* The view changed, so the lane waits for a look at it, which fails. */
static void test_a_foreign_key_in_place_of_a_registry__is_named_while_a_filter_is_open(void **state)
{
    enum { KEYS = 10 };
    struct error e = {""};
    struct log_member m;
    uint8_t answers[KEYS];
    (void)state;
    open_with_keys(&m, KEYS);
    must(client_ok(&on.client, &e, "SET " REGISTRY " x"), e);
    must(client_ok(&on.client, &e, "DEBUG CHANGE-REPL-ID"), e);
    gives(ERR_TIMEOUT, log_member_check(&m, KEYS, KEYS, answers, &e), e);
    assert_non_null(strstr(e.text, REGISTRY " is not a hash: delete or rename the foreign key"));
    assert_int_equal(integer("DEL " REGISTRY), 1);
    assert_int_equal(log_member_count(&m, 0, KEYS, KEY_PRESENT), KEYS);
    log_member_close(&m);
}

/* The control's last call failed, as a lane waited; the lane is read again, and its node stops. */
static void test_a_node_that_stops_behind_a_failure_of_the_control__is_named(void **state)
{
    enum { KEYS = 10 };
    struct error e = {""};
    struct log_member m;
    uint8_t answers[KEYS];
    (void)state;
    open_with_keys(&m, KEYS);
    log_member_pause(&m);
    (void)snprintf(m.filter->why, sizeof(m.filter->why), "a lane waits for the view");
    process_signal(&on.redis.process, SIGSTOP);
    gives(ERR_TIMEOUT, log_member_check(&m, KEYS, KEYS, answers, &e), e);
    process_signal(&on.redis.process, SIGCONT);
    assert_non_null(strstr(e.text, "did not answer within the deadline"));
    log_member_go_on(&m);
    log_member_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_registry_that_is_lost_during_the_search__is_not_complete_without_its_names),
        cmocka_unit_test(test_a_registry_that_may_be_evicted__does_not_deny_a_filter),
        cmocka_unit_test(test_a_registry_that_was_evicted__does_not_deny_a_filter),
        cmocka_unit_test(test_a_foreign_key_in_place_of_a_registry__is_named),
        cmocka_unit_test(test_a_filter_that_is_found_twice__is_named_as_that),
        cmocka_unit_test(test_a_filter_of_several_incarnations__leaves_the_list_alone),
        cmocka_unit_test(test_a_later_incarnation__stays_named),
        cmocka_unit_test(test_a_foreign_key_in_place_of_a_registry__is_named_while_a_filter_is_open),
        cmocka_unit_test(test_a_node_that_stops_behind_a_failure_of_the_control__is_named),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
