/* SPDX-License-Identifier: MIT */
/* What a view of the filter costs a coordinator, and how long a fence takes: the real catalogs and the real
 * fence, on a redis-server of the simulation's own. The view is published without its shards, which no
 * catalog asks for. */
#include <event2/event.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "shard/catalog.h"
#include "shard/fence.h"
#include "tests/lib/temp_redis.h"
#include "tests/sim/sim.h"

enum {
    CATALOGS = 3, /* two workers and HTTP */
    LINK_MS = 10000,
    LOAD_MS = 10000,
    TOMBSTONE_MS = 600 * 1000,
    MEMORY_MAX = 64 << 20,
    ROUNDS = 3 /* of a fence, of which the median is taken */
};

#define PREFIX "sim"
#define FILTER "short-link"
#define MUTEX "sim:7"

struct world {
    struct temp_redis redis;
    struct nodes nodes;
    struct event_base *base;
    struct catalog *catalog[CATALOGS];
    struct fence fence;
};

/* --- the heap --- */

extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* Bytes that the process has allocated. */
static size_t allocated(void)
{
    if (__sanitizer_get_current_allocated_bytes != NULL)
        return __sanitizer_get_current_allocated_bytes();
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* --- catalogs --- */

static struct filter_policy policy_of(void *arg, const char *name, size_t length)
{
    (void)arg;
    (void)name;
    (void)length;
    return (struct filter_policy){.configured = true};
}

static void on_incarnation(void *arg, const char *name, size_t length, uint64_t incarnation)
{
    (void)arg;
    (void)name;
    (void)length;
    (void)incarnation;
}

static void on_lost(void *arg, const char *name, size_t length, const struct lost_shard *lost)
{
    on_incarnation(arg, name, length, lost->generation);
}

static bool was_seen(void *arg, const char *name, size_t length)
{
    (void)arg;
    (void)name;
    (void)length;
    return true;
}

static enum err open_catalogs(struct world *w, struct error *e)
{
    const struct catalog_options o = {.nodes = &w->nodes,
                                      .prefix = PREFIX,
                                      .redis_timeout_ms = LINK_MS,
                                      .timeout_ms = LINK_MS,
                                      .tombstone_ms = TOMBSTONE_MS,
                                      .policy = policy_of,
                                      .on_seen = on_incarnation,
                                      .on_dropped = on_incarnation,
                                      .was_seen = was_seen,
                                      .on_lost = on_lost};
    w->base = event_base_new();
    for (unsigned i = 0; i < CATALOGS && w->base != NULL; i++) {
        struct catalog_filter *f;
        w->catalog[i] = catalog_new(w->base, &o);
        if (w->catalog[i] == NULL)
            return error_set(e, ERR_NOMEM, "out of memory");
        enum err code = catalog_find(w->catalog[i], FILTER, strlen(FILTER), &f, e);
        if (code != ERR_OK)
            return code;
    }
    return w->base == NULL ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
}

static void close_catalogs(struct world *w)
{
    for (unsigned i = 0; i < CATALOGS; i++)
        catalog_free(w->catalog[i]);
    if (w->base != NULL) {
        (void)event_base_loop(w->base, EVLOOP_NONBLOCK);
        event_base_free(w->base);
    }
}

/* Have all catalogs load the view with that epoch. @seconds: of one of them, from its request to its view. */
static enum err load_views(struct world *w, uint64_t epoch, double *seconds, struct error *e)
{
    uint64_t began = clock_mono_us(), until = began + LOAD_MS * 1000ull;
    unsigned there = 0;
    for (unsigned i = 0; i < CATALOGS; i++)
        catalog_refresh(w->catalog[i], FILTER, strlen(FILTER));
    while (there < CATALOGS && clock_mono_us() < until) {
        (void)event_base_loop(w->base, EVLOOP_ONCE);
        there = 0;
        for (unsigned i = 0; i < CATALOGS; i++) {
            struct catalog_filter *f;
            if (catalog_find(w->catalog[i], FILTER, strlen(FILTER), &f, e) == ERR_OK)
                there += f->view != NULL && f->view->v.epoch == epoch;
        }
    }
    *seconds = (double)(clock_mono_us() - began) / 1e6 / CATALOGS;
    return there == CATALOGS ? ERR_OK : error_set(e, ERR_TIMEOUT, "a catalog did not load its view");
}

/* --- the world --- */

static enum err open_fence(struct world *w, const char *filter, struct error *e)
{
    struct key_name flag;
    redisReply *reply;
    enum err code = names_init(&w->fence.names, PREFIX, filter, strlen(filter), e);
    if (code != ERR_OK)
        return code;
    w->fence.names.incarnation = 0xabcdef;
    w->fence.tombstone_ms = TOMBSTONE_MS;
    names_filter_key(&w->fence.names, "expansion_flag", &flag);
    code = link_command(w->fence.link, NODE_HOME, &reply, e, "SET %b " MUTEX, flag.text, flag.length);
    if (code == ERR_OK)
        freeReplyObject(reply);
    return code;
}

static enum err world_open(struct world *w, struct error *e)
{
    enum err code = temp_redis_start(&w->redis, NULL, e);
    if (code == ERR_OK)
        code = nodes_parse(&w->nodes, w->redis.url, e);
    if (code != ERR_OK)
        return code;
    w->fence.link = link_new(&w->nodes, LINK_MS, NULL);
    return w->fence.link == NULL ? error_set(e, ERR_NOMEM, "out of memory") : open_catalogs(w, e);
}

static void world_close(struct world *w)
{
    close_catalogs(w);
    fence_fini(&w->fence);
    if (w->fence.link != NULL)
        link_free(w->fence.link);
    temp_redis_fini(&w->redis);
}

/* --- a view --- */

static void add_length(void *arg, const char *name, const char *value)
{
    *(uint64_t *)arg += strlen(name) + strlen(value);
}

static void report_text(struct sim *s, const struct view *v)
{
    uint64_t bytes = 0;
    view_format(v, add_length, &bytes);
    sim_figure(s, "text of the view with two generations over 64 nodes", (double)bytes, 65536, "bytes");
}

/* While both generations are in use, over as many nodes as there may be. */
static void largest_view(const struct sim *s, struct view *v)
{
    *v = (struct view){.incarnation = 0xabcdef,
                       .epoch = 2,
                       .fenced_epoch = 1,
                       .phase = PHASE_BUILDING,
                       .last_generation = 3,
                       .sourced = true};
    sim_generation(s, GENERATION_NODES_MAX, 2, 1, &v->slot[0]);
    sim_generation(s, GENERATION_NODES_MAX, 3, 2, &v->slot[1]);
}

static double to_mib(size_t now, size_t before)
{
    return ((double)now - (double)before) / 0x1p20;
}

/* Memory above that of catalogs without a view: in rest, while a fence runs (old and new view), and after it.
 */
static enum err measure_memory(struct sim *s, struct world *w, struct error *e)
{
    static struct view v, next;
    double seconds;
    enum err code = open_fence(w, FILTER, e);
    if (code != ERR_OK)
        return code;
    largest_view(s, &next);
    nodes_pin(&w->nodes, &next.slot[0]); /* the catalogs know no others */
    nodes_pin(&w->nodes, &next.slot[1]);
    v = next;
    v.slot[1].number = 0;
    v.epoch = 1;
    v.phase = PHASE_STEADY;
    v.last_generation = 2;
    size_t idle = allocated();
    code = fence_publish(&w->fence, &v, MUTEX, e);
    if (code == ERR_OK)
        code = load_views(w, 1, &seconds, e);
    if (code != ERR_OK)
        return code;
    sim_figure(s, "a coordinator's 3 catalogs, at rest", to_mib(allocated(), idle), MEMORY_MAX / 0x1p20,
               "MiB");
    code = fence_change(&w->fence, &v, &next, MUTEX, NULL, e);
    if (code == ERR_OK)
        code = load_views(w, 2, &seconds, e);
    if (code != ERR_OK)
        return code;
    sim_figure(s, "the same while a fence runs", to_mib(allocated(), idle), MEMORY_MAX / 0x1p20, "MiB");
    sim_figure(s, "time to load such a view into one catalog", seconds * 1000, (double)NAN, "ms");
    return ERR_OK;
}

static void calculate_memory(struct sim *s)
{
    double shards = s->geometry.shards;
    double bytes =
        CATALOGS * (sizeof(struct shared_view) + 2 * shards * (sizeof(uint32_t) + sizeof(uint8_t)));
    sim_note("no redis-server: by calculation, and no fence");
    sim_figure(s, "a coordinator's 3 catalogs, while a fence runs", bytes / 0x1p20, MEMORY_MAX / 0x1p20,
               "MiB");
}

/* --- a fence --- */

/* Its shards are small, as what a rename costs does not depend on its size. */
static void small_view(const struct sim *s, const struct world *w, struct view *v)
{
    *v = (struct view){
        .incarnation = 0xabcdef, .epoch = 1, .phase = PHASE_STEADY, .last_generation = 2, .sourced = true};
    sim_generation(s, 1, 2, 1, &v->slot[0]);
    nodes_pin(&w->nodes, &v->slot[0]);
    v->slot[0].layers[0].geometry =
        (struct geometry){.shards = s->renames, .blocks = 1, .block_bits = BLOCK_BITS_MIN, .hashes = 10};
}

static double median_of_three(const double t[ROUNDS])
{
    return fmax(fmin(t[0], t[1]), fmin(fmax(t[0], t[1]), t[2]));
}

static enum err timed_fence(struct world *w, struct view *v, double *seconds, struct error *e)
{
    uint64_t lost = 0, began = clock_mono_us();
    enum err code = fence_complete(&w->fence, v, &lost, e);
    *seconds = (double)(clock_mono_us() - began) / 1e6;
    if (code == ERR_OK && lost > 0)
        code = error_set(e, ERR_LOST, "the fence found %llu shards lost", (unsigned long long)lost);
    return code;
}

/* The next view: another generation, of one block, comes and goes; whatever changes, every shard is renamed.
 */
static enum err next_view(const struct sim *s, struct world *w, const struct view *v, struct view *next,
                          struct error *e)
{
    *next = *v;
    next->epoch++;
    if (v->phase == PHASE_BUILDING) {
        next->phase = PHASE_STEADY;
        next->slot[1].number = 0;
        return ERR_OK;
    }
    next->phase = PHASE_BUILDING;
    next->last_generation += next->last_generation % 2 == 0 ? 1 : 2; /* for slot 1; never one that was used */
    sim_generation(s, 1, next->last_generation, next->epoch, &next->slot[1]);
    nodes_pin(&w->nodes, &next->slot[1]);
    next->slot[1].layers[0].geometry = geometry_placeholder();
    return fence_create(&w->fence, &next->slot[1], 0, e);
}

static enum err measure_fence(const struct sim *s, struct world *w, double *median, struct error *e)
{
    static struct view v, next;
    double seconds[ROUNDS] = {0};
    enum err code = open_fence(w, "fence", e);
    if (code != ERR_OK)
        return code;
    small_view(s, w, &v);
    code = fence_create(&w->fence, &v.slot[0], 0, e);
    if (code == ERR_OK)
        code = fence_publish(&w->fence, &v, MUTEX, e);
    if (code == ERR_OK) /* from the names of the attempt: does not count */
        code = timed_fence(w, &v, &seconds[0], e);
    for (unsigned i = 0; i < ROUNDS && code == ERR_OK; i++) {
        code = next_view(s, w, &v, &next, e);
        if (code == ERR_OK)
            code = fence_change(&w->fence, &v, &next, MUTEX, NULL, e);
        if (code == ERR_OK)
            code = timed_fence(w, &next, &seconds[i], e);
        v = next;
    }
    *median = median_of_three(seconds);
    return code;
}

static enum err report_fence(struct sim *s, struct world *w, struct error *e)
{
    char a[NUMBER_GROUPED_SIZE], line[96];
    double seconds = 0;
    enum err code = measure_fence(s, w, &seconds, e);
    if (code != ERR_OK)
        return code;
    sim_heading("Fence");
    sim_note("measured with %s shards on one Redis on loopback, median of %d; the others by as much a shard",
             number_grouped(s->renames, a), ROUNDS);
    double each = seconds / s->renames;
    (void)snprintf(line, sizeof(line), "fence of %s shards", number_grouped(s->renames, a));
    sim_figure(s, line, seconds, (double)NAN, "s");
    sim_figure(s, "a shard", each * 1e6, (double)NAN, "us");
    sim_figure(s, "fence of one generation", each * s->geometry.shards, (double)NAN, "s");
    sim_figure(s, "fence of two, as in a rebuild", 2 * each * s->geometry.shards, (double)NAN, "s");
    return ERR_OK;
}

enum err sim_view(struct sim *s, struct error *e)
{
    static struct view v;
    sim_heading("Coordinator");
    largest_view(s, &v);
    report_text(s, &v);
    if (!s->redis) {
        calculate_memory(s);
        return ERR_OK;
    }
    struct world w = {.base = NULL};
    enum err code = world_open(&w, e);
    if (code == ERR_OK)
        code = measure_memory(s, &w, e);
    if (code == ERR_OK)
        code = report_fence(s, &w, e);
    world_close(&w);
    return code;
}
