/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "expansion/decide/preview.h"

enum { ROWS = 1000000, NOW = 5000, NEW = 8000 };

static const struct plan_input plan_input = {.source_rows = ROWS, .memory_now = NOW};

static struct plan usual_plan(void)
{
    return (struct plan){.memory_new = NEW, .memory_peak = NOW + NEW, .partitions = 1};
}

static struct preview made(const struct plan *plan, bool hold, bool full, double rate)
{
    const struct preview_input in = {.in = &plan_input,
                                     .plan = plan,
                                     .rows_per_second = rate,
                                     .verify_sample = 1000,
                                     .grace_ms = 10000,
                                     .hold = hold,
                                     .verify_full = full};
    struct preview p;
    preview_make(&p, &in);
    return p;
}

static const struct preview_step *find(const struct preview *p, enum job_step step)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->step[i].step == step)
            return &p->step[i];
    fail_msg("no step %s", step_name(step));
    return NULL;
}

static void test_steps__are_those_of_a_job_that_goes_well(void **state)
{
    (void)state;
    struct plan plan = usual_plan();
    struct preview p = made(&plan, false, false, 0);
    enum job_step step = STEP_RECLAIM;
    for (size_t i = 0; i < p.count; i++, step = step_next(step, ERR_OK)) {
        if (step == STEP_HOLD)
            step = step_next(step, ERR_OK);
        assert_int_equal(p.step[i].step, step);
        assert_true(strlen(p.step[i].what) > 0);
    }
    assert_int_equal(step, STEP_DONE);
}

static void test_steps__go_back_after_the_hold_and_hold_once(void **state)
{
    (void)state;
    static const enum job_step expected[] = {STEP_CATCH_UP, STEP_VERIFY, STEP_HOLD,
                                             STEP_CATCH_UP, STEP_VERIFY, STEP_CUTOVER};
    struct plan plan = usual_plan();
    struct preview p = made(&plan, true, false, 0);
    const struct preview_step *s = find(&p, STEP_CATCH_UP);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(s[i].step, expected[i]);
    assert_int_equal(p.step[p.count - 1].step, STEP_FINISH);
}

static void test_memory__goes_from_step_to_step(void **state)
{
    (void)state;
    struct plan plan = usual_plan();
    struct preview p = made(&plan, true, false, 0);
    assert_int_equal(p.step[0].memory_before, NOW);
    for (size_t i = 0; i < p.count; i++) {
        const struct preview_step *s = &p.step[i];
        if (i > 0)
            assert_int_equal(s->memory_before, p.step[i - 1].memory_after);
        assert_true(s->memory_peak >= s->memory_before && s->memory_peak >= s->memory_after);
    }
    assert_int_equal(find(&p, STEP_OPEN)->memory_after, NOW);
    assert_int_equal(find(&p, STEP_SETTLE)->memory_after, NOW + NEW);
    assert_int_equal(find(&p, STEP_SCAN)->memory_peak, NOW + NEW);
    assert_int_equal(find(&p, STEP_SCAN)->memory_after, NOW + NEW);
    assert_int_equal(find(&p, STEP_GRACE)->memory_after, NOW + NEW);
    assert_int_equal(find(&p, STEP_FINISH)->memory_after, NEW);
}

static void test_scan__reads_each_row_once_however_it_is_built(void **state)
{
    (void)state;
    struct plan plan = usual_plan();
    plan.partitions = 3;
    struct preview p = made(&plan, false, false, 100000);
    assert_int_equal(find(&p, STEP_SCAN)->rows, ROWS);
    assert_true(find(&p, STEP_SCAN)->timed);
    assert_true(fabs(find(&p, STEP_SCAN)->seconds - 10) < 1e-9);
    assert_true(p.timed && fabs(p.seconds - 20) < 1e-9);
}

static void test_verify__reads_a_sample_or_all_of_it(void **state)
{
    (void)state;
    struct plan plan = usual_plan();
    struct preview sample = made(&plan, false, false, 50000);
    assert_int_equal(find(&sample, STEP_VERIFY)->rows, 1000);
    assert_false(find(&sample, STEP_VERIFY)->timed);
    struct preview full = made(&plan, false, true, 50000);
    assert_int_equal(find(&full, STEP_CONFIRM)->rows, ROWS);
    assert_true(fabs(find(&full, STEP_CONFIRM)->seconds - 20) < 1e-9);
    /* The sum of scan, verify, and the longer of confirm and grace, which run at the same time. */
    assert_true(fabs(full.seconds - 60) < 1e-9);
}

static void test_time__is_not_made_up_where_no_rate_is_known(void **state)
{
    (void)state;
    struct plan plan = usual_plan();
    struct preview p = made(&plan, false, true, 0);
    assert_false(p.timed);
    assert_false(find(&p, STEP_SCAN)->timed);
    assert_false(find(&p, STEP_VERIFY)->timed);
    assert_true(find(&p, STEP_GRACE)->timed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps__are_those_of_a_job_that_goes_well),
        cmocka_unit_test(test_steps__go_back_after_the_hold_and_hold_once),
        cmocka_unit_test(test_memory__goes_from_step_to_step),
        cmocka_unit_test(test_scan__reads_each_row_once_however_it_is_built),
        cmocka_unit_test(test_verify__reads_a_sample_or_all_of_it),
        cmocka_unit_test(test_time__is_not_made_up_where_no_rate_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
