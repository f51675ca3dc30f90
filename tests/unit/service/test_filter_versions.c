/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "service/filters/filter_states.h"

enum { THREADS = 3, INC = 77, OTHER = 78 };

static struct filter_states *watch;

static int setup(void **state)
{
    (void)state;
    watch = filter_states_new();
    return watch == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    filter_states_free(watch);
    return 0;
}

static struct filter_state *state_of(const char *filter)
{
    struct filter_state *w = filter_states_find(watch, filter, strlen(filter));
    assert_non_null(w);
    return w;
}

static void serve(const char *filter, uint64_t incarnation, uint64_t epoch)
{
    filter_state_serve(state_of(filter), incarnation, epoch);
}

static void found(const char *filter, uint64_t incarnation, uint64_t epoch)
{
    filter_state_found(state_of(filter), incarnation, epoch);
}

struct taken {
    size_t count;
    char filter[64];
    uint64_t incarnation, epoch;
};

static void take(void *arg, const char *filter, uint64_t incarnation, uint64_t epoch)
{
    struct taken *t = arg;
    t->count++;
    (void)snprintf(t->filter, sizeof(t->filter), "%s", filter);
    t->incarnation = incarnation;
    t->epoch = epoch;
}

static struct taken take_all(void)
{
    struct taken t = {0};
    size_t count = filter_states_changes(watch, 100, take, &t);
    assert_int_equal(count, t.count);
    return t;
}

static void expect_one(uint64_t incarnation, uint64_t epoch)
{
    struct taken t = take_all();
    assert_int_equal(t.count, 1);
    assert_string_equal(t.filter, "f");
    assert_int_equal(t.epoch, epoch);
    if (epoch != 0)
        assert_int_equal(t.incarnation, incarnation);
}

static void expect_total(uint64_t filters, uint64_t behind)
{
    struct filter_states_total total = filter_states_total(watch);
    assert_int_equal(total.filters, filters);
    assert_int_equal(total.behind, behind);
}

static void test_filter_versions__are_taken_once_for_each_change(void **state)
{
    (void)state;
    serve("f", INC, 5);
    expect_one(INC, 5);
    assert_int_equal(take_all().count, 0);
    serve("f", INC, 5);
    assert_int_equal(take_all().count, 0);
    serve("f", INC, 7);
    expect_one(INC, 7);
    expect_total(1, 0);
    serve("f", INC, 0);
    expect_one(0, 0);
    expect_total(0, 0);
}

static void test_filter_versions__of_another_incarnation_are_behind_however_high(void **state)
{
    (void)state;
    serve("f", INC, 9);
    expect_total(1, 0); /* the epoch in Redis is unknown */
    found("f", OTHER, 1);
    expect_one(INC, 9);
    expect_total(1, 1);
    serve("f", OTHER, 1);
    expect_one(OTHER, 1);
    expect_total(1, 0);
}

static void note(void *arg, const char *filter, uint64_t epoch, unsigned times)
{
    uint64_t *sum = arg;
    assert_string_equal(filter, "f");
    assert_int_equal(epoch, 3);
    *sum = *sum * 10 + times;
}

static void test_filter_versions_behind__counts_how_often_it_was_so(void **state)
{
    (void)state;
    uint64_t times = 0;
    /* This process does not hold the filter, so nothing is stored. */
    found("f", INC, 2);
    expect_total(0, 0);
    serve("f", INC, 2);
    found("f", INC, 2);
    filter_states_behind(watch, 10, note, &times);
    assert_int_equal(times, 0);
    found("f", INC, 3);
    expect_total(1, 1);
    filter_states_behind(watch, 0, note, &times);
    filter_states_behind(watch, 10, note, &times);
    filter_states_behind(watch, 10, note, &times);
    assert_int_equal(times, 12);
    serve("f", INC, 3);
    filter_states_behind(watch, 10, note, &times);
    assert_int_equal(times, 12);
    serve("f", INC, 4); /* later than the epoch that the controller has seen, so not behind */
    expect_total(1, 0);
}

static void test_filter_versions_changed__says_everything_once_more_when_asked_to(void **state)
{
    (void)state;
    char name[16];
    struct taken t = {0};
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i);
        serve(name, INC, i + 1);
    }
    assert_int_equal(filter_states_changes(watch, 400, take, &t), 400);
    assert_int_equal(filter_states_changes(watch, 400, take, &t), 400);
    assert_int_equal(filter_states_changes(watch, 400, take, &t), 200);
    expect_total(1000, 0);
    filter_states_report_again(watch);
    assert_int_equal(filter_states_changes(watch, 5000, take, &t), 1000);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i);
        serve(name, INC, 0);
    }
    assert_int_equal(filter_states_changes(watch, 5000, take, &t), 1000);
    filter_states_report_again(watch);
    assert_int_equal(filter_states_changes(watch, 5000, take, &t), 0); /* no filter is held any more */
    /* A filter that comes and goes between two calls is not reported. */
    serve("g", INC, 1);
    serve("g", INC, 0);
    assert_int_equal(filter_states_changes(watch, 5000, take, &t), 0);
}

static void *serve_all(void *arg)
{
    (void)arg;
    char name[16];
    for (unsigned i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i % 50);
        serve(name, INC, i % 7);
        found(name, INC, 3);
    }
    return NULL;
}

static void test_filter_versions__may_be_told_by_all_threads_at_once(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    struct taken t = {0};
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, serve_all, NULL), 0);
    for (unsigned i = 0; i < 200; i++) {
        (void)filter_states_changes(watch, 10, take, &t);
        if (i % 50 == 0)
            filter_states_report_again(watch);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (unsigned i = 0; i < 50; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "f%u", i);
        serve(name, INC, 0);
    }
    expect_total(0, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_filter_versions__are_taken_once_for_each_change),
        TEST(test_filter_versions__of_another_incarnation_are_behind_however_high),
        TEST(test_filter_versions_behind__counts_how_often_it_was_so),
        TEST(test_filter_versions_changed__says_everything_once_more_when_asked_to),
        TEST(test_filter_versions__may_be_told_by_all_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
