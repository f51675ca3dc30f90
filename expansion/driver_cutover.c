/* SPDX-License-Identifier: MIT */
/* The switch to the generation that was built, the way back, and the end of the one that leaves: hold,
 * cutover, grace, rollback, finish, abort. */
#include <inttypes.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/driver_internal.h"
#include "shard/view/grace.h"

enum err driver_hold(struct driver *d, struct error *e)
{
    enum err code = driver_requests(d, e);
    if (code == ERR_OK && d->control.hold)
        code = record_step(d, STEP_HOLD, e);
    if (code != ERR_OK || !d->control.hold)
        return code;
    log_info("job_held", "filter=%s generation=%" PRIu64, log_quote(d->o->filter), driver_built(d)->number);
    while (code == ERR_OK && d->control.hold)
        code = driver_nap(d, "an operator's word to switch", e);
    if (code != ERR_OK)
        return code;
    d->request = REQUEST_CUTOVER; /* rows have come meanwhile: catch up and verify again */
    return error_set(e, ERR_CANCELLED, "an operator asked for the cutover");
}

static enum err record_switched(struct driver *d, struct error *e)
{
    d->record.switched_ms = clock_wall_us() / 1000;
    record_begin(d, false);
    record_number(d, "switched_ms", d->record.switched_ms);
    return record_write(d, e);
}

static enum err switch_view(struct driver *d, struct error *e)
{
    enum err code = driver_reload(d, e);
    if (code != ERR_OK || d->view.phase != PHASE_BUILDING) /* done before, and the reply was lost */
        return code;
    uint64_t began = clock_mono_us();
    code = driver_requests(d, e);
    if (code == ERR_OK && d->builder == NULL)
        code = grace_switch(d->link, &d->fence.names, driver_built(d)->number, e);
    else if (code == ERR_OK && (code = driver_begin_build(d, e)) == ERR_OK)
        code = driver_build_failed(d, log_build_cutover(d->build, true, e), e);
    if (code != ERR_OK)
        return code;
    driver_end_builder(d);
    d->cutover_us = clock_mono_us() - began;
    fence_announce(&d->fence); /* who is not asked reads no lane, and would go on with the old one */
    code = driver_reload(d, e);
    if (code == ERR_OK)
        code = driver_await_generation(d, e);
    driver_tell_view(d);
    return code;
}

/* The view and the record are two scripts: whoever finds the view switched counts the grace time from what
 * was written before. */
enum err driver_cutover(struct driver *d, struct error *e)
{
    enum err code = d->view.phase == PHASE_BUILDING ? record_switched(d, e) : ERR_OK;
    if (code == ERR_OK)
        code = switch_view(d, e);
    if (code != ERR_OK)
        return code;
    record_begin(d, false);
    record_text(d, "step", step_name(STEP_FOLLOW));
    record_kept(d);
    return record_write(d, e);
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

static enum err switch_back(struct driver *d, struct error *e)
{
    enum err code = driver_reload(d, e);
    if (code != ERR_OK || d->view.phase == PHASE_BUILDING) /* done before, and the reply was lost */
        return code;
    const struct generation *old = view_alternate(&d->view);
    if (old == NULL)
        return error_set(e, ERR_CONFLICT, "the generation before has left the view: no rollback");
    code = grace_switch(d->link, &d->fence.names, old->number, e);
    if (code != ERR_OK)
        return code;
    fence_announce(&d->fence);
    return driver_reload(d, e);
}

/* Both generations have every add, so the old one lacks nothing. What was built and does not stand its
 * verification leaves; else an operator decides what becomes of it. */
enum err driver_rollback(struct driver *d, struct error *e)
{
    struct error why;
    enum err code = switch_back(d, &why);
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

enum err driver_grace(struct driver *d, struct error *e)
{
    const struct generation *old = view_alternate(&d->view);
    if (old == NULL || !old->built) /* as of a first build: there is nothing to go back to */
        return ERR_OK;
    for (;;) {
        uint64_t now = clock_wall_us() / 1000;
        /* The wall clock may be set back; the wait is for comfort, so never longer than asked for from now
         * on. */
        uint64_t passed = now >= d->record.switched_ms ? now - d->record.switched_ms : 0;
        if (now < d->record.switched_ms)
            d->record.switched_ms = now;
        if (passed >= d->o->grace_ms)
            return ERR_OK;
        enum err code = driver_nap(d, "the end of the grace time", e);
        if (code != ERR_OK)
            return code;
    }
}

static enum err forget(struct driver *d, struct error *e)
{
    enum err code = driver_reload(d, e);
    if (code != ERR_OK || view_alternate(&d->view) == NULL)
        return code;
    code = driver_requests(d, e);
    if (code != ERR_OK)
        return code;
    driver_end_builder(d);
    code = grace_forget(d->link, &d->fence.names, view_alternate(&d->view)->number, NULL, e);
    if (code != ERR_OK)
        return code;
    fence_announce(&d->fence);
    return driver_reload(d, e);
}

/* What a driver that is killed in between leaves, the next one deletes in `reclaim`. */
enum err driver_leave(struct driver *d, struct error *e)
{
    enum err code = forget(d, e);
    return code == ERR_OK ? grace_delete(d->link, &d->fence.names, e) : code;
}
