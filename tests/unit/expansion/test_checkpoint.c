/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "expansion/checkpoint.h"

static bool take(struct record *r, const char *name, const char *value)
{
    return checkpoint_take(r, name, strlen(name), value, strlen(value));
}

static void take_again(void *arg, const char *field, const char *value)
{
    assert_true(take(arg, field, value));
}

static void test_checkpoint_each__writes_what_is_read_again(void **state)
{
    (void)state;
    static const struct record r = {.generation = UINT64_MAX,
                                    .settled = true,
                                    .scan_ended = true,
                                    .layer = 3,
                                    .pass = 1,
                                    .passes = 4294967295,
                                    .rows = 1,
                                    .rows_total = 2,
                                    .skipped_null = 3,
                                    .skipped_empty = 4,
                                    .segment_rows = 5,
                                    .segment_after = "a",
                                    .segment_upto = "b",
                                    .last_id = "c",
                                    .low_water = "d",
                                    .upto = "e",
                                    .horizon = "18446744073709551615"};
    struct record again;
    memset(&again, 0, sizeof(again));
    checkpoint_each(&r, true, take_again, &again);
    assert_memory_equal(&again, &r, sizeof(r));
}

static void test_checkpoint_each__leaves_the_settles_fields_alone_while_it_scans(void **state)
{
    (void)state;
    struct record r = {.settled = true, .upto = "9", .last_id = "5", .low_water = "7"}, again = {0};
    checkpoint_each(&r, false, take_again, &again);
    assert_false(again.settled);
    assert_string_equal(again.upto, "");
    assert_string_equal(again.low_water, "");
    assert_string_equal(again.last_id, "5");
}

static void test_checkpoint_take__refuses_half_of_an_id(void **state)
{
    (void)state;
    struct record r = {.last_id = "17"};
    char id[SCAN_ID_MAX + 1];
    memset(id, '9', sizeof(id));
    assert_true(checkpoint_take(&r, "last_id", 7, id, SCAN_ID_MAX - 1));
    assert_int_equal(strlen(r.last_id), SCAN_ID_MAX - 1);
    assert_false(checkpoint_take(&r, "last_id", 7, id, SCAN_ID_MAX));
    assert_string_equal(r.last_id, "");
    assert_false(checkpoint_take(&r, "upto", 4,
                                 "12\0"
                                 "34",
                                 5));
    assert_string_equal(r.upto, "");
}

static void test_checkpoint_take__refuses_what_is_no_number(void **state)
{
    (void)state;
    static const char *const numbers[] = {"generation", "checkpoint_rows", "segment_layer",
                                          "checkpoint_pass"};
    static const char *const values[] = {"", "-1", "+1", " 1", "1e3", "18446744073709551616"};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            struct record r = {0};
            assert_false(take(&r, numbers[i], values[k]));
        }
    struct record r = {0};
    assert_false(take(&r, "settled", "yes"));
    assert_false(r.settled);
}

static void test_checkpoint_take__wraps_no_count(void **state)
{
    (void)state;
    struct record r = {.pass = 1, .layer = 1};
    assert_false(take(&r, "checkpoint_pass", "4294967297"));
    assert_false(take(&r, "segment_layer", "4294967296"));
    assert_int_equal(r.pass, 0);
}

static void test_checkpoint_take__cuts_a_remark_and_passes_over_what_it_does_not_know(void **state)
{
    (void)state;
    struct record r = {.step = STEP_FENCE};
    char reason[RECORD_TEXT_MAX + 100];
    memset(reason, 'r', sizeof(reason));
    assert_true(checkpoint_take(&r, "reason", 6, reason, sizeof(reason)));
    assert_int_equal(strlen(r.reason), RECORD_TEXT_MAX - 1);
    assert_true(take(&r, "colour", "blue"));
    assert_true(take(&r, "step", "of another version"));
    assert_int_equal(r.step, STEP_FENCE);
    assert_true(take(&r, "step", "scan"));
    assert_int_equal(r.step, STEP_SCAN);
    assert_true(take(&r, "state", "running") && r.running);
    assert_true(take(&r, "state", "done") && !r.running);
}

static void test_checkpoint_is_sound__knows_passes_and_layers_that_there_cannot_be(void **state)
{
    (void)state;
    assert_true(checkpoint_is_sound(&(struct record){0}, 1));
    assert_true(checkpoint_is_sound(&(struct record){.pass = 2, .passes = 3}, 1));
    assert_false(checkpoint_is_sound(&(struct record){.pass = 3, .passes = 3}, 1)); /* would read nothing */
    assert_false(checkpoint_is_sound(&(struct record){.pass = 1}, 1));
    assert_true(checkpoint_is_sound(&(struct record){.layer = 1}, 2));
    assert_false(checkpoint_is_sound(&(struct record){.layer = 2}, 2)); /* of no geometry */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_each__writes_what_is_read_again),
        cmocka_unit_test(test_checkpoint_each__leaves_the_settles_fields_alone_while_it_scans),
        cmocka_unit_test(test_checkpoint_take__refuses_half_of_an_id),
        cmocka_unit_test(test_checkpoint_take__refuses_what_is_no_number),
        cmocka_unit_test(test_checkpoint_take__wraps_no_count),
        cmocka_unit_test(test_checkpoint_take__cuts_a_remark_and_passes_over_what_it_does_not_know),
        cmocka_unit_test(test_checkpoint_is_sound__knows_passes_and_layers_that_there_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
