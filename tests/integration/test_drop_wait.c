/* SPDX-License-Identifier: MIT */
/* A deletion waits for the filter's mutex; meanwhile the name gets another filter. */
#include "tests/integration/drop_call.h"
#include "tests/integration/lives.h"

#include "base/clock.h"

#define FLAG PREFIX ":{f}:expansion_flag"
#define VIEW PREFIX ":{f}:view"

static struct life w;

static int start(void **state)
{
    (void)state;
    return life_start(&w);
}

static int stop(void **state)
{
    (void)state;
    return life_stop(&w);
}

static void take_mutex(void)
{
    assert_string_equal(servers_text(&w.servers, 0, "SET " FLAG " " MUTEX), "OK");
}

static void release(void)
{
    assert_int_equal(servers_integer(&w.servers, 0, "DEL " FLAG), 1);
    (void)servers_integer(&w.servers, 0, "PUBLISH " PREFIX ":events %s", "released f");
}

static void make(void)
{
    struct error e = {""};
    must(life_make(&w, w.link, &e), e);
}

static int setup(void **state)
{
    (void)state;
    life_begin(&w, "f", 1);
    make();
    take_mutex();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    life_end(&w);
    return 0;
}

static void begin_to_delete(void)
{
    assert_int_equal(servers_integer(&w.servers, 0, "HSET " VIEW " deleting 1"), 0);
}

static void let_it_be_due(void)
{
    assert_int_equal(servers_integer(&w.servers, 0, "HSET " VIEW " expire_at 1000"), 1);
}

struct drop {
    enum drop_call_when when;
    enum err code;
    struct error e;
};

static void *run_drop(void *arg)
{
    struct drop *d = arg;
    d->code = drop_call(&w.nodes, PREFIX, d->when, &d->e);
    return NULL;
}

/* While @d waits for the mutex, which this test holds, delete the filter and make another one. */
static void make_another_meanwhile(struct drop *d)
{
    struct error e = {""};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_drop, d), 0);
    clock_sleep_us(300 * 1000);
    must(life_drop(&w, w.link, &e), e);
    make();
    release();
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static bool has_view(void)
{
    return servers_integer(&w.servers, 0, "EXISTS " VIEW) == 1;
}

static void test_filter_drop__finishes_no_deletion_that_is_over(void **state)
{
    (void)state;
    static struct drop d;
    d = (struct drop){.when = CALL_IF_BEGUN};
    begin_to_delete();
    make_another_meanwhile(&d);
    gives(ERR_CONFLICT, d.code, d.e);
    assert_true(has_view());
}

static void test_filter_drop__lets_no_filter_expire_by_the_time_of_another(void **state)
{
    (void)state;
    static struct drop d;
    d = (struct drop){.when = CALL_IF_DUE};
    let_it_be_due();
    make_another_meanwhile(&d);
    gives(ERR_CONFLICT, d.code, d.e);
    assert_true(has_view());
}

static void test_filter_drop__does_what_is_asked_finished_or_due(void **state)
{
    (void)state;
    static struct drop d;
    static const enum drop_call_when all[] = {CALL_NOW, CALL_IF_BEGUN, CALL_IF_DUE};
    release();
    for (unsigned i = 0; i < 3; i++) {
        if (i > 0)
            make();
        if (all[i] == CALL_IF_BEGUN)
            begin_to_delete();
        if (all[i] == CALL_IF_DUE)
            let_it_be_due();
        d = (struct drop){.when = all[i]};
        (void)run_drop(&d);
        gives(ERR_OK, d.code, d.e);
        assert_false(has_view());
        d = (struct drop){.when = all[i]};
        (void)run_drop(&d);
        gives(ERR_NOT_FOUND, d.code, d.e);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_filter_drop__finishes_no_deletion_that_is_over),
        TEST(test_filter_drop__lets_no_filter_expire_by_the_time_of_another),
        TEST(test_filter_drop__does_what_is_asked_finished_or_due),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
