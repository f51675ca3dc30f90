/* SPDX-License-Identifier: MIT */
/* Filters are made.
 *
 * The happy path is: under the filter's mutex what lies there is looked at, the name is registered on all
 * masters, and the log is made (shard/generations/make.h). Possible failure modes are: there is one already,
 * it is being deleted (that is finished first), the name is registered or somebody serves it though there is
 * no view (that was lost: an add must not make an empty filter in place of one whose keys were acknowledged),
 * home is away (then that is not known, and nothing is made). */
#include "service/filters/filter_make.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/log.h"
#include "service/filters/filter_states.h"
#include "expansion/job/memory.h"
#include "shard/view/registry.h"
#include "shard/control/filters.h"
#include "shard/members/members.h"
#include "shard/generations/drop.h"

enum { DEFAULT_EXPANSION = 2 };
static const double default_error_rate = 0.01;

/* The parameters of a filter: options of the command override the configuration, which overrides defaults. */
struct recipe {
    uint64_t capacity;
    double error_rate;
    uint32_t expansion;
    bool sourced;
    bool anew;         /* see struct creation */
    const char *nodes; /* in the form of placement_choose() */
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

static struct make_options options_for(const struct config *config, const struct recipe *r)
{
    enum { LANES = 1 };
    return (struct make_options){.capacity = r->capacity,
                                 .error_rate = r->error_rate,
                                 .expansion = r->expansion,
                                 .sourced = r->sourced,
                                 .lanes = LANES,
                                 .shard_bytes = (uint32_t)config->shard_bytes};
}

/* An existing filter needs no check. */
static enum err check_memory(const struct handle *f, const struct make_options *o, struct error *e)
{
    char warning[256];
    struct layer first;
    struct plan plan = {.capacity = o->capacity};
    enum err code = make_first_layer(o, &first, e);
    if (code == ERR_OK) {
        plan.geometry = first.geometry;
        plan.memory_new = geometry_memory_log(&plan.geometry);
        code = memory_fits(f, NULL, o->placement, &plan, NULL, NULL, warning, e);
    }
    return code == ERR_REFUSED ? ERR_NOMEM : code;
}

static const char lost_view[] = "a filter of this name lost its view; BF.RESERVE creates it again, empty";

/* Raise *@latest to the latest incarnation in the registries. */
static enum err look_for_latest(struct handle *f, uint64_t *latest, struct error *e)
{
    struct registry_said said;
    enum err code = registry_look(f->redis, &f->names, &said, e);
    if (said.incarnation > *latest)
        *latest = said.incarnation;
    return code;
}

enum err filter_make_way(struct service *s, struct filter_naming *n, const char *name, size_t length,
                         struct view *is, const struct work *work, struct error *e)
{
    struct handle *f = n->handle;
    enum err code = handle_load_any(f, is, e);
    bool kept = code == ERR_OK && !is->deleting;
    n->latest = filter_states_seen(s->watch, name, length);
    if (kept)
        code = look_for_latest(f, &n->latest, e);
    if (kept && code == ERR_OK && is->incarnation >= n->latest)
        return error_set(e, ERR_EXISTS, "the filter exists already");
    if (kept && code == ERR_OK && !n->as_new)
        return error_set(e, ERR_LOST, "%s", lost_view);
    if (code == ERR_OK)
        code = log_drop(f->redis, &f->names, is->incarnation, 0, work, e);
    if (code == ERR_OK) {
        filters_look(s->logs, name, length);
        handle_announce(f);
    }
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

/* A coordinator that serves the filter: the one with the earliest incarnation. */
struct server {
    char id[MEMBERS_ID_MAX];
    uint64_t incarnation;
};

/* A members_fn. */
static void take_server(void *arg, const struct members_entry *entry)
{
    struct server *s = arg;
    if (entry->gone || entry->epoch == 0 || (s->id[0] != '\0' && s->incarnation <= entry->incarnation))
        return;
    s->incarnation = entry->incarnation;
    (void)snprintf(s->id, sizeof(s->id), "%s", entry->id);
}

/* Nothing of the filter is stored. So it was never made, unless a coordinator
 * serves a filter of this name that was not deleted. (A coordinator's report is some time old: it may not
 * have noticed the deletion.) ERR_LOST: a coordinator serves it. ERR_UNREACHABLE, ERR_TIMEOUT. */
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

/* ERR_LOST: a registry names the filter, as of an incarnation that was not deleted. There is no view, and
 * whatever a record stood for was taken out of the registries. */
static enum err check_not_lost(struct handle *f, struct error *e)
{
    struct registry_said said;
    uint64_t deleted;
    enum err code = registry_look(f->redis, &f->names, &said, e);
    if (code == ERR_OK)
        code = registry_look_deleted(f->redis, &f->names, &deleted, e);
    return code == ERR_OK && registry_names_lost(&said, deleted, 0) ? error_set(e, ERR_LOST, "%s", lost_view)
                                                                    : code;
}

enum err filter_check_lost(struct handle *f, struct error *e)
{
    enum err code = may_make(f, e);
    return code == ERR_OK ? check_not_lost(f, e) : code;
}

/* A registered filter with neither a view nor a record has lost its view. Ask who serves it before
 * registering it: otherwise repeated attempts would register a name without a view or record, which others
 * take for a lost filter. */
static enum err enter_log(void *arg, bool was_left, bool *clean, struct error *e)
{
    struct filter_naming *n = arg;
    bool may_be_lost = !n->entered && !n->as_new;
    if (n->latest >= n->handle->names.incarnation)
        return error_set(e, ERR_CONFLICT, "a later incarnation is known already");
    enum err code = may_be_lost ? may_make(n->handle, e) : ERR_OK;
    if (code == ERR_OK && !n->entered)
        code = registry_enter(n->handle, &n->named, e);
    *clean = !n->named && !was_left;
    if (n->entered)
        return registry_succeed(n->handle, e);
    n->entered = code == ERR_OK && !n->named;
    if (code == ERR_OK && may_be_lost && n->named)
        code = check_not_lost(n->handle, e);
    if (code == ERR_OK && n->named)
        code = look_for_latest(n->handle, &n->latest, e);
    if (code == ERR_OK && n->latest >= n->handle->names.incarnation)
        return error_set(e, ERR_CONFLICT, "a later incarnation is named already");
    if (code == ERR_OK && n->named)
        code = registry_succeed(n->handle, e);
    n->entered = code == ERR_OK;
    return code;
}

/* What a maker that was killed has named was not published: it must not look lost once its record is gone. If
 * it only sleeps it names it yet: so the filter must be later, also where the clock was ahead. */
static enum err leave_log(void *arg, uint64_t incarnation, struct error *e)
{
    struct filter_naming *n = arg;
    n->latest = incarnation > n->latest ? incarnation : n->latest;
    return registry_leave(n->handle, incarnation, e);
}

enum err filter_make_log(struct filter_naming *n, const struct make_options *options, struct log_view *out,
                         const struct work *work, struct error *e)
{
    struct make_options o = *options;
    uint64_t deleted = 0;
    /* Later than the filter before, too, whatever the clock says: this process may not have seen that one. */
    enum err code = registry_look_deleted(n->handle->redis, &n->handle->names, &deleted, e);
    if (code != ERR_OK)
        return code;
    n->latest = deleted > n->latest ? deleted : n->latest;
    o.enter = enter_log;
    o.leave = leave_log;
    o.arg = n;
    o.later_than = n->latest;
    code = log_make(n->handle->redis, &n->handle->names, &o, out, work, e);
    if (code == ERR_CONFLICT && n->latest > o.later_than) {
        o.later_than = n->latest;
        code = log_make(n->handle->redis, &n->handle->names, &o, out, work, e);
    }
    bool surely_not = code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT && code != ERR_EXISTS;
    struct error ignored;
    if (surely_not && !n->named &&
        registry_leave(n->handle, n->handle->names.incarnation, &ignored) != ERR_OK)
        log_warn("filter_not_unregistered", "filter=%s note=\"its name stays listed\"",
                 log_quote(n->handle->names.filter));
    return code;
}

static enum err make(struct service *s, const struct config *config, struct handle *f, const char *name,
                     size_t length, const struct recipe *r, struct mutex *mutex, struct error *e)
{
    struct placement on;
    struct view is;
    struct log_view *v = malloc(sizeof(*v));
    const struct work work = {.fn = filter_hold_mutex, .arg = mutex};
    struct filter_naming naming = {.handle = f, .as_new = r->sourced || r->anew};
    struct make_options o = options_for(config, r);
    o.placement = &on;
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = service_claim(s, f->redis, e);
    if (code == ERR_OK)
        code = filter_make_way(s, &naming, name, length, &is, &work, e);
    if (code == ERR_OK)
        code = placement_choose(&on, &s->nodes, r->nodes, e);
    if (code == ERR_OK)
        code = check_memory(f, &o, e);
    if (code == ERR_OK)
        code = filter_make_log(&naming, &o, v, &work, e);
    if (code == ERR_OK) {
        log_info("filter_created",
                 "filter=%s capacity=%" PRIu64 " error_rate=%g memory_bytes=%" PRIu64 " has_source=%d",
                 log_quote(f->names.filter), r->capacity, r->error_rate,
                 generation_bytes(&v->slot[v->current].shape), r->sourced);
    }
    free(v);
    return code;
}

enum err filter_make(struct service *s, const struct config *config, struct handle *f, const char *name,
                     size_t length, const struct creation *creation, struct error *e)
{
    struct recipe recipe = recipe_for(config_find(config, name, length), creation);
    enum err code = names_init(&f->names, config->prefix, name, length, e);
    if (code != ERR_OK)
        return code;
    struct mutex *mutex = NULL;
    struct mutex_options options = filter_mutex_options(s, config, name, length);
    options.redis = f->redis;
    /* Making a filter is quick, so wait for another coordinator that does it; but not if other requests wait
     * here. */
    code = mutex_acquire(&mutex, &options, f->requests_wait ? 0 : options.redis_timeout_ms, e);
    if (code == ERR_BUSY && f->requests_wait)
        code = ERR_ASIDE;
    if (code != ERR_OK)
        return code;
    code = make(s, config, f, name, length, &recipe, mutex, e);
    mutex_release(mutex);
    return code;
}

uint64_t filter_make_bytes(const struct config *config, const char *name, size_t length,
                           const struct creation *creation)
{
    struct recipe r = recipe_for(config_find(config, name, length), creation);
    struct make_options o = options_for(config, &r);
    struct layer first;
    struct error ignored; /* making the filter reports it */
    return !r.sourced && make_first_layer(&o, &first, &ignored) == ERR_OK
               ? geometry_memory_log(&first.geometry)
               : 0;
}

struct mutex_options filter_mutex_options(const struct service *s, const struct config *config,
                                          const char *name, size_t length)
{
    return (struct mutex_options){.nodes = &s->nodes,
                                  .prefix = config->prefix,
                                  .filter = name,
                                  .filter_length = length,
                                  .owner = s->owner,
                                  .lease_ms = (unsigned)config->lease_ms,
                                  .redis_timeout_ms = (unsigned)config->redis_timeout_ms};
}

enum err filter_hold_mutex(void *arg, struct error *e)
{
    return mutex_lost(arg) ? error_set(e, ERR_MUTEX_LOST, "the mutex was lost") : ERR_OK;
}
