/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "shard/unsure.h"

static struct unsure one, other; /* large: kept off the stack */
static char text[UNSURE_TEXT_MAX];

static void test_unsure__names_shards_of_the_first_layer_of_its_generation_alone(void **state)
{
    (void)state;
    unsure_begin(&one, 6, 46);
    unsure_add(&one, 3);
    unsure_add(&one, 45);
    unsure_add(&one, 3);
    assert_int_equal(one.count, 2);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(unsure_contains(&one, 6, 0, i), i == 3 || i == 45);
        assert_false(unsure_contains(&one, 6, 1, i));
        assert_false(unsure_contains(&one, 4, 0, i));
        assert_false(unsure_contains(&one, 0, 0, i));
    }
    assert_false(unsure_contains(&one, 6, 0, UINT32_MAX));
    unsure_clear(&one);
    for (uint32_t i = 0; i < 100; i++)
        assert_false(unsure_contains(&one, 0, 0, i) || unsure_contains(&one, 6, 0, i));
}

static void test_unsure_text__is_read_as_what_was_written(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 3, 4, 5, 8, 46, 1000, UNSURE_SHARDS_MAX};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (uint32_t step = 1; step <= 3; step++) {
            unsure_begin(&one, UINT64_MAX, sizes[s]);
            one.epoch = UINT64_MAX;
            one.token = UINT64_MAX;
            for (uint32_t i = 0; i < sizes[s]; i += step)
                unsure_add(&one, i);
            size_t length = unsure_text(&one, text);
            assert_true(length == strlen(text) && length < UNSURE_TEXT_MAX);
            assert_true(unsure_parse(&other, text, length));
            assert_true(unsure_same(&one, &other) && other.token == one.token);
        }
    unsure_clear(&one);
    assert_int_equal(unsure_text(&one, text), 0);
    assert_true(unsure_parse(&other, "", 0) && other.generation == 0);
}

static void test_unsure_text__has_a_bit_for_each_shard(void **state)
{
    (void)state;
    unsure_begin(&one, 3, 6);
    one.epoch = 7;
    one.token = 99;
    unsure_add(&one, 1);
    unsure_add(&one, 2);
    unsure_add(&one, 5);
    (void)unsure_text(&one, text);
    assert_string_equal(text, "3:7:99:6:62");
}

static void test_unsure_parse__refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"3",
                                      "3:7",
                                      "3:7:99",
                                      "3:7:99:6",
                                      "3:7:99:6:",
                                      "3:7:99:6:6",
                                      "3:7:99:6:622",
                                      "3:7:99:6:00",
                                      "3:7:99:6:64" /* shard 6 */,
                                      "3:7:99:6:68",
                                      "3:7:99:6:6g",
                                      "0:7:99:6:62",
                                      "3:0:99:6:62",
                                      "3:7:0:6:62",
                                      "3:7:99:0:",
                                      "-3:7:99:6:62",
                                      "3:7:99:6:62 ",
                                      "3:7:99:65537:1",
                                      "x",
                                      ":",
                                      "3:7:99:99999999999999999999:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (unsure_parse(&other, bad[i], strlen(bad[i])))
            fail_msg("'%s' was read", bad[i]);
}

static void describes(const char *wanted, uint32_t shards, unsigned most, const uint8_t *is)
{
    struct buffer out = {0};
    unsure_describe(is, shards, most, &out);
    assert_string_equal(buffer_text(&out), wanted);
    buffer_fini(&out);
}

static void test_unsure_describe__names_ranges(void **state)
{
    (void)state;
    uint8_t is[46] = {[3] = 1, [7] = 1, [8] = 1, [9] = 1};
    describes("shards 3,7-9 of 46", 46, 20, is);
    is[45] = 1;
    describes("shards 3,7-9,45 of 46", 46, 20, is);
    describes("shards 3,7-9,... of 46", 46, 2, is);
    const uint8_t none[4] = {0}, all[4] = {1, 1, 1, 1};
    describes("", 4, 20, none);
    describes("shards 0-3 of 4", 4, 20, all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unsure__names_shards_of_the_first_layer_of_its_generation_alone),
        cmocka_unit_test(test_unsure_text__is_read_as_what_was_written),
        cmocka_unit_test(test_unsure_text__has_a_bit_for_each_shard),
        cmocka_unit_test(test_unsure_parse__refuses_what_is_none),
        cmocka_unit_test(test_unsure_describe__names_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
