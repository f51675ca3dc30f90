/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "shard/control/idle.h"

/* The last request came at 1000. The filter rests after 100, and its memory is released after 500. */
static struct idle_facts at(uint64_t now, uint64_t bytes)
{
    return (struct idle_facts){.now = now,
                               .asked_at = 1000,
                               .rest = 100,
                               .resident_idle = 500,
                               .resident_bytes = bytes,
                               .dear = IDLE_DEAR_BYTES,
                               .tail_every = IDLE_TAIL_US,
                               .tailed_at = 1000};
}

static void decides(struct idle_facts f, enum idle_action action, uint64_t next)
{
    uint64_t found = 1;
    assert_int_equal(idle_decide(&f, &found), action);
    assert_int_equal(found, next);
}

static void test_idle_decide__rests_when_nobody_asks(void **state)
{
    (void)state;
    decides(at(1099, 0), IDLE_BUSY, 1100);
    decides(at(999, 0), IDLE_BUSY, 1100); /* a request came after the clock was read */
    decides(at(1100, 0), IDLE_REST, IDLE_NEVER);
    struct idle_facts f = at(5000, 1);
    f.is_needed = true;
    decides(f, IDLE_BUSY, IDLE_NEVER);
    f.is_needed = false;
    f.rest = 0;
    decides(f, IDLE_BUSY, IDLE_NEVER);
}

static void test_idle_decide__gives_memory_back(void **state)
{
    (void)state;
    decides(at(1499, 1), IDLE_REST, 1500);
    decides(at(1500, IDLE_DEAR_BYTES - 1), IDLE_DROP, 1500);
    decides(at(1500, 0), IDLE_REST, IDLE_NEVER);
    struct idle_facts f = at(5000, 1);
    f.resident_idle = 0;
    decides(f, IDLE_REST, IDLE_NEVER);
}

static void test_idle_decide__reads_the_lanes_of_what_is_dear(void **state)
{
    (void)state;
    decides(at(1500, IDLE_DEAR_BYTES), IDLE_REST, 1000 + IDLE_TAIL_US);
    decides(at(1000 + IDLE_TAIL_US, IDLE_DEAR_BYTES), IDLE_TAIL, 1000 + IDLE_TAIL_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_decide__rests_when_nobody_asks),
        cmocka_unit_test(test_idle_decide__gives_memory_back),
        cmocka_unit_test(test_idle_decide__reads_the_lanes_of_what_is_dear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
