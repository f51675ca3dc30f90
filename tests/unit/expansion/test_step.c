/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "expansion/decide/step.h"

/* The transitions of the driver, written a second time, independently of step.c. */
static const struct expected {
    const char *name;
    enum job_step next;
    enum job_step failure;
} expected[STEP_COUNT] = {
    [STEP_RECLAIM] = {"reclaim", STEP_PLAN, STEP_STOPPED},
    [STEP_PLAN] = {"plan", STEP_OPEN, STEP_FAILED},
    [STEP_OPEN] = {"open", STEP_SETTLE, STEP_STOPPED},
    [STEP_SETTLE] = {"settle", STEP_SCAN, STEP_ABORT},
    [STEP_SCAN] = {"scan", STEP_CATCH_UP, STEP_ABORT},
    [STEP_CATCH_UP] = {"catch_up", STEP_VERIFY, STEP_ABORT},
    [STEP_VERIFY] = {"verify", STEP_HOLD, STEP_ABORT},
    [STEP_HOLD] = {"hold", STEP_CUTOVER, STEP_STOPPED},
    [STEP_CUTOVER] = {"cutover", STEP_FOLLOW, STEP_STOPPED},
    [STEP_FOLLOW] = {"follow", STEP_CONFIRM, STEP_CONFIRM},
    [STEP_CONFIRM] = {"confirm", STEP_GRACE, STEP_GRACE},
    [STEP_GRACE] = {"grace", STEP_FINISH, STEP_STOPPED},
    [STEP_FINISH] = {"finish", STEP_DONE, STEP_STOPPED},
    [STEP_ROLLBACK] = {"rollback", STEP_HOLD, STEP_GRACE},
    [STEP_ABORT] = {"abort", STEP_FAILED, STEP_STOPPED},
    [STEP_CHECK] = {"check", STEP_DONE, STEP_FAILED},
    [STEP_DONE] = {"done", STEP_DONE, STEP_DONE},
    [STEP_FAILED] = {"failed", STEP_FAILED, STEP_FAILED},
    [STEP_STOPPED] = {"stopped", STEP_STOPPED, STEP_STOPPED},
};

/* The next step if the source has changed. Steps that cannot continue with another source fail. */
static enum job_step changed(int step)
{
    /* At the cutover, the lanes or nodes of a log may have changed. */
    if ((step >= STEP_SETTLE && step <= STEP_VERIFY) || step == STEP_CUTOVER)
        return STEP_SETTLE;
    return step == STEP_FOLLOW || step == STEP_CONFIRM ? STEP_CONFIRM : expected[step].failure;
}

static const enum err codes[] = {ERR_OK,
#define X(code, ...) code,
                                 ERROR_CODES(X)
#undef X
};

enum { CODES = sizeof(codes) / sizeof(codes[0]) };

static bool mends_by_itself(enum err code)
{
    return code == ERR_UNREACHABLE || code == ERR_TIMEOUT || code == ERR_IO;
}

static bool is_anothers(enum err code)
{
    return code == ERR_MUTEX_LOST || code == ERR_FENCED || code == ERR_BUSY || code == ERR_FORMAT;
}

static void assert_step(enum job_step got, enum job_step wanted, enum job_step from, const char *why)
{
    if (got != wanted)
        fail_msg("%s, %s: %s, expected %s", step_name(from), why, step_name(got), step_name(wanted));
}

static void test_step_next__leads_on_after_ok(void **state)
{
    (void)state;
    for (int s = 0; s < STEP_COUNT; s++)
        assert_step(step_next((enum job_step)s, ERR_OK), expected[s].next, (enum job_step)s, "ok");
}

static void test_step_next__tries_again_what_a_server_that_is_away_made_fail(void **state)
{
    (void)state;
    for (int s = 0; s < STEP_COUNT; s++)
        for (int c = 0; c < CODES; c++)
            if (mends_by_itself(codes[c]))
                assert_step(step_next((enum job_step)s, codes[c]), (enum job_step)s, (enum job_step)s,
                            error_name(codes[c]));
}

static void test_step_next__stops_where_the_job_is_anothers(void **state)
{
    (void)state;
    for (int s = 0; s < STEP_COUNT; s++)
        for (int c = 0; c < CODES; c++)
            if (is_anothers(codes[c]))
                assert_step(step_next((enum job_step)s, codes[c]), STEP_STOPPED, (enum job_step)s,
                            error_name(codes[c]));
}

static void test_step_next__takes_the_failure_of_the_step_for_every_other_error(void **state)
{
    (void)state;
    int others = 0;
    for (int c = 0; c < CODES; c++) {
        if (codes[c] == ERR_OK || codes[c] == ERR_CHANGED || mends_by_itself(codes[c]) ||
            is_anothers(codes[c]))
            continue;
        others++;
        for (int s = 0; s < STEP_COUNT; s++)
            assert_step(step_next((enum job_step)s, codes[c]), expected[s].failure, (enum job_step)s,
                        error_name(codes[c]));
    }
    assert_int_equal(others, CODES - 9);
}

static void test_step_next__begins_again_where_the_source_changed(void **state)
{
    (void)state;
    for (int s = 0; s < STEP_COUNT; s++)
        assert_step(step_next((enum job_step)s, ERR_CHANGED), changed(s), (enum job_step)s, "changed");
}

/* The set of steps that @step leads to in one move, by its result or by a request of an operator. @done:
 * include the move after success. */
static unsigned moves_from(enum job_step step, bool done)
{
    unsigned all = 0;
    for (int c = 0; c < CODES; c++)
        if (done || codes[c] != ERR_OK)
            all |= 1u << step_next(step, codes[c]);
    for (int r = 0; r < REQUEST_COUNT; r++)
        if (step_asked(step, (enum job_request)r) != STEP_COUNT)
            all |= 1u << step_asked(step, (enum job_request)r);
    return all;
}

/* The set of steps that can be reached from the set @from in any number of moves, without the success of
 * @blocked (STEP_COUNT: with every success). A job that only verifies begins at CHECK, by step_resume(). */
static unsigned reachable(unsigned from, enum job_step blocked)
{
    unsigned all = from, before;
    do {
        before = all;
        for (int s = 0; s < STEP_COUNT; s++)
            if ((before & 1u << s) != 0)
                all |= moves_from((enum job_step)s, s != (int)blocked);
    } while (all != before);
    return all;
}

static void test_step_next__cuts_over_only_after_a_verify_that_was_ok(void **state)
{
    (void)state;
    const unsigned build = 1u << STEP_SETTLE | 1u << STEP_SCAN | 1u << STEP_CATCH_UP | 1u << STEP_VERIFY;
    const unsigned serving = 1u << STEP_CUTOVER | 1u << STEP_FOLLOW | 1u << STEP_GRACE | 1u << STEP_FINISH;
    assert_int_equal(reachable(build, STEP_VERIFY) & serving, 0);
    assert_int_equal(reachable(1u << STEP_RECLAIM, STEP_VERIFY) & serving, 0);
    assert_int_equal(reachable(build, STEP_COUNT) & serving, serving);
    for (int c = 0; c < CODES; c++)
        if (codes[c] != ERR_OK)
            assert_int_not_equal(step_next(STEP_VERIFY, codes[c]), STEP_CUTOVER);
}

static void test_step_next__does_not_skip_a_step_of_the_build(void **state)
{
    (void)state;
    static const enum job_step order[] = {STEP_RECLAIM,  STEP_PLAN,   STEP_OPEN, STEP_SETTLE, STEP_SCAN,
                                          STEP_CATCH_UP, STEP_VERIFY, STEP_HOLD, STEP_CUTOVER};
    for (size_t i = 0; i + 1 < sizeof(order) / sizeof(order[0]); i++) {
        unsigned without = reachable(1u << STEP_RECLAIM, order[i]);
        assert_int_equal(without & 1u << order[i + 1], 0);
    }
}

/* After the cutover, an abort would delete the generation that serves requests. So an abort must follow a
 * rollback. */
static void test_step_next__never_deletes_a_generation_that_is_read(void **state)
{
    (void)state;
    assert_int_equal(reachable(1u << STEP_FOLLOW, STEP_ROLLBACK) & 1u << STEP_ABORT, 0);
    assert_int_equal(reachable(1u << STEP_FOLLOW, STEP_COUNT) & 1u << STEP_ABORT, 1u << STEP_ABORT);
}

static void test_step_next__reaches_every_step(void **state)
{
    (void)state;
    /* A job begins at CHECK only by step_resume(). */
    assert_int_equal(reachable(1u << STEP_RECLAIM | 1u << STEP_CHECK, STEP_COUNT), (1u << STEP_COUNT) - 1);
}

static void test_step_next__reaches_an_end_from_every_step(void **state)
{
    (void)state;
    const unsigned ends = 1u << STEP_DONE | 1u << STEP_FAILED | 1u << STEP_STOPPED;
    for (int s = 0; s < STEP_COUNT; s++) {
        assert_int_equal(step_is_end((enum job_step)s), (ends & 1u << s) != 0);
        enum job_step step = (enum job_step)s;
        for (int moves = 0; !step_is_end(step); moves++) {
            assert_true(moves < STEP_COUNT);
            step = step_next(step, ERR_OK);
        }
    }
}

static void test_step_asked__listens_only_where_the_request_has_a_meaning(void **state)
{
    (void)state;
    static const struct {
        enum job_request request;
        unsigned from;
        enum job_step to;
    } asked[] = {
        {REQUEST_ABORT, 1u << STEP_PLAN | 1u << STEP_CHECK, STEP_FAILED},
        {REQUEST_ABORT,
         1u << STEP_SETTLE | 1u << STEP_SCAN | 1u << STEP_CATCH_UP | 1u << STEP_VERIFY | 1u << STEP_HOLD |
             1u << STEP_CUTOVER,
         STEP_ABORT},
        {REQUEST_CUTOVER, 1u << STEP_HOLD, STEP_CATCH_UP},
        {REQUEST_ROLLBACK, 1u << STEP_FOLLOW | 1u << STEP_CONFIRM | 1u << STEP_GRACE | 1u << STEP_FINISH,
         STEP_ROLLBACK},
        {REQUEST_FINISH, 1u << STEP_GRACE, STEP_FINISH},
    };
    for (int s = 0; s < STEP_COUNT; s++)
        for (int r = 0; r < REQUEST_COUNT; r++) {
            enum job_step to = STEP_COUNT;
            for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
                if ((int)asked[i].request == r && (asked[i].from & 1u << s) != 0)
                    to = asked[i].to;
            assert_int_equal(step_asked((enum job_step)s, (enum job_request)r), to);
        }
}

static void test_step_next__leaves_an_end_for_no_other_end(void **state)
{
    (void)state;
    for (int c = 0; c < CODES; c++) {
        assert_int_equal(step_next(STEP_STOPPED, codes[c]), STEP_STOPPED);
        if (is_anothers(codes[c]))
            continue;
        assert_int_equal(step_next(STEP_DONE, codes[c]), STEP_DONE);
        assert_int_equal(step_next(STEP_FAILED, codes[c]), STEP_FAILED);
    }
}

static void test_step_name__is_read_back_by_step_parse(void **state)
{
    (void)state;
    for (int s = 0; s < STEP_COUNT; s++) {
        enum job_step step = STEP_COUNT;
        const char *name = step_name((enum job_step)s);
        assert_string_equal(name, expected[s].name);
        assert_true(step_parse(name, strlen(name), &step));
        assert_int_equal(step, s);
    }
}

static void test_step_parse__refuses_what_is_no_name(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "scan ", "SCAN", "sca", "scann", "stop", "plan\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        enum job_step step = STEP_COUNT;
        if (step_parse(wrong[i], strlen(wrong[i]), &step))
            fail_msg("\"%s\" was taken for %s", wrong[i], step_name(step));
        assert_int_equal(step, STEP_COUNT);
    }
}

enum { CURRENT = 6, ALTERNATE = 7, EARLIER = 5 };

static struct view *view_in(struct view *v, enum phase phase)
{
    *v = (struct view){.epoch = 9, .phase = phase};
    v->slot[0].number = CURRENT;
    if (phase == PHASE_BUILDING || phase == PHASE_SWITCHED)
        v->slot[1].number = ALTERNATE;
    if (phase == PHASE_SWITCHED)
        v->current = 1;
    return v;
}

static void test_step_resume__begins_or_ends_where_nothing_is_unfinished(void **state)
{
    (void)state;
    static struct view v;
    static const enum phase quiet[] = {PHASE_STEADY, PHASE_OVERFLOW};
    for (int p = 0; p < 2; p++)
        for (int s = 0; s < STEP_COUNT; s++)
            for (uint64_t g = EARLIER; g <= ALTERNATE; g++) {
                view_in(&v, quiet[p]);
                assert_int_equal(step_resume(&v, g, (enum job_step)s, JOB_EXPAND), STEP_PLAN);
                assert_int_equal(step_resume(&v, g, (enum job_step)s, JOB_CHECK), STEP_CHECK);
                assert_int_equal(step_resume(&v, g, (enum job_step)s, JOB_FINISH),
                                 s == STEP_CHECK ? STEP_CHECK : STEP_DONE);
            }
}

static void test_step_resume__follows_after_a_cutover_whatever_the_record_says(void **state)
{
    (void)state;
    static struct view v;
    view_in(&v, PHASE_SWITCHED);
    for (int s = 0; s < STEP_COUNT; s++)
        for (int kind = JOB_FINISH; kind <= JOB_CHECK; kind++) {
            assert_int_equal(step_resume(&v, ALTERNATE, (enum job_step)s, (enum job_kind)kind), STEP_FOLLOW);
            assert_int_equal(step_resume(&v, EARLIER, (enum job_step)s, (enum job_kind)kind), STEP_FOLLOW);
        }
}

static void test_step_resume__goes_on_with_a_build_from_its_own_record(void **state)
{
    (void)state;
    static struct view v;
    view_in(&v, PHASE_BUILDING);
    for (int s = 0; s < STEP_COUNT; s++)
        for (int kind = JOB_FINISH; kind <= JOB_CHECK; kind++) {
            enum job_step on = STEP_SETTLE;
            if (s == STEP_SCAN || s == STEP_CATCH_UP || s == STEP_VERIFY || s == STEP_ABORT ||
                s == STEP_ROLLBACK)
                on = (enum job_step)s;
            else if (s == STEP_HOLD || s == STEP_CUTOVER) /* rows may have been added in the meantime */
                on = STEP_CATCH_UP;
            assert_step(step_resume(&v, ALTERNATE, (enum job_step)s, (enum job_kind)kind), on,
                        (enum job_step)s, "resumed");
        }
}

static void test_step_resume__cuts_over_again_where_the_view_went_back_behind_a_cutover(void **state)
{
    (void)state;
    static struct view v;
    view_in(&v, PHASE_BUILDING);
    v.slot[1].built = true;
    for (int s = 0; s < STEP_COUNT; s++)
        if (step_is_switched((enum job_step)s))
            assert_step(step_resume(&v, ALTERNATE, (enum job_step)s, JOB_FINISH), STEP_CATCH_UP,
                        (enum job_step)s, "resumed");
    assert_step(step_resume(&v, ALTERNATE, STEP_SETTLE, JOB_FINISH), STEP_SETTLE, STEP_SETTLE, "resumed");
}

static void test_step_resume__trusts_no_record_of_another_generation(void **state)
{
    (void)state;
    static struct view v;
    static const uint64_t others[] = {0, EARLIER, CURRENT, ALTERNATE + 1, ALTERNATE + 2};
    view_in(&v, PHASE_BUILDING);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        for (int s = 0; s < STEP_COUNT; s++)
            for (int kind = JOB_FINISH; kind <= JOB_CHECK; kind++)
                assert_step(step_resume(&v, others[i], (enum job_step)s, (enum job_kind)kind), STEP_SETTLE,
                            (enum job_step)s, "record of another generation");
}

static void test_step_resume__never_begins_at_the_cutover(void **state)
{
    (void)state;
    static struct view v;
    for (int p = 0; p < PHASE_COUNT; p++)
        for (int s = 0; s < STEP_COUNT; s++)
            for (uint64_t g = 0; g <= ALTERNATE + 1; g++)
                for (int kind = JOB_FINISH; kind <= JOB_CHECK; kind++) {
                    enum job_step on =
                        step_resume(view_in(&v, (enum phase)p), g, (enum job_step)s, (enum job_kind)kind);
                    assert_int_not_equal(on, STEP_CUTOVER);
                    assert_int_not_equal(on, STEP_FINISH);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_next__leads_on_after_ok),
        cmocka_unit_test(test_step_next__tries_again_what_a_server_that_is_away_made_fail),
        cmocka_unit_test(test_step_next__stops_where_the_job_is_anothers),
        cmocka_unit_test(test_step_next__begins_again_where_the_source_changed),
        cmocka_unit_test(test_step_next__takes_the_failure_of_the_step_for_every_other_error),
        cmocka_unit_test(test_step_next__cuts_over_only_after_a_verify_that_was_ok),
        cmocka_unit_test(test_step_next__does_not_skip_a_step_of_the_build),
        cmocka_unit_test(test_step_next__never_deletes_a_generation_that_is_read),
        cmocka_unit_test(test_step_next__reaches_every_step),
        cmocka_unit_test(test_step_next__reaches_an_end_from_every_step),
        cmocka_unit_test(test_step_asked__listens_only_where_the_request_has_a_meaning),
        cmocka_unit_test(test_step_next__leaves_an_end_for_no_other_end),
        cmocka_unit_test(test_step_name__is_read_back_by_step_parse),
        cmocka_unit_test(test_step_parse__refuses_what_is_no_name),
        cmocka_unit_test(test_step_resume__begins_or_ends_where_nothing_is_unfinished),
        cmocka_unit_test(test_step_resume__follows_after_a_cutover_whatever_the_record_says),
        cmocka_unit_test(test_step_resume__goes_on_with_a_build_from_its_own_record),
        cmocka_unit_test(test_step_resume__cuts_over_again_where_the_view_went_back_behind_a_cutover),
        cmocka_unit_test(test_step_resume__trusts_no_record_of_another_generation),
        cmocka_unit_test(test_step_resume__never_begins_at_the_cutover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
