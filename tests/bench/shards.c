/* SPDX-License-Identifier: MIT */
/* shards: what a filter of very many shards costs a coordinator and Redis: memory, work at rest, and the time
 * of TB.STATUS and TB.PLAN at rest, beside requests, and while a rebuild makes as many shards again. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"
#include "bench.h"
#include "stall_load.h"

enum {
    CONNECTIONS = 4,
    REST_US =
        12000000, /* longer than the controller pauses between two looks at the counts of 50,000 shards */
    WINDOW_US = 5000000,
    ASK_EVERY_US = 10000,
    ASKED_MAX = 20000,
    BUILT_SECONDS = 120,
    LONGEST_US = 120000000,
    ANSWER_MS = 200, /* targets */
    MEMORY_MIB = 64
};

struct options {
    const char *filter;
    uint16_t port, redis_port;
    uint64_t pid, redis_pid, idle, build_memory, known, shards;
};

struct shards {
    struct options options;
    redisContext *daemon, *redis;
    struct load load;
};

/* --- questions --- */

struct asked {
    size_t count;
    double ms[ASKED_MAX];
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum err ask(struct shards *s, const char *command, struct asked *a, struct error *e)
{
    uint64_t began = clock_mono_us();
    redisReply *r = redisCommand(s->daemon, "%s %s", command, s->options.filter);
    enum err code = ERR_OK;
    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        code = error_set(e, ERR_REFUSED, "%s: %s", command, r == NULL ? s->daemon->errstr : r->str);
    freeReplyObject(r);
    if (a->count < ASKED_MAX)
        a->ms[a->count++] = (double)(clock_mono_us() - began) / 1000;
    return code;
}

struct questions {
    struct asked status, plan;
};

static enum err ask_both(struct shards *s, struct questions *q, struct error *e)
{
    enum err code = ask(s, "TB.STATUS", &q->status, e);
    if (code == ERR_OK)
        code = ask(s, "TB.PLAN", &q->plan, e);
    clock_sleep_us(ASK_EVERY_US);
    return code;
}

static enum err ask_for(struct shards *s, uint64_t us, struct questions *q, struct error *e)
{
    enum err code = ERR_OK;
    for (uint64_t until = clock_mono_us() + us; code == ERR_OK && clock_mono_us() < until;)
        code = ask_both(s, q, e);
    return code;
}

static void report_one(const char *command, const char *when, struct asked *a)
{
    char what[96];
    qsort(a->ms, a->count, sizeof(a->ms[0]), ascending);
    (void)snprintf(what, sizeof(what), "%s %s, longest of %zu (median %.1f ms)", command, when, a->count,
                   a->count == 0 ? 0 : a->ms[a->count / 2]);
    table_target(what, a->count == 0 ? 0 : a->ms[a->count - 1], "ms", true, ANSWER_MS);
    a->count = 0;
}

static void report(const char *when, struct questions *q)
{
    report_one("TB.STATUS", when, &q->status);
    report_one("TB.PLAN", when, &q->plan);
}

/* --- rest --- */

static enum err commands_of_redis(redisContext *redis, uint64_t *out, struct error *e)
{
    static const char field[] = "total_commands_processed:";
    redisReply *r = redisCommand(redis, "INFO stats");
    const char *at = r != NULL && r->type == REDIS_REPLY_STRING ? strstr(r->str, field) : NULL;
    if (at != NULL)
        *out = strtoull(at + sizeof(field) - 1, NULL, 10);
    freeReplyObject(r);
    return at != NULL ? ERR_OK : error_set(e, ERR_PARSE, "INFO stats has no %s", field);
}

/* What a second costs without requests. */
static enum err rest(struct shards *s, const char *when, struct error *e)
{
    const struct options *o = &s->options;
    uint64_t before = 0, after = 0;
    double daemon = measure_process_cpu((pid_t)o->pid), redis = measure_process_cpu((pid_t)o->redis_pid);
    enum err code = commands_of_redis(s->redis, &before, e);
    clock_sleep_us(REST_US);
    if (code == ERR_OK)
        code = commands_of_redis(s->redis, &after, e);
    if (code == ERR_OK)
        (void)printf("  a second of rest, %-28s daemon %5.1f ms, Redis %5.1f ms, %6.1f commands\n", when,
                     (measure_process_cpu((pid_t)o->pid) - daemon) * 1e9 / REST_US,
                     (measure_process_cpu((pid_t)o->redis_pid) - redis) * 1e9 / REST_US,
                     (double)(after - before) * 1e6 / REST_US);
    (void)fflush(stdout);
    return code;
}

/* Set the filter's count to three quarters of its capacity, so that the controller looks at single shards. */
static enum err pretend_fill(struct shards *s, struct error *e)
{
    struct status status;
    enum err code = observe_status(s->daemon, s->options.filter, &status, e);
    if (code != ERR_OK)
        return code;
    redisReply *r =
        redisCommand(s->redis, "HSET twinbloom:{%s}:count %llu.0 %llu", s->options.filter,
                     (unsigned long long)status.generation, (unsigned long long)status.capacity * 3 / 4);
    code = r != NULL && r->type == REDIS_REPLY_INTEGER ? ERR_OK
                                                       : error_set(e, ERR_IO, "the counts cannot be written");
    freeReplyObject(r);
    return code;
}

/* --- memory --- */

static void report_memory(const struct shards *s, const char *what, const char *field, double limit)
{
    double bytes = (double)measure_memory((pid_t)s->options.pid, field);
    table_target(what, (bytes - (double)s->options.idle) / 0x1p20, "MiB", true, limit);
}

/* --- the parts --- */

static enum err under_load(struct shards *s, struct questions *q, struct error *e)
{
    struct error later;
    struct load_figures f;
    enum err code = load_start(&s->load, &s->options.port, 1, CONNECTIONS, 1, e);
    if (code == ERR_OK)
        code = ask_for(s, WINDOW_US, q, e);
    enum err stopped = load_stop(&s->load, code == ERR_OK ? e : &later);
    if (code == ERR_OK)
        code = stopped;
    if (code == ERR_OK) {
        load_look(&s->load, 0, WINDOW_US, &f);
        (void)printf("  beside it %.0f requests/s over %d connections, p99 %.2f ms\n",
                     (double)f.requests * 1e6 / WINDOW_US, CONNECTIONS, f.quantile_ms);
        report("beside requests", q);
    }
    load_free(&s->load);
    return code;
}

static enum err while_rebuilding(struct shards *s, struct questions *q, struct error *e)
{
    struct status status;
    uint64_t began = clock_mono_us(), generation = 0;
    enum err code = observe_status(s->daemon, s->options.filter, &status, e);
    generation = status.generation;
    redisReply *r = code == ERR_OK ? redisCommand(s->daemon, "TB.REBUILD %s", s->options.filter) : NULL;
    if (code == ERR_OK && (r == NULL || r->type == REDIS_REPLY_ERROR))
        code = error_set(e, ERR_REFUSED, "TB.REBUILD: %s", r == NULL ? s->daemon->errstr : r->str);
    freeReplyObject(r);
    while (code == ERR_OK && (status.generation == generation || strcmp(status.job_state, "done") != 0)) {
        code = ask_both(s, q, e);
        if (code == ERR_OK)
            code = observe_status(s->daemon, s->options.filter, &status, e);
        if (code == ERR_OK && clock_mono_us() - began > LONGEST_US)
            code = error_set(e, ERR_TIMEOUT, "the rebuild is still in step %s", status.job_step);
    }
    if (code == ERR_OK) {
        (void)printf("  the rebuild took %.1f s\n", (double)(clock_mono_us() - began) / 1e6);
        report("during a rebuild", q);
    }
    return code;
}

static enum err begin(struct shards *s, struct error *e)
{
    enum err code = observe_connect(&s->daemon, s->options.port, TIMEOUT_MS, "the daemon", e);
    if (code == ERR_OK)
        code = observe_connect(&s->redis, s->options.redis_port, TIMEOUT_MS, "Redis", e);
    if (code == ERR_OK)
        code = rebuild_wait_built(s->daemon, s->options.filter, BUILT_SECONDS, e);
    return code;
}

static enum err run(struct shards *s, struct error *e)
{
    static struct questions q;
    char title[96], grouped[NUMBER_GROUPED_SIZE];
    double build = (double)s->options.build_memory / 0x1p20;
    enum err code = begin(s, e);
    if (code != ERR_OK)
        return code;
    (void)snprintf(title, sizeof(title), "%s shards", number_grouped(s->options.shards, grouped));
    table_heading(title, "");
    report_memory(s, "memory above idle, after the first build", "VmRSS", MEMORY_MIB);
    code = ask_for(s, WINDOW_US, &q, e);
    if (code == ERR_OK) {
        report("at rest", &q);
        code = rest(s, "less than half full:", e);
    }
    if (code == ERR_OK)
        code = pretend_fill(s, e);
    if (code == ERR_OK)
        code = rest(s, "three quarters full:", e);
    if (code == ERR_OK)
        code = under_load(s, &q, e);
    if (code == ERR_OK)
        report_memory(s, "memory above idle, after many adds", "VmRSS", MEMORY_MIB);
    if (code == ERR_OK)
        code = while_rebuilding(s, &q, e);
    if (code == ERR_OK)
        report_memory(s, "memory above idle, the most of all (with build_memory)", "VmHWM",
                      MEMORY_MIB + build);
    return code;
}

/* --- options --- */

static const char usage[] =
    "usage: shards --filter NAME --daemon PORT --redis PORT --pid PID --redis-pid PID --idle BYTES\n"
    "              --build-memory BYTES --known N --shards N\n"
    "tests/bench/shards starts all that it needs.\n";

static const struct option long_options[] = {
    {"filter", required_argument, NULL, 'f'},       {"daemon", required_argument, NULL, 'd'},
    {"redis", required_argument, NULL, 'r'},        {"pid", required_argument, NULL, 'p'},
    {"redis-pid", required_argument, NULL, 'q'},    {"idle", required_argument, NULL, 'i'},
    {"build-memory", required_argument, NULL, 'b'}, {"known", required_argument, NULL, 'k'},
    {"shards", required_argument, NULL, 's'},       {NULL, 0, NULL, 0}};

static bool take_option(struct options *o, int option, const char *text)
{
    size_t length = strlen(text);
    switch (option) {
    case 'f':
        return *(o->filter = text) != '\0';
    case 'd':
        return observe_ports(text, &o->port, 1) == 1;
    case 'r':
        return observe_ports(text, &o->redis_port, 1) == 1;
    case 'p':
        return number_u64(text, length, &o->pid) && o->pid > 1;
    case 'q':
        return number_u64(text, length, &o->redis_pid) && o->redis_pid > 1;
    case 'i':
        return number_u64(text, length, &o->idle);
    case 'b':
        return number_u64(text, length, &o->build_memory);
    case 'k':
        return number_u64(text, length, &o->known) && o->known > 0;
    case 's':
        return number_u64(text, length, &o->shards) && o->shards > 0;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static struct shards s;
    int option;
    bool valid = true;
    while (valid && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        valid = take_option(&s.options, option, optarg);
    s.load.known = s.options.known;
    s.load.filter = s.options.filter;
    if (!valid || optind != argc || s.options.filter == NULL || s.options.port == 0 ||
        s.options.redis_port == 0 || s.options.pid == 0 || s.options.redis_pid == 0 || s.options.known == 0 ||
        s.options.shards == 0) {
        (void)fputs(usage, stderr);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct error e;
    enum err code = run(&s, &e);
    if (code != ERR_OK)
        (void)fprintf(stderr, "shards: %s\n", e.text);
    redisFree(s.daemon);
    redisFree(s.redis);
    return code == ERR_OK && table_missed() == 0 ? 0 : 1;
}
