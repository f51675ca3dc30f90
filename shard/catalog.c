/* SPDX-License-Identifier: MIT */
#include "shard/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "shard/catalog_internal.h"
#include "shard/fence.h"
#include "shard/operation_internal.h"

/* SHARD_COUNTS_A_TICK: with 10,000 shards and more, all at once would hold up the requests of everybody.
 * RELOOK_MS: under a view that is not fenced the first command to each shard brings a rename along. */
enum { TICK_MS = 10, SHARD_COUNTS_MS = 1000, SHARD_COUNTS_A_TICK = 256, RELOOK_MS = 50 };

struct store *catalog_store(struct catalog *c)
{
    return c->store;
}

const struct catalog_options *catalog_options(const struct catalog *c)
{
    return &c->options;
}

struct operation_list *catalog_active(struct catalog *c)
{
    return &c->active;
}

struct operation_list *catalog_retries(struct catalog *c)
{
    return &c->retries;
}

/* --- views --- */

struct shared_view *shared_view_ref(struct shared_view *view)
{
    view->references++;
    return view;
}

void shared_view_unref(struct shared_view *view)
{
    if (view == NULL || --view->references > 0)
        return;
    for (unsigned s = 0; s < 2; s++) {
        free(view->renamed[s]);
        free(view->added[s]);
    }
    free(view);
}

void shared_view_forget_renames(struct shared_view *view)
{
    for (unsigned s = 0; s < 2; s++)
        if (view->renamed[s] != NULL)
            memset(view->renamed[s], 0, generation_shards(&view->v.slot[s]));
}

static enum err shared_view_derive(struct shared_view *view, struct catalog_filter *f, struct error *e)
{
    view->names = f->names;
    view->names.incarnation = view->v.incarnation;
    for (unsigned s = 0; s < 2; s++) {
        const struct generation *g = &view->v.slot[s];
        if (g->number == 0)
            continue;
        enum err code = placement_resolve(&view->placement[s], g, f->catalog->options.nodes, e);
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
    return ERR_OK;
}

/* --- entries --- */

static struct catalog_filter **bucket_of(struct catalog *c, const char *name, size_t length)
{
    return &c->bucket[XXH3_64bits(name, length) % BUCKETS];
}

static struct catalog_filter *lookup(struct catalog *c, const char *name, size_t length)
{
    for (struct catalog_filter *f = *bucket_of(c, name, length); f != NULL; f = f->next)
        if (f->name_length == length && memcmp(f->name, name, length) == 0)
            return f;
    return NULL;
}

enum err catalog_find(struct catalog *c, const char *name, size_t length, struct catalog_filter **out,
                      struct error *e)
{
    struct catalog_filter **head = bucket_of(c, name, length);
    *out = lookup(c, name, length);
    if (*out != NULL)
        return ERR_OK;
    struct catalog_filter *f = calloc(1, sizeof(*f));
    if (f == NULL || (f->name = malloc(length + 1)) == NULL) {
        free(f);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    enum err code = names_init(&f->names, c->options.prefix, name, length, e);
    if (code != ERR_OK) {
        free(f->name);
        free(f);
        return code;
    }
    memcpy(f->name, name, length);
    f->name[length] = '\0';
    f->name_length = length;
    f->catalog = c;
    f->policy = c->options.policy(c->options.policy_arg, name, length);
    TAILQ_INIT(&f->waiting);
    TAILQ_INIT(&f->waiting_next);
    f->next = *head;
    *head = f;
    *out = f;
    return ERR_OK;
}

void catalog_use(struct catalog_filter *f)
{
    f->users++;
}

static void forget_if_unused(struct catalog_filter *f);

void catalog_unuse(struct catalog_filter *f)
{
    f->users--;
    forget_if_unused(f);
}

static void set_unfenced(struct catalog_filter *f, bool unfenced)
{
    if (unfenced && !f->unfenced)
        TAILQ_INSERT_TAIL(&f->catalog->unfenced, f, unfenced_link);
    else if (!unfenced && f->unfenced)
        TAILQ_REMOVE(&f->catalog->unfenced, f, unfenced_link);
    f->unfenced = unfenced;
}

static void set_view(struct catalog_filter *f, struct shared_view *view)
{
    if (f->view != NULL) {
        counts_flush_totals(f->catalog, f->view);
        counts_drain(f->catalog, f->view);
    }
    shared_view_unref(f->view);
    f->view = view;
    set_unfenced(f, view != NULL && (view_unfenced(&view->v) || view->v.dropped != VIEW_KEPT));
    if (view != NULL)
        f->absence_reported = false;
    if (view != NULL && (!f->seen || f->incarnation != view->v.incarnation)) {
        const struct catalog_options *o = &f->catalog->options;
        o->on_seen(o->arg, f->name, f->name_length, view->v.incarnation);
        f->seen = true;
        f->incarnation = view->v.incarnation;
    }
}

static void filter_free(struct catalog_filter *f)
{
    set_view(f, NULL);
    if (f->dirty)
        TAILQ_REMOVE(&f->catalog->dirty, f, dirty_link);
    free(f->name);
    free(f);
}

/* An entry for a name under which nothing was ever made is not kept. */
static void forget_if_unused(struct catalog_filter *f)
{
    if (f->seen || f->policy.configured || f->loading || f->users > 0 || f->catalog->closing)
        return;
    struct catalog_filter **at = bucket_of(f->catalog, f->name, f->name_length);
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    filter_free(f);
}

void catalog_configure(struct catalog *c, unsigned timeout_ms, uint64_t tombstone_ms)
{
    struct catalog_options *o = &c->options;
    o->timeout_ms = timeout_ms;
    o->tombstone_ms = tombstone_ms;
    uint64_t latest = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    struct operation *op;
    TAILQ_FOREACH(op, &c->active, active) /* stays in the order of deadlines */
    op->deadline = op->deadline < latest ? op->deadline : latest;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct catalog_filter *f = c->bucket[i], *next; f != NULL; f = next) {
            next = f->next;
            f->policy = o->policy(o->policy_arg, f->name, f->name_length);
            forget_if_unused(f);
        }
}

/* --- reload --- */

static void start_load(struct catalog_filter *f);

/* A marker was found: the filter is as one that was never made. */
static void forget_seen(struct catalog_filter *f, uint64_t incarnation)
{
    const struct catalog_options *o = &f->catalog->options;
    f->seen = false;
    o->on_dropped(o->arg, f->name, f->name_length, incarnation);
}

static enum view_outcome read_view(struct catalog_filter *f, const redisReply *reply, struct error *e)
{
    struct shared_view *view = calloc(1, sizeof(*view));
    if (view == NULL) {
        (void)error_set(e, ERR_NOMEM, "out of memory");
        return VIEW_DAMAGED;
    }
    view->references = 1;
    enum err code = fence_parse_view(&view->v, reply, e);
    if (code == ERR_OK)
        code = shared_view_derive(view, f, e);
    if (code == ERR_NOT_FOUND && view->v.dropped == VIEW_DROP_DONE)
        forget_seen(f, view->v.incarnation);
    if (code != ERR_OK) {
        shared_view_unref(view);
        return code == ERR_NOT_FOUND ? VIEW_MISSING : code == ERR_WRONG_TYPE ? VIEW_WRONG_TYPE : VIEW_DAMAGED;
    }
    const struct view *old = f->view == NULL ? NULL : &f->view->v;
    bool went_back = false;
    bool same = old != NULL && old->epoch == view->v.epoch && old->incarnation == view->v.incarnation;
    /* Nothing that matters here has changed: keep what was counted and which shards were renamed. */
    if (same && old->fenced_epoch == view->v.fenced_epoch && old->dropped == view->v.dropped) {
        shared_view_unref(view);
        if (!old->sourced)
            counts_send_total(f->catalog, f->view, old->current);
        return VIEW_FOUND;
    }
    if (!same)
        log_info("view", "filter=%s epoch=%" PRIu64 " phase=%s generation=%" PRIu64, log_quote(f->name),
                 view->v.epoch, phase_row(view->v.phase)->name, view_current(&view->v)->number);
    /* The same incarnation with a smaller epoch: Redis went back to older data, whose shards lack what was
     * added since. */
    if (old != NULL && old->incarnation == view->v.incarnation && view->v.epoch < old->epoch) {
        log_error("went_back", "filter=%s epoch=%" PRIu64 " seen=%" PRIu64, log_quote(f->name), view->v.epoch,
                  old->epoch);
        view->v.slot[view->v.current].built = false;
        went_back = true;
    }
    view->lost_reported = same && f->view->lost_reported;
    set_view(f, view);
    if (went_back)
        catalog_report_lost(f, view_current(&view->v)->number);
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

static void on_view(redisAsyncContext *context, void *reply, void *arg)
{
    (void)context;
    struct catalog_filter *f = arg;
    struct error e = {.text = ""};
    if (reply == NULL) {
        load_done(f, VIEW_UNREACHABLE, store_why(f->catalog->store, NODE_HOME));
        return;
    }
    enum view_outcome outcome = read_view(f, reply, &e);
    if (outcome == VIEW_MISSING) {
        set_view(f, NULL);
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
    names_filter_key(&f->names, "view", &name);
    const char *argv[] = {"HGETALL", name.text};
    const size_t lengths[] = {7, name.length};
    buffer_clear(&c->command);
    buffer_command(&c->command, 2, argv, lengths);
    f->load_again = false;
    f->loading = !buffer_failed(&c->command) &&
                 store_send(c->store, NODE_HOME, c->command.data, c->command.length, on_view, f);
    if (f->loading)
        return;
    struct operation *op;
    while ((op = TAILQ_FIRST(&f->waiting)) != NULL) {
        TAILQ_REMOVE(&f->waiting, op, queue);
        TAILQ_INSERT_TAIL(&c->retries, op, queue);
        op->in = QUEUE_RETRY;
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
    struct catalog_filter *f = lookup(c, name, length);
    if (f != NULL && f->loading)
        f->load_again = true;
    else if (f != NULL)
        start_load(f);
}

/* Where a fence is complete by now, the renames need not be sent any more. */
static void look_again(struct catalog *c)
{
    struct catalog_filter *f, *next;
    for (f = TAILQ_FIRST(&c->unfenced); f != NULL; f = next) {
        next = TAILQ_NEXT(f, unfenced_link);
        if (!f->loading)
            start_load(f);
    }
}

void catalog_report_lost(struct catalog_filter *f, uint64_t generation)
{
    bool *reported = f->view != NULL ? &f->view->lost_reported : &f->absence_reported;
    if (*reported)
        return;
    *reported = true;
    const struct catalog_options *o = &f->catalog->options;
    o->on_lost(o->arg, f->name, f->name_length, generation);
}

/* --- the catalog --- */

static void on_tick(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct catalog *c = arg;
    uint64_t now = clock_mono_us();
    struct operation *op;
    while ((op = TAILQ_FIRST(&c->active)) != NULL && op->deadline <= now)
        operation_expire(op);
    struct operation_list again;
    TAILQ_INIT(&again);
    TAILQ_CONCAT(&again, &c->retries, queue);
    while ((op = TAILQ_FIRST(&again)) != NULL) {
        TAILQ_REMOVE(&again, op, queue);
        op->in = QUEUE_NONE;
        operation_retry(op);
    }
    if (now >= c->shard_counts_at) {
        c->shard_counts_at = now + SHARD_COUNTS_MS * 1000;
        counts_flush(c, true);
    }
    counts_drain_some(c, SHARD_COUNTS_A_TICK);
    if (now >= c->relook_at) {
        c->relook_at = now + RELOOK_MS * 1000;
        look_again(c);
    }
}

struct catalog *catalog_new(struct event_base *base, const struct catalog_options *options)
{
    struct catalog *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->options = *options;
    c->base = base;
    TAILQ_INIT(&c->active);
    TAILQ_INIT(&c->retries);
    TAILQ_INIT(&c->dirty);
    TAILQ_INIT(&c->unfenced);
    TAILQ_INIT(&c->draining);
    struct timeval tick = {.tv_usec = TICK_MS * 1000};
    c->store = store_new(base, options->nodes, options->redis_timeout_ms, options->latency);
    c->tick = event_new(base, -1, EV_PERSIST, on_tick, c);
    c->flush = evtimer_new(base, counts_on_flush, c);
    if (c->store == NULL || c->tick == NULL || c->flush == NULL || event_add(c->tick, &tick) != 0) {
        catalog_free(c);
        return NULL;
    }
    return c;
}

void catalog_free(struct catalog *c)
{
    if (c == NULL)
        return;
    counts_flush(c, true);
    counts_drain_some(c, SIZE_MAX);
    c->closing = true;
    struct operation *op;
    while ((op = TAILQ_FIRST(&c->active)) != NULL)
        operation_finish(op, ERR_CANCELLED, "the service is stopping");
    store_free(c->store); /* callbacks with NULL: every operation's outstanding commands end here */
    if (c->tick != NULL)
        event_free(c->tick);
    if (c->flush != NULL)
        event_free(c->flush);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct catalog_filter *f = c->bucket[i], *next; f != NULL; f = next) {
            next = f->next;
            shared_view_unref(f->view);
            f->view = NULL;
            filter_free(f);
        }
    struct shared_view *view;
    while ((view = TAILQ_FIRST(&c->draining)) != NULL) { /* counted after the last flush: too late */
        view->drain_again = false;
        counts_drain_end(c, view);
    }
    buffer_fini(&c->command);
    free(c);
}
