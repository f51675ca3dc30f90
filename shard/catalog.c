/* SPDX-License-Identifier: MIT */
#include "shard/catalog.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "shard/catalog_internal.h"
#include "shard/operation_internal.h"

/* SHARD_COUNTS_A_TICK: with 10,000 shards and more, all at once would hold up the requests of everybody.
 * RELOOK_MS: under a view that is not fenced the first command to each shard brings a rename along. */
enum { TICK_MS = 10, SHARD_COUNTS_MS = 1000, SHARD_COUNTS_A_TICK = 256, RELOOK_MS = 50 };

struct store *catalog_store(struct catalog *c)
{
    return c->store;
}

void catalog_set_port(struct catalog *c, void *port)
{
    c->port = port;
}

void *catalog_port(const struct catalog *c)
{
    return c->port;
}

const struct catalog_options *catalog_options(const struct catalog *c)
{
    return &c->options;
}

unsigned catalog_home(const struct catalog *c, const struct names *names)
{
    return nodes_home(c->options.nodes, names);
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
    free(view->trusted);
    free(view);
}

void shared_view_forget_renames(struct shared_view *view)
{
    for (unsigned s = 0; s < 2; s++)
        if (view->renamed[s] != NULL)
            memset(view->renamed[s], 0, generation_shards(&view->v.slot[s]));
}

/* --- entries --- */

static struct catalog_filter **bucket_of(struct catalog *c, const char *name, size_t length)
{
    return &c->bucket[XXH3_64bits(name, length) % BUCKETS];
}

struct catalog_filter *catalog_lookup(struct catalog *c, const char *name, size_t length)
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
    *out = catalog_lookup(c, name, length);
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

/* A view that was lost is still told of as held: whoever is asked to make the filter shall know of it. */
static void tell_held(struct catalog_filter *f)
{
    const struct catalog_options *o = &f->catalog->options;
    const struct view *v = f->view == NULL ? NULL : &f->view->v;
    if (o->on_holds == NULL || (v == NULL && (f->lost || !f->told)))
        return;
    o->on_holds(o->arg, o->loop, f->names.filter, v == NULL ? 0 : v->incarnation, v == NULL ? 0 : v->epoch);
    f->told = v != NULL;
}

void catalog_set_view(struct catalog_filter *f, struct shared_view *view)
{
    struct shared_view *old = f->view;
    f->view = view; /* where what cannot be sent stays due */
    if (old != NULL) {
        counts_flush_totals(f->catalog, old);
        counts_drain(f->catalog, old);
    }
    shared_view_unref(old);
    f->lost = f->lost && view == NULL;
    tell_held(f);
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
    catalog_set_view(f, NULL);
    if (f->open != NULL)
        f->catalog->options.on_forget(f->open);
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

void catalog_report_lost(struct catalog_filter *f, uint64_t generation)
{
    bool *reported = &f->absence_reported;
    if (f->view != NULL)
        reported = &f->view->lost_reported[generation == f->view->v.slot[1].number];
    if (*reported)
        return;
    *reported = true;
    const struct catalog_options *o = &f->catalog->options;
    const struct lost_shard lost = {.generation = generation,
                                    .epoch = f->view != NULL ? f->view->v.epoch : 0,
                                    .trusted_ms = f->view != NULL ? f->view->v.trusted_ms : 0};
    o->on_lost(o->arg, f->name, f->name_length, &lost);
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
        counts_flush(c, COUNTS_DUE);
    }
    counts_drain_some(c, SHARD_COUNTS_A_TICK);
    if (now >= c->relook_at) {
        c->relook_at = now + RELOOK_MS * 1000;
        catalog_look_again(c);
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
    counts_flush(c, COUNTS_ALL);
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
