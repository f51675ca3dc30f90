/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/histogram.h"

static struct histogram *make(void)
{
    struct histogram *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    return h;
}

static void test_histogram__finds_quantiles_within_one_part_in_32(void **state)
{
    (void)state;
    for (uint64_t scale = 1; scale < UINT64_C(1) << 30; scale *= 7) {
        struct histogram *h = make();
        for (uint64_t i = 1; i <= 1000; i++)
            histogram_record(h, i * scale);
        const double quantiles[] = {0.1, 0.5, 0.9, 0.99, 0.999};
        for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
            uint64_t exact = (uint64_t)(quantiles[i] * 1000) * scale;
            uint64_t found = histogram_quantile(h, quantiles[i]);
            assert_true(found >= exact);
            assert_true(found <= exact + scale + (exact + scale) / HISTOGRAM_PARTS);
        }
        assert_int_equal(h->worst, 1000 * scale);
        assert_int_equal(histogram_quantile(h, 1), 1000 * scale);
        free(h);
    }
}

static void test_histogram__is_exact_below_32_and_empty_is_zero(void **state)
{
    (void)state;
    struct histogram *h = make();
    assert_int_equal(histogram_quantile(h, 0.5), 0);
    for (uint64_t i = 0; i < HISTOGRAM_PARTS; i++)
        histogram_record(h, i);
    assert_int_equal(histogram_quantile(h, 0.5), 16);
    histogram_record(h, UINT64_MAX);
    assert_true(histogram_quantile(h, 1) == UINT64_MAX);
    free(h);
}

static void test_histogram_merge__adds_counts_and_keeps_the_worst(void **state)
{
    (void)state;
    struct histogram *a = make();
    struct histogram *b = make();
    histogram_record(a, 10);
    histogram_record(b, 1000);
    histogram_record(b, 20);
    histogram_merge(a, b);
    assert_int_equal(a->count, 3);
    assert_int_equal(a->sum, 1030);
    assert_int_equal(a->worst, 1000);
    assert_int_equal(histogram_quantile(a, 0.5), 20);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histogram__finds_quantiles_within_one_part_in_32),
        cmocka_unit_test(test_histogram__is_exact_below_32_and_empty_is_zero),
        cmocka_unit_test(test_histogram_merge__adds_counts_and_keeps_the_worst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
