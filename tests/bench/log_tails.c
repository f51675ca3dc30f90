/* SPDX-License-Identifier: MIT */
/* What a tail read costs the main thread of Redis: an empty one with its replication id, and those of many
 * processes. Each process begins the next read as soon as it has the last one's result. */
#include "log_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "shard/log/lane_sync.h"

enum { PROCESSES_MAX = 64, READS = 20000, ROUND_US = 700000 };

static const uint8_t writer[LOG_WRITER_BYTES] = "bench";

struct tails {
    struct server server;
    struct lane lane;
    struct log_position at;
};

/* --- one caller --- */

static enum err apply(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
}

static void read_tails(struct tails *t)
{
    struct error e = {""};
    enum tail_state state = TAIL_COMPLETE;
    for (unsigned i = 0; i < READS && state == TAIL_COMPLETE; i++)
        must(lane_read(t->server.link, &t->lane, &t->at, apply, NULL, &state, &e), &e);
    if (state != TAIL_COMPLETE)
        must(error_set(&e, ERR_LOST, "%s", tail_state_name(state)), &e);
}

static void measure_one(struct tails *t)
{
    struct samples range = {0}, info = {0}, both = {0}, total = {0};
    read_tails(t);
    for (int round = 0; round < ROUNDS; round++) {
        server_ok(&t->server, "CONFIG RESETSTAT");
        double before = server_cpu(&t->server);
        read_tails(t);
        samples_add(&total, (server_cpu(&t->server) - before) * 1e6 / READS);
        samples_add(&range, server_call_us(&t->server, "xrange"));
        samples_add(&info, server_call_us(&t->server, "info"));
        samples_add(&both, range.value[round] + info.value[round]);
    }
    table_target("an empty tail read: XRANGE and INFO", samples_median(&both), "us", true, 7);
    table_beside("of that XRANGE", samples_median(&range), "us");
    table_beside("of that INFO", samples_median(&info), "us");
    table_beside("with reading and writing sockets, one process at a time", samples_median(&total), "us");
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

static void call_in_process(struct tails *t, struct shared *s)
{
    struct caller c = {.shared = s, .base = event_base_new()};
    struct async_client *store = async_client_new(c.base, &t->server.nodes, REPLY_MS, NULL);
    c.port = lane_port_new(c.base, store, REPLY_MS);
    c.reader = lane_reader_new(&t->lane, &t->at, writer,
                               &(struct lane_reader_hooks){.apply = ignore, .stalled = on_stalled}, &c);
    lane_ask(c.port, c.reader, &c.request, on_told, &c);
    (void)event_base_dispatch(c.base);
    lane_port_free(c.port);
    async_client_free(store);
    event_base_free(c.base);
    _exit(lane_reader_free(c.reader) ? 0 : 1);
}

struct crowd {
    struct samples reads, each, processor, wait;
};

static void measure_round(struct tails *t, struct shared *s, struct crowd *c)
{
    atomic_store(&s->told, 0);
    atomic_store(&s->waited_us, 0);
    double before = server_cpu(&t->server);
    uint64_t began = clock_mono_us();
    atomic_store(&s->go, true);
    clock_sleep_us(ROUND_US);
    atomic_store(&s->go, false);
    double used = server_cpu(&t->server) - before, seconds = (double)(clock_mono_us() - began) / 1e6;
    double told = (double)atomic_load(&s->told) + 1e-9;
    samples_add(&c->reads, told / seconds);
    samples_add(&c->each, used * 1e6 / told);
    samples_add(&c->processor, 100 * used / seconds);
    samples_add(&c->wait, (double)atomic_load(&s->waited_us) / told);
}

static void measure_processes(struct tails *t, unsigned processes)
{
    struct shared *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* zeroed */
    struct crowd c = {0};
    pid_t pid[PROCESSES_MAX];
    if (s == MAP_FAILED)
        exit(2);
    (void)fflush(stdout);
    for (unsigned i = 0; i < processes; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            call_in_process(t, s);
    }
    while (atomic_load(&s->connected) < processes)
        clock_sleep_us(10000);
    for (int round = 0; round < ROUNDS; round++)
        measure_round(t, s, &c);
    atomic_store(&s->stop, true);
    for (unsigned i = 0; i < processes; i++)
        (void)waitpid(pid[i], NULL, 0);
    (void)printf("          %9u  %12.0f  %13.1f  %9.0f%%  %8.0f us\n", processes, samples_median(&c.reads),
                 samples_median(&c.each), samples_median(&c.processor), samples_median(&c.wait));
    if (atomic_load(&s->wrong) > 0)
        must(ERR_CONFLICT, &(struct error){"a tail read has failed"});
    (void)munmap(s, sizeof(*s));
}

void bench_tails(const struct bench *b)
{
    static struct tails t;
    static const unsigned processes[] = {1, 4, 16, PROCESSES_MAX};
    struct error e = {""};
    struct names names;
    (void)b;
    server_start(&t.server, NULL);
    must(names_init(&names, "tb", "bench", 5, &e), &e);
    lane_key(&t.lane.key, &names, 0, 1);
    must(lane_make(t.server.link, &t.lane, writer, 1, &t.at, &e), &e);
    table_heading("Tail reads of a lane: processor of Redis", "");
    measure_one(&t);
    (void)printf("          processes  tail reads/s  us of Redis each  processor  mean wait\n");
    for (unsigned i = 0; i < sizeof(processes) / sizeof(processes[0]); i++)
        measure_processes(&t, processes[i]);
    server_stop(&t.server);
}
