/* SPDX-License-Identifier: MIT */
/* bench: what checks, adds and rebuilds cost, beside reference measurements. Figures are medians of several
 * rounds. In each round the workloads take turns, and ratios are made within a round, so that a machine that
 * speeds up or slows down affects both sides. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "bench.h"
#include "workloads.h"

enum { MIB = 1024 * 1024, MEXISTS_KEYS = 100, MEXISTS_DEPTH = 4 };

struct options {
    uint16_t daemon_port, small_port, redis_port;
    pid_t daemon_pid, small_pid;
    const char *postgres;
    const char *rebuild, *rebuild_small; /* commands for /bin/sh */
    uint64_t build_memory, build_memory_small;
    unsigned rounds;
    uint64_t keys; /* of each workload in a round */
    bool raw_only;
};

struct bench {
    struct options options;
    redisContext *daemon;
    redisContext *small;
    redisContext *redis;
    PGconn *pg;
    struct code *known;
    size_t known_count, known_capacity;
    uint64_t bits;
};

enum contestant {
    CHECK,
    CHECK_MANY,
    CHECK_RAW,
    CHECK_SCRIPT,
    CHECK_ABSENT,
    CHECK_SCRIPT_ABSENT,
    ADD,
    ADD_SCRIPT,
    CONTESTANTS
};

struct row {
    struct workload workload;
    struct request request;
    bool enters_daemon;
    bool fresh; /* every round takes new keys */
    struct samples rate, redis_us, daemon_us;
    double last_rate, last_us; /* of the current round */
};

static void keep_known(void *arg, const char *code, size_t length)
{
    struct bench *b = arg;
    if (length != CODE_LENGTH || b->known_count == b->known_capacity)
        return;
    memcpy(b->known[b->known_count].text, code, CODE_LENGTH);
    b->known[b->known_count++].text[CODE_LENGTH] = '\0';
}

static enum err load_known(struct bench *b, struct error *e)
{
    struct keyset_result r;
    enum err err = keyset_copy(b->pg, NULL, NULL, &r, e); /* to count, and to warm the cache */
    if (err != ERR_OK)
        return err;
    b->known_capacity = r.rows;
    b->known = calloc(r.rows + 1, sizeof(*b->known));
    if (b->known == NULL)
        return error_set(e, ERR_NOMEM, "no memory for the table's codes");
    err = keyset_copy(b->pg, keep_known, b, &r, e);
    if (err == ERR_OK && b->known_count == 0)
        err = error_set(e, ERR_NOT_FOUND, "short_link is empty");
    return err;
}

static struct row make_row(const struct bench *b, const char *name, format_fn *format, bool enters_daemon,
                           const char *command)
{
    struct row row = {.enters_daemon = enters_daemon};
    row.request = (struct request){.command = command,
                                   .filter = "short-link",
                                   .known = b->known,
                                   .known_count = b->known_count,
                                   .bits = b->bits};
    row.workload = (struct workload){.name = name,
                                     .port = enters_daemon ? b->options.daemon_port : b->options.redis_port,
                                     .depth = DEPTH,
                                     .per_command = 1,
                                     .keys = b->options.keys,
                                     .format = format};
    return row;
}

static enum err make_rows(const struct bench *b, struct row *rows, struct error *e)
{
    rows[CHECK] = make_row(b, "BF.EXISTS, keys that are there", request_filter, true, "BF.EXISTS");
    rows[CHECK_MANY] =
        make_row(b, "BF.MEXISTS of 100, keys that are there", request_filter, true, "BF.MEXISTS");
    rows[CHECK_MANY].workload.per_command = MEXISTS_KEYS;
    rows[CHECK_MANY].workload.depth = MEXISTS_DEPTH;
    rows[CHECK_MANY].workload.keys *= 2;
    rows[CHECK_RAW] = make_row(b, "GETRANGE of 128 bytes, random blocks", request_getrange, false, "");
    rows[CHECK_SCRIPT] = make_row(b, "script of 10 GETBIT, keys that are there", request_script, false, "");
    rows[CHECK_ABSENT] = make_row(b, "BF.EXISTS, absent keys", request_filter, true, "BF.EXISTS");
    rows[CHECK_SCRIPT_ABSENT] =
        make_row(b, "script, absent keys: ends at the first 0", request_script, false, "");
    rows[ADD] = make_row(b, "BF.ADD, new keys", request_filter, true, "BF.ADD");
    rows[ADD_SCRIPT] = make_row(b, "script of 10 SETBIT, new keys", request_script, false, "");
    rows[CHECK_ABSENT].request.known = rows[CHECK_SCRIPT_ABSENT].request.known = NULL;
    rows[CHECK_ABSENT].request.counter = rows[CHECK_SCRIPT_ABSENT].request.counter = ABSENT_FROM;
    rows[ADD].request.known = rows[ADD_SCRIPT].request.known = NULL;
    rows[ADD].request.counter = rows[ADD_SCRIPT].request.counter = FRESH_FROM;
    rows[ADD].workload.keys /= 2;
    rows[ADD_SCRIPT].workload.keys /= 2;
    for (int i = 0; i < CONTESTANTS; i++)
        rows[i].workload.arg = &rows[i].request;
    enum err err = classic_script(b->redis, false, rows[CHECK_SCRIPT].request.sha, e);
    memcpy(rows[CHECK_SCRIPT_ABSENT].request.sha, rows[CHECK_SCRIPT].request.sha,
           sizeof(rows[0].request.sha));
    if (err == ERR_OK)
        err = classic_script(b->redis, true, rows[ADD_SCRIPT].request.sha, e);
    return err;
}

static enum err run_row(const struct bench *b, struct row *row, unsigned round, struct error *e)
{
    static struct pipeline p;
    struct run_result r = {0};
    enum err err = pipeline_make(&p, &row->workload, (uint64_t)round * row->workload.keys, e);
    if (err == ERR_OK)
        err = pipeline_run(&p, b->redis, row->enters_daemon ? b->options.daemon_pid : 0, &r, e);
    if (err == ERR_OK) {
        double keys = (double)p.keys;
        row->last_rate = keys / r.seconds;
        row->last_us = r.redis_cpu * 1e6 / keys;
        samples_add(&row->rate, row->last_rate);
        samples_add(&row->redis_us, row->last_us);
        samples_add(&row->daemon_us, r.daemon_cpu * 1e6 / keys);
    } else {
        err = error_prefix(e, err, "%s", row->workload.name);
    }
    pipeline_free(&p);
    return err;
}

/* Ratios of one round, script against Twinbloom. */
struct ratios {
    struct samples check_cpu, add_cpu, check_rate, many_rate;
};

static void take_ratios(const struct row *rows, struct ratios *r)
{
    samples_add(&r->check_cpu, rows[CHECK_SCRIPT].last_us / rows[CHECK].last_us);
    samples_add(&r->add_cpu, rows[ADD_SCRIPT].last_us / rows[ADD].last_us);
    samples_add(&r->check_rate, rows[CHECK].last_rate / rows[CHECK_SCRIPT].last_rate);
    samples_add(&r->many_rate, rows[CHECK_MANY].last_rate / rows[CHECK_SCRIPT].last_rate);
}

static enum err checks_and_adds(struct bench *b, struct error *e)
{
    static struct row rows[CONTESTANTS];
    struct ratios ratios = {0};
    enum err err = make_rows(b, rows, e);
    for (unsigned round = 0; err == ERR_OK && round < b->options.rounds; round++) {
        for (int i = 0; err == ERR_OK && i < CONTESTANTS; i++)
            if (!rows[i].enters_daemon || !b->options.raw_only)
                err = run_row(b, &rows[i], round, e);
        if (!b->options.raw_only)
            take_ratios(rows, &ratios);
    }
    if (err != ERR_OK)
        return err;
    table_heading("Checks and adds, pipelined on 4 connections, 64 deep (BF.MEXISTS: 4 deep); Redis holds "
                  "the same keys both ways",
                  "  request                                           keys/s   Redis us/key  daemon us/key");
    for (int i = 0; i < CONTESTANTS; i++)
        if (rows[i].rate.count > 0)
            (void)printf("  %-45s %10.0f %14.2f %14.2f\n", rows[i].workload.name,
                         samples_median(&rows[i].rate), samples_median(&rows[i].redis_us),
                         samples_median(&rows[i].daemon_us));
    if (b->options.raw_only)
        return ERR_OK;
    table_heading("Against the targets", "");
    table_target("Redis CPU of the script's check / of BF.EXISTS", samples_median(&ratios.check_cpu), "times",
                 false, 6);
    table_target("Redis CPU of the script's add / of BF.ADD", samples_median(&ratios.add_cpu), "times", false,
                 2.5);
    table_target("keys/s of BF.EXISTS / of the script driven directly", samples_median(&ratios.check_rate),
                 "times", false, 3);
    table_target("keys/s of BF.MEXISTS of 100 / of the script driven directly",
                 samples_median(&ratios.many_rate), "times", false, 4);
    return ERR_OK;
}

/* Untimed: check @count codes, whose answers the timed runs ignore. *@ones: how many are reported present,
 * which are all known keys, and some of the absent ones. */
static enum err answers(redisContext *daemon, const char *filter, const struct code *known, size_t count,
                        uint64_t *ones, struct error *e)
{
    struct request request = {.command = "BF.MEXISTS",
                              .filter = filter,
                              .known = known,
                              .known_count = count,
                              .counter = ABSENT_FROM};
    *ones = 0;
    for (size_t at = 0; at + MEXISTS_KEYS <= count; at += MEXISTS_KEYS) {
        struct buffer bytes = {0};
        redisReply *r = NULL;
        request_filter(&request, &bytes, at, MEXISTS_KEYS);
        bool sent = !buffer_failed(&bytes) &&
                    redisAppendFormattedCommand(daemon, bytes.data, bytes.length) == REDIS_OK &&
                    redisGetReply(daemon, (void **)&r) == REDIS_OK;
        buffer_fini(&bytes);
        if (!sent || r == NULL || r->type != REDIS_REPLY_ARRAY) {
            freeReplyObject(r);
            return error_set(e, ERR_REFUSED, "BF.MEXISTS %s failed", filter);
        }
        for (size_t i = 0; i < r->elements; i++)
            *ones += r->element[i]->type == REDIS_REPLY_INTEGER && r->element[i]->integer == 1;
        freeReplyObject(r);
    }
    return ERR_OK;
}

/* The filter "packed" was built for hardly more keys than the table has. */
static enum err memory_and_errors(struct bench *b, struct error *e)
{
    struct status s;
    struct shard_memory memory = {0};
    uint64_t there = 0;
    uint64_t false_positives = 0;
    enum err err = observe_status(b->daemon, "packed", &s, e);
    if (err == ERR_OK)
        err = observe_shards(b->redis, "twinbloom", "packed", s.generation, &memory, e);
    if (err == ERR_OK)
        err = answers(b->daemon, "packed", b->known, b->known_count, &there, e);
    if (err == ERR_OK)
        err = answers(b->daemon, "packed", NULL, b->known_count, &false_positives, e);
    if (err != ERR_OK)
        return err;
    if (memory.shards == 0 || s.capacity == 0)
        return error_set(e, ERR_NOT_FOUND, "no shards of generation %llu of packed are in Redis",
                         (unsigned long long)s.generation);
    uint64_t asked = b->known_count / MEXISTS_KEYS * MEXISTS_KEYS;
    double bits = (double)memory.bytes * 8 / (double)s.capacity;
    table_heading("A filled generation at an error rate of 0.001", "");
    (void)printf(
        "  %llu shards, %.2f MiB for %llu keys, %zu in it; false positives %.6f of %llu absent keys\n",
        (unsigned long long)memory.shards, (double)memory.bytes / MIB, (unsigned long long)s.capacity,
        b->known_count, (double)false_positives / (double)asked, (unsigned long long)asked);
    /* Otherwise the figures below would be those of an emptier filter. */
    table_target("keys in it / keys it was planned for", (double)b->known_count / (double)s.capacity, "",
                 false, 0.95);
    table_target("Redis memory per key / the classic 14.38 bits", bits / 14.38, "times", true, 1.08);
    /* 1.1: the promised 1 and three standard errors of a million trials. */
    table_target("false positives per 1000 absent keys", (double)false_positives * 1000 / (double)asked, "",
                 true, 1.1);
    table_target("known keys denied", (double)(asked - there), "keys", true, 0);
    return ERR_OK;
}

struct rebuild_samples {
    struct samples scan_rate, cutover_rate, all_seconds, bare_rate, copy_rate, ratio;
    uint64_t slow;        /* in all rounds */
    uint64_t slow_fewest; /* in the best round */
    uint64_t most_memory; /* peak minus idle */
    struct rebuild_result last;
};

static enum err one_rebuild(struct bench *b, const struct rebuild_target *target, struct rebuild_samples *s,
                            struct error *e)
{
    struct keyset_result bare;
    struct keyset_result copy;
    struct rebuild_result *r = &s->last;
    enum err err = keyset_scan(b->pg, PAGE_ROWS, &bare, e);
    if (err == ERR_OK)
        err = keyset_copy(b->pg, NULL, NULL, &copy, e);
    if (err == ERR_OK)
        err = rebuild_watch(target, r, e);
    if (err != ERR_OK)
        return err;
    /* The rows of the table, however often each was read. */
    double rows = (double)b->known_count;
    double bare_rate = (double)bare.rows / bare.seconds;
    samples_add(&s->bare_rate, bare_rate);
    samples_add(&s->copy_rate, (double)copy.rows / copy.seconds);
    samples_add(&s->scan_rate, rows / r->scan_seconds);
    samples_add(&s->cutover_rate, rows / r->to_cutover_seconds);
    samples_add(&s->all_seconds, r->all_seconds);
    samples_add(&s->ratio, rows / r->scan_seconds / bare_rate);
    s->slow += r->slow;
    if (r->slow < s->slow_fewest)
        s->slow_fewest = r->slow;
    uint64_t grown = r->peak_bytes > r->idle_bytes ? r->peak_bytes - r->idle_bytes : 0;
    if (grown > s->most_memory)
        s->most_memory = grown;
    return ERR_OK;
}

static void print_rebuild(const char *name, const struct rebuild_samples *s)
{
    (void)printf("  %-34s %11.0f rows/s scanning, %11.0f rows/s to the cutover, %.2f s in all\n", name,
                 samples_median(&s->scan_rate), samples_median(&s->cutover_rate),
                 samples_median(&s->all_seconds));
    (void)printf("    last round:");
    for (unsigned i = 0; i < s->last.steps; i++)
        (void)printf(" %s %.3f s", s->last.step[i].name, s->last.step[i].seconds);
    (void)printf("; grew by %.1f MiB at the most\n", (double)s->most_memory / MIB);
}

static enum err rebuilds(struct bench *b, struct error *e)
{
    struct rebuild_samples one = {.slow_fewest = UINT64_MAX};
    struct rebuild_samples several = {.slow_fewest = UINT64_MAX};
    struct rebuild_target target = {.daemon = b->daemon,
                                    .redis = b->redis,
                                    .pid = b->options.daemon_pid,
                                    .filter = "short-link",
                                    .command = b->options.rebuild};
    struct rebuild_target small = {.daemon = b->small,
                                   .redis = b->redis,
                                   .pid = b->options.small_pid,
                                   .filter = "short-link",
                                   .command = b->options.rebuild_small};
    enum err err = ERR_OK;
    unsigned rounds = b->options.rounds < 3 ? b->options.rounds : 3;
    for (unsigned round = 0; err == ERR_OK && round < rounds; round++) {
        err = one_rebuild(b, &target, &one, e);
        if (err == ERR_OK)
            err = one_rebuild(b, &small, &several, e);
    }
    if (err != ERR_OK)
        return err;
    table_heading("Rebuilds", "");
    (void)printf("  %-34s %11.0f rows/s\n", "bare keyset scan, pages of 10,000",
                 samples_median(&one.bare_rate));
    (void)printf("  %-34s %11.0f rows/s\n", "COPY (SELECT code ...) TO STDOUT",
                 samples_median(&one.copy_rate));
    print_rebuild("rebuild", &one);
    print_rebuild("rebuild, little build_memory", &several);
    table_heading("Against the targets", "");
    table_target("rows/s of the rebuild's scan / of the bare keyset scan", samples_median(&one.ratio),
                 "times", false, 0.5);
    /* SLOWLOG measures wall time, so a busy machine that takes the processor from Redis can make any command
     * slow once. A command that is slow by itself is slow in every round, so the best round is judged, and
     * all are shown. */
    (void)printf("  SLOWLOG over 3 ms: %llu and %llu commands in all rounds (in memory, spilled)\n",
                 (unsigned long long)one.slow, (unsigned long long)several.slow);
    table_target("Redis commands over 3 ms in the best round (SLOWLOG)",
                 (double)(one.slow_fewest + several.slow_fewest), "commands", true, 0);
    table_target("coordinator's growth in a build", (double)one.most_memory / MIB, "MiB", true,
                 (double)b->options.build_memory / MIB + 64);
    table_target("the same with little build_memory", (double)several.most_memory / MIB, "MiB", true,
                 (double)b->options.build_memory_small / MIB + 64);
    (void)printf("  a spilled build runs at %.2f of the speed of one in memory\n",
                 samples_median(&several.scan_rate) / samples_median(&one.scan_rate));
    return ERR_OK;
}

static enum err connect_all(struct bench *b, struct error *e)
{
    b->pg = PQconnectdb(b->options.postgres);
    if (PQstatus(b->pg) != CONNECTION_OK)
        return error_set(e, ERR_UNREACHABLE, "Postgres: %s", PQerrorMessage(b->pg));
    enum err err = observe_connect(&b->redis, b->options.redis_port, TIMEOUT_MS, "Redis", e);
    if (err != ERR_OK || b->options.raw_only)
        return err;
    err = observe_connect(&b->daemon, b->options.daemon_port, TIMEOUT_MS, "the daemon", e);
    if (err == ERR_OK)
        err = observe_connect(&b->small, b->options.small_port, TIMEOUT_MS, "the second daemon", e);
    if (err == ERR_OK)
        err = rebuild_wait_built(b->daemon, "short-link", 120, e);
    if (err == ERR_OK)
        err = rebuild_wait_built(b->daemon, "packed", 120, e);
    if (err == ERR_OK)
        err = rebuild_wait_built(b->small, "short-link", 120, e);
    return err;
}

static enum err run(struct bench *b, struct error *e)
{
    enum err err = connect_all(b, e);
    if (err == ERR_OK)
        err = load_known(b, e);
    if (err == ERR_OK)
        err = classic_fill(b->redis, b->known, b->known_count, &b->bits, e);
    if (err == ERR_OK)
        err = checks_and_adds(b, e);
    if (err == ERR_OK && !b->options.raw_only)
        err = memory_and_errors(b, e);
    if (err == ERR_OK && !b->options.raw_only)
        err = rebuilds(b, e);
    return err;
}

static const char usage[] = "usage: bench --redis PORT --postgres DSN --raw-only [--rounds N] [--keys N]\n"
                            "       bench --redis PORT --postgres DSN --daemon PORT --daemon-pid PID "
                            "--rebuild COMMAND --build-memory BYTES\n"
                            "             --small PORT --small-pid PID --rebuild-small COMMAND "
                            "--build-memory-small BYTES [--rounds N] [--keys N]\n"
                            "tests/bench/run starts all that it needs.\n";

static const struct option long_options[] = {{"redis", required_argument, NULL, 'r'},
                                             {"postgres", required_argument, NULL, 'p'},
                                             {"daemon", required_argument, NULL, 'd'},
                                             {"daemon-pid", required_argument, NULL, 'D'},
                                             {"rebuild", required_argument, NULL, 'c'},
                                             {"build-memory", required_argument, NULL, 'm'},
                                             {"small", required_argument, NULL, 's'},
                                             {"small-pid", required_argument, NULL, 'S'},
                                             {"rebuild-small", required_argument, NULL, 'C'},
                                             {"build-memory-small", required_argument, NULL, 'M'},
                                             {"rounds", required_argument, NULL, 'n'},
                                             {"keys", required_argument, NULL, 'k'},
                                             {"raw-only", no_argument, NULL, 'R'},
                                             {NULL, 0, NULL, 0}};

static bool number(const char *text, uint64_t most, uint64_t *out)
{
    return number_u64(text, strlen(text), out) && *out > 0 && *out <= most;
}

static bool pid(const char *text, pid_t *out)
{
    uint64_t value;
    bool ok = number(text, INT32_MAX, &value);
    if (ok)
        *out = (pid_t)value;
    return ok;
}

static bool take_option(struct options *o, int option, const char *text)
{
    uint64_t rounds;
    switch (option) {
    case 'r':
        return observe_ports(text, &o->redis_port, 1) == 1;
    case 'd':
        return observe_ports(text, &o->daemon_port, 1) == 1;
    case 's':
        return observe_ports(text, &o->small_port, 1) == 1;
    case 'D':
        return pid(text, &o->daemon_pid);
    case 'S':
        return pid(text, &o->small_pid);
    case 'p':
        return *(o->postgres = text) != '\0';
    case 'c':
        return *(o->rebuild = text) != '\0';
    case 'C':
        return *(o->rebuild_small = text) != '\0';
    case 'm':
        return number_bytes(text, strlen(text), &o->build_memory);
    case 'M':
        return number_bytes(text, strlen(text), &o->build_memory_small);
    case 'k':
        return number(text, UINT64_C(100000000), &o->keys);
    case 'n':
        if (!number(text, ROUNDS_MAX, &rounds))
            return false;
        o->rounds = (unsigned)rounds;
        return true;
    case 'R':
        return o->raw_only = true;
    default:
        return false;
    }
}

static bool complete(const struct options *o)
{
    if (o->redis_port == 0 || o->postgres == NULL)
        return false;
    return o->raw_only || (o->daemon_port != 0 && o->small_port != 0 && o->daemon_pid != 0 &&
                           o->small_pid != 0 && o->rebuild != NULL && o->rebuild_small != NULL &&
                           o->build_memory != 0 && o->build_memory_small != 0);
}

int main(int argc, char **argv)
{
    static struct bench b = {.options = {.rounds = 5, .keys = 128000}};
    int option;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        if (!take_option(&b.options, option, optarg)) {
            (void)fputs(usage, stderr);
            return 2;
        }
    if (optind != argc || !complete(&b.options)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct error e;
    enum err err = run(&b, &e);
    if (err != ERR_OK)
        (void)fprintf(stderr, "bench: %s\n", e.text);
    else if (table_missed() > 0)
        (void)printf("\n%u targets MISSED\n", table_missed());
    else if (!b.options.raw_only)
        (void)printf("\nEvery target was reached\n");
    PQfinish(b.pg);
    redisFree(b.daemon);
    redisFree(b.small);
    redisFree(b.redis);
    free(b.known);
    return err == ERR_OK && table_missed() == 0 ? 0 : 1;
}
