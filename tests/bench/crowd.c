/* SPDX-License-Identifier: MIT */
/* crowd: what two rude clients cost the others. Connections check and add without pause, one request at a
 * time. Then one more client sends BF.MEXISTS of a million keys again and again, and another one sends
 * commands and reads hardly any reply. The p99 of the others with and without these two is compared within
 * each round. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "base/number.h"
#include "bench.h"
#include "stall_load.h"

enum {
    BATCH_KEYS = 1000000,
    QUESTION_KEYS = 500,
    WARM_UP_US = 1000000,
    WINDOW_US = 4000000,
    LONGEST_US = 60000000,
    SLOW_READ = 4096, /* bytes that the slow reader reads every */
    SLOW_PAUSE_US = 100000,
    CONNECTIONS = 4
};

static const double target = 2;

/* A client that sends the same bytes again and again. */
struct rude {
    pthread_t thread;
    bool started;
    redisContext *connection;
    struct buffer request;
    atomic_bool *stop;
    bool slow;
    atomic_uint batches; /* replies that were read whole */
};

struct crowd {
    const char *filter;
    uint16_t port;
    unsigned rounds;
    uint64_t known;
    struct load load;
    struct rude batch, slow;
    atomic_bool stop;
};

static void format_batch(struct buffer *out, const char *filter, unsigned keys)
{
    buffer_printf(out, "*%u\r\n$10\r\nBF.MEXISTS\r\n$%zu\r\n%s\r\n", keys + 2, strlen(filter), filter);
    for (unsigned i = 0; i < keys; i++)
        buffer_printf(out, "$11\r\nkey-%07u\r\n", i);
}

/* Send what fits. False: the connection is gone. */
static bool send_some(struct rude *r, size_t *sent)
{
    ssize_t n = send(r->connection->fd, r->request.data + *sent, r->request.length - *sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        *sent += (size_t)n;
    return n >= 0 || errno == EAGAIN;
}

static void *slow_thread(void *arg)
{
    struct rude *r = arg;
    char bytes[SLOW_READ];
    size_t sent = 0;
    while (!atomic_load(r->stop) && send_some(r, &sent)) {
        if (sent == r->request.length)
            sent = 0;
        (void)recv(r->connection->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        clock_sleep_us(SLOW_PAUSE_US);
    }
    return NULL;
}

/* Read a reply: "*1000000\r\n" and as many integers of four bytes. */
static bool read_reply(struct rude *r)
{
    static char bytes[1 << 18];
    size_t left = strlen("*1000000\r\n") + (size_t)4 * BATCH_KEYS;
    while (left > 0 && !atomic_load(r->stop)) {
        struct pollfd p = {.fd = r->connection->fd, .events = POLLIN};
        if (poll(&p, 1, 100) == 0)
            continue;
        ssize_t n = recv(r->connection->fd, bytes, left < sizeof(bytes) ? left : sizeof(bytes), 0);
        if (n <= 0)
            return false;
        left -= (size_t)n;
    }
    return left == 0;
}

static void *batch_thread(void *arg)
{
    struct rude *r = arg;
    while (!atomic_load(r->stop)) {
        size_t sent = 0;
        while (sent < r->request.length && !atomic_load(r->stop)) {
            struct pollfd p = {.fd = r->connection->fd, .events = POLLOUT};
            if (poll(&p, 1, 100) > 0 && !send_some(r, &sent))
                return NULL;
        }
        if (!read_reply(r))
            return NULL;
        atomic_fetch_add(&r->batches, 1);
    }
    return NULL;
}

static enum err rude_start(struct crowd *c, struct rude *r, unsigned keys, struct error *e)
{
    *r = (struct rude){.stop = &c->stop, .slow = keys < BATCH_KEYS};
    format_batch(&r->request, c->filter, keys);
    if (buffer_failed(&r->request))
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = observe_connect(&r->connection, c->port, TIMEOUT_MS, "the daemon", e);
    if (code != ERR_OK)
        return code;
    r->started = pthread_create(&r->thread, NULL, r->slow ? slow_thread : batch_thread, r) == 0;
    return r->started ? ERR_OK : error_set(e, ERR_NOMEM, "a thread cannot be started");
}

static void rude_end(struct rude *r)
{
    if (r->started)
        (void)pthread_join(r->thread, NULL);
    redisFree(r->connection);
    buffer_fini(&r->request);
}

static void print_line(const char *what, const struct load_figures *f)
{
    (void)printf("  %-24s %9.3f %11.1f %11.0f\n", what, f->quantile_ms, f->longest_ms,
                 (double)f->requests / (WINDOW_US / 1e6));
}

/* Wait until the batch client has a reply, because it must make progress, too. */
static enum err wait_for_batch(struct crowd *c, struct error *e)
{
    uint64_t began = clock_mono_us();
    while (atomic_load(&c->batch.batches) == 0) {
        if (clock_mono_us() - began > LONGEST_US)
            return error_set(e, ERR_TIMEOUT, "a batch was not answered within %d s", LONGEST_US / 1000000);
        clock_sleep_us(10000);
    }
    return ERR_OK;
}

static enum err one_round(struct crowd *c, unsigned round, struct samples *ratios, size_t *batches,
                          struct error *e)
{
    struct load_figures alone, crowded;
    struct error later;
    uint32_t from[2] = {0};
    atomic_store(&c->stop, false);
    enum err code = load_start(&c->load, &c->port, 1, CONNECTIONS, round, e);
    if (code == ERR_OK) {
        clock_sleep_us(WARM_UP_US);
        from[0] = load_now(&c->load);
        clock_sleep_us(WINDOW_US);
        code = rude_start(c, &c->slow, QUESTION_KEYS, e);
    }
    if (code == ERR_OK)
        code = rude_start(c, &c->batch, BATCH_KEYS, e);
    if (code == ERR_OK) {
        clock_sleep_us(WARM_UP_US);
        from[1] = load_now(&c->load);
        clock_sleep_us(WINDOW_US);
        code = wait_for_batch(c, e);
    }
    enum err stopped = load_stop(&c->load, code == ERR_OK ? e : &later);
    atomic_store(&c->stop, true);
    rude_end(&c->slow);
    rude_end(&c->batch);
    if (code == ERR_OK)
        code = stopped;
    if (code == ERR_OK) {
        load_look(&c->load, from[0], from[0] + WINDOW_US, &alone);
        load_look(&c->load, from[1], from[1] + WINDOW_US, &crowded);
        print_line("alone", &alone);
        print_line("in the crowd", &crowded);
        samples_add(ratios, crowded.quantile_ms / alone.quantile_ms);
        *batches += atomic_load(&c->batch.batches);
    }
    load_free(&c->load);
    return code;
}

static enum err run(struct crowd *c, struct error *e)
{
    struct samples ratios = {0};
    size_t batches = 0;
    enum err code = ERR_OK;
    table_heading(
        "4 connections, one request at a time; then beside a slow reader and BF.MEXISTS of 1,000,000",
        "                              p99 ms  longest ms  requests/s");
    for (unsigned round = 0; code == ERR_OK && round < c->rounds; round++)
        code = one_round(c, round, &ratios, &batches, e);
    if (code != ERR_OK)
        return code;
    (void)printf("  batches answered: %zu\n", batches);
    table_target("p99 in the crowd / alone, median of the rounds", samples_median(&ratios), "", true, target);
    return ERR_OK;
}

int main(int argc, char **argv)
{
    static struct crowd c = {.rounds = 5};
    uint64_t rounds = 5;
    bool good = argc >= 4 && argc <= 5 && observe_ports(argv[2], &c.port, 1) == 1 &&
                number_u64(argv[3], strlen(argv[3]), &c.known) && c.known > 0;
    if (good && argc == 5)
        good = number_u64(argv[4], strlen(argv[4]), &rounds) && rounds > 0 && rounds <= ROUNDS_MAX;
    if (!good) {
        (void)fputs("usage: crowd FILTER PORT KNOWN [ROUNDS]\ntests/bench/crowd starts all that it needs.\n",
                    stderr);
        return 2;
    }
    c.filter = c.load.filter = argv[1];
    c.load.known = c.known;
    c.rounds = (unsigned)rounds;
    (void)signal(SIGPIPE, SIG_IGN);
    struct error e;
    enum err code = run(&c, &e);
    if (code != ERR_OK)
        (void)fprintf(stderr, "crowd: %s\n", e.text);
    return code == ERR_OK && table_missed() == 0 ? 0 : 1;
}
