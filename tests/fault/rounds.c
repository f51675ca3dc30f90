/* SPDX-License-Identifier: MIT */
/* Rounds of faults under traffic. A round begins some faults, each at a time of its own, and ends them. Then
 * the filter must come to rest, and every coordinator must know every acknowledged key. Then rebuilds replace
 * lost shards until keys that were never added are absent again, as the next round would prove nothing
 * otherwise. */
#include "tests/fault/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fault/creator.h"
#include "tests/fault/inject.h"
#include "tests/fault/journal.h"
#include "tests/fault/traffic.h"

enum {
    ROWS = 3000,      /* in the table at the beginning */
    ROWS_MAX = 12000, /* that the table keeps */
    FAULTS_MAX = 3,
    TICK_US = 4000,
    REST_MS = 60000,
    HEAL_MS = 120000,
    ANSWER_MS = 30000,
    COUNT_MS = 20000,
    IN_FLIGHT = 16, /* adds that began before the first count, and end behind it */
    PROGRESS_US = 20 * 1000 * 1000
};

struct rounds {
    const struct fault_options *o;
    struct world world;
    struct ledger *ledger;
    struct traffic *traffic;
    uint64_t began_us, said_us;
    uint64_t rechecked;
    unsigned done, stuck, healed;
    double worst_rest, worst_heal;
};

/* verify_sample is small: verify must not hide faults of the steps before it. */
static const struct world_options world_options = {
    .coordinators = 3,
    .service = "check_interval = 50ms\nthreads = 2\ntimeout = 1s\n",
    .redis = "timeout = 300ms\nshard_bytes = 4096\n",
    .postgres = "timeout = 1s\n",
    .expansion = "lease = 500ms\npage_rows = 300\nverify_sample = 1\ncheckpoint_interval = 20ms\n"
                 "transaction_timeout = 20s\n",
    .filter = "[filter " WORLD_FILTER "]\ncapacity = 20000\nerror_rate = 0.001\ntable = " WORLD_TABLE
              "\nid_column = id\nkey = code\ngrace = 300ms\nfollow = no\n",
    .fake_clock = true,
};

/* --- faults --- */

static const char *describe(const struct injection *faults, size_t count, char out[256])
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && n < 256; i++)
        n += (size_t)snprintf(out + n, 256 - n, "%s%s", i == 0 ? "" : " + ", faults[i].kind->name);
    return out;
}

/* A coordinator that ends without a request has crashed. */
static bool all_run(struct rounds *r)
{
    for (unsigned i = 0; i < r->world.coordinators; i++)
        if (r->world.runs[i] && !process_running(&r->world.daemon[i].process)) {
            (void)fprintf(stderr, "FAILED: coordinator %u ended by itself with status %d\n", i,
                          process_exit_status(&r->world.daemon[i].process));
            process_show_log(&r->world.daemon[i].process, "its log");
            r->world.runs[i] = false;
            return false;
        }
    return true;
}

static bool over(const struct injection *faults, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!faults[i].ended)
            return false;
    return true;
}

static bool inject(struct rounds *r, struct injection *faults, size_t count)
{
    uint64_t began = clock_mono_us();
    bool run = true;
    while (!over(faults, count)) {
        uint64_t now = clock_mono_us() - began;
        for (size_t i = 0; i < count; i++) {
            bool hurry = fault_interrupted() || !run;
            if (!faults[i].begun && now >= faults[i].begin_us && !hurry)
                inject_begin(&faults[i]);
            else if (faults[i].begun && !faults[i].ended && (now >= faults[i].end_us || hurry))
                inject_end(&faults[i]);
            else if (!faults[i].begun && hurry)
                faults[i].ended = true;
        }
        run = run && all_run(r);
        clock_sleep_us(TICK_US);
    }
    return run;
}

/* --- what must hold --- */

static enum err check_all(struct rounds *r, unsigned i, struct error *e)
{
    uint64_t until = clock_mono_us() + ANSWER_MS * 1000ull, before = ledger_checked(r->ledger);
    bool answered = false;
    while (!answered) {
        struct client c;
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "coordinator %u does not answer checks", i);
        if (client_open(&c, r->world.daemon[i].port, WORLD_REPLY_MS, e) == ERR_OK) {
            answered = ledger_check_all(r->ledger, &c, i);
            client_close(&c);
        }
        if (!answered)
            clock_sleep_us(TICK_US);
    }
    r->rechecked += ledger_checked(r->ledger) - before;
    return ERR_OK;
}

static enum err check_everywhere(struct rounds *r, struct error *e)
{
    enum err err = ERR_OK;
    for (unsigned i = 0; err == ERR_OK && i < r->world.coordinators; i++)
        err = check_all(r, i, e);
    if (err == ERR_OK && ledger_absent(r->ledger) > 0)
        err = error_set(e, ERR_LOST, "%" PRIu64 " acknowledged keys were reported absent",
                        ledger_absent(r->ledger));
    return err;
}

/* False: no answer. */
static bool card(struct world *w, unsigned i, uint64_t *keys)
{
    struct client c;
    struct error e;
    if (client_open(&c, w->daemon[i].port, WORLD_REPLY_MS, &e) != ERR_OK)
        return false;
    redisReply *r = client_command(&c, "BF.CARD " WORLD_FILTER);
    bool answered = r != NULL && r->type == REDIS_REPLY_INTEGER;
    *keys = answered ? (uint64_t)r->integer : 0;
    freeReplyObject(r);
    client_close(&c);
    return answered;
}

/* All coordinators count the same number of keys, but for those that are added while they are asked. */
static enum err counts_agree(struct rounds *r, struct error *e)
{
    uint64_t until = clock_mono_us() + COUNT_MS * 1000ull, spread = UINT64_MAX, added = 0;
    while (spread > added + IN_FLIGHT && clock_mono_us() < until) {
        uint64_t keys, least = UINT64_MAX, most = 0, end = ledger_end(r->ledger);
        bool answered = true;
        for (unsigned i = 0; answered && i < r->world.coordinators; i++) {
            answered = card(&r->world, i, &keys);
            least = keys < least ? keys : least;
            most = keys > most ? keys : most;
        }
        added = ledger_end(r->ledger) - end;
        spread = answered ? most - least : UINT64_MAX;
        if (spread > added + IN_FLIGHT)
            clock_sleep_us(TICK_US);
    }
    if (spread > added + IN_FLIGHT)
        return error_set(e, ERR_TIMEOUT, "counts of coordinators differ by %" PRIi64 " keys after %d ms",
                         (int64_t)spread, COUNT_MS);
    return ERR_OK;
}

static double seconds_since(uint64_t then)
{
    return (double)(clock_mono_us() - then) / 1e6;
}

static void greater(double *worst, double seconds)
{
    *worst = seconds > *worst ? seconds : *worst;
}

static enum err recover(struct rounds *r, double *rest, double *heal, struct error *e)
{
    uint64_t began = clock_mono_us();
    unsigned rebuilds = 0;
    enum err err = world_wait_rest(&r->world, REST_MS, e);
    *rest = seconds_since(began);
    if (err == ERR_OK)
        err = check_everywhere(r, e);
    if (err == ERR_OK)
        err = world_heal(&r->world, HEAL_MS, &rebuilds, e);
    *heal = seconds_since(began);
    if (err == ERR_OK)
        err = check_everywhere(r, e);
    if (err == ERR_OK)
        err = counts_agree(r, e);
    r->healed += rebuilds > 0;
    greater(&r->worst_rest, *rest);
    greater(&r->worst_heal, *heal);
    return err;
}

/* --- rounds --- */

static void forget_old_rows(struct rounds *r)
{
    uint64_t end = ledger_end(r->ledger);
    if (end - ledger_first(r->ledger) <= ROWS_MAX)
        return;
    ledger_forget_below(r->ledger, end - ROWS_MAX);
    (void)world_sql(&r->world,
                    "DELETE FROM " WORLD_TABLE " WHERE CASE WHEN code LIKE 'k%%' "
                    "THEN substr(code, 2)::bigint < %" PRIu64 " ELSE true END",
                    end - ROWS_MAX);
    (void)world_sql(&r->world, "ANALYZE " WORLD_TABLE);
}

static void progress(struct rounds *r, const char *what, double rest, double heal)
{
    if (r->o->minutes > 0 && clock_mono_us() - r->said_us < PROGRESS_US)
        return;
    r->said_us = clock_mono_us();
    (void)printf("%6.0f s  round %u: %s; at rest after %.1f s, healed after %.1f s; %" PRIu64
                 " keys acknowledged, %" PRIu64 " checks, %" PRIu64 " absent\n",
                 seconds_since(r->began_us), r->done, what, rest, heal, ledger_acknowledged(r->ledger),
                 ledger_checked(r->ledger), ledger_absent(r->ledger));
    (void)fflush(stdout);
}

static enum err run_round(struct rounds *r, struct injection *faults, size_t count, struct error *e)
{
    char what[256];
    double rest = 0, heal = 0;
    r->done++;
    journal_note("--- round %u: %s", r->done, describe(faults, count, what));
    traffic_rebuild(r->traffic, true);
    bool run = inject(r, faults, count);
    traffic_rebuild(r->traffic, false);
    if (!run)
        return error_set(e, ERR_IO, "a coordinator crashed in round %u (%s)", r->done, what);
    if (r->world.failed[0] != '\0')
        return error_set(e, ERR_CONFLICT, "round %u: %s", r->done, r->world.failed);
    journal_note("--- all faults of round %u are lifted", r->done);
    enum err err = recover(r, &rest, &heal, e);
    if (err == ERR_TIMEOUT)
        r->stuck++;
    progress(r, what, rest, heal);
    forget_old_rows(r);
    return err == ERR_OK ? err : error_prefix(e, err, "round %u (%s)", r->done, what);
}

static bool fits(const struct injection *faults, size_t count, const struct injection *next)
{
    for (size_t i = 0; i < count; i++)
        if (inject_same_target(&faults[i], next))
            return false;
    return true;
}

/* Choose the faults of a round. They depend only on the seed and on the number of the round. */
static size_t choose(struct rounds *r, struct injection faults[FAULTS_MAX], struct inject_kind *first,
                     uint64_t round)
{
    uint64_t state = r->o->seed * UINT64_C(1000003) + round;
    size_t wanted = first != NULL ? 1 : fault_between(&state, 1, FAULTS_MAX), count = 0;
    for (int tries = 0; count < wanted && tries < 50; tries++) {
        struct inject_kind *kind =
            first != NULL ? first : &inject_kinds[fault_random(&state) % inject_kind_count];
        if (!inject_possible(kind, &r->world))
            continue;
        inject_plan(&faults[count], &r->world, kind, fault_random(&state));
        if (fits(faults, count, &faults[count]))
            count++;
    }
    return count;
}

static enum err each_kind(struct rounds *r, struct error *e)
{
    enum err err = ERR_OK;
    for (size_t i = 0; err == ERR_OK && i < inject_kind_count && !fault_interrupted(); i++) {
        struct injection faults[FAULTS_MAX];
        if (!inject_possible(&inject_kinds[i], &r->world))
            continue;
        size_t count = choose(r, faults, &inject_kinds[i], UINT64_C(1) << 32 | i);
        err = run_round(r, faults, count, e);
    }
    return err;
}

static enum err random_rounds(struct rounds *r, struct error *e)
{
    struct inject_kind *only = r->o->only == NULL ? NULL : inject_find(r->o->only);
    enum err err = ERR_OK;
    uint64_t began = clock_mono_us();
    for (uint64_t i = 0; err == ERR_OK && !fault_interrupted(); i++) {
        struct injection faults[FAULTS_MAX];
        if (i >= r->o->rounds && seconds_since(began) >= r->o->minutes * 60)
            break;
        size_t count = choose(r, faults, only, i);
        err = run_round(r, faults, count, e);
    }
    return err;
}

/* --- the whole --- */

static enum err start(struct rounds *r, struct error *e)
{
    struct world_options options = world_options;
    options.keep = r->o->keep;
    options.cluster = r->o->cluster;
    options.state_file = !r->o->cluster;
    enum err err = world_start(&r->world, &options, e);
    struct creator c;
    if (err != ERR_OK)
        return err;
    err = world_heal(&r->world, HEAL_MS, NULL, e);
    creator_init(&c, &r->world, 0);
    for (int i = 0; err == ERR_OK && i < ROWS; i++)
        (void)creator_create(&c, r->ledger, LEDGER_COMMIT_THEN_ADD, 0);
    creator_fini(&c);
    (void)world_sql(&r->world, "ANALYZE " WORLD_TABLE);
    if (err == ERR_OK && ledger_acknowledged(r->ledger) < ROWS)
        err = error_set(e, ERR_CONFLICT, "of %d keys only %" PRIu64 " were acknowledged without any fault",
                        ROWS, ledger_acknowledged(r->ledger));
    r->traffic = traffic_start(&r->world, r->ledger, r->o->seed);
    return err;
}

static void print_table(struct rounds *r)
{
    struct traffic_counts t = traffic_counts(r->traffic);
    (void)printf("\n%-22s %8s\n", "fault", "times");
    for (size_t i = 0; i < inject_kind_count; i++)
        if (inject_possible(&inject_kinds[i], &r->world))
            (void)printf("%-22s %8u  %s\n", inject_kinds[i].name, inject_kinds[i].injected,
                         inject_kinds[i].help);
    (void)printf("\n%-44s %.0f s\n", "duration", seconds_since(r->began_us));
    (void)printf("%-44s %u\n", "rounds", r->done);
    (void)printf("%-44s %" PRIu64 "\n", "rebuilds begun by an operator", t.rebuilds);
    (void)printf("%-44s %" PRIu64 "\n", "other requests of an operator", t.requests);
    (void)printf("%-44s %" PRIu64 "\n", "cutovers",
                 world_logged(&r->world, "event=view_changed", "phase=SWITCHED"));
    (void)printf("%-44s %" PRIu64 "\n", "expansions completed",
                 world_logged(&r->world, "event=job_done", ""));
    (void)printf("%-44s %" PRIu64 "\n", "jobs taken over",
                 world_logged(&r->world, "event=job_queued", "unfinished"));
    (void)printf("%-44s %" PRIu64 " (%" PRIu64 " more were not)\n", "keys acknowledged",
                 ledger_acknowledged(r->ledger), t.creations_failed);
    (void)printf("%-44s %" PRIu64 " keys (%" PRIu64 " of %" PRIu64 " commands were not answered)\n", "checks",
                 ledger_checked(r->ledger), t.checks_failed, t.checks);
    (void)printf("%-44s %" PRIu64 " keys\n", "of them re-checks of all, after a round", r->rechecked);
    (void)printf("%-44s %.1f ms\n", "longest wait for an answered check", (double)t.worst_us / 1e3);
    (void)printf("%-44s %.1f s, %.1f s\n", "longest way to rest, and to be healed", r->worst_rest,
                 r->worst_heal);
    (void)printf("%-44s %u\n", "rounds after which shards had to be rebuilt", r->healed);
    (void)printf("%-44s %" PRIu64 "\n", "absent", ledger_absent(r->ledger));
    (void)printf("%-44s %u\n", "stuck", r->stuck);
}

static int list_kinds(void)
{
    static const char *const where[] = {"anywhere", "nodes", "cluster"};
    for (size_t i = 0; i < inject_kind_count; i++)
        (void)printf("%-22s %-8s  %s\n", inject_kinds[i].name, where[inject_kinds[i].where],
                     inject_kinds[i].help);
    return 0;
}

static void show_failure(struct rounds *r, const struct error *e)
{
    char text[WORLD_STATUS_MAX];
    (void)fprintf(stderr, "FAILED: %s\n  (repeat the choice of faults with --seed %" PRIu64 ")\n", e->text,
                  r->o->seed);
    (void)world_is_at_rest(&r->world, text);
    (void)fprintf(stderr, "  the filter: %s\n", text);
    journal_print(stderr, journal_now());
    for (unsigned i = 0; i < r->world.coordinators; i++)
        process_show_log(&r->world.daemon[i].process, "coordinator");
}

int rounds_run(const struct fault_options *o)
{
    if (o->list)
        return list_kinds();
    if (o->only != NULL && inject_find(o->only) == NULL) {
        (void)fprintf(stderr, "fault: there is no fault %s; --list says which there are\n", o->only);
        return 2;
    }
    const struct world asked = {.clustered = o->cluster};
    if (o->only != NULL && !inject_possible(inject_find(o->only), &asked)) {
        (void)fprintf(stderr, "fault: %s cannot happen %s\n", o->only,
                      o->cluster ? "on a cluster" : "without --cluster");
        return 2;
    }
    struct rounds *r = calloc(1, sizeof(*r));
    struct error e = {""};
    if (r == NULL)
        abort();
    r->o = o;
    r->ledger = ledger_new(UINT64_C(1) << 24);
    r->began_us = r->said_us = clock_mono_us();
    (void)printf("seed %" PRIu64 "\n", o->seed);
    (void)fflush(stdout);
    enum err err = start(r, &e);
    if (err == ERR_OK && o->each)
        err = each_kind(r, &e);
    if (err == ERR_OK)
        err = random_rounds(r, &e);
    if (err != ERR_OK)
        show_failure(r, &e);
    if (r->traffic != NULL)
        print_table(r);
    traffic_stop(r->traffic);
    bool clean = world_stop(&r->world) && r->world.unclean == 0;
    bool lost = ledger_absent(r->ledger) > 0;
    ledger_free(r->ledger);
    free(r);
    return err == ERR_OK && clean && !lost ? 0 : 1;
}
