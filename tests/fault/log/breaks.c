/* SPDX-License-Identifier: MIT */
/* A process that lives on behind broken connections: at its n-th request all its connections to all nodes
 * break at once, for n = 1, 2, 3 and so on. What it does must end all the same, and a process that only has
 * the data in Redis must then find all acknowledged keys. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/generations/drop.h"
#include "shard/view/handle.h"
#include "shard/view/registry.h"
#include "shard/view/view_load.h"
#include "tests/fault/log/builder.h"
#include "tests/lib/client.h"
#include "tests/lib/log_member.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

enum {
    NODES = 2,
    TIMEOUT_MS = 2000,
    KEYS = 2000,
    SOME = 7,
    BATCH = 2000,
    SHARD_BYTES = 4096,
    END_US = 10000 * 1000,
    LOOK_US = 1000,
    LEASE = 120,
    OFTEN_US = 50, /* look_interval: between almost all shards */
    SELDOM_US = 2000,
    GRACE_US = 400 * 1000,
    BEGINS_US = 30 * 1000, /* until something is begun; then until the breaks have come, at most: */
    ADDS_US = 500 * 1000,
    BREAKS_US = 1500 * 1000
};

/* The n-th request is never executed; its reply is lost; it is executed some milliseconds later. */
enum moment { BEFORE, AFTER, LATE, MOMENTS };
static const char *const moment_names[] = {"before", "after", "late"};

/* Which requests count. Where pages are written, the next connection breaks while a folder forgets what it
 * knew, and answers a doubt. */
static const char any[] = "", page[] = "ARGV[i + 1]", answer[] = "local least = tonumber(ARGV[4])";

struct breaks {
    const char *kind;
    struct temp_redis redis[NODES];
    struct client client[NODES];
    struct proxy *proxy;
    unsigned route[NODES];
    struct nodes a, b; /* through the proxy; directly */
    struct names names;
    struct sync_client *link;
    struct log_view *view;
    struct ledger *ledger;
    struct log_member member, other;
    bool has_other, opened;
    uint64_t next;
    /* the breaker */
    pthread_t thread;
    _Atomic bool stop;
    _Atomic unsigned broke;
    enum moment moment;
    const char *counts;
    unsigned second; /* requests behind the first break; 0: no second one */
    uint64_t late_us;
};

static struct breaks s;

static bool said(enum err code, const struct error *e)
{
    if (code != ERR_OK)
        (void)fprintf(stderr, "  %s\n", e->text);
    return code == ERR_OK;
}

/* --- the breaker --- */

static void *run_breaker(void *unused)
{
    (void)unused;
    while (!s.stop) {
        clock_sleep_us(100);
        if (!proxy_is_held(s.proxy))
            continue;
        bool second = s.broke == 0 && s.second > 0;
        if (s.moment == LATE && !second) {
            proxy_hang_up(s.proxy, "a");
            s.broke++;
            clock_sleep_us(s.late_us);
            proxy_release(s.proxy, true);
            continue;
        }
        if (second)
            proxy_count(s.proxy, "none", 0, PROXY_BEFORE);
        proxy_release(s.proxy, false);
        for (unsigned i = 0; i < NODES && s.broke == 0; i++)
            (void)proxy_reset(s.proxy, s.route[i], "a", false);
        s.broke++;
        proxy_count_only(s.proxy, s.counts == page ? answer : any);
        if (second)
            proxy_count(s.proxy, "a", s.second, s.moment == AFTER ? PROXY_AFTER : PROXY_BEFORE);
    }
    return NULL;
}

static void begin_break(uint64_t n)
{
    s.stop = false;
    s.broke = 0;
    if (pthread_create(&s.thread, NULL, run_breaker, NULL) != 0)
        abort();
    proxy_count_only(s.proxy, s.counts);
    proxy_count(s.proxy, "a", n, s.moment == AFTER ? PROXY_AFTER : PROXY_BEFORE);
}

static void end_break(void)
{
    s.stop = true;
    (void)pthread_join(s.thread, NULL);
    proxy_release(s.proxy, true);
}

/* --- members --- */

static struct log_member_options options(const struct nodes *nodes, bool folds, const char *owner)
{
    return (struct log_member_options){.nodes = nodes,
                                       .names = &s.names,
                                       .memory = UINT64_MAX,
                                       .timeout_ms = TIMEOUT_MS,
                                       .lease_ms = LEASE,
                                       .owner = owner,
                                       .fold_interval_us = 2000,
                                       .look_interval_us = s.counts == page ? OFTEN_US : SELDOM_US,
                                       .writer_grace_us = GRACE_US,
                                       .folds = folds};
}

static bool ask(struct log_member *m, bool adds, uint64_t first, uint64_t last, unsigned *absent)
{
    static uint64_t keys[BATCH];
    static uint8_t answers[BATCH];
    struct error e = {""};
    uint64_t until = clock_mono_us() + END_US;
    *absent = 0;
    for (uint64_t at = first; at < last;) {
        unsigned count = (unsigned)(last - at < BATCH ? last - at : BATCH);
        for (unsigned i = 0; i < count; i++)
            keys[i] = at + i;
        enum err code = log_member_ask(m, adds, keys, count, answers, &e);
        for (; code != ERR_OK && clock_mono_us() < until; clock_sleep_us(LOOK_US))
            code = log_member_ask(m, adds, keys, count, answers, &e);
        if (code != ERR_OK) {
            (void)fprintf(stderr, "  %s of %" PRIu64 ": %s\n", adds ? "add" : "check", at, e.text);
            return false;
        }
        for (unsigned i = 0; i < count; i++) {
            *absent += answers[i] == KEY_ABSENT;
        }
        at += count;
    }
    return true;
}

static bool add(struct log_member *m, unsigned count)
{
    unsigned unused;
    atomic_fetch_add(&s.ledger->turn[0], 1);
    bool ok = ask(m, true, s.next, s.next + count, &unused);
    for (uint64_t i = s.next; ok && i < s.next + count; i++)
        s.ledger->acknowledged[i % LEDGER_KEYS] = 1;
    s.next += ok ? count : 0;
    atomic_fetch_add(&s.ledger->turn[0], 1);
    return ok;
}

static bool load_view(void)
{
    struct error e = {""};
    return said(log_view_load(s.link, &s.names, s.view, &e), &e);
}

static bool is_folded(void)
{
    const struct log_view *v = s.view;
    bool folded = load_view();
    for (unsigned i = 0; folded && i < v->lane_count; i++) {
        char id[LOG_ID_TEXT_MAX];
        struct key_name key;
        redisReply *r;
        lane_key(&key, &s.names, i, v->lane[i].number);
        if (sync_client_command(s.link, sync_client_home(s.link, &s.names), &r, NULL,
                                "XREVRANGE %b + - COUNT 1", key.text, key.length) != ERR_OK)
            return false;
        (void)log_id_format(v->slot[v->current].folded[i].position.id, id);
        folded = v->slot[v->current].folded[i].lane_number == v->lane[i].number &&
                 (r->elements == 0 || strcmp(r->element[0]->element[0]->str, id) == 0);
        freeReplyObject(r);
    }
    return folded;
}

static void tell_member(const char *who, struct log_member *m)
{
    (void)pthread_mutex_lock(&m->lock);
    if (m->failing != ERR_OK)
        (void)fprintf(stderr, "  %s: %s\n", who, m->last.text);
    (void)pthread_mutex_unlock(&m->lock);
}

static bool wait_until_folded(uint64_t us)
{
    uint64_t until = clock_mono_us() + us;
    bool folded;
    while (!(folded = is_folded()) && clock_mono_us() < until)
        clock_sleep_us(LOOK_US);
    if (!folded) {
        (void)fprintf(stderr, "  it is not folded\n");
        tell_member("member", &s.member);
        if (s.has_other)
            tell_member("other", &s.other);
    }
    return folded;
}

static bool wait_until_resident(struct log_member *m)
{
    static struct log_status status;
    uint64_t until = clock_mono_us() + END_US;
    bool resident = false;
    while (!resident && clock_mono_us() < until) {
        clock_sleep_us(LOOK_US);
        control_status(m->control, &status);
        const struct log_generation_status *g = status.generation;
        resident = g[0].answers || g[1].answers;
        for (unsigned i = 0; i < 2; i++)
            resident &= !g[i].answers || g[i].memory.resident == g[i].memory.shards;
    }
    if (!resident)
        (void)fprintf(stderr, "  not all shards come into memory\n");
    return resident;
}

/* --- the verdict --- */

static bool all_is_there(void)
{
    static struct log_member m;
    struct error e = {""};
    unsigned absent = 0, never = 0;
    const struct log_member_options o = options(&s.b, false, "judge");
    bool ok = said(log_member_open(&m, &o, &e), &e) && wait_until_resident(&m) &&
              ask(&m, false, 0, s.next, &absent) && ask(&m, false, LEDGER_NEVER, LEDGER_NEVER + KEYS, &never);
    log_member_abandon(&m);
    if (ok && absent > 0)
        (void)fprintf(stderr, "  LOST: %u of %" PRIu64 " acknowledged keys\n", absent, s.next);
    if (ok && never < KEYS - 20)
        (void)fprintf(stderr, "  %u of %u keys that were never added are not absent\n", KEYS - never, KEYS);
    bool degraded = !load_view() || s.view->degraded;
    if (degraded)
        (void)fprintf(stderr, "  it is degraded\n");
    return ok && absent == 0 && never >= KEYS - 20 && !degraded;
}

/* --- the filter --- */

static bool is(const char *kind)
{
    return strcmp(s.kind, kind) == 0;
}

static bool make(const struct nodes *nodes)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(nodes, TIMEOUT_MS, NULL);
    s.names.incarnation = 0;
    enum err code = ERR_UNREACHABLE;
    uint64_t until = clock_mono_us() + END_US;
    while (code != ERR_OK && code != ERR_EXISTS && clock_mono_us() < until) {
        code = log_member_make(l, &s.names,
                               is("grow")    ? 2500
                               : is("build") ? 40000
                                             : 300000,
                               2, SHARD_BYTES, &e);
        clock_sleep_us(LOOK_US);
    }
    sync_client_free(l);
    if (code == ERR_EXISTS)
        code = ERR_OK;
    return said(code, &e) && load_view() && (s.names.incarnation = s.view->incarnation) != 0;
}

static bool drop(const struct nodes *nodes)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(nodes, TIMEOUT_MS, NULL);
    enum err code = ERR_UNREACHABLE;
    uint64_t until = clock_mono_us() + END_US;
    while (code != ERR_OK && code != ERR_NOT_FOUND && clock_mono_us() < until) {
        struct handle f = {.redis = l, .names = s.names};
        code = registry_leave(&f, s.names.incarnation, &e);
        if (code == ERR_OK)
            code = log_drop(l, &s.names, s.names.incarnation, 0, NULL, &e);
        handle_fini(&f);
    }
    sync_client_free(l);
    return code == ERR_NOT_FOUND || said(code, &e);
}

static bool open_all(void)
{
    struct error e = {""};
    const struct log_member_options o = options(&s.a, false, "a"), p = options(&s.b, false, "b");
    s.next = 0;
    memset(s.ledger, 0, sizeof(*s.ledger));
    bool ok = make(&s.b) && said(log_member_open(&s.member, &o, &e), &e) && add(&s.member, KEYS) &&
              wait_until_resident(&s.member);
    s.opened = ok;
    s.has_other = is("take") || is("build");
    if (ok && s.has_other)
        ok = said(log_member_open(&s.other, &p, &e), &e) && add(&s.other, 1) && wait_until_resident(&s.other);
    if (ok) {
        log_set_folding((is("take") ? &s.other : &s.member)->control, true);
        ok = wait_until_folded(END_US);
        log_set_folding((is("take") ? &s.other : &s.member)->control, false);
    }
    return ok;
}

static void close_all(void)
{
    if (s.has_other)
        log_member_abandon(&s.other);
    if (s.opened)
        log_member_abandon(&s.member);
    s.opened = s.has_other = false;
}

/* --- a step --- */

static bool delete_shard(uint64_t n)
{
    struct client *c = &s.client[n % NODES];
    redisReply *r = client_command(c, "KEYS tb:{f.*.*.*}:*");
    bool ok = r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements > 0;
    if (ok)
        freeReplyObject(client_command(c, "DEL %s", r->element[n / 2 % r->elements]->str));
    freeReplyObject(r);
    return ok;
}

static bool change_id(uint64_t n)
{
    struct error e = {""};
    bool ok = true;
    for (unsigned i = 0; i < NODES; i++)
        if (n % 3 == 2 || n % 3 == i)
            ok &= said(client_ok(&s.client[i], &e, "DEBUG CHANGE-REPL-ID"), &e);
    return ok;
}

static bool build(void)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(&s.a, TIMEOUT_MS, NULL);
    const struct builder_options o = {.nodes = &s.a, .names = &s.names, .ledger = s.ledger};
    enum err code = ERR_UNREACHABLE;
    uint64_t until = clock_mono_us() + END_US;
    while (code != ERR_OK && clock_mono_us() < until) {
        code = builder_turn(&o, l, false, &e);
    }
    sync_client_free(l);
    return said(code, &e);
}

static bool step(uint64_t n)
{
    bool ok = true;
    if (is("take")) { /* the other one has folded last */
        log_set_folding(s.member.control, false);
        log_set_folding(s.other.control, true);
        ok = add(&s.member, SOME) && add(&s.other, SOME) && wait_until_folded(END_US);
        log_set_folding(s.other.control, false);
    }
    ok = ok && add(&s.member, is("grow") ? 10 : SOME);
    if (is("take"))
        ok = ok && add(&s.other, SOME);
    begin_break(n);
    if (ok && is("heal"))
        ok = delete_shard(n);
    if (ok && is("roll"))
        ok = change_id(n);
    log_set_folding(s.member.control, true);
    uint64_t began = clock_mono_us();
    if (ok && is("build"))
        ok = build();
    if (ok && is("drop")) {
        ok = drop(&s.a) && make(&s.a);
        end_break();
        close_all();
        return ok && open_all() && all_is_there();
    }
    /* Mostly nothing is added meanwhile: a later entry in a shard that was passed over has it taken over
     * again. */
    const bool adds = n % 4 == 0 || is("grow") || is("build");
    bool waits = true;
    while (ok && waits) {
        uint64_t us = clock_mono_us() - began;
        if (adds)
            ok = add(&s.member, is("grow") ? 150 : 1);
        clock_sleep_us(LOOK_US);
        waits = s.broke < (s.second > 0 ? 2U : 1U) && us < (adds ? ADDS_US : BREAKS_US) &&
                (adds || us < BEGINS_US || !is_folded());
    }
    end_break();
    ok = ok && (!adds || add(&s.member, 1)) && wait_until_folded(END_US);
    /* who folds also removes writers that are gone, such as an earlier judge that stood in for them */
    log_set_folding(s.member.control, is("roll"));
    return all_is_there() && ok;
}

/* --- all --- */

static bool begin(struct error *e)
{
    static const char *const extra[] = {"--maxmemory", "256mb", NULL};
    char list[2][256] = {"", ""};
    enum err code = proxy_start(&s.proxy, e);
    for (unsigned i = 0; i < NODES && code == ERR_OK; i++) {
        uint16_t port = 0;
        code = temp_redis_start(&s.redis[i], extra, e);
        if (code == ERR_OK)
            code = client_open(&s.client[i], s.redis[i].port, 5000, e);
        if (code == ERR_OK)
            code = client_ok(&s.client[i], e, "ACL SETUSER a on nopass ~* &* +@all");
        if (code == ERR_OK)
            code = client_ok(&s.client[i], e, "ACL SETUSER b on nopass ~* &* +@all");
        if (code == ERR_OK)
            code = proxy_add(s.proxy, WIRE_REDIS, s.redis[i].port, &s.route[i], &port, e);
        for (unsigned k = 0; k < 2; k++) {
            size_t length = strlen(list[k]);
            (void)snprintf(list[k] + length, sizeof(list[k]) - length, "%sredis://%c:x@127.0.0.1:%u",
                           i == 0 ? "" : ",", "ab"[k], port);
        }
    }
    proxy_count_as_job(s.proxy, "*");
    if (code == ERR_OK)
        code = nodes_parse(&s.a, list[0], e);
    if (code == ERR_OK)
        code = nodes_parse(&s.b, list[1], e);
    if (code == ERR_OK)
        code = names_init(&s.names, "tb", "f", 1, e);
    s.link = sync_client_new(&s.b, TIMEOUT_MS, NULL);
    s.view = malloc(sizeof(*s.view));
    s.ledger = ledger_new();
    if (code == ERR_OK) {
        struct handle f = {.redis = s.link, .names = s.names};
        code = registry_complete(&f, e);
        handle_fini(&f);
    }
    return code == ERR_OK;
}

/* Of @all steps, the first requests of each step are spread over what such a work sends. */
static bool run(const char *kind, const char *counts, unsigned all)
{
    enum { SPREAD = 13, REQUESTS = 60, PAGES = 8, SECONDS = 150, ANSWERS = 60, LATE_MOST_US = 60000 };
    uint64_t requests = counts == page ? PAGES : REQUESTS;
    unsigned done = 0;
    s.kind = kind;
    s.counts = counts;
    bool ok = open_all();
    for (; ok && done < all; done++) {
        uint64_t n = 1 + done * (uint64_t)SPREAD % requests;
        s.moment = (enum moment)(done % (counts == page ? LATE : MOMENTS));
        s.second = counts == page ? 1 + done * 7 % ANSWERS : done % 2 * (1 + done * 7 % SECONDS);
        s.late_us = 1000 + done * UINT64_C(7919) % LATE_MOST_US;
        ok = step(n);
        if (!ok)
            (void)fprintf(stderr, "%s: %s request %" PRIu64 ", step %u\n", kind, moment_names[s.moment], n,
                          done);
        if (s.next > (is("grow") ? 9000 : 30000)) {
            close_all();
            ok = ok && drop(&s.b) && open_all();
        }
    }
    close_all();
    (void)printf("%-5s %s %s: %u steps\n", kind, counts == page ? "pages" : "any", ok ? "kept" : "BROKEN",
                 done);
    return ok && drop(&s.b);
}

/* log_break [STEPS [KIND]]: of each kind; another number than the default takes minutes. */
int main(int argc, char **argv)
{
    enum { STEPS = 6 };
    static const char *const kinds[] = {"fold", "take", "grow", "build", "heal", "roll", "drop"};
    struct error e = {""};
    unsigned steps = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : STEPS;
    (void)signal(SIGPIPE, SIG_IGN);
    bool ok = said(begin(&e) ? ERR_OK : ERR_IO, &e);
    for (unsigned i = 0; ok && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (argc > 2 && strcmp(argv[2], kinds[i]) != 0)
            continue;
        ok = run(kinds[i], any, steps / 2) && (i > 1 || run(kinds[i], page, steps));
    }
    sync_client_free(s.link);
    proxy_stop(s.proxy);
    for (unsigned i = 0; i < NODES; i++) {
        client_close(&s.client[i]);
        temp_redis_fini(&s.redis[i]);
    }
    free(s.view);
    ledger_free(s.ledger);
    return ok ? 0 : 1;
}
