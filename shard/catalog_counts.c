/* SPDX-License-Identifier: MIT */
/* The catalog's counts: of each layer, and of each shard, on their way to Redis. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/catalog_internal.h"

enum { SHARD_REST_US = 100 }; /* between two drains, for each shard: 50,000 are drained every 6 s */

uint64_t shared_view_room(const struct shared_view *view)
{
    const struct generation *g = view_current(&view->v);
    uint64_t capacity = g->layers[generation_written_layer(g)].capacity;
    uint64_t items = view->items + view->unconfirmed + view->added_total[view->v.current];
    return items < capacity ? capacity - items : 0;
}

static void on_count(void *arg, const redisReply *reply)
{
    (void)reply;
    ((struct catalog *)arg)->counts_in_flight--;
}

/* The total of the written layer, with what was sent: HINCRBY answers with the sum over all coordinators. */
struct total_sent {
    struct catalog *catalog;
    struct shared_view *view;
    uint64_t n;
};

static void on_total(void *arg, const redisReply *reply)
{
    struct total_sent *sent = arg;
    sent->catalog->counts_in_flight--;
    sent->view->unconfirmed -= sent->n;
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER) {
        sent->view->items = (uint64_t)reply->integer;
        sent->view->items_known = true;
    }
    shared_view_unref(sent->view);
    free(sent);
}

static void send_count(struct catalog *c, struct shared_view *view, const char *field, uint64_t n, bool total)
{
    struct key_name name;
    char number[24];
    names_filter_key(&view->names, "count", &name);
    int digits = snprintf(number, sizeof(number), "%" PRIu64, n);
    const char *argv[] = {"HINCRBY", name.text, field, number};
    const size_t lengths[] = {7, name.length, strlen(field), (size_t)digits};
    buffer_clear(&c->command);
    buffer_command(&c->command, 4, argv, lengths);
    if (buffer_failed(&c->command))
        return;
    unsigned home = catalog_home(c, &view->names);
    struct total_sent *sent = total ? malloc(sizeof(*sent)) : NULL;
    if (sent == NULL) {
        c->counts_in_flight += store_send(c->store, home, c->command.data, c->command.length, on_count, c);
        return;
    }
    *sent = (struct total_sent){.catalog = c, .view = shared_view_ref(view), .n = n};
    view->unconfirmed += n;
    if (store_send(c->store, home, c->command.data, c->command.length, on_total, sent)) {
        c->counts_in_flight++;
    } else {
        view->unconfirmed -= n;
        shared_view_unref(view);
        free(sent);
    }
}

void counts_send_total(struct catalog *c, struct shared_view *view, unsigned slot)
{
    char field[96];
    const struct generation *g = &view->v.slot[slot];
    (void)snprintf(field, sizeof(field), "%" PRIu64 ".%u", g->number, generation_written_layer(g));
    uint64_t n = view->added_total[slot];
    view->added_total[slot] = 0;
    send_count(c, view, field, n, slot == view->v.current);
}

void counts_flush_totals(struct catalog *c, struct shared_view *view)
{
    for (unsigned s = 0; s < 2; s++)
        if (view->v.slot[s].number != 0 && view->added_total[s] != 0)
            counts_send_total(c, view, s);
}

/* --- of single shards, which only thresholds look at --- */

void counts_drain(struct catalog *c, struct shared_view *view)
{
    view->drain_again = view->draining;
    if (view->draining)
        return;
    view->draining = true;
    view->drain_slot = 0;
    view->drain_shard = 0;
    (void)shared_view_ref(view);
    TAILQ_INSERT_TAIL(&c->draining, view, drain_link);
}

void counts_drain_end(struct catalog *c, struct shared_view *view)
{
    view->draining = false;
    TAILQ_REMOVE(&c->draining, view, drain_link);
    if (view->drain_again)
        counts_drain(c, view);
    shared_view_unref(view);
}

/* Send at most @budget counts of one generation, from view->drain_shard on; returns what is left of it. */
static size_t drain_slot(struct catalog *c, struct shared_view *view, size_t budget)
{
    char field[96];
    unsigned s = view->drain_slot;
    const struct generation *g = &view->v.slot[s];
    unsigned layer = g->number == 0 ? 0 : generation_written_layer(g);
    uint32_t shards = g->number == 0 ? 0 : g->layers[layer].geometry.shards;
    for (; view->drain_shard < shards && budget > 0; view->drain_shard++) {
        uint32_t *added = &view->added[s][view->drain_shard];
        if (*added == 0)
            continue;
        (void)snprintf(field, sizeof(field), "%" PRIu64 ".%u.%" PRIu32, g->number, layer, view->drain_shard);
        send_count(c, view, field, *added, false);
        *added = 0;
        budget--;
    }
    if (view->drain_shard == shards) {
        view->drain_slot++;
        view->drain_shard = 0;
    }
    return budget;
}

void counts_drain_some(struct catalog *c, size_t budget)
{
    struct shared_view *view;
    while (budget > 0 && (view = TAILQ_FIRST(&c->draining)) != NULL) {
        budget = drain_slot(c, view, budget);
        if (view->drain_slot == 2)
            counts_drain_end(c, view);
    }
}

/* Each shard takes a command: 50,000 of them every second would be as many as the adds that they count. */
static bool drain_is_due(struct shared_view *view, uint64_t now)
{
    if (now < view->drain_due)
        return false;
    view->drain_due =
        now + SHARD_REST_US * (generation_shards(&view->v.slot[0]) + generation_shards(&view->v.slot[1]));
    return true;
}

void counts_flush(struct catalog *c, enum counts_which which)
{
    struct catalog_filter *f, *next;
    uint64_t now = clock_mono_us();
    for (f = TAILQ_FIRST(&c->dirty); f != NULL; f = next) {
        next = TAILQ_NEXT(f, dirty_link);
        if (f->view != NULL)
            counts_flush_totals(c, f->view);
        if (which == COUNTS_TOTALS || (which == COUNTS_DUE && f->view != NULL && !drain_is_due(f->view, now)))
            continue;
        if (f->view != NULL)
            counts_drain(c, f->view);
        TAILQ_REMOVE(&c->dirty, f, dirty_link);
        f->dirty = false;
    }
}

void counts_on_flush(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    counts_flush(arg, COUNTS_TOTALS);
}

void catalog_flush(struct catalog *c, catalog_flushed_fn *fn, void *arg)
{
    counts_flush(c, COUNTS_TOTALS);
    /* Behind the counts, wherever they go. */
    if (c->counts_in_flight == 0 || !store_barrier(c->store, fn, arg))
        fn(arg);
}

void catalog_count(struct catalog_filter *f, struct shared_view *view, unsigned slot, uint32_t shard)
{
    struct catalog *c = f->catalog;
    view->added_total[slot]++;
    view->added[slot][shard]++;
    if (view != f->view) { /* a view that was replaced meanwhile: nobody will flush it later */
        counts_flush_totals(c, view);
        counts_drain(c, view);
        return;
    }
    if (!f->dirty) {
        f->dirty = true;
        TAILQ_INSERT_TAIL(&c->dirty, f, dirty_link);
    }
    if (!event_pending(c->flush, EV_TIMEOUT, NULL)) {
        static const struct timeval at_once = {0, 0};
        (void)event_add(c->flush, &at_once);
    }
}
