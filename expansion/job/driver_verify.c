/* SPDX-License-Identifier: MIT */
/* Verify: keys of the source are in the generation, random keys are not.
 *
 * The happy path is: nothing is missing. Missing keys are listed and added, and the source is searched for
 * the reason. A row that was written without BF.ADD after the build began is not the build's fault, so the
 * generation is verified again. An older row is: then the generation is not used. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/decide/binomial.h"
#include "expansion/job/driver_internal.h"
#include "expansion/decide/threshold.h"

enum {
    BATCH = 1000,
    LISTED = 20,
    ROUNDS = 3,
    HEALS = 20 /* rounds, if more keys are missing than one comparison lists */
};

/* A generation with the promised false-positive rate is rejected once in a million times. */
static const double CHANCE = 1e-6;

/* The keys that are checked, a batch at a time. */
struct look {
    struct driver *d;
    size_t count;
    struct buffer keys; /* as of scan_keep_key() */
    uint64_t checked, missing, added;
    bool more;                          /* more keys are missing than were handed out: look again */
    uint64_t old, fresh, gone, unknown; /* listed keys, by what the source says about them */
    unsigned listed_count;
    char *listed[LISTED];
    size_t listed_lengths[LISTED];
    enum err code;
    struct error *e;
};

/* Results of all rounds. */
struct outcome {
    bool fine;
    uint64_t checked; /* keys checked in the last round */
    uint64_t added;   /* missing keys that were added */
    double rate;
    uint64_t items;
    struct source_rows rows;
};

static void list(struct look *l, const char *key, size_t length)
{
    char *copy = l->listed_count == LISTED ? NULL : buffer_copy(key, length);
    if (copy == NULL)
        return;
    log_error("verify_key_missing", "filter=%s generation=%" PRIu64 " key=%s", log_quote(l->d->o->filter),
              driver_built(l->d)->number, log_quote(copy));
    l->listed_lengths[l->listed_count] = length;
    l->listed[l->listed_count++] = copy;
}

/* Add missing keys at once, whatever the reason. Those that are missing move to the front. */
static enum err take_missing(struct look *l, const char **keys, size_t *lengths, size_t count,
                             const uint8_t *found)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (!found[i]) {
            keys[n] = keys[i];
            lengths[n++] = lengths[i];
        }
    enum err code = n == 0 ? ERR_OK : driver_add_keys(l->d, n, keys, lengths, &l->added, l->e);
    for (size_t i = 0; i < n && code == ERR_OK; i++)
        list(l, keys[i], lengths[i]);
    l->missing += n;
    return code;
}

static void check_batch(struct look *l)
{
    const char *keys[BATCH];
    size_t lengths[BATCH], at = 0;
    uint8_t found[BATCH];
    if (l->code == ERR_OK && buffer_failed(&l->keys))
        l->code = error_set(l->e, ERR_NOMEM, "out of memory");
    if (l->code == ERR_OK && l->count > 0) {
        size_t n = scan_kept_keys(&l->keys, &at, BATCH, keys, lengths);
        l->code = driver_check_keys(l->d, n, keys, lengths, found, l->e);
        if (l->code == ERR_OK)
            l->code = take_missing(l, keys, lengths, n, found);
    }
    l->checked += l->count;
    l->count = 0;
    buffer_clear(&l->keys);
}

static void take_key(void *arg, const char *key, size_t length)
{
    struct look *l = arg;
    if (l->code != ERR_OK)
        return;
    scan_keep_key(&l->keys, key, length);
    if (++l->count == BATCH)
        check_batch(l);
}

/* --- the source's keys --- */

static enum err take_suspects(void *arg, size_t count, const char *const *keys, const size_t *lengths,
                              struct error *e)
{
    struct look *l = arg;
    for (size_t i = 0; i < count; i++)
        take_key(l, keys[i], lengths[i]);
    (void)e;
    return l->code; /* its text is in the same struct error */
}

void driver_distrust(struct driver *d, const char *why)
{
    d->record.verify_full = true;
    (void)snprintf(d->record.healed, sizeof(d->record.healed),
                   "after the cutover: %.400s; every row was compared, and what was missing was added", why);
    log_warn("generation_recheck_started", "filter=%s generation=%" PRIu64 " reason=%s",
             log_quote(d->o->filter), driver_built(d)->number, log_quote(why));
}

static bool heals(const struct driver *d)
{
    return d->step == STEP_CONFIRM && d->record.healed[0] != '\0';
}

static enum err look_at_all(struct look *l, struct error *e)
{
    struct driver *d = l->d;
    struct driver_compared all = {0};
    char horizon[SOURCE_HORIZON_MAX] = "";
    enum err code = ERR_OK;
    if (heals(d)) {
        d->record.newest[0] = '\0';
        code = driver_identity(d, "", &d->record.source, e);
        if (code == ERR_OK)
            code = source_horizon(d->source, horizon, e);
        if (code == ERR_OK)
            code = driver_settle_now(d, e);
        if (code == ERR_OK)
            code = driver_newest(d, d->record.newest, e);
    }
    if (code == ERR_OK)
        code = driver_compare(d, take_suspects, l, &all, e);
    l->more = all.missing > all.handed;
    if (code == ERR_OK && heals(d) &&
        (d->o->sweep || d->o->scan_blocks)) /* rows that moved to where the readers had been */
        code = driver_sweep(d, horizon, take_suspects, l, e);
    if (code == ERR_OK && heals(d))
        code = driver_unchanged(d, e);
    check_batch(l);
    l->checked = all.rows;
    return code;
}

static enum err find_reasons(struct look *l, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < l->listed_count && code == ERR_OK; i++) {
        enum source_finding finding = SOURCE_ROW_UNKNOWN;
        char id[64] = "";
        code = source_find_key(l->d->source, l->listed[i], l->listed_lengths[i], l->d->record.horizon,
                               &finding, id, e);
        l->old += finding == SOURCE_ROW_OLD;
        l->fresh += finding == SOURCE_ROW_NEW;
        l->gone += finding == SOURCE_ROW_GONE;
        l->unknown += finding == SOURCE_ROW_UNKNOWN;
        log_warn("verify_missing_reason", "filter=%s key=%s id=%s finding=%s", log_quote(l->d->o->filter),
                 log_quote(l->listed[i]), id,
                 finding == SOURCE_ROW_OLD    ? "old_row"
                 : finding == SOURCE_ROW_NEW  ? "written_after_the_build_began"
                 : finding == SOURCE_ROW_GONE ? "deleted"
                                              : "unknown");
    }
    return code;
}

/* --- the record --- */

static void record_missing(const struct look *l)
{
    char text[RECORD_TEXT_MAX] = "", reason[RECORD_TEXT_MAX] = "";
    size_t n = 0;
    for (unsigned i = 0; i < l->listed_count; i++) {
        const char *quoted = log_quote(l->listed[i]);
        if (n + strlen(quoted) + 2 >= sizeof(text))
            break;
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n == 0 ? "" : " ", quoted);
    }
    if (l->missing > 0)
        (void)snprintf(reason, sizeof(reason),
                       "of %u keys looked for: %" PRIu64
                       " written after the build began by another way than BF.ADD, %" PRIu64
                       " deleted since, %" PRIu64 " older than the build, %" PRIu64 " unknown",
                       l->listed_count, l->fresh, l->gone, l->old, l->unknown);
    record_number(l->d, "verify_missing", l->missing);
    record_text(l->d, "verify_missing_keys", text);
    record_text(l->d, "verify_reason", reason);
}

static enum err write_look(const struct look *l, struct error *e)
{
    struct driver *d = l->d;
    enum err code = driver_checkpoint(d, e);
    if (code != ERR_OK)
        return code;
    record_begin(d, false);
    record_missing(l);
    if (heals(d)) {
        record_text(d, "healed", d->record.healed);
        record_text(d, "verify_full", "1");
    }
    return record_write(d, e);
}

/* --- one round --- */

static enum err judge(const struct look *l, struct error *e)
{
    const struct generation *g = driver_built(l->d);
    if (l->missing == 0 || (heals(l->d) && !l->more)) /* all missing keys were added */
        return ERR_OK;
    return error_set(e, ERR_CONFLICT,
                     "verify: %" PRIu64 " of %" PRIu64 " keys of the source were not in generation %" PRIu64
                     ", and were added (%" PRIu64
                     " of %u looked for are older than the build); the first: %.60s",
                     l->missing, l->checked, g->number, l->old, l->listed_count,
                     l->listed_count > 0 ? log_quote(l->listed[0]) : "");
}

/* *@again: keys were missing, but the build is not at fault, or the generation is in use and can be
 * healed. */
static enum err look_once(struct driver *d, bool last, struct outcome *o, bool *again, struct error *e)
{
    struct look looked = {.d = d, .e = e}, *l = &looked;
    enum err code = d->record.verify_full
                        ? look_at_all(l, e)
                        : scan_sample(d->source, d->record.swept, d->o->verify_sample, take_key, l, e);
    check_batch(l);
    if (code == ERR_OK)
        code = l->code;
    if (code == ERR_OK)
        code = find_reasons(l, e);
    bool wrong = l->missing > 0 && (l->old > 0 || last);
    if (code == ERR_OK && wrong && d->step == STEP_CONFIRM && !heals(d) && judge(l, e) != ERR_OK) {
        driver_distrust(d, e->text); /* the next round compares the whole table */
        l->more = true;
    }
    if (code == ERR_OK)
        code = write_look(l, e);
    if (code == ERR_OK)
        code = judge(l, e);
    *again = code == ERR_CONFLICT && (l->old == 0 || heals(d));
    o->checked = l->checked;
    o->added += l->missing;
    buffer_fini(&l->keys);
    for (unsigned i = 0; i < l->listed_count; i++)
        free(l->listed[i]);
    return code;
}

static enum err verify_present(struct driver *d, struct outcome *o, struct error *e)
{
    bool again = true;
    enum err code = ERR_OK;
    for (int round = 0; again && round < (heals(d) ? HEALS : ROUNDS); round++) {
        again = false;
        code = driver_source(d, e);
        if (code == ERR_OK)
            code = driver_source_failed(d, look_once(d, round + 1 == ROUNDS, o, &again, e));
    }
    return code;
}

/* --- false positives --- */

/* Check one batch of keys that were never added: a random salt and a counter. Counts those that the
 * generation reports as present. */
static enum err probe_absent(struct driver *d, uint64_t salt, uint64_t first, size_t count,
                             uint64_t *positive, struct error *e)
{
    char text[BATCH][40];
    const char *keys[BATCH];
    size_t lengths[BATCH];
    uint8_t found[BATCH];
    for (size_t i = 0; i < count; i++) {
        lengths[i] =
            (size_t)snprintf(text[i], sizeof(text[i]), "\1%016" PRIx64 "%016" PRIx64, salt, first + i);
        keys[i] = text[i];
    }
    enum err code = driver_check_keys(d, count, keys, lengths, found, e);
    for (size_t i = 0; code == ERR_OK && i < count; i++)
        *positive += found[i];
    return code;
}

static enum err verify_rate(struct driver *d, double *rate, struct error *e)
{
    double p = threshold_rate_bound(driver_built(d));
    uint64_t n = d->o->verify_sample, positive = 0, salt = random_u64();
    for (uint64_t done = 0; done < n; done += BATCH) {
        uint64_t batch = n - done < BATCH ? n - done : BATCH;
        enum err code = probe_absent(d, salt, done, batch, &positive, e);
        if (code == ERR_OK)
            code = driver_poll(d, "", e);
        if (code != ERR_OK)
            return code;
    }
    *rate = n == 0 ? 0 : (double)positive / (double)n;
    if (binomial_tail(n, positive, p) < CHANCE)
        return error_set(e, ERR_CONFLICT,
                         "verify: false-positive rate %.3g (%" PRIu64 " of %" PRIu64
                         ") of generation %" PRIu64 " is over the promised %.3g",
                         *rate, positive, n, driver_built(d)->number, p);
    return ERR_OK;
}

/* --- the step --- */

/* Note how many keys of a new generation have no row, for the record at the cutover: they are no reason to
 * build again. Rows that were deleted during the build are a reason, so subtract the number of rows before
 * the build if that is larger. */
static void note_dead(struct driver *d, const struct outcome *o)
{
    if (d->step != STEP_VERIFY || o->rows.by == SOURCE_ROWS_GUESSED)
        return;
    uint64_t rows = o->rows.rows > d->record.rows_total ? o->rows.rows : d->record.rows_total;
    d->record.dead_generation = driver_built(d)->number;
    d->record.dead_at_build = o->items > rows ? o->items - rows : 0;
}

static enum err write_outcome(struct driver *d, const struct outcome *o, struct error *e)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%" PRIu64 " %d %" PRIu64, driver_built(d)->number, o->fine,
                   clock_wall_us() / 1000);
    record_begin(d, false);
    record_text(d, driver_built_slot(d) == 0 ? "verification0" : "verification1", text);
    record_text(d, "verify_ok", o->fine ? "1" : "0");
    record_number(d, "verify_generation", driver_built(d)->number);
    record_number(d, "verified", o->checked);
    record_number(d, "verify_added", o->added);
    record_text(d, "verify_mode", d->record.verify_full ? "full" : "sample");
    record_decimal(d, "false_positive_rate", o->rate);
    record_number(d, "verify_items", o->items);
    record_number(d, "verify_rows", o->rows.rows);
    return record_write(d, e);
}

enum err driver_verify(struct driver *d, struct error *e)
{
    struct outcome o = {.fine = false};
    if (d->step == STEP_VERIFY && driver_built(d)->built)
        return ERR_OK; /* it was in use before a rollback */
    enum err code = verify_present(d, &o, e);
    if (code == ERR_OK)
        code = verify_rate(d, &o.rate, e);
    o.items = driver_items(d);
    if (code == ERR_OK)
        code = driver_source_failed(d, source_rows_look(d->source, &o.rows, e));
    if (code == ERR_CONFLICT || code == ERR_LOST) {
        struct error ignored;
        enum err written = write_outcome(d, &o, &ignored);
        return written == ERR_MUTEX_LOST ? error_set(e, written, "%s", ignored.text) : code;
    }
    if (code != ERR_OK)
        return code;
    o.fine = true;
    log_info("verified",
             "filter=%s generation=%" PRIu64 " checked=%" PRIu64 " added=%" PRIu64
             " false_positive_rate=%.3g error_rate=%.3g keys=%" PRIu64 " rows=%" PRIu64,
             log_quote(d->o->filter), driver_built(d)->number, o.checked, o.added, o.rate,
             driver_built(d)->error_rate, o.items, o.rows.rows);
    note_dead(d, &o);
    return write_outcome(d, &o, e);
}
