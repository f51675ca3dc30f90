/* SPDX-License-Identifier: MIT */
#ifndef SHARD_PHASE_H
#define SHARD_PHASE_H
/* The phases of a filter, one row each: what is read, what is written, where it may go next. */
#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

enum phase { PHASE_STEADY, PHASE_BUILDING, PHASE_SWITCHED, PHASE_OVERFLOW_OPEN, PHASE_OVERFLOW, PHASE_COUNT };

/* Which of a generation's layers takes the writes. */
enum write_layer { WRITE_NEWEST, WRITE_BEFORE_NEWEST };

struct phase_row {
    const char *name;         /* as stored in the view and shown in status */
    bool writes_alternate;    /* the current generation is always written */
    enum write_layer written; /* layer of the current generation that takes writes */
    unsigned next;            /* set of phases: bit 1 << enum phase */
    const char *summary;      /* for people */
};

/* The row of @phase. Reads always go to every layer of the current generation. */
const struct phase_row *phase_row(enum phase phase);
bool phase_may_follow(enum phase from, enum phase to);
MUST_CHECK bool phase_parse(const char *name, size_t length, enum phase *out);
#endif
