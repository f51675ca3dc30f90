/* SPDX-License-Identifier: MIT */
/* The switch to the built generation, the switch back, and the removal of the other one: hold, cutover,
 * grace, rollback, finish, abort. */
#include <inttypes.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/job/driver_internal.h"
#include "shard/generations/grace.h"
#include "shard/members/roll.h"
#include "shard/view/view_load.h"

/* True if the generation that is read lacks keys: a new generation heals it, so do not wait for an operator.
 * Looks once a second: *@looked_at, initially 0, is the time of the last look. */
static bool is_degraded(struct driver *d, uint64_t *looked_at)
{
    enum { LOOK_US = 1000 * 1000 };
    struct error ignored;
    if (clock_mono_us() < *looked_at + LOOK_US)
        return false;
    *looked_at = clock_mono_us();
    return handle_load(&d->handle, &d->next, &ignored) == ERR_OK && d->next.degraded &&
           view_current(&d->next)->built;
}

enum err driver_hold(struct driver *d, struct error *e)
{
    uint64_t looked_at = 0;
    enum err code = driver_requests(d, e);
    if (code == ERR_OK && d->control.hold && is_degraded(d, &looked_at))
        return ERR_OK;
    if (code == ERR_OK && d->control.hold)
        code = record_step(d, STEP_HOLD, e);
    if (code != ERR_OK || !d->control.hold)
        return code;
    log_info("job_held", "filter=%s generation=%" PRIu64, log_quote(d->o->filter), driver_built(d)->number);
    driver_end_build(d); /* the hold may be long */
    driver_source_leave(d);
    atomic_store(d->o->waits, true);
    bool degraded = false;
    while (code == ERR_OK && d->control.hold && !degraded) {
        code = driver_nap(d, "an operator's cutover", e);
        degraded = is_degraded(d, &looked_at);
    }
    atomic_store(d->o->waits, false);
    if (code != ERR_OK)
        return code;
    d->request = REQUEST_CUTOVER; /* rows have come during the hold: catch up and verify again */
    return error_set(e, ERR_CANCELLED,
                     degraded ? "the filter is degraded and must not wait"
                              : "an operator asked for the cutover");
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
    if (code != ERR_OK || d->view.phase != PHASE_BUILDING) /* it was done before, and the reply was lost */
        return code;
    uint64_t began = clock_mono_us();
    code = driver_requests(d, e);
    if (code == ERR_OK && d->builder == NULL)
        code = grace_switch(d->redis, &d->handle.names, mutex_value(d->mutex), d->view.epoch, driver_built(d),
                            e);
    else if (code == ERR_OK && (code = driver_begin_build(d, e)) == ERR_OK)
        code = driver_build_failed(d, build_cutover(d->build, true, e), e);
    if (code != ERR_OK)
        return code;
    driver_end_builder(d);
    d->cutover_us = clock_mono_us() - began;
    handle_announce(&d->handle); /* processes without requests read no lane, and would not notice */
    code = driver_reload(d, e);
    if (code == ERR_OK)
        code = driver_await_generation(d, e);
    driver_tell_view(d);
    return code;
}

/* View and record are written by two scripts. The record comes first, so that a driver that finds the view
 * switched knows when the grace time began. */
enum err driver_cutover(struct driver *d, struct error *e)
{
    enum err code = d->view.phase == PHASE_BUILDING ? record_switched(d, e) : ERR_OK;
    if (code == ERR_OK)
        code = switch_view(d, e);
    if (code != ERR_OK)
        return code;
    record_begin(d, false);
    record_text(d, "step", step_name(STEP_FOLLOW));
    if (d->record.dead_generation != 0) {
        record_number(d, "dead_generation", d->record.dead_generation);
        record_number(d, "dead_at_build", d->record.dead_at_build);
    }
    return record_write(d, e);
}

/* The requested rollback is impossible: clear the request, so that it is not tried again at once. */
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
    if (code != ERR_OK || d->view.phase == PHASE_BUILDING) /* it was done before, and the reply was lost */
        return code;
    const struct generation *old = view_alternate(&d->view);
    if (old == NULL)
        return error_set(e, ERR_CONFLICT, "the generation before has left the view: no rollback");
    code = grace_switch(d->redis, &d->handle.names, mutex_value(d->mutex), d->view.epoch, old, e);
    if (code != ERR_OK)
        return code;
    handle_announce(&d->handle);
    return driver_reload(d, e);
}

/* Both generations have every add, so the old one lacks nothing. If the new one failed its verification, it
 * leaves; otherwise an operator decides about it. */
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
    if (old == NULL || !old->built) /* after a first build there is nothing to go back to */
        return ERR_OK;
    driver_source_leave(d);
    atomic_store(d->o->waits, true);
    enum err code = ERR_OK;
    for (uint64_t looked_at = 0; code == ERR_OK;) {
        uint64_t now = clock_wall_us() / 1000;
        /* The wall clock may be set back. The wait is only for comfort, so wait at most the grace time from
         * now. */
        uint64_t passed = now >= d->record.switched_ms ? now - d->record.switched_ms : 0;
        if (now < d->record.switched_ms)
            d->record.switched_ms = now;
        if (passed >= d->o->grace_ms || is_degraded(d, &looked_at))
            break;
        code = driver_nap(d, "the end of the grace time", e);
    }
    atomic_store(d->o->waits, false);
    return code;
}

/* The job's end allows an operator to remove nodes that the filter leaves, so no lane may stay there. */
static enum err move_lanes(struct driver *d, struct error *e)
{
    enum { TRIES = 8 /* a process that meets a closed lane replaces it, too */ };
    SCOPED(roll_fini) struct roll roll;
    uint8_t writer[LOG_WRITER_BYTES];
    random_id(writer);
    roll_init(&roll, d->redis, &d->handle.names, writer);
    enum err code = ERR_FENCED;
    for (unsigned i = 0; i < TRIES && code == ERR_FENCED; i++)
        if ((code = log_view_load(d->redis, &d->handle.names, &d->log_view, e)) == ERR_OK)
            code = roll_move_lanes(&roll, &d->log_view, e);
    return code == ERR_FENCED ? error_prefix(e, ERR_TIMEOUT, "the lanes") : code;
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
    code = move_lanes(d, e);
    if (code != ERR_OK)
        return code;
    code =
        grace_forget(d->redis, &d->handle.names, mutex_value(d->mutex), view_alternate(&d->view)->number, e);
    if (code != ERR_OK)
        return code;
    handle_announce(&d->handle);
    return driver_reload(d, e);
}

/* If the driver is killed here, the next one deletes the rest in `reclaim`. */
enum err driver_leave(struct driver *d, struct error *e)
{
    enum err code = forget(d, e);
    return code == ERR_OK ? grace_delete(d->redis, &d->handle.names, e) : code;
}
