/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "expansion/record/history.h"

static void expect(const char **at, const char *end, const char *name, const char *value)
{
    struct history_pair pair;
    assert_true(history_next(at, end, &pair));
    assert_string_equal(pair.field->name, name);
    assert_string_equal(pair.value, value);
}

static void expect_end(const char **at, const char *end)
{
    struct history_pair pair;
    assert_false(history_next(at, end, &pair));
}

static void test_history_next__reads_pairs_and_decodes_them(void **state)
{
    (void)state;
    static const char entry[] = "started_ms=17 outcome=failed error=no%20table%0A100%25 a=b=c rows=5";
    const char *at = entry, *end = entry + strlen(entry);
    expect(&at, end, "started_ms", "17");
    expect(&at, end, "outcome", "failed");
    expect(&at, end, "error", "no table\n100%");
    expect(&at, end, "rows", "5"); /* "a=b=c" was skipped */
    expect_end(&at, end);
}

static void test_history_next__survives_what_no_entry_looks_like(void **state)
{
    (void)state;
    static const char entry[] = "  = error rows =5 error= reason=%zz%2 owner=%00x ";
    const char *at = entry, *end = entry + strlen(entry);
    expect(&at, end, "error", "");
    expect(&at, end, "reason", "%zz%2");
    expect(&at, end, "owner", "%00x");
    expect_end(&at, end);
    at = entry;
    expect_end(&at, entry);
}

static void test_history_next__cuts_a_value_that_is_too_long(void **state)
{
    (void)state;
    static char entry[3 * HISTORY_VALUE_MAX] = "error=";
    memset(entry + 6, 'x', sizeof(entry) - 7);
    const char *at = entry, *end = entry + strlen(entry);
    struct history_pair pair;
    assert_true(history_next(&at, end, &pair));
    assert_int_equal(strlen(pair.value), HISTORY_VALUE_MAX - 1);
    expect_end(&at, end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history_next__reads_pairs_and_decodes_them),
        cmocka_unit_test(test_history_next__survives_what_no_entry_looks_like),
        cmocka_unit_test(test_history_next__cuts_a_value_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
