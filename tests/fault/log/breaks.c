/* SPDX-License-Identifier: MIT */
/* A process that lives on: at its n-th request all its connections to all nodes break at once, for n = 1, 2,
 * 3 and so on. Or a server is replaced then, by one with the same data, older ones, none, or those of an
 * earlier filter. What the process does must end all the same. Then it, another process, and one that only
 * has the data in Redis must find all acknowledged keys. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "shard/request/log_filter_state.h"
#include "shard/view/handle.h"
#include "shard/view/registry.h"
#include "tests/fault/log/breaks.h"

enum {
    SOME = 7,
    OFTEN_US = 50, /* look_interval: between almost all shards */
    SELDOM_US = 2000,
    BEGINS_US = 30 * 1000, /* until something is begun; then until the breaks have come, at most: */
    ADDS_US = 500 * 1000,
    BREAKS_US = 1500 * 1000,
    AWAY_US = 300 * 1000 /* until an address leads back, at most */
};

/* The n-th request is never executed; its reply is lost; it is executed some milliseconds later. */
enum moment { BEFORE, AFTER, LATE, MOMENTS };
static const char *const moment_names[] = {"before", "after", "late"};

/* Which requests count. Where pages are written, the next connection breaks while a folder forgets what it
 * knew, and answers a doubt. */
static const char any[] = "", page[] = "ARGV[i + 1]", answer[] = "local least = tonumber(ARGV[4])";

/* What a server is replaced by: one with all its data, with those of some requests before, with none, with
 * those of the filter that was deleted before this one; or that of another node. */
enum data { CONNECTIONS_ALONE, SAME, OLDER, EMPTY, EARLIER, ANOTHER_NODE };
static const char *const data_names[] = {"",        "the same data",     "older data",
                                         "no data", "an earlier filter", "another node"};

/* What follows, some requests later: nothing; the connections break; the other node's server is replaced,
 * too; the address leads back. */
enum next { NOTHING, BREAKS, OTHER_NODE, BACK, NEXTS };
static const char *const next_names[] = {"", ", then connections break", ", then the other node",
                                         ", then it leads back"};

static struct fault {
    uint64_t n;
    enum moment moment;
    const char *counts;
    enum data data;
    unsigned nodes; /* bits: which ones */
    unsigned by;    /* how far the node behind them is whose server they lead to */
    unsigned on;    /* bits: where a build has its shards */
    unsigned older; /* requests; 0: when the step began */
    enum next next;
    unsigned second; /* requests behind the first one */
    uint64_t late_us;
} fault;

/* The thread that does it. */
static pthread_t thread;
static _Atomic bool stop, failed;
static _Atomic unsigned broke;
/* Both threads ask the servers over swap_client(). */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

/* --- the breaker --- */

/* Wait until the process is held at its n-th request from now on. */
static bool hold(uint64_t n, enum moment moment, const char *counts, uint64_t us)
{
    uint64_t until = clock_mono_us() + us;
    proxy_count_only(breaks.proxy, counts);
    proxy_count(breaks.proxy, "a", n, moment == AFTER ? PROXY_AFTER : PROXY_BEFORE);
    while (!stop && clock_mono_us() < until) {
        clock_sleep_us(100);
        if (proxy_is_held(breaks.proxy))
            return true;
    }
    return false;
}

static void copy_all(void)
{
    HOLD(&asking);
    for (unsigned i = 0; i < breaks.nodes; i++)
        failed = !swap_copy(&breaks.node[i]) || failed;
}

static void replace_servers(unsigned nodes)
{
    HOLD(&asking);
    for (unsigned i = 0; i < breaks.nodes; i++)
        if ((nodes >> i & 1) != 0)
            swap_hush(&breaks.node[i]);
    for (unsigned i = 0; i < breaks.nodes; i++)
        if ((nodes >> i & 1) != 0) {
            if (fault.data == ANOTHER_NODE) {
                swap_astray(&breaks.node[i], &breaks.node[(i + fault.by) % breaks.nodes]);
                continue;
            }
            if (fault.data == SAME)
                failed = !swap_copy(&breaks.node[i]) || failed;
            failed = !swap_over(&breaks.node[i]) || failed;
        }
}

static uint64_t looks_of(const struct log_member *m)
{
    return atomic_load(&m->filter->looks);
}

/* Wait until each process has looked. Where an address leads away and back without that it is not noticed. */
static void await_looks(void)
{
    enum { LOOKS = 2 /* the first one may have begun before */ };
    const struct log_member *all[] = {&breaks.member, &breaks.checker, &breaks.other};
    unsigned count = breaks.has_other && !breaks_is("leave") ? 3 : 2;
    uint64_t before[3], until = clock_mono_us() + BREAKS_US;
    for (unsigned i = 0; i < count; i++)
        before[i] = looks_of(all[i]);
    for (unsigned i = 0; i < count; i++)
        while (looks_of(all[i]) < before[i] + LOOKS && clock_mono_us() < until && !stop)
            clock_sleep_us(BREAKS_LOOK_US);
}

static void lead_back(void)
{
    HOLD(&asking);
    for (unsigned i = 0; i < breaks.nodes; i++)
        if ((fault.nodes >> i & 1) != 0)
            swap_hush(&breaks.node[i]);
    for (unsigned i = 0; i < breaks.nodes; i++)
        if ((fault.nodes >> i & 1) != 0)
            swap_back(&breaks.node[i]);
}

static void break_all(void)
{
    proxy_count(breaks.proxy, "none", 0, PROXY_BEFORE);
    proxy_release(breaks.proxy, false);
    for (unsigned i = 0; i < breaks.nodes; i++)
        (void)proxy_reset(breaks.proxy, breaks.node[i].route, "a", false);
}

/* The process is held. */
static void happen(enum moment moment, enum data data, unsigned nodes)
{
    if (moment == LATE)
        proxy_hang_up(breaks.proxy, "a");
    if (data != CONNECTIONS_ALONE)
        replace_servers(nodes);
    if (moment == LATE) {
        clock_sleep_us(fault.late_us);
        proxy_release(breaks.proxy, true);
    } else if (data == CONNECTIONS_ALONE) {
        break_all();
    } else {
        proxy_release(breaks.proxy, false);
    }
    broke++;
}

static void *run_breaker(void *unused)
{
    const bool twice = fault.next != NOTHING;
    (void)unused;
    if (fault.older > 0) {
        if (fault.n <= fault.older || !hold(fault.n - fault.older, AFTER, fault.counts, UINT64_MAX / 2))
            return NULL;
        copy_all();
        proxy_release(breaks.proxy, true);
    }
    const bool late_at_second = fault.data == CONNECTIONS_ALONE && twice && fault.moment == LATE;
    if (!hold(fault.n - fault.older, fault.moment, fault.counts, UINT64_MAX / 2))
        return NULL;
    happen(late_at_second ? BEFORE : fault.moment, fault.data, fault.nodes);
    if (fault.next == BACK) {
        await_looks();
        (void)hold(fault.second, BEFORE, any, AWAY_US);
        lead_back();
        proxy_release(breaks.proxy, false);
        broke++;
    } else if (twice &&
               hold(fault.second, fault.moment, fault.counts == page ? answer : any, UINT64_MAX / 2)) {
        happen(fault.moment, fault.next == BREAKS ? CONNECTIONS_ALONE : fault.data, ~fault.nodes);
    }
    return NULL;
}

static bool begin_break(void)
{
    bool ok = true;
    stop = false;
    broke = 0;
    for (unsigned i = 0; i < breaks.nodes && fault.data != CONNECTIONS_ALONE; i++) {
        ok &= swap_prepare(&breaks.node[i]);
        if (fault.data == EMPTY)
            swap_forget(&breaks.node[i]);
    }
    if (pthread_create(&thread, NULL, run_breaker, NULL) != 0)
        abort();
    return ok;
}

static bool end_break(void)
{
    stop = true;
    (void)pthread_join(thread, NULL);
    proxy_release(breaks.proxy, true);
    return !failed;
}

/* --- a step --- */

static bool delete_one(const char *pattern)
{
    HOLD(&asking);
    bool ok = false;
    for (unsigned i = 0; i < breaks.nodes && !ok; i++) {
        struct client *c = swap_client(&breaks.node[(fault.n + i) % breaks.nodes]);
        redisReply *r = client_command(c, "KEYS %s", pattern);
        ok = r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements > 0;
        if (ok)
            freeReplyObject(client_command(c, "DEL %s", r->element[fault.n / 2 % r->elements]->str));
        freeReplyObject(r);
    }
    return ok;
}

static bool change_id(void)
{
    HOLD(&asking);
    struct error e = {""};
    bool ok = true;
    for (unsigned i = 0; i < breaks.nodes; i++)
        if (fault.n % 3 == 2 || fault.n % 3 == i)
            ok &= breaks_said(client_ok(swap_client(&breaks.node[i]), &e, "DEBUG CHANGE-REPL-ID"), &e);
    return ok;
}

/* The other one leaves, and another process begins. */
static bool leave_and_come(void)
{
    log_member_close(&breaks.other);
    bool ok = breaks_open_other(&breaks.a);
    if (ok)
        log_set_folding(breaks.other.control, true); /* who adds folds */
    return ok;
}

static bool step(void)
{
    bool ok = true;
    failed = false;
    if (fault.data == OLDER && fault.older == 0)
        copy_all();
    if (breaks_is("take")) { /* the other one has folded last */
        log_set_folding(breaks.member.control, false);
        log_set_folding(breaks.other.control, true);
        ok = breaks_add(&breaks.member, SOME) && breaks_add(&breaks.other, SOME) &&
             breaks_wait_until_folded(BREAKS_END_US);
        log_set_folding(breaks.other.control, false);
    }
    ok = ok && breaks_add(&breaks.member, breaks_is("grow") ? 10 : SOME);
    if (breaks.has_other)
        ok = ok && breaks_add(&breaks.other, SOME);
    ok &= begin_break();
    if (ok && breaks_is("heal"))
        ok = delete_one("tb:{f.*.*.*}:*");
    if (ok && breaks_is("lane"))
        ok = delete_one("*.log*");
    if (ok && breaks_is("roll"))
        ok = change_id();
    log_set_folding(breaks.member.control, true);
    uint64_t began = clock_mono_us();
    if (ok && breaks_is("build"))
        ok = breaks_build(&breaks.a, fault.on, fault.data != CONNECTIONS_ALONE && fault.n % 3 == 0);
    if (ok && breaks_is("leave"))
        ok = leave_and_come();
    if (ok && breaks_is("drop")) {
        ok = breaks_drop(&breaks.a) && breaks_make(&breaks.a);
        ok &= end_break();
        breaks_close_all();
        if (ok && breaks.swaps && breaks_load_view()) { /* it may be back */
            breaks.names.incarnation = breaks.view->incarnation;
            ok = breaks_drop(&breaks.b);
        }
        return ok && breaks_open_all() && breaks_all_is_there();
    }
    /* Mostly nothing is added meanwhile: a later entry in a shard that was passed over has it taken over
     * again. */
    const unsigned all = (1U << breaks.nodes) - 1;
    const bool adds = fault.n % (breaks.swaps ? 2 : 4) == 0 || breaks_is("grow") || breaks_is("build");
    bool waits = true, comes = fault.data != CONNECTIONS_ALONE && fault.nodes != all;
    while (ok && waits) {
        uint64_t us = clock_mono_us() - began;
        if (adds)
            ok = breaks_add(&breaks.member, breaks_is("grow") ? 150 : 1);
        if (ok && comes && broke > 0) {
            ok = breaks_newcomer_is_right();
            comes = false;
        }
        clock_sleep_us(BREAKS_LOOK_US);
        waits = broke < (fault.next != NOTHING ? 2U : 1U) && us < (adds ? ADDS_US : BREAKS_US) &&
                (adds || us < BEGINS_US || !breaks_is_folded());
    }
    ok &= end_break();
    ok = ok && (!adds || breaks_add(&breaks.member, 1)) && breaks_wait_until_folded(BREAKS_END_US);
    /* who folds also removes writers that are gone, such as an earlier judge that stood in for them */
    log_set_folding(breaks.member.control, breaks_is("roll") || breaks.swaps);
    return breaks_all_is_there() && ok;
}

/* --- all --- */

static bool begin(struct error *e)
{
    char list[2][384] = {"", ""};
    enum err code = proxy_start(&breaks.proxy, e);
    for (unsigned i = 0; i < breaks.nodes && code == ERR_OK; i++) {
        code = swap_start(&breaks.node[i], breaks.proxy, e);
        for (unsigned k = 0; k < 2; k++) {
            size_t length = strlen(list[k]);
            (void)snprintf(list[k] + length, sizeof(list[k]) - length, "%sredis://%c:x@127.0.0.1:%u",
                           i == 0 ? "" : ",", "ab"[k], breaks.node[i].port);
        }
    }
    proxy_count_as_job(breaks.proxy, "*");
    if (code == ERR_OK)
        code = nodes_parse(&breaks.a, list[0], e);
    if (code == ERR_OK)
        code = nodes_parse(&breaks.b, list[1], e);
    if (code == ERR_OK)
        code = names_init(&breaks.names, "tb", "f", 1, e);
    breaks.link = sync_client_new(&breaks.b, BREAKS_TIMEOUT_MS, NULL);
    breaks.view = malloc(sizeof(*breaks.view));
    breaks.ledger = ledger_new();
    if (code == ERR_OK) {
        struct handle f = {.redis = breaks.link, .names = breaks.names};
        code = registry_complete(&f, e);
        handle_fini(&f);
    }
    return code == ERR_OK;
}

static void tell_step(const char *what, unsigned done)
{
    (void)fprintf(stderr,
                  "%s: %s: %s request %" PRIu64
                  " %s (nodes %x, by %u, %u requests older, layout %d, builds on %x)%s, %u later; step %u\n",
                  breaks.kind, what, moment_names[fault.moment], fault.n, data_names[fault.data], fault.nodes,
                  fault.by, fault.older, (int)breaks.layout, fault.on, next_names[fault.next], fault.second,
                  done);
}

static bool run_step(unsigned done)
{
    unsigned heals = breaks.heals;
    bool ok = step();
    if (!ok)
        tell_step("BROKEN", done);
    else if (breaks.heals > heals && getenv("LOG_BREAK_VERBOSE") != NULL)
        tell_step("was degraded", done);
    return ok;
}

/* Of @all steps, the first requests of each step are spread over what such a work sends. */
static bool run(const char *kind, const char *counts, unsigned all)
{
    enum { SPREAD = 13, REQUESTS = 60, PAGES = 8, SECONDS = 150, ANSWERS = 60, LATE_MOST_US = 60000 };
    uint64_t requests = counts == page ? PAGES : REQUESTS;
    unsigned done = 0;
    breaks.kind = kind;
    breaks.look_us = counts == page ? OFTEN_US : SELDOM_US;
    bool ok = breaks_open_all();
    for (; ok && done < all; done++) {
        fault = (struct fault){.n = 1 + done * (uint64_t)SPREAD % requests,
                               .moment = (enum moment)(done % (counts == page ? LATE : MOMENTS)),
                               .counts = counts,
                               .second = counts == page ? 1 + done * 7 % ANSWERS
                                                        : done % 2 * (1 + done * 7 % SECONDS),
                               .late_us = 1000 + done * UINT64_C(7919) % LATE_MOST_US};
        fault.next = fault.second > 0 ? BREAKS : NOTHING;
        ok = run_step(done);
        if (breaks.next > (breaks_is("grow") ? 9000 : 30000)) {
            breaks_close_all();
            ok = ok && breaks_drop(&breaks.b) && breaks_open_all();
        }
    }
    breaks_close_all();
    (void)printf("%-5s %s %s: %u steps\n", kind, counts == page ? "pages" : "any", ok ? "kept" : "BROKEN",
                 done);
    return ok && breaks_drop(&breaks.b);
}

/* --- servers are replaced --- */

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

static void choose(uint64_t *state, unsigned done, uint64_t requests, bool has_earlier)
{
    enum { STRIDE = 13, OLDER_MOST = 40, SECONDS = 60, LATE_MOST_US = 30000, ODDS = 5 };
    const unsigned all = (1U << breaks.nodes) - 1;
    fault = (struct fault){.n = 1 + done * (uint64_t)STRIDE % requests, .counts = any};
    fault.moment = (enum moment)draw(state, MOMENTS);
    fault.data = draw(state, ODDS) == 0 ? ANOTHER_NODE : (enum data)(SAME + draw(state, EMPTY));
    fault.nodes = 1 + (unsigned)draw(state, all);
    fault.by = 1 + (unsigned)draw(state, breaks.nodes - 1);
    fault.on = (unsigned)draw(state, 2) * (1 + (unsigned)draw(state, all));
    fault.next = (enum next)draw(state, NEXTS);
    fault.second = 1 + (unsigned)draw(state, SECONDS);
    fault.late_us = 1000 + draw(state, LATE_MOST_US);
    fault.older = (unsigned)draw(state, OLDER_MOST);
    if (has_earlier)
        fault.data = EARLIER;
    if (fault.data != OLDER || fault.older >= fault.n)
        fault.older = 0;
    if (fault.nodes == all && fault.next == OTHER_NODE)
        fault.next = NOTHING;
    /* What home has lost is not made again. */
    const bool home = (fault.nodes & 1) != 0 || fault.next == OTHER_NODE;
    if (fault.data == EARLIER || fault.data == ANOTHER_NODE || (fault.data == EMPTY && home))
        fault.next = BACK;
}

static bool run_swaps(const char *kind, unsigned all, uint64_t seed, unsigned first_layout)
{
    enum { LIFE = 8 /* steps */, FEW = 90, MANY = 400 };
    unsigned done = 0;
    uint64_t state = seed;
    bool has_earlier = false, ok = true;
    breaks.kind = kind;
    breaks.look_us = SELDOM_US;
    breaks.heals = 0;
    for (; ok && done < all; done++) {
        if (done % LIFE == 0) {
            breaks.layout = (enum layout)((first_layout + done / LIFE) % LAYOUTS);
            ok = breaks_open_all();
        }
        choose(&state, done, breaks_is("build") || breaks_is("drop") ? MANY : FEW, has_earlier);
        ok = ok && run_step(done);
        has_earlier = false;
        if (ok && done % LIFE == LIFE - 1) {
            breaks_close_all();
            copy_all();
            has_earlier = ok = breaks_drop(&breaks.b);
        }
    }
    breaks_close_all();
    (void)printf("%-5s swaps %s: %u steps, %u healed by a build\n", kind, ok ? "kept" : "BROKEN", done,
                 breaks.heals);
    return ok && breaks_drop(&breaks.b);
}

/* log_break [STEPS [KIND]]: of each kind; another number than the default takes minutes.
 * log_break swaps [STEPS [KIND [SEED]]] */
int main(int argc, char **argv)
{
    enum { STEPS = 6, SWAPS = 3 };
    static const char *const kinds[] = {"fold", "take", "grow", "build", "heal",
                                        "roll", "drop", "lane", "leave"};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), BREAK_KINDS = 7 };
    struct error e = {""};
    breaks.swaps = argc > 1 && strcmp(argv[1], "swaps") == 0;
    breaks.nodes = breaks.swaps ? BREAKS_NODES_MAX : 2;
    argc -= breaks.swaps;
    argv += breaks.swaps;
    unsigned steps = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : breaks.swaps ? SWAPS : STEPS;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    (void)signal(SIGPIPE, SIG_IGN);
    bool ok = breaks_said(begin(&e) ? ERR_OK : ERR_IO, &e);
    for (unsigned i = 0; ok && i < (breaks.swaps ? KINDS : BREAK_KINDS); i++) {
        if (argc > 2 && strcmp(argv[2], kinds[i]) != 0)
            continue;
        ok = breaks.swaps ? run_swaps(kinds[i], steps, seed + i, i)
                          : run(kinds[i], any, steps / 2) && (i > 1 || run(kinds[i], page, steps));
    }
    sync_client_free(breaks.link);
    proxy_stop(breaks.proxy);
    for (unsigned i = 0; i < breaks.nodes; i++)
        swap_fini(&breaks.node[i]);
    free(breaks.view);
    ledger_free(breaks.ledger);
    return ok ? 0 : 1;
}
