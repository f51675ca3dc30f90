/* SPDX-License-Identifier: MIT */
/* The watcher: asks TB.STATUS every 20 ms, tells the other threads where the filter stands, and notes when
 * each expansion was seen to begin, to scan, to flip and to end. */
#include <stdio.h>
#include <strings.h>
#include "base/clock.h"
#include "deploy/traffic.h"

enum { LOOK_EVERY_US = 20000 };

struct watch {
    uint64_t steady_generation; /* the one in use when the filter last was steady */
    uint64_t last_look_us;
    bool first;
    bool is_built; /* requests have been answered from a built generation */
};

/* For a while after the first cutover the coordinator answers from the generation that was not built:
 * "maybe". */
static enum moment moment_of(struct watch *w, const struct status *s)
{
    w->is_built |= s->built && s->serving == s->generation;
    if (!s->built || !w->is_built)
        return MOMENT_UNBUILT;
    if (strcasecmp(s->phase, "BUILDING") == 0)
        return MOMENT_BUILDING;
    return strcasecmp(s->phase, "SWITCHED") == 0 ? MOMENT_SWITCHED : MOMENT_STEADY;
}

static bool job_is(const struct status *s, const char *state)
{
    return strcasecmp(s->job_state, state) == 0;
}

/* From the first look that finds the scan under way to the first that finds it over: late by half an interval
 * at both. */
static void note_scan(struct expansion *x, const struct status *s, uint64_t now)
{
    bool at_work = job_is(s, "running") && strncasecmp(s->job_step, "scan", 4) == 0;
    if (at_work && x->scan_first_us == 0) {
        x->scan_first_us = now;
        x->rows_before = s->job_rows;
    }
    if (!at_work && x->scan_first_us != 0 && x->scan_over_us == 0)
        x->scan_over_us = now;
    if (job_is(s, "running") && s->job_rows > x->rows)
        x->rows = s->job_rows;
    if (job_is(s, "running") && s->job_rate > x->rate)
        x->rate = s->job_rate;
}

/* Called under the lock. */
static void note(struct traffic *t, struct watch *w, const struct status *s, uint64_t now)
{
    unsigned done = atomic_load(&t->done);
    if (w->first)
        w->steady_generation = s->generation;
    if (done < EXPANSIONS_MAX) {
        struct expansion *x = &t->expansion[done];
        bool steady = strcasecmp(s->phase, "STEADY") == 0;
        bool switched = strcasecmp(s->phase, "SWITCHED") == 0;
        if (x->seen_us == 0 && (job_is(s, "running") || job_is(s, "waiting") || !steady)) {
            x->seen_us = now;
            (void)snprintf(x->reason, sizeof(x->reason), "%s", s->job_reason);
        }
        note_scan(x, s, now);
        bool flipped = switched || s->generation != w->steady_generation;
        if (flipped && x->after_cutover_us == 0) {
            x->before_cutover_us = w->last_look_us;
            x->after_cutover_us = now;
        }
        if (steady && s->generation != w->steady_generation && s->built) {
            x->done_us = now;
            w->steady_generation = s->generation;
            atomic_store(&t->done, done + 1);
        }
    }
    w->first = false;
    w->last_look_us = now;
}

void *watcher_run(void *arg)
{
    struct traffic *t = arg;
    struct watch w = {.first = true};
    while (!atomic_load_explicit(&t->stop, memory_order_relaxed)) {
        struct status s;
        struct error e;
        enum err err = observe_status(t->watched, t->options.filter, &s, &e);
        if (err != ERR_OK) {
            traffic_fail(t, "%s", e.text);
            break;
        }
        atomic_store_explicit(&t->moment, (int)moment_of(&w, &s), memory_order_relaxed);
        (void)pthread_mutex_lock(&t->lock);
        t->status = s;
        note(t, &w, &s, clock_mono_us());
        (void)pthread_mutex_unlock(&t->lock);
        if (job_is(&s, "failed") || job_is(&s, "aborted")) {
            traffic_fail(t, "the expansion %s in step %s: %s", s.job_state, s.job_step, s.job_error);
            break;
        }
        clock_sleep_us(LOOK_EVERY_US);
    }
    return NULL;
}
