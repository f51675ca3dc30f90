/* SPDX-License-Identifier: MIT */
/* A job of a filter that is a log: what its steps do to the view, through a builder (shard/view/build.h).
 *
 * Before the cutover rows go into the builder's shards; nobody else reads or writes these. After it they are
 * added as any caller adds keys. Callers do nothing differently meanwhile, so no step waits for them.
 *
 * Possible failure modes are: a lane or a shard is not what it was when the build began (the builder is
 * `anew`: ERR_CHANGED, and the job goes back to `settle`, as for a source that changed); another driver
 * builds (ERR_FENCED); a lane waits for a roll call (ERR_TIMEOUT: the step is tried again). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/driver_internal.h"
#include "migrate/log_check.h"
#include "shard/request/key_client.h"
#include "shard/view/grace.h"
#include "shard/view/roll.h"
#include "shard/view/view_load.h"

/* What the builder has refused. */
static enum err failed(const struct driver *d, enum err code, struct error *e)
{
    if (code == ERR_LOST && d->builder != NULL && d->builder->anew)
        return error_prefix(e, ERR_CHANGED, "the build begins anew");
    return code;
}

enum err driver_log_reload(struct driver *d, struct error *e)
{
    uint64_t built = d->builder == NULL ? 0 : d->builder->shape.number;
    enum err code = fence_load(&d->fence, &d->next, e);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? error_set(e, ERR_FENCED, "the view is no longer in Redis") : code;
    if (d->next.incarnation != d->view.incarnation)
        return error_set(e, ERR_FENCED, "the filter was deleted, and made anew");
    if (built != 0 && d->next.slot[0].number != built && d->next.slot[1].number != built)
        return error_set(e, ERR_FENCED, "generation %" PRIu64 " is not built any more", built);
    d->view = d->next;
    return ERR_OK;
}

static void end_builder(struct driver *d)
{
    driver_end_build(d);
    builder_free(d->builder);
    d->builder = NULL;
}

void driver_log_end(struct driver *d)
{
    end_builder(d);
    key_client_free(d->client);
    free(d->log_view);
}

static enum err make_builder(struct driver *d, struct error *e)
{
    return d->builder != NULL ? ERR_OK : builder_new(&d->builder, d->link, &d->fence.names, e);
}

/* A generation that is not built yet is gone on with. */
static enum err resume(struct driver *d, struct error *e)
{
    struct buffer rows = {0};
    enum err code = make_builder(d, e);
    if (code == ERR_OK)
        code = builder_resume(d->builder, &rows, e);
    buffer_fini(&rows); /* the job's record has them, or earlier ones */
    if (code == ERR_OK && d->builder->anew)
        d->record.generation = 0;
    return code;
}

enum err driver_log_resume(struct driver *d, struct error *e)
{
    enum err code = grace_delete(d->link, &d->fence.names, e);
    if (code == ERR_OK)
        code = driver_log_reload(d, e);
    if (code == ERR_OK && d->view.phase == PHASE_BUILDING && !driver_built(d)->built)
        code = resume(d, e);
    return code;
}

static void tell_view(const struct driver *d)
{
    log_info("view_changed", "filter=%s epoch=%" PRIu64 " phase=%s generation=%" PRIu64 " step=%s reason=%s",
             log_quote(d->o->filter), d->view.epoch, phase_row(d->view.phase)->name,
             view_current(&d->view)->number, step_name(d->step), log_quote(d->record.reason));
}

/* --- to a new generation in the view --- */

enum err driver_log_open(struct driver *d, struct error *e)
{
    enum err code = driver_log_reload(d, e);
    if (code == ERR_OK && d->view.phase == PHASE_BUILDING) /* tried before, and the reply was lost */
        return resume(d, e);
    if (code == ERR_OK)
        code = make_builder(d, e);
    if (code != ERR_OK)
        return code;
    driver_fill_generation(d);
    code = builder_begin(d->builder, &d->next.slot[1 - d->view.current], e);
    if (code == ERR_OK)
        code = driver_log_reload(d, e);
    if (code != ERR_OK)
        return code;
    d->record.generation = d->builder->shape.number;
    tell_view(d);
    return driver_record_opened(d, e);
}

/* S0: before the settle, which has all rows of transactions that are open now. */
enum err driver_log_begin(struct driver *d, struct error *e)
{
    driver_end_build(d);
    if (d->builder == NULL) /* it was in use before a rollback, and is not built again */
        return error_set(e, ERR_CONFLICT, "generation %" PRIu64 " does not match its source any more",
                         driver_built(d)->number);
    enum err code = builder_start(d->builder, e);
    return code == ERR_LOST ? error_prefix(e, ERR_TIMEOUT, "the log") : code;
}

/* --- keys --- */

enum err driver_log_build(struct driver *d, struct error *e)
{
    if (d->log_build != NULL)
        return ERR_OK;
    enum err code = driver_take_build(d, e);
    const struct log_build_options o = {.builder = d->builder,
                                        .memory = d->o->build_memory,
                                        .writers = d->o->readers,
                                        .spill_dir = d->o->spill_dir,
                                        .spill_bytes = d->o->spill_bytes,
                                        .poll = driver_poll_flush,
                                        .poll_arg = d};
    if (code == ERR_OK)
        code = log_build_new(&d->log_build, &o, e);
    if (code == ERR_OK)
        d->build = d->log_build->build;
    return code;
}

enum err driver_log_checkpoint(struct driver *d, struct error *e)
{
    return d->log_build == NULL ? ERR_OK : failed(d, log_build_checkpoint(d->log_build, "", 0, e), e);
}

/* Before the cutover, unless the generation was in use already. */
static bool is_apart(const struct driver *d)
{
    return d->builder != NULL && d->view.phase == PHASE_BUILDING;
}

/* This process answers from the generation that the view reads. */
static bool is_read_here(struct driver *d, struct log_status *status)
{
    bool here = false;
    if (!filters_status(d->o->logs, d->o->filter, d->o->filter_length, status) ||
        status->incarnation != d->view.incarnation)
        return false;
    for (unsigned i = 0; i < 2; i++)
        here |=
            status->generation[i].answers && status->generation[i].number == view_current(&d->view)->number;
    return here;
}

static enum err open_client(struct driver *d, struct error *e)
{
    const struct driver_options *o = d->o;
    if (d->client == NULL)
        d->client = key_client_new(o->logs, o->nodes, o->redis_timeout_ms);
    return d->client == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                             : key_client_open(d->client, o->filter, o->filter_length, e);
}

/* After a cutover a process answers from the generation before until it has the next one in memory: what is
 * asked of that is not asked before. */
static enum err await_generation(struct driver *d, struct error *e)
{
    struct log_status *status = malloc(sizeof(*status));
    enum err code = ERR_OK;
    if (status == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (uint64_t looked_at = 0; code == ERR_OK && !is_read_here(d, status);) {
        if (driver_is_degraded(d, &looked_at)) { /* shards may be lost: a new generation heals it */
            code = error_set(e, ERR_LOST, "the filter is degraded, and this coordinator has not loaded it");
            break;
        }
        filters_look(d->o->logs, d->o->filter, d->o->filter_length);
        code = driver_nap(d, "this coordinator to load the new generation", e);
        if (code == ERR_OK)
            code = open_client(d, e); /* it may have held a filter of that name that was lost */
    }
    free(status);
    return code;
}

static enum err ask_client(struct driver *d, bool adds, size_t count, const char *const *keys,
                           const size_t *lengths, uint8_t *answers, struct error *e)
{
    enum err code = open_client(d, e);
    if (code == ERR_OK)
        code = await_generation(d, e);
    return code == ERR_OK ? key_client_ask(d->client, adds, keys, lengths, count, answers, e) : code;
}

enum err driver_log_add(struct driver *d, size_t count, const char *const *keys, const size_t *lengths,
                        uint64_t *added, struct error *e)
{
    if (is_apart(d)) {
        enum err code = driver_log_build(d, e);
        for (size_t i = 0; i < count && code == ERR_OK; i++)
            log_build_put(d->log_build, 0, hash_key(d->builder->seed, keys[i], lengths[i]));
        return code == ERR_OK ? log_build_page_end(d->log_build, 0, e) : code;
    }
    uint8_t *answers = malloc(count + 1);
    if (answers == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = ask_client(d, true, count, keys, lengths, answers, e);
    for (size_t i = 0; i < count && code == ERR_OK; i++)
        *added += answers[i] == KEY_ADDED;
    free(answers);
    return code;
}

static enum err check_apart(struct driver *d, size_t count, const char *const *keys, const size_t *lengths,
                            uint8_t *found, struct error *e)
{
    struct key_hash *hashes = malloc((count + 1) * sizeof(*hashes));
    if (hashes == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < count; i++)
        hashes[i] = hash_key(d->builder->seed, keys[i], lengths[i]);
    enum err code = log_check(d->builder, hashes, count, found, e);
    free(hashes);
    return failed(d, code, e);
}

enum err driver_check_keys(struct driver *d, size_t count, const char *const *keys, const size_t *lengths,
                           uint8_t *found, struct error *e)
{
    if (!d->view.log)
        return fence_check(&d->fence, &d->view, driver_built(d), count, keys, lengths, found, e);
    if (is_apart(d))
        return check_apart(d, count, keys, lengths, found, e);
    enum err code = ask_client(d, false, count, keys, lengths, found, e);
    for (size_t i = 0; i < count && code == ERR_OK; i++)
        found[i] = found[i] != KEY_ABSENT;
    return code;
}

enum err driver_items(struct driver *d, uint64_t *items, struct error *e)
{
    if (!d->view.log || !is_apart(d))
        return fence_all_items(&d->fence, driver_built(d), items, e);
    *items = d->builder->keys;
    return ERR_OK;
}

enum err driver_log_input(struct driver *d, unsigned slot, struct log_input *in, uint64_t *seed,
                          struct error *e)
{
    if (is_apart(d) && slot == driver_built_slot(d)) {
        *seed = d->builder->seed;
        return log_input_init_build(in, d->builder, e);
    }
    if (d->log_view == NULL && (d->log_view = malloc(sizeof(*d->log_view))) == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = log_view_load(d->link, &d->fence.names, d->log_view, e);
    if (code == ERR_OK)
        code = log_input_init(in, d->link, &d->fence.names, d->log_view, slot, e);
    if (code == ERR_OK)
        *seed = d->log_view->seed;
    return code;
}

/* --- the switch, and back --- */

enum err driver_log_cutover(struct driver *d, struct error *e)
{
    enum err code = driver_log_reload(d, e);
    if (code != ERR_OK || d->view.phase != PHASE_BUILDING)
        return code;
    uint64_t number = driver_built(d)->number, began = clock_mono_us();
    code = driver_requests(d, e);
    if (code == ERR_OK && d->builder == NULL)
        code = grace_switch(d->link, &d->fence.names, number, e);
    else if (code == ERR_OK && (code = driver_log_build(d, e)) == ERR_OK)
        code = failed(d, log_build_cutover(d->log_build, true, e), e);
    if (code != ERR_OK)
        return code;
    end_builder(d);
    d->cutover_us = clock_mono_us() - began;
    fence_announce(&d->fence); /* who is not asked reads no lane, and would go on with the old one */
    code = driver_log_reload(d, e);
    if (code == ERR_OK)
        code = open_client(d, e);
    if (code == ERR_OK)
        code = await_generation(d, e);
    tell_view(d);
    return code;
}

enum err driver_log_rollback(struct driver *d, struct error *e)
{
    enum err code = driver_log_reload(d, e);
    if (code != ERR_OK || d->view.phase != PHASE_SWITCHED)
        return code;
    code = grace_switch(d->link, &d->fence.names, view_alternate(&d->view)->number, e);
    if (code != ERR_OK)
        return code;
    fence_announce(&d->fence);
    return driver_log_reload(d, e);
}

/* Nodes that the filter leaves may be taken away when the job has ended: no lane stays there. */
static enum err move_lanes(struct driver *d, struct error *e)
{
    enum { TRIES = 8 /* whoever meets a lane that is closed replaces it, too */ };
    struct roll roll;
    uint8_t writer[LOG_WRITER_BYTES];
    const uint64_t id[] = {random_u64(), random_u64()};
    memcpy(writer, id, sizeof(writer));
    if (d->log_view == NULL && (d->log_view = malloc(sizeof(*d->log_view))) == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    roll_init(&roll, d->link, &d->fence.names, writer);
    enum err code = ERR_FENCED;
    for (unsigned i = 0; i < TRIES && code == ERR_FENCED; i++)
        if ((code = log_view_load(d->link, &d->fence.names, d->log_view, e)) == ERR_OK)
            code = roll_move_lanes(&roll, d->log_view, e);
    roll_fini(&roll);
    return code == ERR_FENCED ? error_prefix(e, ERR_TIMEOUT, "the lanes") : code;
}

/* The generation that is not read leaves the view; its shards are deleted by driver_log_clear(). */
enum err driver_log_leave(struct driver *d, struct error *e)
{
    enum err code = driver_log_reload(d, e);
    if (code != ERR_OK || view_alternate(&d->view) == NULL)
        return code;
    end_builder(d);
    code = move_lanes(d, e);
    if (code != ERR_OK)
        return code;
    code = grace_forget(d->link, &d->fence.names, view_alternate(&d->view)->number, NULL, e);
    if (code != ERR_OK)
        return code;
    fence_announce(&d->fence);
    return driver_log_reload(d, e);
}

enum err driver_log_clear(struct driver *d, struct error *e)
{
    return grace_delete(d->link, &d->fence.names, e);
}
