/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "migrate/change/lsn.h"

static void test_lsn_parse__reads_what_postgres_writes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t lsn;
    } good[] = {{"0/0", 0},
                {"16/B374D848", UINT64_C(0x16B374D848)},
                {"FFFFFFFF/FFFFFFFF", UINT64_MAX},
                {"1/2A", UINT64_C(0x10000002A)}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t lsn = 1;
        char text[LSN_TEXT];
        assert_true(lsn_parse(good[i].text, &lsn));
        assert_true(lsn == good[i].lsn);
        assert_string_equal(lsn_format(lsn, text), good[i].text);
    }
}

static void test_lsn_parse__refuses_everything_else(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "/",   "0",           "0/",          "/0",   "0/0/0", "0/0 ",
                                      " 0/0", "g/0", "100000000/0", "0/100000000", "-1/0", "0x1/0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t lsn;
        assert_false(lsn_parse(bad[i], &lsn));
    }
}

static void test_lsn_record_end__steps_back_over_the_header_of_an_empty_page(void **state)
{
    (void)state;
    const uint64_t block = 8192;
    const uint64_t segment = 16 * 1024 * 1024;
    assert_true(lsn_record_end(5 * segment + 3 * block + 24, block, segment) == 5 * segment + 3 * block);
    assert_true(lsn_record_end(5 * segment + 40, block, segment) == 5 * segment);
    /* The last record ends within the page. */
    assert_true(lsn_record_end(5 * segment + 3 * block + 32, block, segment) == 5 * segment + 3 * block + 32);
    assert_true(lsn_record_end(5 * segment + 3 * block + 40, block, segment) == 5 * segment + 3 * block + 40);
    assert_true(lsn_record_end(5 * segment + 48, block, segment) == 5 * segment + 48);
    assert_true(lsn_record_end(5 * segment + 3 * block, block, segment) == 5 * segment + 3 * block);
    assert_true(lsn_record_end(77, 0, 0) == 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lsn_parse__reads_what_postgres_writes),
        cmocka_unit_test(test_lsn_parse__refuses_everything_else),
        cmocka_unit_test(test_lsn_record_end__steps_back_over_the_header_of_an_empty_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
