/* SPDX-License-Identifier: MIT */
/* Keys to and from the job's generation. Before the cutover they go into the builder's shards
 * (shard/generations/build.h), which no other process reads or writes. After it they are added and looked up
 * as any caller's. Callers act the same throughout, so no step waits for them.
 *
 * Possible failure modes are: a lane or a shard has changed since the build began (the builder's `anew`:
 * ERR_CHANGED, and the job goes back to `settle`, as after a change of the source); another driver builds
 * (ERR_FENCED); a lane or a node of the shards is in an era that the view has not accepted yet (ERR_TIMEOUT:
 * the step is retried). */
#include <inttypes.h>
#include <stdlib.h>
#include "base/clock.h"
#include "expansion/job/driver_internal.h"
#include "migrate/verify/log_check.h"
#include "shard/control/key_client.h"
#include "shard/view/view_load.h"

enum { LOOK_US = 1000 * 1000 };

/* --- the build --- */

enum err driver_build_failed(const struct driver *d, enum err code, struct error *e)
{
    if (fold_is_lost(code) && d->builder != NULL && d->builder->anew)
        return error_prefix(e, ERR_CHANGED, "the build starts over");
    return code;
}

/* True before the cutover, unless the generation was in use already. */
static bool is_apart(const struct driver *d)
{
    return d->builder != NULL && d->view.phase == PHASE_BUILDING;
}

static enum err open_client(struct driver *d, struct error *e)
{
    const struct driver_options *o = d->o;
    return key_client_open(&d->client, o->logs, o->nodes, o->redis_timeout_ms, o->filter, o->filter_length,
                           e);
}

/* Nodes whose ids the view does not accept are for the filter's controls, and there may be none: nobody has
 * asked for the filter since this process began. */
static void open_control(struct driver *d)
{
    struct error ignored;
    enum err code = open_client(d, &ignored);
    (void)code; /* it is tried again */
    filters_look(d->o->logs, d->o->filter, d->o->filter_length);
}

enum err driver_input_failed(struct driver *d, enum err code, struct error *e)
{
    if (code != ERR_FENCED)
        return code;
    if (!is_apart(d)) {
        open_control(d);
        return error_prefix(e, ERR_TIMEOUT, "the shards");
    }
    d->builder->anew = true;
    return error_prefix(e, ERR_CHANGED, "the build starts over");
}

/* A coordinator builds one generation at a time. */
enum err driver_take_build(struct driver *d, struct error *e)
{
    enum err code = driver_poll(d, NULL, e);
    while (code == ERR_OK && !d->built_here) {
        d->built_here = !atomic_exchange(d->o->building, true);
        if (!d->built_here)
            code = driver_nap(d, "another build of this coordinator", e);
    }
    return code;
}

void driver_end_build(struct driver *d)
{
    build_free(d->build);
    d->build = NULL;
    if (d->built_here)
        atomic_store(d->o->building, false);
    d->built_here = false;
}

void driver_end_builder(struct driver *d)
{
    driver_end_build(d);
    builder_free(d->builder);
    d->builder = NULL;
}

enum err driver_begin(struct driver *d, struct error *e)
{
    driver_end_build(d);
    if (d->builder == NULL) /* it was in use before a rollback, and is not built again */
        return error_set(e, ERR_CONFLICT, "generation %" PRIu64 " does not match its source any more",
                         driver_built(d)->number);
    enum err code = builder_start(d->builder, e);
    if (code == ERR_LOST)
        open_control(d);
    return code == ERR_LOST ? error_prefix(e, ERR_TIMEOUT, "the log") : code;
}

struct build_options driver_build_options(struct driver *d)
{
    return (struct build_options){.memory = d->o->build_memory,
                                  .writers = d->o->readers,
                                  .spill_dir = d->o->spill_dir,
                                  .spill_bytes = d->o->spill_bytes,
                                  .poll = {driver_poll_flush, d}};
}

enum err driver_begin_build(struct driver *d, struct error *e)
{
    if (d->build != NULL)
        return ERR_OK;
    enum err code = driver_take_build(d, e);
    const struct build_options o = driver_build_options(d);
    return code == ERR_OK ? build_new(&d->build, d->builder, &o, e) : code;
}

enum err driver_checkpoint(struct driver *d, struct error *e)
{
    return d->build == NULL ? ERR_OK : driver_build_failed(d, build_checkpoint(d->build, "", 0, e), e);
}

/* --- keys --- */

/* True if this process answers from the generation that the view reads. */
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

/* After a cutover a process answers from the old generation until it has the new one in memory. So wait
 * before keys are looked up in the new one, but not for one that the view does not read any more: the
 * metadata node may have gone back. */
enum err driver_await_generation(struct driver *d, struct error *e)
{
    struct log_status status;
    enum err code = open_client(d, e);
    for (uint64_t looked_at = 0, now; code == ERR_OK && !is_read_here(d, &status);) {
        filters_look(d->o->logs, d->o->filter, d->o->filter_length);
        code = driver_nap(d, "this coordinator to load the new generation", e);
        now = clock_mono_us();
        if (code == ERR_OK && now - looked_at >= LOOK_US) {
            looked_at = now;
            code = driver_reload(d, e);
            if (code == ERR_OK && d->view.degraded && view_current(&d->view)->built) /* a build heals that */
                code =
                    error_set(e, ERR_LOST, "the filter is degraded, and this coordinator has not loaded it");
        }
        if (code == ERR_OK)
            code = open_client(d, e); /* it may have had an earlier filter of this name */
    }
    return code;
}

static enum err ask_client(struct driver *d, bool adds, size_t count, const char *const *keys,
                           const size_t *lengths, uint8_t *answers, struct error *e)
{
    enum err code = driver_await_generation(d, e);
    return code == ERR_OK ? key_client_ask(d->client, adds, keys, lengths, count, answers, e) : code;
}

enum err driver_add_keys(struct driver *d, size_t count, const char *const *keys, const size_t *lengths,
                         uint64_t *added, struct error *e)
{
    if (is_apart(d)) {
        enum err code = driver_begin_build(d, e);
        for (size_t i = 0; i < count && code == ERR_OK; i++)
            build_put(d->build, 0, hash_key(d->builder->seed, keys[i], lengths[i]));
        return code == ERR_OK ? build_page_end(d->build, 0, e) : code;
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
    return driver_build_failed(d, code, e);
}

enum err driver_check_keys(struct driver *d, size_t count, const char *const *keys, const size_t *lengths,
                           uint8_t *found, struct error *e)
{
    if (is_apart(d))
        return check_apart(d, count, keys, lengths, found, e);
    enum err code = ask_client(d, false, count, keys, lengths, found, e);
    for (size_t i = 0; i < count && code == ERR_OK; i++)
        found[i] = found[i] != KEY_ABSENT;
    return code;
}

uint64_t driver_items(const struct driver *d)
{
    return is_apart(d) ? d->builder->keys : d->view.keys[driver_built_slot(d)];
}

enum err driver_input(struct driver *d, struct log_input *in, uint64_t *seed, struct error *e)
{
    if (is_apart(d)) {
        *seed = d->builder->seed;
        return log_input_init_build(in, d->builder, e);
    }
    enum err code = log_view_load(d->redis, &d->handle.names, &d->log_view, e);
    if (code == ERR_OK)
        code = log_input_init(in, d->redis, &d->handle.names, &d->log_view, driver_built_slot(d), e);
    if (code == ERR_OK)
        *seed = d->log_view.seed;
    return code;
}
