/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/breaks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/generations/drop.h"
#include "shard/generations/make.h"
#include "shard/view/handle.h"
#include "shard/view/registry.h"
#include "shard/log/entry.h"
#include "shard/view/view_load.h"
#include "tests/fault/log/builder.h"

enum {
    BATCH = 2000,
    SHARD_BYTES = 4096,
    LEASE = 120,
    GRACE_US = 400 * 1000,
    WHERE = 128,  /* bytes of a list of nodes */
    CHECKS = 100, /* keys that the checker asks for at a time */
    AGAIN = 20,   /* keys that are added again */
    NEWCOMER_US = 50 * 1000,
    NEWCOMER_MS = 100 /* of a request */
};

struct breaks breaks;

bool breaks_said(enum err code, const struct error *e)
{
    if (code != ERR_OK)
        (void)fprintf(stderr, "  %s\n", e->text);
    return code == ERR_OK;
}

bool breaks_is(const char *kind)
{
    return strcmp(breaks.kind, kind) == 0;
}

/* --- members --- */

static struct log_member_options options(const struct nodes *nodes, const char *owner)
{
    return (struct log_member_options){.nodes = nodes,
                                       .names = &breaks.names,
                                       .memory = UINT64_MAX,
                                       .timeout_ms = BREAKS_TIMEOUT_MS,
                                       .lease_ms = LEASE,
                                       .owner = owner,
                                       .fold_interval_us = 2000,
                                       .look_interval_us = breaks.look_us,
                                       .writer_grace_us = GRACE_US};
}

/* Its own entries may lie behind those of `folded`: "<id> <bytes>", the last ones first. */
static const char all_lanes[] =
    "local all = {string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')} "
    "for _, key in ipairs(redis.call('KEYS', '*.log*')) do all[#all + 1] = key .. ' ' .. redis.call('XLEN', "
    "key) "
    "for _, entry in ipairs(redis.call('XREVRANGE', key, '+', '-', 'COUNT', 12)) do "
    "local hex = string.gsub(string.sub(entry[2][2], 1, 28), '.', function(c) "
    "return string.format('%02x', string.byte(c)) end) "
    "all[#all + 1] = '  ' .. entry[1] .. ' ' .. hex end end return all";

static void tell_view(void)
{
    redisReply *r = client_command(swap_client(&breaks.node[0]), "HGETALL tb:{f}:view");
    for (size_t i = 0; r != NULL && r->type == REDIS_REPLY_ARRAY && i + 1 < r->elements; i += 2)
        (void)fprintf(stderr, "  %s = %.120s\n", r->element[i]->str, r->element[i + 1]->str);
    freeReplyObject(r);
    for (unsigned n = 0; n < breaks.nodes; n++) {
        r = client_command(swap_client(&breaks.node[n]), "EVAL %s 0", all_lanes);
        for (size_t i = 0; r != NULL && r->type == REDIS_REPLY_ARRAY && i < r->elements; i++)
            (void)fprintf(stderr, "  node %u: %s\n", n, r->element[i]->str);
        freeReplyObject(r);
    }
}

/* *@met counts the answers @wanted. */
static bool ask(struct log_member *m, bool adds, uint64_t first, uint64_t last, uint8_t wanted, unsigned *met)
{
    static uint64_t keys[BATCH];
    static uint8_t answers[BATCH];
    struct error e = {""};
    uint64_t until = clock_mono_us() + BREAKS_END_US;
    *met = 0;
    for (uint64_t at = first; at < last;) {
        unsigned count = (unsigned)(last - at < BATCH ? last - at : BATCH);
        for (unsigned i = 0; i < count; i++)
            keys[i] = at + i;
        enum err code = log_member_ask(m, adds, keys, count, answers, &e);
        for (; code != ERR_OK && clock_mono_us() < until; clock_sleep_us(BREAKS_LOOK_US))
            code = log_member_ask(m, adds, keys, count, answers, &e);
        if (code != ERR_OK) {
            (void)fprintf(stderr, "  %s of %" PRIu64 ": %s\n", adds ? "add" : "check", at, e.text);
            tell_view();
            return false;
        }
        for (unsigned i = 0; i < count; i++)
            *met += answers[i] == wanted;
        at += count;
    }
    return true;
}

bool breaks_add(struct log_member *m, unsigned count)
{
    unsigned unused;
    uint64_t first = breaks.next;
    atomic_fetch_add(&breaks.ledger->turn[0], 1);
    bool ok = ask(m, true, first, first + count, KEY_ADDED, &unused);
    for (uint64_t i = first; ok && i < first + count; i++)
        breaks.ledger->acknowledged[i % LEDGER_KEYS] = 1;
    breaks.next += ok ? count : 0;
    atomic_fetch_add(&breaks.ledger->turn[0], 1);
    return ok;
}

bool breaks_load_view(void)
{
    struct error e = {""};
    enum err code = log_view_load(breaks.link, &breaks.names, breaks.view, &e);
    return breaks.swaps ? code == ERR_OK : breaks_said(code, &e);
}

/* The last entry of a lane that is no notice is folded: notices alone are not read before there is a request.
 */
static bool is_lane_folded(const redisReply *r, struct log_id folded)
{
    struct log_entry entry;
    struct log_id id;
    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *name = r->element[i]->element[0], *bytes = r->element[i]->element[1]->element[1];
        if (!log_id_parse(&id, name->str, name->len) ||
            log_entry_decode(&entry, bytes->str, bytes->len, NULL) != ERR_OK)
            return false;
        if (entry.kind != LOG_KEYS || entry.count > 0)
            return log_id_compare(id, folded) <= 0;
    }
    return true;
}

bool breaks_is_folded(void)
{
    const struct log_view *v = breaks.view;
    bool folded = breaks_load_view();
    for (unsigned i = 0; folded && i < v->lane_count; i++) {
        const struct log_folded *f = &v->slot[v->current].folded[i];
        struct lane lane;
        redisReply *r;
        if (log_view_lane_at(v, &breaks.names, sync_client_nodes(breaks.link), i, &lane, NULL) != ERR_OK ||
            sync_client_command(breaks.link, lane.where, &r, NULL, "XREVRANGE %b + -", lane.key.text,
                                lane.key.length) != ERR_OK)
            return false;
        folded = f->lane_number == v->lane[i].number && is_lane_folded(r, f->position.id);
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

static void tell_all(void)
{
    tell_member("member", &breaks.member);
    if (breaks.has_other)
        tell_member("other", &breaks.other);
    if (breaks.has_checker)
        tell_member("checker", &breaks.checker);
    tell_view();
}

bool breaks_wait_until_folded(uint64_t us)
{
    uint64_t until = clock_mono_us() + us;
    bool folded;
    while (!(folded = breaks_is_folded()) && clock_mono_us() < until) {
        clock_sleep_us(BREAKS_LOOK_US);
        if (breaks.swaps && breaks_load_view() && breaks.view->degraded)
            return true; /* a shard may be missing, and is not folded until a build has healed the filter */
    }
    if (!folded) {
        (void)fprintf(stderr, "  it is not folded\n");
        tell_all();
    }
    return folded;
}

static bool wait_until_resident(struct log_member *m)
{
    static struct log_status status;
    uint64_t until = clock_mono_us() + BREAKS_END_US;
    bool resident = false;
    while (!resident && clock_mono_us() < until) {
        clock_sleep_us(BREAKS_LOOK_US);
        if (breaks.swaps && breaks_load_view() && breaks.view->degraded)
            return true; /* nobody has what is missing: a build heals it */
        control_status(m->control, &status);
        const struct log_generation_status *g = status.generation;
        resident = g[0].answers || g[1].answers;
        for (unsigned i = 0; i < 2; i++)
            resident &= !g[i].answers || g[i].memory.resident == g[i].memory.shards;
    }
    if (!resident) {
        (void)fprintf(stderr, "  not all shards come into memory\n");
        tell_member("who loads them", m);
        tell_all();
    }
    return resident;
}

/* --- a process that only checks, all the time --- */

static void *run_checks(void *unused)
{
    static uint64_t keys[CHECKS];
    static uint8_t answers[CHECKS];
    struct error e;
    (void)unused;
    for (uint64_t at = 0, step = 0; !breaks.checks_end; step++) {
        uint64_t all = breaks.next; /* half of the time the last ones */
        unsigned count = (unsigned)(all < CHECKS ? all : CHECKS);
        uint64_t first = step % 2 == 0 ? all - count : (at += CHECKS) % (all - count + 1);
        for (unsigned i = 0; i < count; i++)
            keys[i] = first + i;
        if (count == 0 || log_member_ask(&breaks.checker, false, keys, count, answers, &e) != ERR_OK) {
            clock_sleep_us(BREAKS_LOOK_US);
            continue;
        }
        for (unsigned i = 0; i < count; i++)
            if (answers[i] == KEY_ABSENT && breaks.lost++ == 0)
                (void)fprintf(stderr, "  LOST: key %" PRIu64 " of %" PRIu64 " is absent for who checks\n",
                              keys[i], all);
        clock_sleep_us(BREAKS_LOOK_US / 4);
    }
    return NULL;
}

static bool begin_checks(void)
{
    struct error e = {""};
    struct log_member_options o = options(&breaks.b, "checker");
    if (breaks.layout == ONE_LANE)
        o.memory = 0; /* blocks of shards are read */
    breaks.checks_end = false;
    breaks.has_checker =
        breaks_said(log_member_open(&breaks.checker, &o, &e), &e) &&
        breaks_said(pthread_create(&breaks.checks, NULL, run_checks, NULL) == 0 ? ERR_OK : ERR_NOMEM, &e);
    return breaks.has_checker;
}

static void end_checks(void)
{
    if (!breaks.has_checker)
        return;
    breaks.checks_end = true;
    (void)pthread_join(breaks.checks, NULL);
    log_member_abandon(&breaks.checker);
    breaks.has_checker = false;
}

/* --- the verdict --- */

static bool finds_all(struct log_member *m, const char *who)
{
    unsigned absent = 0;
    bool ok = ask(m, false, 0, breaks.next, KEY_ABSENT, &absent);
    if (absent > 0)
        (void)fprintf(stderr, "  LOST: %u of %" PRIu64 " acknowledged keys, for %s\n", absent, breaks.next,
                      who);
    return ok && absent == 0;
}

/* A process that begins while a server is another one: it may get no answer for a while. */
bool breaks_newcomer_is_right(void)
{
    static struct log_member m;
    static uint64_t keys[BATCH];
    static uint8_t answers[BATCH];
    struct error e = {""};
    struct log_member_options o = options(&breaks.b, "newcomer");
    uint64_t until = clock_mono_us() + NEWCOMER_US;
    unsigned absent = 0, count = breaks.next < BATCH ? (unsigned)breaks.next : BATCH;
    o.timeout_ms = NEWCOMER_MS;
    for (unsigned i = 0; i < count; i++)
        keys[i] = breaks.next - count + i;
    bool ok = breaks_said(log_member_open(&m, &o, &e), &e);
    while (ok && absent == 0 && clock_mono_us() < until) {
        if (log_member_ask(&m, false, keys, count, answers, &e) == ERR_OK)
            for (unsigned i = 0; i < count; i++)
                absent += answers[i] == KEY_ABSENT;
        clock_sleep_us(BREAKS_LOOK_US);
    }
    log_member_abandon(&m);
    if (absent > 0)
        (void)fprintf(stderr, "  LOST: %u of the last %u acknowledged keys, for a newcomer\n", absent, count);
    return ok && absent == 0;
}

/* Keys that were acknowledged are not new again. */
static bool none_is_new(struct log_member *m)
{
    unsigned again = 0;
    bool ok = ask(m, true, breaks.next - AGAIN, breaks.next, KEY_ADDED, &again);
    if (again > 0)
        (void)fprintf(stderr, "  NEW TWICE: %u keys\n", again);
    return ok && again == 0;
}

/* A new process, which only has the data in Redis. *@never: how many keys that were never added are absent.
 */
static bool judge(unsigned *never)
{
    static struct log_member m;
    struct error e = {""};
    struct log_member_options o = options(&breaks.b, "judge");
    o.folds =
        breaks.swaps; /* as each process of the service: it takes over shards of a view that went back */
    *never = 0;
    bool ok = breaks_said(log_member_open(&m, &o, &e), &e) && wait_until_resident(&m) &&
              finds_all(&m, "a new process") &&
              ask(&m, false, LEDGER_NEVER, LEDGER_NEVER + BREAKS_KEYS, KEY_ABSENT, never);
    log_member_abandon(&m);
    return ok;
}

static bool is_degraded(void)
{
    return !breaks_load_view() || breaks.view->degraded;
}

bool breaks_all_is_there(void)
{
    unsigned never = 0;
    bool ok = !breaks.swaps || (finds_all(&breaks.member, "who lived on") && none_is_new(&breaks.member));
    ok &= !breaks.swaps || !breaks.has_other || finds_all(&breaks.other, "the other one");
    bool heals = breaks.swaps && is_degraded();
    ok = (heals || judge(&never)) && ok;
    if (heals || (breaks.swaps && is_degraded())) { /* a build heals it */
        breaks.heals++;
        ok = ok && breaks_build(&breaks.b, 0, false) && breaks_wait_until_folded(BREAKS_END_US) &&
             judge(&never);
    }
    bool degraded = is_degraded();
    if (ok && never < BREAKS_KEYS - 20)
        (void)fprintf(stderr, "  %u of %u keys that were never added are not absent\n", BREAKS_KEYS - never,
                      BREAKS_KEYS);
    if (degraded)
        (void)fprintf(stderr, "  it is degraded\n");
    return ok && never >= BREAKS_KEYS - 20 && !degraded && breaks.lost == 0;
}

/* --- the filter --- */

/* 0: all of them. */
static void list_nodes(unsigned bits, char out[WHERE])
{
    size_t length = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < breaks.nodes; i++)
        if ((bits >> i & 1) != 0)
            length += (size_t)snprintf(out + length, WHERE - length, "%s127.0.0.1:%u", length == 0 ? "" : ",",
                                       breaks.node[i].port);
}

/* Name the filter on all masters, so that no other one is taken for it. */
static enum err enter(void *arg, bool was_left, bool *clean, struct error *e)
{
    struct handle f = {.redis = arg, .names = breaks.names};
    (void)was_left;
    (void)clean;
    enum err code = registry_succeed(&f, e);
    handle_fini(&f);
    return code;
}

static enum err leave(void *arg, uint64_t incarnation, struct error *e)
{
    struct handle f = {.redis = arg, .names = breaks.names};
    enum err code = registry_leave(&f, incarnation, e);
    handle_fini(&f);
    return code;
}

static enum err make(struct sync_client *l, struct error *e)
{
    const uint64_t capacity = breaks_is("grow") ? 2500 : breaks_is("build") || breaks.swaps ? 40000 : 300000;
    static struct log_view v;
    struct placement placement;
    struct make_options o = {.capacity = capacity,
                             .expansion = 2,
                             .error_rate = 0.0001,
                             .lanes = breaks.layout == TWO_LANES ? 2 : 1,
                             .placement = &placement,
                             .shard_bytes = SHARD_BYTES,
                             .enter = enter,
                             .leave = leave,
                             .arg = l};
    static const unsigned on[LAYOUTS] = {[HOME_APART] = 2, [LANE_APART] = 6, [ALL_APART] = 2};
    char where[WHERE];
    list_nodes(on[breaks.layout], where);
    enum err code = placement_choose(&placement, sync_client_nodes(l), where, e);
    return code == ERR_OK ? log_make(l, &breaks.names, &o, &v, NULL, e) : code;
}

bool breaks_make(const struct nodes *nodes)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(nodes, BREAKS_TIMEOUT_MS, NULL);
    breaks.names.incarnation = 0;
    enum err code = ERR_UNREACHABLE;
    uint64_t until = clock_mono_us() + BREAKS_END_US;
    while ((code != ERR_OK || !breaks_load_view()) && clock_mono_us() < until) {
        code = make(l, &e);
        code = code == ERR_EXISTS ? ERR_OK : code;
        clock_sleep_us(BREAKS_LOOK_US);
    }
    sync_client_free(l);
    breaks.names.incarnation = breaks.view->incarnation;
    return breaks_said(code, &e);
}

bool breaks_drop(const struct nodes *nodes)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(nodes, BREAKS_TIMEOUT_MS, NULL);
    enum err code = ERR_UNREACHABLE;
    uint64_t until = clock_mono_us() + BREAKS_END_US;
    while (code != ERR_OK && code != ERR_NOT_FOUND && clock_mono_us() < until) {
        struct handle f = {.redis = l, .names = breaks.names};
        code = registry_leave(&f, breaks.names.incarnation, &e);
        if (code == ERR_OK)
            code = log_drop(l, &breaks.names, breaks.names.incarnation, 0, NULL, &e);
        handle_fini(&f);
    }
    sync_client_free(l);
    return code == ERR_NOT_FOUND || breaks_said(code, &e);
}

bool breaks_open_other(const struct nodes *nodes)
{
    struct error e = {""};
    const struct log_member_options o = options(nodes, "b");
    breaks.has_other = breaks_said(log_member_open(&breaks.other, &o, &e), &e);
    return breaks.has_other && breaks_add(&breaks.other, 1) && wait_until_resident(&breaks.other);
}

bool breaks_open_all(void)
{
    struct error e = {""};
    const struct log_member_options o = options(&breaks.a, "a");
    breaks.next = 0;
    breaks.lost = 0;
    memset(breaks.ledger, 0, sizeof(*breaks.ledger));
    bool ok = breaks_make(&breaks.b) && breaks_said(log_member_open(&breaks.member, &o, &e), &e);
    breaks.opened = ok;
    ok = ok && breaks_add(&breaks.member, BREAKS_KEYS) && wait_until_resident(&breaks.member);
    if (ok && breaks.layout == ALL_APART)
        ok = breaks_build(&breaks.b, 4, false);
    if (ok && (breaks_is("take") || breaks_is("build") || breaks_is("leave")))
        ok = breaks_open_other(&breaks.b);
    if (ok) {
        struct control *c = (breaks_is("take") ? &breaks.other : &breaks.member)->control;
        log_set_folding(c, true);
        ok = breaks_wait_until_folded(BREAKS_END_US);
        log_set_folding(c, false);
    }
    return ok && (!breaks.swaps || begin_checks());
}

void breaks_close_all(void)
{
    end_checks();
    if (breaks.has_other)
        log_member_abandon(&breaks.other);
    if (breaks.opened)
        log_member_abandon(&breaks.member);
    breaks.opened = breaks.has_other = false;
}

bool breaks_build(const struct nodes *nodes, unsigned on, bool back)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(nodes, BREAKS_TIMEOUT_MS, NULL);
    char where[WHERE];
    list_nodes(on, where);
    const struct builder_options o = {
        .nodes = nodes, .names = &breaks.names, .ledger = breaks.ledger, .where = on == 0 ? NULL : where};
    enum err code = ERR_UNREACHABLE;
    uint64_t until = clock_mono_us() + BREAKS_END_US;
    while (code != ERR_OK && clock_mono_us() < until)
        code = builder_turn(&o, l, back, &e);
    sync_client_free(l);
    if (code != ERR_OK)
        tell_all();
    return breaks_said(code, &e);
}
