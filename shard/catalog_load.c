/* SPDX-License-Identifier: MIT */
/* Loading views: the entry of a filter asks for its view, and the operations that wait go on with what came.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/buffer.h"
#include "base/log.h"
#include "shard/catalog_internal.h"
#include "shard/fence.h"
#include "shard/latest.h"
#include "shard/operation_internal.h"
#include "shard/slots.h"

static enum err shared_view_derive(struct shared_view *view, struct catalog_filter *f, struct error *e)
{
    view->names = f->names;
    view->names.incarnation = view->v.incarnation;
    for (unsigned s = 0; s < 2; s++) {
        const struct generation *g = &view->v.slot[s];
        if (g->number == 0)
            continue;
        enum err code = placement_resolve(&view->placement[s], &f->names, g, f->catalog->options.nodes, e);
        if (code != ERR_OK)
            return code;
        view->tag[s] = hash_tag(view->v.incarnation, f->names.filter, f->names.filter_length, g->number);
        unsigned written = generation_written_layer(g);
        view->added[s] = calloc(g->layers[written].geometry.shards, sizeof(*view->added[s]));
        if (view_unfenced(&view->v))
            view->renamed[s] = calloc(generation_shards(g), 1);
        if (view->added[s] == NULL || (view_unfenced(&view->v) && view->renamed[s] == NULL))
            return error_set(e, ERR_NOMEM, "out of memory");
    }
    return shared_view_derive_trust(view) ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
}

static void start_load(struct catalog_filter *f);

/* A marker was found: the filter is as one that was never made. */
static void forget_seen(struct catalog_filter *f, uint64_t incarnation)
{
    const struct catalog_options *o = &f->catalog->options;
    f->seen = false;
    o->on_dropped(o->arg, f->name, f->name_length, incarnation);
}

static enum view_outcome outcome_of(enum err code)
{
    static const struct {
        enum err code;
        enum view_outcome outcome;
    } outcomes[] = {{ERR_NOT_FOUND, VIEW_MISSING},
                    {ERR_WRONG_TYPE, VIEW_WRONG_TYPE},
                    {ERR_FORMAT, VIEW_NEWER},
                    {ERR_CONFIG, VIEW_ABROAD}};
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        if (outcomes[i].code == code)
            return outcomes[i].outcome;
    return VIEW_DAMAGED;
}

/* Model: went_back, OTHER_HOME. Redis may come back with older data, or another server with its own: a later
 * view, which was in use when this one was asked for, is believed before it. */
static bool is_latest(struct catalog_filter *f, const struct view *v)
{
    const struct catalog_options *o = &f->catalog->options;
    const struct view_stamp stored = view_stamp_of(v);
    const struct view_stamp mine = f->view == NULL ? (struct view_stamp){0} : view_stamp_of(&f->view->v);
    bool older = view_stamp_is_older(&stored, &f->latest) || view_stamp_is_older(&stored, &mine);
    if (o->on_view != NULL)
        o->on_view(o->arg, f->name, f->name_length, v, older);
    if (older && !f->doubtful)
        log_error("view_went_back", "filter=%s epoch=%" PRIu64 " seen=%" PRIu64, log_quote(f->name), v->epoch,
                  mine.epoch > f->latest.epoch ? mine.epoch : f->latest.epoch);
    f->doubtful = older || v->recovery == RECOVERY_DUE;
    return !older;
}

/* A filter that was there once: what is stored is of one before it, and counts as nothing. */
static bool is_replaced(struct catalog_filter *f, const struct view *v)
{
    const struct view_stamp stored = view_stamp_of(v);
    const struct view_stamp mine = f->view == NULL ? (struct view_stamp){0} : view_stamp_of(&f->view->v);
    bool replaced = view_stamp_is_replaced(&stored, &f->latest) || view_stamp_is_replaced(&stored, &mine);
    f->seen |= replaced;
    return replaced;
}

static enum view_outcome read_view(struct catalog_filter *f, const redisReply *reply, struct error *e)
{
    struct shared_view *view = calloc(1, sizeof(*view));
    if (view == NULL) {
        (void)error_set(e, ERR_NOMEM, "out of memory");
        return VIEW_DAMAGED;
    }
    view->references = 1;
    view->home = store_server(f->catalog->store, NODE_HOME);
    enum err code = fence_parse_view(&view->v, &f->names, reply, e);
    if (code == ERR_OK && view->v.log)
        code = view_refuse_core(&view->v, e);
    if (code == ERR_OK)
        code = shared_view_derive(view, f, e);
    if (code == ERR_NOT_FOUND && view->v.dropped == VIEW_DROP_DONE)
        forget_seen(f, view->v.incarnation);
    if (code == ERR_OK && is_replaced(f, &view->v)) {
        (void)is_latest(f, &view->v);
        code = error_set(e, ERR_NOT_FOUND, "Redis has a filter that was replaced since");
    }
    if (code != ERR_OK) {
        shared_view_unref(view);
        return outcome_of(code);
    }
    const struct view *old = f->view == NULL ? NULL : &f->view->v;
    bool same = old != NULL && old->epoch == view->v.epoch && old->incarnation == view->v.incarnation;
    bool latest = is_latest(f, &view->v);
    /* Nothing that matters here has changed: keep what was counted and which shards were renamed. */
    if (same && old->fenced_epoch == view->v.fenced_epoch && old->dropped == view->v.dropped &&
        old->trusted_ms == view->v.trusted_ms && catalog_same_trust(&old->trusted, &view->v.trusted) &&
        unsure_same(&old->unsure, &view->v.unsure)) {
        f->view->home = view->home;
        shared_view_unref(view);
        if (!old->sourced)
            counts_send_total(f->catalog, f->view, old->current);
        return VIEW_FOUND;
    }
    if (!latest) {
        const struct view_stamp stored = view_stamp_of(&view->v);
        const struct view_stamp mine = old == NULL ? (struct view_stamp){0} : view_stamp_of(old);
        bool kept = view_stamp_is_older(&stored, &mine);
        shared_view_unref(view);
        (void)error_set(e, ERR_LOST, "the view in Redis is older than one that was in use");
        return kept ? VIEW_FOUND : VIEW_REFUSED;
    }
    if (!same)
        log_debug("view_loaded", "filter=%s epoch=%" PRIu64 " phase=%s generation=%" PRIu64 " loop=%u",
                  log_quote(f->name), view->v.epoch, phase_row(view->v.phase)->name,
                  view_current(&view->v)->number, f->catalog->options.loop);
    /* What was reported under another trust may have been found again by whoever healed it. */
    if (same && catalog_same_trust(&old->trusted, &view->v.trusted))
        memcpy(view->lost_reported, f->view->lost_reported, sizeof(view->lost_reported));
    catalog_set_view(f, view);
    if (!view->v.sourced) /* how full is it? */
        counts_send_total(f->catalog, view, view->v.current);
    return VIEW_FOUND;
}

static void load_done(struct catalog_filter *f, enum view_outcome outcome, const char *why)
{
    struct operation_list ready;
    TAILQ_INIT(&ready);
    TAILQ_CONCAT(&ready, &f->waiting, queue);
    catalog_use(f); /* the last operation to end would take the entry with it */
    f->loading = false;
    struct operation *op;
    if (!TAILQ_EMPTY(&f->waiting_next) || (f->load_again && !f->catalog->closing)) {
        TAILQ_CONCAT(&f->waiting, &f->waiting_next, queue);
        TAILQ_FOREACH(op, &f->waiting, queue)
        op->in = QUEUE_WAITING;
        start_load(f);
    }
    while ((op = TAILQ_FIRST(&ready)) != NULL) {
        TAILQ_REMOVE(&ready, op, queue);
        op->in = QUEUE_NONE;
        operation_view_ready(op, outcome, why);
    }
    catalog_unuse(f);
}

static void on_view(void *arg, const redisReply *reply)
{
    struct catalog_filter *f = arg;
    struct error e = {.text = ""};
    if (reply == NULL) {
        load_done(f, VIEW_UNREACHABLE, store_why(f->catalog->store, catalog_home(f->catalog, &f->names)));
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR && slots_error_passes(reply->str)) {
        load_done(f, VIEW_REFUSED, reply->str);
        return;
    }
    enum view_outcome outcome = read_view(f, reply, &e);
    /* What this coordinator cannot work with it forgets, too: from the view before nothing may be asked for,
     * and above all nothing written. */
    if (outcome == VIEW_NEWER || outcome == VIEW_ABROAD) {
        f->lost = false;
        catalog_set_view(f, NULL);
    }
    if (outcome == VIEW_MISSING) {
        f->lost = f->seen;
        catalog_set_view(f, NULL);
        outcome = f->seen ? VIEW_LOST : VIEW_MISSING;
    }
    load_done(f, outcome, e.text);
}

static void start_load(struct catalog_filter *f)
{
    struct catalog *c = f->catalog;
    struct key_name name;
    /* Before it is asked for: a view that somebody makes and sees while the answer is under way was not lost.
     * on_view() judges by this, as the next load may have begun when the operations hear of it. */
    f->seen = f->seen || c->options.was_seen(c->options.arg, f->name, f->name_length);
    if (c->options.latest != NULL)
        f->latest = c->options.latest(c->options.arg, f->name, f->name_length);
    names_filter_key(&f->names, "view", &name);
    const char *argv[] = {"HGETALL", name.text};
    const size_t lengths[] = {7, name.length};
    buffer_clear(&c->command);
    buffer_command(&c->command, 2, argv, lengths);
    f->load_again = false;
    f->loading = !buffer_failed(&c->command) && store_send(c->store, catalog_home(c, &f->names),
                                                           c->command.data, c->command.length, on_view, f);
    if (f->loading)
        return;
    struct operation *op;
    while ((op = TAILQ_FIRST(&f->waiting)) != NULL) {
        TAILQ_REMOVE(&f->waiting, op, queue);
        operation_away(op, catalog_home(c, &f->names));
        operation_retry_later(op);
    }
}

void catalog_reload(struct catalog_filter *f, struct operation *op)
{
    if (f->loading) {
        TAILQ_INSERT_TAIL(&f->waiting_next, op, queue);
        op->in = QUEUE_WAITING_NEXT;
        return;
    }
    TAILQ_INSERT_TAIL(&f->waiting, op, queue);
    op->in = QUEUE_WAITING;
    start_load(f);
}

void catalog_refresh(struct catalog *c, const char *name, size_t length)
{
    struct catalog_filter *f = catalog_lookup(c, name, length);
    if (f != NULL && f->loading)
        f->load_again = true;
    else if (f != NULL)
        start_load(f);
}

void catalog_look_again(struct catalog *c)
{
    struct catalog_filter *f, *next;
    for (f = TAILQ_FIRST(&c->unfenced); f != NULL; f = next) {
        next = TAILQ_NEXT(f, unfenced_link);
        if (!f->loading)
            start_load(f);
    }
}
