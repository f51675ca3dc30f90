/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "migrate/change/stream_progress.h"

static void transaction(struct stream_progress *p, unsigned rows, uint64_t end)
{
    stream_progress_begin(p);
    while (rows-- > 0)
        stream_progress_row(p, 1);
    stream_progress_commit(p, end);
}

static void test_stream_progress__is_confirmed_only_by_the_consumer(void **state)
{
    (void)state;
    struct stream_progress p;
    stream_progress_init(&p, 100);
    transaction(&p, 1, 200);
    assert_int_equal(p.mark, 200);
    assert_int_equal(p.confirmed, 100);
    stream_progress_idle(&p, 300); /* a row is not confirmed yet */
    assert_int_equal(p.complete, 300);
    assert_int_equal(p.confirmed, 100);
    assert_int_equal(p.mark, 200);
    assert_true(stream_progress_confirm(&p, 200));
    assert_int_equal(p.confirmed, 300); /* including the WAL without rows */
}

static void test_stream_progress__confirms_one_transaction_of_several(void **state)
{
    (void)state;
    struct stream_progress p;
    stream_progress_init(&p, 100);
    transaction(&p, 1, 200);
    transaction(&p, 2, 300);
    transaction(&p, 0, 400);
    assert_true(stream_progress_confirm(&p, 200));
    assert_int_equal(p.confirmed, 200);
    assert_true(stream_progress_confirm(&p, 100)); /* the position does not go back */
    assert_int_equal(p.confirmed, 200);
    assert_true(stream_progress_confirm(&p, 300));
    assert_int_equal(p.confirmed, 400);
}

static void test_stream_progress__does_not_move_within_a_transaction(void **state)
{
    (void)state;
    struct stream_progress p;
    stream_progress_init(&p, 100);
    stream_progress_begin(&p);
    stream_progress_idle(&p, 500); /* a keepalive within the transaction */
    assert_int_equal(p.confirmed, 100);
    assert_int_equal(p.complete, 100);
    assert_int_equal(p.received, 500);
    stream_progress_row(&p, 1);
    assert_false(stream_progress_confirm(&p, 500));
    assert_int_equal(p.confirmed, 100);
    stream_progress_commit(&p, 600);
    assert_int_equal(p.confirmed, 100);
    assert_int_equal(p.mark, 600);
}

static void test_stream_progress__follows_a_log_that_holds_nothing(void **state)
{
    (void)state;
    struct stream_progress p;
    stream_progress_init(&p, 100);
    transaction(&p, 0, 200);
    assert_int_equal(p.confirmed, 200);
    stream_progress_idle(&p, 1000);
    assert_int_equal(p.confirmed, 1000);
    stream_progress_idle(&p, 900);
    assert_int_equal(p.confirmed, 1000);
    assert_int_equal(p.mark, 200);
}

static void test_stream_progress_confirm__refuses_a_mark_that_was_not_given(void **state)
{
    (void)state;
    struct stream_progress p;
    stream_progress_init(&p, 100);
    assert_true(stream_progress_confirm(&p, 100));
    assert_false(stream_progress_confirm(&p, 101));
    stream_progress_idle(&p, 500);
    assert_false(stream_progress_confirm(&p, 500));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_progress__is_confirmed_only_by_the_consumer),
        cmocka_unit_test(test_stream_progress__confirms_one_transaction_of_several),
        cmocka_unit_test(test_stream_progress__does_not_move_within_a_transaction),
        cmocka_unit_test(test_stream_progress__follows_a_log_that_holds_nothing),
        cmocka_unit_test(test_stream_progress_confirm__refuses_a_mark_that_was_not_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
