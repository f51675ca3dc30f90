/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expansion/record/checkpoint.h"

static bool take(struct record *r, const char *name, const char *value)
{
    return checkpoint_take(r, name, strlen(name), value, strlen(value));
}

static void take_again(void *arg, const char *field, const char *value)
{
    if (!take(arg, field, value))
        fail_msg("%s=%s is not taken", field, value);
}

/* A record of a scan by ids, with every field set. */
static struct record whole_record(void)
{
    struct record r = {.generation = UINT64_MAX,
                       .settled = true,
                       .scan_ended = true,
                       .rows = 1,
                       .rows_total = 2,
                       .skipped_null = 3,
                       .tables_hash = UINT64_MAX - 1,
                       .keys_hash = UINT64_MAX - 3,
                       .source = UINT64_MAX - 2,
                       .tables = 4,
                       .next_table = 3,
                       .horizon = "18446744073709551615",
                       .swept = "18446744073709551614",
                       .newest = "18446744073709551613"};
    assert_true(record_make_room(&r, 3, 2));
    r.range_count = 3;
    r.ranges[0] = (struct scan_range){.table = 2, .after = "a\tb", .upto = "\\t\tz"};
    r.ranges[1] = (struct scan_range){.table = 0};
    r.ranges[2] = (struct scan_range){.table = 2, .after = "\x01\xff\"'"};
    r.marks[0] = (struct table_mark){.low_water = "17", .upto = "42"};
    r.marks[1] = (struct table_mark){.upto = "-1"};
    return r;
}

#define EXPECT_SAME(member) assert_true(a->member == b->member)

static void expect_equal(const struct record *a, const struct record *b)
{
    EXPECT_SAME(generation);
    EXPECT_SAME(settled);
    EXPECT_SAME(scan_ended);
    EXPECT_SAME(rows);
    EXPECT_SAME(rows_total);
    EXPECT_SAME(skipped_null);
    EXPECT_SAME(blocks);
    EXPECT_SAME(tables_hash);
    EXPECT_SAME(keys_hash);
    EXPECT_SAME(source);
    EXPECT_SAME(tables);
    EXPECT_SAME(next_table);
    EXPECT_SAME(range_count);
    EXPECT_SAME(ranges_taken);
    EXPECT_SAME(marks_taken);
    assert_string_equal(a->horizon, b->horizon);
    assert_string_equal(a->swept, b->swept);
    assert_string_equal(a->newest, b->newest);
    for (unsigned i = 0; i < a->range_count; i++) {
        EXPECT_SAME(ranges[i].table);
        assert_string_equal(a->ranges[i].after, b->ranges[i].after);
        assert_string_equal(a->ranges[i].upto, b->ranges[i].upto);
    }
    for (unsigned i = 0; i < a->marks_taken; i++) {
        assert_string_equal(a->marks[i].low_water, b->marks[i].low_water);
        assert_string_equal(a->marks[i].upto, b->marks[i].upto);
    }
}

static void test_checkpoint_each__writes_what_is_read_again(void **state)
{
    (void)state;
    struct record r = whole_record(), again = {0};
    checkpoint_each(&r, true, take_again, &again);
    expect_equal(&again, &r);
    assert_true(checkpoint_is_sound(&again));
    record_fini(&again);
    r.blocks = true;
    r.scan_ended = false;
    memset(&again, 0, sizeof(again));
    checkpoint_each(&r, true, take_again, &again);
    expect_equal(&again, &r);
    record_fini(&again);
    record_fini(&r);
    assert_null(r.ranges);
    assert_int_equal(r.range_count, 0);
}

static void test_checkpoint_each__leaves_the_settles_fields_alone_while_it_scans(void **state)
{
    (void)state;
    struct record r = whole_record(), again = {0};
    checkpoint_each(&r, false, take_again, &again);
    assert_false(again.settled);
    assert_int_equal(again.tables, 0);
    assert_string_equal(again.horizon, "");
    assert_int_equal(again.marks_taken, 0);
    assert_int_equal(again.next_table, 3);
    assert_int_equal(again.range_count, 3);
    assert_string_equal(again.ranges[0].after, "a\tb");
    record_fini(&again);
    memset(&again, 0, sizeof(again));
    checkpoint_marks(&r, take_again, &again);
    assert_int_equal(again.marks_taken, 2);
    assert_string_equal(again.marks[0].low_water, "17");
    assert_int_equal(again.ranges_taken, 0);
    record_fini(&again);
    record_fini(&r);
}

struct written {
    unsigned ranges;
};

static void count_ranges(void *arg, const char *field, const char *value)
{
    (void)value;
    ((struct written *)arg)->ranges += strncmp(field, "range.", 6) == 0;
}

/* Redis keeps the fields of earlier ranges when fewer ranges are written. The count says which ranges are
 * valid. */
static void test_checkpoint_each__writes_as_many_ranges_as_are_left(void **state)
{
    (void)state;
    struct record r = whole_record(), again = whole_record();
    struct written w = {0};
    r.range_count = 1;
    checkpoint_each(&r, false, count_ranges, &w);
    assert_int_equal(w.ranges, 3); /* the three fields of a range */
    checkpoint_each(&r, false, take_again, &again);
    assert_int_equal(again.range_count, 1);
    assert_true(checkpoint_is_sound(&again));
    record_fini(&r);
    record_fini(&again);
}

static void test_checkpoint_take__refuses_half_of_an_id(void **state)
{
    (void)state;
    struct record r = {0};
    char id[SOURCE_ID_MAX + 1];
    memset(id, '9', sizeof(id));
    static const char *const fields[] = {"range.5.after", "range.5.upto", "table.5.low_water",
                                         "table.5.upto"};
    for (size_t i = 0; i < 4; i++) {
        size_t length = strlen(fields[i]);
        assert_true(checkpoint_take(&r, fields[i], length, id, SOURCE_ID_MAX - 1));
        const char *taken = i == 0   ? r.ranges[5].after
                            : i == 1 ? r.ranges[5].upto
                            : i == 2 ? r.marks[5].low_water
                                     : r.marks[5].upto;
        assert_int_equal(strlen(taken), SOURCE_ID_MAX - 1);
        assert_false(checkpoint_take(&r, fields[i], length, id, SOURCE_ID_MAX));
        assert_string_equal(taken, "");
        assert_false(checkpoint_take(&r, fields[i], length,
                                     "12\0"
                                     "34",
                                     5));
        assert_string_equal(taken, "");
    }
    assert_int_equal(r.ranges_taken, 6);
    assert_int_equal(r.marks_taken, 6);
    record_fini(&r);
}

static void test_checkpoint_take__refuses_what_is_no_number(void **state)
{
    (void)state;
    static const char *const numbers[] = {"generation", "checkpoint_rows", "tables_hash",  "tables",
                                          "next_table", "ranges",          "range.0.table"};
    static const char *const values[] = {"", "-1", "+1", " 1", "1e3", "18446744073709551616"};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            struct record r = {0};
            assert_false(take(&r, numbers[i], values[k]));
            record_fini(&r);
        }
    struct record r = {.blocks = true};
    assert_false(take(&r, "settled", "yes"));
    assert_false(r.settled);
    assert_false(take(&r, "blocks", ""));
    assert_false(r.blocks);
}

static void test_checkpoint_take__wraps_no_count(void **state)
{
    (void)state;
    struct record r = {.tables = 1, .next_table = 1, .range_count = 1};
    static const char *const counts[] = {"tables", "next_table", "ranges", "range.0.table"};
    for (size_t i = 0; i < 4; i++)
        assert_false(take(&r, counts[i], "4294967297"));
    assert_int_equal(r.tables, 0);
    assert_int_equal(r.next_table, 0);
    assert_int_equal(r.range_count, 0);
    assert_int_equal(r.ranges[0].table, 0);
    record_fini(&r);
}

static void test_checkpoint_take__has_no_room_for_positions_that_there_cannot_be(void **state)
{
    (void)state;
    struct record r = {0};
    char name[48];
    (void)snprintf(name, sizeof(name), "range.%d.after", READERS_RANGES_MAX);
    assert_false(take(&r, name, "1"));
    (void)snprintf(name, sizeof(name), "table.%d.upto", SOURCE_TABLES_MAX);
    assert_false(take(&r, name, "1"));
    assert_false(take(&r, "range.4294967296.after", "1"));
    assert_int_equal(r.ranges_taken, 0);
    (void)snprintf(name, sizeof(name), "range.%d.after", READERS_RANGES_MAX - 1);
    assert_true(take(&r, name, "1"));
    (void)snprintf(name, sizeof(name), "table.%d.upto", SOURCE_TABLES_MAX - 1);
    assert_true(take(&r, name, "1"));
    assert_string_equal(r.marks[SOURCE_TABLES_MAX - 1].upto, "1");
    assert_string_equal(r.marks[0].upto, ""); /* new elements are empty */
    assert_string_equal(r.ranges[0].after, "");
    record_fini(&r);
}

/* A Redis hash returns its fields in any order. */
static void test_checkpoint_take__keeps_what_it_has_when_it_makes_room(void **state)
{
    (void)state;
    struct record r = {0};
    assert_true(take(&r, "range.2.table", "7"));
    assert_true(take(&r, "range.0.after", "a"));
    assert_true(take(&r, "range.4.upto", "z"));
    assert_true(take(&r, "table.1.upto", "9"));
    assert_true(take(&r, "table.3.low_water", "3"));
    assert_int_equal(r.ranges_taken, 5);
    assert_int_equal(r.marks_taken, 4);
    assert_int_equal(r.ranges[2].table, 7);
    assert_string_equal(r.ranges[0].after, "a");
    assert_string_equal(r.ranges[1].after, "");
    assert_string_equal(r.marks[1].upto, "9");
    record_fini(&r);
}

static void test_checkpoint_take__cuts_a_remark_and_passes_over_what_it_does_not_know(void **state)
{
    (void)state;
    struct record r = {.step = STEP_RECLAIM};
    char reason[RECORD_TEXT_MAX + 100];
    memset(reason, 'r', sizeof(reason));
    assert_true(checkpoint_take(&r, "reason", 6, reason, sizeof(reason)));
    assert_int_equal(strlen(r.reason), RECORD_TEXT_MAX - 1);
    static const char *const unknown[] = {"colour",        "range",         "range.",         "range.1",
                                          "range..after",  "range.1.other", "range.x.upto",   "range.-1.upto",
                                          "table.1.after", "other.1.upto",  "range.1.2.upto", "."};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        assert_true(take(&r, unknown[i], "blue"));
    assert_int_equal(r.ranges_taken + r.marks_taken, 0);
    assert_true(take(&r, "step", "of another version"));
    assert_int_equal(r.step, STEP_RECLAIM);
    assert_true(take(&r, "step", "scan"));
    assert_int_equal(r.step, STEP_SCAN);
    assert_true(take(&r, "state", "running") && r.running);
    assert_true(take(&r, "state", "done") && !r.running);
    assert_true(take(&r, "started_ms", "soon")); /* an invalid time is ignored: no row depends on it */
    assert_int_equal(r.started_ms, 0);
}

static void test_checkpoint_is_sound__knows_tables_and_ranges_that_there_cannot_be(void **state)
{
    (void)state;
    struct scan_range ranges[READERS_RANGES_MAX + 1] = {{.table = 1}};
    struct record r = {.settled = true, .tables = 2, .next_table = 2, .ranges = ranges};
    assert_true(checkpoint_is_sound(&(struct record){0}));
    /* The tables are not settled: the ranges are not used. */
    assert_true(checkpoint_is_sound(&(struct record){.range_count = 9}));
    assert_true(checkpoint_is_sound(&r));
    r.next_table = 3;
    assert_false(checkpoint_is_sound(&r)); /* beyond the last table */
    r.next_table = 1;
    r.range_count = 1;
    /* The range has no fields: its rows would be skipped. */
    assert_false(checkpoint_is_sound(&r));
    r.ranges_taken = 3;
    assert_true(checkpoint_is_sound(&r));
    ranges[0].table = 2;
    assert_false(checkpoint_is_sound(&r));
    ranges[0].table = 1;
    r.range_count = r.ranges_taken = READERS_RANGES_MAX;
    assert_true(checkpoint_is_sound(&r));
    r.range_count = r.ranges_taken = READERS_RANGES_MAX + 1;
    assert_false(checkpoint_is_sound(&r)); /* more than the readers support */
    r.range_count = 0;
    r.tables = UINT32_MAX;
    assert_false(checkpoint_is_sound(&r));
}

static void test_checkpoint_is_sound__wants_numbers_of_blocks(void **state)
{
    (void)state;
    struct scan_range range = {.table = 0};
    struct record r = {.settled = true,
                       .tables = 1,
                       .next_table = 1,
                       .blocks = true,
                       .ranges = &range,
                       .range_count = 1,
                       .ranges_taken = 1};
    static const struct {
        const char *after, *upto;
        bool sound;
    } rows[] = {{"0", "", true},   {"", "", true},     {"3", "9", true},
                {"9", "9", true},  {"9", "3", false},  {"x", "9", false},
                {"3", "x", false}, {"-1", "9", false}, {"3", "18446744073709551616", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(range.after, sizeof(range.after), "%s", rows[i].after);
        (void)snprintf(range.upto, sizeof(range.upto), "%s", rows[i].upto);
        r.blocks = true;
        assert_int_equal(checkpoint_is_sound(&r), rows[i].sound);
        r.blocks = false; /* ids may be any text */
        assert_true(checkpoint_is_sound(&r));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_each__writes_what_is_read_again),
        cmocka_unit_test(test_checkpoint_each__leaves_the_settles_fields_alone_while_it_scans),
        cmocka_unit_test(test_checkpoint_each__writes_as_many_ranges_as_are_left),
        cmocka_unit_test(test_checkpoint_take__refuses_half_of_an_id),
        cmocka_unit_test(test_checkpoint_take__refuses_what_is_no_number),
        cmocka_unit_test(test_checkpoint_take__wraps_no_count),
        cmocka_unit_test(test_checkpoint_take__has_no_room_for_positions_that_there_cannot_be),
        cmocka_unit_test(test_checkpoint_take__keeps_what_it_has_when_it_makes_room),
        cmocka_unit_test(test_checkpoint_take__cuts_a_remark_and_passes_over_what_it_does_not_know),
        cmocka_unit_test(test_checkpoint_is_sound__knows_tables_and_ranges_that_there_cannot_be),
        cmocka_unit_test(test_checkpoint_is_sound__wants_numbers_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
