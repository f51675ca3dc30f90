/* SPDX-License-Identifier: MIT */
/* bench_lane: what a lane costs the main thread of Redis: an empty tail read with INFO, appends of 1, 100 and
 * 128 keys, and many processes that ask at once, each for the next tail read as soon as it was told of the
 * last. */
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/info.h"
#include "base/number.h"
#include "shard/log/lane_reader.h"
#include "shard/log/lane_sync.h"
#include "tests/lib/client.h"
#include "tests/lib/temp_redis.h"

enum { TIMEOUT_MS = 10000, PROCESSES_MAX = 64, TARGET_US = 7, CYCLES_MAX = 1000000 };

static const uint8_t writer[LOG_WRITER_BYTES] = "bench";

struct bench {
    struct temp_redis redis;
    struct client client;
    struct nodes nodes;
    struct link *link;
    struct lane lane;
    struct log_position at;
    uint64_t sequence;
    unsigned cycles, seconds;
};

static void must(enum err code, const struct error *e)
{
    if (code == ERR_OK)
        return;
    (void)fprintf(stderr, "bench_lane: %s\n", e->text);
    exit(2);
}

/* --- what Redis says --- */

/* A number of INFO; 0: it has none such. */
static double info_number(struct bench *b, const char *section, const char *name)
{
    size_t n = 0;
    double value = 0;
    redisReply *r = client_command(&b->client, "INFO %s", section);
    const char *text = r == NULL ? NULL : info_value(r->str, r->len, name, &n);
    if (text != NULL)
        value = strtod(text, NULL);
    freeReplyObject(r);
    return value;
}

/* Seconds of the main thread; of all threads, where an old server does not say. */
static double cpu(struct bench *b)
{
    double main_thread = info_number(b, "cpu", "used_cpu_user_main_thread");
    if (main_thread == 0)
        return info_number(b, "cpu", "used_cpu_user") + info_number(b, "cpu", "used_cpu_sys");
    return main_thread + info_number(b, "cpu", "used_cpu_sys_main_thread");
}

/* Microseconds of a call, as the server counts them. */
static double per_call(struct bench *b, const char *command)
{
    char name[64];
    size_t n = 0;
    double us = 0;
    (void)snprintf(name, sizeof(name), "cmdstat_%s", command);
    redisReply *r = client_command(&b->client, "INFO commandstats");
    const char *text = r == NULL ? NULL : info_value(r->str, r->len, name, &n);
    const char *at = text == NULL ? NULL : strstr(text, "usec_per_call=");
    if (at != NULL)
        us = strtod(at + strlen("usec_per_call="), NULL);
    freeReplyObject(r);
    return us;
}

static void reset(struct bench *b)
{
    struct error e = {""};
    must(client_ok(&b->client, &e, "CONFIG RESETSTAT"), &e);
}

/* --- one caller --- */

static enum err apply(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
}

static void read_tails(struct bench *b)
{
    struct error e = {""};
    enum tail_state state = TAIL_COMPLETE;
    for (unsigned i = 0; i < b->cycles && state == TAIL_COMPLETE; i++)
        must(lane_read(b->link, &b->lane, &b->at, apply, NULL, &state, &e), &e);
    if (state != TAIL_COMPLETE)
        must(error_set(&e, ERR_LOST, "%s", tail_state_name(state)), &e);
}

static bool measure_reads(struct bench *b)
{
    read_tails(b);
    reset(b);
    double before = cpu(b);
    read_tails(b);
    double total = (cpu(b) - before) * 1e6 / b->cycles, range = per_call(b, "xrange"),
           info = per_call(b, "info");
    bool ok = range + info <= TARGET_US;
    (void)printf("empty tail read: XRANGE %.2f us + INFO %.2f us = %.2f us (%s: at most %d); with sockets "
                 "%.1f us of the "
                 "main thread\n",
                 range, info, range + info, ok ? "OK" : "MISSED", TARGET_US, total);
    return ok;
}

static void measure_appends(struct bench *b, unsigned keys)
{
    struct key_hash hashes[LOG_KEYS_MAX];
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct error e = {""};
    enum tail_state state = TAIL_COMPLETE;
    struct lane_trimmed trimmed;
    reset(b);
    double before = cpu(b);
    for (unsigned i = 0; i < b->cycles; i++) {
        for (unsigned k = 0; k < keys; k++)
            hashes[k] = (struct key_hash){.high = i * UINT64_C(0x9e3779b97f4a7c15), .low = k};
        size_t length = log_entry_encode(bytes, writer, ++b->sequence, hashes, keys);
        must(lane_append(b->link, &b->lane, &b->at, bytes, length, TIMEOUT_MS, apply, NULL, &state, &e), &e);
        struct log_mark mark = log_mark_of(&b->at);
        if (i % 4096 == 0)
            must(lane_trim(b->link, &b->lane, &mark, &trimmed, &e), &e);
    }
    (void)printf("append of %3u keys: XADD %5.2f us, XRANGE %5.2f us, INFO %.2f us; with sockets %.1f us\n",
                 keys, per_call(b, "xadd"), per_call(b, "xrange"), per_call(b, "info"),
                 (cpu(b) - before) * 1e6 / b->cycles);
}

/* --- many processes --- */

struct shared {
    atomic_bool go, stop;
    atomic_uint connected;
    atomic_ullong told, wrong, waited_us;
};

struct caller {
    struct shared *shared;
    struct lane_port *port;
    struct lane_reader *reader;
    struct lane_request request;
    struct event_base *base;
    uint64_t began;
};

static enum err ignore(void *arg, const struct tail_record *record, uint8_t *fresh, struct error *e)
{
    (void)arg;
    (void)record;
    (void)fresh;
    (void)e;
    return ERR_OK;
}

static void on_stalled(void *arg, enum tail_state state)
{
    struct caller *c = arg;
    lane_reader_end(c->reader, ERR_CONFLICT, tail_state_name(state));
}

static void on_told(void *arg, const struct lane_result *result)
{
    struct caller *c = arg;
    struct shared *s = c->shared;
    uint64_t now = clock_mono_us();
    if (atomic_load(&s->go)) {
        atomic_fetch_add(&s->told, 1);
        atomic_fetch_add(&s->waited_us, now - c->began);
        if (result->code != ERR_OK)
            atomic_fetch_add(&s->wrong, 1);
    }
    if (c->began == 0)
        atomic_fetch_add(&s->connected, 1);
    c->began = now;
    if (atomic_load(&s->stop))
        (void)event_base_loopbreak(c->base);
    else
        lane_ask(c->port, c->reader, &c->request, on_told, c);
}

static void call_in_process(struct bench *b, struct shared *s)
{
    struct caller c = {.shared = s, .base = event_base_new()};
    struct store *store = store_new(c.base, &b->nodes, TIMEOUT_MS, NULL);
    c.port = lane_port_new(c.base, store, TIMEOUT_MS);
    c.reader = lane_reader_new(&b->lane, &b->at, writer, &(struct lane_reader_hooks){ignore, on_stalled}, &c);
    lane_ask(c.port, c.reader, &c.request, on_told, &c);
    (void)event_base_dispatch(c.base);
    lane_port_free(c.port);
    store_free(store);
    event_base_free(c.base);
    _exit(lane_reader_free(c.reader) ? 0 : 1);
}

static void measure_processes(struct bench *b, unsigned processes)
{
    struct shared *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* zeroes */
    pid_t pid[PROCESSES_MAX];
    if (s == MAP_FAILED)
        exit(2);
    (void)fflush(stdout);
    for (unsigned i = 0; i < processes; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            call_in_process(b, s);
    }
    while (atomic_load(&s->connected) < processes)
        clock_sleep_us(10000);
    double before = cpu(b);
    uint64_t began = clock_mono_us();
    atomic_store(&s->go, true);
    for (uint64_t end = began + b->seconds * 1000000ull; clock_mono_us() < end;)
        clock_sleep_us(50000);
    atomic_store(&s->go, false);
    double used = cpu(b) - before, seconds = (double)(clock_mono_us() - began) / 1e6;
    double told = (double)atomic_load(&s->told);
    atomic_store(&s->stop, true);
    for (unsigned i = 0; i < processes; i++)
        (void)waitpid(pid[i], NULL, 0);
    (void)printf("%9u  %12.0f  %13.1f  %9.0f%%  %8.0f us  %llu\n", processes, told / seconds,
                 told == 0 ? 0 : used * 1e6 / told, 100 * used / seconds,
                 told == 0 ? 0 : (double)atomic_load(&s->waited_us) / told,
                 (unsigned long long)atomic_load(&s->wrong));
    (void)munmap(s, sizeof(*s));
}

/* --- */

static void start(struct bench *b)
{
    struct error e = {""};
    struct names names;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(&b->redis, NULL, &e), &e);
    must(client_open(&b->client, b->redis.port, TIMEOUT_MS, &e), &e);
    must(nodes_parse(&b->nodes, b->redis.url, &e), &e);
    must(names_init(&names, "tb", "bench", 5, &e), &e);
    b->link = link_new(&b->nodes, TIMEOUT_MS, NULL);
    if (b->link == NULL)
        must(error_set(&e, ERR_NOMEM, "out of memory"), &e);
    lane_key(&b->lane.key, &names, 0, 1);
    must(lane_make(b->link, &b->lane, writer, ++b->sequence, &b->at, &e), &e);
}

int main(int argc, char **argv)
{
    static struct bench b = {.cycles = 50000, .seconds = 5};
    static const struct option options[] = {{"cycles", required_argument, NULL, 'c'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    int option;
    uint64_t value = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == '?' || !number_u64(optarg, strlen(optarg), &value) || value == 0 ||
            value > CYCLES_MAX) {
            (void)fputs("usage: bench_lane [--cycles N] [--seconds N]\n", stderr);
            return 2;
        }
        *(option == 'c' ? &b.cycles : &b.seconds) = (unsigned)value;
    }
    start(&b);
    bool ok = measure_reads(&b);
    static const unsigned keys[] = {1, 100, LOG_KEYS_MAX}, processes[] = {1, 4, 16, PROCESSES_MAX};
    for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        measure_appends(&b, keys[i]);
    (void)printf("\nprocesses  tail reads/s  us of Redis each   processor  mean wait  errors\n");
    for (unsigned i = 0; i < sizeof(processes) / sizeof(processes[0]); i++)
        measure_processes(&b, processes[i]);
    link_free(b.link);
    client_close(&b.client);
    temp_redis_fini(&b.redis);
    return ok ? 0 : 1;
}
