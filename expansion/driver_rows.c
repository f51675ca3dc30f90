/* SPDX-License-Identifier: MIT */
/* The steps of a job that read the source. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/driver_internal.h"
#include "migrate/settle.h"

enum {
    SETTLE_POLL_US = 50 * 1000,
    COUNTS_PER_SCRIPT = 1500,
    CATCH_UP_ROUNDS = 20,
    VERIFY_BATCH = 1000,
    LISTED = 20,
    ROWS_BETWEEN_TAKES = 1000
};

/* Ends a wait for Postgres when the job must end. Redis being away is no reason: the step will meet it. */
static enum err watch(void *arg, struct error *e)
{
    enum err code = driver_poll(arg, "an answer of Postgres", e);
    return code == ERR_UNREACHABLE || code == ERR_TIMEOUT ? ERR_OK : code;
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

/* A source that failed is opened anew at the next use. */
static enum err source_failed(struct driver *d, enum err code)
{
    if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT || code == ERR_IO) {
        source_close(d->source);
        d->source = NULL;
    }
    return code;
}

static const struct generation *built_generation(const struct driver *d)
{
    return d->view.phase == PHASE_SWITCHED ? view_current(&d->view) : view_alternate(&d->view);
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

/* Every transaction that is open now has ended when this returns ERR_OK. */
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
    if (code == ERR_OK && integer)
        code = source_max_id(d->source, r->low_water, sizeof(r->low_water), e);
    if (code == ERR_OK)
        code = settle_now(d, e);
    if (code == ERR_OK && integer)
        code = source_max_id(d->source, r->upto, sizeof(r->upto), e);
    if (code == ERR_OK)
        code = source_rows_estimate(d->source, &r->rows_total, e);
    if (code != ERR_OK)
        return source_failed(d, code);
    r->settled = true;
    r->scan_ended = false;
    r->pass = 0;
    r->rows = r->skipped_null = r->skipped_empty = 0;
    r->last_id[0] = '\0';
    record_begin(d, false);
    record_number(d, "generation", built_generation(d)->number);
    record_text(d, "settled", "1");
    record_text(d, "scan_ended", "0");
    record_text(d, "low_water", r->low_water);
    record_text(d, "upto", r->upto);
    record_text(d, "last_id", "");
    record_number(d, "checkpoint_pass", 0);
    record_number(d, "checkpoint_passes", 0);
    record_number(d, "checkpoint_rows", 0);
    record_number(d, "rows", 0);
    record_number(d, "rows_total", r->rows_total);
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
    char field[64];
    w->total += n;
    if (w->code != ERR_OK)
        return;
    if (w->pending == 0)
        record_begin(w->d, false);
    (void)snprintf(field, sizeof(field), "%" PRIu64 ".0.%" PRIu32, built_generation(w->d)->number, shard);
    record_count(w->d, field, n);
    if (++w->pending == COUNTS_PER_SCRIPT) {
        w->code = record_write(w->d, w->e);
        w->pending = 0;
    }
}

/* Flush first, then record where to go on: a driver that resumes reads again what was not flushed. */
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
    char field[64];
    (void)snprintf(field, sizeof(field), "%" PRIu64 ".0", built_generation(d)->number);
    record_begin(d, false);
    record_number(d, "generation", built_generation(d)->number);
    record_text(d, "last_id", d->position);
    record_number(d, "checkpoint_pass", d->record.pass);
    record_number(d, "checkpoint_passes", builder_passes(d->builder));
    record_number(d, "checkpoint_rows", d->record.rows);
    record_number(d, "rows", d->record.rows);
    record_number(d, "skipped_null", d->record.skipped_null);
    record_number(d, "skipped_empty", d->record.skipped_empty);
    record_text(d, "scan_ended", scan_ended ? "1" : "0");
    if (w.total > 0)
        record_count(d, field, w.total);
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

static enum err scan_pass(struct driver *d, struct error *e)
{
    struct scan *scan;
    enum err code = scan_open(&scan, d->source, d->position, d->record.upto, d->o->page_rows, e);
    if (code != ERR_OK)
        return code;
    for (;;) {
        struct scan_page page;
        code = scan_next(scan, &page, d->o->postgres_timeout_ms, e);
        if (code != ERR_OK || page.count == 0)
            break;
        take_page(d, scan, &page);
        code = driver_poll(d, "", e);
        if (code == ERR_OK && clock_mono_us() - d->checkpoint_at > d->o->checkpoint_ms * 1000)
            code = checkpoint(d, false, e);
        if (code != ERR_OK)
            break;
    }
    scan_close(scan);
    return code;
}

enum err driver_scan(struct driver *d, struct error *e)
{
    if (d->record.scan_ended)
        return ERR_OK;
    enum err code = driver_source(d, e);
    if (code == ERR_OK && d->builder == NULL) {
        code = builder_new(&d->builder, &d->fence, &d->view, built_generation(d), mutex_token(d->mutex),
                           d->o->build_memory, e);
        if (code != ERR_OK)
            return code;
        /* The passes of a driver with another build_memory hold other shards: what it flushed stays, but its
         * position says nothing of ours. */
        if (d->record.passes != builder_passes(d->builder)) {
            d->record.pass = 0;
            d->record.rows = 0;
            d->record.last_id[0] = '\0';
        }
        memcpy(d->position, d->record.last_id, sizeof(d->position));
        builder_begin(d->builder, d->record.pass);
        d->scan_started = d->checkpoint_at = clock_mono_us();
        d->scan_rows = 0;
    }
    while (code == ERR_OK && d->record.pass < builder_passes(d->builder)) {
        code = scan_pass(d, e);
        if (code != ERR_OK)
            return source_failed(d, code);
        bool last = d->record.pass + 1 == builder_passes(d->builder);
        code = checkpoint(d, last, e);
        if (code != ERR_OK)
            return code;
        d->record.pass++;
        d->position[0] = '\0';
        if (!last)
            builder_begin(d->builder, d->record.pass);
    }
    if (code != ERR_OK)
        return source_failed(d, code);
    double seconds = (double)(clock_mono_us() - d->scan_started) / 1e6;
    log_info("scanned",
             "filter=%s rows=%" PRIu64 " seconds=%.3f rows_per_second=%.0f passes=%u skipped_null=%" PRIu64
             " skipped_empty=%" PRIu64,
             log_quote(d->o->filter), d->scan_rows, seconds, seconds > 0 ? (double)d->scan_rows / seconds : 0,
             builder_passes(d->builder), d->record.skipped_null, d->record.skipped_empty);
    d->record.scan_ended = true;
    builder_free(d->builder);
    d->builder = NULL;
    record_begin(d, false);
    record_decimal(d, "scan_seconds", seconds);
    record_decimal(d, "rate", seconds > 0 ? (double)d->scan_rows / seconds : 0);
    record_number(d, "scan_rows", d->scan_rows);
    record_decimal(d, "eta_seconds", 0);
    return record_write(d, e);
}

/* --- catch-up --- */

/* Add keys to every generation that is written. @found is scratch of @count bytes. */
static enum err add_keys(struct driver *d, size_t count, const char *const *keys, const size_t *lengths,
                         uint8_t *found, uint64_t *added, struct error *e)
{
    for (unsigned s = 0; s < 2; s++) {
        const struct generation *g = &d->view.slot[s];
        bool built = g == built_generation(d);
        if (g->number == 0 || (d->view.phase == PHASE_BUILDING && s == d->view.current))
            continue;
        enum err code = fence_add(&d->fence, &d->view, g, count, keys, lengths, found, e);
        if (code != ERR_OK && (built || code != ERR_LOST))
            return code; /* a lost shard of the generation that leaves answers "maybe" anyhow */
        for (size_t i = 0; built && i < count; i++)
            *added += found[i] == 0;
    }
    return ERR_OK;
}

static enum err add_page(struct driver *d, const struct scan_page *page, uint64_t *added, struct error *e)
{
    size_t count = 0;
    enum err code = error_set(e, ERR_NOMEM, "out of memory");
    const char **keys = calloc(page->count, sizeof(*keys));
    size_t *lengths = calloc(page->count, sizeof(*lengths));
    uint8_t *found = calloc(page->count, 1);
    if (keys == NULL || lengths == NULL || found == NULL)
        goto out;
    for (size_t i = 0; i < page->count; i++)
        if (page->rows[i].key != NULL && page->rows[i].length > 0) {
            keys[count] = page->rows[i].key;
            lengths[count++] = page->rows[i].length;
        }
    code = add_keys(d, count, keys, lengths, found, added, e);
out:
    free(keys);
    free(lengths);
    free(found);
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
            code = driver_poll(d, "", e);
        if (code != ERR_OK)
            break;
    }
    scan_close(scan);
    return code;
}

/* Rounds of: note the largest id, wait until nothing that was open then can still commit at or below it, add
 * what lies between the low-water mark and it, move the mark. Ends when a round found at most one page. */
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
            return source_failed(d, code);
        log_info("caught_up", "filter=%s rows=%" PRIu64 " new=%" PRIu64 " upto=%s", log_quote(d->o->filter),
                 rows, added, mark);
        memcpy(d->record.low_water, mark, sizeof(mark));
        char field[64];
        (void)snprintf(field, sizeof(field), "%" PRIu64 ".0", built_generation(d)->number);
        record_begin(d, false);
        record_text(d, "low_water", mark);
        if (added > 0)
            record_count(d, field, added);
        code = record_write(d, e);
        if (code != ERR_OK || rows <= d->o->page_rows)
            return code;
    }
    return ERR_OK;
}

/* --- verify --- */

struct sample {
    struct driver *d;
    size_t count, total, missing;
    char *bytes[VERIFY_BATCH];
    size_t lengths[VERIFY_BATCH];
    enum err code;
    struct error *e;
};

static void sample_check(struct sample *s)
{
    uint8_t found[VERIFY_BATCH];
    if (s->count > 0 && s->code == ERR_OK)
        s->code = fence_check(&s->d->fence, &s->d->view, built_generation(s->d), s->count,
                              (const char *const *)s->bytes, s->lengths, found, s->e);
    for (size_t i = 0; i < s->count; i++) {
        if (s->code == ERR_OK && !found[i] && s->missing++ < LISTED)
            log_error("verify_missing", "filter=%s key=%s", log_quote(s->d->o->filter),
                      log_quote(s->bytes[i]));
        free(s->bytes[i]);
    }
    s->total += s->count;
    s->count = 0;
}

static void sample_key(void *arg, const char *key, size_t length)
{
    struct sample *s = arg;
    if (s->code != ERR_OK)
        return;
    char *copy = malloc(length + 1);
    if (copy == NULL) {
        s->code = error_set(s->e, ERR_NOMEM, "out of memory");
        return;
    }
    memcpy(copy, key, length);
    copy[length] = '\0';
    s->bytes[s->count] = copy;
    s->lengths[s->count++] = length;
    if (s->count == VERIFY_BATCH)
        sample_check(s);
}

static enum err verify_present(struct driver *d, uint64_t *checked, struct error *e)
{
    struct sample *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->d = d;
    s->e = e;
    enum err code = scan_sample(d->source, d->record.upto, d->o->verify_sample, sample_key, s, e);
    sample_check(s);
    if (code == ERR_OK)
        code = s->code;
    if (code == ERR_OK && s->missing > 0)
        code = error_set(e, ERR_CONFLICT,
                         "verify: %zu of %zu sampled keys of the source are not in generation %" PRIu64,
                         s->missing, s->total, built_generation(d)->number);
    *checked = s->total;
    free(s);
    return code;
}

/* Keys that were never added: a random salt and a counter. One batch; counts those that the generation takes
 * for present. */
static enum err probe_absent(struct driver *d, uint64_t salt, uint64_t first, size_t count,
                             uint64_t *positive, struct error *e)
{
    char text[VERIFY_BATCH][40];
    const char *keys[VERIFY_BATCH];
    size_t lengths[VERIFY_BATCH];
    uint8_t found[VERIFY_BATCH];
    for (size_t i = 0; i < count; i++) {
        lengths[i] =
            (size_t)snprintf(text[i], sizeof(text[i]), "\1%016" PRIx64 "%016" PRIx64, salt, first + i);
        keys[i] = text[i];
    }
    enum err code = fence_check(&d->fence, &d->view, built_generation(d), count, keys, lengths, found, e);
    for (size_t i = 0; code == ERR_OK && i < count; i++)
        *positive += found[i];
    return code;
}

/* Positives among n absent keys are binomial(n, p): more than 4 standard deviations above n p is not chance.
 */
static enum err verify_rate(struct driver *d, double *rate, struct error *e)
{
    double p = built_generation(d)->error_rate;
    uint64_t n = d->o->verify_sample, positive = 0, salt = random_u64();
    for (uint64_t done = 0; done < n; done += VERIFY_BATCH) {
        uint64_t batch = n - done < VERIFY_BATCH ? n - done : VERIFY_BATCH;
        enum err code = probe_absent(d, salt, done, batch, &positive, e);
        if (code == ERR_OK)
            code = driver_poll(d, "", e);
        if (code != ERR_OK)
            return code;
    }
    *rate = n == 0 ? 0 : (double)positive / (double)n;
    double bound = (double)n * p + 4 * sqrt((double)n * p) + 4;
    if ((double)positive > bound)
        return error_set(e, ERR_CONFLICT,
                         "verify: false-positive rate %.3g of generation %" PRIu64
                         " is over the promised %.3g",
                         *rate, built_generation(d)->number, p);
    return ERR_OK;
}

enum err driver_verify(struct driver *d, struct error *e)
{
    uint64_t lost, checked = 0;
    double rate = 0;
    enum err code = fence_count_lost(&d->fence, &d->view, built_generation(d), &lost, e);
    if (code == ERR_OK && lost > 0)
        code = error_set(e, ERR_LOST, "verify: %" PRIu64 " shards of generation %" PRIu64 " are lost", lost,
                         built_generation(d)->number);
    if (code == ERR_OK)
        code = driver_source(d, e);
    if (code == ERR_OK)
        code = source_failed(d, verify_present(d, &checked, e));
    if (code == ERR_OK)
        code = verify_rate(d, &rate, e);
    if (code != ERR_OK)
        return code;
    log_info("verified", "filter=%s keys=%" PRIu64 " missing=0 false_positive_rate=%.3g promised=%.3g",
             log_quote(d->o->filter), checked, rate, built_generation(d)->error_rate);
    record_begin(d, false);
    record_number(d, "verified", checked);
    record_decimal(d, "false_positive_rate", rate);
    code = record_write(d, e);
    return code == ERR_OK ? driver_abort_asked(d, e) : code; /* the last moment: next is the cutover */
}
