/* SPDX-License-Identifier: MIT */
/* Filters are made: BF.RESERVE, TB.INIT, by an add, by the controller.
 *
 * The happy path is: under the filter's mutex what lies there is looked at, the name is registered on all
 * masters, and the log is made (shard/generations/make.h). Possible failure modes are: there is one already,
 * it is being deleted (that is finished first), the name is registered or somebody serves it though there is
 * no view (that was lost: an add must not make an empty filter in place of one whose keys were acknowledged),
 * home is away (then that is not known, and nothing is made). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/log.h"
#include "shard/generations/grow.h"
#include "expansion/job/memory.h"
#include "service/admin/admin.h"
#include "service/resp/answer.h"
#include "shard/view/registry.h"
#include "shard/request/filters.h"
#include "shard/members/members.h"
#include "shard/generations/drop.h"

enum { DEFAULT_EXPANSION = 2 };
static const double default_error_rate = 0.01;

/* What a filter is made from: the command's options over the configuration over the defaults. */
struct recipe {
    uint64_t capacity;
    double error_rate;
    uint32_t expansion;
    bool sourced;
    bool anew;         /* see struct creation */
    const char *nodes; /* as placement_choose() takes them */
};

static struct recipe recipe_for(const struct config_filter *c, const struct creation *wanted)
{
    struct recipe r = {.capacity = CONFIG_CAPACITY_DEFAULT,
                       .error_rate = default_error_rate,
                       .expansion = DEFAULT_EXPANSION,
                       .nodes = ""};
    if (c != NULL)
        r = (struct recipe){.capacity = config_capacity(c),
                            .error_rate = c->error_rate,
                            .expansion = c->expansion,
                            .sourced = c->table[0] != '\0',
                            .nodes = c->nodes};
    if (wanted != NULL && wanted->capacity != 0)
        r.capacity = wanted->capacity;
    if (wanted != NULL && wanted->error_rate != 0)
        r.error_rate = wanted->error_rate;
    if (wanted != NULL && wanted->expansion != 0)
        r.expansion = wanted->expansion;
    if (wanted != NULL && wanted->non_scaling)
        r.expansion = 0;
    r.anew = wanted != NULL && wanted->anew;
    return r;
}

static void leave_registries(struct handle *f)
{
    struct error e;
    if (registry_leave(f, f->names.incarnation, &e) != ERR_OK)
        log_warn("filter_not_unregistered", "filter=%s note=\"its name stays listed\"",
                 log_quote(f->names.filter));
}

/* One that is there already needs none. */
static enum err check_memory(const struct service *s, const struct handle *f, const struct make_options *o,
                             struct error *e)
{
    char warning[256];
    struct generation *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    *g = (struct generation){
        .number = 1, .capacity = o->capacity, .error_rate = o->error_rate, .layer_count = 1};
    placement_pin(o->placement, &s->nodes, g);
    enum err code = geometry_plan(&g->layers[0].geometry, o->capacity, o->error_rate, o->shard_bytes, e);
    if (code == ERR_OK) {
        const uint64_t bytes = memory_of_generation(g);
        const struct plan plan = {.capacity = g->capacity,
                                  .geometry = g->layers[0].geometry,
                                  .bytes = generation_bytes(g),
                                  .memory_new = bytes,
                                  .memory_peak = bytes,
                                  .partitions = 1};
        code = memory_fits(f, g, &plan, warning, e);
    }
    free(g);
    return code == ERR_REFUSED ? ERR_NOMEM : code;
}

static const char lost_view[] = "a filter of this name lost its view; BF.RESERVE creates it again, empty";

/* *@latest: the latest incarnation that is known. */
static enum err look_for_latest(struct handle *f, uint64_t *latest, struct error *e)
{
    struct registry_said said;
    enum err code = registry_look(f->redis, &f->names, &said, e);
    if (said.incarnation > *latest)
        *latest = said.incarnation;
    return code;
}

enum err admin_make_way(struct service *s, struct admin_naming *n, const char *name, size_t length,
                        struct view *is, const struct work *work, struct error *e)
{
    struct handle *f = n->handle;
    enum err code = handle_load_any(f, is, e);
    bool kept = code == ERR_OK && !is->deleting;
    n->latest = service_seen(s, name, length);
    if (kept)
        code = look_for_latest(f, &n->latest, e);
    if (kept && code == ERR_OK && is->incarnation >= n->latest)
        return error_set(e, ERR_EXISTS, "the filter exists already");
    if (kept && code == ERR_OK && !n->as_new)
        return error_set(e, ERR_LOST, "%s", lost_view);
    if (code == ERR_OK)
        code = log_drop(f->redis, &f->names, work, e);
    n->deleted = code == ERR_OK;
    if (code == ERR_OK) {
        filters_look(s->logs, name, length);
        handle_announce(f);
    }
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

/* A coordinator that serves the filter, the earliest incarnation of those that are served. */
struct server {
    char id[MEMBERS_ID_MAX];
    uint64_t incarnation;
};

/* members_fn */
static void take_server(void *arg, const struct members_entry *entry)
{
    struct server *s = arg;
    if (entry->gone || entry->epoch == 0 || (s->id[0] != '\0' && s->incarnation <= entry->incarnation))
        return;
    s->incarnation = entry->incarnation;
    (void)snprintf(s->id, sizeof(s->id), "%s", entry->id);
}

/* Nothing is stored of the filter: it was never made, unless somebody serves it that was not deleted. Who
 * serves one has said so a while ago, and may not have met its deletion yet.
 * ERR_LOST: somebody does. ERR_UNREACHABLE, ERR_TIMEOUT. */
static enum err may_make(struct handle *f, struct error *e)
{
    struct server server = {.id = ""};
    uint64_t deleted;
    enum err code = members_read(f->redis, f->names.prefix, f->names.filter, take_server, &server, e);
    if (code != ERR_OK || server.id[0] == '\0')
        return code;
    code = registry_look_deleted(f->redis, &f->names, &deleted, e);
    if (code != ERR_OK || server.incarnation <= deleted)
        return code;
    return error_set(e, ERR_LOST,
                     "a filter of this name lost its view (it was served by coordinator %s); BF.RESERVE "
                     "creates it again, empty",
                     server.id);
}

/* It is named, and there is neither a view nor a record. */
static enum err was_deleted(struct handle *f, struct error *e)
{
    struct registry_said said;
    uint64_t deleted;
    enum err code = registry_look(f->redis, &f->names, &said, e);
    if (code == ERR_OK)
        code = registry_look_deleted(f->redis, &f->names, &deleted, e);
    return code == ERR_OK && registry_names_later(&said, deleted) ? error_set(e, ERR_LOST, "%s", lost_view)
                                                                  : code;
}

/* One that is named and has neither a view nor a record has lost its view. Who serves it is asked before it
 * is named here: others would see a name without a view or a record, again and again, and take that for lost.
 */
static enum err enter_log(void *arg, bool was_left, bool *clean, struct error *e)
{
    struct admin_naming *n = arg;
    bool may_be_lost = !n->entered && !was_left && !n->deleted && !n->as_new;
    enum err code = !n->entered && !n->as_new ? may_make(n->handle, e) : ERR_OK;
    if (code == ERR_OK && !n->entered)
        code = registry_enter(n->handle, &n->named, e);
    *clean = !n->named;
    if (n->entered)
        return registry_succeed(n->handle, e);
    n->entered = code == ERR_OK && !n->named;
    if (code == ERR_OK && may_be_lost && n->named)
        code = was_deleted(n->handle, e);
    if (code == ERR_OK && n->named)
        code = look_for_latest(n->handle, &n->latest, e);
    if (code == ERR_OK && n->latest >= n->handle->names.incarnation)
        return error_set(e, ERR_CONFLICT, "a later incarnation is named already");
    return code == ERR_OK && n->named ? registry_succeed(n->handle, e) : code;
}

enum err admin_make_log(struct admin_naming *n, const struct make_options *options, struct log_view *out,
                        const struct work *work, struct error *e)
{
    struct make_options o = *options;
    o.enter = enter_log;
    o.arg = n;
    o.later_than = n->latest;
    enum err code = log_make(n->handle->redis, &n->handle->names, &o, out, work, e);
    if (code == ERR_CONFLICT && n->latest > o.later_than) {
        o.later_than = n->latest;
        code = log_make(n->handle->redis, &n->handle->names, &o, out, work, e);
    }
    bool surely_not = code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT && code != ERR_EXISTS;
    if (surely_not && !n->named)
        leave_registries(n->handle);
    return code;
}

static enum err make(struct service *s, const struct config *config, struct handle *f, const char *name,
                     size_t length, const struct recipe *r, struct mutex *mutex, struct error *e)
{
    enum { LANES = 1 };
    struct placement on;
    struct view *is = malloc(sizeof(*is));
    struct log_view *v = malloc(sizeof(*v));
    const struct work work = {.fn = admin_hold_mutex, .arg = mutex};
    struct admin_naming naming = {.handle = f, .as_new = r->sourced || r->anew};
    struct make_options o = {.capacity = r->capacity,
                             .error_rate = r->error_rate,
                             .expansion = r->expansion,
                             .sourced = r->sourced,
                             .lanes = LANES,
                             .placement = &on,
                             .shard_bytes = (uint32_t)config->shard_bytes};
    if (is == NULL || v == NULL) {
        free(is);
        free(v);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    enum err code = service_claim(s, f->redis, e);
    if (code == ERR_OK)
        code = admin_make_way(s, &naming, name, length, is, &work, e);
    free(is);
    if (code == ERR_OK)
        code = placement_choose(&on, &s->nodes, r->nodes, e);
    if (code == ERR_OK)
        code = check_memory(s, f, &o, e);
    if (code == ERR_OK)
        code = admin_make_log(&naming, &o, v, &work, e);
    if (code == ERR_OK) {
        log_info("filter_created",
                 "filter=%s capacity=%" PRIu64 " error_rate=%g memory_bytes=%" PRIu64 " has_source=%d",
                 log_quote(f->names.filter), r->capacity, r->error_rate,
                 generation_bytes(&v->slot[v->current].shape), r->sourced);
    }
    free(v);
    return code;
}

enum err admin_make_filter(struct service *s, const struct config *config, struct handle *f, const char *name,
                           size_t length, const struct creation *creation, struct error *e)
{
    struct recipe recipe = recipe_for(config_find(config, name, length), creation);
    enum err code = names_init(&f->names, config->prefix, name, length, e);
    if (code != ERR_OK)
        return code;
    struct mutex *mutex = NULL;
    struct mutex_options options = admin_mutex_options(s, config, name, length);
    options.redis = f->redis;
    /* This is short work: another coordinator that is at it is waited for, but not by those who wait here. */
    code = mutex_wait(&mutex, &options, f->requests_wait ? 0 : options.redis_timeout_ms, e);
    if (code == ERR_BUSY && f->requests_wait)
        code = ERR_ASIDE;
    if (code != ERR_OK)
        return code;
    code = make(s, config, f, name, length, &recipe, mutex, e);
    mutex_release(mutex);
    return code;
}

/* Bytes that the first layer of a filter will have. */
static uint64_t bytes_to_be(const struct config *config, const struct recipe *r)
{
    struct geometry g;
    struct error ignored; /* it will be said when the filter is made */
    double rate = r->expansion != 0 ? grow_first_rate(r->error_rate) : r->error_rate;
    uint32_t most = (uint32_t)config->shard_bytes;
    if (r->sourced)
        return 0;
    return geometry_plan(&g, r->capacity, rate, most, &ignored) == ERR_OK ? geometry_memory_log(&g) : 0;
}

enum err admin_create(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    (void)r;
    const struct config_filter *c = config_find(a->config, call->filter, call->filter_length);
    struct recipe recipe = recipe_for(c, &call->creation);
    enum err code = admin_quota(a, call, true, bytes_to_be(a->config, &recipe), e);
    return code != ERR_OK ? code
                          : admin_make_filter(a->service, a->config, &a->handle, call->filter,
                                              call->filter_length, &call->creation, e);
}

enum err admin_grow(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    (void)r;
    return admin_quota(a, call, false, 0, e);
}

const char *admin_creation_failure(const struct admin_call *call, enum err code)
{
    bool large = code == ERR_RANGE && call->creation.capacity > INT32_MAX; /* no memory has so many shards */
    return large || code == ERR_NOMEM ? "Insufficient memory to create filter" : "could not create filter";
}

static enum err reply_not_created(struct reply *r, const struct admin_call *call, enum err code,
                                  const struct error *e)
{
    if (answer_is_of_redisbloom(code))
        reply_error(r, "ERR %s: %s", admin_creation_failure(call, code), e->text);
    else if (code != ERR_WRONG_TYPE)
        reply_failure(r, code, "%s: %s", admin_creation_failure(call, code), e->text);
    return code;
}

enum err admin_reserve(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    call->creation.anew = true;
    enum err code = admin_create(a, call, r, e);
    if (code != ERR_OK)
        return reply_not_created(r, call, code, e);
    reply_simple(r, "OK");
    return ERR_OK;
}

enum err admin_init(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    enum err code = admin_create(a, call, r, e);
    if (code != ERR_OK && code != ERR_EXISTS)
        return reply_not_created(r, call, code, e);
    reply_integer(r, code == ERR_OK);
    return code;
}
