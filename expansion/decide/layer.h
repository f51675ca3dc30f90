/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_LAYER_H
#define EXPANSION_DECIDE_LAYER_H
/* What layers promise together; how a generation gets one: shard/generations/grow.h. */
#include "shard/filter/generation.h"

/* The highest rate that @g may have with its layers full: the sum of theirs. */
double layer_rate_bound(const struct generation *g);
#endif
