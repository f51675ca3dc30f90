/* SPDX-License-Identifier: MIT */
/* The register of writers: this process, which others may have removed, and the others, which may be gone. */
#include "shard/control/control_internal.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/members/lost.h"

enum {
    TRIES = 3,
    ROUND_GRACES = 4,  /* from the end of one round of checks to the next */
    WAITING_GRACES = 2 /* for a writer that holds something up: without it the filter is degraded */
};

void control_set_registered(struct log_filter *f, bool registered)
{
    (void)pthread_rwlock_wrlock(&f->lock);
    f->registered = registered;
    (void)pthread_rwlock_unlock(&f->lock);
    log_filter_changed(f);
}

/* --- itself --- */

static bool has_to_register(struct control *c)
{
    struct log_filter *f = c->filter;
    if (!f->registered)
        return atomic_load(&f->wants_writer);
    for (unsigned i = 0; i < f->lanes; i++) {
        uint64_t least = own_is_removed(f->lane[i].own);
        if (least > c->roll.registration)
            c->roll.registration = least;
    }
    const struct log_writer *w = log_view_writer(c->view, f->writer);
    if (c->leaves && w != NULL && w->registration == c->roll.registration)
        return false; /* if the view doubts this process, the process itself has said so */
    return !roll_is_registered(&c->roll, c->view);
}

/* Register. A writer that was removed while it slept, or whose registration went back with the metadata node,
 * registers before its readers go on. */
static enum err register_writer(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    if (f->registered && log_view_writer(c->view, f->writer) == NULL) {
        atomic_store(&f->wants_writer, true);
        control_set_registered(f, false);
    }
    enum err code = roll_register(&c->roll, e);
    if (code != ERR_OK)
        return code;
    atomic_store(&f->wants_writer, false);
    if (!f->registered)
        control_set_registered(f, true);
    return ERR_OK;
}

/* Until the readers are moved, entries are acknowledged under the former number, and after that under the new
 * one: a removal that names either number ends that (own_remove()). */
enum err control_answer_doubt(struct control *c, struct error *e)
{
    uint64_t now = clock_mono_us();
    if (!c->filter->registered || c->leaves || now < c->answered_at + c->look_interval_us ||
        now < c->looked_at + c->look_interval_us)
        return ERR_OK;
    c->answered_at = now;
    uint64_t before = c->roll.registration;
    c->roll.redis = c->thread->lease; /* c->redis may have a pipeline under way */
    enum err code = roll_register(&c->roll, e);
    c->roll.redis = c->redis;
    if (c->roll.registration != before)
        log_filter_look(c->filter);
    return code;
}

/* Put this writer in doubt, so that the holder of the folder's lease, if it is another process, folds
 * soon. */
enum err control_ask_to_fold(struct control *c, struct error *e)
{
    const struct log_writer *w = log_view_writer(c->view, c->filter->writer);
    if (w == NULL || w->in_doubt || lease_is_held(&c->lease))
        return ERR_OK;
    return remove_doubt(&c->roll, w, e);
}

/* --- a view that went back --- */

/* Register again writers that the view should have. */
static enum err restore(struct control *c, struct error *e)
{
    unsigned entered = 0, count = 0;
    struct log_writer *lacking = malloc((c->known_count + 1) * sizeof(*lacking));
    if (lacking == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < c->known_count; i++)
        if (log_view_lacks(c->view, &c->known[i]))
            lacking[count++] = c->known[i];
    enum err code = ERR_OK;
    if (count > 0)
        code = remove_undo(&c->roll, c->known_lane, c->known_lanes, lacking, count, &entered, e);
    free(lacking);
    return code == ERR_OK && entered > 0 ? control_load_view(c, e) : code;
}

static enum err keep_known(struct control *c, struct error *e)
{
    const struct log_view *v = c->view;
    struct log_writer *known = realloc(c->known, (v->writer_count + 1) * sizeof(*known));
    if (known == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    memcpy(known, v->writer, v->writer_count * sizeof(*known));
    memcpy(c->known_lane, v->lane, sizeof(c->known_lane));
    c->known = known;
    c->known_count = v->writer_count;
    c->known_lanes = v->lane_count;
    return ERR_OK;
}

enum err control_read_view(struct control *c, struct error *e)
{
    enum err code = control_load_view(c, e);
    if (code == ERR_OK)
        code = restore(c, e);
    if (code == ERR_OK)
        code = control_put_back_layers(c, e);
    bool waits =
        code == ERR_OK && !c->filter->registered && has_to_register(c) && control_waits_to_register(c);
    for (unsigned i = 0; i < TRIES && code == ERR_OK && !waits && has_to_register(c); i++) {
        code = register_writer(c, e);
        if (code == ERR_OK)
            code = control_load_view(c, e);
    }
    if (code == ERR_OK && !waits && has_to_register(c))
        code = error_set(e, ERR_BUSY, "this process is removed from the register of writers again and again");
    return code == ERR_OK ? keep_known(c, e) : code;
}

/* --- the others --- */

static bool is_doubted(const struct control_removal *m, const struct log_writer *w)
{
    for (unsigned i = 0; i < m->doubts; i++)
        if (memcmp(m->doubt[i].writer, w->id, LOG_WRITER_BYTES) == 0)
            return true;
    return false;
}

static void drop_doubt(struct control_removal *m, unsigned i)
{
    m->doubts--;
    memmove(&m->doubt[i], &m->doubt[i + 1], (m->doubts - i) * sizeof(m->doubt[0]));
    m->begun &= i != 0;
}

/* Forget who has answered, or has left. */
static void forget_answered(struct control *c)
{
    struct control_removal *m = &c->removal;
    for (unsigned i = m->doubts; i-- > 0;) {
        const struct log_writer *w = log_view_writer(c->view, m->doubt[i].writer);
        if (w == NULL || w->registration != m->doubt[i].registration)
            drop_doubt(m, i);
    }
}

/* Put the next writer in doubt, unless the round is over, or the one before may yet answer. */
static enum err doubt_next(struct control *c, uint64_t now, struct error *e)
{
    struct control_removal *m = &c->removal;
    const struct log_view *v = c->view;
    bool waits = c->waits != WAITS_FOR_NOTHING;
    if (m->doubts == DOUBTS_MAX || (now < m->round_at && !waits) ||
        (m->doubts > 0 && now - m->doubt[m->doubts - 1].since < c->look_interval_us))
        return ERR_OK;
    while (m->next < v->writer_count &&
           (is_doubted(m, &v->writer[m->next]) ||
            memcmp(v->writer[m->next].id, c->filter->writer, LOG_WRITER_BYTES) == 0))
        m->next++;
    if (m->next >= v->writer_count) {
        m->next = 0;
        m->round_at = now + ROUND_GRACES * c->writer_grace_us;
        return ERR_OK;
    }
    const struct log_writer *w = &v->writer[m->next++];
    enum err code = remove_doubt(&c->roll, w, e);
    if (code != ERR_OK)
        return code;
    struct control_doubt *d = &m->doubt[m->doubts++];
    *d = (struct control_doubt){.registration = w->registration, .since = now};
    memcpy(d->writer, w->id, LOG_WRITER_BYTES);
    return ERR_OK;
}

/* While a lane waits for a writer nothing is folded; while shards wait, only who wrote all of them folds. */
static bool may_fold(const struct control *c)
{
    return c->waits == WAITS_FOR_NOTHING || (c->waits == WAITS_FOR_SHARDS && c->wrote_all);
}

static enum err begin_removal(struct control *c, const struct log_writer *w, bool *soon, struct error *e)
{
    struct control_removal *m = &c->removal;
    if (c->waits == WAITS_FOR_LANE) { /* that lane is not folded until the writer has answered or is
                                       * removed */
        drop_doubt(m, 0);
        *soon = true;
        return remove_degraded(&c->roll, c->view, w->id, e);
    }
    if (!may_fold(c)) { /* who wrote all removes the writer; if nobody did,
                         * the doubt is enough (eras_take.lua) */
        drop_doubt(m, 0);
        return ERR_OK;
    }
    enum err code = remove_begin(&c->roll, c->view, w, &m->it, e);
    m->begun = code == ERR_OK;
    if (code != ERR_OK)
        drop_doubt(m, 0);
    return code;
}

/* True if the current generation holds the lanes up to the removals. The script also checks the other
 * generation. */
static bool may_be_folded(const struct control *c)
{
    const struct log_view *v = c->view;
    const struct log_generation *g = &v->slot[v->current];
    bool may = true;
    for (unsigned i = 0; i < v->lane_count && i < c->removal.it.lanes; i++)
        may &= log_view_is_folded(v, g, i) &&
               log_id_compare(g->folded[i].position.id, c->removal.it.notice[i]) >= 0;
    return may;
}

static enum err end_removal(struct control *c, bool *soon, struct error *e)
{
    enum err code = remove_end(&c->roll, &c->removal.it, e);
    if (code == ERR_BUSY)
        return ERR_OK;
    drop_doubt(&c->removal, 0);
    *soon |= code == ERR_OK;
    return code;
}

/* True if nothing is folded until lost shards are there. While a lane or shards' nodes wait for a writer this
 * process has not looked for lost shards again: a lane needs no fold, and who has written all shards has made
 * the lost ones. */
static bool awaits_lost(const struct control *c)
{
    return c->lost.generation != 0 && c->waits == WAITS_FOR_NOTHING;
}

/* A writer that does not answer makes no lost shards: say for it that it lacks them. If it only slept, and
 * has them, it makes them all the same. */
static enum err lack_for(struct control *c, const struct log_writer *w, struct error *e)
{
    drop_doubt(&c->removal, 0);
    return lost_lack(c->redis, &c->filter->names, &c->lost, w->id, false, e);
}

/* End the first doubt, if it is old enough. A writer that writes gigabytes to shards' nodes loads no view
 * meanwhile, and holds the folder's lease: it gets as much time again, behind the others. */
static enum err end_doubt(struct control *c, const struct log_writer *w, uint64_t now, bool *soon,
                          struct error *e)
{
    struct control_doubt again = c->removal.doubt[0];
    unsigned graces = c->waits == WAITS_FOR_NOTHING ? 1 : WAITING_GRACES;
    struct lease_status s;
    if (now - again.since < graces * c->writer_grace_us)
        return ERR_OK;
    enum err code = lease_look(c->redis, &c->filter->names, &s, e);
    bool writes = code == ERR_OK && lease_is_of(s.holder, w->id);
    if (writes) {
        again.since = now;
        drop_doubt(&c->removal, 0);
        c->removal.doubt[c->removal.doubts++] = again;
    }
    if (code != ERR_OK || writes)
        return code;
    return awaits_lost(c) ? lack_for(c, w, e) : begin_removal(c, w, soon, e);
}

static enum err remove_one(struct control *c, bool *soon, struct error *e)
{
    struct control_removal *m = &c->removal;
    uint64_t now = clock_mono_us();
    forget_answered(c);
    enum err code = doubt_next(c, now, e);
    if (code != ERR_OK || m->doubts == 0)
        return code;
    const struct log_writer *w = log_view_writer(c->view, m->doubt[0].writer);
    if (!m->begun || !may_fold(c))
        return end_doubt(c, w, now, soon, e);
    if (awaits_lost(c))
        return lack_for(c, w, e);
    return may_be_folded(c) ? end_removal(c, soon, e) : ERR_OK;
}

enum err control_remove_gone(struct control *c, bool *soon, struct error *e)
{
    sync_client_forget(c->redis);
    enum err code = remove_one(c, soon, e);
    bool passes = code == ERR_FENCED || code == ERR_NOT_FOUND || code == ERR_CONFLICT || code == ERR_LOST;
    return passes ? ERR_OK : code; /* the view, or a lane, has changed: the next look finds it */
}
