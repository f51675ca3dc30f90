/* SPDX-License-Identifier: MIT */
#include "service/admin.h"
#include "service/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/memory.h"
#include "expansion/mutex.h"
#include "service/users.h"
#include "shard/registry.h"
#include "shard/request/key_client.h"
#include "shard/view/drop.h"
#include "shard/view/grow.h"
#include "shard/view/make.h"

enum { WAIT_MS = 200, DEFAULT_EXPANSION = 2 };
static const double default_error_rate = 0.01;

struct admin_call *admin_call_new(admin_fn *fn, const char *filter, size_t filter_length)
{
    struct admin_call *call = calloc(1, sizeof(*call));
    if (call == NULL || (call->filter = malloc(filter_length + 1)) == NULL) {
        free(call);
        return NULL;
    }
    if (filter_length > 0)
        memcpy(call->filter, filter, filter_length);
    call->filter[filter_length] = '\0';
    call->filter_length = filter_length;
    call->fn = fn;
    call->protocol = 2;
    return call;
}

void admin_call_free(struct admin_call *call)
{
    if (call == NULL)
        return;
    free(call->filter);
    free(call->visible);
    free(call->user);
    free(call->nodes);
    buffer_fini(&call->data);
    free(call->names.name);
    buffer_fini(&call->reply);
    free(call);
}

bool admin_call_limit(struct admin_call *call, const struct config_user *user)
{
    bool all = user_may_all_filters(user);
    call->user = strdup(user->name);
    call->visible = all ? NULL : strdup(user->filters);
    return call->user != NULL && (all || call->visible != NULL);
}

bool admin_call_shows(const struct admin_call *call, const char *name, size_t length)
{
    return call->visible == NULL || users_patterns_match(call->visible, name, length);
}

bool admin_call_names(struct admin_call *call, const struct argument *names, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += names[i].length + 1;
    struct argument *copies = malloc(count * sizeof(*copies) + bytes + 1);
    if (copies == NULL)
        return false;
    char *to = (char *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        copies[i] = (struct argument){.bytes = to, .length = names[i].length};
        if (names[i].length > 0)
            memcpy(to, names[i].bytes, names[i].length);
        to += names[i].length;
        *to++ = '\0';
    }
    call->names = (struct admin_names){.name = copies, .count = count};
    return true;
}

void admin_reply_error(struct reply *r, enum err code, const struct error *e)
{
    reply_failure(r, code, "%s", e->text);
}

static int by_bytes(const void *one, const void *other)
{
    const redisReply *a = *(redisReply *const *)one, *b = *(redisReply *const *)other;
    size_t least = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->str, b->str, least);
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

enum err admin_names(struct admin *a, redisReply **names, struct error *e)
{
    enum err code = link_command(a->link, link_filters(a->link, a->config->prefix), names, e,
                                 "SMEMBERS %s:filters", a->config->prefix);
    if (code == ERR_OK && (*names)->elements > 1)
        qsort((*names)->element, (*names)->elements, sizeof(void *), by_bytes);
    return code;
}

/* --- the thread --- */

struct admin_letter {
    struct admin_call *call;
    struct mailbox *back;
    mailbox_fn *done;
};

static _Thread_local struct admin *this_admin;

static void post(struct mailbox *to, struct admin_call *call, struct mailbox *back, mailbox_fn *done);

/* Under one configuration from its beginning to its end. */
static void run_call(struct admin *a, struct admin_call *call)
{
    a->config = live_config_acquire(a->service->config);
    a->fence.tombstone_ms = a->config->tombstone_ms;
    call->fn(a, call);
    config_release(a->config);
    a->config = NULL;
}

static void run_letter(void *arg)
{
    struct admin_letter *letter = arg;
    struct admin_call *call = letter->call;
    call->status = ERR_OK;
    run_call(this_admin, call);
    if (call->status == ERR_ASIDE) { /* from its beginning, where nobody waits for the next call */
        buffer_clear(&call->reply);
        post(this_admin->service->aside, call, letter->back, letter->done);
        free(letter);
        return;
    }
    if (mailbox_post(letter->back, letter->done, letter->call) != ERR_OK)
        log_error("out_of_memory", "part=admin note=\"a reply is lost\"");
    free(letter);
}

static bool asks_postgres(const struct admin_call *call)
{
    return call->fn == admin_plan || call->fn == admin_doctor || call->dry_run;
}

static void post(struct mailbox *to, struct admin_call *call, struct mailbox *back, mailbox_fn *done)
{
    struct admin_letter *letter = malloc(sizeof(*letter));
    if (letter != NULL) {
        *letter = (struct admin_letter){.call = call, .back = back, .done = done};
        if (mailbox_post(to, run_letter, letter) == ERR_OK)
            return;
    }
    free(letter);
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    call->status = error_set(&call->error, ERR_NOMEM, "out of memory");
    reply_error(&r, "OOM out of memory");
    if (mailbox_post(back, done, call) != ERR_OK)
        log_error("out_of_memory", "part=admin note=\"a reply is lost\"");
}

void admin_post(struct service *s, struct admin_call *call, struct mailbox *back, mailbox_fn *done)
{
    post(asks_postgres(call) ? s->aside : s->admin, call, back, done);
}

void admin_post_aside(struct service *s, struct admin_call *call, struct mailbox *back, mailbox_fn *done)
{
    post(s->aside, call, back, done);
}

static void tidy(struct admin *a)
{
    const struct config *config = live_config_acquire(a->service->config);
    kept_tidy(a->postgres, config->dsn, (unsigned)config->postgres_timeout_ms, clock_mono_us());
    config_release(config);
}

static struct admin *admin_new(struct service *s, const char *name)
{
    struct admin *a = calloc(1, sizeof(*a));
    if (a == NULL || (a->postgres = kept_new("twinbloom plan")) == NULL)
        abort();
    a->service = s;
    a->link = link_new(&s->nodes, s->redis_timeout_ms, name);
    a->fence.link = a->link;
    a->fence.logs = s->logs != NULL;
    a->fence.on_view = service_on_published;
    a->fence.know = service_knows;
    a->fence.on_view_arg = s;
    return a;
}

static void admin_free(struct admin *a)
{
    fence_fini(&a->fence);
    link_free(a->link);
    kept_free(a->postgres);
    key_client_free(a->client);
    shards_cache_free(a->shards);
    free(a);
}

/* The first thing that it does: so it is done when somebody wants to make a filter. Where there is a single
 * node a new registry is complete, as a rule. */
static void complete_registries(struct admin *a)
{
    struct error e;
    if (a->service->nodes.cluster == NULL && a->service->nodes.count == 1)
        return;
    const struct config *config = live_config_acquire(a->service->config);
    enum err code = names_init(&a->fence.names, config->prefix, "", 0, &e);
    if (code == ERR_OK)
        code = registry_complete(&a->fence, &e);
    if (code != ERR_OK) /* whoever makes a filter does it */
        log_info("registry_incomplete", "code=%s error=%s", error_name(code), log_quote(e.text));
    config_release(config);
}

static void *aside_run(void *arg)
{
    struct admin *front = arg;
    struct admin *a = this_admin = admin_new(front->service, "twinbloom-aside");
    complete_registries(a);
    while (!atomic_load(&front->ended)) {
        mailbox_wait(a->service->aside, WAIT_MS);
        tidy(a);
    }
    mailbox_run(a->service->aside);
    admin_free(a);
    return NULL;
}

void *admin_run(void *arg)
{
    struct service *s = arg;
    struct admin *a = this_admin = admin_new(s, "twinbloom-admin");
    pthread_t aside;
    a->fence.requests_wait = true;
    if (pthread_create(&aside, NULL, aside_run, a) != 0)
        abort();
    while (!atomic_load(&s->stop))
        mailbox_wait(s->admin, WAIT_MS);
    mailbox_run(s->admin); /* whoever still waits gets an answer */
    atomic_store(&a->ended, true);
    mailbox_wake(s->aside);
    (void)pthread_join(aside, NULL);
    admin_free(a);
    return NULL;
}

/* --- making filters --- */

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

/* Model: PLACEHOLDER. A filter with a source starts with a placeholder generation: it cannot say "no" before
 * the first build, but its one block is fenced like any other, so no coordinator can miss that build. */
static enum err fill_view(struct service *s, const struct config *config, struct view *v,
                          const struct recipe *r, uint64_t token, uint64_t last_generation, struct error *e)
{
    uint64_t number = last_generation + 1;
    *v = (struct view){.incarnation = random_u64(),
                       .epoch = 1,
                       .fenced_epoch = 0,
                       .phase = PHASE_STEADY,
                       .current = number % 2,
                       .last_generation = number,
                       .expansion = r->expansion,
                       .sourced = r->sourced};
    struct generation *g = &v->slot[v->current];
    *g = (struct generation){.number = number,
                             .seed = random_u64(),
                             .built = !r->sourced,
                             .capacity = r->capacity,
                             .error_rate = r->error_rate,
                             .layer_count = 1};
    g->layers[0] =
        (struct layer){.capacity = r->capacity, .error_rate = r->error_rate, .token = token, .born_epoch = 1};
    if (!r->sourced && r->expansion != 0)
        g->layers[0].error_rate = grow_first_rate(r->error_rate);
    struct placement on;
    enum err code = placement_choose(&on, &s->nodes, r->nodes, e);
    if (code != ERR_OK)
        return code;
    placement_pin(&on, &s->nodes, g);
    if (r->sourced) {
        g->layers[0].geometry = geometry_placeholder();
        return ERR_OK;
    }
    return geometry_plan(&g->layers[0].geometry, r->capacity, g->layers[0].error_rate,
                         (uint32_t)config->shard_bytes, e);
}

static enum err check_memory(const struct fence *f, const struct generation *g, struct error *e)
{
    char warning[256];
    const uint64_t bytes = memory_of_generation(g);
    const struct plan plan = {.capacity = g->capacity,
                              .geometry = g->layers[0].geometry,
                              .bytes = generation_bytes(g),
                              .memory_new = bytes,
                              .memory_peak = bytes,
                              .partitions = 1};
    enum err code = memory_fits(f, g, &plan, warning, e);
    return code == ERR_REFUSED ? ERR_NOMEM : code;
}

enum err admin_sweep_named(struct fence *f, bool named, struct mutex *mutex, struct error *e)
{
    uint64_t swept = 0;
    enum err code = named ? registry_replace(f, e) : ERR_OK;
    if (code == ERR_OK && named)
        code = fence_sweep(f, mutex_value(mutex), &swept, e);
    if (swept > 0)
        log_warn("old_shards_deleted",
                 "filter=%s shards=%" PRIu64 " note=\"they survived the loss of their view\"",
                 log_quote(f->names.filter), swept);
    return code;
}

/* Model: keeper. */
static enum err publish(struct fence *f, struct view *v, bool named, struct mutex *mutex, struct error *e)
{
    uint64_t lost;
    enum err code = admin_sweep_named(f, named, mutex, e);
    if (code == ERR_OK)
        code = fence_create(f, view_current(v), 0, e);
    if (code == ERR_OK)
        code = fence_publish(f, v, mutex_value(mutex), e);
    if (code != ERR_OK) {
        struct error ignored;
        /* Where the reply was lost the view may be out: its shards must stay. Else they would only wait for
         * their TTL. */
        bool surely_not = code != ERR_UNREACHABLE && code != ERR_TIMEOUT;
        if (surely_not && fence_discard(f, view_current(v), 0, &ignored) != ERR_OK)
            log_warn("shards_not_deleted", "filter=%s note=\"shards that were made expire by themselves\"",
                     log_quote(f->names.filter));
        return code;
    }
    return fence_complete(f, v, &lost, e);
}

/* Name it in the registries, then make it. */
static enum err name_and_publish(struct fence *f, struct view *v, const struct recipe *r, bool deleted,
                                 struct mutex *mutex, struct error *e)
{
    bool named = false;
    struct error ignored;
    f->names.incarnation = v->incarnation;
    enum err code = registry_enter(f, &named, e);
    if (code != ERR_OK)
        return code;
    if (!deleted && !r->sourced) /* one with a source says "maybe" until it has read all of that */
        code = admin_may_make(f, r->anew, named, e);
    if (code == ERR_OK)
        code = publish(f, v, named, mutex, e);
    if (code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT && !named &&
        registry_leave(f, v->incarnation, &ignored) != ERR_OK)
        log_warn("filter_not_unregistered", "filter=%s note=\"its name stays listed\"",
                 log_quote(f->names.filter));
    return code;
}

enum err admin_load_view(struct fence *f, struct view *v, struct mutex *mutex, struct error *e)
{
    enum err code = fence_load(f, v, e);
    if (code != ERR_NOT_FOUND || v->dropped != VIEW_DROP_BEGUN)
        return code;
    code = fence_drop_complete(f, v, mutex_value(mutex), e);
    return code == ERR_OK ? fence_load(f, v, e) : code;
}

static enum err make_under_mutex(struct service *s, const struct config *config, struct fence *f,
                                 const struct recipe *r, struct mutex *mutex, struct error *e)
{
    struct view *v = malloc(sizeof(*v));
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = service_claim(s, f->link, e); /* or it would be swept and made at another home */
    if (code != ERR_OK) {
        free(v);
        return code;
    }
    code = admin_load_view(f, v, mutex, e); /* somebody may have been faster */
    bool deleted = v->dropped == VIEW_DROP_DONE;
    if (code == ERR_OK)
        code = error_set(e, ERR_EXISTS, "the filter exists already");
    else if (code == ERR_NOT_FOUND)
        code = fill_view(s, config, v, r, mutex_token(mutex), deleted ? v->last_generation : 0, e);
    if (code == ERR_OK)
        code = check_memory(f, view_current(v), e);
    if (code == ERR_OK)
        code = name_and_publish(f, v, r, deleted, mutex, e);
    if (code == ERR_OK)
        log_info("filter_created",
                 "filter=%s capacity=%" PRIu64 " error_rate=%g memory_bytes=%" PRIu64 " has_source=%d",
                 log_quote(f->names.filter), r->capacity, r->error_rate, generation_bytes(view_current(v)),
                 r->sourced);
    free(v);
    return code;
}

/* --- filters that are logs --- */

enum err admin_hold_mutex(void *arg, const char *what, uint64_t done, uint64_t of, struct error *e)
{
    (void)what;
    (void)done;
    (void)of;
    return mutex_lost(arg) ? error_set(e, ERR_MUTEX_LOST, "the mutex was lost") : ERR_OK;
}

static void leave_registries(struct fence *f)
{
    struct error e;
    if (registry_leave(f, f->names.incarnation, &e) != ERR_OK)
        log_warn("filter_not_unregistered", "filter=%s note=\"its name stays listed\"",
                 log_quote(f->names.filter));
}

/* One that is there already needs none. */
static enum err check_memory_of_log(const struct service *s, const struct fence *f,
                                    const struct make_options *o, struct error *e)
{
    struct generation *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    *g = (struct generation){
        .number = 1, .capacity = o->capacity, .error_rate = o->error_rate, .layer_count = 1};
    placement_pin(o->placement, &s->nodes, g);
    enum err code = geometry_plan_log(&g->layers[0].geometry, o->capacity, o->error_rate, o->shard_bytes, e);
    if (code == ERR_OK)
        code = check_memory(f, g, e);
    free(g);
    return code;
}

static const char lost_view[] = "a filter of this name lost its view; BF.RESERVE creates it again, empty";

/* *@latest: the latest incarnation that is known. */
static enum err look_for_latest(struct fence *f, uint64_t *latest, struct error *e)
{
    struct registry_said said;
    enum err code = registry_look(f->link, &f->names, &said, e);
    if (said.incarnation > *latest)
        *latest = said.incarnation;
    return code;
}

enum err admin_make_way(struct service *s, struct admin_naming *n, const char *name, size_t length,
                        struct view *is, const struct work *work, struct error *e)
{
    struct fence *f = n->fence;
    enum err code = fence_load_any(f, is, e);
    bool kept = code == ERR_OK && is->dropped == VIEW_KEPT;
    n->latest = service_seen(s, name, length);
    if (kept)
        code = look_for_latest(f, &n->latest, e);
    if (kept && code == ERR_OK && is->incarnation >= n->latest)
        return error_set(e, ERR_EXISTS, "the filter exists already");
    if (kept && code == ERR_OK && !n->as_new)
        return error_set(e, ERR_LOST, "%s", lost_view);
    if (code == ERR_OK)
        code = log_drop(f->link, &f->names, work, e);
    n->deleted = code == ERR_OK;
    if (code == ERR_OK) {
        filters_look(s->logs, name, length);
        fence_announce(f);
    }
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

/* One that is named and has neither a view nor a record has lost its view. */
static enum err enter_log(void *arg, bool was_left, bool *clean, struct error *e)
{
    struct admin_naming *n = arg;
    enum err code = ERR_OK;
    if (!n->entered)
        code = registry_enter(n->fence, &n->named, e);
    *clean = !n->named;
    if (n->entered)
        return registry_replace(n->fence, e);
    n->entered = code == ERR_OK && !n->named;
    if (code == ERR_OK && !was_left && !n->deleted && !n->as_new)
        code = n->named ? error_set(e, ERR_LOST, "%s", lost_view) : admin_may_make(n->fence, false, false, e);
    if (code == ERR_OK && n->named)
        code = look_for_latest(n->fence, &n->latest, e);
    if (code == ERR_OK && n->latest >= n->fence->names.incarnation)
        return error_set(e, ERR_CONFLICT, "a later incarnation is named already");
    return code == ERR_OK && n->named ? registry_replace(n->fence, e) : code;
}

enum err admin_make_log(struct admin_naming *n, const struct make_options *options, struct log_view *out,
                        const struct work *work, struct error *e)
{
    struct make_options o = *options;
    o.enter = enter_log;
    o.arg = n;
    o.later_than = n->latest;
    enum err code = log_make(n->fence->link, &n->fence->names, &o, out, work, e);
    if (code == ERR_CONFLICT && n->latest > o.later_than) {
        o.later_than = n->latest;
        code = log_make(n->fence->link, &n->fence->names, &o, out, work, e);
    }
    bool surely_not = code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT && code != ERR_EXISTS;
    if (surely_not && !n->named)
        leave_registries(n->fence);
    return code;
}

static enum err make_log(struct service *s, const struct config *config, struct fence *f, const char *name,
                         size_t length, const struct recipe *r, struct mutex *mutex, struct error *e)
{
    enum { LANES = 1 };
    struct placement on;
    struct view *is = malloc(sizeof(*is));
    struct log_view *v = malloc(sizeof(*v));
    const struct work work = {.fn = admin_hold_mutex, .arg = mutex};
    struct admin_naming naming = {.fence = f, .as_new = r->sourced || r->anew};
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
    enum err code = service_claim(s, f->link, e);
    if (code == ERR_OK)
        code = admin_make_way(s, &naming, name, length, is, &work, e);
    free(is);
    if (code == ERR_OK)
        code = placement_choose(&on, &s->nodes, r->nodes, e);
    if (code == ERR_OK)
        code = check_memory_of_log(s, f, &o, e);
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

struct mutex_options admin_mutex_options(const struct service *s, const struct config *config,
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

enum err admin_make_filter(struct service *s, const struct config *config, struct fence *f, const char *name,
                           size_t length, const struct creation *creation, struct error *e)
{
    struct recipe recipe = recipe_for(config_find(config, name, length), creation);
    enum err code = names_init(&f->names, config->prefix, name, length, e);
    if (code != ERR_OK)
        return code;
    struct mutex *mutex = NULL;
    struct mutex_options options = admin_mutex_options(s, config, name, length);
    options.link = f->link;
    /* This is short work: another coordinator that is at it is waited for, but not by those who wait here. */
    code = mutex_wait(&mutex, &options, f->requests_wait ? 0 : options.redis_timeout_ms, e);
    if (code == ERR_BUSY && f->requests_wait)
        code = ERR_ASIDE;
    if (code != ERR_OK)
        return code;
    code = s->logs != NULL ? make_log(s, config, f, name, length, &recipe, mutex, e)
                           : make_under_mutex(s, config, f, &recipe, mutex, e);
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
    if (config->append_log)
        return geometry_plan_log(&g, r->capacity, rate, most, &ignored) == ERR_OK ? geometry_memory_log(&g)
                                                                                  : 0;
    return geometry_plan(&g, r->capacity, rate, most, &ignored) == ERR_OK ? geometry_memory(&g) : 0;
}

void admin_create(struct admin *a, struct admin_call *call)
{
    const struct config_filter *c = config_find(a->config, call->filter, call->filter_length);
    struct recipe recipe = recipe_for(c, &call->creation);
    call->status = admin_quota(a, call, true, bytes_to_be(a->config, &recipe), &call->error);
    if (call->status == ERR_OK)
        call->status = admin_make_filter(a->service, a->config, &a->fence, call->filter, call->filter_length,
                                         &call->creation, &call->error);
}

void admin_grow(struct admin *a, struct admin_call *call)
{
    call->status = admin_quota(a, call, false, 0, &call->error);
}

const char *admin_creation_failure(const struct admin_call *call)
{
    bool large =
        call->status == ERR_RANGE && call->creation.capacity > INT32_MAX; /* no memory has so many shards */
    return large || call->status == ERR_NOMEM ? "Insufficient memory to create filter"
                                              : "could not create filter";
}

static void reply_not_created(struct reply *r, const struct admin_call *call)
{
    if (call->status == ERR_WRONG_TYPE)
        admin_reply_error(r, call->status, &call->error);
    else if (answer_is_of_redisbloom(call->status))
        reply_error(r, "ERR %s: %s", admin_creation_failure(call), call->error.text);
    else
        reply_failure(r, call->status, "%s: %s", admin_creation_failure(call), call->error.text);
}

void admin_reserve(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    call->creation.anew = true;
    admin_create(a, call);
    if (call->status == ERR_OK)
        reply_simple(&r, "OK");
    else
        reply_not_created(&r, call);
}

void admin_init(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    admin_create(a, call);
    if (call->status == ERR_OK || call->status == ERR_EXISTS)
        reply_integer(&r, call->status == ERR_OK);
    else
        reply_not_created(&r, call);
}
