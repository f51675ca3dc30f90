/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_PREVIEW_H
#define EXPANSION_DECIDE_PREVIEW_H
/* Preview: the steps that a rebuild would take, in the order of step.h's table, and what each costs. Pure; no
 * I/O. */
#include "expansion/decide/plan.h"
#include "expansion/decide/step.h"

struct preview_input {
    const struct plan_input *in;
    const struct plan *plan;
    double rows_per_second; /* of a scan; 0: not known */
    uint64_t verify_sample; /* keys */
    uint64_t grace_ms;
    bool hold, verify_full;
};

struct preview_step {
    enum job_step step;
    const char *what;       /* a literal, for people */
    bool reads, timed;      /* rows and seconds say something */
    uint64_t rows;          /* of the source */
    double seconds;         /* expected; of a whole verification a lower bound */
    uint64_t memory_before; /* of the filter in Redis, bytes */
    uint64_t memory_peak;
    uint64_t memory_after;
};

struct preview {
    struct preview_step step[STEP_COUNT];
    size_t count;
    bool timed;
    double seconds; /* of all that can be foretold; follow and confirm run within the grace time */
};

void preview_make(struct preview *out, const struct preview_input *in);
#endif
