/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_BINOMIAL_H
#define EXPANSION_DECIDE_BINOMIAL_H
/* The test of a false-positive rate. Pure. */
#include <stdint.h>

/* P(X >= @k) for X binomial(@n, @p): the chance that so many of @n absent keys are reported present although
 * the rate is
 * @p. 0 <= @p <= 1. Summed term by term from the logarithms of the gamma function, to about 1e-9 relative. */
double binomial_tail(uint64_t n, uint64_t k, double p);
#endif
