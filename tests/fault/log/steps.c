/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "shard/view/handle.h"
#include "shard/view/registry.h"
#include "shard/generations/drop.h"
#include "tests/fault/log/builder.h"
#include "tests/fault/log/launch.h"
#include "tests/fault/log/steps_filter.h"
#include "tests/lib/proxy.h"

enum {
    LATE_US = 100 * 1000, /* until requests that the proxy let go are executed */
    REQUESTS_MAX = 2000
};

/* How the n-th request ends. */
enum moment {
    MOMENT_AFTER,  /* executed, its reply is never seen, its sender is killed */
    MOMENT_BEFORE, /* never executed, its sender is killed */
    MOMENT_LATE,   /* its sender is killed; executed when another process has ended the work */
    MOMENT_STOP,   /* its sender waits, and goes on when another process has ended the work */
    MOMENTS
};

static const char *const moment_names[MOMENTS] = {
    [MOMENT_AFTER] = "after the request",
    [MOMENT_BEFORE] = "before the request",
    [MOMENT_LATE] = "before the request, which is executed later",
    [MOMENT_STOP] = "standing still before the request",
};

/* --- making and deleting a filter --- */

static bool make_it(struct steps *s, void *unused)
{
    (void)unused;
    return steps_make(s, &s->a);
}

static bool finish_make(struct steps *s)
{
    s->names.incarnation = 0;
    return steps_begin_filter(s) && steps_add_more(s, &s->writer);
}

/* Delete the filter. Its name leaves the registries first: a name in the registries that has no view counts
 * as a lost view. */
static bool drop(struct steps *s, const struct nodes *nodes)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(nodes, STEPS_TIMEOUT_MS, NULL);
    struct handle f = {.redis = l, .names = s->names};
    enum err code = registry_leave(&f, s->names.incarnation, &e);
    if (code == ERR_OK)
        code = log_drop(l, &s->names, s->names.incarnation, 0, NULL, &e);
    handle_fini(&f);
    sync_client_free(l);
    return code == ERR_NOT_FOUND || steps_said(code, &e);
}

static bool drop_it(struct steps *s, void *unused)
{
    (void)unused;
    return drop(s, &s->a);
}

static bool finish_drop(struct steps *s)
{
    bool ok = drop(s, &s->b);
    steps_end_writer(s);
    return ok;
}

/* No key of the filter is left, and the filter can be made again. */
static bool make_again(struct steps *s)
{
    redisReply *r =
        client_command(&s->servers.client[0], "KEYS tb:{f*:*%016" PRIx64 "*", s->names.incarnation);
    bool ok = r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 0;
    for (size_t i = 0; r != NULL && i < r->elements && i < 5; i++)
        (void)fprintf(stderr, "%s is left over\n", r->element[i]->str);
    freeReplyObject(r);
    s->names.incarnation = 0;
    return steps_begin_filter(s) && ok;
}

/* --- folding --- */

static struct log_member member; /* in process A */

/* Wait until all shards are in memory. Before that, blocks may give the answers. */
static bool wait_until_resident(struct log_member *m)
{
    static struct log_status status;
    const struct log_generation_status *g = status.generation;
    uint64_t until = clock_mono_us() + STEPS_END_US;
    bool resident = false;
    while (!resident && clock_mono_us() < until) {
        clock_sleep_us(STEPS_LOOK_US);
        control_status(m->control, &status);
        resident = g[0].answers || g[1].answers;
        for (unsigned i = 0; i < 2; i++)
            resident &= !g[i].answers || g[i].memory.resident == g[i].memory.shards;
    }
    return steps_is_said(resident, "not all shards come into memory");
}

static bool open_folder(struct steps *s, void **out)
{
    struct error e = {""};
    const struct log_member_options o = steps_member_options(s, &s->a, false);
    *out = &member;
    return steps_said(log_member_open(&member, &o, &e), &e) &&
           steps_ask(&member, false, 0, s->next, KEY_PRESENT) && wait_until_resident(&member);
}

/* Open A and fold, so that the added keys are found in the shards, and not in the lanes. */
static bool open_and_fold(struct steps *s, void **out)
{
    bool ok = open_folder(s, out);
    log_set_folding(member.control, true);
    ok = ok && steps_wait_until_folded(s, &member);
    log_set_folding(member.control, false);
    return ok;
}

static bool fold_all(struct steps *s, void *x)
{
    struct log_member *m = x;
    log_set_folding(m->control, true);
    return steps_wait_until_folded(s, m);
}

/* Add a key and fold: with nothing to fold, A would not look at the shards. */
static bool add_one_and_fold(struct steps *s, void *x)
{
    return steps_ask(x, true, LEDGER_NEVER - 1, LEDGER_NEVER, KEY_ADDED) && fold_all(s, x);
}

static bool finish_fold(struct steps *s)
{
    log_set_folding(s->writer.control, true);
    bool ok = steps_add_more(s, &s->writer) && steps_wait_until_folded(s, NULL);
    log_set_folding(s->writer.control, false);
    return ok;
}

/* --- a lost shard, a lost lane --- */

static bool delete_one(struct steps *s, const char *pattern)
{
    redisReply *r = client_command(&s->servers.client[0], "KEYS %s", pattern);
    bool ok = r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements > 0;
    if (ok)
        freeReplyObject(
            client_command(&s->servers.client[0], "DEL %b", r->element[0]->str, r->element[0]->len));
    freeReplyObject(r);
    return steps_is_said(ok, "nothing was deleted");
}

static bool delete_shard(struct steps *s)
{
    return delete_one(s, "tb:{f.*.*.*}:*");
}

static bool delete_lane(struct steps *s)
{
    return delete_one(s, "*.log1");
}

/* Add and check, but do not wait for folding, which needs the lost shard. */
static bool go_on_adding(struct steps *s)
{
    return steps_add_more(s, &s->writer) && steps_ask(&s->writer, false, 0, s->next, KEY_PRESENT);
}

/* Open A and have it add a key, so that it is a writer that the roll call waits for. */
static bool open_writer(struct steps *s, void **out)
{
    return open_folder(s, out) && steps_ask(&member, true, LEDGER_NEVER - 1, LEDGER_NEVER, KEY_ADDED);
}

static bool add_and_fold(struct steps *s, void *x)
{
    struct log_member *m = x;
    log_set_folding(m->control, true);
    return steps_ask(m, false, 0, s->next, KEY_PRESENT) && steps_wait_until_folded(s, m);
}

/* --- builds --- */

static bool build(struct steps *s, const struct nodes *nodes, bool back)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(nodes, STEPS_TIMEOUT_MS, NULL);
    const struct builder_options o = {.nodes = nodes, .names = &s->names, .ledger = s->ledger};
    enum err code = builder_turn(&o, l, back, &e);
    sync_client_free(l);
    return steps_said(code, &e);
}

static bool build_it(struct steps *s, void *unused)
{
    (void)unused;
    return build(s, &s->a, true);
}

static bool finish_build(struct steps *s)
{
    return steps_add_more(s, &s->writer) && build(s, &s->b, false) && finish_fold(s);
}

/* --- layers --- */

enum { FEW = 150, A_FIRST = LEDGER_NEVER / 2, A_KEYS = 200, A_BATCH = 20 };

/* Pause the writer, so that only A makes the layer. */
static bool pause_writer(struct steps *s)
{
    log_member_pause(&s->writer);
    return true;
}

/* Add more keys than the filter has room for. */
static bool add_too_many(struct steps *s, void *x)
{
    struct log_member *m = x;
    bool ok = true;
    log_set_folding(m->control, true);
    for (uint64_t at = A_FIRST; at < A_FIRST + A_KEYS && ok; at += A_BATCH) {
        ok = steps_ask(m, true, at, at + A_BATCH, KEY_ADDED);
        for (uint64_t i = at; i < at + A_BATCH && ok; i++)
            ledger_acknowledge(s->ledger, i, 0);
    }
    return ok && steps_wait_until_folded(s, m);
}

static bool finish_grow(struct steps *s)
{
    log_member_go_on(&s->writer);
    log_set_folding(s->writer.control, true);
    bool ok = steps_add_more(s, &s->writer); /* twice: then the layer is full, whatever A has done */
    ok = ok && steps_add_more(s, &s->writer);
    ok = ok && steps_wait_until_folded(s, NULL);
    log_set_folding(s->writer.control, false);
    return steps_is_said(!ok || s->view->slot[s->view->current].shape.layer_count > 1,
                         "no layer was added") &&
           ok;
}

/* The keys whose adds were acknowledged to A are present. */
static bool has_keys_of_a(struct steps *s)
{
    bool ok = true;
    for (uint64_t i = A_FIRST; i < A_FIRST + A_KEYS && ok; i++)
        ok = !s->ledger->acknowledged[i] || steps_ask(&s->writer, false, i, i + 1, KEY_PRESENT);
    return ok;
}

/* A process without memory checks keys while the shard is missing or incomplete; another process has the
 * shard in memory. */
static bool ask_and_finish_fold(struct steps *s)
{
    static struct log_member m;
    struct error e = {""};
    struct log_member_options o = steps_member_options(s, &s->b, false);
    o.memory = 0;
    bool ok = steps_said(log_member_open(&m, &o, &e), &e) && steps_ask(&m, false, 0, s->next, KEY_PRESENT);
    log_member_close(&m);
    return ok && finish_fold(s);
}

/* --- all of them --- */

static const struct step_kind names[] = {
    {"step-make", "a filter is made, and its maker dies at each request"},
    {"step-drop", "a filter is deleted, and its deleter dies at each request"},
    {"step-fold", "a folder dies at each request"},
    {"step-shard", "a shard is lost, and who makes it again dies at each request"},
    {"step-alone", "the same, and nobody else has it in memory"},
    {"step-lane", "a lane is lost, and who replaces it stands still at each request"},
    {"step-build", "a builder dies at each request"},
    {"step-grow", "who adds a layer, adds and folds dies at each request"},
    {NULL, NULL},
};
const struct step_kind *const step_kinds = names;

static const struct step kinds[] = {
    {.act = make_it, .finish = finish_make},
    {.filter = true, .act = drop_it, .finish = finish_drop, .after = make_again},
    {.filter = true, .ready = open_folder, .act = fold_all, .finish = finish_fold},
    {.filter = true,
     .ready = open_and_fold,
     .before = delete_shard,
     .act = add_one_and_fold,
     .finish = ask_and_finish_fold},
    {.filter = true,
     .alone = true,
     .ready = open_and_fold,
     .before = delete_shard,
     .act = add_one_and_fold,
     .finish = go_on_adding},
    {.filter = true, .ready = open_writer, .before = delete_lane, .act = add_and_fold, .finish = finish_fold},
    {.filter = true, .act = build_it, .finish = finish_build},
    {.filter = true,
     .capacity = FEW,
     .ready = open_folder,
     .before = pause_writer,
     .act = add_too_many,
     .finish = finish_grow,
     .after = has_keys_of_a},
};

/* --- a step --- */

/* Process A: it has connections of its own, and a copy of all that it changes. */
static int run_a(struct launcher *l, void *arg)
{
    static struct steps mine;
    void *x = NULL;
    mine = *(struct steps *)arg;
    mine.link = sync_client_new(&mine.b, STEPS_TIMEOUT_MS, NULL);
    mine.view = malloc(sizeof(*mine.view));
    if (mine.kind->ready != NULL && !mine.kind->ready(&mine, &x))
        return 1;
    launched_is_ready(l);
    return mine.kind->act(&mine, x) ? 0 : 1;
}

/* Wait until A is held at its n-th request, or has ended (*@ended). */
static bool wait_for(struct steps *s, bool *ended)
{
    uint64_t until = clock_mono_us() + STEPS_END_US + STEPS_END_US / 4; /* A times out first, and says why */
    int status = 0;
    *ended = false;
    while (!proxy_is_held(s->proxy) && !*ended) {
        *ended = launcher_has_ended(s->launcher, &status);
        if (clock_mono_us() > until) {
            (void)fprintf(stderr, "the process comes to no end\n");
            return false;
        }
        clock_sleep_us(200);
    }
    if (*ended && status != 0)
        (void)fprintf(stderr, "the process ended with status %d\n", status);
    return !*ended || status == 0;
}

static bool wait_for_end(struct steps *s)
{
    uint64_t until = clock_mono_us() + STEPS_END_US;
    int status;
    while (!launcher_has_ended(s->launcher, &status) && clock_mono_us() < until)
        clock_sleep_us(STEPS_LOOK_US);
    return steps_is_said(launcher_has_ended(s->launcher, &status), "the process comes to no end");
}

/* A waits at its n-th request: kill it or not, have the others end the work, then let the request go. */
static bool go_on(struct steps *s, enum moment moment)
{
    bool is_writer = s->kind->ready == open_writer, ok = true;
    if (moment == MOMENT_AFTER || moment == MOMENT_BEFORE || moment == MOMENT_LATE)
        launcher_kill(s->launcher);
    if (moment == MOMENT_AFTER || moment == MOMENT_BEFORE)
        proxy_release(s->proxy, false);
    if (is_writer) { /* the others wait for this writer */
        clock_sleep_us(LATE_US);
        proxy_release(s->proxy, true);
    }
    ok = s->kind->finish(s);
    if (moment == MOMENT_LATE || moment == MOMENT_STOP)
        proxy_release(s->proxy, true);
    if (moment == MOMENT_LATE || (moment == MOMENT_STOP && !is_writer))
        clock_sleep_us(LATE_US);
    return ok;
}

/* Empty the servers, and complete the registry, as a coordinator does: it says that there is no other
 * filter. */
static bool empty_servers(struct steps *s)
{
    struct error e = {""};
    struct handle f = {.redis = s->link, .names = s->names};
    enum err code = client_ok(&s->servers.client[0], &e, "FLUSHALL");
    if (code == ERR_OK)
        code = registry_complete(&f, &e);
    handle_fini(&f);
    return steps_said(code, &e);
}

/* One step. *@ended: A ended before its n-th request. */
static bool step(struct steps *s, enum moment moment, uint64_t n, bool *ended)
{
    *ended = true;
    bool ok = empty_servers(s);
    s->names.incarnation = 0;
    ok = ok && (!s->kind->filter || steps_begin_filter(s)) &&
         steps_is_said(launcher_start(s->launcher, STEPS_END_US), "the process did not begin") &&
         (s->kind->before == NULL || s->kind->before(s));
    if (ok) {
        proxy_count(s->proxy, "a", n, moment == MOMENT_AFTER ? PROXY_AFTER : PROXY_BEFORE);
        launcher_go(s->launcher);
        ok = wait_for(s, ended);
        steps_allows_maybe = s->kind->alone;
        if (ok && !*ended)
            ok = go_on(s, moment);
        else
            ok = ok && s->kind->finish(s);
        if (ok && s->kind->after != NULL)
            ok = wait_for_end(s) && s->kind->after(s);
        s->requests = proxy_counted(s->proxy);
        proxy_release(s->proxy, true);
        ok = ok && steps_add_more(s, &s->writer) && steps_ask(&s->writer, false, 0, s->next, KEY_PRESENT) &&
             steps_all_is_there(s);
    }
    launcher_kill(s->launcher);
    steps_allows_maybe = false;
    steps_end_writer(s);
    return ok;
}

/* --- all steps --- */

static bool begin(struct steps *s, struct error *e)
{
    char url[128];
    uint16_t port;
    s->ledger = ledger_new();
    s->view = malloc(sizeof(*s->view));
    s->launcher = launcher_new(run_a, s); /* before the proxy, which has a thread */
    enum err code = s->ledger == NULL || s->view == NULL || s->launcher == NULL
                        ? error_set(e, ERR_NOMEM, "out of memory")
                        : fault_servers_start(&s->servers, ONE_SERVER, e);
    if (code == ERR_OK)
        code = client_ok(&s->servers.client[0], e, "CONFIG SET appendonly no");
    if (code == ERR_OK)
        code = client_ok(&s->servers.client[0], e, "ACL SETUSER a on nopass ~* &* +@all");
    if (code == ERR_OK)
        code = client_ok(&s->servers.client[0], e, "ACL SETUSER b on nopass ~* &* +@all");
    if (code == ERR_OK)
        code = proxy_start(&s->proxy, e);
    if (code == ERR_OK)
        code = proxy_add(s->proxy, WIRE_REDIS, s->servers.redis[0].port, &s->route, &port, e);
    if (code == ERR_OK) {
        proxy_count_as_job(s->proxy, "*");
        (void)snprintf(url, sizeof(url), "redis://a:a@127.0.0.1:%u", port);
        code = nodes_parse(&s->a, url, e);
    }
    if (code == ERR_OK) {
        (void)snprintf(url, sizeof(url), "redis://b:b@127.0.0.1:%u", port);
        code = nodes_parse(&s->b, url, e);
    }
    if (code == ERR_OK)
        code = names_init(&s->names, "tb", "f", 1, e);
    s->link = code == ERR_OK ? sync_client_new(&s->b, STEPS_TIMEOUT_MS, NULL) : NULL;
    return code == ERR_OK;
}

static void finish(struct steps *s)
{
    launcher_free(s->launcher);
    sync_client_free(s->link);
    proxy_stop(s->proxy);
    fault_servers_fini(&s->servers);
    free(s->view);
    if (s->ledger != NULL)
        ledger_free(s->ledger);
}

static bool run_moment(struct steps *s, const char *name, enum moment moment, unsigned most, uint64_t seed)
{
    bool ended;
    unsigned steps = 0;
    bool ok = step(s, moment, 0, &ended); /* n = 0: A is not held */
    uint64_t all = s->requests, by = most == 0 || all <= most ? 1 : all / most;
    ended = false;
    for (uint64_t n = 1 + seed % by; ok && !ended; n += by, steps++) {
        ok = n < REQUESTS_MAX && step(s, moment, n, &ended);
        if (!ok)
            (void)fprintf(stderr, "%s: %s, number %" PRIu64 "\n", name, moment_names[moment], n);
    }
    (void)printf("%-14s %s: %u steps, of some %" PRIu64 " requests, %s\n", name, ok ? "kept" : "BROKEN",
                 steps, all, moment_names[moment]);
    (void)fflush(stdout);
    return ok;
}

bool steps_run(const char *name, unsigned most, uint64_t seed)
{
    struct error e = {""};
    struct steps *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return false;
    for (unsigned i = 0; names[i].name != NULL; i++)
        if (strcmp(names[i].name, name) == 0)
            s->kind = &kinds[i];
    bool ok = begin(s, &e);
    if (!ok)
        (void)fprintf(stderr, "%s: %s\n", name, e.text);
    for (unsigned m = 0; ok && m < MOMENTS; m++)
        if (s->kind->ready != open_writer || m == MOMENT_STOP)
            ok = run_moment(s, name, (enum moment)m, most, seed);
    finish(s);
    (void)munmap(s, sizeof(*s));
    return ok;
}
