/* SPDX-License-Identifier: MIT */
/* Shards that are lost are made anew, and filled from the source, while the others go on.
 *
 * The happy path is: find which are lost, make them anew, empty, and change the view to one that names them
 * as unsure; from its fence on adds go to them, and nothing is absent in them. Wait for the transactions that
 * are open (an add to a lost shard is acknowledged and written nowhere), read the whole table and upload what
 * belongs into them, then the rows that were written since. See that they are still there, on masters that
 * are the same, and let the filter say "no" again. Possible failure modes are: a shard is lost meanwhile
 * (again: it is made anew under the next epoch), a master fails over (heal first, then again), too many are
 * lost, or the view is one for which this does not do (a whole rebuild), death at any point (the next driver
 * finds the view's field, and begins again). */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/driver_internal.h"
#include "migrate/moment.h"
#include "shard/hash.h"
#include "shard/roster.h"

enum {
    ROUNDS = 10, /* of shards that are lost while they are made anew */
    LOOK_MS = 20,
    AT_ONCE = 256, /* keys */
    FULL_NAP_US = 5 * 1000,
    COUNTS_PER_SCRIPT = 500,
    RANGES_MAX = 20 /* that are logged */
};

struct refill {
    struct driver *d;
    struct lineages now;
    uint8_t *lost; /* by shard */
    uint64_t lost_count;
    uint64_t *keys; /* by shard: of those that are unsure, as they were read */
    char horizon[SOURCE_HORIZON_MAX];
    uint64_t swept; /* rows */
    bool again;     /* a shard was gone */
};

static const struct generation *generation_of(const struct refill *r)
{
    return view_current(&r->d->view);
}

static uint32_t shards_of(const struct refill *r)
{
    return generation_of(r)->layers[0].geometry.shards;
}

static bool is_unsure(const struct refill *r, uint32_t shard)
{
    return unsure_contains(&r->d->view.unsure, generation_of(r)->number, 0, shard);
}

/* --- which --- */

static enum err find_lost(struct refill *r, struct error *e)
{
    struct driver *d = r->d;
    return fence_find_lost(&d->fence, &d->view, generation_of(r), 0, r->lost, &r->lost_count, e);
}

static enum err note_masters(struct refill *r, struct error *e)
{
    struct driver *d = r->d;
    enum err code = driver_same_masters(d, e);
    if (code == ERR_OK)
        code = fence_lineages(&d->fence, &d->view, &r->now, e);
    if (code == ERR_OK && driver_suspects_any(d, &r->now))
        code = error_set(e, ERR_CONFLICT, "a Redis master is not trusted: the filter must be healed first");
    return code;
}

/* --- the view --- */

static void say_which(const struct refill *r)
{
    struct buffer which = {0};
    unsure_describe(r->lost, shards_of(r), RANGES_MAX, &which);
    log_info("repair_started", "filter=%s epoch=%" PRIu64 " shards=%" PRIu32 " which=%s",
             log_quote(r->d->o->filter), r->d->next.epoch, r->d->next.unsure.count,
             log_quote(buffer_text(&which)));
    buffer_fini(&which);
}

/* The lost shards are given up: what is found under their old names later is not theirs. Each attempt has
 * names of its own for those that it makes, so none of them can be made twice. */
static enum err give_up_lost(struct refill *r, struct error *e)
{
    struct driver *d = r->d;
    const struct generation *g = generation_of(r);
    d->next = d->view;
    struct unsure *u = &d->next.unsure;
    if (u->generation != g->number)
        unsure_begin(u, g->number, shards_of(r));
    for (uint32_t i = 0; i < shards_of(r); i++)
        if (r->lost[i])
            unsure_add(u, i);
    if (!step_can_refill(&d->view, u->count))
        return error_set(e, ERR_CONFLICT, "%" PRIu32 " of %" PRIu32 " shards are lost: a rebuild is needed",
                         u->count, shards_of(r));
    u->token = random_u64() >> 1 | 1;
    u->epoch = d->next.epoch = d->view.epoch + 1;
    enum err code = roster_reads(d->link, d->o->prefix, VIEW_FORMAT, e);
    if (code == ERR_OK)
        code = fence_make_anew(&d->fence, g, u->token, r->lost, e);
    if (code != ERR_OK)
        return code;
    say_which(r);
    return driver_change_view(d, NULL, e);
}

/* --- reading --- */

struct sink {
    struct build *build;
    const struct unsure *unsure;
    const struct geometry *geometry;
    uint64_t seed, generation;
    atomic_bool stop;
};

static void on_row(void *arg, unsigned i, const char *key, size_t length)
{
    struct sink *s = arg;
    struct key_place place;
    struct key_hash h = hash_key(s->seed, key, length);
    hash_place(s->geometry, h, &place);
    if (unsure_contains(s->unsure, s->generation, 0, place.shard))
        build_put(build_writer(s->build, i), h);
}

static enum err on_page(void *arg, unsigned i, struct error *e)
{
    struct sink *s = arg;
    enum err code = build_page_end(build_writer(s->build, i), e);
    while (code == ERR_OK && build_is_full(s->build) && !atomic_load(&s->stop))
        clock_sleep_us(FULL_NAP_US);
    return code == ERR_OK && atomic_load(&s->stop) ? error_set(e, ERR_CANCELLED, "stopped") : code;
}

static enum err look_after(struct driver *d, struct build *build, struct error *e)
{
    for (;;) {
        enum err ended_with;
        struct readers_progress p;
        bool ended = readers_ended(d->readers, LOOK_MS, &ended_with, e);
        readers_progress(d->readers, &p);
        driver_pace_rows(d, p.rows - d->refill.rows);
        d->refill.rows = p.rows;
        if (ended)
            return ended_with;
        enum err code = build_wants_flush(build) ? build_flush(build, e) : ERR_OK;
        if (code == ERR_OK)
            code = driver_poll(d, driver_pace_reason(d), e);
        driver_pace_readers(d);
        if (code != ERR_OK)
            return code;
    }
}

static enum err read_into(struct refill *r, struct build *build, struct error *e)
{
    struct driver *d = r->d;
    const struct generation *g = generation_of(r);
    struct sink sink = {.build = build,
                        .unsure = &d->view.unsure,
                        .geometry = &g->layers[0].geometry,
                        .seed = g->seed,
                        .generation = g->number};
    const struct readers_options o = driver_readers(d, driver_all_rows(d), on_row, on_page, &sink);
    enum err code = readers_start(&d->readers, &o, e);
    if (code == ERR_OK)
        code = look_after(d, build, e);
    if (code == ERR_OK)
        code = build_flush(build, e);
    atomic_store(&sink.stop, true);
    readers_stop(d->readers);
    d->readers = NULL;
    return code;
}

static void take_count(void *arg, uint32_t shard, uint64_t n)
{
    ((uint64_t *)arg)[shard] += n;
}

static enum err scan(struct refill *r, struct error *e)
{
    struct driver *d = r->d;
    struct fence_output output;
    const struct build_options o = driver_build_options(d, &output, generation_of(r), 0);
    struct build *build = NULL;
    d->refill.began = clock_mono_us();
    d->refill.rows = 0;
    enum err code = driver_take_build(d, e);
    if (code == ERR_OK)
        code = driver_replayed(d, e);
    if (code == ERR_OK && d->o->scan_blocks)
        code = driver_parts(d, e);
    if (code == ERR_OK)
        code = build_new(&build, &o, e);
    if (code == ERR_OK)
        code = read_into(r, build, e);
    if (code == ERR_OK)
        build_take_counts(build, take_count, r->keys);
    build_free(build);
    driver_end_build(d);
    return code;
}

/* --- rows that were written meanwhile, whose place in the table the scan may have passed --- */

static enum err add_rows(void *arg, size_t count, const char *const *keys, const size_t *lengths,
                         struct error *e)
{
    struct refill *r = arg;
    struct driver *d = r->d;
    const struct generation *g = generation_of(r);
    const char *some[AT_ONCE];
    size_t some_lengths[AT_ONCE], n = 0;
    uint8_t found[AT_ONCE];
    enum err code = ERR_OK;
    r->swept += count;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        struct key_place place;
        hash_place(&g->layers[0].geometry, hash_key(g->seed, keys[i], lengths[i]), &place);
        if (is_unsure(r, place.shard)) {
            some[n] = keys[i];
            some_lengths[n++] = lengths[i];
        }
        if (n == AT_ONCE || (n > 0 && i + 1 == count)) {
            code = fence_add(&d->fence, &d->view, g, n, some, some_lengths, found, e);
            n = 0;
        }
    }
    return code;
}

/* Adds that were acknowledged while the shards were lost were written nowhere. Their transactions have ended,
 * or are open now: what begins from here on finds the shards that were made anew. */
static enum err read_all(struct refill *r, struct error *e)
{
    struct driver *d = r->d;
    d->record.settled = false; /* the tables are not those of an earlier build */
    uint64_t identity = 0;
    enum err code = driver_source(d, e);
    if (code == ERR_OK)
        code = driver_identity(d, "", &identity, e);
    if (code == ERR_OK)
        code = source_horizon(d->source, r->horizon, e);
    if (code == ERR_OK)
        code = driver_settle_now(d, e);
    if (code == ERR_OK)
        code = source_rows_estimate(d->source, &d->refill.rows_total, e);
    if (code == ERR_OK)
        code = scan(r, e);
    if (code == ERR_OK && d->o->sweep)
        code = driver_sweep(d, r->horizon, add_rows, r, e);
    /* What was uploaded is older than any mark that was written before. */
    if (code == ERR_OK && d->record.complete_generation == generation_of(r)->number)
        code = source_instant(d->source, &d->record.complete_at, e);
    if (code == ERR_OK)
        code = driver_unchanged(d, "", identity, e);
    return driver_source_failed(d, code);
}

/* --- counts --- */

static enum err count_some(struct refill *r, uint32_t first, uint32_t n, struct error *e)
{
    struct driver *d = r->d;
    const struct generation *g = generation_of(r);
    uint64_t items[COUNTS_PER_SCRIPT];
    int64_t all = 0;
    enum err code = fence_shard_items(&d->fence, g, 0, first, n, items, e);
    if (code != ERR_OK)
        return code;
    record_begin(d, false);
    for (uint32_t i = 0; i < n; i++) {
        int64_t by = (int64_t)r->keys[first + i] - (int64_t)items[i];
        if (!is_unsure(r, first + i) || by == 0)
            continue;
        all += by;
        record_recount(d, g, 0, first + i, by);
    }
    if (all != 0)
        record_recount(d, g, 0, -1, all);
    return record_write(d, e);
}

/* The shards hold what was read, and what they were said to hold is gone. */
static enum err count_keys(struct refill *r, struct error *e)
{
    enum err code = ERR_OK;
    for (uint32_t first = 0; first < shards_of(r) && code == ERR_OK; first += COUNTS_PER_SCRIPT) {
        uint32_t rest = shards_of(r) - first;
        code = count_some(r, first, rest < COUNTS_PER_SCRIPT ? rest : COUNTS_PER_SCRIPT, e);
    }
    return code;
}

/* --- the end --- */

/* *@whole: all that is unsure lies where it lay when it was filled, on masters that are trusted. */
static enum err look_again(struct refill *r, bool *whole, struct error *e)
{
    struct driver *d = r->d;
    struct lineages after;
    lineages_init(&after);
    *whole = !r->again;
    enum err code = find_lost(r, e);
    for (uint32_t i = 0; code == ERR_OK && i < shards_of(r); i++)
        *whole &= !r->lost[i] || !is_unsure(r, i);
    if (code == ERR_OK)
        code = driver_reload_trusted(d, e);
    if (code == ERR_OK)
        code = fence_lineages(&d->fence, &d->view, &after, e);
    *whole &= code == ERR_OK && lineages_equal(&r->now, &after) && !driver_suspects_any(d, &after);
    lineages_fini(&after);
    return code;
}

static enum err write_refilled(struct refill *r, struct error *e)
{
    struct driver *d = r->d;
    double seconds = (double)(clock_mono_us() - d->refill.began) / 1e6;
    enum err code = count_keys(r, e);
    if (code != ERR_OK)
        return code;
    record_begin(d, false);
    record_number(d, "refill_shards", d->view.unsure.count);
    record_number(d, "refill_rows", d->refill.rows);
    record_decimal(d, "refill_seconds", seconds);
    record_decimal(d, "refill_eta_seconds", 0);
    record_number(d, "healed_ms", clock_wall_us() / 1000);
    if (d->record.complete_generation != 0)
        record_complete(d);
    log_info("repaired",
             "filter=%s epoch=%" PRIu64 " shards=%" PRIu32 " rows=%" PRIu64 " swept_rows=%" PRIu64
             " duration_ms=%.3f",
             log_quote(d->o->filter), d->view.epoch, d->view.unsure.count, d->refill.rows, r->swept,
             seconds * 1e3);
    return record_write(d, e);
}

static enum err fill(struct refill *r, struct error *e)
{
    bool whole = false;
    r->again = false;
    r->swept = 0;
    for (uint32_t i = 0; i < shards_of(r); i++)
        r->keys[i] = 0;
    enum err code = read_all(r, e);
    if (code == ERR_LOST) { /* one is lost again */
        r->again = true;
        code = ERR_OK;
    }
    if (code == ERR_OK)
        code = look_again(r, &whole, e);
    if (code == ERR_OK && whole)
        code = write_refilled(r, e);
    return code == ERR_OK && whole ? fence_sure(&r->d->fence, &r->d->view, mutex_value(r->d->mutex), e)
                                   : code;
}

/* --- the step --- */

/* A job that was begun for something else as well is not in vain. */
static enum err refuse(struct refill *r, enum err why, struct error *e)
{
    log_warn("repair_failed", "filter=%s code=%s error=%s", log_quote(r->d->o->filter), error_name(why),
             log_quote(e->text));
    return strcmp(r->d->o->trigger, REFILL_TRIGGER) == 0 ? ERR_CONFLICT : ERR_OK;
}

/* Until a look finds none that is lost, nor any that is unsure. */
static enum err refill_in_rounds(struct refill *r, struct error *e)
{
    for (int round = 0; round < ROUNDS; round++) {
        enum err code = note_masters(r, e);
        if (code == ERR_OK)
            code = find_lost(r, e);
        if (code == ERR_OK && r->lost_count > 0 && (code = give_up_lost(r, e)) == ERR_CONFLICT)
            return refuse(r, code, e);
        if (code != ERR_OK || view_unsure(&r->d->view) == 0)
            return code;
        code = fill(r, e);
        if (code != ERR_OK)
            return code;
    }
    return error_set(e, ERR_TIMEOUT, "shards are lost faster than they can be repaired");
}

enum err driver_refill(struct driver *d, struct error *e)
{
    uint64_t lost;
    struct refill r = {.d = d};
    enum err code = fence_complete(&d->fence, &d->view, &lost, e);
    if (code != ERR_OK || d->view.phase != PHASE_STEADY || !d->o->sourced || !view_current(&d->view)->built)
        return code;
    lineages_init(&r.now);
    r.lost = calloc(shards_of(&r), sizeof(*r.lost));
    r.keys = calloc(shards_of(&r), sizeof(*r.keys));
    code =
        r.lost == NULL || r.keys == NULL ? error_set(e, ERR_NOMEM, "out of memory") : refill_in_rounds(&r, e);
    lineages_fini(&r.now);
    free(r.lost);
    free(r.keys);
    d->refill.began = 0;
    return code;
}
