/* SPDX-License-Identifier: MIT */
/* The steps of a job that read the source. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/driver_internal.h"
#include "migrate/settle.h"

enum {
    SETTLE_POLL_US = 50 * 1000,
    COUNTS_PER_SCRIPT = 1500,
    CATCH_UP_ROUNDS = 20,
    ROWS_BETWEEN_TAKES = 1000,
    ASIDE_MS = 2000 /* for questions that the job can do without */
};

/* Ends a wait for Postgres when the job must end. */
static enum err watch(void *arg, struct error *e)
{
    return driver_watch(arg, "an answer of Postgres", e);
}

enum err driver_second_source(struct driver *d, struct source **out, struct error *e)
{
    struct source_config config = d->o->source;
    config.application = "twinbloom throttle";
    unsigned timeout = d->o->postgres_timeout_ms < ASIDE_MS ? d->o->postgres_timeout_ms : ASIDE_MS;
    return source_open(out, &config, timeout, e);
}

enum err driver_source(struct driver *d, struct error *e)
{
    if (d->source != NULL)
        return ERR_OK;
    if (!d->o->sourced)
        return error_set(e, ERR_CONFIG,
                         "the configuration of this coordinator names no table to build filter '%s' from",
                         d->o->filter);
    struct source_config config = d->o->source;
    config.application = "twinbloom job";
    config.watch = (struct source_watch){watch, d};
    enum err code = source_open(&d->source, &config, d->o->postgres_timeout_ms, e);
    if (code == ERR_OK)
        code = source_check(d->source, e);
    if (code != ERR_OK) {
        source_close(d->source);
        d->source = NULL;
    }
    return code;
}

enum err driver_source_failed(struct driver *d, enum err code)
{
    if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT || code == ERR_IO) {
        source_close(d->source);
        d->source = NULL;
    }
    return code;
}

/* --- settle --- */

static void describe(const struct settle_blocker *b, size_t waiting, char *out, size_t size)
{
    if (b->pid != 0)
        (void)snprintf(out, size, "%zu open transaction(s); the oldest: pid %d (%s), %.0f s, %s", waiting,
                       b->pid, b->application, b->age_seconds, b->query);
    else
        (void)snprintf(out, size, "%zu prepared transaction(s); the oldest: %s, %.0f s", waiting, b->query,
                       b->age_seconds);
}

static enum err settle_wait(struct driver *d, struct settle *settle, struct error *e)
{
    uint64_t deadline = clock_mono_us() + d->o->settle_timeout_ms * 1000;
    for (;;) {
        bool done;
        struct settle_blocker blocker;
        size_t waiting;
        char text[RECORD_TEXT_MAX] = "";
        enum err code = settle_poll(settle, &done, &blocker, 1, &waiting, e);
        if (code != ERR_OK || done)
            return code;
        describe(&blocker, waiting, text, sizeof(text));
        if (clock_mono_us() > deadline)
            return error_set(e, ERR_CONFLICT, "settle: still waiting after %" PRIu64 " s for %s",
                             d->o->settle_timeout_ms / 1000, text);
        code = driver_poll(d, text, e);
        if (code != ERR_OK)
            return code;
        clock_sleep_us(SETTLE_POLL_US);
    }
}

/* Model: IS_SETTLED. Every transaction that is open now has ended when this returns ERR_OK. */
static enum err settle_now(struct driver *d, struct error *e)
{
    struct settle *settle;
    enum err code = settle_begin(&settle, d->source, e);
    if (code != ERR_OK)
        return code;
    code = settle_wait(d, settle, e);
    settle_free(settle);
    return code;
}

/* low_water is read before the settle: an id at or below it was taken by a transaction that had ended or was
 * open then, so after the settle no row at or below it can still come. upto is read after it: it covers the
 * rows of every transaction that was open when the fence was complete, and so every key that was acknowledged
 * before. */
enum err driver_settle(struct driver *d, struct error *e)
{
    enum err code = driver_source(d, e);
    if (code != ERR_OK)
        return code;
    struct record *r = &d->record;
    bool integer = source_id_is_integer(d->source);
    code = source_horizon(d->source, r->horizon, e);
    if (code == ERR_OK && integer)
        code = source_max_id(d->source, r->low_water, sizeof(r->low_water), e);
    if (code == ERR_OK)
        code = settle_now(d, e);
    if (code == ERR_OK && integer)
        code = source_max_id(d->source, r->upto, sizeof(r->upto), e);
    if (code == ERR_OK)
        code = source_rows_estimate(d->source, &r->rows_total, e);
    if (code != ERR_OK)
        return driver_source_failed(d, code);
    r->generation = driver_built(d)->number;
    r->settled = true;
    r->scan_ended = false;
    r->layer = r->pass = r->passes = 0;
    r->rows = r->segment_rows = r->skipped_null = r->skipped_empty = 0;
    r->last_id[0] = r->segment_after[0] = r->segment_upto[0] = '\0';
    record_begin(d, false);
    record_checkpoint(d, r, true);
    return record_write(d, e);
}

/* --- scan --- */

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
    if (w->code != ERR_OK)
        return;
    if (w->pending == 0)
        record_begin(w->d, false);
    record_count(w->d, driver_built(w->d), w->d->record.layer, shard, n);
    if (++w->pending == COUNTS_PER_SCRIPT) {
        w->code = record_write(w->d, w->e);
        w->pending = 0;
    }
}

/* Model: RECORD. Flush first, then record where to go on: a driver that resumes reads again what was not
 * flushed. */
static enum err checkpoint(struct driver *d, bool scan_ended, struct error *e)
{
    enum err code = builder_flush(d->builder, e);
    if (code != ERR_OK)
        return code;
    struct count_writer w = {.d = d, .code = ERR_OK, .e = e};
    builder_take_counts(d->builder, write_count, &w);
    if (w.code == ERR_OK && w.pending > 0)
        w.code = record_write(d, e);
    if (w.code != ERR_OK)
        return w.code;
    struct record at = d->record;
    at.generation = driver_built(d)->number;
    at.scan_ended = scan_ended;
    at.passes = builder_passes(d->builder);
    memcpy(at.last_id, d->position, sizeof(at.last_id));
    record_begin(d, false);
    record_checkpoint(d, &at, false);
    record_number(d, "passes", at.passes); /* a short scan reports no progress */
    if (w.total > 0)
        record_count(d, driver_built(d), at.layer, -1, w.total);
    d->checkpoint_at = clock_mono_us();
    return record_write(d, e);
}

static void take_page(struct driver *d, struct scan *scan, const struct scan_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct scan_row *row = &page->rows[i];
        if (i % ROWS_BETWEEN_TAKES == ROWS_BETWEEN_TAKES - 1)
            scan_take(scan);
        if (row->key != NULL && row->length > 0)
            builder_add(d->builder, row->key, row->length);
        else if (d->record.pass == 0 && row->key == NULL)
            d->record.skipped_null++;
        else if (d->record.pass == 0)
            d->record.skipped_empty++;
    }
    d->record.rows += page->count;
    d->scan_rows += page->count;
    memcpy(d->position, page->last_id, sizeof(d->position));
}

static const char *segment_upto(const struct driver *d)
{
    return d->record.segment_upto[0] != '\0' ? d->record.segment_upto : d->record.upto;
}

/* The layer is full, the generation has got another one: what is still to be read goes there. In a later pass
 * the segment's end is settled already. */
static bool layer_is_over(const struct driver *d)
{
    return d->record.pass == 0 && d->record.segment_upto[0] == '\0' && d->position[0] != '\0' &&
           driver_built(d)->layer_count - 1 > d->record.layer;
}

static enum err scan_pages(struct driver *d, struct scan *scan, struct error *e)
{
    for (;;) {
        struct scan_page page;
        enum err code = scan_next(scan, &page, d->o->postgres_timeout_ms, e);
        if (code != ERR_OK || page.count == 0)
            return code;
        take_page(d, scan, &page);
        driver_scanned(d);
        code = driver_pace(d, page.count, e);
        if (code == ERR_OK && layer_is_over(d)) {
            memcpy(d->record.segment_upto, d->position, sizeof(d->position));
            return ERR_OK;
        }
        if (code == ERR_OK && clock_mono_us() - d->checkpoint_at > d->o->checkpoint_ms * 1000)
            code = checkpoint(d, false, e);
        if (code != ERR_OK)
            return code;
    }
}

static enum err scan_pass(struct driver *d, struct error *e)
{
    struct scan *scan;
    enum err code = scan_open(&scan, d->source, d->position, segment_upto(d), d->o->page_rows, e);
    if (code != ERR_OK)
        return code;
    code = scan_pages(d, scan, e);
    scan_close(scan);
    return code;
}

/* All passes of a segment. */
static enum err scan_segment(struct driver *d, struct error *e)
{
    struct record *r = &d->record;
    while (r->pass < builder_passes(d->builder)) {
        enum err code = scan_pass(d, e);
        if (code != ERR_OK)
            return driver_source_failed(d, code);
        bool last = r->pass + 1 == builder_passes(d->builder);
        code = checkpoint(d, last && r->segment_upto[0] == '\0', e);
        if (code != ERR_OK)
            return code;
        r->pass++;
        memcpy(d->position, r->segment_after, sizeof(d->position));
        if (!last)
            builder_begin(d->builder, r->pass);
    }
    return ERR_OK;
}

/* A coordinator builds one generation at a time. */
static enum err take_build(struct driver *d, struct error *e)
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
    builder_free(d->builder);
    d->builder = NULL;
    if (d->built_here)
        atomic_store(d->o->building, false);
    d->built_here = false;
}

static enum err begin_segment(struct driver *d, struct error *e)
{
    struct record *r = &d->record;
    enum err code = builder_new(&d->builder, &d->fence, &d->view, driver_built(d), r->layer,
                                mutex_token(d->mutex), d->o->build_memory, e);
    if (code != ERR_OK)
        return code;
    /* The passes of a driver with another build_memory hold other shards: what it flushed stays, but its
     * position says nothing of ours. */
    if (r->passes != builder_passes(d->builder)) {
        r->pass = 0;
        r->rows = r->segment_rows;
        memcpy(r->last_id, r->segment_after, sizeof(r->last_id));
    }
    r->passes = builder_passes(d->builder);
    memcpy(d->position, r->last_id, sizeof(d->position));
    builder_begin(d->builder, r->pass);
    d->checkpoint_at = clock_mono_us();
    return ERR_OK;
}

/* From where the last one was closed, into the layer that is written now. */
static void next_segment(struct driver *d)
{
    struct record *r = &d->record;
    log_info("next_layer", "filter=%s layer=%u after=%s rows=%" PRIu64, log_quote(d->o->filter),
             driver_built(d)->layer_count - 1, r->segment_upto, r->rows);
    r->layer = driver_built(d)->layer_count - 1;
    memcpy(r->segment_after, r->segment_upto, sizeof(r->segment_after));
    memcpy(r->last_id, r->segment_upto, sizeof(r->last_id));
    r->segment_upto[0] = '\0';
    r->segment_rows = r->rows;
    r->pass = r->passes = 0;
    builder_free(d->builder);
    d->builder = NULL;
}

/* Model: row, into. */
static enum err scan_segments(struct driver *d, struct error *e)
{
    for (;;) {
        enum err code = d->builder == NULL ? begin_segment(d, e) : ERR_OK;
        if (code == ERR_OK)
            code = scan_segment(d, e);
        if (code != ERR_OK || d->record.segment_upto[0] == '\0')
            return code;
        next_segment(d);
    }
}

enum err driver_scan(struct driver *d, struct error *e)
{
    if (d->record.scan_ended)
        return ERR_OK;
    enum err code = take_build(d, e);
    if (code == ERR_OK)
        code = driver_source(d, e);
    if (code != ERR_OK)
        return code;
    if (d->scan_started == 0)
        d->scan_started = clock_mono_us();
    code = scan_segments(d, e);
    if (code != ERR_OK)
        return code;
    double seconds = (double)(clock_mono_us() - d->scan_started) / 1e6;
    double rate = seconds > 0 ? (double)d->scan_rows / seconds : 0;
    log_info("scanned",
             "filter=%s rows=%" PRIu64
             " seconds=%.3f rows_per_second=%.0f passes=%u layers=%u skipped_null=%" PRIu64
             " skipped_empty=%" PRIu64,
             log_quote(d->o->filter), d->scan_rows, seconds, rate, d->record.passes,
             driver_built(d)->layer_count, d->record.skipped_null, d->record.skipped_empty);
    d->record.scan_ended = true;
    record_begin(d, false);
    record_decimal(d, "scan_seconds", seconds);
    record_decimal(d, "rate", rate);
    record_number(d, "scan_rows", d->scan_rows);
    record_decimal(d, "eta_seconds", 0);
    return record_write(d, e);
}

/* --- catch-up --- */

enum err driver_add_keys(struct driver *d, size_t count, const char *const *keys, const size_t *lengths,
                         uint64_t *added, struct error *e)
{
    uint8_t *found = malloc(count + 1);
    enum err code = ERR_OK;
    if (found == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned s = 0; s < 2 && code == ERR_OK; s++) {
        const struct generation *g = &d->view.slot[s];
        bool built = s == driver_built_slot(d);
        /* The generation in use was right without these rows, and it is no fuller than was planned. */
        if (g->number == 0 || (d->view.phase == PHASE_BUILDING && !built))
            continue;
        code = fence_add(&d->fence, &d->view, g, count, keys, lengths, found, e);
        if (code == ERR_LOST && !built)
            code = ERR_OK; /* a lost shard of the generation that leaves answers "maybe" anyhow */
        for (size_t i = 0; code == ERR_OK && built && i < count; i++)
            *added += found[i] == 0;
    }
    free(found);
    return code;
}

static enum err add_page(struct driver *d, const struct scan_page *page, uint64_t *added, struct error *e)
{
    size_t count = 0;
    enum err code = error_set(e, ERR_NOMEM, "out of memory");
    const char **keys = calloc(page->count, sizeof(*keys));
    size_t *lengths = calloc(page->count, sizeof(*lengths));
    if (keys == NULL || lengths == NULL)
        goto out;
    for (size_t i = 0; i < page->count; i++)
        if (page->rows[i].key != NULL && page->rows[i].length > 0) {
            keys[count] = page->rows[i].key;
            lengths[count++] = page->rows[i].length;
        }
    code = driver_add_keys(d, count, keys, lengths, added, e);
out:
    free(keys);
    free(lengths);
    return code;
}

static enum err catch_up_range(struct driver *d, const char *after, const char *upto, uint64_t *rows,
                               uint64_t *added, struct error *e)
{
    struct scan *scan;
    enum err code = scan_open(&scan, d->source, after, upto, d->o->page_rows, e);
    if (code != ERR_OK)
        return code;
    for (;;) {
        struct scan_page page;
        code = scan_next(scan, &page, d->o->postgres_timeout_ms, e);
        if (code != ERR_OK || page.count == 0)
            break;
        *rows += page.count;
        code = add_page(d, &page, added, e);
        if (code == ERR_OK)
            code = driver_pace(d, page.count, e);
        if (code != ERR_OK)
            break;
    }
    scan_close(scan);
    return code;
}

/* Model: add_row. Rounds of: note the largest id, wait until nothing that was open then can still commit at
 * or below it, add what lies between the low-water mark and it, move the mark. Ends when a round found at
 * most one page. */
enum err driver_catch_up(struct driver *d, struct error *e)
{
    enum err code = driver_source(d, e);
    if (code != ERR_OK)
        return code;
    if (!source_id_is_integer(d->source))
        return ERR_OK;
    for (int round = 0; round < CATCH_UP_ROUNDS; round++) {
        char mark[SCAN_ID_MAX] = "";
        uint64_t rows = 0, added = 0;
        code = source_max_id(d->source, mark, sizeof(mark), e);
        if (code == ERR_OK && strcmp(mark, d->record.low_water) == 0)
            return ERR_OK;
        if (code == ERR_OK)
            code = settle_now(d, e);
        if (code == ERR_OK)
            code = catch_up_range(d, d->record.low_water, mark, &rows, &added, e);
        if (code != ERR_OK)
            return driver_source_failed(d, code);
        log_info("caught_up", "filter=%s rows=%" PRIu64 " new=%" PRIu64 " upto=%s", log_quote(d->o->filter),
                 rows, added, mark);
        memcpy(d->record.low_water, mark, sizeof(mark));
        record_begin(d, false);
        record_text(d, "low_water", mark);
        if (added > 0)
            record_count(d, driver_built(d), generation_written_layer(driver_built(d)), -1, added);
        code = record_write(d, e);
        if (code != ERR_OK || rows <= d->o->page_rows)
            return code;
    }
    return ERR_OK;
}
