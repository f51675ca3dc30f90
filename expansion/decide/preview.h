/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_PREVIEW_H
#define EXPANSION_DECIDE_PREVIEW_H
/* Previews the steps of a rebuild, in the order of step.h's table, and the cost of each. Pure; no I/O. */
#include "expansion/decide/plan.h"
#include "expansion/decide/step.h"

struct preview_input {
    const struct plan_input *in;
    const struct plan *plan;
    double rows_per_second; /* speed of a scan; 0: unknown */
    uint64_t verify_sample; /* keys */
    uint64_t grace_ms;
    bool hold, verify_full;
};

struct preview_step {
    enum job_step step;
    const char *what;       /* literal, for people */
    bool reads, timed;      /* rows, and seconds, are known */
    uint64_t rows;          /* rows of the source */
    double seconds;         /* expected; a lower bound for a full verification */
    uint64_t memory_before; /* the filter's memory in Redis, bytes */
    uint64_t memory_peak;
    uint64_t memory_after;
};

struct preview {
    struct preview_step step[STEP_COUNT];
    size_t count;
    bool timed;
    double seconds; /* all predictable steps; follow and confirm run within the grace time */
};

void preview_make(struct preview *out, const struct preview_input *in);
#endif
