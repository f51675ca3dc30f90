/* SPDX-License-Identifier: MIT */
#include "service/admin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/random.h"
#include "expansion/layer.h"
#include "expansion/memory.h"
#include "expansion/mutex.h"
#include "service/users.h"
#include "service/worker.h"

enum { WAIT_MS = 200, DEFAULT_CAPACITY = 100, DEFAULT_EXPANSION = 2 };
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
    buffer_fini(&call->reply);
    free(call);
}

bool admin_call_limit(struct admin_call *call, const struct config_user *user)
{
    if (user_may_all_filters(user))
        return true;
    call->visible = strdup(user->filters);
    return call->visible != NULL;
}

bool admin_call_shows(const struct admin_call *call, const char *name, size_t length)
{
    return call->visible == NULL || users_patterns_match(call->visible, name, length);
}

/* --- the thread --- */

struct admin_letter {
    struct admin_call *call;
    struct worker *worker;
};

static _Thread_local struct admin *this_admin;

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
    struct mailbox *back = letter->worker->mailbox;
    free(letter);
    run_call(this_admin, call);
    if (mailbox_post(back, client_admin_done, call) != ERR_OK)
        log_error("admin", "error=\"out of memory: an answer is lost\"");
}

void admin_post(struct client *c, struct admin_call *call)
{
    struct admin_letter *letter = malloc(sizeof(*letter));
    call->client = c;
    c->references++;
    if (letter != NULL) {
        *letter = (struct admin_letter){.call = call, .worker = c->worker};
        if (mailbox_post(c->worker->service->admin, run_letter, letter) == ERR_OK)
            return;
    }
    free(letter);
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    call->status = error_set(&call->error, ERR_NOMEM, "out of memory");
    reply_error(&r, "OOM out of memory");
    if (mailbox_post(c->worker->mailbox, client_admin_done, call) != ERR_OK)
        log_error("admin", "error=\"out of memory: an answer is lost\"");
}

void *admin_run(void *arg)
{
    struct service *s = arg;
    struct admin *a = calloc(1, sizeof(*a));
    if (a == NULL)
        abort();
    a->service = s;
    a->link = link_new(&s->nodes, s->redis_timeout_ms, "twinbloom-admin");
    a->fence.link = a->link;
    this_admin = a;
    while (!atomic_load(&s->stop))
        mailbox_wait(s->admin, WAIT_MS);
    mailbox_run(s->admin); /* whoever still waits gets an answer */
    fence_fini(&a->fence);
    link_free(a->link);
    free(a);
    return NULL;
}

/* --- making filters --- */

/* What a filter is made from: the command's options over the configuration over the defaults. */
struct recipe {
    uint64_t capacity;
    double error_rate;
    uint32_t expansion;
    bool sourced;
};

static struct recipe recipe_for(const struct config_filter *c, const struct creation *wanted)
{
    struct recipe r = {
        .capacity = DEFAULT_CAPACITY, .error_rate = default_error_rate, .expansion = DEFAULT_EXPANSION};
    if (c != NULL)
        r = (struct recipe){.capacity = c->capacity,
                            .error_rate = c->error_rate,
                            .expansion = c->expansion,
                            .sourced = c->table[0] != '\0'};
    if (wanted != NULL && wanted->capacity != 0)
        r.capacity = wanted->capacity;
    if (wanted != NULL && wanted->error_rate != 0)
        r.error_rate = wanted->error_rate;
    if (wanted != NULL && wanted->expansion != 0)
        r.expansion = wanted->expansion;
    if (wanted != NULL && wanted->non_scaling)
        r.expansion = 0;
    return r;
}

/* Model: PLACEHOLDER. A filter with a source starts with a placeholder generation: it cannot say "no" before
 * the first build, but its one block is fenced like any other, so no coordinator can miss that build. */
static enum err fill_view(struct service *s, const struct config *config, struct view *v,
                          const struct recipe *r, uint64_t token, struct error *e)
{
    *v = (struct view){.incarnation = random_u64(),
                       .epoch = 1,
                       .fenced_epoch = 0,
                       .phase = PHASE_STEADY,
                       .current = 1,
                       .last_generation = 1,
                       .expansion = r->expansion,
                       .sourced = r->sourced};
    struct generation *g = &v->slot[1];
    *g = (struct generation){.number = 1,
                             .seed = random_u64(),
                             .built = !r->sourced,
                             .capacity = r->capacity,
                             .error_rate = r->error_rate,
                             .layer_count = 1};
    g->layers[0] =
        (struct layer){.capacity = r->capacity, .error_rate = r->error_rate, .token = token, .born_epoch = 1};
    if (!r->sourced && r->expansion != 0)
        g->layers[0].error_rate = layer_first_rate(r->error_rate);
    nodes_pin(&s->nodes, g);
    if (r->sourced) {
        g->layers[0].geometry = geometry_placeholder();
        return ERR_OK;
    }
    return geometry_plan(&g->layers[0].geometry, r->capacity, g->layers[0].error_rate,
                         (uint32_t)config->shard_bytes, e);
}

static enum err check_memory(struct service *s, struct link *l, const struct generation *g, struct error *e)
{
    struct plan_node nodes[GENERATION_NODES_MAX];
    char warning[256];
    const struct plan plan = {.capacity = g->capacity,
                              .geometry = g->layers[0].geometry,
                              .bytes = generation_bytes(g),
                              .memory_new = memory_of_generation(g),
                              .memory_peak = memory_of_generation(g),
                              .passes = 1};
    enum err code = memory_of_nodes(l, nodes, e);
    return code == ERR_OK ? plan_fits(&plan, nodes, s->nodes.count, warning, e) : code;
}

static enum err register_name(const struct config *config, struct fence *f, const char *name, size_t length,
                              struct error *e)
{
    redisReply *reply;
    enum err code =
        link_command(f->link, NODE_HOME, &reply, e, "SADD %s:filters %b", config->prefix, name, length);
    if (code == ERR_OK)
        freeReplyObject(reply);
    return code;
}

/* Model: keeper. */
static enum err publish(struct fence *f, struct view *v, struct mutex *mutex, struct error *e)
{
    uint64_t swept = 0, lost;
    f->names.incarnation = v->incarnation;
    enum err code = fence_sweep(f, mutex_value(mutex), &swept, e);
    if (swept > 0)
        log_warn("swept", "filter=%s shards=%" PRIu64 " note=\"they survived the loss of their view\"",
                 log_quote(f->names.filter), swept);
    if (code == ERR_OK)
        code = fence_create(f, &v->slot[1], 0, e);
    if (code == ERR_OK)
        code = fence_publish(f, v, mutex_value(mutex), e);
    if (code != ERR_OK) {
        struct error ignored;
        /* Where the reply was lost the view may be out: its shards must stay. Else they would only wait for
         * their TTL. */
        bool surely_not = code != ERR_UNREACHABLE && code != ERR_TIMEOUT;
        if (surely_not && fence_discard(f, &v->slot[1], 0, &ignored) != ERR_OK)
            log_warn("leftover", "filter=%s note=\"shards that were made expire by themselves\"",
                     log_quote(f->names.filter));
        return code;
    }
    return fence_complete(f, v, &lost, e);
}

static enum err make_under_mutex(struct service *s, const struct config *config, struct fence *f,
                                 const struct recipe *r, struct mutex *mutex, struct error *e)
{
    struct view *v = malloc(sizeof(*v));
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = fence_load(f, v, e); /* somebody may have been faster */
    if (code == ERR_OK)
        code = error_set(e, ERR_EXISTS, "the filter exists already");
    else if (code == ERR_NOT_FOUND)
        code = fill_view(s, config, v, r, mutex_token(mutex), e);
    if (code == ERR_OK)
        code = check_memory(s, f->link, &v->slot[1], e);
    if (code == ERR_OK)
        code = publish(f, v, mutex, e);
    if (code == ERR_OK)
        log_info("filter_made", "filter=%s capacity=%" PRIu64 " error_rate=%g bytes=%" PRIu64 " sourced=%d",
                 log_quote(f->names.filter), r->capacity, r->error_rate, generation_bytes(&v->slot[1]),
                 r->sourced);
    free(v);
    return code;
}

static struct mutex_options mutex_options_for(const struct service *s, const struct config *config,
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
    const struct mutex_options options = mutex_options_for(s, config, name, length);
    code = register_name(config, f, name, length, e);
    if (code == ERR_OK) /* this is short work: another coordinator that is at it is waited for */
        code = mutex_wait(&mutex, &options, options.redis_timeout_ms, e);
    if (code != ERR_OK)
        return code;
    code = make_under_mutex(s, config, f, &recipe, mutex, e);
    mutex_release(mutex);
    return code;
}

void admin_create(struct admin *a, struct admin_call *call)
{
    struct creation *c = &call->creation;
    call->status = admin_make_filter(a->service, a->config, &a->fence, call->filter, call->filter_length, c,
                                     &call->error);
}

enum err admin_grow_filter(struct service *s, const struct config *config, struct fence *f,
                           struct view *scratch, const char *name, size_t length, struct error *e)
{
    struct mutex *mutex = NULL;
    const struct mutex_options options = mutex_options_for(s, config, name, length);
    enum err code = names_init(&f->names, config->prefix, name, length, e);
    if (code == ERR_OK)
        code = mutex_wait(&mutex, &options, options.redis_timeout_ms, e);
    if (code != ERR_OK)
        return code;
    const struct config_filter *c = config_find(config, name, length);
    const struct layer_options layer = {.fence = f,
                                        .mutex = mutex,
                                        .shard_bytes = (uint32_t)config->shard_bytes,
                                        .growth = c == NULL ? 1 : c->growth};
    code = layer_grow(&layer, scratch, e);
    mutex_release(mutex);
    return code;
}

void admin_grow(struct admin *a, struct admin_call *call)
{
    call->status = admin_grow_filter(a->service, a->config, &a->fence, &a->view, call->filter,
                                     call->filter_length, &call->error);
}

void admin_reserve(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    call->status = admin_make_filter(a->service, a->config, &a->fence, call->filter, call->filter_length,
                                     &call->creation, &call->error);
    if (call->status == ERR_OK)
        reply_simple(&r, "OK");
    else if (call->status == ERR_EXISTS)
        reply_error(&r, "ERR item exists");
    else
        reply_error(&r, "ERR could not create filter: %s", call->error.text);
}
