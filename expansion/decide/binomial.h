/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_BINOMIAL_H
#define EXPANSION_DECIDE_BINOMIAL_H
/* Statistical test of a false-positive rate. Pure. */
#include <stdint.h>

/* P(X >= @k) for X binomial(@n, @p): the probability that at least @k of @n absent keys are reported present
 * if the false-positive rate is @p. 0 <= @p <= 1. Summed term by term from logarithms of the gamma function;
 * relative error about 1e-9. */
double binomial_tail(uint64_t n, uint64_t k, double p);
#endif
