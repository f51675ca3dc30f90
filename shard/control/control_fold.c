/* SPDX-License-Identifier: MIT */
#include "shard/control/control_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/log/lane_sync.h"
#include "shard/view/shards.h"

enum { MEASURE_US = 1000 * 1000, FOLD_FAILURES_MAX = 8, LOST_AGAIN_US = 100 * 1000 };

void control_stop_folding_of(struct control *c, unsigned slot)
{
    struct folding *g = &c->folding[slot];
    if (g->held == NULL)
        return;
    folder_fini(&g->folder);
    held_drop(g->held);
    g->held = NULL;
}

void control_stop_folding(struct control *c)
{
    for (unsigned s = 0; s < 2; s++)
        control_stop_folding_of(c, s);
}

struct lag_count control_count(const struct filter_lane *l)
{
    return (struct lag_count){.entries = atomic_load(&l->entries), .bytes = atomic_load(&l->bytes)};
}

/* --- folding --- */

struct tail_wait {
    unsigned under_way;
    enum err code;
    struct error *e;
};

struct tail_asked {
    struct lane_request request;
    struct tail_wait *wait;
    bool is_told;
};

static void on_tail(void *arg, const struct lane_result *result)
{
    struct tail_asked *asked = arg;
    struct tail_wait *w = asked->wait;
    asked->is_told = true;
    w->under_way--;
    if (w->code == ERR_OK && result->code != ERR_OK)
        w->code = error_set(w->e, result->code, "%s", result->text);
}

/* A stalled lane is read on only once this thread has mended it, so it is not awaited. */
static bool is_awaited(const struct control *c, const struct tail_asked *asked)
{
    for (unsigned i = 0; i < c->filter->lanes; i++)
        if (!asked[i].is_told && atomic_load(&c->filter->lane[i].stalled) == TAIL_COMPLETE)
            return true;
    return false;
}

enum err control_read_tails(void *arg, struct error *e)
{
    struct control *c = arg;
    unsigned lanes = c->filter->lanes;
    struct tail_wait w = {.e = e, .under_way = lanes};
    struct tail_asked *asked = calloc(lanes, sizeof(*asked));
    if (asked == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < lanes; i++) {
        asked[i].wait = &w;
        lane_ask(c->thread->port, c->filter->lane[i].reader, &asked[i].request, on_tail, &asked[i]);
    }
    while (is_awaited(c, asked)) /* the port's tick ends each wait */
        (void)event_base_loop(c->thread->base, EVLOOP_ONCE);
    if (w.under_way > 0 && w.code == ERR_OK)
        w.code = error_set(e, ERR_BUSY, "a lane waits for the view");
    for (unsigned i = 0; i < lanes; i++)
        if (!asked[i].is_told)
            lane_cancel(&asked[i].request);
    lane_port_rest(c->thread->port);
    free(asked);
    return w.code;
}

/* ERR_BUSY: another process has the lease by now. */
enum err control_tend_writing(void *arg, struct error *e)
{
    struct control *c = arg;
    enum err code = ERR_OK;
    if (c->lease.until != 0 && clock_mono_us() >= c->lease.again)
        code = lease_take(&c->lease, &c->report, e);
    return code == ERR_BUSY ? code : control_answer_doubt(c, e);
}

/* If all is whole in memory, each entry was counted when it was applied. */
static bool count_ahead(void *arg, const struct folder *folder, struct log_counted *at, unsigned lanes,
                        uint64_t *keys)
{
    struct control *c = arg;
    const struct held *h = c->folding[folder->fold.slot].held;
    bool known = h->counts;
    *keys = h->keys + h->resident->folded_keys;
    for (unsigned i = 0; i < lanes; i++) {
        struct log_position position;
        lane_reader_hold(c->filter->lane[i].reader, &position);
        at[i] = (struct log_counted){c->lane[i], position.id};
        *keys += h->resident->keys[i];
        known &= log_id_compare(position.id, h->resident->applied[i]) == 0;
        lane_reader_let_go(c->filter->lane[i].reader);
    }
    return known;
}

/* What was written counts on servers that were looked at. The address of a node may lead to another one for
 * less time than is between two looks: then it is missing when the address leads back. A former master of a
 * cluster may take writes, though its replica has taken its place, and the last look has found that one. */
static enum err check_nodes(void *arg, const struct folder *folder, struct error *e)
{
    struct control *c = arg;
    struct trusted now = {0};
    bool is_cluster = sync_client_nodes(c->redis)->cluster != NULL;
    enum err code = is_cluster ? shards_eras_asked(c->redis, &now, e)
                               : shards_eras(c->redis, &c->filter->names, folder->fold.shape, &now, e);
    for (unsigned i = 0; i < now.count && code == ERR_OK; i++)
        if (!trusted_contains(c->eras.now, now.id[i]) &&
            (is_cluster || !trusted_contains(&c->view->eras, now.id[i])))
            code = error_set(e, ERR_FENCED, "a node of the shards has another replication id than before");
    if (code == ERR_FENCED) {
        sync_client_doubt_map(c->redis);
        log_filter_look(c->filter);
    }
    return code;
}

enum err control_begin_folding(struct control *c, unsigned slot, struct held *h, struct error *e)
{
    struct folding *g = &c->folding[slot];
    if (g->held == h)
        return ERR_OK;
    control_stop_folding_of(c, slot);
    enum err code = folder_init(&g->folder, c->redis, &c->filter->names, &h->shape, h->resident, e);
    if (code != ERR_OK)
        return code;
    g->folder.tend = control_tend_writing;
    g->folder.catch_up = control_read_tails;
    g->folder.count = count_ahead;
    g->folder.check = check_nodes;
    g->folder.tend_arg = c;
    held_keep(h);
    g->held = h;
    if (slot != c->view->current)
        return ERR_OK;
    for (unsigned i = 0; i < c->filter->lanes; i++)
        retain_init(&c->per_lane[i].retain, c->retain_us, log_retain_bytes(c->log_max),
                    atomic_load(&c->filter->lane[i].bytes));
    return ERR_OK;
}

/* --- how long the lanes are --- */

/* Refuse adds while a lane has no room; checks go on. */
static void refuse_adds(struct control *c)
{
    struct log_filter *f = c->filter;
    bool full = false;
    for (unsigned i = 0; i < f->lanes; i++)
        full |= log_is_full(c->lane_bytes[i], c->log_max);
    if (full == (f->adds != ERR_OK))
        return;
    (void)pthread_rwlock_wrlock(&f->lock);
    f->adds = full ? ERR_NOMEM : ERR_OK;
    (void)snprintf(f->why_adds, sizeof(f->why_adds),
                   "the filter's log has %" PRIu64
                   " bytes, and is not folded into the shards: nothing is added "
                   "until it is",
                   c->log_max);
    (void)pthread_rwlock_unlock(&f->lock);
    log_filter_changed(f);
}

/* Trim a lane to @keep (NULL: not at all), and note its length. */
static enum err trim(struct control *c, unsigned i, const struct log_mark *keep, struct error *e)
{
    struct lane_trimmed trimmed;
    enum err code = lane_trim(c->redis, &c->per_lane[i].stream, keep, &trimmed, e);
    if (code != ERR_OK)
        return code;
    c->lane_bytes[i] = trimmed.bytes;
    if (keep != NULL)
        retain_trimmed(&c->per_lane[i].retain, keep);
    return ERR_OK;
}

/* Only a process that may append, and has met entries since, or that already refuses adds, needs to know the
 * length. */
static enum err measure(struct control *c, struct error *e)
{
    enum err code = ERR_OK;
    uint64_t now = clock_mono_us();
    uint64_t entries = 0;
    for (unsigned i = 0; i < c->filter->lanes; i++)
        entries += control_count(&c->filter->lane[i]).entries;
    if (c->filter->adds == ERR_OK && (!c->filter->registered || entries == c->measured_entries))
        return ERR_OK;
    if (now - c->measured_at >= MEASURE_US) {
        c->measured_at = now;
        c->measured_entries = entries;
        for (unsigned i = 0; i < c->filter->lanes && code == ERR_OK; i++)
            code = trim(c, i, NULL, e);
        refuse_adds(c);
    }
    if (c->fold_next > c->measured_at + MEASURE_US)
        c->fold_next = c->measured_at + MEASURE_US;
    return code;
}

/* --- one fold --- */

/* Trim a lane to what is not folded, and to what readers that lag behind may need. */
static enum err trim_folded(struct control *c, unsigned i, const struct folder_lane *lane, uint64_t bytes,
                            struct error *e)
{
    uint64_t now = clock_mono_us();
    const struct fold_bound *bound = lane->is_long ? &lane->over_hold : &lane->needed;
    retain_note(&c->per_lane[i].retain, now, bytes, &lane->position);
    return trim(c, i,
                retain_bound(&c->per_lane[i].retain, now, atomic_load(&c->filter->lane[i].bytes), bound), e);
}

/* Note for each lane the position, the layers that had begun there, the keys counted there, and the bytes up
 * to there or less. False: a reader has gone back behind what was applied. */
static bool note_positions(struct control *c, const struct held *h, struct folder_lane *lanes,
                           uint64_t *bytes)
{
    struct log_filter *f = c->filter;
    const struct log_generation *g = &c->view->slot[h->shape.number % 2];
    uint64_t keys = h->keys;
    bool applied = true;
    for (unsigned i = 0; i < f->lanes; i++) {
        lanes[i].number = c->lane[i].number;
        lanes[i].era = c->lane[i].era;
        struct lag_count now = control_count(&f->lane[i]);
        bytes[i] = now.bytes;
        lane_reader_hold(f->lane[i].reader, &lanes[i].position);
        lanes[i].layers = h->resident->begun[i];
        lanes[i].is_long = retain_is_long(c->lane_bytes[i], c->log_max);
        keys += h->resident->keys[i];
        applied &= log_id_compare(lanes[i].position.id, h->resident->applied[i]) == 0;
        lanes[i].is_full = h->full[i].is_marked && !log_view_is_full(c->view, g, i);
        lanes[i].mark = h->full[i].mark;
        lane_reader_let_go(f->lane[i].reader);
        lanes[i].keys = keys;
        lag_note(&c->per_lane[i].lag, lanes[i].position.id, now);
    }
    return applied;
}

/* If another process has folded since this one did, only draw a token: see draw_or_fold(). */
static enum err fold_or_draw(struct control *c, struct folder *f, struct folder_lane *lanes, bool *folded,
                             struct error *e)
{
    uint64_t token = f->fold.token.number;
    bool had_token = f->took_over;
    enum err code = folder_fold(f, lanes, c->filter->lanes, e);
    if (code == ERR_FENCED && had_token) {
        *folded = false;
        code = folder_draw(f, e);
    }
    if (f->fold.token.number != token) /* a new token was drawn, and the view names it */
        log_filter_look(c->filter);
    if (fold_is_lost(code) && f->lost_shard.generation != 0)
        log_filter_lost(c->filter, &f->lost_shard);
    return code;
}

/* *@folded: @lanes and @bytes hold the positions that were folded. */
static enum err fold_one(struct control *c, unsigned slot, struct folder_lane *lanes, uint64_t *bytes,
                         bool *folded, struct error *e)
{
    struct held *h = control_held_of(c, slot);
    enum err code = control_begin_folding(c, slot, h, e);
    c->folding[slot].folder.is_kept = slot != c->view->current;
    for (unsigned i = 0; i < c->filter->lanes && code == ERR_OK; i++)
        c->folding[slot].folder.told[i] = log_view_counted(c->view, &c->view->slot[slot], i);
    *folded = code == ERR_OK && note_positions(c, h, lanes, bytes);
    return *folded ? fold_or_draw(c, &c->folding[slot].folder, lanes, folded, e) : code;
}

/* During its time of grace the former generation may become current again: it gets what is added meanwhile,
 * and the lanes keep what it does not have. It need not be in memory for that. */
static enum err fold_other(struct control *c, struct folder_lane *lanes, struct error *e)
{
    unsigned slot = c->view->current ^ 1;
    uint64_t bytes[LOG_LANES_MAX] = {0};
    bool folded;
    if (!control_is_in_grace(c))
        return ERR_OK;
    if (control_held_of(c, slot) == NULL) {
        struct error why = {""};
        enum err code = control_hold_beside(c, slot, &why); /* it is folded from the next time on */
        return code == ERR_OK || code == ERR_LOST ? ERR_OK : error_set(e, code, "%s", why.text);
    }
    return fold_one(c, slot, lanes, bytes, &folded, e);
}

static enum err fold_with(struct control *c, struct folder_lane *lanes, struct error *e)
{
    struct log_filter *f = c->filter;
    uint64_t bytes[LOG_LANES_MAX] = {0};
    bool folded = false;
    if (control_held_of(c, c->view->current) == NULL) /* it is loaded first */
        return ERR_OK;
    enum err code = control_read_tails(c, e);
    if (code == ERR_OK)
        code = fold_one(c, c->view->current, lanes, bytes, &folded, e);
    if (!folded)
        return code;
    for (unsigned i = 0; i < f->lanes && code == ERR_OK; i++) {
        c->folded_to[i] = lanes[i].position.id;
        control_note_folded(c, i, lanes[i].position.id);
        lag_folded(&c->per_lane[i].lag, c->folded_to[i]);
        code = trim_folded(c, i, &lanes[i], bytes[i], e);
    }
    c->folded_at = clock_mono_us();
    if (code == ERR_OK)
        c->oldest = 0;
    refuse_adds(c);
    return code == ERR_OK ? fold_other(c, lanes, e) : code;
}

enum err control_fold(struct control *c, struct error *e)
{
    struct error why = {""};
    struct folder_lane *lanes = calloc(c->filter->lanes, sizeof(*lanes));
    if (lanes == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = fold_with(c, lanes, &why);
    free(lanes);
    (void)snprintf(c->report.error, sizeof(c->report.error), "%.*s", LEASE_TEXT_MAX - 1, why.text);
    if (code != ERR_OK)
        return error_set(e, code, "%s", why.text);
    c->report.folds++;
    c->report.folded_ms = clock_wall_us() / 1000;
    return ERR_OK;
}

/* --- when, and by whom --- */

void control_begin_lag(struct control *c)
{
    for (unsigned i = 0; i < c->filter->lanes; i++)
        lag_begin(&c->per_lane[i].lag, control_count(&c->filter->lane[i]));
    memset(c->folded_to, 0, sizeof(c->folded_to));
    c->is_behind = true;
}

/* True if the former generation, which may become current again, lacks entries that the current one has. */
static bool other_is_behind(const struct control *c, unsigned lane)
{
    const struct log_generation *g = &c->view->slot[c->view->current],
                                *other = &c->view->slot[c->view->current ^ 1];
    return control_is_in_grace(c) && log_view_is_folded(c->view, g, lane) &&
           log_view_is_folded(c->view, other, lane) &&
           log_id_compare(other->folded[lane].position.id, g->folded[lane].position.id) < 0;
}

/* Note what is not folded, for all lanes together. */
static struct due_facts note_lag(struct control *c, uint64_t now)
{
    const struct log_generation *g = &c->view->slot[c->view->current];
    struct due_facts facts = {.last = c->folded_at, .log_max = c->log_max, .interval = c->fold_interval_us};
    for (unsigned i = 0; i < c->filter->lanes; i++) {
        struct lag_count count = control_count(&c->filter->lane[i]);
        lane_reader_position(c->filter->lane[i].reader, &c->position[i]);
        lag_note(&c->per_lane[i].lag, c->position[i].id, count);
        if (log_view_is_folded(c->view, g, i))
            lag_folded(&c->per_lane[i].lag, g->folded[i].position.id);
        facts.unfolded_bytes += lag_unfolded(&c->per_lane[i].lag, count).bytes + other_is_behind(c, i);
    }
    if (facts.unfolded_bytes == 0)
        c->oldest = 0;
    else if (c->oldest == 0)
        c->oldest = now;
    facts.oldest = c->oldest;
    return facts;
}

/* Take the lease, or renew it, when that is due. *@held: this process has it. */
static enum err tend_lease(struct control *c, bool *held, struct error *e)
{
    enum err code = clock_mono_us() >= c->lease.again ? lease_take(&c->lease, &c->report, e) : ERR_OK;
    *held = lease_is_held(&c->lease);
    return code == ERR_BUSY ? ERR_OK : code;
}

static bool own_much(const struct log_filter *f)
{
    bool much = false;
    for (unsigned i = 0; i < f->lanes; i++)
        much |= f->lane[i].own != NULL && own_bytes(f->lane[i].own) >= DUE_SOME_BYTES;
    return much;
}

/* Fold. A new token is drawn a turn before it is entered into the shards, so that this process reads the view
 * in between. */
static enum err draw_or_fold(struct control *c, struct error *e)
{
    unsigned slot = c->view->current;
    struct folder *f = &c->folding[slot].folder;
    struct held *h = control_held_of(c, slot);
    if (h == NULL)
        return control_fold(c, e);
    enum err code = control_begin_folding(c, slot, h, e);
    if (code == ERR_OK && (f->took_over || f->drew))
        return control_fold(c, e);
    if (code == ERR_OK)
        code = folder_draw(f, e);
    log_filter_look(c->filter);
    return code;
}

/* A process that fails again and again gives the lease back, so that others can try. */
static enum err fold_now(struct control *c, struct error *e)
{
    enum err code = draw_or_fold(c, e);
    if (code == ERR_BUSY) /* another process has the lease by now, and folds */
        return ERR_OK;
    if (code == ERR_OK && own_much(c->filter)) /* what was folded is forgotten by the view */
        log_filter_look(c->filter);
    c->fold_failures = code == ERR_OK || fold_is_lost(code) ? 0 : c->fold_failures + 1;
    if (c->fold_failures < FOLD_FAILURES_MAX)
        return code;
    c->fold_failures = 0;
    lease_give_back(&c->lease);
    c->lease.again = clock_mono_us() + (uint64_t)c->lease.ttl_ms * 1000;
    return code;
}

static bool doubts_one(const struct control *c)
{
    bool awaited = false;
    for (unsigned i = 0; i < c->view->writer_count; i++)
        awaited |= c->view->writer[i].in_doubt;
    return awaited;
}

static enum err fold_as_due(struct control *c, struct error *e)
{
    uint64_t now = clock_mono_us();
    bool held = lease_is_held(&c->lease);
    /* reasons: what others have added; removals that must be folded; what the readers went back behind */
    bool reads = held || c->removal.begun || (c->folds && c->is_behind);
    enum err code = reads ? control_read_tails(c, e) : ERR_OK;
    if (code != ERR_OK)
        return code;
    c->is_behind &= !reads;
    struct due_facts facts = note_lag(c, now);
    uint64_t due = facts.unfolded_bytes > 0 && c->leaves ? now : fold_due(&facts);
    bool is_awaited = doubts_one(c) || atomic_load(&c->filter->wants_fold);
    if (facts.unfolded_bytes > 0 && is_awaited && due > c->folded_at + DUE_LEAST_US)
        due = c->folded_at + DUE_LEAST_US;
    c->fold_next = DUE_NEVER;
    if (!c->folds)
        return ERR_OK;
    if (facts.unfolded_bytes > 0)
        c->active_at = now;
    else if (held && now - c->active_at >= (uint64_t)c->lease.ttl_ms * 1000) {
        lease_give_back(&c->lease);
        held = false;
    }
    if (held || due <= now)
        code = tend_lease(c, &held, e);
    if (code == ERR_OK && held && due <= now)
        code = fold_now(c, e);
    if (held)
        c->fold_next = fold_look(&facts, now);
    else if (due != DUE_NEVER)
        c->fold_next = due > c->lease.again ? due : c->lease.again;
    return code;
}

enum err control_fold_if_due(struct control *c, struct error *e)
{
    if (control_waits_for_shards(c)) {
        c->fold_next = clock_mono_us() + LOST_AGAIN_US;
        return measure(c, e);
    }
    enum err code = fold_as_due(c, e);
    return code == ERR_OK ? measure(c, e) : code;
}
