/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "expansion/decide/binomial.h"

static void assert_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-8 * fabs(wanted) + 1e-300))
        fail_msg("%.12g, expected %.12g", got, wanted);
}

/* Sums of binomial coefficients, computed by hand. */
static void test_binomial_tail__is_exact_for_small_numbers(void **state)
{
    (void)state;
    assert_near(binomial_tail(4, 0, 0.3), 1);
    assert_near(binomial_tail(4, 1, 0.5), 15.0 / 16);
    assert_near(binomial_tail(4, 2, 0.5), 11.0 / 16);
    assert_near(binomial_tail(4, 4, 0.5), 1.0 / 16);
    assert_near(binomial_tail(10, 10, 0.1), 1e-10);
    assert_near(binomial_tail(10, 9, 0.1), 10 * 1e-9 * 0.9 + 1e-10);
    assert_near(binomial_tail(3, 1, 0.01), 1 - 0.99 * 0.99 * 0.99);
}

static void test_binomial_tail__knows_what_cannot_be_and_what_must(void **state)
{
    (void)state;
    assert_true(binomial_tail(10, 11, 0.5) == 0);
    assert_true(binomial_tail(10, 1, 0) == 0);
    assert_true(binomial_tail(10, 0, 0) == 1);
    assert_true(binomial_tail(10, 10, 1) == 1);
    assert_true(binomial_tail(0, 0, 0.5) == 1);
}

/* 100,000 keys at 0.001: the mean is 100, the standard deviation 10. The Poisson tail P(X >= 150) is a close
 * approximation. */
static void test_binomial_tail__falls_off_as_a_sample_of_a_filter_does(void **state)
{
    (void)state;
    double before = 1;
    for (uint64_t k = 0; k <= 200; k++) {
        double tail = binomial_tail(100000, k, 0.001);
        assert_true(tail <= before && tail >= 0);
        before = tail;
    }
    double half = binomial_tail(100000, 100, 0.001);
    assert_true(half > 0.5 && half < 0.53);
    double term = exp(-100.0 + 150 * log(100.0) - lgamma(151.0)), poisson = 0;
    for (int k = 150; k < 400; k++) {
        poisson += term;
        term *= 100.0 / (k + 1);
    }
    double tail = binomial_tail(100000, 150, 0.001);
    assert_true(tail > 0.9 * poisson && tail < 1.1 * poisson);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binomial_tail__is_exact_for_small_numbers),
        cmocka_unit_test(test_binomial_tail__knows_what_cannot_be_and_what_must),
        cmocka_unit_test(test_binomial_tail__falls_off_as_a_sample_of_a_filter_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
