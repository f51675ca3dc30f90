/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <pthread.h>
#include <cmocka.h>

#include "shard/redis/nodes/latency.h"

static struct latency l;
static struct latency_reader reader;

static int empty(void **state)
{
    (void)state;
    memset(&l, 0, sizeof(l));
    memset(&reader, 0, sizeof(reader));
    return 0;
}

static struct latency_figures look(void)
{
    struct latency_figures f;
    latency_read(&l, &reader, &f);
    return f;
}

static void test_latency_read__without_samples_says_so(void **state)
{
    (void)state;
    assert_int_equal(look().samples, 0);
    assert_true(look().p99_ms == 0);
}

static void test_latency_read__gives_every_value_within_an_eighth(void **state)
{
    (void)state;
    for (uint64_t us = 0; us < 2 * LATENCY_INTERVAL_US; us++) {
        latency_record(&l, 0, us);
        struct latency_figures f = look();
        assert_int_equal(f.samples, 1);
        assert_true(f.p99_ms >= (double)us / 1000 && f.p99_ms <= (double)us * 1.125 / 1000);
    }
}

static void test_latency_read__leaves_out_one_of_a_hundred(void **state)
{
    (void)state;
    for (int i = 0; i < 990; i++)
        latency_record(&l, 0, 100);
    for (int i = 0; i < 10; i++)
        latency_record(&l, 0, 1500);
    struct latency_figures f = look();
    assert_int_equal(f.samples, 1000);
    assert_true(f.p99_ms < 0.12);
    for (int i = 0; i < 989; i++)
        latency_record(&l, 0, 100);
    for (int i = 0; i < 11; i++)
        latency_record(&l, 0, 1500);
    assert_true(look().p99_ms >= 1.5);
}

static void test_latency_read__sees_only_what_came_since_its_last_call(void **state)
{
    (void)state;
    struct latency_reader other = {0};
    struct latency_figures f;
    latency_record(&l, 0, 1500);
    assert_true(look().p99_ms >= 1.5);
    latency_record(&l, 0, 10);
    assert_true(look().p99_ms < 0.02);
    assert_int_equal(look().samples, 0);
    latency_read(&l, &other, &f);
    assert_int_equal(f.samples, 2);
    assert_true(f.p99_ms >= 1.5);
}

/* A second has 500 samples and one wait of half a second. The wait counts as half of the time, not as one
 * sample of 500. */
static void test_latency_record__counts_a_stall_as_long_as_it_was(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++)
        latency_record(&l, 0, 100);
    latency_record(&l, 0, 500000);
    struct latency_figures f = look();
    assert_in_range(f.samples, 998, 1002);
    assert_true(f.p99_ms > 400 && f.p99_ms < 570);
}

static void test_latency_record__takes_what_is_beyond_its_range(void **state)
{
    (void)state;
    latency_record(&l, 0, UINT64_MAX);
    struct latency_figures f = look();
    assert_in_range(f.samples, 60000, 70000);
    assert_true(f.p99_ms > 60000);
}

static void *record_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100000; i++)
        latency_record(&l, 0, (uint64_t)i % 1000);
    return NULL;
}

static void test_latency_record__loses_nothing_of_several_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    uint64_t samples = 0;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_many, NULL), 0);
    for (int i = 0; i < 100; i++)
        samples += look().samples;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    samples += look().samples;
    assert_int_equal(samples, 400000);
}

/* --- recent use --- */

enum { SECOND = LATENCY_RECENT_US, START = 1000 * SECOND };

/* Use is noted at intervals. Constant use must never be taken for no use. */
static void test_latency_use__counts_as_an_answer_without_a_time(void **state)
{
    (void)state;
    for (uint64_t at = START; at < START + 3 * SECOND; at += SECOND / 100) {
        latency_use(&l, at);
        assert_true(latency_is_used(&l, at + SECOND / 2));
    }
    assert_false(latency_is_used(&l, START + 4 * SECOND));
    assert_int_equal(look().samples, 0);
}

static void test_latency_is_used__for_a_second_after_an_answer(void **state)
{
    (void)state;
    assert_false(latency_is_used(&l, START));
    latency_record(&l, START, 100);
    assert_true(latency_is_used(&l, START + SECOND / 2));
    assert_false(latency_is_used(&l, START + SECOND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_latency_read__without_samples_says_so, empty),
        cmocka_unit_test_setup(test_latency_read__gives_every_value_within_an_eighth, empty),
        cmocka_unit_test_setup(test_latency_read__leaves_out_one_of_a_hundred, empty),
        cmocka_unit_test_setup(test_latency_read__sees_only_what_came_since_its_last_call, empty),
        cmocka_unit_test_setup(test_latency_record__counts_a_stall_as_long_as_it_was, empty),
        cmocka_unit_test_setup(test_latency_record__takes_what_is_beyond_its_range, empty),
        cmocka_unit_test_setup(test_latency_record__loses_nothing_of_several_threads, empty),
        cmocka_unit_test_setup(test_latency_use__counts_as_an_answer_without_a_time, empty),
        cmocka_unit_test_setup(test_latency_is_used__for_a_second_after_an_answer, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
