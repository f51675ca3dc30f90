/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_YIELD_H
#define EXPANSION_DECIDE_YIELD_H
/* Whether half of a build's readers rest for the sake of others who use the database. It is tried out:
 * others' transactions are counted beside all readers, then beside half of them. Where all readers leave
 * others less than a share of what half of them do, half rest. What was found holds for a while, longer each
 * time that it is found again, and then the other way is tried again: so no rate must be known beforehand,
 * and one that changes by itself does no lasting harm. Pure; no I/O, no clock. */
#include <stdbool.h>

/* Zero-initialised: all readers read. */
struct yield {
    bool rests;                     /* result: half of the readers rest */
    double beside_all, beside_half; /* transactions a second of others, as last counted */
    bool found, found_rests;        /* what holds, once both ways were tried */
    bool tries;                     /* the other way than @found_rests */
    double hold_s;                  /* how long what was found holds */
    double passed_s;                /* since the last change */
    double counted, counted_s;
};

/* Others ended @transactions in the last @seconds. @share: of what they end beside half of the readers, from
 * below which half rest; 0: never. */
void yield_look(struct yield *y, double transactions, double seconds, double share);
#endif
