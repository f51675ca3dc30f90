/* SPDX-License-Identifier: MIT */
/* A process that loads a filter counts its keys, though another process folds at any moment meanwhile. */
#include "tests/integration/log_redis.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "shard/request/log_filter_state.h"
#include "shard/view/view_load.h"
#include "tests/lib/proxy.h"

enum { REPLY_MS = 20000, KEYS = 60, MOMENTS_LEAST = 20, MOMENTS = 40, WAIT_US = 20 * 1000 * 1000 };

static const char late_name[] = "late";
static struct proxy *proxy;
static struct nodes nodes; /* through the proxy */
static struct log_member folder;
static uint64_t keys;

static int set_up(void **state)
{
    struct error e = {""};
    char url[64];
    unsigned route;
    uint16_t port;
    must(proxy_start(&proxy, &e), e);
    if (log_redis_start(state) != 0)
        return -1;
    must(proxy_add(proxy, WIRE_REDIS, on.redis.port, &route, &port, &e), e);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", port);
    must(nodes_parse(&nodes, url, &e), e);
    proxy_count_as_job(proxy, late_name);
    struct sync_client *l = sync_client_new(&nodes, REPLY_MS, NULL);
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &on.names, 100000, 2, 32768, &e), e);
    sync_client_free(l);
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &on.names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = WAIT_US,
                                         .look_interval_us = 50 * 1000,
                                         .folds = true};
    must(log_member_open(&folder, &o, &e), e);
    return 0;
}

static int tear_down(void **state)
{
    log_member_close(&folder);
    proxy_stop(proxy);
    return log_redis_stop(state);
}

static uint64_t stored(void)
{
    struct error e = {""};
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    return on.view->slot[on.view->current].keys;
}

static bool wait_until_stored(void)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    while (stored() != keys && clock_mono_us() < until)
        clock_sleep_us(2000);
    return stored() == keys;
}

/* Half of the keys are repeated. */
static void adds_some(void)
{
    keys += log_member_added(&folder, keys - (keys == 0 ? 0 : KEYS / 2), KEYS);
}

struct moment {
    atomic_bool over, was_held, folded;
};

/* When the late process is held, the other one folds. */
static void *fold_when_held(void *arg)
{
    struct moment *m = arg;
    while (!atomic_load(&m->over) && !proxy_is_held(proxy))
        clock_sleep_us(500);
    if (!proxy_is_held(proxy))
        return NULL;
    m->was_held = true;
    log_member_go_on(&folder);
    m->folded = wait_until_stored();
    log_member_pause(&folder);
    proxy_release(proxy, true);
    return NULL;
}

/* Wait until the process has counted all keys. Returns its own count, without the view's. */
static uint64_t counted_by(struct log_member *m)
{
    uint64_t until = clock_mono_us() + WAIT_US, n = 0;
    for (bool counts = false; !counts; clock_sleep_us(1000)) {
        (void)pthread_rwlock_rdlock(&m->filter->lock);
        const struct held *h = m->filter->slot[m->filter->current];
        counts = h->counts;
        n = held_own_keys(h);
        (void)pthread_rwlock_unlock(&m->filter->lock);
        if (!counts && clock_mono_us() > until)
            fail_msg("not all keys were counted after %d ms", WAIT_US / 1000);
    }
    return n;
}

/* Another process folds before the request @moment since the beginning of the load. False: there were fewer
 * requests. */
static bool counts_though_another_one_folds_at(uint64_t moment)
{
    struct error e = {""};
    struct moment m = {.over = false};
    struct log_member late;
    pthread_t thread;
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &on.names,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = WAIT_US,
                                         .look_interval_us = WAIT_US,
                                         .sync_client_name = late_name};
    log_member_pause(&folder);
    adds_some();
    must(log_member_open(&late, &o, &e), e);
    assert_int_equal(log_member_count(&late, 0, KEYS, KEY_PRESENT), KEYS);
    proxy_count(proxy, "", moment, PROXY_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, fold_when_held, &m), 0);
    late.budget.limit = UINT64_MAX; /* the lanes are read, and now shards are loaded */
    log_filter_look(late.filter);
    uint64_t counted = counted_by(&late);
    m.over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (counted != keys)
        fail_msg("%llu keys, %llu were counted; a folder was active before request %llu",
                 (unsigned long long)keys, (unsigned long long)counted, (unsigned long long)moment);
    assert_true(m.folded || !m.was_held);
    proxy_release(proxy, true);
    log_member_close(&late);
    log_member_go_on(&folder);
    assert_true(wait_until_stored());
    return m.was_held;
}

static void test_a_process_that_loads__counts_all_whenever_another_one_folds(void **state)
{
    unsigned held = 0;
    (void)state;
    adds_some();
    for (uint64_t moment = 1; moment <= MOMENTS; moment++)
        held += counts_though_another_one_folds_at(moment);
    assert_in_range(held, MOMENTS_LEAST, MOMENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process_that_loads__counts_all_whenever_another_one_folds),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
