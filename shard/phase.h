/* SPDX-License-Identifier: MIT */
#ifndef SHARD_PHASE_H
#define SHARD_PHASE_H
/* The phases of a filter, one row each: what is read, what is written, where it may go next. */
#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

enum phase { PHASE_STEADY, PHASE_BUILDING, PHASE_SWITCHED, PHASE_OVERFLOW_OPEN, PHASE_OVERFLOW, PHASE_COUNT };

/* Whether the current generation's newest layer is being opened (see struct generation): read by all, written
 * by nobody yet. */
enum opening { OPENING_NEVER, OPENING_ALWAYS, OPENING_EITHER };

struct phase_row {
    const char *name;      /* as stored in the view and shown in status */
    bool writes_alternate; /* the current generation is always written */
    enum opening opening;  /* where two generations are alive a layer is opened without leaving the phase */
    unsigned next;         /* set of phases: bit 1 << enum phase */
    const char *summary;   /* for people */
};

/* The row of @phase. Reads always go to every layer of the current generation. */
const struct phase_row *phase_row(enum phase phase);
/* True for @from == @to where a layer may be added, or lost shards be made anew, without leaving the phase.
 */
bool phase_may_follow(enum phase from, enum phase to);
/* The phase in which only the current generation is left, of @layers layers. */
enum phase phase_alone(unsigned layers);
MUST_CHECK bool phase_parse(const char *name, size_t length, enum phase *out);
#endif
