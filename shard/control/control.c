/* SPDX-License-Identifier: MIT */
/* The happy path of a new filter is: load the view; hold the current generation, with nothing in memory; let
 * the lanes' readers read from `folded` on, and let requests go on; load the shards. Until those are loaded,
 * the entries behind `folded` are in memory, and the rest is read from the shards' blocks.
 *
 * Whatever breaks a lane (it is lost, was trimmed past us, is in another era, was replaced) is handled in one
 * way: the readers stop, what is in memory no longer counts as whole, and the readers read again from
 * `folded` of a new view. A generation that becomes current is handled in the same way: the process holds it
 * beside the former one, and the readers go back to where it begins; the former one answers until the shards
 * of the new one are in memory. */
#include "shard/control/control_internal.h"
#include "shard/redis/ahead.h"
#include "shard/view/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/view/view_load.h"

enum {
    RETRY_US = 20 * 1000,
    RETRY_DOUBLINGS = 3,
    LOADS_MAX = 4,
    FOLDED_LOOK_US = 100 * 1000 /* while a fold is wanted, which may be another process's */
};

/* --- new, free --- */

struct control_thread *control_thread_new(const struct nodes *nodes, unsigned timeout_ms)
{
    struct control_thread *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->view = malloc(sizeof(*t->view));
    t->at = calloc(LOG_LANES_MAX, sizeof(*t->at));
    t->position = calloc(LOG_LANES_MAX, sizeof(*t->position));
    t->lease = sync_client_new(nodes, timeout_ms, "twinbloom-folder");
    t->base = event_base_new();
    if (t->base != NULL)
        t->async = async_client_new(t->base, nodes, timeout_ms, NULL);
    if (t->async != NULL)
        t->port = lane_port_new(t->base, t->async, timeout_ms);
    if (t->view == NULL || t->at == NULL || t->position == NULL || t->lease == NULL || t->port == NULL) {
        control_thread_free(t);
        return NULL;
    }
    return t;
}

void control_thread_free(struct control_thread *t)
{
    if (t == NULL)
        return;
    lane_port_free(t->port);
    if (t->async != NULL)
        async_client_free(t->async);
    if (t->base != NULL)
        event_base_free(t->base);
    sync_client_free(t->lease);
    free(t->view);
    free(t->at);
    free(t->position);
    free(t);
}

enum err control_new(struct control **out, const struct control_options *o, struct error *e)
{
    char owner[LEASE_OWNER_MAX];
    struct control *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    (void)pthread_mutex_init(&c->noting, NULL); /* cannot fail, as it sets no attributes */
    c->filter = o->filter;
    c->redis = o->redis;
    c->timeout_ms = o->timeout_ms;
    c->retain_us = o->retain_us;
    c->log_max = o->log_max != 0 ? o->log_max : LOG_MAX_DEFAULT;
    c->fold_interval_us = o->fold_interval_us;
    c->writer_grace_us = o->writer_grace_us != 0 ? o->writer_grace_us : CONTROL_GRACE_US;
    c->look_interval_us = o->look_interval_us != 0 ? o->look_interval_us : LOOK_INTERVAL_US;
    c->folds = o->folds;
    c->eras.clean_stop = o->clean_stop;
    lease_name(owner, o->owner != NULL ? o->owner : "", o->filter->writer);
    lease_init(&c->lease, o->thread->lease, &o->filter->names, owner,
               o->lease_ms != 0 ? o->lease_ms : LEASE_MS_DEFAULT);
    c->thread = o->thread;
    c->view = o->thread->view;
    c->at = o->thread->at;
    c->position = o->thread->position;
    *out = c;
    return ERR_OK;
}

void control_free(struct control *c)
{
    if (c == NULL)
        return;
    log_filter_close(c->filter, ERR_CANCELLED, "the filter is closed");
    control_stop_folding(c);
    lease_give_back(&c->lease);
    lease_fini(&c->lease);
    if (c->thread->viewer == c)
        c->thread->viewer = NULL;
    buffer_fini(&c->kept);
    free(c->per_lane);
    free(c->known);
    free(c->histories.accepted);
    eras_fini(&c->eras);
    roll_fini(&c->roll);
    (void)pthread_mutex_destroy(&c->noting);
    free(c);
}

/* --- the view --- */

static enum err gone(struct control *c, const char *why, struct error *e)
{
    log_filter_close(c->filter, ERR_NOT_FOUND, why);
    return error_set(e, ERR_NOT_FOUND, "%s", why);
}

/* The view cannot be read or used by this process. A filter that is opening closes with this error: its
 * requests end, and later ones let it be opened again. An open filter goes on by the last view. */
static enum err refuse(struct control *c, enum err code, const struct error *e)
{
    if (c->filter->state == FILTER_OPENING)
        log_filter_close(c->filter, code, e->text);
    return code;
}

static enum err make_lane_room(struct control *c, unsigned lanes, struct error *e)
{
    if (lanes <= c->lane_room)
        return ERR_OK;
    struct control_lane *larger = realloc(c->per_lane, lanes * sizeof(*larger));
    if (larger == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    memset(larger + c->lane_room, 0, (lanes - c->lane_room) * sizeof(*larger));
    c->per_lane = larger;
    c->lane_room = lanes;
    return ERR_OK;
}

/* Take the view of this control again, if another control of this thread was tended since. */
static enum err take_view(struct control *c, struct error *e)
{
    enum err code = ERR_OK;
    if (c->thread->viewer != c && c->kept.length > 0)
        code = log_view_again(c->view, &c->kept, e);
    c->thread->viewer = code == ERR_OK ? c : NULL;
    return code;
}

/* @look: the number of the look that found no view; 0: there is a view. */
static void set_missing(struct log_filter *f, uint64_t look)
{
    (void)pthread_rwlock_wrlock(&f->lock);
    f->is_missing = look != 0;
    f->missed = look;
    (void)pthread_rwlock_unlock(&f->lock);
    log_filter_changed(f);
}

/* *@yes: the filter is named, and is neither deleted, nor made by somebody, nor there by now. A record
 * explains the name of its own incarnation only: where home went back it is an earlier one's, and who is
 * about to be refused to make a filter that was lost has a later one. */
static enum err is_lost(struct control *c, bool *yes, struct error *e)
{
    enum { LOOKS = 2 }; /* the filter may be deleted, or made, between the first ones */
    const struct names *names = &c->filter->names;
    struct log_view *v = malloc(sizeof(*v));
    enum err code = ERR_OK;
    *yes = true;
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < LOOKS && code == ERR_OK && *yes; i++) {
        struct registry_said said;
        uint64_t deleted = 0;
        code = registry_look_deleted(c->redis, names, &deleted, e);
        if (code == ERR_OK)
            code = registry_look(c->redis, names, &said, e);
        *yes = code == ERR_OK && registry_names_lost(&said, deleted, 0);
        if (!*yes)
            break;
        code = log_view_load_leftover(c->redis, names, v, e);
        *yes = code != ERR_OK || registry_names_lost(&said, deleted, v->incarnation);
        if (*yes && (code == ERR_OK || code == ERR_NOT_FOUND)) {
            code = log_view_load(c->redis, names, v, e);
            *yes = code != ERR_OK || v->incarnation < said.incarnation;
        }
        code = code == ERR_NOT_FOUND ? ERR_OK : code;
    }
    free(v);
    return code;
}

/* There is no view. Who has had the filter goes by what its deleter has said, and by nothing else: registries
 * may be older than the filter, or than its deletion. */
static enum err miss(struct control *c, uint64_t look, struct error *e)
{
    struct log_filter *f = c->filter;
    uint64_t deleted = 0, known = f->names.incarnation;
    bool lost = false;
    enum err code =
        known == 0 ? is_lost(c, &lost, e) : registry_look_deleted(c->redis, &f->names, &deleted, e);
    if (code != ERR_OK)
        return code;
    if (known <= deleted && !lost)
        return gone(c, "the filter does not exist", e);
    set_missing(f, look);
    return error_set(e, ERR_LOST, "the filter lost its view");
}

/* The view is of an earlier incarnation than this process has had. Where home is the only master its registry
 * went back, too: name the later one there again. Else whoever has not had that one would believe the view.
 */
static void name_again(struct control *c)
{
    struct error ignored;
    struct registry_said said;
    struct handle f = {.redis = c->redis, .names = c->filter->names};
    if (registry_look(c->redis, &f.names, &said, &ignored) == ERR_OK &&
        said.incarnation < f.names.incarnation && registry_succeed(&f, &ignored) == ERR_OK)
        handle_announce(&f);
    handle_fini(&f);
}

/* *@yes: the view is of an incarnation that was replaced, as the metadata node's address leads to an older
 * server, or to an older state; treat it as if there was no view. *@again: the incarnation is the same, but
 * the view became degraded, or was loaded too early: load it again. Masters that do not answer are not
 * counted. */
static enum err is_replaced(struct control *c, bool *yes, bool *again, struct error *e)
{
    const struct log_filter *f = c->filter;
    struct registry_said said = {.named = false};
    enum err code = ERR_OK;
    uint64_t history = c->view->history_count == 0 ? 0 : c->view->history[0];
    *again = false;
    *yes = f->names.incarnation > c->view->incarnation;
    if (*yes)
        name_again(c);
    if (*yes || (c->vouched && history == c->vouched_history))
        return ERR_OK;
    code = registry_look(c->redis, &f->names, &said, e);
    if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT)
        code = ERR_OK;
    *yes = said.incarnation > c->view->incarnation;
    if (code == ERR_OK && !*yes) {
        struct names names = f->names;
        names.incarnation = c->view->incarnation;
        code = history_follow(c->redis, &names, c->view, &said, &c->histories, again, e);
    }
    c->vouched = code == ERR_OK && !*yes && !*again;
    c->vouched_history = history;
    return code;
}

/* A view that went back to before a fold, and nothing else, has the same version. */
static bool has_earlier_positions(const struct control *c)
{
    const struct log_generation *g = &c->view->slot[c->view->current];
    bool earlier = false;
    for (unsigned i = 0; i < c->view->lane_count && i < c->lane_room; i++) {
        const struct control_lane *l = &c->per_lane[i];
        const struct log_lane *lane = &c->view->lane[i];
        bool same = l->folded_of == g->shape.number && l->folded.lane.number == lane->number &&
                    l->folded.lane.era == lane->era && log_view_is_folded(c->view, g, i);
        earlier |= same && log_id_compare(g->folded[i].position.id, l->folded.id) < 0;
    }
    return earlier;
}

void control_note_folded(struct control *c, unsigned lane, struct log_id id)
{
    struct control_lane *l = &c->per_lane[lane];
    l->folded = (struct log_counted){c->view->lane[lane], id};
    l->folded_of = c->view->slot[c->view->current].shape.number;
}

static void note_positions(struct control *c)
{
    const struct log_generation *g = &c->view->slot[c->view->current];
    for (unsigned i = 0; i < c->view->lane_count; i++)
        if (log_view_is_folded(c->view, g, i))
            control_note_folded(c, i, g->folded[i].position.id);
}

/* As control_load_view(). *@again: load it once more. */
static enum err load_view(struct control *c, bool *again, struct error *e)
{
    bool replaced;
    *again = false;
    struct log_filter *f = c->filter;
    bool is_ahead = c->ahead.user != 0;
    uint64_t look = is_ahead ? c->ahead.look : atomic_fetch_add(&f->looks, 1) + 1;
    c->notices = is_ahead ? c->ahead.notices : atomic_load(&f->notices);
    c->ahead.user = 0;
    enum err code = log_view_load_kept(c->redis, &f->names, c->view, &c->kept, e);
    c->thread->viewer = code == ERR_OK ? c : NULL;
    if (code != ERR_OK && c->kept.length > 0) {
        enum err parsed = log_view_again(c->view, &c->kept, NULL);
        (void)parsed; /* it could be parsed before */
    }
    if (code == ERR_NOT_FOUND)
        return miss(c, look, e);
    if (code == ERR_PARSE || code == ERR_FORMAT || code == ERR_WRONG_TYPE)
        return refuse(c, code, e);
    if (code != ERR_OK)
        return code;
    code = is_replaced(c, &replaced, again, e);
    if (code == ERR_OK && replaced) {
        set_missing(f, look);
        code = error_set(e, ERR_LOST, "the view is of an earlier incarnation of the filter");
    }
    if (code != ERR_OK || *again)
        return code;
    if (f->names.incarnation != 0 && c->view->incarnation != f->names.incarnation)
        return gone(c, "the filter was deleted, and made anew", e);
    if (c->view->deleting)
        return gone(c, "the filter is being deleted", e);
    /* degraded with another history: a build heals it */
    bool is_same = c->histories.count == 0 || !c->view->degraded ||
                   (c->view->history_count > 0 && c->view->history[0] == c->histories.id[0]);
    if ((c->view->version < c->version || has_earlier_positions(c)) && is_same) {
        c->went_back = true;
        c->writes_again = true;
        c->back_eras = control_eras_sum(c->view);
    }
    if (f->names.incarnation == 0) {
        (void)pthread_rwlock_wrlock(&f->lock);
        f->names.incarnation = c->view->incarnation;
        (void)pthread_rwlock_unlock(&f->lock);
        roll_init(&c->roll, c->redis, &f->names, f->writer);
        c->roll.clean_stop = c->eras.clean_stop;
    }
    if (f->is_missing)
        set_missing(f, 0);
    history_note(&c->histories, c->view);
    c->is_new |= c->view->version != c->version;
    c->version = c->view->version;
    code = make_lane_room(c, c->view->lane_count, e);
    if (code == ERR_OK)
        note_positions(c);
    for (unsigned i = 0; i < c->view->lane_count && code == ERR_OK; i++)
        code = log_view_lane_at(c->view, &f->names, f->nodes, i, &c->per_lane[i].stream, e);
    return code;
}

enum err control_load_view(struct control *c, struct error *e)
{
    bool again = true;
    enum err code = ERR_OK;
    for (unsigned i = 0; i < LOADS_MAX && code == ERR_OK && again; i++)
        code = load_view(c, &again, e);
    return code == ERR_OK && again ? error_set(e, ERR_CONFLICT, "the view changes all the time") : code;
}

/* --- all of it --- */

/* Forget those of the own entries that all generations have. The writers share what a lane may have:
 * beyond its part a process has its adds wait, so that a lane is full only where nothing is folded. */
static void forget_own(struct control *c)
{
    struct log_filter *f = c->filter;
    uint64_t share = c->log_max / 4 * 3 / (c->view->writer_count > 0 ? c->view->writer_count : 1);
    atomic_store(&f->own_share, share > c->log_max / 8 ? share : c->log_max / 8);
    for (unsigned i = 0; i < f->lanes; i++)
        roll_forget(&c->roll, c->view, i, f->lane[i].own);
    unsigned full = log_filter_fullness(f);
    if (!atomic_load(&f->wants_fold))
        return;
    if (full < SHARE_MUCH)
        atomic_store(&f->wants_fold, false);
    if (full < SHARE_WHOLE)
        log_filter_changed(f);
}

/* Load the view, and do what must precede all else. A lane that cannot be mended keeps no other one from
 * being read on. */
static enum err look(struct control *c, struct error *e)
{
    bool again = false;
    struct error why = {""};
    enum eras_action ignored;
    c->looked_at = c->ahead.user != 0 ? c->ahead.at : clock_mono_us();
    c->looks++;
    c->vouched = false;
    enum err code = control_read_view(c, e), mended = ERR_OK;
    if (code == ERR_OK)
        atomic_store(&c->filter->looked, c->looked_at);
    if (code == ERR_OK && c->filter->lanes > 0)
        mended = control_mend_lanes(c, &again, &why);
    if (code == ERR_OK && again)
        code = control_read_view(c, e);
    if (code == ERR_OK && c->filter->state != FILTER_OPEN && sync_client_nodes(c->redis)->cluster != NULL)
        code = control_look_at_masters(c, &ignored, e); /* before blocks are read */
    if (code == ERR_OK && !control_lanes_are_as_read(c))
        code = control_read_lanes(c, e);
    if (code == ERR_OK && mended != ERR_OK)
        return error_set(e, mended, "%s", why.text);
    if (code == ERR_OK)
        code = control_take_layers(c, e);
    if (code == ERR_OK)
        code = control_follow_eras(c, e);
    if (code == ERR_OK)
        code = control_mend_shards(c, e);
    return code;
}

static uint64_t next_look(const struct control *c)
{
    if (atomic_load(&c->filter->wants_fold))
        return c->looked_at + FOLDED_LOOK_US;
    return c->looked_at + c->look_interval_us * (c->filter->registered ? 1 : LOOK_RARELY);
}

static bool is_look_due(const struct control *c)
{
    return c->ahead.user != 0 || c->failures > 0 || c->looked_at == 0 || clock_mono_us() >= next_look(c) ||
           atomic_load(&c->filter->wants_look);
}

bool control_only_looks(const struct control *c, uint64_t at)
{
    const struct log_filter *f = c->filter;
    return f->state == FILTER_OPEN && c->failures == 0 && c->looked_at != 0 && at >= next_look(c) &&
           !atomic_load(&f->wants_look) && !atomic_load(&f->wants_fold);
}

void control_ask_ahead(struct control *c, unsigned user)
{
    c->ahead.user = user;
    c->ahead.at = clock_mono_us();
    c->ahead.look = atomic_fetch_add(&c->filter->looks, 1) + 1;
    c->ahead.notices = atomic_load(&c->filter->notices);
    c->ahead.moves = control_moves(c);
    c->ahead.has_moves = true;
    log_view_ask_ahead(c->redis, user, &c->filter->names);
}

void control_ask_masters_ahead(struct control *c)
{
    registry_ask_ahead(c->redis, c->ahead.user, &c->filter->names);
    ahead_ask_replications(c->redis, c->ahead.user);
}

/* Somebody wants a look that begins now. */
static void forget_ahead(struct control *c)
{
    c->ahead.user = 0;
    c->ahead.has_moves = false;
    ahead_use(c->redis, 0);
}

/* Shards have a later token than the view. If the view was loaded again since that was met first, and is the
 * same, it went back. */
static enum err take_over_later(struct control *c, struct error *e)
{
    struct held *h = control_held_of(c, c->view->current);
    bool is_same = c->fenced_version == c->view->version;
    c->fenced_version = c->view->version;
    return is_same && h != NULL ? control_take_over(c, h, e) : ERR_FENCED;
}

/* A block was read by the view that is there now, and its shard has a later token. The request that met it
 * tries again: so this is met again, unless the view was loaded before. */
static enum err meet_later(struct control *c, struct error *e)
{
    const struct held *h = control_held_of(c, c->view->current);
    uint32_t view = atomic_exchange(&c->filter->later, 0);
    if (view == 0 || h == NULL || view != resident_view(h->resident))
        return ERR_OK;
    log_filter_changed(c->filter);
    return error_set(e, ERR_FENCED, "a shard whose block was read has a later token than the view");
}

/* Shards that cannot be loaded do not keep others from being folded. */
static enum err tend(struct control *c, bool *soon, struct error *e)
{
    bool is_wanted = atomic_exchange(&c->filter->wants_look, false);
    enum err code = ERR_OK;
    if (is_wanted)
        forget_ahead(c);
    if (is_wanted || is_look_due(c))
        code = look(c, e);
    bool goes_on = code == ERR_OK;
    if (goes_on) {
        code = control_follow_generations(c, soon, e);
        code = code == ERR_OK ? meet_later(c, e) : code;
        goes_on = code == ERR_OK || control_is_of_shards(code);
    }
    if (code == ERR_FENCED && c->folds)
        code = take_over_later(c, e);
    if (!goes_on) {
        control_cannot_grow(c, code);
        return code;
    }
    forget_own(c);
    if (*soon &&
        !atomic_load(&c->filter->wants_fold)) /* else that comes first, and the rest is loaded behind it */
        return code;
    if (code == ERR_OK) {
        control_tell_term(c);
        control_know_left(c);
        control_count_loaded(c);
    }
    /* Even if the folder is fenced all the time, a full generation must grow. */
    bool grows = false;
    enum err grown = control_grow(c, &grows, code == ERR_OK ? e : NULL);
    if (code == ERR_OK)
        code = grown;
    *soon |= grows;
    if (grows)
        return code;
    enum err folded = control_fold_if_due(c, code == ERR_OK ? e : NULL);
    return code == ERR_OK ? folded : code;
}

static enum err tend_and_remove(struct control *c, bool *soon, struct error *e)
{
    sync_client_forget(c->redis); /* an earlier error may have left replies in the pipeline */
    enum err code = tend(c, soon, e);
    /* @code may be about the view: then the thread's memory has another filter's view, or none */
    bool has_view = c->thread->viewer == c && c->version != 0 && !c->filter->is_missing;
    if (!c->folds || !has_view || (code != ERR_OK && code != ERR_BUSY && !control_is_of_shards(code)))
        return code;
    enum err removed = control_remove_gone(c, soon, code == ERR_OK ? e : NULL);
    return code == ERR_OK ? removed : code;
}

/* Requests that wait for the filter, or for a lane that waits for the view, end with this. */
static void note_why(struct log_filter *f, enum err code, const char *text)
{
    bool is_away = code == ERR_UNREACHABLE || code == ERR_TIMEOUT;
    bool is_open = f->state == FILTER_OPEN, fails = code != ERR_OK && !(is_open && is_away);
    if (f->state == FILTER_CLOSED || (!fails && (!is_open || f->why[0] == '\0')))
        return;
    (void)pthread_rwlock_wrlock(&f->lock);
    (void)snprintf(f->why, sizeof(f->why), "%.199s", fails ? text : "");
    (void)pthread_rwlock_unlock(&f->lock);
}

enum err control_tend(struct control *c, uint64_t *next, struct error *e)
{
    struct error why = {""};
    bool soon = false;
    enum err code = is_look_due(c) ? ERR_OK /* it loads the view */ : take_view(c, &why);
    ahead_use(c->redis, c->ahead.user);
    c->waits = WAITS_FOR_NOTHING;
    if (code == ERR_OK)
        code = tend_and_remove(c, &soon, &why);
    forget_ahead(c);
    if (code == ERR_CONFIG) /* shards or lanes lie on nodes that are not configured here */
        (void)refuse(c, code, &why);
    uint64_t now = clock_mono_us(), look_at = next_look(c);
    control_note(c, code, &why);
    note_why(c->filter, code, why.text);
    if (code != ERR_OK) {
        *next = now + (RETRY_US << (c->failures < RETRY_DOUBLINGS ? c->failures : RETRY_DOUBLINGS));
        c->failures++;
        return error_set(e, code, "%s", why.text);
    }
    c->failures = 0;
    *next = soon ? 0 : look_at < c->fold_next ? look_at : c->fold_next;
    return ERR_OK;
}

enum err control_leave(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    size_t kept = 0;
    uint64_t next;
    c->leaves = true;
    atomic_store(&f->wants_look, true); /* load the latest `folded` */
    enum err code = control_tend(c, &next, e);
    for (unsigned i = 0; i < f->lanes; i++)
        kept += own_count(f->lane[i].own);
    if (code != ERR_OK || !f->registered)
        return code;
    if (kept > 0) {
        code = control_ask_to_fold(c, e);
        return code == ERR_OK ? error_set(e, ERR_BUSY, "%zu entries are not folded yet", kept) : code;
    }
    lease_give_back(&c->lease);
    control_set_registered(f, false);
    return roll_leave(&c->roll, e);
}
