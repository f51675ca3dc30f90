/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_YIELD_H
#define EXPANSION_DECIDE_YIELD_H
/* Decides whether half of a build's readers pause for other users of the database, by trial: it counts the
 * others' transactions while all readers read, then while half of them do. If the others complete less than a
 * given share beside all readers, half of the readers pause. The result holds for some time, longer each time
 * that it is confirmed; then the other way is tried again. So no rate must be known beforehand, and a rate
 * that changes by itself does no lasting harm. Pure; no I/O, no clock. */
#include <stdbool.h>

/* Zero-initialised: all readers read. */
struct yield {
    bool rests;                     /* result: half of the readers pause */
    double beside_all, beside_half; /* transactions per second of others, as last counted */
    bool found, found_rests;        /* the result, once both ways were tried */
    bool tries;                     /* trying the opposite of @found_rests */
    double hold_s;                  /* how long the result holds */
    double passed_s;                /* since the last change */
    double counted, counted_s;
};

/* Record that others completed @transactions in the last @seconds. @share: half of the readers pause if
 * beside all readers the others complete less than this share of what they complete beside half; 0: never. */
void yield_look(struct yield *y, double transactions, double seconds, double share);
#endif
