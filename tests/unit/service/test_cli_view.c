/* SPDX-License-Identifier: MIT */
/* Tests of the line for a job that is followed, the screen of top, and the keys of bench. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "service/cli/bench/cli_bench.h"
#include "service/cli/common/cli_sheet.h"
#include "service/cli/operate/cli_status.h"
#include "service/cli/top/cli_top.h"

/* Write names and values in the form of the daemon's reply. */
static void put_list(struct buffer *b, const char *const *texts, size_t count)
{
    buffer_printf(b, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        buffer_printf(b, "$%zu\r\n%s\r\n", strlen(texts[i]), texts[i]);
}

static redisReply *parsed(struct buffer *b)
{
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, b->data, b->length), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    buffer_fini(b);
    return reply;
}

static redisReply *list(const char *const *texts, size_t count)
{
    struct buffer b = {0};
    put_list(&b, texts, count);
    return parsed(&b);
}
#define LIST(...)                                                                                            \
    list((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* --- the line of a job --- */

static void expect_line(redisReply *status, unsigned columns, const char *expected)
{
    struct buffer b = {0};
    follow_line(&b, status, columns);
    assert_string_equal(buffer_text(&b), expected);
    buffer_fini(&b);
}

static void test_follow_line__has_a_bar_on_a_terminal_only(void **state)
{
    (void)state;
    redisReply *r =
        LIST("job_state", "running", "job_step", "scan", "job_rows", "1200000", "job_rows_total", "2400000",
             "job_rows_per_second", "5000.4", "job_eta_seconds", "240", "job_reason", "8 of 10");
    expect_line(r, 0, "scan  1,200,000/2,400,000 rows  50%  5,000 rows/s  ETA 4m 00s  reason: 8 of 10");
    expect_line(
        r, 120,
        "scan  [##########..........] 50%  1,200,000/2,400,000 rows  5,000 rows/s  ETA 4m 00s  reason: 8 of "
        "10");
    expect_line(r, 80, "scan  [#####.....] 50%  1.2M/2.4M rows  5.0K rows/s  ETA 4m 00s  reason: 8 of 10");
    freeReplyObject(r);
}

static void test_follow_line__says_why_it_does_not_go_on(void **state)
{
    (void)state;
    redisReply *r = LIST("job_state", "waiting", "job_step", "scan", "job_paused", "1", "job_waiting_for",
                         "\033[2Jnode", "job_throttle_reason", "redis is slow");
    expect_line(r, 0, "scan  paused  waiting for \\x1b[2Jnode  waiting");
    freeReplyObject(r);
    r = LIST("job_state", "running", "job_step", "scan", "job_rows", "30", "job_rows_total", "20",
             "job_throttle_reason", "redis is slow");
    expect_line(r, 0, "scan  30/20 rows  100%  redis is slow"); /* the total was an estimate */
    freeReplyObject(r);
    r = LIST("job_state", "running", "job_step", "scan", "job_rows", "10", "job_rows_total", "20",
             "job_waiting_for", "Postgres", "job_rows_per_second", "77", "job_eta_seconds", "240");
    expect_line(r, 0, "scan  10/20 rows  50%  waiting for Postgres"); /* the rate would change all the time */
    freeReplyObject(r);
    r = LIST("job_state", "running", "job_step", "hold", "job_hold", "1", "job_rows_per_second", "77");
    expect_line(r, 0, "hold  until \"twinbloom cutover\""); /* no rows are read, so there is no rate */
    freeReplyObject(r);
}

/* --- health --- */

/* The one cell of @t, which it frees. */
static void expect_cell(struct table *t, const char *word)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    assert_non_null(to);
    table_print(t, to, false);
    (void)fclose(to);
    table_fini(t);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, word);
    free(text);
}

static const struct table_column one_column[] = {{NULL, false}};

static void expect_health(redisReply *status, const char *word)
{
    struct table t;
    table_init(&t, one_column, 1);
    status_health_cell(&t, status);
    expect_cell(&t, word);
    freeReplyObject(status);
}

static void test_status_health__is_one_word_for_what_answers_are_worth(void **state)
{
    (void)state;
    expect_health(LIST("state", "serving", "degraded", "0", "lost_shards", "0", "verification", "passed"),
                  "healthy");
    expect_health(LIST("state", "serving", "degraded", "0", "verification", "never"), "healthy");
    expect_health(LIST("state", "serving", "degraded", "0", "verification", "failed"), "keys missed");
    expect_health(LIST("state", "building"), "building");
    expect_health(LIST("state", "not built", "next_attempt_at", "1790000000"), "not built");
    expect_health(LIST("state", "degraded", "degraded", "1", "lost_shards", "0"), "degraded");
    expect_health(LIST("state", "degraded", "degraded", "1", "lost_shards", "3"), "lost");
    expect_health(LIST("state", "unreachable"), "unreachable");
}

/* --- names --- */

static void test_sheet_name__has_all_bytes_of_a_name(void **state)
{
    (void)state;
    char longest[512 + 1];
    memset(longest, 'n', 512);
    longest[512] = '\0';
    redisReply *r = LIST("filter", longest);
    struct table t;
    table_init(&t, one_column, 1);
    sheet_name_cell(&t, r, "filter");
    expect_cell(&t, longest);
    r->element[1]->str[1] = '\0';
    r->element[1]->len = 3;
    table_init(&t, one_column, 1);
    sheet_name_cell(&t, r, "filter");
    expect_cell(&t, "n\\x00n");
    freeReplyObject(r);
}

/* --- the screen of top --- */

static redisReply *filters(void)
{
    struct buffer b = {0};
    buffer_puts(&b, "*2\r\n");
    put_list(&b,
             (const char *const[]){"filter",
                                   "short-link",
                                   "state",
                                   "serving",
                                   "keys",
                                   "500",
                                   "capacity",
                                   "1000",
                                   "fill_ratio",
                                   "0.5",
                                   "error_rate",
                                   "0.01",
                                   "expected_error_rate",
                                   "0.001",
                                   "generation",
                                   "2",
                                   "job_state",
                                   "running",
                                   "job_step",
                                   "scan",
                                   "job_rows",
                                   "5",
                                   "job_rows_total",
                                   "10"},
             24);
    put_list(&b,
             (const char *const[]){"filter",
                                   "a-name-\xc3\xa9-that-is-longer-than-any-screen-would-have-it-be", "state",
                                   "unreachable", "job_state", "none"},
             6);
    return parsed(&b);
}

/* The number of columns of a line, without its colours. */
static size_t width(const char *line, size_t length)
{
    size_t used = 0;
    for (size_t i = 0; i < length; used++) {
        while (i < length && line[i] == '\033') {
            while (i < length && line[i] != 'm')
                i++;
            i++;
            if (i >= length)
                return used;
        }
        i += utf8_sequence(line + i, length - i);
    }
    return used;
}

static void test_top_render__fits_the_screen_whatever_its_size(void **state)
{
    (void)state;
    struct cli cli = {.terminal = true, .color = true, .address = {.host = "127.0.0.1", .port = 6479}};
    struct top t = {.cli = &cli, .wall_s = 1000, .trips = 1, .trip_us = {120}};
    t.now = (struct top_look){.at_us = 3000000, .filters = filters(), .has_info = true, .commands = 300};
    t.now.filters->element[0]->element[1]->str[5] = '\0'; /* a name may have any bytes */
    t.before = (struct top_look){.at_us = 1000000, .has_info = true, .commands = 100};
    (void)snprintf(t.error, sizeof(t.error),
                   "the connection to \033[2J failed, and this text is rather long as well");
    for (unsigned columns = 1; columns <= 200; columns++) {
        for (unsigned rows = 1; rows <= 20; rows++) {
            struct buffer b = {0};
            unsigned lines = 0;
            top_render(&b, &t, columns, rows);
            const char *text = buffer_text(&b);
            assert_null(strstr(text, "\033[2J"));
            for (; *text != '\0'; lines++) {
                size_t n = strcspn(text, "\n");
                if (width(text, n) > columns)
                    fail_msg("%u columns: %.*s", columns, (int)n, text);
                text += n + (text[n] == '\n');
            }
            assert_true(lines <= rows);
            if (columns == 120 && rows == 20) {
                assert_non_null(strstr(buffer_text(&b), "requests 100/s"));
                assert_non_null(strstr(buffer_text(&b), "\nshort\\x00link "));
                assert_non_null(strstr(buffer_text(&b), "\nshort\\x00link: "));
            }
            buffer_fini(&b);
        }
    }
    freeReplyObject(t.now.filters);
}

static void test_top_trip__is_of_the_last_ones(void **state)
{
    (void)state;
    struct top t = {.trips = 0};
    assert_int_equal(top_trip(&t, 0.5), 0);
    for (size_t i = 0; i < TOP_TRIPS + 10; i++)
        t.trip_us[t.trips++ % TOP_TRIPS] = i + 1;
    assert_int_equal(top_trip(&t, 0), 11);
    assert_int_equal(top_trip(&t, 0.5), 11 + TOP_TRIPS / 2);
    assert_int_equal(top_trip(&t, 1), TOP_TRIPS + 10);
}

static void test_top_cut__keeps_the_colours_of_what_it_cuts(void **state)
{
    (void)state;
    struct buffer b = {0};
    const char *text = "\033[31m\xc3\xa9"
                       "abc\033[0m";
    top_cut(&b, text, strlen(text), 2);
    assert_string_equal(buffer_text(&b), "\033[31m\xc3\xa9"
                                         "a\033[0m\n");
    buffer_fini(&b);
}

/* --- bench --- */

static void test_bench_key__differs_for_each_number(void **state)
{
    (void)state;
    char a[BENCH_KEY_MAX], b[BENCH_KEY_MAX];
    for (size_t size = BENCH_KEY_MIN; size <= BENCH_KEY_MAX; size += 7) {
        for (uint64_t i = 0; i < 300; i++) {
            bench_key(a, i, size);
            bench_key(b, i * 1000 + 1000, size);
            assert_null(memchr(a, '\0', size));
            assert_memory_not_equal(a, b, size);
        }
    }
    bench_key(a, 5, 24);
    bench_key(b, 5, 24);
    assert_memory_equal(a, b, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follow_line__has_a_bar_on_a_terminal_only),
        cmocka_unit_test(test_follow_line__says_why_it_does_not_go_on),
        cmocka_unit_test(test_status_health__is_one_word_for_what_answers_are_worth),
        cmocka_unit_test(test_sheet_name__has_all_bytes_of_a_name),
        cmocka_unit_test(test_top_render__fits_the_screen_whatever_its_size),
        cmocka_unit_test(test_top_trip__is_of_the_last_ones),
        cmocka_unit_test(test_top_cut__keeps_the_colours_of_what_it_cuts),
        cmocka_unit_test(test_bench_key__differs_for_each_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
