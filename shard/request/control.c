/* SPDX-License-Identifier: MIT */
/* The happy path of a new filter is: load the view; hold the generation that is read, with nothing in memory;
 * have the lanes' readers read from `folded` on, and requests go on; load the shards. Until then what the log
 * has is in memory, and the rest is read from the shards' blocks.
 *
 * Whatever breaks a lane (it is lost, trimmed past us, in another era, replaced) is met in one way: the
 * readers stop, what is in memory counts no longer as whole, and the readers read again from `folded` of a
 * new view. So is a generation that becomes the current one: it is held beside the other one, and the readers
 * go back to where it begins; the other one answers until the shards of the new one are in memory. */
#include "shard/request/control_internal.h"

#include <stdlib.h>
#include "shard/view/view_load.h"

enum err control_new(struct control **out, const struct control_options *o, struct error *e)
{
    struct control *c = calloc(1, sizeof(*c));
    if (c != NULL) {
        c->filter = o->filter;
        c->link = o->link;
        c->timeout_ms = o->timeout_ms;
        c->retain_us = o->retain_us;
        c->log_max = o->log_max != 0 ? o->log_max : LOG_MAX_DEFAULT;
        c->fold_interval_us = o->fold_interval_us;
        c->folds = o->folds;
        c->view = malloc(sizeof(*c->view));
        c->at = calloc(LOG_LANES_MAX, sizeof(*c->at));
        c->position = calloc(LOG_LANES_MAX, sizeof(*c->position));
        c->base = event_base_new();
        if (c->base != NULL)
            c->store = store_new(c->base, link_nodes(o->link), o->timeout_ms, NULL);
        if (c->store != NULL)
            c->port = lane_port_new(c->base, c->store, o->timeout_ms);
    }
    if (c == NULL || c->view == NULL || c->at == NULL || c->position == NULL || c->port == NULL) {
        control_free(c);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    *out = c;
    return ERR_OK;
}

void control_free(struct control *c)
{
    if (c == NULL)
        return;
    log_filter_close(c->filter, ERR_CANCELLED, "the filter is closed");
    control_stop_folding(c);
    lane_port_free(c->port);
    if (c->store != NULL)
        store_free(c->store);
    if (c->base != NULL)
        event_base_free(c->base);
    free(c->view);
    free(c->at);
    free(c->position);
    eras_fini(&c->eras);
    roll_fini(&c->roll);
    free(c);
}

void control_set_folding(struct control *c, bool folds)
{
    c->folds = folds;
}

/* --- the view --- */

static enum err gone(struct control *c, const char *why, struct error *e)
{
    log_filter_close(c->filter, ERR_NOT_FOUND, why);
    return error_set(e, ERR_NOT_FOUND, "%s", why);
}

enum err control_load_view(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    enum err code = log_view_load(c->link, &f->names, c->view, e);
    if (code == ERR_NOT_FOUND)
        return gone(c, "the filter does not exist", e);
    if (code != ERR_OK)
        return code;
    if (f->names.incarnation != 0 && c->view->incarnation != f->names.incarnation)
        return gone(c, "the filter was deleted, and made anew", e);
    if (c->view->deleting)
        return gone(c, "the filter is being deleted", e);
    c->went_back |= c->view->version < c->version;
    if (f->names.incarnation == 0) {
        f->names.incarnation = c->view->incarnation;
        roll_init(&c->roll, c->link, &f->names, f->writer);
    }
    c->is_new |= c->view->version != c->version;
    c->version = c->view->version;
    for (unsigned i = 0; i < c->view->lane_count && code == ERR_OK; i++) {
        code = log_view_lane_at(c->view, &f->names, f->nodes, i, &c->stream[i], e);
        c->roll.where[i] = c->stream[i].where;
    }
    return code;
}

/* --- all of it --- */

/* Forget what this process has appended and all generations have. */
static void forget_own(struct control *c)
{
    for (unsigned i = 0; i < c->filter->lanes; i++)
        roll_forget(&c->roll, c->view, i, c->filter->lane[i].own);
}

static void set_registered(struct log_filter *f, bool registered)
{
    (void)pthread_rwlock_wrlock(&f->lock);
    f->registered = registered;
    (void)pthread_rwlock_unlock(&f->lock);
    log_filter_changed(f);
}

/* A writer that was removed while it slept, or whose registration went back with home, registers again before
 * its readers go on. */
static enum err register_writer(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    if (f->registered && log_view_writer(c->view, f->writer) == NULL && !c->registers) {
        set_registered(f, false);
        atomic_store(&f->wants_writer, true);
    }
    c->registers = false;
    if (f->registered || !atomic_load(&f->wants_writer))
        return ERR_OK;
    enum err code = roll_register(&c->roll, e);
    if (code != ERR_OK)
        return code;
    c->registers = true; /* the view that was read does not have it yet */
    atomic_store(&f->wants_writer, false);
    set_registered(f, true);
    return ERR_OK;
}

enum err control_tend(struct control *c, bool *soon, struct error *e)
{
    bool again = true;
    *soon = false;
    enum err code = control_load_view(c, e);
    if (code == ERR_OK)
        code = register_writer(c, e);
    if (code == ERR_OK && c->filter->lanes > 0)
        code = control_mend_lanes(c, &again, e);
    if (code == ERR_OK && again)
        code = control_load_view(c, e);
    if (code == ERR_OK && !control_lanes_are_as_read(c))
        code = control_begin_again(c, e);
    if (code == ERR_OK)
        code = control_follow_eras(c, e);
    if (code == ERR_OK)
        code = control_mend_shards(c, e);
    if (code == ERR_OK)
        code = control_follow_generations(c, soon, e);
    if (code != ERR_OK)
        return code;
    forget_own(c);
    if (*soon)
        return ERR_OK;
    return c->folds ? control_fold_if_due(c, e) : control_measure(c, e);
}

enum err control_leave(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    size_t kept = 0;
    bool soon;
    enum err code = control_tend(c, &soon, e);
    for (unsigned i = 0; i < f->lanes; i++)
        kept += own_count(f->lane[i].own);
    if (code != ERR_OK || !f->registered)
        return code;
    if (kept > 0)
        return error_set(e, ERR_BUSY, "%zu entries are not folded yet", kept);
    set_registered(f, false);
    return roll_leave(&c->roll, e);
}
