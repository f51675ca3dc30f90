/* SPDX-License-Identifier: MIT */
/* The status of a filter: what only the control knows is noted after each of its calls, the rest is read on
 * request. */
#include "shard/control/control_internal.h"

#include <stdio.h>
#include <string.h>

const char *log_filter_state_name(enum log_filter_state state)
{
    static const char *const names[] = {
        [FILTER_OPENING] = "opening", [FILTER_OPEN] = "open", [FILTER_CLOSED] = "closed"};
    return names[state];
}

static void copy(char out[LEASE_TEXT_MAX], const char *text)
{
    (void)snprintf(out, LEASE_TEXT_MAX, "%.*s", LEASE_TEXT_MAX - 1, text);
}

/* --- noted by the control --- */

static void note_lane(struct control *c, unsigned i, struct log_lane_status *out)
{
    const struct log_generation *g = &c->view->slot[c->view->current];
    out->lane = c->view->lane[i];
    out->redis_bytes = c->lane_bytes[i];
    out->folded = (struct log_id){0};
    if (log_view_is_folded(c->view, g, i))
        out->folded = g->folded[i].position.id;
    if (log_id_compare(out->folded, c->folded_to[i]) < 0)
        out->folded = c->folded_to[i];
}

static void note_lost(struct control *c, struct log_status *s)
{
    const struct log_generation *g = &c->view->slot[c->view->current];
    s->remedy = lost_remedy(c->view);
    s->lost = (struct log_lost_status){0};
    if (g->lost.generation != g->shape.number)
        return;
    s->lost.since_ms = g->lost.since_ms;
    s->lost.count = s->lost.named = 1;
    s->lost.shard[0] = g->lost;
    if (c->lost.generation != g->shape.number || c->lost_count == 0)
        return;
    s->lost.count = c->lost_count;
    s->lost.named = c->lost_named;
    memcpy(s->lost.shard, c->lost_shard, sizeof(s->lost.shard));
}

void control_note(struct control *c, enum err code, const struct error *e)
{
    struct log_status *s = &c->noted;
    HOLD(&c->noting);
    s->code = code;
    copy(s->error, e->text);
    s->looks = c->looks;
    s->loads = !c->is_full;
    if (c->version != 0) {
        s->incarnation = c->view->incarnation;
        s->version = c->version;
        s->writers = c->view->writer_count;
        note_lost(c, s);
        s->lanes = c->filter->lanes;
        for (unsigned i = 0; i < s->lanes; i++) {
            note_lane(c, i, &s->lane[i]);
            c->noted_folded[i] = c->per_lane[i].lag.folded;
        }
    }
    s->folder.is_here = lease_is_held(&c->lease);
    (void)snprintf(s->folder.holder, sizeof(s->folder.holder), "%s", c->lease.holder);
    s->folder.report = c->report;
}

/* --- asked for --- */

static void fill_filter(struct log_filter *f, struct log_status *out, struct held *held[2])
{
    (void)pthread_rwlock_rdlock(&f->lock);
    out->state = f->state;
    out->is_missing = f->is_missing;
    copy(out->why, f->state == FILTER_OPEN ? "" : f->why);
    out->adds = f->adds;
    copy(out->why_adds, f->adds == ERR_OK ? "" : f->why_adds);
    out->degraded = f->degraded;
    out->registered = f->registered;
    for (unsigned s = 0; s < 2; s++) {
        held[s] = f->slot[s];
        if (held[s] != NULL)
            held_keep(held[s]);
        out->generation[s].answers = held[s] != NULL && s == f->current;
    }
    (void)pthread_rwlock_unlock(&f->lock);
    out->parked = log_filter_parked(f);
}

static void fill_lane(struct control *c, unsigned i, struct log_lane_status *out)
{
    struct filter_lane *l = &c->filter->lane[i];
    struct lag_count now = control_count(l);
    struct log_position at;
    lane_reader_position(l->reader, &at);
    out->applied = at.id;
    out->lag = lag_unfolded(&(struct lag){.folded = c->noted_folded[i]}, now);
    out->reading = atomic_load(&l->stalled);
    out->kept_entries = own_count(l->own);
}

static void fill_generation(const struct held *h, struct log_generation_status *out)
{
    out->number = h->shape.number;
    out->layers = atomic_load_explicit(&h->resident->layer_count, memory_order_acquire);
    out->counts = h->counts;
    out->keys = out->counts ? held_own_keys(h) : held_keys(h);
    resident_status(h->resident, &out->memory);
}

void control_status(struct control *c, struct log_status *out)
{
    struct held *held[2];
    (void)pthread_mutex_lock(&c->noting);
    *out = c->noted;
    for (unsigned i = 0; i < out->lanes; i++)
        fill_lane(c, i, &out->lane[i]);
    (void)pthread_mutex_unlock(&c->noting);
    fill_filter(c->filter, out, held);
    for (unsigned s = 0; s < 2; s++)
        if (held[s] != NULL) {
            fill_generation(held[s], &out->generation[s]);
            held_drop(held[s]);
        }
}

bool log_filter_shards(struct log_filter *f, uint64_t generation, resident_shard_fn *fn, void *arg)
{
    struct held *h = NULL;
    (void)pthread_rwlock_rdlock(&f->lock);
    for (unsigned s = 0; s < 2; s++)
        if (f->slot[s] != NULL && f->slot[s]->shape.number == generation)
            h = f->slot[s];
    if (h != NULL)
        held_keep(h);
    (void)pthread_rwlock_unlock(&f->lock);
    if (h == NULL)
        return false;
    resident_shards(h->resident, fn, arg);
    held_drop(h);
    return true;
}
