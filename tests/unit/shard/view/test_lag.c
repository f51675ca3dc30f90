/* SPDX-License-Identifier: MIT */
/* The entries of a lane that a process has applied and does not know to be folded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "shard/fold/lag.h"

enum { ENTRY = 44 };

static struct lag_count count(uint64_t entries)
{
    return (struct lag_count){.entries = entries, .bytes = entries * ENTRY};
}

static struct log_id at(uint64_t entry)
{
    return (struct log_id){.ms = 1000 + entry};
}

static void lags_by(const struct lag *l, uint64_t now, uint64_t entries)
{
    struct lag_count c = lag_unfolded(l, count(now));
    assert_int_equal(c.entries, entries);
    assert_int_equal(c.bytes, entries * ENTRY);
}

static void test_lag__is_what_was_applied_since_folded(void **state)
{
    struct lag l = {.marks = 0};
    (void)state;
    lags_by(&l, 7, 7);
    lag_begin(&l, count(7));
    lags_by(&l, 7, 0);
    lags_by(&l, 10, 3);
    lag_note(&l, at(10), count(10));
    lag_note(&l, at(12), count(12));
    lags_by(&l, 15, 8);
    lag_folded(&l, at(9)); /* before the first noted position, so the number is unknown */
    lags_by(&l, 15, 8);
    lag_folded(&l, at(11));
    lags_by(&l, 15, 5);
    lag_folded(&l, at(12));
    lags_by(&l, 15, 3);
    lag_folded(&l, at(9)); /* an older view */
    lags_by(&l, 15, 3);
    lag_note(&l, at(15), count(15));
    lag_folded(&l, at(100));
    lags_by(&l, 15, 0);
    lag_begin(&l, count(20));
    lag_folded(&l, at(100));
    lags_by(&l, 21, 1);
}

/* Entries may be applied between the count and the position. A later note of the same position has the right
 * count. */
static void test_lag__takes_the_later_count_of_an_entry(void **state)
{
    struct lag l = {.marks = 0};
    (void)state;
    lag_note(&l, at(5), count(3));
    lag_note(&l, at(5), count(5));
    lag_note(&l, at(4), count(5)); /* the readers were set back */
    lag_folded(&l, at(5));
    lags_by(&l, 5, 0);
}

/* However many positions are noted, the lag is never too small, and it is too large by a few notes at
 * most. */
static void test_lag__forgets_some_positions_but_never_the_last(void **state)
{
    enum { NOTES = 1000 };
    struct lag l = {.marks = 0};
    (void)state;
    for (uint64_t i = 1; i <= NOTES; i++) {
        lag_note(&l, at(i), count(i));
        assert_in_range(l.marks, 1, LAG_MARKS);
        struct lag folded = l;
        lag_folded(&folded, at(i));
        lags_by(&folded, i, 0);
        folded = l;
        lag_folded(&folded, at(i / 2));
        assert_true(lag_unfolded(&folded, count(i)).entries >= i - i / 2);
    }
    lag_folded(&l, at(NOTES / 2));
    assert_in_range(lag_unfolded(&l, count(NOTES)).entries, NOTES / 2, NOTES / 2 + NOTES / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lag__is_what_was_applied_since_folded),
        cmocka_unit_test(test_lag__takes_the_later_count_of_an_entry),
        cmocka_unit_test(test_lag__forgets_some_positions_but_never_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
