/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "service/filters/epochs.h"

enum { THREADS = 3, INC = 77, OTHER = 78 };

static struct epochs *epochs;

static int setup(void **state)
{
    (void)state;
    epochs = epochs_new();
    return epochs == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    epochs_free(epochs);
    return 0;
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
    size_t count = epochs_take(epochs, 100, take, &t);
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
    struct epochs_total total = epochs_total(epochs);
    assert_int_equal(total.filters, filters);
    assert_int_equal(total.behind, behind);
}

static void test_epochs__are_taken_once_for_each_change(void **state)
{
    (void)state;
    epochs_hold(epochs, "f", INC, 5);
    expect_one(INC, 5);
    assert_int_equal(take_all().count, 0);
    epochs_hold(epochs, "f", INC, 5);
    assert_int_equal(take_all().count, 0);
    epochs_hold(epochs, "f", INC, 7);
    expect_one(INC, 7);
    expect_total(1, 0);
    epochs_hold(epochs, "f", INC, 0);
    expect_one(0, 0);
    expect_total(0, 0);
}

static void test_epochs__of_another_incarnation_are_behind_however_high(void **state)
{
    (void)state;
    epochs_hold(epochs, "f", INC, 9);
    expect_total(1, 0); /* the epoch in Redis is unknown */
    epochs_found(epochs, "f", OTHER, 1);
    expect_one(INC, 9);
    expect_total(1, 1);
    epochs_hold(epochs, "f", OTHER, 1);
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

static void test_epochs_behind__counts_how_often_it_was_so(void **state)
{
    (void)state;
    uint64_t times = 0;
    /* This process does not hold the filter, so nothing is stored. */
    epochs_found(epochs, "f", INC, 2);
    expect_total(0, 0);
    epochs_hold(epochs, "f", INC, 2);
    epochs_found(epochs, "f", INC, 2);
    epochs_behind(epochs, 10, note, &times);
    assert_int_equal(times, 0);
    epochs_found(epochs, "f", INC, 3);
    expect_total(1, 1);
    epochs_behind(epochs, 0, note, &times);
    epochs_behind(epochs, 10, note, &times);
    epochs_behind(epochs, 10, note, &times);
    assert_int_equal(times, 12);
    epochs_hold(epochs, "f", INC, 3);
    epochs_behind(epochs, 10, note, &times);
    assert_int_equal(times, 12);
    epochs_hold(epochs, "f", INC, 4); /* later than the epoch that the controller has seen, so not behind */
    expect_total(1, 0);
}

static void test_epochs_take__says_everything_once_more_when_asked_to(void **state)
{
    (void)state;
    char name[16];
    struct taken t = {0};
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i);
        epochs_hold(epochs, name, INC, i + 1);
    }
    assert_int_equal(epochs_take(epochs, 400, take, &t), 400);
    assert_int_equal(epochs_take(epochs, 400, take, &t), 400);
    assert_int_equal(epochs_take(epochs, 400, take, &t), 200);
    expect_total(1000, 0);
    epochs_again(epochs);
    assert_int_equal(epochs_take(epochs, 5000, take, &t), 1000);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i);
        epochs_hold(epochs, name, INC, 0);
    }
    assert_int_equal(epochs_take(epochs, 5000, take, &t), 1000);
    epochs_again(epochs);
    assert_int_equal(epochs_take(epochs, 5000, take, &t), 0); /* no filter is held any more */
    /* A filter that comes and goes between two calls is not reported. */
    epochs_hold(epochs, "g", INC, 1);
    epochs_hold(epochs, "g", INC, 0);
    assert_int_equal(epochs_take(epochs, 5000, take, &t), 0);
}

static void *hold(void *arg)
{
    (void)arg;
    char name[16];
    for (unsigned i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i % 50);
        epochs_hold(epochs, name, INC, i % 7);
        epochs_found(epochs, name, INC, 3);
    }
    return NULL;
}

static void test_epochs__may_be_told_by_all_threads_at_once(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    struct taken t = {0};
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, hold, NULL), 0);
    for (unsigned i = 0; i < 200; i++) {
        (void)epochs_take(epochs, 10, take, &t);
        if (i % 50 == 0)
            epochs_again(epochs);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (unsigned i = 0; i < 50; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "f%u", i);
        epochs_hold(epochs, name, INC, 0);
    }
    expect_total(0, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_epochs__are_taken_once_for_each_change),
        TEST(test_epochs__of_another_incarnation_are_behind_however_high),
        TEST(test_epochs_behind__counts_how_often_it_was_so),
        TEST(test_epochs_take__says_everything_once_more_when_asked_to),
        TEST(test_epochs__may_be_told_by_all_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
