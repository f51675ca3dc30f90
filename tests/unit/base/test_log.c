/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static void test_log_quote__escapes_quotes_and_backslashes(void **state)
{
    (void)state;
    assert_string_equal(log_quote(""), "\"\"");
    assert_string_equal(log_quote("a b"), "\"a b\"");
    assert_string_equal(log_quote("say \"hi\" \\o/"), "\"say \\\"hi\\\" \\\\o/\"");
}

static void test_log_quote__cuts_long_texts_and_still_closes_the_quote(void **state)
{
    (void)state;
    char text[2000];
    /* Two fillings, as an escape at the cut is where a byte too many would go. */
    static const char filling[] = {'x', '"'};
    for (size_t start = 0; start < 2; start++)
        for (size_t f = 0; f < sizeof(filling); f++) {
            memset(text, filling[f], sizeof(text) - 1);
            memset(text, 'x', start);
            text[sizeof(text) - 1] = '\0';
            const char *quoted = log_quote(text);
            size_t n = strlen(quoted);
            assert_in_range(n, 490, 511);
            assert_int_equal(quoted[n - 1], '"');
            size_t slashes = 0;
            while (quoted[n - 2 - slashes] == '\\')
                slashes++;
            assert_int_equal(slashes % 2, 0);
        }
}

static void test_log_quote__keeps_a_few_texts_at_a_time(void **state)
{
    (void)state;
    const char *a = log_quote("a");
    const char *b = log_quote("b");
    const char *c = log_quote("c");
    assert_string_equal(a, "\"a\"");
    assert_string_equal(b, "\"b\"");
    assert_string_equal(c, "\"c\"");
}

static void test_log_level_parse__knows_four_names(void **state)
{
    (void)state;
    enum log_level level = LOG_LEVEL_INFO;
    assert_true(log_level_parse("WARN", &level));
    assert_int_equal(level, LOG_LEVEL_WARN);
    assert_true(log_level_parse("debug", &level));
    assert_int_equal(level, LOG_LEVEL_DEBUG);
    assert_false(log_level_parse("loud", &level));
    assert_false(log_level_parse("", &level));
    assert_int_equal(level, LOG_LEVEL_DEBUG);
}

/* What @write logs, read back through a pipe in place of standard error. */
static size_t capture(void (*write_it)(void), char *out, size_t size)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_true(saved >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    write_it();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(ends[1]);
    ssize_t n = read(ends[0], out, size - 1);
    (void)close(ends[0]);
    assert_true(n >= 0);
    out[n] = '\0';
    return (size_t)n;
}

static void one_with_newlines(void)
{
    log_warn("trouble", "text=%s", log_quote("two\nlines\tand \x01"));
}

static void test_log_write__is_one_line_whatever_the_values(void **state)
{
    (void)state;
    char line[4096];
    size_t n = capture(one_with_newlines, line, sizeof(line));
    assert_ptr_equal(strchr(line, '\n'), line + n - 1);
    assert_non_null(strstr(line, " level=warn event=trouble text=\"two lines and  \"\n"));
    assert_memory_equal(line, "ts=", 3);
}

static void one_endless(void)
{
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_error("long", "%s", text);
}

static void test_log_write__cuts_an_endless_line(void **state)
{
    (void)state;
    char line[8192];
    size_t n = capture(one_endless, line, sizeof(line));
    assert_in_range(n, 1000, 2048);
    assert_ptr_equal(strchr(line, '\n'), line + n - 1);
}

static void one_debug(void)
{
    log_debug("quiet", "n=%d", 1);
}

static void test_log_write__is_silent_below_the_level(void **state)
{
    (void)state;
    char line[4096];
    log_set_level(LOG_LEVEL_INFO);
    assert_int_equal(capture(one_debug, line, sizeof(line)), 0);
    log_set_level(LOG_LEVEL_DEBUG);
    assert_true(capture(one_debug, line, sizeof(line)) > 0);
    log_set_level(LOG_LEVEL_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_quote__escapes_quotes_and_backslashes),
        cmocka_unit_test(test_log_quote__cuts_long_texts_and_still_closes_the_quote),
        cmocka_unit_test(test_log_quote__keeps_a_few_texts_at_a_time),
        cmocka_unit_test(test_log_level_parse__knows_four_names),
        cmocka_unit_test(test_log_write__is_one_line_whatever_the_values),
        cmocka_unit_test(test_log_write__cuts_an_endless_line),
        cmocka_unit_test(test_log_write__is_silent_below_the_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
