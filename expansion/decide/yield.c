/* SPDX-License-Identifier: MIT */
#include "expansion/decide/yield.h"

#include <math.h>

static const double SETTLE_S = 1; /* sessions report their transactions once a second: not counted yet */
static const double TRY_S = 3;
static const double HOLD_LEAST_S = 10, HOLD_MOST_S = 160;
static const double FEW = 50; /* transactions per second; some are our own reads of pages */

static void begin(struct yield *y, bool rests)
{
    y->rests = rests;
    y->passed_s = y->counted = y->counted_s = 0;
}

/* Decide, after both ways were tried. */
static void find(struct yield *y, double share)
{
    bool rests = y->beside_all < share * y->beside_half;
    bool again = y->found && rests == y->found_rests;
    y->hold_s = again ? fmin(y->hold_s * 2, HOLD_MOST_S) : HOLD_LEAST_S;
    y->found = true;
    y->found_rests = rests;
    y->tries = false;
}

void yield_look(struct yield *y, double transactions, double seconds, double share)
{
    if (share <= 0) {
        *y = (struct yield){.rests = false};
        return;
    }
    if (y->passed_s >= SETTLE_S) {
        y->counted += transactions;
        y->counted_s += seconds;
    }
    y->passed_s += seconds;
    bool holds = y->found && !y->tries;
    if (y->passed_s < (holds ? y->hold_s : TRY_S) || y->counted_s <= 0)
        return;
    double rate = y->counted / y->counted_s;
    *(y->rests ? &y->beside_half : &y->beside_all) = rate;
    if (rate < FEW) {
        *y = (struct yield){.beside_all = rate};
        return;
    }
    if (y->tries) {
        find(y, share);
        begin(y, y->found_rests);
    } else {
        y->tries = true;
        begin(y, !y->rests);
    }
}
