/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_LAYER_H
#define EXPANSION_DECIDE_LAYER_H
/* The joint false-positive rate of layers. shard/generations/grow.h adds a layer to a generation. */
#include "shard/filter/generation.h"

/* The highest false-positive rate of @g with all layers full: the sum of the layers' rates. */
double layer_rate_bound(const struct generation *g);
#endif
