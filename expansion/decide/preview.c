/* SPDX-License-Identifier: MIT */
#include "expansion/decide/preview.h"

#include <assert.h>

static const char *const what[STEP_COUNT] = {
    [STEP_RECLAIM] = "delete what an earlier job left",
    [STEP_PLAN] = "decide capacity, shards and memory",
    [STEP_OPEN] = "enter the new generation in the view",
    [STEP_SETTLE] = "make the new shards, and wait for open transactions",
    [STEP_SCAN] = "read the table",
    [STEP_CATCH_UP] = "read the rows that came meanwhile",
    [STEP_VERIFY] = "look up a sample of the table's keys",
    [STEP_HOLD] = "wait for an operator's cutover",
    [STEP_CUTOVER] = "switch to the new generation",
    [STEP_FOLLOW] = "read the rows that came meanwhile",
    [STEP_CONFIRM] = "verify the generation in use",
    [STEP_GRACE] = "keep both generations: a rollback loses no added key",
    [STEP_FINISH] = "remove the old generation, and delete its shards",
};

static const char *what_of(const struct preview_input *in, enum job_step step)
{
    if (step == STEP_SCAN && in->plan->partitions > 1)
        return "read the table; hashes are spilled to spill_dir";
    if (step == STEP_VERIFY && in->verify_full)
        return "look up every key of the table";
    return what[step];
}

static void read_rows(struct preview_step *s, const struct preview_input *in, uint64_t rows, bool timed)
{
    s->reads = true;
    s->rows = rows;
    s->timed = timed && (rows == 0 || in->rows_per_second > 0);
    if (s->timed && rows > 0)
        s->seconds = (double)rows / in->rows_per_second;
}

/* The time of a sample depends on Redis and cannot be predicted. */
static void verify(struct preview_step *s, const struct preview_input *in)
{
    uint64_t rows = in->in->source_rows;
    if (!in->verify_full && in->verify_sample < rows)
        rows = in->verify_sample;
    read_rows(s, in, rows, in->verify_full);
}

static void fill(struct preview_step *s, const struct preview_input *in)
{
    const struct plan *plan = in->plan;
    s->what = what_of(in, s->step);
    s->memory_after = s->memory_before;
    switch ((int)s->step) {
    case STEP_SETTLE:
        s->memory_after += plan->memory_new;
        break;
    case STEP_SCAN:
        read_rows(s, in, in->in->source_rows, true);
        break;
    case STEP_VERIFY:
    case STEP_CONFIRM:
        verify(s, in);
        break;
    case STEP_GRACE:
        s->timed = true;
        s->seconds = (double)in->grace_ms / 1000;
        break;
    case STEP_FINISH:
        s->memory_after = plan->memory_new;
        break;
    default:
        break;
    }
    s->memory_peak = s->memory_before > s->memory_after ? s->memory_before : s->memory_after;
    if (s->step == STEP_SCAN)
        s->memory_peak = plan->memory_peak;
}

/* What runs after the cutover runs within the grace time. */
static void add_time(struct preview *p)
{
    double followed = 0, grace = 0;
    p->timed = true;
    for (size_t i = 0; i < p->count; i++) {
        const struct preview_step *s = &p->step[i];
        if (s->step == STEP_SCAN)
            p->timed = s->timed;
        if (s->step == STEP_GRACE)
            grace = s->seconds;
        else if (step_is_switched(s->step))
            followed += s->seconds;
        else
            p->seconds += s->seconds;
    }
    p->seconds += followed > grace ? followed : grace;
}

static void add_step(struct preview *out, const struct preview_input *in, enum job_step step)
{
    assert(out->count < sizeof(out->step) / sizeof(out->step[0]));
    struct preview_step *s = &out->step[out->count];
    *s = (struct preview_step){.step = step,
                               .memory_before = out->count == 0 ? in->in->memory_now : s[-1].memory_after};
    fill(s, in);
    out->count++;
}

void preview_make(struct preview *out, const struct preview_input *in)
{
    bool hold = in->hold;
    enum job_step step = STEP_RECLAIM;
    *out = (struct preview){.count = 0};
    while (!step_is_end(step)) {
        if (step != STEP_HOLD || hold)
            add_step(out, in, step);
        /* After an operator's request to switch it does not hold a second time. */
        bool held = step == STEP_HOLD && hold;
        step = held ? step_asked(step, REQUEST_CUTOVER) : step_next(step, ERR_OK);
        hold = hold && !held;
    }
    add_time(out);
}
