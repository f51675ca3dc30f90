/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "shard/view/view_load.h"
#include "tests/fault/log/explain.h"
#include "tests/lib/log_member.h"

enum {
    REPLY_MS = 5000,
    CALM_MS = 300,
    BATCH = 500,
    END_SECONDS = 30,
    EXPLAINED = 3,
    FALSE_POSITIVES = LEDGER_NEVER / 1000 /* ten times as many as planned */
};

uint64_t log_world_draw(struct log_world *w, uint64_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % below;
}

const struct log_view *log_world_view(struct log_world *w)
{
    struct error e = {""};
    if (log_view_load(w->link, &w->names, w->view, &e) == ERR_OK)
        return w->view;
    (void)fprintf(stderr, "%s\n", e.text);
    return NULL;
}

/* --- processes --- */

bool log_world_start_worker(struct log_world *w, unsigned i)
{
    static const uint64_t memory[] = {UINT64_MAX, 60000, 0};
    const struct worker_options o = {.nodes = &w->servers.nodes,
                                     .names = &w->names,
                                     .ledger = w->ledger,
                                     .number = i,
                                     .seed = w->seed * 1000 + w->started++,
                                     .memory = w->kind->memory ? UINT64_MAX : memory[i],
                                     .grace_us = w->kind->grace_ms * UINT64_C(1000),
                                     .first = w->kind->capacity,
                                     .lasts_us = w->seconds * UINT64_C(1000000)};
    pid_t pid = fork();
    if (pid == 0)
        _exit(worker_run(&o));
    w->worker[i] = pid;
    ledger_note(w->ledger, "worker %u begins", i);
    return pid > 0;
}

bool log_world_start_builder(struct log_world *w, unsigned i)
{
    const struct builder_options o = {.nodes = &w->servers.nodes,
                                      .names = &w->names,
                                      .ledger = w->ledger,
                                      .number = i,
                                      .seed = w->seed * 1000 + w->started++,
                                      .layers = w->kind->capacity != 0};
    pid_t pid = fork();
    if (pid == 0)
        _exit(builder_process_run(&o));
    w->builder[i] = pid;
    ledger_note(w->ledger, "builder %u begins", i);
    return pid > 0;
}

static void kill_process(pid_t *pid)
{
    int status;
    (void)kill(*pid, SIGKILL);
    (void)waitpid(*pid, &status, 0);
    *pid = 0;
}

void log_world_kill_worker(struct log_world *w, unsigned i)
{
    ledger_note(w->ledger, "worker %u is killed", i);
    kill_process(&w->worker[i]);
    if (w->ledger->turn[i] % 2 == 1) /* nobody saw the result of the worker's last add */
        w->ledger->turn[i]++;
}

void log_world_kill_builder(struct log_world *w, unsigned i)
{
    ledger_note(w->ledger, "builder %u is killed", i);
    kill_process(&w->builder[i]);
}

/* False: the process does not end by itself, or with an error. */
static bool end_process(pid_t *pid, const char *what, uint64_t until)
{
    int status = -1;
    while (clock_mono_us() < until && waitpid(*pid, &status, WNOHANG) == 0)
        clock_sleep_us(10000);
    if (status != 0)
        (void)fprintf(stderr, "a %s ended with status %d\n", what, status);
    if (status == -1)
        kill_process(pid);
    *pid = 0;
    return status == 0;
}

/* --- a world --- */

static bool begin(struct log_world *w, const struct log_injection *k, uint64_t seed, unsigned seconds,
                  struct error *e)
{
    *w = (struct log_world){.kind = k, .seed = seed, .random = seed + 1, .seconds = seconds};
    w->ledger = ledger_new();
    w->view = malloc(sizeof(*w->view));
    if (w->ledger == NULL || w->view == NULL || fault_servers_start(&w->servers, k->layout, e) != ERR_OK ||
        names_init(&w->names, "tb", "f", 1, e) != ERR_OK)
        return false;
    w->link = sync_client_new(&w->servers.nodes, REPLY_MS, NULL);
    unsigned lanes = 1 + seed % 2; /* with one, as the service has it, keys that are there are not appended */
    if (log_member_make(w->link, &w->names, k->capacity != 0 ? k->capacity : 2 * LEDGER_NEVER, lanes, 32768,
                        e) != ERR_OK)
        return false;
    for (unsigned i = 0; i < WORKERS; i++)
        if (!log_world_start_worker(w, i))
            return false;
    for (unsigned i = 0; k->builds && i < BUILDERS; i++)
        if (!log_world_start_builder(w, i))
            return false;
    return true;
}

static void end(struct log_world *w)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (w->worker[i] > 0)
            kill_process(&w->worker[i]);
    for (unsigned i = 0; i < BUILDERS; i++)
        if (w->builder[i] > 0)
            kill_process(&w->builder[i]);
    sync_client_free(w->link);
    fault_servers_fini(&w->servers);
    free(w->view);
    if (w->ledger != NULL)
        ledger_free(w->ledger);
}

/* --- before and behind the faults --- */

/* Wait until each worker gets an answer. */
static bool all_go_on(struct log_world *w, uint64_t until)
{
    bool ok = true;
    for (unsigned i = 0; i < WORKERS && ok; i++) {
        uint64_t done = w->ledger->done[i];
        while (w->ledger->done[i] == done && clock_mono_us() < until)
            clock_sleep_us(10000);
        ok = w->ledger->done[i] > done;
        if (!ok)
            (void)fprintf(stderr, "worker %u is not answered any more\n", i);
    }
    return ok;
}

/* Wait until worker 0 has all shards in memory and each worker gets an answer: then faults may begin. */
static bool all_are_there(struct log_world *w, uint64_t until)
{
    while (!w->ledger->resident[0] && clock_mono_us() < until)
        clock_sleep_us(1000);
    if (!w->ledger->resident[0])
        (void)fprintf(stderr, "worker 0 has not all shards in memory\n");
    return w->ledger->resident[0] && all_go_on(w, until);
}

/* Wait until a builder cuts over. */
static bool builders_go_on(struct log_world *w, uint64_t until)
{
    uint64_t cutovers = w->ledger->cutovers;
    while (w->ledger->cutovers == cutovers && clock_mono_us() < until)
        clock_sleep_us(10000);
    if (w->ledger->cutovers == cutovers)
        (void)fprintf(stderr, "no generation is built any more\n");
    return w->ledger->cutovers > cutovers;
}

/* The filter is degraded, and the next build heals it. */
static bool is_to_heal(const struct log_world *w, uint8_t answer)
{
    return w->kind->builds && answer == KEY_MAYBE;
}

/* The processes repair the filter before they end, as a writer that ends in the middle of a repair stays
 * registered. */
static bool comes_to_rest(struct log_world *w)
{
    static struct log_member m;
    struct error e = {""};
    const uint64_t key = LEDGER_NEVER;
    uint8_t answer = KEY_ABSENT;
    uint64_t until = clock_mono_us() + END_SECONDS * 1000000ull;
    const struct log_member_options o = {
        .nodes = &w->servers.nodes, .names = &w->names, .memory = 0, .timeout_ms = REPLY_MS};
    enum err code = log_member_open(&m, &o, &e);
    if (code == ERR_OK)
        do
            code = log_member_ask(&m, false, &key, 1, &answer, &e);
        while ((code != ERR_OK || is_to_heal(w, answer)) && clock_mono_us() < until);
    log_member_close(&m);
    if (code != ERR_OK || is_to_heal(w, answer))
        (void)fprintf(stderr, "the filter does not come to rest: %s\n",
                      code == ERR_OK ? "it stays degraded" : e.text);
    return code == ERR_OK && !is_to_heal(w, answer) &&
           all_go_on(w, clock_mono_us() + END_SECONDS * 1000000ull) &&
           (!w->kind->builds || builders_go_on(w, clock_mono_us() + END_SECONDS * 1000000ull));
}

/* A new process finds all acknowledged keys, and few others. */
static bool judge_keys(struct log_world *w)
{
    static struct log_member m;
    struct error e = {""};
    uint64_t keys[BATCH];
    uint8_t answers[BATCH];
    unsigned wrong = 0, strangers = 0, maybe = 0;
    const struct log_member_options o = {
        .nodes = &w->servers.nodes, .names = &w->names, .memory = UINT64_MAX, .timeout_ms = REPLY_MS};
    enum err code = log_member_open(&m, &o, &e);
    for (uint64_t at = 0; at < LEDGER_KEYS && code == ERR_OK; at += BATCH) {
        for (unsigned i = 0; i < BATCH; i++)
            keys[i] = at + i;
        code = log_member_ask(&m, false, keys, BATCH, answers, &e);
        for (unsigned i = 0; i < BATCH && code == ERR_OK; i++) {
            bool lost = w->ledger->acknowledged[at + i] && answers[i] == KEY_ABSENT;
            if (lost && wrong < EXPLAINED)
                explain_key(w, at + i);
            wrong += lost;
            strangers += at + i >= LEDGER_NEVER && answers[i] == KEY_PRESENT;
            maybe += answers[i] == KEY_MAYBE;
        }
    }
    log_member_close(&m);
    if (code != ERR_OK && !w->kind->refuses)
        (void)fprintf(stderr, "the filter does not answer: %s\n", e.text);
    if (maybe > 0) /* no promise is broken by that */
        (void)fprintf(stderr, "the filter is degraded at the end\n");
    if (wrong > 0)
        (void)fprintf(stderr, "%u acknowledged keys are absent at the end\n", wrong);
    if (strangers > (LEDGER_KEYS - LEDGER_NEVER) / 100)
        (void)fprintf(stderr, "%u keys that were never added are present\n", strangers);
    return (code == ERR_OK || w->kind->refuses) && wrong == 0 &&
           (w->kind->crowded || strangers <= (LEDGER_KEYS - LEDGER_NEVER) / 100);
}

/* The number of layers of the current generation; 0: the view cannot be read. */
static unsigned layers(struct log_world *w)
{
    const struct log_view *v = log_world_view(w);
    return v == NULL ? 0 : v->slot[v->current].shape.layer_count;
}

static bool judge(struct log_world *w, const struct log_injection *k)
{
    struct ledger *l = w->ledger;
    unsigned never, losses = l->losses, news = ledger_wrong_news(l, &never);
    if (never > (k->capacity != 0 ? FALSE_POSITIVES : 0) &&
        !k->crowded) /* a full layer has some false positives */
        news += never;
    bool ok = judge_keys(w);
    for (unsigned i = 0; i < losses && i < EXPLAINED; i++) {
        (void)fprintf(stderr, "key %" PRIu64 " was acknowledged, and absent for worker %u at %" PRIu64 "\n",
                      l->loss[i].key, l->loss[i].process, l->loss[i].at_ms);
        explain_key(w, l->loss[i].key);
    }
    if (l->adds == 0 || l->checks == 0)
        (void)fprintf(stderr, "nothing was done\n");
    if (k->sure && l->maybe > 0)
        (void)fprintf(stderr, "keys were \"maybe\"\n");
    unsigned layer_count = k->capacity != 0 ? layers(w) : 0;
    if (layer_count == 1)
        (void)fprintf(stderr, "no layer was added\n");
    ok &= losses == 0 && news == 0 && l->adds > 0 && l->checks > 0 && !(k->sure && l->maybe > 0) &&
          layer_count != 1;
    (void)printf("%-14s %s: %" PRIu64 " keys added, %" PRIu64 " checked, %" PRIu64 " maybe, %" PRIu64
                 " requests refused, %u processes, %u lost, %u new wrongly\n",
                 k->name, ok ? "kept" : "BROKEN", l->adds, l->checks, l->maybe, l->refused, w->started,
                 losses, news);
    if (k->capacity != 0)
        (void)printf("%-14s %u layers, %u keys never new\n", "", layer_count, never);
    if (k->builds)
        (void)printf("%-14s %" PRIu64 " cutovers, %" PRIu64 " rollbacks, %" PRIu64 " retired, %" PRIu64
                     " turns that failed\n",
                     "", l->cutovers, l->rollbacks, l->retired, l->broken_turns);
    (void)fflush(stdout);
    return ok;
}

bool log_round(const struct log_injection *k, uint64_t seed, unsigned seconds, bool keep)
{
    static struct log_world w;
    struct error e = {""};
    (void)fflush(stdout);
    bool ok =
        begin(&w, k, seed, seconds, &e) && all_are_there(&w, clock_mono_us() + END_SECONDS * 1000000ull);
    uint64_t until = clock_mono_us() + seconds * 1000000ull;
    if (ok)
        atomic_store(&w.ledger->begins_us, clock_mono_us());
    while (ok && clock_mono_us() < until) {
        clock_sleep_us(CALM_MS * 1000);
        ledger_note(w.ledger, "%s", k->name);
        ok = k->inject(&w);
    }
    if (ok) {
        clock_sleep_us(CALM_MS * 1000);
        ok = k->refuses || comes_to_rest(&w);
        atomic_store(&w.ledger->stop, true);
        until = clock_mono_us() + END_SECONDS * 1000000ull;
        for (unsigned i = 0; i < WORKERS; i++)
            ok &= end_process(&w.worker[i], "worker", until);
        for (unsigned i = 0; k->builds && i < BUILDERS; i++)
            ok &= end_process(&w.builder[i], "builder", until);
        ok &= judge(&w, k);
    } else {
        (void)fprintf(stderr, "%s: the round could not be held: %s\n", k->name, e.text);
        (void)printf("%-14s BROKEN\n", k->name);
    }
    if (!ok && keep)
        explain_keep(&w);
    end(&w);
    return ok;
}
