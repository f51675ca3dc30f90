/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "expansion/decide/threshold.h"

/* A filter that has no reason to grow. */
static struct threshold_input calm(void)
{
    return (struct threshold_input){.built = true, .items = 10, .capacity = 1000000, .expand_at = 0.8};
}

static void assert_reason(struct threshold_input in, enum threshold_reason reason, const char *expected)
{
    char text[256] = "untouched";
    assert_int_equal(threshold_evaluate(&in, text, sizeof(text)), reason);
    assert_string_equal(text, expected);
}

static void test_threshold_evaluate__finds_no_reason_in_a_calm_filter(void **state)
{
    (void)state;
    assert_reason(calm(), THRESHOLD_NONE, "untouched");
}

static void test_threshold_evaluate__wants_one_layer_where_there_are_several(void **state)
{
    (void)state;
    struct threshold_input in = calm();
    in.layers = 1;
    in.rate_bound = 0.001;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.layers = 2;
    in.rate_bound = 0.00125;
    assert_reason(in, THRESHOLD_OVERFLOW, "it has 2 layers, and false positives up to 0.00125");
    in.lost_shards = 1;
    assert_reason(in, THRESHOLD_LOST, "1 shard was lost");
}

static void test_threshold_evaluate__reads_a_database_again_that_went_back(void **state)
{
    (void)state;
    struct threshold_input in = calm();
    in.older_looks = THRESHOLD_OLDER_LOOKS - 1;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.older_looks++;
    in.layers = 2;
    assert_reason(in, THRESHOLD_OLDER,
                  "the database is in an earlier state than the last rebuild has read, or is another one");
}

static void test_threshold_older_look__counts_looks_behind_the_rebuild(void **state)
{
    (void)state;
    struct threshold_older o = {0};
    assert_int_equal(threshold_older_look(&o, 800, 900, 5), 0); /* it may be from before the rebuild ended */
    assert_int_equal(threshold_older_look(&o, 800, 900, 5), 0);
    assert_int_equal(threshold_older_look(&o, 800, 900, 6), 1);
    assert_int_equal(threshold_older_look(&o, 800, 900, 6), 1);
    assert_int_equal(threshold_older_look(&o, 801, 900, 7), 2);
    assert_int_equal(threshold_older_look(&o, 900, 900, 8), 0);
    assert_int_equal(threshold_older_look(&o, 800, 900, 9), 1);
    assert_int_equal(threshold_older_look(&o, 0, 900, 10), 0); /* the last look failed */
    assert_int_equal(threshold_older_look(&o, 800, 900, 11), 1);
    assert_int_equal(threshold_older_look(&o, 800, 850, 12), 0); /* another rebuild */
    assert_int_equal(threshold_older_look(&o, 800, 0, 13), 0);   /* none is known */
}

static void test_threshold_evaluate__fires_at_the_ratio_and_not_below(void **state)
{
    (void)state;
    struct threshold_input in = calm();
    in.items = 799999;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.items = 800000;
    assert_reason(in, THRESHOLD_TOTAL, "800,000 keys are 80% of the capacity 1,000,000 (expand_at: 80%)");
    in.capacity = 0;
    assert_reason(in, THRESHOLD_NONE, "untouched");
}

static void test_threshold_evaluate__counts_the_rows_of_the_source(void **state)
{
    (void)state;
    struct threshold_input in = calm();
    in.source_rows = 1250000;
    assert_reason(in, THRESHOLD_TOTAL, "1,250,000 rows are 125% of the capacity 1,000,000 (expand_at: 80%)");
}

/* 900,000 keys; the rows of a third of them are deleted. */
static struct threshold_input dying(void)
{
    return (struct threshold_input){.built = true,
                                    .items = 900000,
                                    .capacity = 2000000,
                                    .source_rows = 600000,
                                    .rows_known = true,
                                    .expand_at = 0.8,
                                    .expand_at_dead = 0.3,
                                    .dead_looks = THRESHOLD_DEAD_LOOKS};
}

static void test_threshold_dead_keys__are_the_items_that_are_more_than_the_rows(void **state)
{
    (void)state;
    struct threshold_input in = dying();
    assert_int_equal(threshold_dead_keys(&in), 300000);
    in.source_rows = 900001;
    assert_int_equal(threshold_dead_keys(&in), 0);
}

static void test_threshold_evaluate__fires_at_the_share_of_dead_keys_and_not_below(void **state)
{
    (void)state;
    struct threshold_input in = dying();
    assert_reason(in, THRESHOLD_DEAD, "300,000 of 900,000 keys are dead: 33% (expand_at_dead: 30%)");
    in.source_rows = 630000;
    assert_reason(in, THRESHOLD_DEAD, "270,000 of 900,000 keys are dead: 30% (expand_at_dead: 30%)");
    in.source_rows = 630001;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.source_rows = 0; /* known to be empty */
    assert_reason(in, THRESHOLD_DEAD, "900,000 of 900,000 keys are dead: 100% (expand_at_dead: 30%)");
    in.items = 0;
    assert_reason(in, THRESHOLD_NONE, "untouched");
}

static void test_threshold_evaluate__asks_for_dead_keys_only_where_that_is_configured(void **state)
{
    (void)state;
    struct threshold_input in = dying();
    in.source_rows = 0;
    in.expand_at_dead = 0;
    assert_reason(in, THRESHOLD_NONE, "untouched");
}

static void test_threshold_evaluate__does_not_trust_an_estimate_further_than_its_margin(void **state)
{
    (void)state;
    struct threshold_input in = dying();
    in.rows_margin = 30000;
    assert_true(threshold_evaluate(&in, (char[256]){""}, 256) == THRESHOLD_DEAD);
    in.rows_margin = 30001;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.rows_margin = UINT64_MAX;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.rows_margin = 0;
    in.rows_known = false;
    assert_reason(in, THRESHOLD_NONE, "untouched");
}

static void test_threshold_evaluate__does_not_ask_twice_for_what_a_rebuild_left(void **state)
{
    (void)state;
    struct threshold_input in = dying();
    in.dead_at_build = 30000;
    assert_true(threshold_evaluate(&in, (char[256]){""}, 256) == THRESHOLD_DEAD);
    in.dead_at_build = 30001;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.dead_at_build = 300000; /* the rebuild left them all; 270,000 new ones are reason for another */
    in.source_rows = 330000;
    assert_true(threshold_evaluate(&in, (char[256]){""}, 256) == THRESHOLD_DEAD);
}

static void test_threshold_evaluate__asks_for_dead_keys_of_a_whole_generation(void **state)
{
    (void)state;
    struct threshold_input in = dying();
    in.built = false;
    assert_reason(in, THRESHOLD_UNBUILT, "not built yet");
}

static void test_threshold_evaluate__waits_for_a_second_look_at_dead_keys(void **state)
{
    (void)state;
    struct threshold_input in = dying();
    in.dead_looks = 1;
    assert_reason(in, THRESHOLD_NONE, "untouched");
}

/* A rebuild for dead keys drops the keys that fill the filter. */
static void test_threshold_evaluate__names_dead_keys_before_a_filter_that_is_full_of_them(void **state)
{
    (void)state;
    struct threshold_input in = dying();
    in.capacity = 1000000;
    assert_true(threshold_evaluate(&in, (char[256]){""}, 256) == THRESHOLD_DEAD);
    in.dead_looks = 1;
    assert_true(threshold_evaluate(&in, (char[256]){""}, 256) == THRESHOLD_TOTAL);
}

static void test_threshold_dead_look__counts_looks_in_a_row(void **state)
{
    (void)state;
    struct threshold_dead d = {0};
    struct threshold_input in = dying();
    assert_int_equal(threshold_dead_look(&d, &in, 7, 1), 0); /* this look may be older than generation 7 */
    assert_int_equal(threshold_dead_look(&d, &in, 7, 1), 0);
    assert_int_equal(threshold_dead_look(&d, &in, 7, 2), 1);
    assert_int_equal(threshold_dead_look(&d, &in, 7, 2), 1); /* the same look */
    assert_int_equal(threshold_dead_look(&d, &in, 7, 3), 2);
    assert_int_equal(threshold_dead_look(&d, &in, 7, 4), 3);
}

static void test_threshold_dead_look__begins_anew_after_one_that_found_fewer(void **state)
{
    (void)state;
    struct threshold_dead d = {0};
    struct threshold_input in = dying(), fine = dying();
    fine.source_rows = 890000;
    assert_int_equal(threshold_dead_look(&d, &fine, 7, 1), 0);
    assert_int_equal(threshold_dead_look(&d, &in, 7, 1), 0); /* keys were added since; the look is the same */
    assert_int_equal(threshold_dead_look(&d, &in, 7, 2), 1);
    assert_int_equal(threshold_dead_look(&d, &fine, 7, 3), 0);
    assert_int_equal(threshold_dead_look(&d, &in, 7, 4), 1);
    assert_int_equal(threshold_dead_look(&d, &in, 7, 5), 2);
}

static void test_threshold_dead_look__begins_anew_with_a_generation(void **state)
{
    (void)state;
    struct threshold_dead d = {0};
    struct threshold_input in = dying();
    assert_int_equal(threshold_dead_look(&d, &in, 7, 1), 0);
    assert_int_equal(threshold_dead_look(&d, &in, 7, 2), 1);
    assert_int_equal(threshold_dead_look(&d, &in, 8, 3), 0);
    assert_int_equal(threshold_dead_look(&d, &in, 8, 4), 1);
    assert_int_equal(threshold_dead_look(&d, &in, 8, 5), 2);
}

static void test_threshold_evaluate__compares_bytes_where_a_limit_is_set(void **state)
{
    (void)state;
    struct threshold_input in = calm();
    in.bytes = 1048576;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.expand_at_bytes = 1048577;
    assert_reason(in, THRESHOLD_NONE, "untouched");
    in.expand_at_bytes = 1048576;
    assert_reason(in, THRESHOLD_BYTES, "1,048,576 bytes (expand_at_bytes: 1,048,576)");
}

static void test_threshold_evaluate__names_the_first_reason_that_holds(void **state)
{
    (void)state;
    struct threshold_input in = {.lost_shards = 2,
                                 .items = 900000,
                                 .capacity = 1000000,
                                 .bytes = 2,
                                 .expand_at = 0.8,
                                 .expand_at_bytes = 1,
                                 .schedule_due = true};
    assert_reason(in, THRESHOLD_UNBUILT, "not built yet");
    in.built = true;
    assert_reason(in, THRESHOLD_LOST, "2 shards were lost");
    in.lost_shards = 0;
    assert_reason(in, THRESHOLD_TOTAL, "900,000 keys are 90% of the capacity 1,000,000 (expand_at: 80%)");
    in.items = 1;
    assert_reason(in, THRESHOLD_BYTES, "2 bytes (expand_at_bytes: 1)");
    in.expand_at_bytes = 0;
    assert_reason(in, THRESHOLD_SCHEDULE, "the schedule is due");
}

static void test_threshold_name__has_a_name_for_each_reason(void **state)
{
    (void)state;
    assert_string_equal(threshold_name(THRESHOLD_NONE), "none");
    assert_string_equal(threshold_name(THRESHOLD_UNBUILT), "unbuilt");
    assert_string_equal(threshold_name(THRESHOLD_LOST), "lost");
    assert_string_equal(threshold_name(THRESHOLD_OLDER), "older");
    assert_string_equal(threshold_name(THRESHOLD_OVERFLOW), "overflow");
    assert_string_equal(threshold_name(THRESHOLD_DEAD), "dead");
    assert_string_equal(threshold_name(THRESHOLD_TOTAL), "total");
    assert_string_equal(threshold_name(THRESHOLD_BYTES), "bytes");
    assert_string_equal(threshold_name(THRESHOLD_SCHEDULE), "schedule");
}

enum { OPENS = 36000, NOW = 0 }; /* the window of waits() opens ten hours after the epoch */

static bool waits(enum threshold_reason reason, uint64_t items, uint64_t rows, double a_second, time_t now)
{
    struct window w;
    struct error e = {""};
    struct threshold_input in = calm();
    in.items = items;
    in.source_rows = rows;
    assert_int_equal(setenv("TZ", "UTC0", 1), 0);
    assert_int_equal(window_parse(&w, "10:00-11:00", &e), ERR_OK);
    return threshold_waits(reason, &in, &w, a_second, now);
}

static void test_threshold_waits__for_the_window_where_that_does_no_harm(void **state)
{
    (void)state;
    assert_true(waits(THRESHOLD_DEAD, 900000, 10, 0, NOW));
    assert_false(waits(THRESHOLD_DEAD, 900000, 10, 0, OPENS));
    assert_true(waits(THRESHOLD_TOTAL, 900000, 0, 0, NOW));
    assert_true(waits(THRESHOLD_BYTES, 900000, 0, 0, NOW));
    assert_true(waits(THRESHOLD_SCHEDULE, 10, 0, 0, NOW));
    assert_false(waits(THRESHOLD_TOTAL, 900000, 0, 0, OPENS));
    assert_false(waits(THRESHOLD_NONE, 10, 0, 0, NOW));
}

static void test_threshold_waits__not_with_a_filter_that_cannot_say_no(void **state)
{
    (void)state;
    assert_false(waits(THRESHOLD_UNBUILT, 10, 0, 0, NOW));
    assert_false(waits(THRESHOLD_LOST, 10, 0, 0, NOW));
    assert_false(waits(THRESHOLD_OLDER, 10, 0, 0, NOW));
}

static void test_threshold_waits__not_with_a_filter_that_has_further_layers(void **state)
{
    (void)state;
    assert_false(waits(THRESHOLD_OVERFLOW, 10, 0, 0, NOW));
}

static void test_threshold_waits__not_past_the_capacity(void **state)
{
    (void)state;
    assert_true(waits(THRESHOLD_TOTAL, 1000000, 0, 0, NOW));
    assert_false(waits(THRESHOLD_TOTAL, 1000001, 0, 0, NOW));
    assert_false(waits(THRESHOLD_TOTAL, 10, 1000001, 0, NOW));
    assert_true(waits(THRESHOLD_TOTAL, 900000, 0, 2.7, NOW)); /* 97,200 more by then */
    assert_false(waits(THRESHOLD_TOTAL, 900000, 0, 2.8, NOW));
    assert_true(waits(THRESHOLD_TOTAL, 900000, 0, 2.8, NOW + 3600)); /* an hour less to wait */
}

static void test_threshold_retry_at__is_the_end_of_the_wait(void **state)
{
    (void)state;
    assert_int_equal(threshold_retry_at(1000000, 30000, 1000000), 1030000);
    assert_int_equal(threshold_retry_at(1000000, 30000, 1029999), 1030000);
    assert_int_equal(threshold_retry_at(1000000, 30000, 1030000), 0);
    assert_int_equal(threshold_retry_at(0, 30000, 1000000), 0);
    assert_int_equal(threshold_retry_at(1000000, 0, 1000000), 0);
}

static void test_threshold_retry_at__does_not_believe_a_clock_that_was_ahead(void **state)
{
    (void)state;
    assert_int_equal(threshold_retry_at(1030000, 30000, 1000000), 1060000); /* a little */
    assert_int_equal(threshold_retry_at(1030001, 30000, 1000000), 0);
    assert_int_equal(threshold_retry_at(1000000 + 86400000, 600000, 1000000), 0);
    assert_int_equal(threshold_retry_at(UINT64_MAX, 30000, 1000000), 0);
}

static void test_threshold_has_served__does_not_believe_a_clock_that_was_ahead(void **state)
{
    (void)state;
    const time_t due = 1000000, now = due + 10;
    assert_true(threshold_has_served((uint64_t)due * 1000, due, now));
    assert_true(threshold_has_served((uint64_t)now * 1000, due, now));
    assert_true(threshold_has_served((uint64_t)(now + 30) * 1000, due, now)); /* a little */
    assert_false(threshold_has_served((uint64_t)due * 1000 - 1, due, now));
    assert_false(threshold_has_served(0, due, now));
    assert_false(threshold_has_served((uint64_t)(now + 86400) * 1000, due, now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threshold_evaluate__finds_no_reason_in_a_calm_filter),
        cmocka_unit_test(test_threshold_evaluate__wants_one_layer_where_there_are_several),
        cmocka_unit_test(test_threshold_evaluate__reads_a_database_again_that_went_back),
        cmocka_unit_test(test_threshold_older_look__counts_looks_behind_the_rebuild),
        cmocka_unit_test(test_threshold_evaluate__fires_at_the_ratio_and_not_below),
        cmocka_unit_test(test_threshold_evaluate__counts_the_rows_of_the_source),
        cmocka_unit_test(test_threshold_dead_keys__are_the_items_that_are_more_than_the_rows),
        cmocka_unit_test(test_threshold_evaluate__fires_at_the_share_of_dead_keys_and_not_below),
        cmocka_unit_test(test_threshold_evaluate__asks_for_dead_keys_only_where_that_is_configured),
        cmocka_unit_test(test_threshold_evaluate__does_not_trust_an_estimate_further_than_its_margin),
        cmocka_unit_test(test_threshold_evaluate__does_not_ask_twice_for_what_a_rebuild_left),
        cmocka_unit_test(test_threshold_evaluate__asks_for_dead_keys_of_a_whole_generation),
        cmocka_unit_test(test_threshold_evaluate__waits_for_a_second_look_at_dead_keys),
        cmocka_unit_test(test_threshold_evaluate__names_dead_keys_before_a_filter_that_is_full_of_them),
        cmocka_unit_test(test_threshold_dead_look__counts_looks_in_a_row),
        cmocka_unit_test(test_threshold_dead_look__begins_anew_after_one_that_found_fewer),
        cmocka_unit_test(test_threshold_dead_look__begins_anew_with_a_generation),
        cmocka_unit_test(test_threshold_evaluate__compares_bytes_where_a_limit_is_set),
        cmocka_unit_test(test_threshold_evaluate__names_the_first_reason_that_holds),
        cmocka_unit_test(test_threshold_retry_at__is_the_end_of_the_wait),
        cmocka_unit_test(test_threshold_retry_at__does_not_believe_a_clock_that_was_ahead),
        cmocka_unit_test(test_threshold_has_served__does_not_believe_a_clock_that_was_ahead),
        cmocka_unit_test(test_threshold_waits__for_the_window_where_that_does_no_harm),
        cmocka_unit_test(test_threshold_waits__not_with_a_filter_that_cannot_say_no),
        cmocka_unit_test(test_threshold_waits__not_with_a_filter_that_has_further_layers),
        cmocka_unit_test(test_threshold_waits__not_past_the_capacity),
        cmocka_unit_test(test_threshold_name__has_a_name_for_each_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
