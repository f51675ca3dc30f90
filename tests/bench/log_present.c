/* SPDX-License-Identifier: MIT */
/* One add at a time by the core that the service has (shard/operation.h), in a loop of its own. */
#include "log_bench.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/catalog.h"
#include "shard/fence.h"
#include "shard/operation.h"

#define MUTEX "bench:7"
enum { TOMBSTONE_MS = 600 * 1000, NUMBER = 2, TOKEN = 7, INCARNATION = 0xbe7c };

struct present {
    struct server *server;
    struct event_base *base;
    struct catalog *catalog;
    struct catalog_filter *filter;
    const struct keys *keys;
    uint64_t next, end, began;
    uint32_t *latency;
    uint64_t latencies;
};

/* --- the filter --- */

static void make_filter(struct server *s, uint64_t capacity)
{
    struct fence *fence = allocate(sizeof(*fence));
    struct view *v = allocate(sizeof(*v));
    struct generation *g = &v->slot[0];
    struct error e = {""};
    uint64_t lost = 0;
    must(names_init(&fence->names, "present", "f", 1, &e), &e);
    fence->names.incarnation = INCARNATION;
    fence->tombstone_ms = TOMBSTONE_MS;
    fence->link = s->link;
    (void)server_integer(s, "SET present:{f}:expansion_flag %s", MUTEX);
    *v = (struct view){.incarnation = INCARNATION,
                       .epoch = 1,
                       .phase = PHASE_STEADY,
                       .last_generation = NUMBER,
                       .sourced = true};
    *g = (struct generation){.number = NUMBER,
                             .seed = 0x5eed,
                             .built = true,
                             .capacity = capacity,
                             .error_rate = ERROR_RATE,
                             .layer_count = 1};
    g->layers[0] =
        (struct layer){.capacity = capacity, .error_rate = ERROR_RATE, .token = TOKEN, .born_epoch = 1};
    must(geometry_plan(&g->layers[0].geometry, capacity, ERROR_RATE, SHARD_BYTES_DEFAULT, &e), &e);
    nodes_pin(&s->nodes, g);
    must(fence_create(fence, g, 0, &e), &e);
    must(fence_publish(fence, v, MUTEX, &e), &e);
    must(fence_complete(fence, v, &lost, &e), &e);
    fence_fini(fence);
    free(fence);
    free(v);
}

/* --- a process --- */

static struct filter_policy policy_of(void *arg, const char *name, size_t length)
{
    (void)arg;
    (void)name;
    (void)length;
    return (struct filter_policy){.configured = true, .sourced = true};
}

static void on_seen(void *arg, const char *name, size_t length, uint64_t incarnation)
{
    (void)arg;
    (void)name;
    (void)length;
    (void)incarnation;
}

static bool was_seen(void *arg, const char *name, size_t length)
{
    (void)arg;
    (void)name;
    (void)length;
    return true;
}

static void on_lost(void *arg, const char *name, size_t length, const struct lost_shard *lost)
{
    (void)arg;
    (void)name;
    (void)length;
    (void)lost;
    must(ERR_LOST, &(struct error){"a shard of the present core is lost"});
}

struct present *present_open(struct server *s, uint64_t capacity)
{
    struct present *p = allocate(sizeof(*p));
    struct error e = {""};
    make_filter(s, capacity);
    p->server = s;
    p->base = event_base_new();
    const struct catalog_options o = {.nodes = &s->nodes,
                                      .prefix = "present",
                                      .redis_timeout_ms = REPLY_MS,
                                      .timeout_ms = REPLY_MS,
                                      .tombstone_ms = TOMBSTONE_MS,
                                      .policy = policy_of,
                                      .on_seen = on_seen,
                                      .on_dropped = on_seen,
                                      .was_seen = was_seen,
                                      .on_lost = on_lost};
    p->catalog = p->base == NULL ? NULL : catalog_new(p->base, &o);
    if (p->catalog == NULL)
        must(ERR_NOMEM, &(struct error){"out of memory"});
    must(catalog_find(p->catalog, "f", 1, &p->filter, &e), &e);
    return p;
}

void present_close(struct present *p)
{
    catalog_free(p->catalog);
    (void)event_base_loop(p->base, EVLOOP_NONBLOCK);
    event_base_free(p->base);
    free(p);
}

/* --- adds --- */

static void add_next(struct present *p);

static void on_done(struct operation *op, void *arg)
{
    struct present *p = arg;
    must(operation_status(op), &(struct error){"an add by the present core"});
    operation_release(op);
    p->latency[p->latencies++] = (uint32_t)(clock_mono_us() - p->began);
    if (p->next < p->end)
        add_next(p);
    else
        (void)event_base_loopbreak(p->base);
}

static void add_next(struct present *p)
{
    const struct request_key *key = &p->keys->key[p->next++ % p->keys->count];
    p->began = clock_mono_us();
    struct operation *op = operation_new(p->catalog, OPERATION_ADD, 1, key->length);
    if (op == NULL)
        must(ERR_NOMEM, &(struct error){"out of memory"});
    operation_key(op, key->bytes, key->length);
    operation_start(op, p->filter, on_done, p);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

double present_add(struct present *p, const struct keys *keys, uint64_t first, uint64_t count)
{
    p->keys = keys;
    p->next = first;
    p->end = first + count;
    p->latency = allocate(count * sizeof(*p->latency));
    p->latencies = 0;
    add_next(p);
    (void)event_base_dispatch(p->base);
    qsort(p->latency, p->latencies, sizeof(*p->latency), compare);
    uint32_t median = p->latency[p->latencies / 2];
    free(p->latency);
    return median;
}
