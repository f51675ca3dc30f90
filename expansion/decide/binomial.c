/* SPDX-License-Identifier: MIT */
#include "expansion/decide/binomial.h"

#include <math.h>

static double log_term(double n, double k, double p)
{
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log1p(-p);
}

/* Sum the terms from @k on in steps of @step, until they are negligible. */
static double sum_from(uint64_t n, uint64_t k, double p, int step)
{
    static const double negligible = 1e-12;
    double term = exp(log_term((double)n, (double)k, p));
    double sum = 0, odds = p / (1 - p);
    for (;;) {
        sum += term;
        if (step > 0 ? k == n : k == 0)
            return sum;
        double next = step > 0 ? term * odds * (double)(n - k) / (double)(k + 1)
                               : term / odds * (double)k / (double)(n - k + 1);
        if (next < term && next < sum * negligible)
            return sum;
        term = next;
        k = step > 0 ? k + 1 : k - 1;
    }
}

double binomial_tail(uint64_t n, uint64_t k, double p)
{
    if (k == 0)
        return 1;
    if (k > n || p <= 0)
        return 0;
    if (p >= 1)
        return 1;
    /* Sum on the side where terms fall. */
    double tail = (double)k > (double)n * p ? sum_from(n, k, p, 1) : 1 - sum_from(n, k - 1, p, -1);
    return tail < 0 ? 0 : tail > 1 ? 1 : tail;
}
