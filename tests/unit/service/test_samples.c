/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "service/meter/meter.h"
#include "service/metrics/samples.h"

static char *written(struct samples *s, enum exposition format)
{
    static struct buffer out;
    const struct samples *const parts[] = {NULL, s};
    buffer_clear(&out);
    samples_write(&out, format, parts, 2);
    samples_fini(s);
    *s = (struct samples){0};
    static char text[16384];
    assert_true(out.length < sizeof(text));
    memcpy(text, buffer_text(&out), out.length + 1);
    buffer_fini(&out);
    return text;
}

static void contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void test_sample__escapes_what_a_label_may_not_hold(void **state)
{
    (void)state;
    static const char name[] = "a\"b\\c\nd\xff\xc3\xa9\0e\r\xed\xa0\x80";
    struct samples s = {0};
    const struct label filter = {name, sizeof(name) - 1};
    sample_count(&s, METRIC_OF_FILTER_CHECKS, &filter, 7);
    contains(written(&s, EXPOSITION_PROMETHEUS),
             "twinbloom_filter_checks_total{filter=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd"
             "e\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"} 7\n");
}

static void test_sample__writes_what_is_no_number(void **state)
{
    (void)state;
    struct samples s = {0};
    const struct label filter = label("f");
    sample(&s, METRIC_OF_FILTER_FILL, &filter, (double)NAN);
    sample(&s, METRIC_OF_FILTER_FILL, &filter, (double)INFINITY);
    sample(&s, METRIC_OF_FILTER_FILL, &filter, -(double)INFINITY);
    sample(&s, METRIC_OF_FILTER_FILL, &filter, 0.1);
    char *text = written(&s, EXPOSITION_PROMETHEUS);
    contains(text, "_ratio{filter=\"f\"} NaN\n");
    contains(text, "_ratio{filter=\"f\"} +Inf\n");
    contains(text, "_ratio{filter=\"f\"} -Inf\n");
    contains(text, "_ratio{filter=\"f\"} 0.1\n");
}

static void test_sample_timing__buckets_hold_all_that_is_not_longer(void **state)
{
    (void)state;
    struct samples s = {0};
    struct timing t = {0};
    struct timing_figures figures = {0};
    static const uint64_t us[] = {0, 50, 51, 100, 101, 13107200, 13107201, UINT64_C(1) << 40};
    for (size_t i = 0; i < sizeof(us) / sizeof(us[0]); i++)
        timing_record_many(&t, us[i], 1);
    timing_record_shared(&t, 50);
    timing_add(&t, &figures);
    const struct label command = label("BF.ADD");
    sample_timing(&s, METRIC_OF_REQUEST_SECONDS, &command, &figures);
    char *text = written(&s, EXPOSITION_PROMETHEUS);
    contains(text, "_bucket{command=\"BF.ADD\",le=\"5e-05\"} 3\n");
    contains(text, "_bucket{command=\"BF.ADD\",le=\"0.0001\"} 5\n");
    contains(text, "_bucket{command=\"BF.ADD\",le=\"0.0002\"} 6\n");
    contains(text, "_bucket{command=\"BF.ADD\",le=\"6.5536\"} 6\n");
    contains(text, "_bucket{command=\"BF.ADD\",le=\"13.1072\"} 7\n");
    contains(text, "_bucket{command=\"BF.ADD\",le=\"+Inf\"} 9\n");
    contains(text, "_count{command=\"BF.ADD\"} 9\n");
    long long last = -1;
    unsigned lines = 0;
    for (const char *at = text; (at = strstr(at, "le=\"")) != NULL; at++, lines++) {
        long long n = strtoll(strchr(at, '}') + 1, NULL, 10);
        assert_true(n >= last);
        last = n;
    }
    assert_int_equal(lines, TIMING_BUCKETS);
}

static void test_timing_bucket__is_the_first_bound_that_is_not_smaller(void **state)
{
    (void)state;
    for (uint64_t us = 0; us < 20 * 1000 * 1000; us += us < 1000 ? 1 : 997) {
        unsigned wanted = 0;
        while (wanted < TIMING_BOUNDS && timing_bound_us(wanted) < us)
            wanted++;
        assert_int_equal(timing_bucket(us), wanted);
    }
    assert_int_equal(timing_bucket(UINT64_MAX), TIMING_BOUNDS);
}

static void test_samples_write__heads_each_metric_once(void **state)
{
    (void)state;
    struct samples s = {0}, more = {0};
    struct buffer out = {0};
    sample_count(&s, METRIC_OF_CONNECTIONS, NULL, 3);
    sample_count(&s, METRIC_OF_BUILD, (struct label[]){label("1"), label("c")}, 1);
    sample(&s, METRIC_OF_UPTIME, NULL, 1.5);
    /* Both parts have the metric, which never happens in production. It gets only one heading. */
    sample(&more, METRIC_OF_UPTIME, NULL, 2.5);
    const struct samples *const parts[] = {&s, &more};
    samples_write(&out, EXPOSITION_OPENMETRICS, parts, 2);
    assert_string_equal(buffer_text(&out),
                        "# HELP twinbloom_build Version and id of this coordinator, as in TB.COORDINATORS.\n"
                        "# TYPE twinbloom_build info\n"
                        "twinbloom_build_info{version=\"1\",coordinator=\"c\"} 1\n"
                        "# HELP twinbloom_uptime_seconds Time since this coordinator started.\n"
                        "# TYPE twinbloom_uptime_seconds gauge\n# UNIT twinbloom_uptime_seconds seconds\n"
                        "twinbloom_uptime_seconds 1.5\ntwinbloom_uptime_seconds 2.5\n"
                        "# HELP twinbloom_connections Accepted connections of Redis clients.\n"
                        "# TYPE twinbloom_connections counter\ntwinbloom_connections_total 3\n# EOF\n");
    buffer_fini(&out);
    samples_fini(&more);
    char *text = written(&s, EXPOSITION_PROMETHEUS);
    contains(text, "# TYPE twinbloom_build_info gauge\n");
    contains(text, "# TYPE twinbloom_connections_total counter\n");
    assert_null(strstr(text, "UNIT"));
    assert_null(strstr(text, "EOF"));
}

static void test_exposition_negotiate__takes_the_one_that_is_liked(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum exposition wanted;
    } cases[] = {
        {NULL, EXPOSITION_PROMETHEUS},
        {"", EXPOSITION_PROMETHEUS},
        {"*/*", EXPOSITION_PROMETHEUS},
        {"text/plain", EXPOSITION_PROMETHEUS},
        {"application/openmetrics-text", EXPOSITION_OPENMETRICS},
        {"application/openmetrics-text; version=1.0.0; charset=utf-8", EXPOSITION_OPENMETRICS},
        {"application/openmetrics-text;version=2.0.0", EXPOSITION_PROMETHEUS},
        {"Application/OpenMetrics-Text", EXPOSITION_OPENMETRICS},
        {"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
         "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         EXPOSITION_OPENMETRICS},
        {"text/plain;q=0.9, application/openmetrics-text;q=0.1", EXPOSITION_PROMETHEUS},
        {"application/openmetrics-text;q=0", EXPOSITION_PROMETHEUS},
        {"application/openmetrics-textual", EXPOSITION_PROMETHEUS},
        {" ,;;q=,application/openmetrics-text ;q=x,", EXPOSITION_PROMETHEUS},
        {";", EXPOSITION_PROMETHEUS},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (exposition_negotiate(cases[i].accept) != cases[i].wanted)
            fail_msg("%s", cases[i].accept);
}

/* The rules that tools check names against. */
static void test_metric_rows__keep_to_the_rules_of_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = &metric_rows[i];
        char name[128], unit[32];
        size_t length = strlen(row->name);
        assert_true(length < sizeof(name));
        memcpy(name, row->name, length + 1);
        bool total = length > 6 && strcmp(name + length - 6, "_total") == 0;
        bool info = length > 5 && strcmp(name + length - 5, "_info") == 0;
        assert_int_equal(total, row->type == METRIC_COUNTER);
        assert_int_equal(info, row->type == METRIC_INFO);
        if (total)
            name[length -= 6] = '\0';
        (void)snprintf(unit, sizeof(unit), "_%s", row->unit);
        if (row->unit[0] != '\0' &&
            (length < strlen(unit) || strcmp(name + length - strlen(unit), unit) != 0))
            fail_msg("%s does not end in %s", row->name, unit);
        assert_true(strncmp(name, "twinbloom_", 10) == 0 || strncmp(name, "process_", 8) == 0);
        assert_true(strlen(row->help) > 5 && strpbrk(row->help, "\n\\|") == NULL);
        /* OpenMetrics uses the name without _total. */
        for (size_t j = 0; j < METRIC_COUNT; j++)
            if (j != i)
                assert_string_not_equal(name, metric_rows[j].name);
    }
}

static void test_outcome_of_reply__goes_by_the_error(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        enum outcome outcome;
    } cases[] = {{"+OK\r\n", OUTCOME_OK},
                 {"", OUTCOME_OK},
                 {":1\r\n", OUTCOME_OK},
                 {"-ERR no\r\n", OUTCOME_ERROR},
                 {"-", OUTCOME_ERROR},
                 {"-NOAUTH Authentication required.\r\n", OUTCOME_DENIED},
                 {"-NOPERM x", OUTCOME_DENIED},
                 {"-WRONGPASS x", OUTCOME_DENIED},
                 {"-CLUSTERDOWN x", OUTCOME_UNAVAILABLE},
                 {"-TIMEOUT x", OUTCOME_TIMEOUT},
                 {"-BUSY x", OUTCOME_ERROR}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(outcome_of_reply(cases[i].reply, strlen(cases[i].reply)), cases[i].outcome);
}

static void test_meter__counts_and_bounds_its_filters(void **state)
{
    (void)state;
    static const struct meter_kind kind = {.rows = 3, .columns = OUTCOME_COUNT};
    struct meter *m = meter_new(&kind);
    assert_non_null(m);
    if (m == NULL)
        return;
    for (int i = 0; i < 10; i++)
        meter_count(m, 2, OUTCOME_ERROR, 70, 1);
    struct timing_figures t = {0};
    meter_read_timing(m, 2, &t);
    assert_int_equal(meter_read(m, 2, OUTCOME_ERROR), 10);
    assert_int_equal(meter_read(m, 1, OUTCOME_ERROR), 0);
    assert_int_equal(t.count, 10);
    assert_int_equal(t.sum_us, 700);
    struct meter_filter *f = meter_filter(m, "a\0b", 3);
    assert_non_null(f);
    meter_answered(f, true, &(struct meter_answers){.yes = 2, .no = 5, .other = 1});
    meter_answered(f, false, &(struct meter_answers){.yes = 1, .no = 3});
    assert_ptr_equal(meter_filter(m, "a\0b", 3), f);
    assert_ptr_not_equal(meter_filter(m, "a\0c", 3), f);
    if (f != NULL) {
        assert_int_equal(atomic_load(&f->checks), 7);
        assert_int_equal(atomic_load(&f->positives), 2);
        assert_int_equal(atomic_load(&f->adds), 4);
        assert_int_equal(atomic_load(&f->added), 1);
    }
    size_t made = 2;
    for (unsigned i = 0; i < METER_FILTERS_MAX + 10U; i++) {
        char name[16];
        int n = snprintf(name, sizeof(name), "f%u", i);
        struct meter_filter *one = meter_filter(m, name, (size_t)n);
        made += one != meter_others(m);
        meter_answered(one, true, &(struct meter_answers){.yes = 1, .no = 2});
    }
    assert_int_equal(made, METER_FILTERS_MAX);
    /* 12 filters are more than METER_FILTERS_MAX. */
    assert_int_equal(atomic_load(&meter_others(m)->checks), 12 * 3);
    meter_answered(NULL, true, &(struct meter_answers){.yes = 1});
    meter_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample__escapes_what_a_label_may_not_hold),
        cmocka_unit_test(test_sample__writes_what_is_no_number),
        cmocka_unit_test(test_sample_timing__buckets_hold_all_that_is_not_longer),
        cmocka_unit_test(test_timing_bucket__is_the_first_bound_that_is_not_smaller),
        cmocka_unit_test(test_samples_write__heads_each_metric_once),
        cmocka_unit_test(test_exposition_negotiate__takes_the_one_that_is_liked),
        cmocka_unit_test(test_metric_rows__keep_to_the_rules_of_names),
        cmocka_unit_test(test_outcome_of_reply__goes_by_the_error),
        cmocka_unit_test(test_meter__counts_and_bounds_its_filters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
