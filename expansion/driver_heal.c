/* SPDX-License-Identifier: MIT */
/* Healing: a master has failed over, or was restarted, and may lack what was written last.
 *
 * The happy path is: note who is master, move shards that lie under older names forward, wait for the
 * transactions that are open (what they have added may be among what is lost), find the mark that proves what
 * is there, add the keys of all rows that were written since, see that the masters are still the same, trust
 * them. Possible failure modes are: no mark that proves enough (all rows are compared), nothing of the filter
 * is left on a master (then there is nothing to mend there: tags show what is lost), a master that fails over
 * meanwhile (from the beginning), death at any point (it is not trusted: the next driver begins anew). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "expansion/driver_internal.h"
#include "migrate/moment.h"
#include "shard/marks.h"

enum {
    ROUNDS = 5,   /* of masters that change while they are made whole */
    COMPARES = 20 /* where more keys are missing than one comparison lists */
};

/* --- what is lost --- */

struct heal {
    struct driver *d;
    struct lineages now;
    uint64_t *shards; /* by master of @now: of the filter that are there */
    uint64_t lost;
    uint64_t horizon;
    const char *whole; /* why all rows are compared; NULL: marks tell which */
    struct moment moment;
    uint64_t rows, left_out, fresh[2];
};

/* Generations that requests rely on; the one that is being built is read anew. */
static bool is_relied_on(const struct view *v, unsigned slot)
{
    return v->slot[slot].number != 0 && v->slot[slot].built &&
           (slot == v->current || v->phase == PHASE_SWITCHED);
}

static void count_shard(struct heal *h, const char *node)
{
    for (unsigned i = 0; i < h->now.count; i++)
        h->shards[i] += strcmp(h->now.one[i].node, node) == 0;
}

static enum err recover_layer(struct heal *h, unsigned slot, unsigned layer, struct error *e)
{
    struct driver *d = h->d;
    const struct generation *g = &d->view.slot[slot];
    uint32_t shards = g->layers[layer].geometry.shards;
    uint64_t count = 0;
    struct placement placement;
    uint8_t *lost = calloc(shards, 1);
    if (lost == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = fence_recover(&d->fence, &d->view, g, layer, lost, &count, e);
    if (code == ERR_OK)
        code = placement_resolve(&placement, &d->fence.names, g, d->o->nodes, e);
    for (uint32_t i = 0; code == ERR_OK && i < shards; i++)
        if (!lost[i])
            count_shard(h, link_name(d->link, placement_where(&placement, layer, i)));
    if (code == ERR_OK && is_relied_on(&d->view, slot))
        h->lost += count;
    free(lost);
    return code;
}

static enum err recover(struct heal *h, struct error *e)
{
    const struct view *v = &h->d->view;
    enum err code = ERR_OK;
    free(h->shards);
    h->lost = 0;
    h->shards = calloc(h->now.count + 1, sizeof(*h->shards));
    if (h->shards == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned slot = 0; slot < 2; slot++)
        for (unsigned layer = 0;
             v->slot[slot].number != 0 && layer < v->slot[slot].layer_count && code == ERR_OK; layer++)
            code = recover_layer(h, slot, layer, e);
    return code;
}

/* Where nothing of the filter is left on a master no single bit of it can be missing there. */
static bool needs_mending(const struct heal *h)
{
    bool any = false;
    for (unsigned i = 0; i < h->now.count; i++)
        any |= driver_suspects(h->d, &h->now.one[i]) && h->shards[i] > 0;
    return any && (is_relied_on(&h->d->view, 0) || is_relied_on(&h->d->view, 1));
}

/* --- marks --- */

static bool is_trusted(void *arg, const char *lineage)
{
    const struct driver *d = arg;
    uint64_t id;
    return strlen(lineage) >= LINEAGE_DIGITS && number_hex64(lineage, LINEAGE_DIGITS, &id) &&
           trusted_contains(&d->view.trusted, id);
}

static enum err ask_master(struct heal *h, unsigned i, bool *found, struct error *e)
{
    struct driver *d = h->d;
    struct mark *marks;
    size_t count;
    uint64_t horizon = 0;
    const struct marks_wish wish = {.server = h->moment.server,
                                    .next = h->moment.next,
                                    .after = d->record.complete_at,
                                    .margin_ms = d->o->heal_margin_ms,
                                    .trusted = is_trusted,
                                    .arg = d};
    enum err code = marks_read(d->link, d->o->prefix, i, &marks, &count, e);
    *found = code == ERR_OK && marks_choose(marks, count, &wish, &horizon);
    if (*found && horizon < h->horizon)
        h->horizon = horizon;
    free(marks);
    return code;
}

/* Of the masters that may lack something; the oldest counts. */
static enum err ask_masters(struct heal *h, struct error *e)
{
    unsigned masters = 0;
    enum err code = link_masters(h->d->link, &masters, e);
    for (unsigned i = 0; i < h->now.count && code == ERR_OK && h->whole == NULL; i++) {
        unsigned at = 0;
        bool found = false;
        if (!driver_suspects(h->d, &h->now.one[i]) || h->shards[i] == 0)
            continue;
        while (at < masters &&
               strcmp(link_name(h->d->link, link_master(h->d->link, at)), h->now.one[i].node) != 0)
            at++;
        if (at == masters)
            return error_set(e, ERR_UNREACHABLE, "Redis node %s is no longer a master", h->now.one[i].node);
        code = ask_master(h, at, &found, e);
        if (code == ERR_OK && !found)
            h->whole = "no mark proves what is there";
    }
    return code;
}

static enum err choose(struct heal *h, struct error *e)
{
    struct driver *d = h->d;
    h->whole = NULL;
    h->horizon = UINT64_MAX;
    if (!d->o->sweep)
        h->whole = "sweep = no";
    else if (d->record.complete_generation != view_current(&d->view)->number)
        h->whole = "it is not known since when the generation is complete";
    enum err code = source_moment(d->source, &h->moment, e);
    return code == ERR_OK && h->whole == NULL ? ask_masters(h, e) : code;
}

/* --- adding --- */

static enum err add_one_by_one(struct heal *h, unsigned slot, size_t count, const char *const *keys,
                               const size_t *lengths, uint8_t *found, struct error *e)
{
    struct driver *d = h->d;
    enum err code = ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        code = fence_add(&d->fence, &d->view, &d->view.slot[slot], 1, &keys[i], &lengths[i], &found[i], e);
        if (code == ERR_LOST) {
            h->left_out++;
            found[i] = 1;
            code = ERR_OK;
        }
    }
    return code;
}

/* Keys of lost shards are left out: what makes these anew reads the rows. */
static enum err add_rows(void *arg, size_t count, const char *const *keys, const size_t *lengths,
                         struct error *e)
{
    struct heal *h = arg;
    struct driver *d = h->d;
    uint8_t *found = malloc(count + 1);
    enum err code = ERR_OK;
    if (found == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned slot = 0; slot < 2 && code == ERR_OK; slot++) {
        if (!is_relied_on(&d->view, slot))
            continue;
        code = fence_add(&d->fence, &d->view, &d->view.slot[slot], count, keys, lengths, found, e);
        if (code == ERR_LOST)
            code = add_one_by_one(h, slot, count, keys, lengths, found, e);
        for (size_t i = 0; i < count && code == ERR_OK; i++)
            h->fresh[slot] += found[i] == 0;
    }
    free(found);
    h->rows += count;
    return code;
}

static enum err compare_all(struct heal *h, struct error *e)
{
    struct driver *d = h->d;
    uint64_t identity = 0;
    enum err code = driver_identity(d, &identity, e);
    for (unsigned slot = 0; slot < 2; slot++) {
        struct driver_compared all = {.missing = 1};
        for (int i = 0;
             i < COMPARES && code == ERR_OK && all.missing > all.handed && is_relied_on(&d->view, slot); i++)
            code = driver_compare(d, slot, true, add_rows, h, &all, e);
        if (code == ERR_OK && is_relied_on(&d->view, slot) && all.missing > all.handed)
            code = error_set(e, ERR_CONFLICT, "too many keys of the source are missing: a rebuild is needed");
    }
    return code == ERR_OK ? driver_unchanged(d, identity, e) : code;
}

/* What is committed later was added to the masters that are there now, or is not committed before this ends.
 */
static enum err mend(struct heal *h, struct error *e)
{
    struct driver *d = h->d;
    char horizon[SOURCE_HORIZON_MAX];
    enum err code = driver_source(d, e);
    if (code == ERR_OK)
        code = driver_settle_now(d, e);
    if (code == ERR_OK)
        code = choose(h, e);
    if (code != ERR_OK)
        return driver_source_failed(d, code);
    (void)snprintf(horizon, sizeof(horizon), "%" PRIu64, h->horizon);
    log_info("heal_started", "filter=%s by=%s horizon=%s reason=%s", log_quote(d->o->filter),
             h->whole == NULL ? "marks" : "table", h->whole == NULL ? horizon : "-",
             log_quote(h->whole == NULL ? "" : h->whole));
    if (h->whole != NULL)
        code = compare_all(h, e);
    /* Rows that were changed meanwhile, whose place in the table the comparison may have passed. */
    if (h->whole != NULL)
        (void)snprintf(horizon, sizeof(horizon), "%" PRIu64, h->moment.horizon);
    if (code == ERR_OK && (h->whole == NULL || d->o->sweep))
        code = driver_sweep(d, horizon, add_rows, h, e);
    return driver_source_failed(d, code);
}

/* --- the record --- */

/* Before anything is trusted: what was uploaded to the masters before, and what a catch-up had added, is not
 * relied on by this driver or the next. */
static enum err distrust_record(struct driver *d, struct error *e)
{
    struct record *r = &d->record;
    bool building = d->view.phase == PHASE_BUILDING;
    if (!building && d->view.phase != PHASE_SWITCHED)
        return ERR_OK;
    memcpy(r->swept, r->horizon, sizeof(r->swept));
    record_begin(d, false);
    record_text(d, "swept", r->swept);
    if (building) {
        r->settled = r->scan_ended = false;
        r->generation = 0;
        record_number(d, "generation", 0);
        record_text(d, "settled", "0");
    }
    return record_write(d, e);
}

static enum err write_healed(struct heal *h, struct error *e)
{
    struct driver *d = h->d;
    record_begin(d, false);
    record_number(d, "heal_rows", h->rows);
    record_number(d, "heal_added", h->fresh[0] + h->fresh[1]);
    record_text(d, "heal_by", h->horizon == 0 ? "nothing" : h->whole == NULL ? "marks" : "table");
    record_number(d, "heal_lost", h->lost);
    record_number(d, "healed_ms", clock_wall_us() / 1000);
    if (d->record.complete_generation != 0)
        record_complete(d);
    for (unsigned slot = 0; slot < 2; slot++)
        if (h->fresh[slot] > 0)
            record_count(d, &d->view.slot[slot], generation_written_layer(&d->view.slot[slot]), -1,
                         h->fresh[slot]);
    return record_write(d, e);
}

/* Rows that were added just now may be old: only marks that come after them prove that they are there. */
static enum err note_complete(struct driver *d, struct error *e)
{
    d->record.complete_generation = view_current(&d->view)->number;
    return driver_source_failed(d, source_instant(d->source, &d->record.complete_at, e));
}

/* --- the step --- */

/* *@done: the masters that there were at its beginning are made whole, are still there, and trusted. */
static enum err heal_once(struct heal *h, bool *done, struct error *e)
{
    struct driver *d = h->d;
    struct lineages after;
    lineages_init(&after);
    h->rows = h->left_out = h->fresh[0] = h->fresh[1] = h->horizon = 0;
    enum err code = recover(h, e);
    if (code == ERR_OK && needs_mending(h)) {
        code = mend(h, e);
        if (code == ERR_OK)
            code = note_complete(d, e);
    }
    if (code == ERR_OK)
        code = fence_lineages(&d->fence, &d->view, &after, e);
    *done = code == ERR_OK && lineages_equal(&h->now, &after);
    if (*done)
        code = write_healed(h, e);
    if (*done && code == ERR_OK)
        code = fence_trust(&d->fence, &h->now, mutex_value(d->mutex), e);
    lineages_fini(&after);
    return code;
}

static void say(const struct heal *h, uint64_t began)
{
    log_info("healed",
             "filter=%s by=%s rows=%" PRIu64 " new=%" PRIu64 " skipped=%" PRIu64 " lost_shards=%" PRIu64
             " duration_ms=%.3f",
             log_quote(h->d->o->filter),
             h->horizon == 0    ? "nothing"
             : h->whole == NULL ? "marks"
                                : "table",
             h->rows, h->fresh[0] + h->fresh[1], h->left_out, h->lost,
             (double)(clock_mono_us() - began) / 1e3);
}

static enum err heal_in_rounds(struct heal *h, struct error *e)
{
    struct driver *d = h->d;
    uint64_t began = clock_mono_us();
    for (int round = 0; round < ROUNDS; round++) {
        bool done = false;
        enum err code = fence_lineages(&d->fence, &d->view, &h->now, e);
        if (code == ERR_OK)
            code = driver_reload_trusted(d, e);
        if (code == ERR_OK && !driver_suspects_any(d, &h->now))
            return ERR_OK;
        if (code == ERR_OK && round == 0)
            code = distrust_record(d, e);
        if (code == ERR_OK)
            code = heal_once(h, &done, e);
        if (code != ERR_OK || done) {
            if (code == ERR_OK)
                say(h, began);
            return code == ERR_OK ? driver_reload_trusted(d, e) : code;
        }
    }
    return error_set(e, ERR_TIMEOUT, "masters of Redis change faster than the filter can be healed");
}

enum err driver_heal(struct driver *d, struct error *e)
{
    uint64_t lost;
    struct heal h = {.d = d};
    lineages_init(&h.now);
    enum err code = fence_complete(&d->fence, &d->view, &lost, e);
    if (code == ERR_OK)
        code = heal_in_rounds(&h, e);
    lineages_fini(&h.now);
    free(h.shards);
    return code;
}
