/* SPDX-License-Identifier: MIT */
/* The generations of the view that this process holds. */
#include "shard/control/control_internal.h"

#include <string.h>
#include "shard/generations/grace.h"
#include "shard/log/lane_sync.h"

/* --- holding a generation --- */

enum err control_base_of(const struct control *c, unsigned slot, struct log_position *at, struct error *e)
{
    const struct log_generation *g = &c->view->slot[slot];
    for (unsigned i = 0; i < c->view->lane_count; i++) {
        if (!log_view_is_folded(c->view, g, i))
            return error_set(e, ERR_LOST, "lane %u was replaced, and the shards may lack what it had", i);
        at[i] = g->folded[i].position;
    }
    return ERR_OK;
}

/* Take the earlier position of each lane. */
static void take_earlier(struct log_position *at, const struct log_position *other, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (log_id_compare(other[i].id, at[i].id) < 0)
            at[i] = other[i];
}

/* True if the view has the layers that memory has, and maybe more. If not, the view went back. */
static bool has_its_layers(const struct generation *shape, const struct held *h)
{
    bool has = h->shape.layer_count <= shape->layer_count;
    for (unsigned l = 0; l < h->shape.layer_count && has; l++)
        has = h->shape.layers[l].token == shape->layers[l].token;
    return has;
}

struct held *control_held_of(const struct control *c, unsigned slot)
{
    const struct generation *shape = &c->view->slot[slot].shape;
    struct held *h = c->filter->slot[slot];
    bool same = h != NULL && h->shape.number == shape->number && h->shape.seed == shape->seed;
    return same && !atomic_load(&h->replaced) && has_its_layers(shape, h) ? h : NULL;
}

static enum err hold(struct control *c, unsigned slot, struct held **out, struct error *e)
{
    return held_new(out, c->view, slot, &c->filter->names, c->filter->nodes, c->filter->budget, e);
}

/* Add the view's layers that memory lacks. */
static enum err add_layers(struct control *c, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned s = 0; s < 2 && code == ERR_OK; s++)
        if (control_held_of(c, s) != NULL)
            code = held_add_layers(c->filter->slot[s], c->view, s, &c->filter->names, e);
    return code;
}

/* A generation that is not built lacks what its source has. A build heals the generation that it has made;
 * until this process answers from that one, a filter that lacked keys still lacks them. Under the filter's
 * lock. */
static void take_degraded(struct control *c)
{
    struct log_filter *f = c->filter;
    bool is_before = f->current != c->view->current;
    bool is_built = c->view->slot[c->view->current].shape.built;
    log_filter_set_degraded(f, c->view->degraded || !is_built || (f->degraded && is_before));
}

/* The generation in @slot, which the view does not read, has a position that was trimmed out of @lane: the
 * view went back. Nobody needs it but for a rollback. */
static enum err end_grace(struct control *c, unsigned slot, unsigned lane, struct error *e)
{
    log_filter_look(c->filter);
    return grace_end(c->redis, &c->filter->names, c->view, slot, lane, e);
}

/* The lane in whose gap the reader stands because of the generation in @slot only, whose positions are in
 * c->position, and those of the current one in c->at. The number of lanes: there is none. */
static unsigned gap_of(const struct control *c)
{
    for (unsigned i = 0; i < c->filter->lanes; i++) {
        struct log_position at;
        lane_reader_position(c->filter->lane[i].reader, &at);
        if (atomic_load(&c->filter->lane[i].stalled) == TAIL_GAP &&
            log_id_compare(at.id, c->position[i].id) == 0 && log_id_compare(at.id, c->at[i].id) < 0)
            return i;
    }
    return c->filter->lanes;
}

/* Hold the view's generations again: those that this process holds are read again, others are dropped. The
 * current one is always held. */
enum err control_hold_again(struct control *c, bool stays, struct error *e)
{
    struct log_filter *f = c->filter;
    unsigned current = c->view->current, other = current ^ 1;
    struct held *fresh = NULL, *old[2] = {NULL, NULL};
    bool both = control_held_of(c, other) != NULL && control_base_of(c, other, c->position, e) == ERR_OK;
    unsigned gap = both ? gap_of(c) : f->lanes;
    both &= gap == f->lanes;
    enum err code = gap < f->lanes ? end_grace(c, other, gap, e) : ERR_OK;
    if (code == ERR_OK && control_held_of(c, current) == NULL)
        code = hold(c, current, &fresh, e);
    if (code == ERR_OK)
        code = add_layers(c, e);
    if (code != ERR_OK) {
        held_drop(fresh);
        return code;
    }
    if (both)
        take_earlier(c->at, c->position, c->view->lane_count);
    (void)pthread_rwlock_wrlock(&f->lock);
    if (fresh != NULL) {
        old[0] = f->slot[current];
        f->slot[current] = fresh;
    }
    if (!both) {
        old[1] = f->slot[other];
        f->slot[other] = NULL;
        f->current = current;
    }
    atomic_store(&f->term, 0);
    for (unsigned s = 0; s < 2; s++)
        if (f->slot[s] != NULL) {
            uint64_t keys = held_own_keys(f->slot[s]);
            f->slot[s]->doubtful |= f->slot[s] != fresh && !stays;
            f->slot[s]->stale |= f->slot[s] != fresh;
            resident_rebase(f->slot[s]->resident);
            held_begin(f->slot[s], c->view, s);
            held_keep_keys(f->slot[s], keys);
            held_take_view(f->slot[s], c->view, s);
        }
    f->seed = c->view->seed;
    take_degraded(c);
    f->state = FILTER_OPEN;
    atomic_store(&f->is_closed, false);
    (void)pthread_rwlock_unlock(&f->lock);
    held_drop(old[0]);
    held_drop(old[1]);
    return ERR_OK;
}

/* --- generations --- */

struct catching_up {
    struct held *held;
    unsigned lane;
    struct log_id most;
    struct lag_count applied;
};

static enum err apply_to_one(void *arg, const struct tail_record *record, struct error *e)
{
    struct catching_up *up = arg;
    struct held_entry entry;
    uint8_t added[LOG_KEYS_MAX];
    bool was;
    if (log_id_compare(record->id, up->most) > 0)
        return error_set(e, ERR_BUSY, "the reader is not there yet");
    held_entry(&entry, up->lane, record);
    enum err code = held_apply(up->held, &entry, added, &was, e);
    up->applied.entries += code == ERR_OK;
    up->applied.bytes += code == ERR_OK ? record->length : 0;
    return code;
}

/* Apply to @h, which no other thread has yet, what the readers have applied behind its base; c->at moves with
 * it. So the readers have to go back only a little, while requests wait for them. If a lane cannot be read
 * on, the readers will meet that. Never apply more than the readers have: a generation that did not have the
 * entry when the reader met it says whether a key is new, and the generation that is current now may be
 * dropped before. *@gap: a lane that was trimmed past the base; the number of lanes: none was. */
static enum err catch_up(struct control *c, struct held *h, struct lag_count *applied, unsigned *gap,
                         struct error *e)
{
    enum err code = ERR_OK;
    *gap = c->filter->lanes;
    for (unsigned i = 0; i < c->filter->lanes && code == ERR_OK; i++) {
        struct catching_up up = {.held = h, .lane = i};
        enum tail_state state = TAIL_MORE;
        while (code == ERR_OK && state == TAIL_MORE) {
            lane_reader_position(c->filter->lane[i].reader, &c->position[i]);
            up.most = c->position[i].id;
            code = lane_read(c->redis, &c->per_lane[i].stream, &c->at[i], apply_to_one, &up, &state, e);
        }
        if (code == ERR_BUSY || code == ERR_FENCED) /* BUSY: the reader has come no further; FENCED: a layer
                                                       begins that the view does not have */
            code = ERR_OK;
        if (state == TAIL_GAP)
            *gap = i;
        applied[i] = up.applied;
    }
    return code;
}

enum err control_hold_beside(struct control *c, unsigned slot, struct error *e)
{
    struct log_filter *f = c->filter;
    struct held *h, *old;
    struct lag_count applied[LOG_LANES_MAX] = {{0}};
    unsigned gap = f->lanes;
    enum err code = control_base_of(c, slot, c->at, e);
    if (code == ERR_OK)
        code = hold(c, slot, &h, e);
    if (code != ERR_OK)
        return code;
    code = catch_up(c, h, applied, &gap, e);
    if (code == ERR_OK && gap < f->lanes && slot != c->view->current) {
        held_drop(h);
        return end_grace(c, slot, gap, e);
    }
    if (code != ERR_OK) {
        held_drop(h);
        return code;
    }
    control_stop_readers(c);
    (void)pthread_rwlock_wrlock(&f->lock);
    old = f->slot[slot];
    f->slot[slot] = h;
    atomic_store(&f->term, 0);
    (void)pthread_rwlock_unlock(&f->lock);
    held_drop(old);
    for (unsigned i = 0; i < f->lanes; i++)
        lane_reader_position(f->lane[i].reader, &c->position[i]);
    take_earlier(c->at, c->position, f->lanes);
    control_begin_lag(c);
    for (unsigned i = 0; i < f->lanes; i++) { /* none of that is known to be folded */
        atomic_fetch_add(&f->lane[i].entries, applied[i].entries);
        atomic_fetch_add(&f->lane[i].bytes, applied[i].bytes);
    }
    control_move_readers(c, lane_reader_go_back);
    return ERR_OK;
}

/* Nothing is known of another generation, and there is one lane: of several each is folded by itself, and a
 * key's bits may be those of keys of another one. A notice that was met since the view was loaded may tell of
 * a generation. */
static bool is_alone(const struct control *c)
{
    const struct log_filter *f = c->filter;
    const struct log_view *v = c->view;
    const struct held *h = f->slot[f->current];
    return v->lane_count == 1 && v->slot[v->current ^ 1].shape.number == 0 && !v->degraded &&
           f->slot[f->current ^ 1] == NULL && h != NULL && !h->stale &&
           h->shape.number == v->slot[v->current].shape.number && atomic_load(&f->notices) == c->notices;
}

void control_tell_term(struct control *c)
{
    struct log_filter *f = c->filter;
    if (is_alone(c) == (atomic_load(&f->term) != 0))
        return;
    (void)pthread_rwlock_wrlock(&f->lock); /* no entry is applied meanwhile */
    atomic_store(&f->term, is_alone(c) ? ++c->terms : 0);
    (void)pthread_rwlock_unlock(&f->lock);
}

bool control_is_in_grace(const struct control *c)
{
    const struct generation *other = &c->view->slot[c->view->current ^ 1].shape;
    return other->number != 0 && other->built;
}

uint64_t control_missing_shards(const struct held *h)
{
    struct resident_status s;
    resident_status(h->resident, &s);
    return s.shards - s.resident;
}

/* Answer from the view's generation, now that its shards are in memory, or as many as there is room for. */
static void answer_from(struct control *c, unsigned slot)
{
    struct log_filter *f = c->filter;
    struct held *old = f->slot[slot ^ 1];
    (void)pthread_rwlock_wrlock(&f->lock);
    f->current = slot;
    f->slot[slot ^ 1] = NULL;
    atomic_store(&f->term, 0);
    take_degraded(c);
    (void)pthread_rwlock_unlock(&f->lock);
    control_stop_folding_of(c, slot ^ 1); /* the other folder keeps its token */
    held_drop(old);
    log_filter_changed(f);
}

/* Entries before `folded` need not be kept for shards that are not in memory. */
static void tell_folded(const struct control *c)
{
    for (unsigned s = 0; s < 2; s++)
        if (control_held_of(c, s) != NULL)
            held_tell_folded(c->filter->slot[s], c->view, s);
}

/* Count from where the view has counted. False: this process does not know what it had counted there. */
static bool count_as_view(struct control *c, struct held *h)
{
    const struct log_generation *g = &c->view->slot[h->shape.number % 2];
    uint64_t counted = 0;
    bool known = true, same = h->counts, behind = false;
    for (unsigned i = 0; i < c->filter->lanes && known; i++) {
        struct log_position unused;
        struct log_id told = log_view_counted(c->view, g, i);
        struct held_count at = {.keys = 0};
        lane_reader_hold(c->filter->lane[i].reader, &unused);
        known = log_view_is_folded(c->view, g, i) && held_counted(h, i, told, &at);
        lane_reader_let_go(c->filter->lane[i].reader);
        counted += at.keys;
        same &= log_id_compare(told, h->from[i]) == 0;
        behind |= log_id_compare(told, h->loaded[i]) < 0;
    }
    if (!known || same)
        return known;
    for (unsigned i = 0; i < c->filter->lanes; i++)
        h->from[i] = log_view_counted(c->view, g, i);
    h->counts = h->counts && !behind; /* Redis has since got more of what came while shards were loading */
    held_count_from(h, g->keys, counted);
    return true;
}

/* The view may have another number of keys. Keys up to its positions that this process has yet to apply are
 * included in it; do not count them twice. */
static void tell_keys(struct control *c, struct held *h)
{
    const struct log_generation *g = &c->view->slot[h->shape.number % 2];
    uint64_t counted = 0;
    bool to_come = false;
    h->told = g->keys;
    if (h->others_of == g->keys)
        return;
    for (unsigned i = 0; i < c->filter->lanes; i++) {
        struct log_position at;
        struct held_count count;
        struct log_id told = log_view_counted(c->view, g, i);
        lane_reader_hold(c->filter->lane[i].reader, &at);
        (void)held_counted(h, i, told, &count);
        to_come |= !log_view_is_folded(c->view, g, i) || log_id_compare(h->resident->applied[i], told) < 0;
        lane_reader_let_go(c->filter->lane[i].reader);
        counted += count.keys + count.pinned;
    }
    if (!to_come)
        held_tell_others(h, g->keys, counted);
}

/* *@same: the stored view has no later count than c->view. So no page of a later count was written before
 * this: a folder stores its count first. */
static enum err counts_are_latest(struct control *c, const struct held *h, bool *same, struct error *e)
{
    struct log_id told[LOG_LANES_MAX] = {{0}};
    unsigned slot = h->shape.number % 2;
    for (unsigned i = 0; i < c->filter->lanes; i++)
        told[i] = log_view_counted(c->view, &c->view->slot[slot], i);
    enum err code = control_read_view(c, e);
    *same = code == ERR_OK && control_lanes_are_as_read(c) && control_held_of(c, c->view->current) == h;
    for (unsigned i = 0; *same && i < c->filter->lanes; i++)
        *same = log_id_compare(told[i], log_view_counted(c->view, &c->view->slot[slot], i)) == 0;
    return code;
}

/* Count the entries that were applied while shards were loading, by what Redis had before them. From then on
 * each entry is counted when it is applied. *@done: false if a folder has written more meanwhile. */
static enum err count_loaded(struct control *c, struct held *h, bool *done, struct error *e)
{
    struct folder folder;
    struct log_id to[LOG_LANES_MAX] = {{0}};
    uint64_t keys = 0;
    *done = false;
    enum err code = folder_init(&folder, c->redis, &c->filter->names, &h->shape, h->resident, e);
    if (code != ERR_OK)
        return code;
    for (unsigned i = 0; i < c->filter->lanes; i++) {
        lane_reader_position(c->filter->lane[i].reader, &c->position[i]);
        to[i] = c->position[i].id;
    }
    code = folder_count(&folder, h->from, to, &keys, e);
    folder_fini(&folder);
    if (code == ERR_OK)
        code = counts_are_latest(c, h, done, e);
    if (code == ERR_OK && !*done)
        log_filter_look(c->filter); /* then the keys are counted again */
    if (code != ERR_OK || !*done)
        return code;
    h->resident->folded_keys += keys;
    memcpy(h->loaded, to, sizeof(h->loaded));
    return ERR_OK;
}

void control_count_loaded(struct control *c)
{
    struct error ignored = {""};
    struct held *h = control_held_of(c, c->view->current);
    bool done = false;
    if (h == NULL || h->counts || control_missing_shards(h) > 0 || !control_lanes_are_as_read(c) ||
        control_read_tails(c, &ignored) != ERR_OK || control_read_view(c, &ignored) != ERR_OK ||
        !control_lanes_are_as_read(c) || control_held_of(c, c->view->current) != h)
        return;
    tell_folded(c);
    h->counts = count_as_view(c, h) && count_loaded(c, h, &done, &ignored) == ERR_OK && done;
}

/* Take over a new view: first its layers; then, if it has changed in what block reads depend on, discard
 * reads under way; at last drop what need not be kept any more. */
static enum err take_view(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    enum err code = add_layers(c, e);
    if (code != ERR_OK)
        return code;
    if (c->is_new) {
        (void)pthread_rwlock_wrlock(&f->lock);
        take_degraded(c);
        for (unsigned s = 0; s < 2; s++)
            if (control_held_of(c, s) != NULL) {
                if (held_reads_otherwise(f->slot[s], c->view, s))
                    resident_discard(f->slot[s]->resident);
                held_take_view(f->slot[s], c->view, s);
            }
        (void)pthread_rwlock_unlock(&f->lock);
        c->is_new = false;
        log_filter_changed(f);
    }
    for (unsigned s = 0; s < 2; s++)
        if (control_held_of(c, s) != NULL) {
            tell_keys(c, f->slot[s]);
            /* The folder itself has told the view its count. For blocks it counts more, and earlier. */
            if (f->slot[s]->counts || !lease_is_held(&c->lease))
                (void)count_as_view(c, f->slot[s]);
        }
    tell_folded(c);
    return ERR_OK;
}

enum err control_take_layers(struct control *c, struct error *e)
{
    bool soon = false;
    enum err code = add_layers(c, e);
    if (code == ERR_OK)
        code = control_resume_lanes(c, &soon, e);
    if (soon)
        log_filter_look(c->filter); /* the view has the layer by now */
    return code;
}

enum err control_follow_generations(struct control *c, bool *soon, struct error *e)
{
    struct log_filter *f = c->filter;
    unsigned slot = c->view->current;
    bool full = false, more = false;
    enum err code = control_held_of(c, slot) == NULL ? control_hold_beside(c, slot, e) : ERR_OK;
    if (code == ERR_OK)
        code = take_view(c, e);
    if (code == ERR_OK)
        code = control_resume_lanes(c, soon, e);
    if (code == ERR_OK)
        code = control_load_some(c, f->slot[slot], &full, &more, e);
    c->is_full = full;
    bool is_over = f->current == slot && f->slot[slot ^ 1] != NULL && !control_is_in_grace(c);
    if (code == ERR_OK && (is_over || (f->current != slot && (full || !more))))
        answer_from(c, slot);
    *soon |= code == ERR_OK && more && !full;
    return code;
}
