/* SPDX-License-Identifier: MIT */
/* The job's connections to the source, and the wait for open transactions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "expansion/job/driver_internal.h"
#include "expansion/record/timelines.h"
#include "migrate/source/transaction_wait.h"

enum { SETTLE_POLL_US = 50 * 1000 };

/* Lets a wait for Postgres end when the job must end. Where it is tried again, the record has why. */
static enum err watch(void *arg, struct error *e)
{
    struct driver *d = arg;
    return driver_look(d, d->tries_again ? NULL : "an answer of Postgres", e);
}

/* A connection of its own that the job watches. */
static enum err open_watched(struct driver *d, struct source **out, struct error *e)
{
    struct source_config config = d->o->source;
    config.application = "twinbloom job";
    config.watch = (struct source_watch){watch, d};
    enum err code = source_open(out, &config, d->o->postgres_timeout_ms, e);
    d->tries_again = d->tries_again && code != ERR_OK;
    return code;
}

/* The history of the server that @s leads to, which must not be a former primary. */
static enum err read_history(struct driver *d, struct source *s, struct source_history *out, struct error *e)
{
    enum err code = source_history(s, out, e);
    return code == ERR_OK ? timelines_look(d->redis, d->o->prefix, out, false, e) : code;
}

/* What the configuration's names stand for now, and the history of the server that `dsn` leads to now. */
static enum err identify(struct driver *d, const char *newest, uint64_t *names,
                         struct source_history *history, struct error *e)
{
    SCOPED(source_drop) struct source *fresh = NULL;
    enum err code = open_watched(d, &fresh, e);
    /* A sweep finds rows of a table that was rewritten. But positions in its old file are not valid in the
     * new one. */
    if (code == ERR_OK)
        code = source_identity(fresh, d->o->scan_blocks || !d->o->sweep, newest, names, e);
    return code == ERR_OK ? read_history(d, fresh, history, e) : code;
}

enum err driver_identity(struct driver *d, const char *newest, uint64_t *out, struct error *e)
{
    struct source_history history;
    enum err code = identify(d, newest, out, &history, e);
    *out ^= d->history.hash;
    return code;
}

enum err driver_newest(struct driver *d, char out[SOURCE_HORIZON_MAX], struct error *e)
{
    out[0] = '\0';
    /* When reading by blocks, positions are counted by partition. */
    return d->o->sweep && !d->o->scan_blocks ? source_horizon(d->source, out, e) : ERR_OK;
}

/* The next use opens the source again, wherever that leads. */
static enum err changed(struct driver *d, struct error *e)
{
    source_drop(&d->source);
    d->history = (struct source_history){.hash = 0};
    return error_set(
        e, ERR_CHANGED,
        "`table` changed during the job: another table, other columns, partitions or files, another `key` or "
        "`where`, or another primary or database");
}

enum err driver_unchanged(struct driver *d, struct error *e)
{
    uint64_t names = 0, before = d->history.hash;
    struct source_history now;
    enum err code = identify(d, d->record.newest, &names, &now, e);
    if (code != ERR_OK)
        return code;
    bool led_there = before == 0 || before == now.hash;
    return led_there && (names ^ now.hash) == d->record.source ? ERR_OK : changed(d, e);
}

/* Each time that it is opened the source may lead to another server. */
static enum err compare_history(struct driver *d, struct error *e)
{
    uint64_t before = d->history.hash;
    struct source_history now;
    enum err code = read_history(d, d->source, &now, e);
    if (code != ERR_OK)
        return code;
    d->history = now;
    return before != 0 && before != now.hash && driver_relies_on_source(d) ? changed(d, e) : ERR_OK;
}

enum err driver_source(struct driver *d, struct error *e)
{
    if (d->source != NULL)
        return ERR_OK;
    if (!d->o->sourced)
        return error_set(e, ERR_CONFIG,
                         "the configuration of this coordinator names no table to build filter '%s' from",
                         d->o->filter);
    enum err code = open_watched(d, &d->source, e);
    if (code == ERR_OK)
        code = source_check(d->source, e);
    if (code == ERR_OK)
        code = compare_history(d, e);
    if (code == ERR_OK)
        driver_pace_begin(d);
    else
        source_drop(&d->source);
    return code;
}

void driver_source_leave(struct driver *d)
{
    driver_pace_end(d);
    source_drop(&d->source);
}

enum err driver_source_failed(struct driver *d, enum err code)
{
    if (step_waits(code))
        source_drop(&d->source);
    return code;
}

/* --- settle --- */

static void describe(const struct transaction_wait_blocker *b, size_t waiting, char *out, size_t size)
{
    if (waiting == 0)
        (void)snprintf(out, size, "the server to write its log to disk");
    else if (b->pid != 0 && b->age_seconds < 0)
        (void)snprintf(out, size,
                       "%zu open transaction(s), of pid %d: for more GRANT pg_read_all_stats to the role",
                       waiting, b->pid);
    else if (b->pid != 0)
        (void)snprintf(out, size, "%zu open transaction(s); the oldest: pid %d (%s), %.0f s, %s", waiting,
                       b->pid, b->application, b->age_seconds, b->query);
    else
        (void)snprintf(out, size, "%zu prepared transaction(s); the oldest: %s, %.0f s", waiting, b->query,
                       b->age_seconds);
}

static enum err settle_wait(struct driver *d, struct transaction_wait *settle, struct error *e)
{
    uint64_t deadline = clock_mono_us() + d->o->settle_timeout_ms * 1000;
    for (;;) {
        bool done;
        struct transaction_wait_blocker blocker;
        size_t waiting;
        char text[RECORD_TEXT_MAX] = "";
        enum err code = transaction_wait_poll(settle, &done, &blocker, 1, &waiting, e);
        if (code != ERR_OK || done)
            return code;
        describe(&blocker, waiting, text, sizeof(text));
        if (clock_mono_us() > deadline)
            return error_set(e, ERR_CONFLICT,
                             "still waiting after %" PRIu64
                             " s for %s; end it (SELECT pg_terminate_backend(pid), ROLLBACK PREPARED) or "
                             "raise transaction_timeout",
                             d->o->settle_timeout_ms / 1000, text);
        code = driver_poll(d, text, e);
        if (code != ERR_OK)
            return code;
        clock_sleep_us(SETTLE_POLL_US);
    }
}

enum err driver_settle_now(struct driver *d, struct error *e)
{
    struct transaction_wait *settle;
    enum err code = transaction_wait_begin(&settle, d->source, e);
    if (code != ERR_OK)
        return code;
    code = settle_wait(d, settle, e);
    transaction_wait_free(settle);
    return code;
}

/* Open a source on the server that rows are read from, and wait until that shows all that the primary has
 * committed by now. `dsn`, too, may lead to several servers. The caller closes *@out, after an error, too. */
static enum err open_replayed(struct driver *d, bool primary, struct source **out, struct error *e)
{
    struct source_replay replay = {.there = false};
    const struct source_watch w = {watch, d};
    const char *dsn = primary ? "" : d->o->read_dsn;
    enum err code = source_barrier(d->source, d->barrier, e);
    if (code == ERR_OK)
        code = source_open_another(out, d->source, dsn, "twinbloom job", w, e);
    uint64_t deadline = clock_mono_us() + d->o->settle_timeout_ms * 1000;
    while (code == ERR_OK && !replay.there) {
        code = source_has_replayed(*out, d->barrier, &replay, e);
        if (code == ERR_OK && (replay.foreign || (!replay.there && clock_mono_us() > deadline)))
            code = readers_not_replayed(dsn, &replay, e);
        if (code == ERR_OK && !replay.there)
            code = driver_nap(d, "the standby to replay", e);
    }
    return code;
}

enum err driver_replayed(struct driver *d, struct error *e)
{
    SCOPED(source_drop) struct source *standby = NULL;
    return d->o->read_dsn[0] == '\0' ? source_barrier(d->source, d->barrier, e)
                                     : open_replayed(d, false, &standby, e);
}

enum err driver_snapshot(struct driver *d, bool primary, struct source **out,
                         char snapshot[SOURCE_SNAPSHOT_MAX], struct error *e)
{
    enum err code = open_replayed(d, primary, out, e);
    return code == ERR_OK ? source_snapshot_take(*out, snapshot, e) : code;
}

/* --- the step --- */

enum mark { LOW_WATER, UPTO };

static enum err note_marks(struct driver *d, enum mark which, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < source_tables(d->source) && code == ERR_OK; i++) {
        struct table_mark *mark = &d->record.marks[i];
        code = source_last_id(d->source, i, which == LOW_WATER ? mark->low_water : mark->upto, e);
    }
    return code;
}

/* Record which ranges the scan reads, and in which order. */
static enum err note_work(struct driver *d, struct error *e)
{
    struct record *r = &d->record;
    r->blocks = d->o->scan_blocks;
    r->tables = source_tables(d->source);
    r->tables_hash = source_tables_hash(d->source);
    r->keys_hash = source_keys_hash(d->source);
    if (!r->blocks)
        return ERR_OK;
    enum err code = driver_parts(d, d->source, e);
    r->tables = (unsigned)d->part_count;
    return code;
}

/* low_water is read before the settle: an id at or below it was taken by a transaction that had ended or was
 * open then, so after the settle no row at or below it can still come from the sequence. upto is read after
 * the settle: it covers the rows of every transaction that was open when the lanes' ends were noted, and so
 * every key that was acknowledged before. Everything later, whatever its id, has a transaction id from the
 * horizon on. */
enum err driver_settle(struct driver *d, struct error *e)
{
    struct record *r = &d->record;
    source_drop(&d->source); /* the names may stand for other tables now */
    enum err code = driver_source(d, e);
    if (code == ERR_OK)
        code = driver_identity(d, "", &r->source, e);
    if (code != ERR_OK)
        return code;
    bool integer = source_id_is_integer(d->source);
    free(r->marks);
    r->marks = NULL;
    r->marks_taken = r->range_count = r->next_table = 0;
    if (!record_make_room(r, 0, source_tables(d->source)))
        return error_set(e, ERR_NOMEM, "out of memory");
    code = driver_await_follower(d, e);
    if (code == ERR_OK)
        code = source_horizon(d->source, r->horizon, e);
    if (code == ERR_OK && integer)
        code = note_marks(d, LOW_WATER, e);
    if (code == ERR_OK)
        code = driver_settle_now(d, e);
    if (code == ERR_OK)
        code = driver_newest(d, r->newest, e);
    if (code == ERR_OK && integer)
        code = note_marks(d, UPTO, e);
    if (code == ERR_OK)
        code = note_work(d, e);
    if (code == ERR_OK)
        code = source_rows_estimate(d->source, &r->rows_total, e);
    if (code != ERR_OK)
        return driver_source_failed(d, code);
    memcpy(r->swept, r->horizon, sizeof(r->swept));
    r->system = d->history.system;
    r->generation = driver_built(d)->number;
    r->made = d->builder->shape.layers[0].token;
    r->settled = true;
    r->scan_ended = false;
    r->rows = r->skipped_null = 0;
    record_begin(d, false);
    record_checkpoint(d, r, true);
    return record_write(d, e);
}
