/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "shard/marks.h"
#include "shard/slots.h"

static void test_marks_name__lies_in_the_slot(void **state)
{
    (void)state;
    struct key_name name;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        marks_name("p", slot, &name);
        assert_int_equal(slots_of_key(name.text, name.length), slot);
    }
    marks_name("p", SLOTS, &name);
    assert_memory_equal(name.text, "p:mark", name.length);
}

static void test_mark_parse__takes_what_is_written(void **state)
{
    (void)state;
    struct mark m;
    static const char text[] = "1700000000123:750:755:7123.00000001:00ff";
    assert_true(mark_parse(&m, text, strlen(text)));
    assert_int_equal(m.ms, 1700000000123);
    assert_int_equal(m.horizon, 750);
    assert_int_equal(m.next, 755);
    assert_string_equal(m.server, "7123.00000001");
    assert_string_equal(m.lineage, "00ff");
}

static void test_mark_parse__refuses_all_else(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "1",
                                        "1:2:3:s",
                                        "1:2:3:s:",
                                        "1:2:3::ab",
                                        "1:2:3:s:xy",
                                        "1:2:3:s:ab:",
                                        "1:2:3:s:A",
                                        ":2:3:s:ab",
                                        "1:-2:3:s:ab",
                                        "1:4:3:s:ab",
                                        "x:2:3:s:a",
                                        "1:2:3:s:a:b",
                                        "1:2:99999999999999999999999:s:ab",
                                        "1:2:3:s:0123456789012345678901234567890123456789f",
                                        "1:2:3:0123456789012345678901234567890123456789012345678:ab"};
    struct mark m;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (mark_parse(&m, texts[i], strlen(texts[i])))
            fail_msg("took \"%s\"", texts[i]);
    assert_false(mark_parse(&m, "1:2:3:s\0:ab", 11));
}

/* --- choosing --- */

static bool is_trusted(void *arg, const char *lineage)
{
    return strcmp(lineage, arg) == 0;
}

static char lineage_a[] = "aa";

static struct marks_wish wish(uint64_t margin_ms)
{
    return (struct marks_wish){.server = "s",
                               .next = 1000,
                               .after = 50,
                               .margin_ms = margin_ms,
                               .trusted = is_trusted,
                               .arg = lineage_a};
}

static struct mark at(uint64_t ms, uint64_t horizon, const char *lineage)
{
    struct mark m = {.ms = ms, .horizon = horizon, .next = horizon + 5, .server = "s"};
    (void)snprintf(m.lineage, sizeof(m.lineage), "%s", lineage);
    return m;
}

static void test_marks_choose__takes_the_margin_before_the_newest(void **state)
{
    (void)state;
    const struct mark marks[] = {at(9000, 900, "aa"), at(8000, 800, "aa"), at(7000, 700, "aa"),
                                 at(6000, 600, "aa")};
    const struct marks_wish none = wish(0), some = wish(1500), all = wish(3001);
    uint64_t horizon = 0;
    assert_true(marks_choose(marks, 4, &none, &horizon));
    assert_int_equal(horizon, 900);
    assert_true(marks_choose(marks, 4, &some, &horizon));
    assert_int_equal(horizon, 700);
    assert_false(marks_choose(marks, 4, &all, &horizon));
    assert_false(marks_choose(marks, 0, &none, &horizon));
}

static void test_marks_choose__passes_over_what_was_written_after_the_failover(void **state)
{
    (void)state;
    const struct mark marks[] = {at(9000, 900, "bb"), at(8000, 800, "bb"), at(7000, 700, "aa"),
                                 at(6000, 600, "aa")};
    const struct marks_wish w = wish(0);
    uint64_t horizon = 0;
    assert_true(marks_choose(marks, 4, &w, &horizon));
    assert_int_equal(horizon, 700);
    assert_false(marks_choose(marks, 2, &w, &horizon));
}

/* Behind the newest one that is trusted any will do: what counts is its horizon alone. */
static void test_marks_choose__takes_the_margin_from_an_older_lineage(void **state)
{
    (void)state;
    const struct mark marks[] = {at(9000, 900, "aa"), at(7000, 700, "cc")};
    const struct marks_wish w = wish(1000);
    uint64_t horizon = 0;
    assert_true(marks_choose(marks, 2, &w, &horizon));
    assert_int_equal(horizon, 700);
}

static void test_marks_choose__wants_a_mark_after_what_rows_do_not_cover(void **state)
{
    (void)state;
    const struct mark marks[] = {at(9000, 900, "aa"), at(8000, 800, "aa")};
    struct marks_wish w = wish(500);
    uint64_t horizon = 0;
    w.after = 904;
    assert_true(marks_choose(marks, 2, &w, &horizon));
    assert_int_equal(horizon, 800);
    w.after = 905; /* as large as what the mark says comes next: it may have been written before */
    assert_false(marks_choose(marks, 2, &w, &horizon));
}

static void test_marks_choose__relies_on_no_other_history_of_the_database(void **state)
{
    (void)state;
    struct mark marks[] = {at(9000, 900, "aa"), at(8000, 800, "aa")};
    struct marks_wish w = wish(0);
    uint64_t horizon = 0;
    w.next = 904; /* the newest is ahead of the database, which was restored */
    assert_true(marks_choose(marks, 2, &w, &horizon));
    assert_int_equal(horizon, 800);
    w.server = "t";
    assert_false(marks_choose(marks, 2, &w, &horizon));
}

static void test_marks_choose__takes_the_oldest_horizon_where_clocks_were_set_back(void **state)
{
    (void)state;
    const struct mark marks[] = {at(5000, 900, "aa"), at(9000, 800, "aa"), at(3000, 700, "aa")};
    const struct marks_wish w = wish(1000);
    uint64_t horizon = 0;
    assert_true(marks_choose(marks, 3, &w, &horizon));
    assert_int_equal(horizon, 700);
}

static void test_marks_kept__reach_over_the_margin(void **state)
{
    (void)state;
    assert_int_equal(marks_kept(5000, 60000), 24 + MARKS_KEPT_MIN);
    assert_int_equal(marks_kept(0, 60000), MARKS_KEPT_MIN);
    assert_int_equal(marks_kept(1, 3600 * 1000), MARKS_KEPT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks_name__lies_in_the_slot),
        cmocka_unit_test(test_mark_parse__takes_what_is_written),
        cmocka_unit_test(test_mark_parse__refuses_all_else),
        cmocka_unit_test(test_marks_choose__takes_the_margin_before_the_newest),
        cmocka_unit_test(test_marks_choose__passes_over_what_was_written_after_the_failover),
        cmocka_unit_test(test_marks_choose__takes_the_margin_from_an_older_lineage),
        cmocka_unit_test(test_marks_choose__wants_a_mark_after_what_rows_do_not_cover),
        cmocka_unit_test(test_marks_choose__relies_on_no_other_history_of_the_database),
        cmocka_unit_test(test_marks_choose__takes_the_oldest_horizon_where_clocks_were_set_back),
        cmocka_unit_test(test_marks_kept__reach_over_the_margin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
