/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/info.h"
#include "base/number.h"
#include "base/machine.h"
#include "base/random.h"
#include "service/cli/bench/cli_bench.h"
#include "service/cli/common/cli_progress.h"

/* --- the server's own figures --- */

static bool seconds(const redisReply *info, const char *name, double *sum)
{
    size_t length = 0;
    double value = 0;
    const char *text = info_value(info->str, info->len, name, &length);
    if (text == NULL || !number_double(text, length, &value))
        return false;
    *sum += value;
    return true;
}

static void look_at_server(struct bench_server *out, const struct cli *cli)
{
    const char *argv[] = {"INFO"};
    struct client *client = NULL;
    SCOPED(scope_reply) redisReply *info = NULL;
    struct error e = {""};
    size_t length = 0;
    *out = (struct bench_server){.known = false};
    /* Use a separate connection: the command's may have been closed for idleness. */
    enum err code = client_open(&client, &cli->address, cli->timeout_ms, &e);
    if (code == ERR_OK)
        code = client_call(client, &info, 1, argv, NULL, &e);
    if (code == ERR_OK && info->type == REDIS_REPLY_STRING) {
        out->known =
            seconds(info, "used_cpu_sys", &out->cpu_s) && seconds(info, "used_cpu_user", &out->cpu_s);
        out->coordinator = info_value(info->str, info->len, "twinbloom_version", &length) != NULL;
    }
    client_close(client);
}

/* --- the run --- */

enum {
    LOAD_BATCH = 500,
    LOAD_FLIGHT = 8,
    TICK_US = 100 * 1000,
    BUSY_US = 15 * 1000 * 1000,
    ENDLESS_S = 365 * 86400
};

/* --- the filter --- */

/* Send a command that makes or deletes a filter; retry while the filter is busy, as a new one may be. */
static enum err call(struct client *client, size_t argc, const char **argv, struct error *e)
{
    uint64_t until = clock_mono_us() + BUSY_US;
    for (;;) {
        SCOPED(scope_reply) redisReply *reply = NULL;
        enum err code = client_call(client, &reply, argc, argv, NULL, e);
        bool busy = code == ERR_BUSY || (code != ERR_OK && strstr(e->text, "mutex") != NULL);
        if (!busy || clock_mono_us() > until)
            return code;
        clock_sleep_us(TICK_US);
    }
}

static int reserve(struct bench *b)
{
    char capacity[24];
    (void)snprintf(capacity, sizeof(capacity), "%llu", (unsigned long long)b->cli->capacity);
    const char *argv[] = {"BF.RESERVE", b->filter, b->cli->error_rate, capacity};
    struct error e = {""};
    enum err why = call(b->cli->client, 4, argv, &e);
    if (why == ERR_OK)
        return CLI_OK;
    if (strstr(e.text, "exists") != NULL || strncmp(e.text, "WRONGTYPE", 9) == 0)
        return cli_fail(CLI_USAGE,
                        "the name %s is in use: bench creates a filter of its own, and deletes it at the end",
                        b->filter);
    if (strncmp(e.text, "MOVED", 5) == 0)
        return cli_fail_with(ERR_REFUSED,
                             "BF.RESERVE: %s: bench uses one node; run it on that node, with --filter %s",
                             e.text, b->filter);
    return cli_fail_with(why, "BF.RESERVE %s: %s", b->filter, e.text);
}

static int drop(struct bench *b)
{
    const char *argv[] = {"DEL", b->filter};
    struct error e = {""};
    struct client *client = NULL;
    enum err code = client_open(&client, &b->cli->address, b->cli->timeout_ms, &e);
    if (code == ERR_OK)
        code = call(client, 2, argv, &e);
    client_close(client);
    return code == ERR_OK ? CLI_OK
                          : cli_fail_with(code, "the filter %s was not deleted: %s", b->filter, e.text);
}

/* Take replies of BF.MADD: each key must be present afterwards. */
static enum err settle(struct bench *b, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = client_receive(b->cli->client, &reply, e);
    if (code != ERR_OK)
        return code;
    const redisReply *bad = reply->type == REDIS_REPLY_ERROR ? reply : NULL;
    for (size_t i = 0; bad == NULL && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_ERROR)
            bad = reply->element[i];
    if (bad != NULL)
        code = error_set(e, error_of_reply(bad->str, bad->len), "%s", bad->str);
    return code;
}

static enum err load(struct bench *b, struct error *e)
{
    static char keys[LOAD_BATCH][BENCH_KEY_MAX];
    const char *argv[2 + LOAD_BATCH] = {"BF.MADD", b->filter};
    size_t lengths[2 + LOAD_BATCH] = {strlen(argv[0]), strlen(b->filter)};
    struct progress progress;
    unsigned flight = 0;
    enum err code = ERR_OK;
    progress_begin(&progress, "keys", b->o->keys * b->o->key_size, 0);
    for (uint64_t at = 0; at < b->o->keys && code == ERR_OK && !progress_interrupted();) {
        size_t n = 0;
        for (; n < LOAD_BATCH && at < b->o->keys; n++, at++) {
            bench_key(keys[n], at, b->o->key_size);
            argv[2 + n] = keys[n];
            lengths[2 + n] = b->o->key_size;
        }
        code = client_send(b->cli->client, 2 + n, argv, lengths, e);
        if (code == ERR_OK && ++flight == LOAD_FLIGHT) {
            code = settle(b, e);
            flight--;
        }
        progress_show(&progress, at * b->o->key_size, at);
    }
    for (; flight > 0 && code == ERR_OK; flight--)
        code = settle(b, e);
    progress_end(&progress);
    return code;
}

/* --- the load --- */

/* Wait for the end, showing progress on a terminal. */
static void watch(struct bench *b, const struct bench_thread *threads, size_t count)
{
    bool terminal = isatty(STDERR_FILENO) == 1 && !b->cli->json;
    uint64_t shown_us = b->begin_us, shown = 0;
    char x[NUMBER_GROUPED_SIZE];
    while (!progress_interrupted() && clock_mono_us() < b->end_us &&
           (b->o->requests == 0 || atomic_load(&b->requests) < b->o->requests)) {
        clock_sleep_us(TICK_US);
        uint64_t now = clock_mono_us();
        if (!terminal || now - shown_us < 10 * TICK_US)
            continue;
        uint64_t n = 0;
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < BENCH_COMMANDS; c++)
                n += __atomic_load_n(&threads[i].figures.latency[c].count, __ATOMIC_RELAXED);
        (void)fprintf(stderr, "\r%.0f s  %s requests/s\033[K", (double)(now - b->begin_us) / 1e6,
                      number_grouped((uint64_t)((double)(n - shown) * 1e6 / (double)(now - shown_us)), x));
        shown_us = now;
        shown = n;
    }
    if (terminal)
        (void)fputs("\r\033[K", stderr);
    if (progress_interrupted())
        atomic_store(&b->stop, true);
}

static int measure(struct bench *b, struct bench_figures *all, double *seconds)
{
    /* With a rate each connection has a thread, which waits until its next request is due. */
    size_t connections = (size_t)b->o->connections, processors = machine_processors(), started = 0;
    size_t count = b->o->rate != 0 || connections < processors ? connections : processors;
    struct bench_thread *threads = calloc(count, sizeof(*threads));
    if (threads == NULL)
        return cli_fail_with(ERR_NOMEM, "out of memory");
    uint64_t ended_us = b->begin_us = clock_mono_us();
    b->end_us = b->begin_us + (uint64_t)(b->o->seconds * 1e6);
    for (; started < count; started++) {
        threads[started].bench = b;
        threads[started].connections = connections / count + (started < connections % count);
        threads[started].random = random_u64();
        if (pthread_create(&threads[started].id, NULL, bench_run, &threads[started]) != 0)
            break;
    }
    if (started == count)
        watch(b, threads, count);
    else
        atomic_store(&b->stop, true);
    for (size_t i = 0; i < started; i++) {
        (void)pthread_join(threads[i].id, NULL);
        bench_merge(all, &threads[i].figures);
        ended_us = threads[i].ended_us > ended_us ? threads[i].ended_us : ended_us;
    }
    *seconds = (double)(ended_us - b->begin_us) / 1e6; /* watch() looks but now and then */
    free(threads);
    return started == count ? CLI_OK : cli_fail(CLI_FAILED, "%zu threads could not be started", count);
}

static int run(struct bench *b)
{
    struct bench_figures all = {.disconnects = 0};
    struct error e = {""};
    double seconds = 0;
    uint64_t begin = clock_mono_us();
    enum err loaded = load(b, &e);
    int code = loaded == ERR_OK ? CLI_OK : cli_fail_with(loaded, "keys could not be added: %s", e.text);
    double load_seconds = (double)(clock_mono_us() - begin) / 1e6;
    if (code == CLI_OK && !progress_interrupted()) {
        look_at_server(&b->before, b->cli);
        code = measure(b, &all, &seconds);
        look_at_server(&b->after, b->cli);
        (b->cli->json ? bench_print_json : bench_print)(b, &all, seconds, load_seconds);
        uint64_t errors = all.errors[BENCH_EXISTS] + all.errors[BENCH_ADD] + all.disconnects;
        if (code == CLI_OK && errors > 0)
            code = CLI_FAILED;
        if (code == CLI_OK && all.false_negatives > 0)
            code = CLI_NO;
    }
    return progress_interrupted() ? CLI_INTERRUPTED : code;
}

int cli_bench(struct cli *cli)
{
    /* The defaults that depend on other options. */
    struct cli_bench *o = &cli->bench;
    o->keys = cli->estimate.keys != 0 ? cli->estimate.keys : 100000;
    if (o->seconds <= 0)
        o->seconds = o->requests != 0 ? ENDLESS_S : 10;
    if (cli->error_rate == NULL)
        cli->error_rate = "0.001";
    if (cli->capacity == 0)
        cli->capacity = 2 * o->keys + o->keys / 4 + 1; /* so that it does not fill up */
    bool many = o->batch > 1;
    struct bench b = {
        .cli = cli,
        .o = &cli->bench,
        .command = {
            [BENCH_EXISTS] = many ? "BF.MEXISTS" : "BF.EXISTS", [BENCH_ADD] = many ? "BF.MADD" : "BF.ADD"}};
    if (cli->bench.filter != NULL)
        (void)snprintf(b.filter, sizeof(b.filter), "%s", cli->bench.filter);
    else
        (void)snprintf(b.filter, sizeof(b.filter), "twinbloom-bench-%08llx",
                       (unsigned long long)(random_u64() >> 32));
    progress_catch_interrupt(true);
    int code = reserve(&b);
    if (code == CLI_OK) {
        code = run(&b);
        int dropped = drop(&b);
        code = code == CLI_OK ? dropped : code;
    }
    return code;
}
