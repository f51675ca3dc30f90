/* SPDX-License-Identifier: MIT */
/* stall: how long a cutover, and what follows it within a second, delays any request. Connections check and
 * add without pause. The benchmark reads the view in Redis every few milliseconds, so that the time of the
 * cutover is known. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"
#include "bench.h"
#include "stall_load.h"

enum {
    DAEMONS_MAX = 8,
    CUTOVER_US = 1000000,
    LOOK_EVERY_US = 2000,
    BASELINE_US = 2000000,
    BUILT_SECONDS = 120,
    LONGEST_US = 120000000
};

struct options {
    const char *filter;
    uint16_t redis_port;
    uint16_t daemon_port[DAEMONS_MAX];
    unsigned daemons, connections, rounds;
    uint64_t known, shards;
    double target_ms;
};

struct stall {
    struct options options;
    redisContext *daemon;
    redisContext *redis;
    struct load load;
};

struct look {
    uint64_t current, shards;
};

static bool take_number(const redisReply *r, uint64_t *out)
{
    return r->type == REDIS_REPLY_STRING && number_u64(r->str, r->len, out);
}

static enum err look_at_view(struct stall *s, struct look *out, struct error *e)
{
    const char *filter = s->options.filter;
    redisReply *r = redisCommand(
        s->redis, "HMGET twinbloom:{%s}:view bloom_filter_current_index bloom_filter_size", filter);
    enum err err = ERR_OK;
    if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
        !take_number(r->element[0], &out->current) || !take_number(r->element[1], &out->shards))
        err = error_set(e, ERR_PARSE, "the view of %s cannot be read", filter);
    freeReplyObject(r);
    return err;
}

static enum err start_rebuild(struct stall *s, struct error *e)
{
    redisReply *r = redisCommand(s->daemon, "TB.REBUILD %s", s->options.filter);
    enum err err = ERR_OK;
    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        err = error_set(e, ERR_REFUSED, "TB.REBUILD: %s", r == NULL ? s->daemon->errstr : r->str);
    freeReplyObject(r);
    return err;
}

/* *@begin: when the last look that found the former generation was sent, in microseconds since the load's
 * start. */
static enum err watch(struct stall *s, uint32_t *begin, struct error *e)
{
    struct look now = {0}, first = {0};
    uint64_t until = clock_mono_us() + LONGEST_US;
    enum err err = look_at_view(s, &first, e);
    if (err == ERR_OK)
        err = start_rebuild(s, e);
    now = first;
    uint32_t sent = load_now(&s->load);
    while (err == ERR_OK && now.current == first.current) {
        *begin = sent;
        clock_sleep_us(LOOK_EVERY_US);
        sent = load_now(&s->load);
        err = look_at_view(s, &now, e);
        if (err == ERR_OK && clock_mono_us() > until)
            err = error_set(e, ERR_TIMEOUT, "the rebuild has not ended");
    }
    return err;
}

static void print_line(const char *what, const struct load_figures *f)
{
    (void)printf("  %-32s %11.1f %11.1f %11.1f %11.2f %11.0f\n", what, f->longest_ms, f->gap_ms,
                 f->machine_ms, f->quantile_ms, (double)f->requests / (CUTOVER_US / 1e6));
}

static void report_round(const struct stall *s, unsigned round, uint32_t begin, struct samples *worst,
                         struct samples *quiet)
{
    struct load_figures f;
    char what[40];
    load_look(&s->load, BASELINE_US - CUTOVER_US, BASELINE_US, &f);
    samples_add(quiet, f.longest_ms);
    (void)snprintf(what, sizeof(what), "round %u  no change", round + 1);
    print_line(what, &f);
    load_look(&s->load, begin, begin + CUTOVER_US, &f);
    print_line("         to the next generation", &f);
    samples_add(worst, f.longest_ms > f.gap_ms ? f.longest_ms : f.gap_ms);
    slowlog_print(s->redis);
    (void)fflush(stdout);
}

static enum err one_round(struct stall *s, unsigned round, struct samples *worst, struct samples *quiet,
                          struct error *e)
{
    uint32_t begin = 0;
    struct error later;
    enum err err = rebuild_wait_built(s->daemon, s->options.filter, BUILT_SECONDS, e);
    if (err != ERR_OK)
        return err;
    err = slowlog_begin(s->redis, e);
    if (err == ERR_OK)
        err = load_start(&s->load, s->options.daemon_port, s->options.daemons, s->options.connections, round,
                         e);
    if (err == ERR_OK) {
        clock_sleep_us(BASELINE_US);
        err = watch(s, &begin, e);
    }
    if (err == ERR_OK)
        clock_sleep_us(CUTOVER_US);
    enum err stopped = load_stop(&s->load, err == ERR_OK ? e : &later);
    if (err == ERR_OK)
        err = stopped;
    if (err == ERR_OK)
        report_round(s, round, begin, worst, quiet);
    load_free(&s->load);
    return err;
}

static enum err connect_all(struct stall *s, struct look *view, struct error *e)
{
    enum err err = observe_connect(&s->redis, s->options.redis_port, TIMEOUT_MS, "Redis", e);
    if (err == ERR_OK)
        err = observe_connect(&s->daemon, s->options.daemon_port[0], TIMEOUT_MS, "the daemon", e);
    if (err == ERR_OK)
        err = rebuild_wait_built(s->daemon, s->options.filter, BUILT_SECONDS, e);
    if (err == ERR_OK)
        err = look_at_view(s, view, e);
    double share = err == ERR_OK ? (double)view->shards / (double)s->options.shards : 1;
    if (share < 0.95 || share > 1.05)
        err = error_set(e, ERR_RANGE, "the filter has %llu shards, not about %llu",
                        (unsigned long long)view->shards, (unsigned long long)s->options.shards);
    return err;
}

static enum err run(struct stall *s, struct error *e)
{
    struct samples worst = {0}, quiet = {0};
    struct look view = {0};
    char title[160], what[96], grouped[NUMBER_GROUPED_SIZE];
    enum err err = connect_all(s, &view, e);
    if (err != ERR_OK)
        return err;
    (void)snprintf(title, sizeof(title), "%s shards; %u coordinators, %u connections, one request at a time",
                   number_grouped(view.shards, grouped), s->options.daemons, s->options.connections);
    table_heading(
        title,
        "                                    longest ms  no reply ms  machine ms    p99 ms  requests/s");
    for (unsigned round = 0; err == ERR_OK && round < s->options.rounds; round++)
        err = one_round(s, round, &worst, &quiet, e);
    if (err != ERR_OK)
        return err;
    (void)printf("  longest without a change, median: %.1f ms\n", samples_median(&quiet));
    (void)snprintf(what, sizeof(what), "longest stall of a round, beyond that, median of %u, %s shards",
                   worst.count, number_grouped(s->options.shards, grouped));
    table_target(what, samples_median(&worst) - samples_median(&quiet), "ms", true, s->options.target_ms);
    return ERR_OK;
}

static const char usage[] =
    "usage: stall --filter NAME --redis PORT --daemons PORT,... --known N --shards N --target MS\n"
    "             [--connections N] [--rounds N]\n"
    "tests/bench/stall starts all that it needs.\n";

static const struct option long_options[] = {{"filter", required_argument, NULL, 'f'},
                                             {"redis", required_argument, NULL, 'r'},
                                             {"daemons", required_argument, NULL, 'd'},
                                             {"known", required_argument, NULL, 'k'},
                                             {"shards", required_argument, NULL, 's'},
                                             {"target", required_argument, NULL, 't'},
                                             {"connections", required_argument, NULL, 'c'},
                                             {"rounds", required_argument, NULL, 'n'},
                                             {NULL, 0, NULL, 0}};

static bool number(const char *text, uint64_t most, uint64_t *out)
{
    return number_u64(text, strlen(text), out) && *out > 0 && *out <= most;
}

static bool small_number(const char *text, unsigned most, unsigned *out)
{
    uint64_t value;
    bool ok = number(text, most, &value);
    if (ok)
        *out = (unsigned)value;
    return ok;
}

static bool take_option(struct options *o, int option, const char *text)
{
    switch (option) {
    case 'f':
        return *(o->filter = text) != '\0';
    case 'r':
        return observe_ports(text, &o->redis_port, 1) == 1;
    case 'd':
        return (o->daemons = observe_ports(text, o->daemon_port, DAEMONS_MAX)) > 0;
    case 'k':
        return number(text, UINT32_MAX, &o->known);
    case 's':
        return number(text, UINT32_MAX, &o->shards);
    case 't':
        return number_double(text, strlen(text), &o->target_ms) && o->target_ms > 0;
    case 'c':
        return small_number(text, LOADERS_MAX, &o->connections);
    case 'n':
        return small_number(text, ROUNDS_MAX, &o->rounds);
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static struct stall s = {.options = {.rounds = 5, .connections = 4}};
    int option;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        if (!take_option(&s.options, option, optarg)) {
            (void)fputs(usage, stderr);
            return 2;
        }
    s.load.known = s.options.known;
    s.load.filter = s.options.filter;
    if (optind != argc || s.options.filter == NULL || s.options.redis_port == 0 || s.options.daemons == 0 ||
        s.options.known == 0 || s.options.shards == 0 || s.options.target_ms <= 0) {
        (void)fputs(usage, stderr);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct error e;
    enum err err = run(&s, &e);
    if (err != ERR_OK)
        (void)fprintf(stderr, "stall: %s\n", e.text);
    redisFree(s.daemon);
    redisFree(s.redis);
    return err == ERR_OK && table_missed() == 0 ? 0 : 1;
}
