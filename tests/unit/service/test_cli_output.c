/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/number.h"
#include "base/utf8.h"
#include "service/cli/common/cli_output.h"

static char shown[OUTPUT_TEXT_SIZE];

static void test_number_grouped__puts_a_comma_after_each_three(void **state)
{
    (void)state;
    assert_string_equal(number_grouped(0, shown), "0");
    assert_string_equal(number_grouped(999, shown), "999");
    assert_string_equal(number_grouped(1000, shown), "1,000");
    assert_string_equal(number_grouped(1234567, shown), "1,234,567");
    assert_string_equal(number_grouped(UINT64_MAX, shown), "18,446,744,073,709,551,615");
}

static void test_output_bytes__never_shows_1024_of_a_unit(void **state)
{
    (void)state;
    assert_string_equal(output_bytes(0, shown), "0 B");
    assert_string_equal(output_bytes(1023, shown), "1023 B");
    assert_string_equal(output_bytes(1024, shown), "1.0 KiB");
    assert_string_equal(output_bytes(1536, shown), "1.5 KiB");
    assert_string_equal(output_bytes((1 << 20) - 1, shown), "1.0 MiB");
    assert_string_equal(output_bytes(UINT64_C(12) << 20, shown), "12.0 MiB");
    assert_string_equal(output_bytes(UINT64_MAX, shown), "16.0 EiB");
}

static void test_output_duration__shows_two_units(void **state)
{
    (void)state;
    assert_string_equal(output_duration(0, shown), "0s");
    assert_string_equal(output_duration(59, shown), "59s");
    assert_string_equal(output_duration(60, shown), "1m 00s");
    assert_string_equal(output_duration(185, shown), "3m 05s");
    assert_string_equal(output_duration(7620, shown), "2h 07m");
    assert_string_equal(output_duration(273600, shown), "3d 04h");
}

static void test_output_percent_and_rate__keep_what_matters(void **state)
{
    (void)state;
    assert_string_equal(output_percent(0, shown), "0%");
    assert_string_equal(output_percent(0.000002, shown), "<0.1%");
    assert_string_equal(output_percent(0.003, shown), "0.3%");
    assert_string_equal(output_percent(0.524, shown), "52%");
    assert_string_equal(output_percent(1.25, shown), "125%");
    assert_string_equal(output_rate(0.001, shown), "0.1%");
    assert_string_equal(output_rate(0.0000874, shown), "0.00874%");
    assert_string_equal(output_rate(0.000000001, shown), "0.0000001%");
    assert_string_equal(output_rate(1e-20, shown), "<0.0000001%");
    assert_string_equal(output_rate(0.0999, shown), "9.99%");
    assert_string_equal(output_rate(0.5, shown), "50%");
    assert_string_equal(output_rate(1, shown), "100%");
    assert_string_equal(output_rate(0, shown), "0%");
}

static void test_output_time__is_local_and_says_its_zone(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1), 0);
    tzset();
    assert_string_equal(output_time(1774747800, shown), "2026-03-29 03:30:00 +0200");
}

static void test_output_bar__stays_within_its_brackets(void **state)
{
    (void)state;
    assert_string_equal(output_bar(0, 10, shown), "[..........]");
    assert_string_equal(output_bar(0.52, 10, shown), "[#####.....]");
    assert_string_equal(output_bar(7, 10, shown), "[##########]");
    assert_string_equal(output_bar(-1, 4, shown), "[....]");
    assert_string_equal(output_bar((double)__builtin_nanf(""), 4, shown), "[....]");
    assert_int_equal(strlen(output_bar(1, 5000, shown)), OUTPUT_TEXT_SIZE - 2);
}

static void assert_count(const char *text, uint64_t expected)
{
    uint64_t n = 0;
    if (!output_parse_count(text, &n) || n != expected)
        fail_msg("\"%s\": %llu", text, (unsigned long long)n);
}

static void test_output_parse_count__takes_digits_exponents_and_units(void **state)
{
    (void)state;
    assert_count("1000000", 1000000);
    assert_count("18446744073709551615", UINT64_MAX);
    assert_count("1e6", 1000000);
    assert_count("1M", 1000000);
    assert_count("1.1m", 1100000);
    assert_count("1.5K", 1500);
    assert_count("2G", 2000000000);
    assert_count("30e9", 30000000000);
    assert_count("30G", 30000000000);
    assert_count("1.5T", 1500000000000);
    static const char *const bad[] = {"",   "0",   "-1",   "M",   "1.5",  "1e-3", "1.0005K",
                                      "1P", "1 M", "1e99", "nan", "0x10", "1MM"};
    uint64_t n;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (output_parse_count(bad[i], &n))
            fail_msg("\"%s\" was taken", bad[i]);
}

static void assert_bytes(const char *text, uint64_t expected)
{
    uint64_t n = 0;
    if (!output_parse_bytes(text, &n) || n != expected)
        fail_msg("\"%s\": %llu", text, (unsigned long long)n);
}

static void test_output_parse_bytes__takes_fractions_of_units(void **state)
{
    (void)state;
    assert_bytes("1048576", 1048576);
    assert_bytes("512B", 512);
    assert_bytes("64GiB", UINT64_C(64) << 30);
    assert_bytes("64g", UINT64_C(64) << 30);
    assert_bytes("1.5TiB", UINT64_C(3) << 39);
    assert_bytes("0.5KB", 512);
    assert_bytes("2P", UINT64_C(2) << 50);
    static const char *const bad[] = {"",     "0",     "0.4KiB", "64X",  "64XiB", "GiB",  "1.2",  "-1G",
                                      "1e3G", "1 GiB", "64GiBs", "16PB", "1..5G", "64iB", "64Bi", "nanG"};
    uint64_t n;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (output_parse_bytes(bad[i], &n))
            fail_msg("\"%s\" was taken", bad[i]);
}

static void assert_escaped(const char *bytes, size_t length, const char *expected)
{
    struct buffer b = {0};
    output_escape(&b, bytes, length);
    assert_string_equal(buffer_text(&b), expected);
    buffer_fini(&b);
}

static void test_output_escape__lets_no_control_reach_the_terminal(void **state)
{
    (void)state;
    assert_escaped("plain \xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1", 15,
                   "plain \xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1");
    assert_escaped("a\0b\n\t\\\r", 7, "a\\x00b\\n\\t\\\\\\x0d");
    assert_escaped("\033[31m\x7f", 6, "\\x1b[31m\\x7f");
    assert_escaped("\xc2\x9b"
                   "31m",
                   5, "\\xc2\\x9b31m"); /* CSI as one character */
    assert_escaped("\xff\xc3", 2, "\\xff\\xc3");
}

static void test_output_utf8__refuses_overlong_surrogate_and_cut_characters(void **state)
{
    (void)state;
    assert_true(utf8_valid("", 0));
    assert_true(utf8_valid("a\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf", 13));
    assert_false(utf8_valid("\xc0\x80", 2));
    assert_false(utf8_valid("\xc1\xbf", 2));
    assert_false(utf8_valid("\xe0\x9f\xbf", 3));
    assert_false(utf8_valid("\xed\xa0\x80", 3));
    assert_false(utf8_valid("\xf0\x8f\xbf\xbf", 4));
    assert_false(utf8_valid("\xf4\x90\x80\x80", 4));
    assert_false(utf8_valid("\xf5\x80\x80\x80", 4));
    assert_false(utf8_valid("\x80", 1));
    assert_false(utf8_valid("\xe2\x82", 2));
    assert_false(utf8_valid("\xe2\x82x", 3));
}

static void assert_json_string(const char *bytes, size_t length, const char *expected)
{
    struct buffer b = {0};
    struct json j = {.out = &b};
    json_string(&j, bytes, length);
    assert_string_equal(buffer_text(&b), expected);
    buffer_fini(&b);
}

static void test_json_string__is_valid_whatever_the_bytes(void **state)
{
    (void)state;
    assert_json_string("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
    assert_json_string("\0\n\x1f\x7f", 4, "\"\\u0000\\u000a\\u001f\\u007f\"");
    assert_json_string("\xc2\x9b", 2, "\"\\u009b\"");
    assert_json_string("\xf0\x9f\x8c\xb1", 4, "\"\xf0\x9f\x8c\xb1\"");
    assert_json_string("a\xff\xc3", 3, "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_json_string("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_json_string("", 0, "\"\"");
}

static void assert_json_value(const char *text, bool number)
{
    char expected[64];
    struct buffer b = {0};
    struct json j = {.out = &b};
    (void)snprintf(expected, sizeof(expected), number ? "%s" : "\"%s\"", text);
    json_number_or_string(&j, text, strlen(text));
    assert_string_equal(buffer_text(&b), expected);
    buffer_fini(&b);
}

static void test_json_number_or_string__takes_only_what_json_calls_a_number(void **state)
{
    (void)state;
    static const char *const numbers[] = {"0", "-0", "12", "0.001", "-1.5", "1e-05", "1E+5", "10.0"};
    static const char *const strings[] = {"",   "-",   "05",  ".5",  "1.", "1e",    "1e+",
                                          "+1", "nan", "inf", "0x1", "1 ", "1.2.3", "-a"};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        assert_json_value(numbers[i], true);
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
        assert_json_value(strings[i], false);
}

static void test_json__sets_commas_between_members_and_elements(void **state)
{
    (void)state;
    struct buffer b = {0};
    struct json j = {.out = &b};
    json_open(&j, '{');
    json_name(&j, "a");
    json_integer(&j, -5);
    json_name(&j, "b");
    json_open(&j, '[');
    json_bool(&j, true);
    json_null(&j);
    json_open(&j, '{');
    json_close(&j, '}');
    json_close(&j, ']');
    json_name(&j, "c");
    json_bool(&j, false);
    json_close(&j, '}');
    assert_string_equal(buffer_text(&b), "{\"a\":-5,\"b\":[true,null,{}],\"c\":false}");
    buffer_fini(&b);
}

static void print_table(bool colored, char *out, size_t size)
{
    static const struct table_column columns[] = {{"NAME", false}, {"N", true}, {"X", false}};
    struct table t;
    table_init(&t, columns, 3);
    table_cell(&t, COLOR_GOOD, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    table_cell(&t, COLOR_NONE, "1,000");
    table_cell(&t, COLOR_NONE, "");
    table_cell(&t, COLOR_NONE, "b");
    table_cell(&t, COLOR_NONE, "7");
    table_cell(&t, COLOR_BAD, "no");
    memset(out, 0, size);
    FILE *to = fmemopen(out, size, "w");
    assert_non_null(to);
    table_print(&t, to, colored);
    assert_int_equal(fclose(to), 0);
    table_fini(&t);
}

static void test_table_print__aligns_by_characters_and_leaves_no_blanks_at_the_end(void **state)
{
    (void)state;
    char out[512];
    print_table(false, out, sizeof(out));
    assert_string_equal(out, "NAME       N  X\n"
                             "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9  1,000\n"
                             "b          7  no\n");
    assert_null(strchr(out, '\033'));
    print_table(true, out, sizeof(out));
    assert_non_null(strstr(out, "  \033[31mno\033[0m\n"));
}

/* Not by the square of its cells, which took 7 s for 4,000 filters. */
static void test_table_print__takes_time_by_the_number_of_cells(void **state)
{
    enum { CELLS = 4000 * 10, MOST_S = 5 };
    static const struct table_column columns[] = {{"A", false}, {"B", true}};
    (void)state;
    struct table t;
    table_init(&t, columns, 2);
    for (int i = 0; i < CELLS; i++)
        table_cell(&t, COLOR_NONE, "cell");
    FILE *to = fopen("/dev/null", "w");
    assert_non_null(to);
    clock_t from = clock();
    table_print(&t, to, false);
    assert_true(clock() - from < (clock_t)MOST_S * CLOCKS_PER_SEC);
    assert_int_equal(fclose(to), 0);
    table_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_grouped__puts_a_comma_after_each_three),
        cmocka_unit_test(test_output_bytes__never_shows_1024_of_a_unit),
        cmocka_unit_test(test_output_duration__shows_two_units),
        cmocka_unit_test(test_output_percent_and_rate__keep_what_matters),
        cmocka_unit_test(test_output_time__is_local_and_says_its_zone),
        cmocka_unit_test(test_output_bar__stays_within_its_brackets),
        cmocka_unit_test(test_output_parse_count__takes_digits_exponents_and_units),
        cmocka_unit_test(test_output_parse_bytes__takes_fractions_of_units),
        cmocka_unit_test(test_output_escape__lets_no_control_reach_the_terminal),
        cmocka_unit_test(test_output_utf8__refuses_overlong_surrogate_and_cut_characters),
        cmocka_unit_test(test_json_string__is_valid_whatever_the_bytes),
        cmocka_unit_test(test_json_number_or_string__takes_only_what_json_calls_a_number),
        cmocka_unit_test(test_json__sets_commas_between_members_and_elements),
        cmocka_unit_test(test_table_print__aligns_by_characters_and_leaves_no_blanks_at_the_end),
        cmocka_unit_test(test_table_print__takes_time_by_the_number_of_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
