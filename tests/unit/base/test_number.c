/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/number.h"

#define U64(text, out) number_u64(text, strlen(text), out)
#define I64(text, out) number_i64(text, strlen(text), out)
#define DOUBLE(text, out) number_double(text, strlen(text), out)
#define BYTES(text, out) number_bytes(text, strlen(text), out)
#define DURATION(text, out) number_duration_ms(text, strlen(text), out)
#define HEX(text, out) number_hex64(text, strlen(text), out)

static void test_number_u64__reads_the_whole_range(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_true(U64("0", &n));
    assert_int_equal(n, 0);
    assert_true(U64("00042", &n));
    assert_int_equal(n, 42);
    assert_true(U64("18446744073709551615", &n));
    assert_true(n == UINT64_MAX);
}

static void test_number_u64__refuses_what_is_not_all_digits_and_leaves_the_result(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "+1",
                                      "-1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "1e3",
                                      "0x10",
                                      "18446744073709551616",
                                      "99999999999999999999",
                                      "000000000000000000001",
                                      "1\n"};
    uint64_t n = 7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (U64(bad[i], &n))
            fail_msg("'%s' was taken for %lu", bad[i], (unsigned long)n);
    assert_int_equal(n, 7);
}

static void test_number_u64__reads_no_byte_beyond_the_length(void **state)
{
    (void)state;
    uint64_t n = 0;
    const char three[3] = {'1', '2', '3'};
    assert_true(number_u64(three, 2, &n));
    assert_int_equal(n, 12);
    assert_false(number_u64("1\0002", 3, &n));
}

static void test_number_i64__reads_the_whole_range(void **state)
{
    (void)state;
    int64_t n = 0;
    assert_true(I64("-9223372036854775808", &n));
    assert_true(n == INT64_MIN);
    assert_true(I64("9223372036854775807", &n));
    assert_true(n == INT64_MAX);
    assert_true(I64("-0", &n));
    assert_int_equal(n, 0);
}

static void test_number_i64__refuses_what_does_not_fit(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "-", "--1", "+1", "- 1", "9223372036854775808", "-9223372036854775809"};
    int64_t n = 7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (I64(bad[i], &n))
            fail_msg("'%s' was taken for %ld", bad[i], (long)n);
    assert_int_equal(n, 7);
}

static void test_number_double__takes_decimal_and_exponent_forms(void **state)
{
    (void)state;
    static const char *const same[] = {"0.01", "1e-2", ".01", "1E-2", "0.0100", "10e-3"};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        double d = 0;
        assert_true(DOUBLE(same[i], &d));
        assert_true(fabs(d - 0.01) < 1e-15);
    }
    double d = 0;
    assert_true(DOUBLE("-2", &d));
    assert_true(d == -2.0);
}

static void test_number_double__refuses_words_hexadecimal_and_infinity(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "+1",    " 1", "1 ", "nan", "inf", "infinity", "0x1p-3",
                                      "1e999", "1.2.3", "1e", "e5", ".",   "-",   "1,5"};
    double d = 7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (DOUBLE(bad[i], &d))
            fail_msg("'%s' was taken for %g", bad[i], d);
    assert_true(d == 7);
    assert_false(number_double("1\0002", 3, &d));
    assert_false(number_double("1\0", 2, &d));
    char endless[100];
    memset(endless, '1', sizeof(endless));
    assert_false(number_double(endless, sizeof(endless), &d));
}

static void test_number_bytes__knows_its_units_in_any_case(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {{"512", 512},         {"512B", 512},       {"64KiB", 65536},       {"64kib", 65536},
                {"64k", 65536},       {"64 KB", 65536},    {"512MiB", 512u << 20}, {"1m", 1u << 20},
                {"2GiB", 2ull << 30}, {"2gb", 2ull << 30}, {"1TiB", 1ull << 40},   {"0GiB", 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t n = 0;
        if (!BYTES(rows[i].text, &n) || n != rows[i].bytes)
            fail_msg("'%s' was taken for %lu", rows[i].text, (unsigned long)n);
    }
}

static void test_number_bytes__refuses_unknown_units_and_overflow(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "KiB", "-1K", "1.5G", "1 XiB", "1KiBB", "1K1", "18014398509481984KiB", "99999999999999999999"};
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (BYTES(bad[i], &n))
            fail_msg("'%s' was taken for %lu", bad[i], (unsigned long)n);
}

static void test_number_duration__reads_every_unit_as_milliseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } rows[] = {{"0", 0},       {"0s", 0},       {"250ms", 250}, {"10s", 10000},
                {"5m", 300000}, {"2h", 7200000}, {"1 s", 1000}};
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(DURATION(rows[i].text, &n));
        assert_true(n == rows[i].ms);
    }
    assert_false(DURATION("", &n));
    assert_false(DURATION("s", &n));
    assert_false(DURATION("250", &n));
    assert_false(DURATION("00", &n));
    assert_false(DURATION("1d", &n));
    assert_false(DURATION("-1s", &n));
    assert_false(DURATION("18446744073709551615h", &n));
}

static void test_number_hex64__reads_sixteen_digits_and_no_more(void **state)
{
    (void)state;
    uint64_t n = 0;
    assert_true(HEX("ffffFFFFffffFFFF", &n));
    assert_true(n == UINT64_MAX);
    assert_true(HEX("0a1B", &n));
    assert_int_equal(n, 0x0a1b);
    assert_false(HEX("", &n));
    assert_false(HEX("0x1", &n));
    assert_false(HEX("g", &n));
    assert_false(HEX("-1", &n));
    assert_false(HEX("00000000000000000", &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_u64__reads_the_whole_range),
        cmocka_unit_test(test_number_u64__refuses_what_is_not_all_digits_and_leaves_the_result),
        cmocka_unit_test(test_number_u64__reads_no_byte_beyond_the_length),
        cmocka_unit_test(test_number_i64__reads_the_whole_range),
        cmocka_unit_test(test_number_i64__refuses_what_does_not_fit),
        cmocka_unit_test(test_number_double__takes_decimal_and_exponent_forms),
        cmocka_unit_test(test_number_double__refuses_words_hexadecimal_and_infinity),
        cmocka_unit_test(test_number_bytes__knows_its_units_in_any_case),
        cmocka_unit_test(test_number_bytes__refuses_unknown_units_and_overflow),
        cmocka_unit_test(test_number_duration__reads_every_unit_as_milliseconds),
        cmocka_unit_test(test_number_hex64__reads_sixteen_digits_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
