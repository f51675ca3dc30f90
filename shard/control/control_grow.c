/* SPDX-License-Identifier: MIT */
/* A generation that is full gets a layer: its shards are made, the view gets it, and then an entry in each
 * lane says where it begins. If the generation does not grow, each lane is marked as full. The process that
 * counts the last key does that, and the folder finishes what another process left undone. Two processes at
 * once do no harm: log_grow() lets one of them through, and the second of two marks of a layer changes
 * nothing. */
#include "shard/control/control_internal.h"

#include <stdlib.h>
#include "base/clock.h"
#include "shard/log/lane_sync.h"
#include "shard/view/view_load.h"

enum { AWAITED_LOOKS = 3 /* of other processes, to wait for a layer */ };

/* A layer of @generation has begun. Returns what this process holds of it, if that lacks the layer. */
static struct held *lacks_layer(const struct control *c, uint64_t generation, unsigned layer)
{
    struct held *h = c->filter->slot[generation % 2];
    bool lacks = h != NULL && h->shape.number == generation && h->shape.layer_count <= layer;
    return lacks ? h : NULL;
}

/* While this process did nothing, the generation got a layer, and then another generation replaced it: the
 * view will never have that layer. This process still answers from the former one, until it has the other.
 * Model: replaced.pml. */
static bool was_replaced(const struct control *c, const struct held *h)
{
    const struct generation *shape = &c->view->slot[h->shape.number % 2].shape;
    return shape->number != h->shape.number || shape->seed != h->shape.seed;
}

/* No layer can be added: adds that wait for room go on without it. */
static enum err refused(struct control *c, struct held *h, enum err code)
{
    atomic_fetch_add(&h->refusals, 1);
    log_filter_changed(c->filter);
    return code;
}

/* If that fails, the generation takes more keys than it was planned for: those of the waiting adds. */
static enum err add_layer(struct control *c, struct held *h, bool *soon, struct error *e)
{
    struct log_view *v = malloc(sizeof(*v));
    enum err code = v == NULL
                        ? error_set(e, ERR_NOMEM, "out of memory")
                        : log_grow(c->redis, &c->filter->names, h->shape.number, h->shape.layer_count, v, e);
    free(v);
    control_stop_folding(c); /* the grower was the writer meanwhile */
    *soon = code == ERR_OK;
    if (code == ERR_OK) {
        c->grew = h->shape.number;
        atomic_store(&c->filter->wants_look, true); /* requests wait for the layer */
    }
    if (code == ERR_CONFLICT) /* another process makes the layer */
        return ERR_OK;
    return code == ERR_OK ? ERR_OK : refused(c, h, code);
}

/* A layer has begun that the view does not have: the view went back. Processes that know the layer put it
 * back, and are told to look. If none does, make another one. */
static enum err add_lacking(struct control *c, struct held *h, bool *soon, struct error *e)
{
    uint64_t now = clock_mono_us();
    if (c->awaited_since == 0) {
        c->awaited_since = now;
        log_view_notify(c->redis, &c->filter->names);
    }
    if (now - c->awaited_since < AWAITED_LOOKS * c->look_interval_us)
        return error_set(e, ERR_BUSY, "a layer has begun that the view does not have: the view went back");
    c->awaited_since = 0;
    return add_layer(c, h, soon, e);
}

enum err control_put_back_layers(struct control *c, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned s = 0; s < 2 && code == ERR_OK; s++) {
        const struct held *h = c->filter->slot[s];
        const struct generation *shape = &c->view->slot[s].shape;
        bool done = false;
        if (h == NULL || !grow_is_behind(shape, &h->shape))
            continue;
        code = log_put_back(c->redis, &c->filter->names, shape, &h->shape, &done, e);
        if (done)
            log_view_notify(c->redis, &c->filter->names);
        if (code == ERR_OK)
            code = control_load_view(c, e);
    }
    return code;
}

enum err control_resume_lanes(struct control *c, bool *soon, struct error *e)
{
    for (unsigned i = 0; i < c->filter->lanes; i++) {
        struct filter_lane *lane = &c->filter->lane[i];
        if (atomic_load(&lane->stalled) != TAIL_LAYER)
            continue;
        struct held *h = lacks_layer(c, atomic_load(&lane->awaited_of), atomic_load(&lane->awaited));
        if (h != NULL && !was_replaced(c, h))
            return add_lacking(c, h, soon, e);
        if (h != NULL)
            atomic_store(&h->replaced, true);
        atomic_store(&lane->stalled, TAIL_COMPLETE);
        lane_reader_position(lane->reader, &c->position[i]);
        lane_reader_go_back(lane->reader, &c->per_lane[i].stream, &c->position[i]);
    }
    c->awaited_since = 0;
    return ERR_OK;
}

typedef enum err mark_fn(struct control *c, const struct held *h, unsigned lane, struct error *e);

static bool has_begun(const struct held *h, unsigned lane)
{
    return h->resident->begun[lane] == h->shape.layer_count;
}

static enum err mark_layer(struct control *c, const struct held *h, unsigned lane, struct error *e)
{
    if (has_begun(h, lane))
        return ERR_OK;
    return lane_mark_layer(c->redis, &c->per_lane[lane].stream, h->shape.number, h->shape.layer_count - 1, e);
}

static bool have_begun(const struct held *h)
{
    bool all = true;
    for (unsigned i = 0; i < h->resident->lanes; i++)
        all &= has_begun(h, i);
    return all;
}

static enum err mark_full(struct control *c, const struct held *h, unsigned lane, struct error *e)
{
    struct lane_reader *r = c->filter->lane[lane].reader;
    lane_reader_hold(r, &c->position[lane]);
    bool marked = h->full[lane].is_marked;
    lane_reader_let_go(r);
    return marked ? ERR_OK : lane_mark_full(c->redis, &c->per_lane[lane].stream, h->shape.number, e);
}

/* Read what others have appended first; then append the marks that are missing, and meet them. */
static enum err mark(struct control *c, const struct held *h, mark_fn *fn, struct error *e)
{
    enum err code = control_read_tails(c, e);
    for (unsigned i = 0; i < c->filter->lanes && code == ERR_OK; i++)
        code = fn(c, h, i, e);
    return code == ERR_OK ? control_read_tails(c, e) : code;
}

void control_cannot_grow(struct control *c, enum err code)
{
    struct held *h = c->version == 0 ? NULL : control_held_of(c, c->view->current);
    bool is_away = code == ERR_UNREACHABLE || code == ERR_TIMEOUT;
    if (!is_away || h == NULL || h != c->filter->slot[c->filter->current] ||
        atomic_load(&c->filter->waiting) == 0)
        return;
    if (grow_decide(held_keys(h), h->shape.capacity, h->shape.layer_count, h->fixed) == GROW_LAYER)
        (void)refused(c, h, code);
}

enum err control_grow(struct control *c, bool *soon, struct error *e)
{
    struct held *h = control_held_of(c, c->view->current);
    if (h == NULL || h != c->filter->slot[c->filter->current])
        return ERR_OK;
    if (!have_begun(h)) {
        enum err code =
            c->folds || c->grew == h->shape.number ? mark(c, h, mark_layer, e) : control_read_tails(c, e);
        return code == ERR_OK ? ERR_OK : refused(c, h, code);
    }
    switch (grow_decide(held_keys(h), h->shape.capacity, h->shape.layer_count, h->fixed)) {
    case GROW_LAYER: /* adds that may not let the filter grow leave it full */
        return atomic_load(&c->filter->waiting) > 0 ? add_layer(c, h, soon, e) : ERR_OK;
    case GROW_FULL:
        return held_is_full(h) ? ERR_OK : mark(c, h, mark_full, e);
    case GROW_NOTHING:
        h->unbounded = h->shape.layer_count == GENERATION_LAYERS_MAX;
        break;
    }
    return ERR_OK;
}
