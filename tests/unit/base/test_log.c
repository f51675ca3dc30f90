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

#include <jansson.h>

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
    /* Two fillings: a byte beyond the limit is most likely where the cut falls on an escape. */
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

/* Returns in @out what @write_it logs, read through a pipe instead of standard error. */
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

/* --- JSON --- */

static json_t *as_json(const char *line, size_t length)
{
    char out[LOG_JSON_MAX(4096)];
    json_error_t why;
    assert_true(length <= 4096);
    size_t n = log_json(out, sizeof(out), line, length);
    json_t *root = json_loadb(out, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (root == NULL)
        fail_msg("%.*s: %s", (int)n, out, why.text);
    return root;
}

static void test_log_json__has_every_field_with_its_type(void **state)
{
    (void)state;
    static const char line[] =
        "ts=2026-01-02T03:04:05.678Z level=info event=view filter=\"a \\\"b\\\" \\\\c\" epoch=12 "
        "rate=0.001 wrong=007 negative=-3.5 empty= quoted=\"\" id=00ab";
    json_t *root = as_json(line, sizeof(line) - 1);
    assert_string_equal(json_string_value(json_object_get(root, "event")), "view");
    assert_string_equal(json_string_value(json_object_get(root, "filter")), "a \"b\" \\c");
    assert_int_equal(json_integer_value(json_object_get(root, "epoch")), 12);
    assert_true(json_real_value(json_object_get(root, "rate")) == 0.001);
    assert_true(json_real_value(json_object_get(root, "negative")) == -3.5);
    assert_string_equal(json_string_value(json_object_get(root, "wrong")), "007");
    assert_string_equal(json_string_value(json_object_get(root, "empty")), "");
    assert_string_equal(json_string_value(json_object_get(root, "quoted")), "");
    assert_string_equal(json_string_value(json_object_get(root, "id")), "00ab");
    json_decref(root);
}

static void test_log_json__is_json_whatever_the_bytes(void **state)
{
    (void)state;
    char line[64];
    uint64_t random = 88172645463325252u;
    for (unsigned round = 0; round < 20000; round++) {
        size_t length = round % sizeof(line);
        for (size_t i = 0; i < length; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            line[i] = (random & 3) == 0 ? "=\" \\"[random >> 8 & 3] : (char)(random >> 16);
        }
        char out[LOG_JSON_MAX(sizeof(line))];
        size_t n = log_json(out, sizeof(out), line, length);
        json_error_t why;
        json_t *root = json_loadb(out, n, JSON_ALLOW_NUL, &why);
        if (root == NULL)
            fail_msg("round %u: %.*s: %s", round, (int)n, out, why.text);
        json_decref(root);
    }
}

static void one_hostile(void)
{
    log_set_format(LOG_FORMAT_JSON);
    log_warn("view", "filter=%s epoch=%d", log_quote("x\"} \xff\xfe\n{\"epoch\":9, \xc3\xa9\x7f"), 4);
    log_set_format(LOG_FORMAT_LOGFMT);
}

static void test_log_write__writes_json_that_no_name_can_break(void **state)
{
    (void)state;
    char line[4096];
    json_error_t why;
    size_t n = capture(one_hostile, line, sizeof(line));
    assert_ptr_equal(strchr(line, '\n'), line + n - 1);
    json_t *root = json_loadb(line, n, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL)
        fail_msg("%s: %s", line, why.text);
    assert_string_equal(json_string_value(json_object_get(root, "filter")),
                        "x\"} \xef\xbf\xbd\xef\xbf\xbd {\"epoch\":9, \xc3\xa9\x7f");
    assert_int_equal(json_integer_value(json_object_get(root, "epoch")), 4);
    assert_string_equal(json_string_value(json_object_get(root, "level")), "warn");
    json_decref(root);
}

/* --- suppressed lines --- */

static void burst(unsigned lines)
{
    for (unsigned i = 0; i < lines; i++)
        log_warn("flood", "n=%u", i);
}

static void one_flood(void)
{
    burst(LOG_BURST + 25);
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        n++;
    return n;
}

static void test_log_write__leaves_out_what_one_place_repeats(void **state)
{
    (void)state;
    static char text[LOG_BURST * 100];
    uint64_t written = log_lines(LOG_LEVEL_WARN), before = log_suppressed();
    (void)capture(one_flood, text, sizeof(text));
    assert_int_equal(lines_of(text), LOG_BURST);
    assert_int_equal(log_lines(LOG_LEVEL_WARN) - written, LOG_BURST);
    assert_int_equal(log_suppressed() - before, 25);
}

static void in_the_next_window(void)
{
    static struct log_site site;
    for (unsigned i = 0; i < LOG_BURST + 7; i++)
        log_write(&site, LOG_LEVEL_WARN, "again", "n=%u", i);
    atomic_store(&site.began_ms, 0); /* as if the window were over */
    log_write(&site, LOG_LEVEL_WARN, "again", "n=last");
    for (unsigned i = 0; i < LOG_BURST + 2; i++)
        log_write(&site, LOG_LEVEL_WARN, "again", "n=%u", i);
    atomic_fetch_sub(&site.began_ms, LOG_WINDOW_MS);
    log_tick();
    log_tick(); /* nothing is left to report */
}

static void test_log_write__says_how_many_lines_were_left_out(void **state)
{
    (void)state;
    static char text[2 * LOG_BURST * 100];
    (void)capture(in_the_next_window, text, sizeof(text));
    assert_non_null(strstr(text, "event=again n=last suppressed=7\n"));
    const char *told = strstr(text, "event=suppressed of=again lines=3\n");
    assert_non_null(told);
    if (told != NULL)
        assert_null(strstr(told + 1, "event=suppressed of=again"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_quote__escapes_quotes_and_backslashes),
        cmocka_unit_test(test_log_quote__cuts_long_texts_and_still_closes_the_quote),
        cmocka_unit_test(test_log_quote__keeps_a_few_texts_at_a_time),
        cmocka_unit_test(test_log_write__is_one_line_whatever_the_values),
        cmocka_unit_test(test_log_write__cuts_an_endless_line),
        cmocka_unit_test(test_log_write__is_silent_below_the_level),
        cmocka_unit_test(test_log_json__has_every_field_with_its_type),
        cmocka_unit_test(test_log_json__is_json_whatever_the_bytes),
        cmocka_unit_test(test_log_write__writes_json_that_no_name_can_break),
        cmocka_unit_test(test_log_write__leaves_out_what_one_place_repeats),
        cmocka_unit_test(test_log_write__says_how_many_lines_were_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
