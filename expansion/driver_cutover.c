/* SPDX-License-Identifier: MIT */
/* The switch to the generation that was built, the way back, and the end of the one that leaves: hold,
 * cutover, grace, rollback, finish, abort. */
#include <inttypes.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/driver_internal.h"

/* The alternate generation of d->next leaves the view; its shards lie under the present epoch's names. */
static void retire_slot(struct driver *d, unsigned slot)
{
    d->next.retiring = d->next.slot[slot];
    d->next.retiring_epoch = d->view.epoch;
    d->next.slot[slot] = (struct generation){0};
    view_trim_unsure(&d->next);
}

bool driver_is_degraded(struct driver *d, uint64_t *looked_at)
{
    enum { LOOK_US = 1000 * 1000 };
    struct error ignored;
    if (clock_mono_us() < *looked_at + LOOK_US)
        return false;
    *looked_at = clock_mono_us();
    return d->view.log && fence_load(&d->fence, &d->next, &ignored) == ERR_OK && d->next.degraded &&
           view_current(&d->next)->built;
}

enum err driver_hold(struct driver *d, struct error *e)
{
    uint64_t looked_at = 0;
    enum err code = driver_requests(d, e);
    if (code == ERR_OK && d->control.hold && driver_is_degraded(d, &looked_at))
        return ERR_OK;
    if (code == ERR_OK && d->control.hold)
        code = record_step(d, STEP_HOLD, e);
    if (code != ERR_OK || !d->control.hold)
        return code;
    log_info("job_held", "filter=%s generation=%" PRIu64, log_quote(d->o->filter), driver_built(d)->number);
    bool degraded = false;
    while (code == ERR_OK && d->control.hold && !degraded) {
        code = driver_nap(d, "an operator's word to switch", e);
        degraded = driver_is_degraded(d, &looked_at);
    }
    if (code != ERR_OK)
        return code;
    d->request = REQUEST_CUTOVER; /* rows have come meanwhile: catch up and verify again */
    return error_set(e, ERR_CANCELLED,
                     degraded ? "the filter is degraded, and is not to wait"
                              : "an operator asked for the cutover");
}

static enum err record_switched(struct driver *d, struct error *e)
{
    d->record.switched_ms = clock_wall_us() / 1000;
    record_begin(d, false);
    record_number(d, "switched_ms", d->record.switched_ms);
    return record_write(d, e);
}

/* The view and the record are two scripts: whoever finds the view switched counts the grace time from what
 * was written before. */
static enum err cutover_log(struct driver *d, struct error *e)
{
    uint64_t number = driver_built(d)->number;
    enum err code = d->view.phase == PHASE_BUILDING ? record_switched(d, e) : ERR_OK;
    if (code == ERR_OK)
        code = driver_log_cutover(d, e);
    if (code != ERR_OK)
        return code;
    d->record.complete_generation = number;
    d->record.complete_at = d->complete_at;
    record_begin(d, false);
    record_text(d, "step", step_name(STEP_FOLLOW));
    record_kept(d);
    return record_write(d, e);
}

/* Model: EXCHANGE. */
enum err driver_cutover(struct driver *d, struct error *e)
{
    if (d->view.log)
        return cutover_log(d, e);
    if (d->view.phase == PHASE_SWITCHED)
        return driver_complete_fence(d, e);
    enum err code = driver_widen(d, e);
    if (code != ERR_OK)
        return code;
    if ((code = driver_same_masters(d, e)) != ERR_OK)
        return code;
    char now[24], generation[24], dead[24], complete[24], complete_at[24];
    d->record.switched_ms = clock_wall_us() / 1000;
    (void)snprintf(now, sizeof(now), "%" PRIu64, d->record.switched_ms);
    (void)snprintf(generation, sizeof(generation), "%" PRIu64, d->record.dead_generation);
    (void)snprintf(dead, sizeof(dead), "%" PRIu64, d->record.dead_at_build);
    d->record.complete_generation = view_alternate(&d->view)->number;
    d->record.complete_at = d->complete_at;
    (void)snprintf(complete, sizeof(complete), "%" PRIu64, d->record.complete_generation);
    (void)snprintf(complete_at, sizeof(complete_at), "%" PRIu64, d->record.complete_at);
    const char *pairs[] = {"step",
                           step_name(STEP_FOLLOW),
                           "switched_ms",
                           now,
                           "dead_generation",
                           generation,
                           "dead_at_build",
                           dead,
                           "complete_generation",
                           complete,
                           "complete_at",
                           complete_at};
    const struct fence_job job = {
        .guard = "abort", .pairs = pairs, .count = sizeof(pairs) / sizeof(pairs[0])};
    d->next = d->view;
    d->next.phase = PHASE_SWITCHED;
    d->next.current = 1 - d->view.current;
    d->next.slot[d->next.current].built = true;
    uint64_t began = clock_mono_us();
    code = driver_change_view(d, &job, e);
    d->cutover_us = code == ERR_OK ? clock_mono_us() - began : 0;
    return code;
}

/* The generation to which a rollback would go must be able to say "no", and rightly. */
static enum err may_roll_back(struct driver *d, struct error *e)
{
    uint64_t lost = 0;
    const struct generation *old = view_alternate(&d->view);
    if (!old->built)
        return error_set(e, ERR_CONFLICT, "generation %" PRIu64 " was never built: no rollback", old->number);
    enum err code = fence_count_lost(&d->fence, &d->view, old, &lost, e);
    if (d->view.unsure.generation == old->number) /* they are there, and do not hold all rows */
        lost += d->view.unsure.count;
    if (code == ERR_OK && lost > 0)
        code =
            error_set(e, ERR_CONFLICT, "%" PRIu64 " shards of generation %" PRIu64 " are lost: no rollback",
                      lost, old->number);
    return code;
}

/* What was asked for cannot be: it must not be asked again at once. */
static enum err refuse_rollback(struct driver *d, const struct error *why, struct error *e)
{
    log_warn("rollback_impossible", "filter=%s code=%s error=%s", log_quote(d->o->filter),
             error_name(ERR_CONFLICT), log_quote(why->text));
    record_begin(d, false);
    record_text(d, "rollback", "0");
    record_text(d, "error", why->text);
    enum err code = record_write(d, e);
    return code == ERR_OK ? error_set(e, ERR_CONFLICT, "%s", why->text) : code;
}

static enum err rollback_log(struct driver *d, struct error *e)
{
    struct error why;
    enum err code = driver_log_rollback(d, &why);
    if (code == ERR_CONFLICT)
        return refuse_rollback(d, &why, e);
    if (code != ERR_OK)
        return error_set(e, code, "%s", why.text);
    record_begin(d, false);
    record_text(d, "step", step_name(d->unconfirmed ? STEP_ABORT : STEP_HOLD));
    record_text(d, "hold", d->unconfirmed ? "0" : "1");
    record_text(d, "rollback", "0");
    record_text(d, "finish", "0");
    return record_write(d, e);
}

/* Model: EXCHANGE. Both generations have taken every add since the build began, so the old one lacks nothing.
 * What was built and does not stand its verification leaves; else an operator decides what becomes of it. */
enum err driver_rollback(struct driver *d, struct error *e)
{
    struct error why;
    enum err code;
    if (d->view.log)
        return rollback_log(d, e);
    if (d->view.phase == PHASE_BUILDING)
        return driver_complete_fence(d, e);
    code = driver_widen(d, e);
    if (code == ERR_OK && (code = may_roll_back(d, &why)) != ERR_OK)
        return code == ERR_CONFLICT ? refuse_rollback(d, &why, e) : error_set(e, code, "%s", why.text);
    if (code != ERR_OK)
        return code;
    const char *const then = step_name(d->unconfirmed ? STEP_ABORT : STEP_HOLD);
    const char *pairs[] = {"step", then, "hold", d->unconfirmed ? "0" : "1", "rollback", "0", "finish", "0"};
    const struct fence_job job = {.pairs = pairs, .count = sizeof(pairs) / sizeof(pairs[0])};
    d->next = d->view;
    d->next.phase = PHASE_BUILDING;
    d->next.current = 1 - d->view.current;
    return driver_change_view(d, &job, e);
}

enum err driver_grace(struct driver *d, struct error *e)
{
    if (!view_alternate(&d->view)->built)
        return ERR_OK; /* a first build: there is nothing to go back to */
    for (uint64_t looked_at = 0;;) {
        uint64_t now = clock_wall_us() / 1000;
        /* The wall clock may be set back; the wait is for comfort, so never longer than asked for from now
         * on. */
        uint64_t passed = now >= d->record.switched_ms ? now - d->record.switched_ms : 0;
        if (now < d->record.switched_ms)
            d->record.switched_ms = now;
        if (passed >= d->o->grace_ms || driver_is_degraded(d, &looked_at))
            return ERR_OK;
        enum err code = driver_nap(d, "the end of the grace time", e);
        if (code != ERR_OK)
            return code;
    }
}

/* Model: LEAVE. The alternate generation leaves the view. */
enum err driver_leave(struct driver *d, enum job_step then, const char *guard, struct error *e)
{
    if (d->view.log)
        return driver_log_leave(d, e);
    if (view_alternate(&d->view) == NULL)
        return driver_complete_fence(d, e);
    enum err code = driver_widen(d, e);
    if (code != ERR_OK)
        return code;
    const char *pairs[] = {"step", step_name(then)};
    const struct fence_job job = {.guard = guard, .pairs = pairs, .count = sizeof(pairs) / sizeof(pairs[0])};
    d->next = d->view;
    d->next.phase = phase_alone(view_current(&d->view)->layer_count);
    retire_slot(d, 1 - d->view.current);
    return driver_change_view(d, &job, e);
}
