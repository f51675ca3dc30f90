/* SPDX-License-Identifier: MIT */
/* When a fold is due: rows of facts with the expected time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "shard/fold/due.h"

enum { S = 1000 * 1000, MIB = 1 << 20 };

static void test_fold_due__by_what_is_not_folded(void **state)
{
    static const struct {
        struct due_facts facts;
        uint64_t due;
    } rows[] = {
        /* Nothing is unfolded. */
        {{.last = 5 * S, .oldest = 3 * S}, DUE_NEVER},
        {{.last = 0}, DUE_NEVER},
        /* Little: ten intervals after the oldest entry, but not before an interval after the last fold. */
        {{.last = 5 * S, .oldest = 20 * S, .unfolded_bytes = 44}, 30 * S},
        {{.last = 0, .oldest = 20 * S, .unfolded_bytes = 44}, 30 * S},
        {{.last = 29 * S + S / 2, .oldest = 20 * S, .unfolded_bytes = 44}, 30 * S + S / 2},
        {{.last = 5 * S, .oldest = 20 * S, .unfolded_bytes = 44, .interval = 100}, 20 * S + 1000},
        /* Some: an interval after the last fold. */
        {{.last = 25 * S, .oldest = 20 * S, .unfolded_bytes = DUE_SOME_BYTES}, 26 * S},
        {{.last = 25 * S, .oldest = 20 * S, .unfolded_bytes = DUE_SOME_BYTES, .interval = 3 * S}, 28 * S},
        {{.last = 0, .oldest = 20 * S, .unfolded_bytes = DUE_SOME_BYTES}, 0},
        /* Much: at once. */
        {{.last = 25 * S, .oldest = 25 * S, .unfolded_bytes = LOG_MAX_DEFAULT / 4}, 25 * S + DUE_LEAST_US},
        {{.last = 25 * S, .oldest = 25 * S, .unfolded_bytes = 16 * MIB}, 25 * S + DUE_LEAST_US},
        {{.last = 25 * S, .oldest = 25 * S, .unfolded_bytes = 16 * MIB - 1}, 26 * S},
        {{.last = 25 * S, .oldest = 25 * S, .unfolded_bytes = LOG_MAX_DEFAULT / 4, .interval = 1000},
         25 * S + 1000},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct due_facts facts = rows[i].facts;
        facts.log_max = LOG_MAX_DEFAULT;
        if (fold_due(&facts) != rows[i].due)
            fail_msg("row %u: %llu, not %llu", i, (unsigned long long)fold_due(&facts),
                     (unsigned long long)rows[i].due);
    }
}

static void test_fold_look__comes_earlier_where_more_comes(void **state)
{
    static const struct {
        struct due_facts facts;
        uint64_t after;
    } rows[] = {
        {{.last = 0}, S},
        {{.last = 9 * S}, S},
        {{.last = 9 * S, .unfolded_bytes = 8 * MIB - 1}, S}, /* 8 MiB/s: half of much in a second */
        {{.last = 9 * S, .unfolded_bytes = 32 * MIB - 1}, S / 4},
        {{.last = 9 * S + S / 2, .unfolded_bytes = 16 * MIB - 1}, S / 4},
        {{.last = 9 * S, .unfolded_bytes = 200 * MIB}, DUE_LEAST_US},
        {{.last = 9 * S, .unfolded_bytes = 8 * MIB - 1, .interval = 2 * S}, S},
        {{.last = 9 * S, .unfolded_bytes = 200 * MIB, .interval = 1000}, 1000},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct due_facts facts = rows[i].facts;
        facts.log_max = LOG_MAX_DEFAULT;
        if (fold_look(&facts, 10 * S) != 10 * S + rows[i].after)
            fail_msg("row %u: after %llu, not %llu", i,
                     (unsigned long long)fold_look(&facts, 10 * S) - 10 * S,
                     (unsigned long long)rows[i].after);
    }
}

static void test_log__is_full_at_its_bound(void **state)
{
    (void)state;
    assert_false(log_is_full(0, 100));
    assert_false(log_is_full(99, 100));
    assert_true(log_is_full(100, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fold_due__by_what_is_not_folded),
        cmocka_unit_test(test_fold_look__comes_earlier_where_more_comes),
        cmocka_unit_test(test_log__is_full_at_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
