/* SPDX-License-Identifier: MIT */
#include "shard/control/control_internal.h"

#include "base/clock.h"

enum {
    OWN_BYTES_MAX = 64 << 20, /* of a lane: own entries that are not folded yet */
    GAP_GRACES = 3            /* for a process that has the shards in memory, and stores positions again */
};

/* --- the lanes' eras --- */

/* True if the view still has the lane as the readers have it, which cannot read on: nobody has mended it
 * yet. */
static bool is_to_mend(const struct control *c, unsigned i, enum tail_state state)
{
    return atomic_load(&c->filter->lane[i].stalled) == state &&
           c->lane[i].number == c->view->lane[i].number && c->lane[i].era == c->view->lane[i].era;
}

static bool somebody_has_answered(const struct log_view *v, unsigned i)
{
    for (unsigned w = 0; w < v->writer_count; w++)
        for (unsigned k = 0; k < v->writer[w].said_count; k++)
            if (v->writer[w].said[k].lane == i && v->writer[w].said[k].number == v->lane[i].number)
                return true;
    return false;
}

/* A lane that is lost is not there. But the address of its node may lead to another node's server. */
static enum err replace(struct control *c, unsigned i, struct error *e)
{
    enum eras_action ignored;
    bool is_cluster = sync_client_nodes(c->redis)->cluster != NULL; /* slots lead to it */
    enum err code = is_cluster ? ERR_OK : control_look_at_masters(c, &ignored, e);
    return code == ERR_OK ? roll_replace_lane(&c->roll, c->view, i, e) : code;
}

/* The lane's node is in an era that the view does not have: answer, if this process is a writer. The last
 * writer to answer lets the view take the era. */
static enum err call_roll(struct control *c, unsigned i, struct error *e)
{
    struct log_filter *f = c->filter;
    uint64_t era;
    unsigned missing = 0;
    enum err code = ERR_OK;
    if (c->per_lane[i].filter_state.id != 0 && c->per_lane[i].filter_state.id == c->view->lane[i].era) {
        code = roll_take_era(&c->roll, c->view, i, &c->per_lane[i].filter_state, &missing, e);
        if (code == ERR_OK && missing == 0)
            return ERR_OK;
    }
    if (code == ERR_OK && f->registered)
        code = roll_answer(&c->roll, c->view, i, f->lane[i].own, &era, e);
    if (code == ERR_OK)
        code = roll_take_era(&c->roll, c->view, i, NULL, &missing, e);
    if (code == ERR_LOST)
        code = replace(c, i, e);
    if (code == ERR_OK && missing > 0)
        c->waits = WAITS_FOR_LANE;
    if (code == ERR_OK && missing > 0)
        code = error_set(e, ERR_BUSY,
                         "lane %u: its node has another replication id, and %u writers have not answered", i,
                         missing);
    return code;
}

/* The reader began at the view's position, which was trimmed out of the lane: the view went back. A process
 * that has the shards in memory stores a later position again; if none does for a while, there is none. */
static bool is_to_give_up(struct control *c, unsigned i)
{
    struct control_lane *l = &c->per_lane[i];
    struct log_position at;
    const struct log_generation *g = &c->view->slot[c->view->current];
    if (!is_to_mend(c, i, TAIL_GAP) || !log_view_is_folded(c->view, g, i))
        return false;
    lane_reader_position(c->filter->lane[i].reader, &at);
    if (log_id_compare(at.id, g->folded[i].position.id) != 0)
        return false;
    if (l->gap_since == 0 || log_id_compare(l->gap, at.id) != 0) {
        l->gap = at.id;
        l->gap_since = clock_mono_us();
    }
    return clock_mono_us() - l->gap_since >= GAP_GRACES * c->writer_grace_us;
}

/* True if this writer has seen the lane's node under another id: it answers the roll call for which others
 * wait, also if nothing is asked of it, so that its reader has not met that id. */
static bool is_seen_elsewhere(const struct control *c, unsigned i)
{
    uint64_t id = c->per_lane[i].node_id;
    return c->filter->registered && id != 0 && id != c->view->lane[i].era;
}

static enum err mend_lane(struct control *c, unsigned i, bool *changed, struct error *e)
{
    enum err code = ERR_OK;
    *changed = true;
    if (is_to_mend(c, i, TAIL_LOST))
        code = replace(c, i, e);
    else if (is_to_give_up(c, i))
        code = roll_give_up_lane(&c->roll, c->view, i, e);
    else if (is_to_mend(c, i, TAIL_ERA) || c->view->lane[i].era == 0 || somebody_has_answered(c->view, i) ||
             is_seen_elsewhere(c, i))
        code = call_roll(c, i, e);
    else
        *changed = false;
    return code;
}

enum err control_mend_lanes(struct control *c, bool *again, struct error *e)
{
    enum err code = ERR_OK;
    struct error why;
    *again = false;
    for (unsigned i = 0; i < c->view->lane_count; i++) {
        bool changed;
        enum err one = mend_lane(c, i, &changed, &why);
        c->per_lane[i].waits = one != ERR_OK;
        *again |= changed && one == ERR_OK;
        if (one != ERR_OK && (code == ERR_OK || code == ERR_BUSY))
            code = error_set(e, one, "%s", why.text);
        if (one != ERR_OK)
            sync_client_forget(c->redis);
    }
    return code;
}

/* --- reading --- */

/* A lane that waits for a layer is not broken: it goes on where it is. */
static bool is_broken(const struct filter_lane *lane)
{
    unsigned stalled = atomic_load(&lane->stalled);
    return stalled != TAIL_COMPLETE && stalled != TAIL_LAYER;
}

bool control_lanes_are_as_read(const struct control *c)
{
    const struct log_filter *f = c->filter;
    bool same =
        f->state == FILTER_OPEN && c->view->lane_count == f->lanes && c->entered == c->roll.registration;
    for (unsigned i = 0; i < c->view->lane_count && same; i++)
        same = c->per_lane[i].waits || (c->lane[i].number == c->view->lane[i].number &&
                                        c->lane[i].era == c->view->lane[i].era && !is_broken(&f->lane[i]));
    return same;
}

void control_stop_readers(struct control *c)
{
    for (unsigned i = 0; i < c->filter->lanes; i++)
        lane_reader_stop(c->filter->lane[i].reader);
}

void control_move_readers(struct control *c, control_move_fn *move)
{
    struct log_filter *f = c->filter;
    for (unsigned i = 0; i < f->lanes; i++) {
        atomic_store(&f->lane[i].stalled, TAIL_COMPLETE);
        c->lane[i] = c->view->lane[i];
        move(f->lane[i].reader, &c->per_lane[i].stream, &c->at[i]);
    }
}

static enum err make_readers(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    for (unsigned i = f->lanes; i < c->view->lane_count; i++) {
        f->lane[i].reader =
            lane_reader_new(&c->per_lane[i].stream, &c->at[i], f->writer, &log_filter_hooks, &f->lane[i]);
        if (f->lane[i].reader == NULL)
            return error_set(e, ERR_NOMEM, "out of memory");
        lane_reader_keep(f->lane[i].reader, f->lane[i].own);
        f->lanes = i + 1;
    }
    return ERR_OK;
}

/* Make sure that the view's lanes have what this process has appended. The readers are stopped: nothing that
 * they had read before is acknowledged, as this process may have been removed then. A lane in which all was
 * met under this registration is not asked, as its node may be away, which is nothing to the other lanes. Nor
 * is one that waits: what it has read in the view's era is not acknowledged, if it has answered in another
 * one. ERR_FENCED: a lane was replaced, so the view has changed. */
static enum err enter_lanes(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    bool stays = c->entered != 0 && c->entered == c->roll.registration;
    enum err code = ERR_OK;
    for (unsigned i = 0; i < c->view->lane_count && code == ERR_OK; i++) {
        uint64_t era;
        if (f->lane[i].own == NULL && (f->lane[i].own = own_new(OWN_BYTES_MAX)) == NULL)
            return error_set(e, ERR_NOMEM, "out of memory");
        if (stays && c->per_lane[i].waits)
            continue;
        if (own_count(f->lane[i].own) > 0 && !(stays && own_is_in(f->lane[i].own, &c->per_lane[i].stream)))
            code = roll_answer(&c->roll, c->view, i, f->lane[i].own, &era, e);
        if (code == ERR_LOST) { /* nobody has noticed yet, as the readers stand still */
            code = replace(c, i, e);
            return code == ERR_OK ? error_set(e, ERR_FENCED, "lane %u was lost, and is replaced", i) : code;
        }
        if (code == ERR_OK)
            own_enter(f->lane[i].own, &c->per_lane[i].stream);
    }
    for (unsigned i = 0; i < c->view->lane_count && code == ERR_OK; i++)
        own_register(f->lane[i].own, c->roll.registration);
    c->entered = code == ERR_OK ? c->roll.registration : 0;
    return code;
}

/* Read the lanes again, from `folded` of the view. */
static enum err begin_again(struct control *c, struct error *e)
{
    enum err code = control_base_of(c, c->view->current, c->at, e);
    if (code != ERR_OK)
        return code;
    control_stop_folding(c);
    control_stop_readers(c);
    bool stays = c->entered != 0 && c->entered == c->roll.registration;
    code = enter_lanes(c, e);
    if (code == ERR_OK)
        code = make_readers(c, e);
    if (code == ERR_OK)
        code = control_hold_again(c, stays, e);
    if (code != ERR_OK) {
        c->entered = 0; /* the next call is no longer the first under this registration */
        return code;
    }
    for (unsigned i = 0; i < c->filter->lanes; i++)
        own_base(c->filter->lane[i].own, &c->per_lane[i].stream, c->at[i].id);
    control_begin_lag(c);
    control_tell_term(c);
    control_move_readers(c, lane_reader_move);
    log_filter_changed(c->filter);
    return ERR_OK;
}

/* A full mark counts in the era in which the view has it (full.h). Whoever begins under the view's era,
 * behind the mark, does not meet it: so nobody goes on as if it was there. */
static bool keeps_marks(const struct control *c, unsigned lane)
{
    bool keeps = true;
    for (unsigned slot = 0; slot < 2; slot++) {
        const struct held *h = control_held_of(c, slot);
        keeps &=
            h == NULL || !h->full[lane].is_marked || log_view_is_full(c->view, &c->view->slot[slot], lane);
    }
    return keeps;
}

/* *@out: the view's lanes are those that are read, or continue their histories. */
static enum err goes_on(struct control *c, bool *out, struct error *e)
{
    struct log_filter *f = c->filter;
    enum err code = ERR_OK;
    *out = f->state == FILTER_OPEN && c->view->lane_count == f->lanes;
    for (unsigned i = 0; i < c->view->lane_count && *out && code == ERR_OK; i++) {
        unsigned stalled = atomic_load(&f->lane[i].stalled);
        *out = c->lane[i].number == c->view->lane[i].number &&
               (!is_broken(&f->lane[i]) || stalled == TAIL_ERA || stalled == TAIL_NEW);
        if (!*out || c->lane[i].era == c->view->lane[i].era)
            continue;
        *out = c->per_lane[i].filter_state.id == c->lane[i].era && keeps_marks(c, i);
        if (*out)
            code = roll_goes_on(c->redis, &c->per_lane[i].filter_state, c->view->lane[i].era, out, e);
    }
    return code;
}

/* Go on from where the readers are. */
static enum err go_on(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    control_stop_readers(c);
    for (unsigned i = 0; i < f->lanes; i++) {
        struct lane before = c->per_lane[i].stream;
        before.era = c->lane[i].era;
        if (!c->per_lane[i].waits)
            own_go_on(f->lane[i].own, &before, &c->per_lane[i].stream);
        lane_reader_position(f->lane[i].reader, &c->at[i]);
    }
    enum err code = enter_lanes(c, e);
    if (code != ERR_OK)
        return code;
    control_move_readers(c, lane_reader_go_back);
    log_filter_changed(f);
    return ERR_OK;
}

enum err control_read_lanes(struct control *c, struct error *e)
{
    bool is_same;
    enum err code = goes_on(c, &is_same, e);
    if (code != ERR_OK)
        return code;
    return is_same ? go_on(c, e) : begin_again(c, e);
}

/* The id of the lane's node; in a cluster, of the master that has the lane's slot by now. 0: not known. */
static uint64_t id_of_node(const struct control *c, unsigned i)
{
    unsigned master = sync_client_master_of(c->redis, c->per_lane[i].stream.where);
    const char *name = sync_client_name(c->redis, sync_client_master(c->redis, master));
    const struct replication *node = replications_of_node(&c->eras.there, name);
    return node == NULL ? 0 : node->id;
}

void control_watch_lanes(struct control *c)
{
    for (unsigned i = 0; i < c->view->lane_count; i++) {
        const struct replication *node = replications_of_id(&c->eras.there, c->view->lane[i].era);
        if (node != NULL)
            c->per_lane[i].filter_state = *node;
        c->per_lane[i].node_id = id_of_node(c, i);
    }
}
