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
#include "tests/lib/log_member.h"

enum { REPLY_MS = 5000, ROUND_SECONDS = 6, CALM_MS = 300, BATCH = 500, END_SECONDS = 30 };

uint64_t log_world_draw(struct log_world *w, uint64_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % below;
}

/* --- workers --- */

bool log_world_start_worker(struct log_world *w, unsigned i)
{
    static const uint64_t memory[] = {UINT64_MAX, 60000, 0};
    const struct worker_options o = {.nodes = &w->nodes,
                                     .names = &w->names,
                                     .ledger = w->ledger,
                                     .number = i,
                                     .seed = w->seed * 1000 + w->started++,
                                     .memory = w->kind->memory ? UINT64_MAX : memory[i]};
    pid_t pid = fork();
    if (pid == 0)
        _exit(worker_run(&o));
    w->worker[i] = pid;
    return pid > 0;
}

void log_world_kill_worker(struct log_world *w, unsigned i)
{
    int status;
    (void)kill(w->worker[i], SIGKILL);
    (void)waitpid(w->worker[i], &status, 0);
    w->worker[i] = 0;
}

/* False: it does not end by itself, or not well. */
static bool end_worker(struct log_world *w, unsigned i, uint64_t until)
{
    int status = -1;
    while (clock_mono_us() < until && waitpid(w->worker[i], &status, WNOHANG) == 0)
        clock_sleep_us(10000);
    if (status == 0) {
        w->worker[i] = 0;
        return true;
    }
    (void)fprintf(stderr, "worker %u ended with status %d\n", i, status);
    if (status == -1)
        log_world_kill_worker(w, i);
    w->worker[i] = 0;
    return false;
}

/* --- a world --- */

static bool begin(struct log_world *w, const struct log_injection *k, uint64_t seed, struct error *e)
{
    static const char *const extra[] = {
        "--enable-debug-command", "local", "--appendonly", "yes", "--appendfsync", "always", NULL};
    *w = (struct log_world){.kind = k, .seed = seed, .random = seed + 1};
    w->ledger = ledger_new();
    if (w->ledger == NULL || temp_redis_start(&w->redis, extra, e) != ERR_OK ||
        client_open(&w->client, w->redis.port, REPLY_MS, e) != ERR_OK ||
        nodes_parse(&w->nodes, w->redis.url, e) != ERR_OK || names_init(&w->names, "tb", "f", 1, e) != ERR_OK)
        return false;
    w->link = link_new(&w->nodes, REPLY_MS, NULL);
    if (log_member_make(w->link, &w->names, 2 * LEDGER_NEVER, 2, 32768, e) != ERR_OK)
        return false;
    for (unsigned i = 0; i < WORKERS; i++)
        if (!log_world_start_worker(w, i))
            return false;
    return true;
}

static void end(struct log_world *w)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (w->worker[i] > 0)
            log_world_kill_worker(w, i);
    link_free(w->link);
    client_close(&w->client);
    temp_redis_fini(&w->redis);
    if (w->ledger != NULL)
        ledger_free(w->ledger);
}

/* The processes mend what is to be mended before they end: who ends in the middle of it stays registered. */
static bool comes_to_rest(struct log_world *w)
{
    static struct log_member m;
    struct error e = {""};
    const uint64_t key = LEDGER_NEVER;
    uint8_t answer;
    uint64_t until = clock_mono_us() + END_SECONDS * 1000000ull;
    const struct log_member_options o = {
        .nodes = &w->nodes, .names = &w->names, .memory = 0, .timeout_ms = REPLY_MS};
    enum err code = log_member_open(&m, &o, &e);
    if (code == ERR_OK)
        do
            code = log_member_ask(&m, false, &key, 1, &answer, &e);
        while (code != ERR_OK && clock_mono_us() < until);
    log_member_close(&m);
    if (code != ERR_OK)
        (void)fprintf(stderr, "the filter does not come to rest: %s\n", e.text);
    return code == ERR_OK;
}

/* Somebody who was not there finds all that was acknowledged, and little else. */
static bool judge_keys(struct log_world *w)
{
    static struct log_member m;
    struct error e = {""};
    uint64_t keys[BATCH];
    uint8_t answers[BATCH];
    unsigned wrong = 0, strangers = 0, maybe = 0;
    const struct log_member_options o = {
        .nodes = &w->nodes, .names = &w->names, .memory = UINT64_MAX, .timeout_ms = REPLY_MS};
    enum err code = log_member_open(&m, &o, &e);
    for (uint64_t at = 0; at < LEDGER_KEYS && code == ERR_OK; at += BATCH) {
        for (unsigned i = 0; i < BATCH; i++)
            keys[i] = at + i;
        code = log_member_ask(&m, false, keys, BATCH, answers, &e);
        for (unsigned i = 0; i < BATCH && code == ERR_OK; i++) {
            wrong += w->ledger->acknowledged[at + i] && answers[i] == KEY_ABSENT;
            strangers += at + i >= LEDGER_NEVER && answers[i] == KEY_PRESENT;
            maybe += answers[i] == KEY_MAYBE;
        }
    }
    log_member_close(&m);
    if (code != ERR_OK)
        (void)fprintf(stderr, "the filter does not answer: %s\n", e.text);
    if (maybe > 0) /* no promise is broken by that */
        (void)fprintf(stderr, "the filter is degraded at the end\n");
    if (wrong > 0)
        (void)fprintf(stderr, "%u acknowledged keys are absent at the end\n", wrong);
    if (strangers > (LEDGER_KEYS - LEDGER_NEVER) / 100)
        (void)fprintf(stderr, "%u keys that were never added are present\n", strangers);
    return code == ERR_OK && wrong == 0 && strangers <= (LEDGER_KEYS - LEDGER_NEVER) / 100;
}

static bool judge(struct log_world *w, const struct log_injection *k)
{
    struct ledger *l = w->ledger;
    unsigned losses = l->losses, news = ledger_wrong_news(l);
    bool ok = judge_keys(w);
    for (unsigned i = 0; i < losses && i < 5; i++)
        (void)fprintf(stderr, "key %" PRIu64 " was acknowledged, and absent for worker %u\n", l->loss[i].key,
                      l->loss[i].process);
    if (l->adds == 0 || l->checks == 0)
        (void)fprintf(stderr, "nothing was done\n");
    ok &= losses == 0 && news == 0 && l->adds > 0 && l->checks > 0;
    (void)printf("%-14s %s: %" PRIu64 " keys added, %" PRIu64 " checked, %" PRIu64 " maybe, %" PRIu64
                 " requests refused, %u processes, %u lost, %u new wrongly\n",
                 k->name, ok ? "kept" : "BROKEN", l->adds, l->checks, l->maybe, l->refused, w->started,
                 losses, news);
    (void)fflush(stdout);
    return ok;
}

bool log_round(const struct log_injection *k, uint64_t seed)
{
    static struct log_world w;
    struct error e = {""};
    (void)fflush(stdout);
    bool ok = begin(&w, k, seed, &e);
    uint64_t until = clock_mono_us() + ROUND_SECONDS * 1000000ull;
    while (ok && clock_mono_us() < until) {
        clock_sleep_us(CALM_MS * 1000);
        ok = k->inject(&w);
    }
    if (ok) {
        clock_sleep_us(CALM_MS * 1000);
        ok = comes_to_rest(&w);
        atomic_store(&w.ledger->stop, true);
        until = clock_mono_us() + END_SECONDS * 1000000ull;
        for (unsigned i = 0; i < WORKERS; i++)
            ok &= end_worker(&w, i, until);
        ok &= judge(&w, k);
    } else {
        (void)fprintf(stderr, "%s: the round could not be held: %s\n", k->name, e.text);
    }
    end(&w);
    return ok;
}
