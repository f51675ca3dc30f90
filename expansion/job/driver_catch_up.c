/* SPDX-License-Identifier: MIT */
/* Adds rows that came without BF.ADD: by ids, if these grow, and by the transactions that wrote them,
 * whatever the ids.
 *
 * A round by ids is cheap, so rounds come first, until one finds few rows. Then a sweep examines every row
 * for a write since the last sweep (the first time: since the settle): it finds explicit ids, changed keys,
 * and ids committed out of order. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/driver_internal.h"

enum {
    ROUNDS = 20,
    BATCH = 1000,
    HELD_BYTES = 64 << 10 /* of keys that a reader holds before it hands them over */
};

/* --- keys of readers --- */

/* Readers hand over their keys one at a time, in their own threads. */
struct sink {
    pthread_mutex_t lock; /* who has it may use the driver */
    driver_keys_fn *fn;
    void *arg;
    enum err code; /* no more keys are handed over; the text is in *@e */
    struct error *e;
    struct buffer held[READERS_MAX]; /* of each reader, as of scan_keep_key() */
};

static void hand_over(struct sink *s, struct buffer *held)
{
    const char *keys[BATCH];
    size_t lengths[BATCH], n, at = 0;
    HOLD(&s->lock);
    if (s->code == ERR_OK && buffer_failed(held))
        s->code = error_set(s->e, ERR_NOMEM, "out of memory for keys of the source");
    while (s->code == ERR_OK && (n = scan_kept_keys(held, &at, BATCH, keys, lengths)) > 0)
        s->code = s->fn(s->arg, n, keys, lengths, s->e);
    buffer_clear(held);
}

static void on_row(void *arg, unsigned i, const char *key, size_t length)
{
    struct sink *s = arg;
    scan_keep_key(&s->held[i], key, length);
    if (s->held[i].length >= HELD_BYTES || buffer_failed(&s->held[i]))
        hand_over(s, &s->held[i]);
}

static enum err on_page(void *arg, unsigned i, struct error *e)
{
    struct sink *s = arg;
    hand_over(s, &s->held[i]);
    HOLD(&s->lock);
    return s->code != ERR_OK ? error_set(e, ERR_CANCELLED, "stopped") : ERR_OK;
}

/* The progress of a sweep: it finds few of the rows that it examines. */
static const char *progress(struct driver *d, const struct readers_work *work, char text[RECORD_TEXT_MAX])
{
    struct scan_range left[READERS_RANGES_MAX];
    unsigned next;
    uint64_t all = 0, seen;
    if (!work->blocks)
        return "";
    size_t count = readers_left(d->readers, &next, left, NULL);
    for (unsigned i = 0; i < work->tables; i++)
        all += work->parts[i].blocks;
    seen = all;
    for (unsigned i = next; i < work->tables; i++)
        seen -= work->parts[i].blocks;
    for (size_t i = 0; i < count; i++)
        if (left[i].upto[0] != '\0')
            seen -= strtoull(left[i].upto, NULL, 10) - strtoull(left[i].after, NULL, 10);
    if (all == 0)
        return "";
    (void)snprintf(text, RECORD_TEXT_MAX, "a sweep for rows that came meanwhile: %.0f %% of the table",
                   (double)seen * 100 / (double)all);
    return text;
}

/* Control the readers until they have ended. */
static enum err look_after(struct driver *d, const struct readers_work *work, struct sink *s)
{
    char text[RECORD_TEXT_MAX];
    uint64_t seen = 0;
    for (;;) {
        enum err ended_with;
        struct error why = {""};
        struct readers_progress now;
        bool ended = driver_readers_ended(d, &ended_with, &why);
        readers_progress(d->readers, &now);
        HOLD(&s->lock);
        d->pace.rows += now.rows - seen;
        seen = now.rows;
        if (s->code == ERR_OK && ended && ended_with != ERR_OK)
            s->code = error_set(s->e, ended_with, "%s", why.text);
        if (s->code == ERR_OK && !ended)
            s->code = driver_poll(d, progress(d, work, text), s->e);
        driver_pace_readers(d);
        if (ended || s->code != ERR_OK)
            return s->code;
    }
}

enum err driver_read(struct driver *d, struct readers_work work, driver_keys_fn *fn, void *arg,
                     struct error *e)
{
    struct sink s = {.lock = PTHREAD_MUTEX_INITIALIZER, .fn = fn, .arg = arg, .e = e};
    const struct readers_options calls = {.row = on_row, .page = on_page, .arg = &s};
    enum err code = driver_readers_start(d, work, &calls, e);
    if (code == ERR_OK)
        code = look_after(d, &work, &s);
    driver_readers_stop(d);
    for (unsigned i = 0; i < READERS_MAX; i++)
        buffer_fini(&s.held[i]);
    return code;
}

/* --- for both ways --- */

struct found {
    struct driver *d;
    uint64_t rows, added;
};

static enum err add_found(void *arg, size_t count, const char *const *keys, const size_t *lengths,
                          struct error *e)
{
    struct found *f = arg;
    f->rows += count;
    return driver_add_keys(f->d, count, keys, lengths, &f->added, e);
}

/* What was found is in the shards. */
static enum err write_found(struct driver *d, struct error *e)
{
    record_begin(d, false);
    record_caught_up(d);
    record_text(d, "caught_up_by", "rows");
    return record_write(d, e);
}

/* --- by ids --- */

/* The ranges between the low-water marks and the largest ids, which are noted in @marks; *@moved: there are
 * such ranges. */
static enum err ranges_to_catch(struct driver *d, struct table_mark *marks, struct scan_range *ranges,
                                size_t *count, struct error *e)
{
    enum err code = ERR_OK;
    *count = 0;
    for (unsigned i = 0; i < source_tables(d->source) && code == ERR_OK; i++) {
        const struct table_mark *mark = &d->record.marks[i];
        code = source_last_id(d->source, i, marks[i].low_water, e);
        if (code != ERR_OK || strcmp(marks[i].low_water, mark->low_water) == 0 ||
            marks[i].low_water[0] == '\0')
            continue;
        struct scan_range *r = &ranges[(*count)++];
        *r = (struct scan_range){.table = i};
        memcpy(r->after, mark->low_water, sizeof(r->after));
        memcpy(r->upto, marks[i].low_water, sizeof(r->upto));
    }
    return code;
}

static enum err catch_ranges(struct driver *d, struct scan_range *ranges, size_t count, struct found *f,
                             struct error *e)
{
    if (count == 0)
        return ERR_OK;
    enum err code = driver_settle_now(d, e);
    if (code == ERR_OK)
        code = source_barrier(d->source, d->barrier, e);
    for (size_t first = 0; first < count && code == ERR_OK; first += READERS_RANGES_MAX) {
        size_t n = count - first < READERS_RANGES_MAX ? count - first : READERS_RANGES_MAX;
        code =
            driver_read(d, (struct readers_work){.ranges = ranges + first, .range_count = n, .primary = true},
                        add_found, f, e);
    }
    return code;
}

static enum err move_marks(struct driver *d, const struct table_mark *marks, const struct found *f,
                           struct error *e)
{
    enum err code = driver_checkpoint(d, e); /* first: a step that is repeated reads from the marks on */
    if (code != ERR_OK)
        return code;
    for (unsigned i = 0; i < d->record.marks_taken; i++)
        if (marks[i].low_water[0] != '\0')
            memcpy(d->record.marks[i].low_water, marks[i].low_water, SOURCE_ID_MAX);
    log_info("caught_up", "filter=%s by=ids rows=%" PRIu64 " new=%" PRIu64, log_quote(d->o->filter), f->rows,
             f->added);
    return write_found(d, e);
}

/* Note the largest ids; wait until nothing that was open then can still commit at or below them; add the rows
 * between the low-water marks and them; move the marks. */
static enum err round_by_ids(struct driver *d, uint64_t *rows, struct error *e)
{
    unsigned tables = source_tables(d->source);
    if (!record_make_room(&d->record, 0, tables))
        return error_set(e, ERR_NOMEM, "out of memory");
    struct found f = {.d = d};
    size_t count = 0;
    struct table_mark *marks = calloc(d->record.marks_taken, sizeof(*marks));
    struct scan_range *ranges = calloc(tables, sizeof(*ranges));
    enum err code = marks == NULL || ranges == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                                                    : ranges_to_catch(d, marks, ranges, &count, e);
    if (code == ERR_OK)
        code = catch_ranges(d, ranges, count, &f, e);
    if (code == ERR_OK && count > 0)
        code = move_marks(d, marks, &f, e);
    free(marks);
    free(ranges);
    *rows = f.rows;
    return code;
}

/* --- by transactions --- */

/* All pages see one snapshot: otherwise a row that an UPDATE moves from a block that is still to be read to
 * one that was read, or to another table, would be missed. The blocks are counted after the snapshot was
 * taken, so they hold all of its rows. */
enum err driver_sweep(struct driver *d, const char *horizon, driver_keys_fn *fn, void *arg, struct error *e)
{
    SCOPED(source_drop) struct source *holder = NULL;
    char snapshot[SOURCE_SNAPSHOT_MAX] = "";
    bool primary = d->sweeps_primary;
    enum err code = driver_snapshot(d, primary, &holder, snapshot, e);
    if (code == ERR_OK)
        code = driver_parts(d, holder, e);
    if (code == ERR_OK)
        code = driver_read(d,
                           (struct readers_work){.blocks = true,
                                                 .tables = (unsigned)d->part_count,
                                                 .parts = d->parts,
                                                 .newer = horizon,
                                                 .snapshot = snapshot,
                                                 .primary = primary},
                           fn, arg, e);
    /* Replay on a standby ends statements with old snapshots, and connections may lead to several standbys.
     */
    d->sweeps_primary = step_waits(code);
    return code;
}

/* Note the horizon first: transactions with earlier ids have ended after the settle, so the sweep sees their
 * rows. Rows of later transactions, and of partitions made later, are left to the next sweep. */
static enum err sweep(struct driver *d, struct error *e)
{
    char horizon[SOURCE_HORIZON_MAX], newest[SOURCE_HORIZON_MAX];
    struct found f = {.d = d};
    uint64_t source = 0;
    uint64_t began = clock_mono_us();
    enum err code = source_horizon(d->source, horizon, e);
    if (code == ERR_OK)
        code = driver_settle_now(d, e);
    if (code == ERR_OK)
        code = driver_newest(d, newest, e);
    if (code == ERR_OK)
        code = driver_identity(d, newest, &source, e);
    if (code == ERR_OK) /* up to here; from here on the step's end compares it */
        code = driver_unchanged(d, e);
    if (code == ERR_OK)
        code = driver_sweep(d, d->record.swept, add_found, &f, e);
    if (code == ERR_OK)
        code = driver_checkpoint(d, e);
    if (code != ERR_OK)
        return code;
    memcpy(d->record.swept, horizon, sizeof(horizon));
    memcpy(d->record.newest, newest, sizeof(newest));
    d->record.source = source;
    log_info("caught_up", "filter=%s by=transactions rows=%" PRIu64 " new=%" PRIu64 " duration_ms=%.3f",
             log_quote(d->o->filter), f.rows, f.added, (double)(clock_mono_us() - began) / 1e3);
    return write_found(d, e);
}

/* --- the step --- */

enum err driver_catch_up(struct driver *d, struct error *e)
{
    bool covered = false;
    /* A scan by blocks misses rows that are moved meanwhile: the sweep before the cutover finds them. A
     * follower does not, as it is told of changed keys only. */
    bool moved = d->record.blocks && d->step == STEP_CATCH_UP;
    enum err code = driver_source(d, e);
    if (code == ERR_OK && !moved)
        code = driver_followed(d, &covered, e);
    if (covered) {
        record_begin(d, false);
        record_text(d, "caught_up_by", "follower");
        return driver_source_failed(d, record_write(d, e));
    }
    bool more = code == ERR_OK && source_id_is_integer(d->source);
    for (int round = 0; round < ROUNDS && code == ERR_OK && more; round++) {
        uint64_t rows = 0;
        code = round_by_ids(d, &rows, e);
        more = rows > d->o->page_rows;
    }
    if (code == ERR_OK && (d->o->sweep || moved) && d->record.swept[0] != '\0')
        code = sweep(d, e);
    return driver_source_failed(d, code);
}
