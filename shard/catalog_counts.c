/* SPDX-License-Identifier: MIT */
/* The catalog's counts: of each layer, and of each shard, on their way to Redis. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/catalog_internal.h"

/* SHARD_REST_US: between two drains, for each shard: 50,000 are drained every 6 s.
 * SILENT_US: so long after a count was sent home is taken to be away. */
enum { SHARD_REST_US = 100, SILENT_US = 200 * 1000, SILENT_SHARE = 16 };

#define OF_LAYER UINT32_MAX

uint64_t shared_view_room(const struct shared_view *view)
{
    const struct generation *g = view_current(&view->v);
    uint64_t capacity = g->layers[generation_written_layer(g)].capacity;
    uint64_t items = view->items + view->unconfirmed + view->added_total[view->v.current];
    return items < capacity ? capacity - items : 0;
}

uint64_t shared_view_room_unseen(const struct shared_view *view, uint64_t now)
{
    const struct generation *g = view_current(&view->v);
    uint64_t capacity = g->layers[generation_written_layer(g)].capacity;
    uint64_t mine = view->unconfirmed + view->added_total[view->v.current];
    if (view->unconfirmed_since == 0 || now - view->unconfirmed_since < SILENT_US || view->items > capacity)
        return UINT64_MAX;
    uint64_t share = (capacity - view->items) / SILENT_SHARE;
    return mine < share ? share - mine : 0;
}

static void mark_dirty(struct catalog_filter *f)
{
    if (f->dirty)
        return;
    f->dirty = true;
    TAILQ_INSERT_TAIL(&f->catalog->dirty, f, dirty_link);
}

/* One HINCRBY on its way. */
struct count_sent {
    struct catalog *catalog;
    struct shared_view *view;
    uint64_t n;
    unsigned slot;
    uint32_t shard; /* or OF_LAYER: the total of the written layer */
};

static bool of_current_layer(const struct count_sent *sent)
{
    return sent->shard == OF_LAYER && sent->slot == sent->view->v.current;
}

/* The view in use by now, where it still has that generation: *@slot is where. */
static struct shared_view *view_in_use(struct catalog *c, const struct shared_view *view, unsigned *slot)
{
    char name[FILTER_NAME_MAX];
    size_t length;
    uint64_t number = view->v.slot[*slot].number;
    if (!names_unescape(view->names.filter, view->names.filter_length, name, &length))
        return NULL;
    struct catalog_filter *f = catalog_lookup(c, name, length);
    if (f == NULL || f->view == NULL || f->view->v.incarnation != view->v.incarnation)
        return NULL;
    for (*slot = 0; *slot < 2; ++*slot)
        if (f->view->v.slot[*slot].number == number) {
            mark_dirty(f);
            return f->view;
        }
    return NULL;
}

/* Redis did not say that it has the count. It stays due, and goes out with the next ones: Redis may have
 * executed it all the same, and then counts it twice, which is safe. With a layer that came since it counts
 * as of that. */
static void keep_due(const struct count_sent *sent)
{
    unsigned slot = sent->slot;
    struct shared_view *now;
    if (sent->n == 0 || sent->catalog->closing ||
        (now = view_in_use(sent->catalog, sent->view, &slot)) == NULL)
        return;
    const struct generation *was = &sent->view->v.slot[sent->slot], *is = &now->v.slot[slot];
    if (sent->shard == OF_LAYER)
        now->added_total[slot] += sent->n;
    else if (generation_written_layer(was) == generation_written_layer(is))
        now->added[slot][sent->shard] += (uint32_t)sent->n;
}

/* HINCRBY answers with the sum over all coordinators. */
static void on_count(void *arg, const redisReply *reply)
{
    struct count_sent *sent = arg;
    struct shared_view *view = sent->view;
    bool counted = reply != NULL && reply->type == REDIS_REPLY_INTEGER;
    sent->catalog->counts_in_flight--;
    if (of_current_layer(sent))
        view->unconfirmed -= sent->n;
    if (of_current_layer(sent) && counted) {
        view->items = (uint64_t)reply->integer;
        if (!view->items_known) /* adds wait for it: not until the next tick */
            event_active(sent->catalog->tick, EV_WRITE, 0);
        view->items_known = true;
        view->unconfirmed_since = view->unconfirmed > 0 ? clock_mono_us() : 0;
    }
    if (!counted)
        keep_due(sent);
    shared_view_unref(view);
    free(sent);
}

static bool send_field(struct count_sent *sent, const char *field)
{
    struct catalog *c = sent->catalog;
    struct key_name name;
    char number[24];
    names_filter_key(&sent->view->names, "count", &name);
    int digits = snprintf(number, sizeof(number), "%" PRIu64, sent->n);
    const char *argv[] = {"HINCRBY", name.text, field, number};
    const size_t lengths[] = {7, name.length, strlen(field), (size_t)digits};
    buffer_clear(&c->command);
    buffer_command(&c->command, 4, argv, lengths);
    return !buffer_failed(&c->command) && store_send(c->store, catalog_home(c, &sent->view->names),
                                                     c->command.data, c->command.length, on_count, sent);
}

static void send_count(const struct count_sent *count)
{
    char field[96];
    struct shared_view *view = count->view;
    const struct generation *g = &view->v.slot[count->slot];
    int n = snprintf(field, sizeof(field), "%" PRIu64 ".%u", g->number, generation_written_layer(g));
    if (count->shard != OF_LAYER)
        (void)snprintf(field + n, sizeof(field) - (size_t)n, ".%" PRIu32, count->shard);
    if (of_current_layer(count) && view->unconfirmed_since == 0 && count->n > 0)
        view->unconfirmed_since = clock_mono_us();
    struct count_sent *sent = malloc(sizeof(*sent));
    if (sent != NULL)
        *sent = *count;
    if (sent == NULL || !send_field(sent, field)) {
        free(sent);
        keep_due(count);
        return;
    }
    (void)shared_view_ref(view);
    view->unconfirmed += of_current_layer(count) ? count->n : 0;
    count->catalog->counts_in_flight++;
}

void counts_send_total(struct catalog *c, struct shared_view *view, unsigned slot)
{
    const struct count_sent count = {
        .catalog = c, .view = view, .n = view->added_total[slot], .slot = slot, .shard = OF_LAYER};
    view->added_total[slot] = 0;
    send_count(&count);
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
    unsigned s = view->drain_slot;
    const struct generation *g = &view->v.slot[s];
    unsigned layer = g->number == 0 ? 0 : generation_written_layer(g);
    uint32_t shards = g->number == 0 ? 0 : g->layers[layer].geometry.shards;
    for (; view->drain_shard < shards && budget > 0; view->drain_shard++) {
        const struct count_sent count = {.catalog = c,
                                         .view = view,
                                         .n = view->added[s][view->drain_shard],
                                         .slot = s,
                                         .shard = view->drain_shard};
        if (count.n == 0)
            continue;
        view->added[s][view->drain_shard] = 0;
        send_count(&count);
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
    struct catalog_filter *f;
    uint64_t now = clock_mono_us();
    TAILQ_HEAD(, catalog_filter) due = TAILQ_HEAD_INITIALIZER(due); /* what cannot be sent is dirty again */
    TAILQ_CONCAT(&due, &c->dirty, dirty_link);
    while ((f = TAILQ_FIRST(&due)) != NULL) {
        TAILQ_REMOVE(&due, f, dirty_link);
        f->dirty = false;
        if (f->view != NULL)
            counts_flush_totals(c, f->view);
        if (which == COUNTS_TOTALS || (which == COUNTS_DUE && f->view != NULL && !drain_is_due(f->view, now)))
            mark_dirty(f);
        else if (f->view != NULL)
            counts_drain(c, f->view);
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
    mark_dirty(f);
    if (!event_pending(c->flush, EV_TIMEOUT, NULL)) {
        static const struct timeval at_once = {0, 0};
        (void)event_add(c->flush, &at_once);
    }
}
