/* SPDX-License-Identifier: MIT */
#include "expansion/decide/layer.h"

double layer_rate_bound(const struct generation *g)
{
    double sum = 0;
    for (unsigned i = 0; i < g->layer_count; i++)
        sum += g->layers[i].error_rate;
    return sum;
}
