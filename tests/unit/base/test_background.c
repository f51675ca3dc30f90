/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/background.h"
#include "base/clock.h"

enum { STEPS = 1000 };

struct work {
    unsigned done, most, background; /* steps: in total; at most in the background; done in the background */
    pthread_t waits;
    int nice;
};

static void run(void *arg, uint64_t until)
{
    struct work *w = arg;
    bool aside = !pthread_equal(pthread_self(), w->waits);
    assert_int_equal(aside, until != UINT64_MAX);
    int nicer = w->nice + 10 < 19 ? w->nice + 10 : 19;
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)gettid()), aside ? nicer : w->nice);
    while (w->done < (aside ? w->most : STEPS)) {
        w->done++;
        w->background += aside;
    }
}

static void test_background_run__what_the_background_does_not_get_done__the_caller_does(void **state)
{
    (void)state;
    struct work all = {.most = STEPS, .waits = pthread_self(), .nice = getpriority(PRIO_PROCESS, 0)},
                some = {.most = 10, .waits = pthread_self(), .nice = getpriority(PRIO_PROCESS, 0)};
    background_run(run, &all, clock_mono_us() + 1000000);
    assert_int_equal(all.done, STEPS);
    /* On a busy machine the background thread may start too late. */
    assert_true(all.background == STEPS || all.background == 0);
    background_run(run, &some, clock_mono_us() + 1000000);
    assert_int_equal(some.done, STEPS);
    assert_true(some.background == 10 || some.background == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_background_run__what_the_background_does_not_get_done__the_caller_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
