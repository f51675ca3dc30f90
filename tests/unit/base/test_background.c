/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/background.h"
#include "base/clock.h"

enum { STEPS = 1000 };

struct work {
    unsigned done, most, background; /* steps: all, those the background may do, those it did */
    pthread_t waits;
};

static void run(void *arg, uint64_t until)
{
    struct work *w = arg;
    bool idle = !pthread_equal(pthread_self(), w->waits);
    assert_int_equal(idle, until != UINT64_MAX);
    assert_int_equal(sched_getscheduler(0), idle ? SCHED_IDLE : SCHED_OTHER);
    while (w->done < (idle ? w->most : STEPS)) {
        w->done++;
        w->background += idle;
    }
}

static void test_background_run__what_the_background_does_not_get_done__the_caller_does(void **state)
{
    (void)state;
    struct work all = {.most = STEPS, .waits = pthread_self()}, some = {.most = 10, .waits = pthread_self()};
    background_run(run, &all, clock_mono_us() + 1000000);
    assert_int_equal(all.done, STEPS);
    assert_int_equal(all.background, STEPS);
    background_run(run, &some, clock_mono_us() + 1000000);
    assert_int_equal(some.done, STEPS);
    assert_int_equal(some.background, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_background_run__what_the_background_does_not_get_done__the_caller_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
