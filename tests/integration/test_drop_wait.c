/* SPDX-License-Identifier: MIT */
/* Whoever waits for the mutex of a filter that is to be deleted finds another filter under the name. */
#include "tests/integration/drop_call.h"
#include "tests/integration/filters.h"

#include <pthread.h>

#include "base/clock.h"

enum { SHARDS = 4, SECOND = 0xfeed };

static struct servers servers;
static struct filter f;

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
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    filter_fini(&f);
    return 0;
}

struct drop {
    enum drop_call_when when;
    enum err code;
    struct error e;
};

static void *run_drop(void *arg)
{
    struct drop *d = arg;
    d->code = drop_call(&servers.nodes, PREFIX, d->when, &d->e);
    return NULL;
}

static void release(void)
{
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:expansion_flag"), 1);
    (void)servers_integer(&servers, 0, "PUBLISH " PREFIX ":events %s", "released f");
}

/* While @d waits for the mutex, which is this test's, the filter is deleted and another one made. */
static void make_another_meanwhile(struct drop *d)
{
    struct error e = {""};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_drop, d), 0);
    clock_sleep_us(300 * 1000);
    must(fence_drop(&f.fence, &f.view, 0, MUTEX, &e), e);
    must(fence_drop_complete(&f.fence, &f.view, MUTEX, &e), e);
    f.fence.names.incarnation = SECOND;
    filter_make(&f, SHARDS);
    release();
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_admin_drop_filter__finishes_no_deletion_that_is_over(void **state)
{
    (void)state;
    struct error e = {""};
    static struct drop d;
    d = (struct drop){.when = CALL_IF_BEGUN};
    must(fence_drop(&f.fence, &f.view, 0, MUTEX, &e), e);
    make_another_meanwhile(&d);
    gives(ERR_CONFLICT, d.code, d.e);
    filter_all_are(&f, view_current(&f.view), 1, "shard");
}

static void test_admin_drop_filter__lets_no_filter_expire_by_the_time_of_another(void **state)
{
    (void)state;
    struct error e = {""};
    static struct drop d;
    bool done = false;
    d = (struct drop){.when = CALL_IF_DUE};
    must(fence_expire(&f.fence, 1000, 0, false, &done, &e), e);
    assert_true(done);
    make_another_meanwhile(&d);
    gives(ERR_CONFLICT, d.code, d.e);
    filter_all_are(&f, view_current(&f.view), 1, "shard");
}

static void test_admin_drop_filter__does_what_is_asked_finished_or_due(void **state)
{
    (void)state;
    static struct drop d;
    struct error e = {""};
    static const enum drop_call_when all[] = {CALL_NOW, CALL_IF_BEGUN, CALL_IF_DUE};
    for (unsigned i = 0; i < 3; i++) {
        bool done = false;
        if (i > 0) {
            assert_string_equal(servers_text(&servers, 0, "SET " PREFIX ":{f}:expansion_flag " MUTEX), "OK");
            f.fence.names.incarnation = SECOND + i;
            filter_make(&f, SHARDS);
        }
        if (all[i] == CALL_IF_BEGUN)
            must(fence_drop(&f.fence, &f.view, 0, MUTEX, &e), e);
        if (all[i] == CALL_IF_DUE)
            must(fence_expire(&f.fence, 1000, 0, false, &done, &e), e);
        release();
        d = (struct drop){.when = all[i]};
        (void)run_drop(&d);
        gives(ERR_OK, d.code, d.e);
        filter_all_are(&f, view_current(&f.view), 1, "tombstone");
        d = (struct drop){.when = all[i]};
        (void)run_drop(&d);
        gives(ERR_NOT_FOUND, d.code, d.e);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_admin_drop_filter__finishes_no_deletion_that_is_over),
        TEST(test_admin_drop_filter__lets_no_filter_expire_by_the_time_of_another),
        TEST(test_admin_drop_filter__does_what_is_asked_finished_or_due),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
