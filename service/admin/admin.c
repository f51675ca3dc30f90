/* SPDX-License-Identifier: MIT */
#include "service/admin/admin.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "service/config/users.h"
#include "service/filters/filter_states.h"
#include "shard/view/registry.h"
#include "shard/control/key_client.h"

enum { WAIT_MS = 200 };

bool admin_call_name(struct admin_call *call, const char *filter, size_t filter_length)
{
    free(call->filter);
    call->filter = buffer_copy(filter, filter_length);
    call->filter_length = filter_length;
    call->named = filter != NULL;
    return call->filter != NULL;
}

struct admin_call *admin_call_new(admin_fn *fn, const char *filter, size_t filter_length)
{
    struct admin_call *call = calloc(1, sizeof(*call));
    if (call == NULL || !admin_call_name(call, filter, filter_length)) {
        free(call);
        return NULL;
    }
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

enum err admin_open(struct admin *a, const struct admin_call *call, struct error *e)
{
    enum err code = names_init(&a->handle.names, a->config->prefix, call->filter, call->filter_length, e);
    return code == ERR_OK ? handle_load(&a->handle, &a->view, e) : code;
}

enum err admin_open_client(struct admin *a, const struct admin_call *call, struct error *e)
{
    const struct service *s = a->service;
    return key_client_open(&a->client, s->logs, &s->nodes, s->redis_timeout_ms, call->filter,
                           call->filter_length, e);
}

/* Unless it is one of the configuration. */
static void add_name(struct filter_names *to, const struct config *config, const char *name, size_t length)
{
    if (config_find(config, name, length) == NULL)
        to->name[to->count++] = (struct span){name, length};
}

enum err admin_names(struct admin *a, struct filter_names *to, struct error *e)
{
    const struct config *config = a->config;
    redisReply *stored = NULL;
    enum err code = sync_client_command(a->redis, nodes_filters(sync_client_nodes(a->redis), config->prefix),
                                        &stored, e, "SMEMBERS %s:filters", config->prefix);
    size_t more = code == ERR_OK ? stored->elements : 0;
    *to = (struct filter_names){.stored = stored};
    size_t lost = filter_states_lost(a->service->watch, &to->lost), first = config->filter_count;
    to->name = calloc(first + more + lost + 1, sizeof(*to->name));
    if (to->name == NULL || buffer_failed(&to->lost))
        return error_set(e, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < config->filter_count; i++)
        to->name[to->count++] = (struct span){config->filter[i].name, strlen(config->filter[i].name)};
    for (size_t i = 0; i < more; i++)
        add_name(to, config, stored->element[i]->str, stored->element[i]->len);
    for (const char *at = to->lost.data; lost > 0; lost--) {
        size_t length;
        memcpy(&length, at, sizeof(length));
        add_name(to, config, at + sizeof(length), length);
        at += sizeof(length) + length;
    }
    qsort(to->name + first, to->count - first, sizeof(*to->name), span_order);
    size_t count = first;
    for (size_t i = first; i < to->count; i++) /* a lost filter may still be named */
        if (i == first || span_order(&to->name[i], &to->name[count - 1]) != 0)
            to->name[count++] = to->name[i];
    to->count = count;
    return code;
}

void admin_names_free(struct filter_names *n)
{
    freeReplyObject(n->stored);
    buffer_fini(&n->lost);
    free(n->name);
}

/* --- the threads --- */

enum err admin_threads_init(struct admin_threads *t, struct service *s, struct error *e)
{
    *t = (struct admin_threads){.service = s};
    t->admin = mailbox_new();
    t->making = mailbox_new();
    t->aside = mailbox_new();
    t->metrics = mailbox_new();
    bool good = t->admin != NULL && t->making != NULL && t->aside != NULL && t->metrics != NULL;
    return good ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
}

void admin_threads_fini(struct admin_threads *t)
{
    mailbox_free(t->admin);
    mailbox_free(t->making);
    mailbox_free(t->aside);
    mailbox_free(t->metrics);
}

static _Thread_local struct admin *this_admin;

static void give_back(struct admin_call *call)
{
    if (mailbox_post(call->back, call->done, call) != ERR_OK)
        log_error("out_of_memory", "part=admin note=\"a reply is lost\"");
}

static void post(struct mailbox *to, struct admin_call *call);

static void run_call(void *arg)
{
    struct admin_call *call = arg;
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    this_admin->config = live_config_acquire(this_admin->service->config); /* one for the whole call */
    call->status = call->fn(this_admin, call, &r, &call->error);
    config_release(this_admin->config);
    this_admin->config = NULL;
    if (call->status == ERR_ASIDE) { /* run it again, where no other call waits for it; the rest of a DEL,
                                      * which only one thread may run, behind those that wait there */
        struct admin_threads *t = this_admin->threads;
        buffer_clear(&call->reply);
        post(call->fn == admin_drop ? t->making : t->aside, call);
        return;
    }
    if (call->status != ERR_OK && call->reply.length == 0 && call->protocol != REPLY_JSON)
        reply_failure(&r, call->status, "%s", call->error.text);
    give_back(call);
}

static void post(struct mailbox *to, struct admin_call *call)
{
    if (mailbox_post(to, run_call, call) == ERR_OK)
        return;
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    call->status = error_set(&call->error, ERR_NOMEM, "out of memory");
    reply_error(&r, "OOM out of memory");
    give_back(call);
}

void admin_post_to(struct mailbox *to, struct admin_call *call, struct mailbox *back, mailbox_fn *done)
{
    call->back = back;
    call->done = done;
    post(to, call);
}

void admin_post(struct admin_threads *t, struct admin_call *call, struct mailbox *back, mailbox_fn *done)
{
    /* One thread makes and deletes filters: a name that is being deleted is made again only after that. */
    static admin_fn *const of_making[] = {admin_create, admin_grow,   admin_reserve, admin_init,
                                          admin_drop,   admin_delete, admin_expire};
    struct mailbox *desk = t->admin;
    for (size_t i = 0; i < sizeof(of_making) / sizeof(of_making[0]); i++)
        if (call->fn == of_making[i])
            desk = t->making;
    if (call->fn == admin_plan || call->fn == admin_doctor || call->dry_run)
        desk = t->aside; /* they ask Postgres */
    admin_post_to(desk, call, back, done);
}

static struct admin *admin_new(struct admin_threads *t, const char *name)
{
    struct service *s = t->service;
    struct admin *a = calloc(1, sizeof(*a));
    if (a == NULL)
        abort();
    a->threads = t;
    a->service = s;
    a->redis = sync_client_new(&s->nodes, s->redis_timeout_ms, name);
    a->handle.redis = a->redis;
    return a;
}

/* Runs first, so it is done before a filter is to be made. With a single node a new registry is usually
 * complete. */
static void complete_registries(struct admin *a)
{
    struct error e;
    if (a->service->nodes.cluster == NULL && a->service->nodes.count == 1)
        return;
    const struct config *config = live_config_acquire(a->service->config);
    enum err code = names_init(&a->handle.names, config->prefix, "", 0, &e);
    if (code == ERR_OK)
        code = registry_complete(&a->handle, &e);
    if (code != ERR_OK) /* whoever makes a filter completes them */
        log_info("registry_incomplete", "code=%s error=%s", error_name(code), log_quote(e.text));
    config_release(config);
}

/* One of the threads, and what it runs until. */
struct desk {
    struct admin_threads *threads;
    struct mailbox *mailbox;
    const char *name;
    const atomic_bool *end;
};

static void *serve(void *arg)
{
    const struct desk *d = arg;
    struct admin_threads *t = d->threads;
    bool aside = d->mailbox == t->aside;
    struct admin *a = this_admin = admin_new(t, d->name);
    a->handle.requests_wait = !aside;
    if (aside)
        complete_registries(a);
    while (!atomic_load(d->end))
        mailbox_wait(d->mailbox, WAIT_MS);
    mailbox_run(d->mailbox); /* calls that still wait get an answer */
    handle_fini(&a->handle);
    sync_client_free(a->redis);
    key_client_free(a->client);
    shards_cache_free(a->shards);
    free(a);
    return NULL;
}

void *admin_run(void *arg)
{
    struct admin_threads *t = arg;
    const atomic_bool *stop = &t->service->stop;
    atomic_bool last = false; /* no thread hands over calls to the one aside any more */
    struct desk own = {t, t->admin, "twinbloom-admin", stop};
    struct desk desks[] = {{t, t->making, "twinbloom-making", stop},
                           {t, t->metrics, "twinbloom-metrics", stop},
                           {t, t->aside, "twinbloom-aside", &last}};
    enum { DESKS = sizeof(desks) / sizeof(desks[0]) };
    pthread_t threads[DESKS];
    for (unsigned i = 0; i < DESKS; i++)
        if (pthread_create(&threads[i], NULL, serve, &desks[i]) != 0)
            abort();
    (void)serve(&own);
    for (unsigned i = 0; i < DESKS; i++) {
        if (i + 1 == DESKS) {
            atomic_store(&last, true);
            mailbox_wake(t->aside);
        }
        (void)pthread_join(threads[i], NULL);
    }
    return NULL;
}
