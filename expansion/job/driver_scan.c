/* SPDX-License-Identifier: MIT */
/* The step that reads the source into the generation: readers hash rows into a build; this thread controls
 * them, brings what they have to Redis, and records their progress. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/driver_internal.h"
#include "shard/filter/hash.h"

enum {
    LOOK_MS = 20,
    SILENT_US = 500 * 1000,
    PATIENCE_MAX_MS = 24 * 3600 * 1000, /* the server ends a statement then */
    CHECKPOINT_SHARE = 10               /* a checkpoint may take at most a tenth of the time */
};

/* --- what readers do --- */

struct sink {
    struct build *build;
    uint64_t seed;
};

static void on_row(void *arg, unsigned i, const char *key, size_t length)
{
    struct sink *s = arg;
    build_put(s->build, i, hash_key(s->seed, key, length));
}

/* The hashes in the files are lost: the job must not go on as if it had them. */
static enum err files_failed(enum err code, struct error *e)
{
    return code == ERR_IO ? error_prefix(e, ERR_CONFLICT, "the build cannot go on") : code;
}

static enum err on_page(void *arg, unsigned i, struct error *e)
{
    struct sink *s = arg;
    return files_failed(build_page_end(s->build, i, e), e);
}

static bool is_full(const void *arg)
{
    const struct sink *s = arg;
    return build_is_full(s->build);
}

/* --- checkpoints --- */

enum err driver_poll_flush(void *arg, struct error *e)
{
    return driver_look(arg, "", e);
}

static void count_progress(struct driver *d, const struct readers_progress *p)
{
    if (p->rows != d->paced)
        d->progressed_at = clock_mono_us();
    d->record.rows = d->before.rows + p->rows;
    d->record.skipped_null = d->before.skipped_null + p->skipped_null;
    d->pace.rows += p->rows - d->paced;
    d->scan_rows += p->rows - d->paced;
    d->paced = p->rows;
}

/* Record what is left to read, and what was read by the same moment: since the last look pages have ended,
 * many if this thread had to wait for Redis. */
static enum err note_left(struct driver *d, struct error *e)
{
    struct record *r = &d->record;
    struct readers_progress done;
    if (!record_make_room(r, READERS_RANGES_MAX, 0))
        return error_set(e, ERR_NOMEM, "out of memory");
    r->range_count = (unsigned)readers_left(d->readers, &r->next_table, r->ranges, &done);
    count_progress(d, &done);
    return ERR_OK;
}

/* Note what is left first (note_left()), then flush, then record it: so a driver that resumes reads again
 * what was not flushed. */
static enum err flush_and_record(struct driver *d, bool scan_ended, struct error *e)
{
    uint64_t began = clock_mono_us();
    struct record *r = &d->record;
    enum err code = files_failed(driver_checkpoint(d, e), e);
    if (code != ERR_OK)
        return code;
    r->generation = driver_built(d)->number;
    r->made = d->builder->shape.layers[0].token;
    r->scan_ended = scan_ended;
    record_begin(d, false);
    record_checkpoint(d, r, false);
    record_number(d, "partitions", build_partitions(d->build)); /* a short scan reports no progress */
    code = record_write(d, e);
    r->scan_ended = scan_ended && code == ERR_OK; /* false: the next checkpoint writes it again */
    uint64_t now = clock_mono_us(), took = now - began;
    uint64_t pause = d->o->checkpoint_ms * 1000;
    d->checkpoint_at = now + (took * CHECKPOINT_SHARE > pause ? took * CHECKPOINT_SHARE : pause);
    return code;
}

static enum err checkpoint(struct driver *d, bool scan_ended, struct error *e)
{
    enum err code = note_left(d, e);
    return code == ERR_OK ? flush_and_record(d, scan_ended, e) : code;
}

/* --- control of the readers --- */

/* Until the readers have ended, or (*@ended is false) an operator pauses the job. Pages that are under way
 * then may end, so that few rows are read and counted twice. */
static enum err look_after(struct driver *d, bool *ended, struct error *e)
{
    for (bool rests = false;;) {
        enum err ended_with;
        struct readers_progress progress;
        *ended = driver_readers_ended(d, &ended_with, e);
        readers_progress(d->readers, &progress);
        count_progress(d, &progress);
        if (*ended)
            return ended_with;
        bool silent = clock_mono_us() - d->progressed_at > SILENT_US;
        enum err code = driver_look(d, silent ? "an answer of Postgres" : "", e);
        rests |= code == ERR_OK && d->control.paused;
        if (rests && (readers_rest(d->readers) || silent))
            return code;
        driver_pace_readers(d);
        if (code == ERR_OK && (clock_mono_us() > d->checkpoint_at || build_wants_flush(d->build)))
            code = checkpoint(d, false, e);
        if (code != ERR_OK)
            return code;
    }
}

/* --- the step --- */

enum err driver_parts(struct driver *d, struct source *from, struct error *e)
{
    free(d->parts);
    enum err code = source_parts(from, &d->parts, &d->part_count, e);
    if (code == ERR_OK && d->part_count > SOURCE_TABLES_MAX * 64u)
        code = error_set(e, ERR_CONFIG, "the source has %zu partitions; %u are supported", d->part_count,
                         SOURCE_TABLES_MAX * 64u);
    return code;
}

/* By table, where the scan ends, for the readers; NULL: no memory, or there are no ends. */
static char (*ends_of(const struct record *r))[SOURCE_ID_MAX]
{
    char(*ends)[SOURCE_ID_MAX] = calloc(r->marks_taken + 1, sizeof(*ends));
    for (unsigned i = 0; ends != NULL && i < r->marks_taken; i++)
        memcpy(ends[i], r->marks[i].upto, sizeof(ends[i]));
    return ends;
}

static enum err read_all(struct driver *d, struct error *e)
{
    struct record *r = &d->record;
    struct sink sink = {.build = d->build, .seed = d->builder->seed};
    char(*ends)[SOURCE_ID_MAX] = ends_of(r);
    if (ends == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    const struct readers_options calls = {.row = on_row, .page = on_page, .is_full = is_full, .arg = &sink};
    const struct readers_work work = {.blocks = r->blocks,
                                      .next_table = r->next_table,
                                      .tables = r->tables,
                                      .ranges = r->ranges,
                                      .range_count = r->range_count,
                                      .upto = (const char(*)[SOURCE_ID_MAX])ends,
                                      .parts = d->parts};
    d->before.rows = r->rows;
    d->before.skipped_null = r->skipped_null;
    d->paced = 0;
    d->progressed_at = clock_mono_us();
    bool ended = false;
    enum err code = driver_readers_start(d, work, &calls, e);
    if (code == ERR_OK)
        code = look_after(d, &ended, e);
    if (d->readers != NULL && code == ERR_OK)
        code = ended ? checkpoint(d, true, e) : note_left(d, e);
    else if (d->readers != NULL)
        (void)note_left(d, &(struct error){.text = ""}); /* best effort: the step may be retried */
    driver_readers_stop(d);
    free(ends);
    for (unsigned i = 0; i < d->o->readers; i++) { /* a flush waits for a writer in the middle of a page */
        struct error why;
        enum err page = build_page_end(d->build, i, &why);
        if (page != ERR_OK && code == ERR_OK)
            code = files_failed(error_set(e, page, "%s", why.text), e);
    }
    return code == ERR_OK && !ended ? flush_and_record(d, false, e) : code;
}

enum err driver_readers_start(struct driver *d, struct readers_work work, const struct readers_options *calls,
                              struct error *e)
{
    const struct readers_options o = {.source = d->source,
                                      .dsn = work.primary ? "" : d->o->read_dsn,
                                      .barrier = d->barrier,
                                      .count = d->o->readers,
                                      .timeout_ms = d->patience_ms,
                                      .page_ms = d->o->page_ms,
                                      .page_rows = d->o->page_rows,
                                      .timing = d->o->page_timing,
                                      .rows_per_second = driver_pace_limit(d),
                                      .at_once = driver_pace_at_once(d),
                                      .work = work,
                                      .row = calls->row,
                                      .page = calls->page,
                                      .is_full = calls->is_full,
                                      .arg = calls->arg};
    return readers_start(&d->readers, &o, e);
}

void driver_readers_stop(struct driver *d)
{
    readers_stop(d->readers);
    d->readers = NULL;
}

/* Once where it begins, and once where all readers of a step are let in again. */
static void tell_left_out(struct driver *d, bool all_is_read)
{
    struct error why;
    unsigned left_out = readers_left_out(d->readers, &why);
    if (left_out > 0 && !d->readers_left_out)
        log_warn("readers_left_out", "filter=%s step=%s readers=%u left_out=%u code=%s error=%s",
                 log_quote(d->o->filter), step_name(d->step), d->o->readers, left_out,
                 error_name(ERR_UNREACHABLE), log_quote(why.text));
    else if (left_out == 0 && all_is_read && d->readers_left_out)
        log_info("readers_let_in", "filter=%s step=%s readers=%u", log_quote(d->o->filter),
                 step_name(d->step), d->o->readers);
    if (left_out > 0 || all_is_read)
        d->readers_left_out = left_out > 0;
}

bool driver_readers_ended(struct driver *d, enum err *ended_with, struct error *e)
{
    bool ended = readers_ended(d->readers, LOOK_MS, ended_with, e);
    tell_left_out(d, ended && *ended_with == ERR_OK);
    if (ended && *ended_with == ERR_TIMEOUT && d->patience_ms < PATIENCE_MAX_MS)
        d->patience_ms *= 2;
    return ended;
}

static enum err write_scanned(struct driver *d, struct error *e)
{
    double seconds = (double)(clock_mono_us() - d->scan_started) / 1e6;
    double rate = seconds > 0 ? (double)d->scan_rows / seconds : 0;
    log_info(
        "scan_done",
        "filter=%s rows=%" PRIu64 " duration_ms=%.3f rows_per_second=%.0f readers=%u skipped_null=%" PRIu64,
        log_quote(d->o->filter), d->scan_rows, seconds * 1e3, rate, d->o->readers, d->record.skipped_null);
    record_begin(d, false);
    record_decimal(d, "scan_seconds", seconds);
    record_decimal(d, "rate", rate);
    record_number(d, "scan_rows", d->scan_rows);
    record_decimal(d, "eta_seconds", 0);
    return record_write(d, e);
}

static enum err scan_until_paused(struct driver *d, struct error *e)
{
    enum err code = driver_take_build(d, e);
    if (code == ERR_OK)
        code = driver_source(d, e);
    if (code == ERR_OK && d->record.blocks)
        code = driver_parts(d, d->source, e);
    if (code == ERR_OK) /* after an error the record may be another driver's */
        code = driver_unchanged(d, e);
    if (code == ERR_OK && d->record.blocks && d->part_count != d->record.tables)
        code = error_set(e, ERR_CHANGED, "the rights to partitions of `table` changed during the job");
    if (code == ERR_OK)
        code = driver_replayed(d, e);
    if (code == ERR_OK && d->build == NULL)
        d->checkpoint_at = clock_mono_us() + d->o->checkpoint_ms * 1000;
    if (code == ERR_OK)
        code = driver_begin_build(d, e);
    if (code != ERR_OK)
        return driver_source_failed(d, code);
    if (d->scan_started == 0)
        d->scan_started = clock_mono_us();
    return driver_source_failed(d, read_all(d, e));
}

enum err driver_scan(struct driver *d, struct error *e)
{
    if (d->record.scan_ended)
        return ERR_OK;
    enum err code = ERR_OK;
    while (code == ERR_OK && !d->record.scan_ended)
        code = scan_until_paused(d, e);
    return code == ERR_OK ? write_scanned(d, e) : code;
}
