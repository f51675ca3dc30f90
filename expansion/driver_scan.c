/* SPDX-License-Identifier: MIT */
/* The step that reads the source into the generation: readers hash rows into a build, this thread looks after
 * them, uploads what they have, and notes how far they are. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/driver_internal.h"
#include "shard/hash.h"

enum {
    LOOK_MS = 20,
    SILENT_US = 500 * 1000,
    FULL_NAP_US = 5 * 1000,
    COUNTS_PER_SCRIPT = 1500,
    CHECKPOINT_SHARE = 10, /* a checkpoint may take a tenth of the time */
    LOOK_SHARE = 16        /* of a layer's capacity: with less room left it is looked at */
};

/* --- what readers do --- */

struct sink {
    struct build *build;
    struct log_build *log; /* NULL: the filter is none */
    uint64_t seed;
    atomic_bool stop;
};

static void on_row(void *arg, unsigned i, const char *key, size_t length)
{
    struct sink *s = arg;
    struct key_hash h = hash_key(s->seed, key, length);
    if (s->log != NULL)
        log_build_put(s->log, i, h);
    else
        build_put(build_writer(s->build, i), h);
}

/* What was in the files is lost: the job must not go on as if it had it. */
static enum err files_failed(enum err code, struct error *e)
{
    return code == ERR_IO ? error_prefix(e, ERR_CONFLICT, "the build cannot go on") : code;
}

static enum err on_page(void *arg, unsigned i, struct error *e)
{
    struct sink *s = arg;
    enum err code = build_page_end(build_writer(s->build, i), e);
    if (code != ERR_OK)
        return files_failed(code, e);
    while (build_is_full(s->build) && !atomic_load(&s->stop))
        clock_sleep_us(FULL_NAP_US);
    return atomic_load(&s->stop) ? error_set(e, ERR_CANCELLED, "stopped") : ERR_OK;
}

/* --- checkpoints --- */

struct count_writer {
    struct driver *d;
    uint64_t total;
    unsigned pending;
    enum err code;
    struct error *e;
};

static void write_count(void *arg, uint32_t shard, uint64_t n)
{
    struct count_writer *w = arg;
    w->total += n;
    if (w->code != ERR_OK || w->d->view.log) /* the log counts for itself */
        return;
    if (w->pending == 0)
        record_begin(w->d, false);
    record_count(w->d, driver_built(w->d), w->d->layer, shard, n);
    if (++w->pending == COUNTS_PER_SCRIPT) {
        w->code = record_write(w->d, w->e);
        w->pending = 0;
    }
}

enum err driver_poll_flush(void *arg, struct error *e)
{
    return driver_look(arg, "", e);
}

struct build_options driver_build_options(struct driver *d, struct fence_output *output,
                                          const struct generation *g, unsigned layer)
{
    fence_output_init(output, &d->fence, &d->view, g, mutex_token(d->mutex));
    return (struct build_options){.output = &output->output,
                                  .generation = g,
                                  .layer = layer,
                                  .memory = d->o->build_memory,
                                  .writers = d->o->readers,
                                  .spill_dir = d->o->spill_dir,
                                  .spill_bytes = d->o->spill_bytes,
                                  .poll = driver_poll_flush,
                                  .poll_arg = d};
}

static void count_progress(struct driver *d, const struct readers_progress *p)
{
    if (p->rows != d->paced)
        d->progressed_at = clock_mono_us();
    d->record.rows = d->before.rows + p->rows;
    d->record.skipped_null = d->before.skipped_null + p->skipped_null;
    d->record.skipped_empty = d->before.skipped_empty + p->skipped_empty;
    driver_pace_rows(d, p->rows - d->paced);
    d->scan_rows += p->rows - d->paced;
    d->paced = p->rows;
    driver_scanned(d);
}

/* What is left to read, into the record, and what was read by the same moment: pages have ended since the
 * last look, many of them where Redis has let this thread wait. */
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

static enum err flush(struct driver *d, struct error *e)
{
    return d->log_build != NULL ? driver_log_checkpoint(d, e) : build_flush(d->build, e);
}

/* Model: RECORD. What is left is noted first, then flushed, then recorded: a driver that resumes reads again
 * what was not flushed. */
static enum err checkpoint(struct driver *d, bool scan_ended, struct error *e)
{
    uint64_t began = clock_mono_us();
    struct record *r = &d->record;
    enum err code = note_left(d, e);
    if (code == ERR_OK)
        code = files_failed(flush(d, e), e);
    if (code != ERR_OK)
        return code;
    struct count_writer w = {.d = d, .code = ERR_OK, .e = e};
    build_take_counts(d->build, write_count, &w);
    if (w.code == ERR_OK && w.pending > 0)
        w.code = record_write(d, e);
    if (w.code != ERR_OK)
        return w.code;
    code = driver_same_masters(d, e); /* behind the upload */
    if (code != ERR_OK)
        return code;
    r->generation = driver_built(d)->number;
    r->scan_ended = scan_ended;
    r->lineages = d->lineages;
    record_begin(d, false);
    record_checkpoint(d, r, false);
    record_number(d, "partitions", build_partitions(d->build)); /* a short scan reports no progress */
    if (w.total > 0 && !d->view.log)
        record_count(d, driver_built(d), d->layer, -1, w.total);
    code = record_write(d, e);
    r->scan_ended = scan_ended && code == ERR_OK; /* else it is written again */
    uint64_t now = clock_mono_us(), took = now - began;
    uint64_t pause = d->o->checkpoint_ms * 1000;
    d->checkpoint_at = now + (took * CHECKPOINT_SHARE > pause ? took * CHECKPOINT_SHARE : pause);
    return code;
}

/* --- looking after the readers --- */

static void take_progress(struct driver *d)
{
    struct readers_progress p;
    readers_progress(d->readers, &p);
    count_progress(d, &p);
}

static enum err wait_for_rest(struct driver *d, struct error *e)
{
    enum err code = ERR_OK;
    while (code == ERR_OK && !readers_rest(d->readers)) {
        clock_sleep_us(FULL_NAP_US);
        code = build_wants_flush(d->build) ? checkpoint(d, false, e) : driver_look(d, "", e);
    }
    return code;
}

/* The layer is full, the generation has got another one: what is still to be read goes there. */
static enum err change_layer(struct driver *d, struct error *e)
{
    unsigned newest = driver_built(d)->layer_count - 1;
    enum err code = wait_for_rest(d, e);
    if (code == ERR_OK)
        code = checkpoint(d, false, e);
    if (code == ERR_OK)
        code = build_relayer(d->build, newest, e);
    if (code != ERR_OK)
        return code;
    log_info("layer_opened", "filter=%s layer=%u rows=%" PRIu64, log_quote(d->o->filter), newest,
             d->record.rows);
    d->layer = newest;
    readers_go_on(d->readers);
    return ERR_OK;
}

/* Readers are allowed no more rows than the layer has room for: it is looked at again before there are more.
 * Where it has none it gets another one, or, if there is no memory for that, the rate rises. */
static enum err allow(struct driver *d, uint64_t *room, struct error *e)
{
    const struct generation *g = driver_built(d);
    uint64_t capacity = g->layers[d->layer].capacity, items = 0;
    *room = UINT64_MAX;
    if (d->view.log)
        return ERR_OK;
    enum err code = fence_items(&d->fence, g, d->layer, &items, e);
    items += build_pending(d->build);
    *room = items < capacity ? capacity - items : 0;
    if (*room == 0 && d->grown_at > clock_mono_us())
        *room = capacity; /* refused */
    else if (*room == 0)
        d->grown_at = 0;
    return code;
}

static enum err allow_more(struct driver *d, struct error *e)
{
    uint64_t room = readers_room(d->readers);
    if (room > driver_built(d)->layers[d->layer].capacity / LOOK_SHARE)
        return ERR_OK;
    enum err code = allow(d, &room, e);
    if (code == ERR_OK)
        readers_allow(d->readers, room);
    return code;
}

/* For people: why nothing moves. */
static const char *waits_for(const struct driver *d)
{
    bool silent = clock_mono_us() - d->progressed_at > SILENT_US;
    return silent ? "an answer of Postgres" : driver_pace_reason(d);
}

static enum err look_after(struct driver *d, struct error *e)
{
    for (;;) {
        enum err ended_with;
        bool ended = readers_ended(d->readers, LOOK_MS, &ended_with, e);
        take_progress(d);
        if (ended)
            return ended_with;
        enum err code = allow_more(d, e);
        if (code == ERR_OK)
            code = driver_poll(d, waits_for(d), e);
        driver_pace_readers(d);
        if (code == ERR_OK && driver_built(d)->layer_count - 1 > d->layer)
            code = change_layer(d, e);
        if (code == ERR_OK && (clock_mono_us() > d->checkpoint_at || build_wants_flush(d->build)))
            code = checkpoint(d, false, e);
        if (code != ERR_OK)
            return code;
    }
}

/* --- the step --- */

/* A coordinator builds one generation at a time. */
enum err driver_take_build(struct driver *d, struct error *e)
{
    bool taken = false;
    while (!d->built_here && !atomic_compare_exchange_strong(d->o->building, &taken, true)) {
        enum err code = driver_nap(d, "another build of this coordinator", e);
        if (code != ERR_OK)
            return code;
        taken = false;
    }
    d->built_here = true;
    return ERR_OK;
}

void driver_end_build(struct driver *d)
{
    if (d->log_build != NULL)
        log_build_free(d->log_build);
    else
        build_free(d->build);
    d->log_build = NULL;
    d->build = NULL;
    if (d->built_here)
        atomic_store(d->o->building, false);
    d->built_here = false;
}

enum err driver_parts(struct driver *d, struct error *e)
{
    free(d->parts);
    enum err code = source_parts(d->source, &d->parts, &d->part_count, e);
    if (code == ERR_OK && d->part_count > SOURCE_TABLES_MAX * 64u)
        code = error_set(e, ERR_CONFIG, "the source has %zu partitions; %u are supported", d->part_count,
                         SOURCE_TABLES_MAX * 64u);
    return code;
}

static enum err begin_build(struct driver *d, struct error *e)
{
    if (d->build != NULL)
        return ERR_OK;
    d->layer = driver_built(d)->layer_count - 1;
    if (d->view.log) {
        d->checkpoint_at = clock_mono_us() + d->o->checkpoint_ms * 1000;
        return driver_log_build(d, e);
    }
    const struct build_options o = driver_build_options(d, &d->output, driver_built(d), d->layer);
    d->checkpoint_at = clock_mono_us() + d->o->checkpoint_ms * 1000;
    return build_new(&d->build, &o, e);
}

/* Where each table's scan ends, as readers want it; NULL: no memory, or there are no ends. */
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
    struct sink sink = {.build = d->build, .log = d->log_build, .seed = driver_built(d)->seed};
    if (d->view.log)
        sink.seed = d->builder->seed;
    char(*ends)[SOURCE_ID_MAX] = ends_of(r);
    if (ends == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    struct readers_options o =
        driver_readers(d,
                       (struct readers_work){.blocks = r->blocks,
                                             .next_table = r->next_table,
                                             .tables = r->tables,
                                             .ranges = r->ranges,
                                             .range_count = r->range_count,
                                             .upto = (const char(*)[SOURCE_ID_MAX])ends,
                                             .parts = d->parts},
                       on_row, on_page, &sink);
    d->before.rows = r->rows;
    d->before.skipped_null = r->skipped_null;
    d->before.skipped_empty = r->skipped_empty;
    d->paced = 0;
    d->progressed_at = clock_mono_us();
    enum err code = allow(d, &o.room, e);
    if (code == ERR_OK)
        code = readers_start(&d->readers, &o, e);
    if (code == ERR_OK)
        code = look_after(d, e);
    if (d->readers != NULL && code == ERR_OK)
        code = checkpoint(d, true, e);
    else if (d->readers != NULL)
        (void)note_left(d, &(struct error){.text = ""}); /* it may be tried again */
    atomic_store(&sink.stop, true);
    readers_stop(d->readers);
    d->readers = NULL;
    free(ends);
    return code;
}

struct readers_options driver_readers(struct driver *d, struct readers_work work,
                                      void (*row)(void *arg, unsigned i, const char *key, size_t length),
                                      enum err (*page)(void *arg, unsigned i, struct error *e), void *arg)
{
    return (struct readers_options){.source = d->source,
                                    .dsn = work.primary ? "" : d->o->read_dsn,
                                    .count = d->o->readers,
                                    .timeout_ms = d->o->postgres_timeout_ms,
                                    .page_ms = d->o->page_ms,
                                    .page_rows = d->o->page_rows,
                                    .timing = d->o->page_timing,
                                    .rows_per_second = driver_pace_limit(d),
                                    .at_once = driver_pace_at_once(d),
                                    .room = UINT64_MAX,
                                    .work = work,
                                    .row = row,
                                    .page = page,
                                    .arg = arg};
}

static enum err write_scanned(struct driver *d, struct error *e)
{
    const struct record *r = &d->record;
    double seconds = (double)(clock_mono_us() - d->scan_started) / 1e6;
    double rate = seconds > 0 ? (double)d->scan_rows / seconds : 0;
    log_info("scan_done",
             "filter=%s rows=%" PRIu64
             " duration_ms=%.3f rows_per_second=%.0f readers=%u layers=%u skipped_null=%" PRIu64
             " skipped_empty=%" PRIu64,
             log_quote(d->o->filter), d->scan_rows, seconds * 1e3, rate, d->o->readers,
             driver_built(d)->layer_count, r->skipped_null, r->skipped_empty);
    record_begin(d, false);
    record_decimal(d, "scan_seconds", seconds);
    record_decimal(d, "rate", rate);
    record_number(d, "scan_rows", d->scan_rows);
    record_decimal(d, "eta_seconds", 0);
    return record_write(d, e);
}

/* Model: row, into. */
enum err driver_scan(struct driver *d, struct error *e)
{
    if (d->record.scan_ended)
        return ERR_OK;
    enum err code = driver_take_build(d, e);
    if (code == ERR_OK)
        code = driver_source(d, e);
    if (code == ERR_OK && d->record.blocks)
        code = driver_parts(d, e);
    if (code == ERR_OK) /* it may be another driver's record */
        code = driver_unchanged(d, d->record.newest, d->record.source, e);
    if (code == ERR_OK)
        code = driver_replayed(d, e);
    if (code == ERR_OK)
        code = begin_build(d, e);
    if (code != ERR_OK)
        return driver_source_failed(d, code);
    if (d->scan_started == 0)
        d->scan_started = clock_mono_us();
    code = driver_source_failed(d, read_all(d, e));
    return code == ERR_OK ? write_scanned(d, e) : code;
}
