/* SPDX-License-Identifier: MIT */
/* Requests of one process, in the loop of its worker: a fixed number under way, or a fixed number a
 * second. */
#include "log_bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"

struct slot {
    struct drive *drive;
    struct slot *next; /* of the free slots */
    struct key_request request;
    uint64_t began;
    uint8_t answers[BATCH];
};

/* --- keys --- */

static void keys_allocate(struct keys *k, uint64_t count)
{
    k->count = count;
    k->text = allocate(count * sizeof(*k->text));
    k->key = allocate(count * sizeof(*k->key));
}

static void write_key(struct keys *k, uint64_t at, uint64_t number)
{
    char text[KEY_BYTES + 1];
    (void)snprintf(text, sizeof(text), "k%015" PRIu64, number % UINT64_C(1000000000000000));
    memcpy(k->text[at], text, KEY_BYTES);
    k->key[at] = (struct request_key){.bytes = k->text[at], .length = KEY_BYTES};
}

void keys_make(struct keys *k, uint64_t first, uint64_t count)
{
    keys_allocate(k, count);
    for (uint64_t i = 0; i < count; i++)
        write_key(k, i, first + i);
}

void keys_make_mixed(struct keys *k, uint64_t below, uint64_t count)
{
    uint64_t random = 1;
    keys_allocate(k, count);
    for (uint64_t i = 0; i < count; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        write_key(k, i, (random >> 20) % below + (i % 2) * below);
    }
}

void keys_free(struct keys *k)
{
    free(k->text);
    free(k->key);
}

/* --- in the loop --- */

static void note(struct slot *s)
{
    struct drive *d = s->drive;
    uint8_t wanted = d->adds ? KEY_ADDED : KEY_PRESENT;
    for (unsigned i = 0; i < d->batch; i++)
        d->positive += s->answers[i] == wanted;
    d->requests++;
    d->under_way--;
    if (d->latencies < LATENCIES_MAX)
        d->latency[d->latencies++] =
            (struct taken){.began = s->began, .us = (uint32_t)(clock_mono_us() - s->began)};
    s->next = d->free;
    d->free = s;
}

static void pump(struct drive *d);

static void on_done(void *arg, enum err code, const char *text)
{
    struct slot *s = arg;
    if (code != ERR_OK) {
        (void)fprintf(stderr, "bench_log: a request: %s: %s\n", error_name(code), text);
        exit(2);
    }
    note(s);
    pump(s->drive);
}

static void begin(struct drive *d)
{
    struct slot *s = d->free;
    struct log_member *m = d->member;
    const struct request_key *keys = d->keys->key + (d->first + d->next) % d->keys->count;
    d->free = s->next;
    d->next += d->batch;
    d->under_way++;
    s->began = clock_mono_us();
    if (d->adds)
        key_add(m->port, m->filter, &s->request, keys, d->batch, s->answers, NULL, on_done, s);
    else if (key_check(m->port, m->filter, &s->request, keys, d->batch, s->answers, on_done, s))
        note(s);
}

static bool is_over(const struct drive *d)
{
    return d->next >= d->count || atomic_load(&d->stops);
}

static void end_if_over(struct drive *d)
{
    if (!is_over(d) || d->under_way > 0)
        return;
    if (d->timer != NULL)
        event_free(d->timer);
    d->timer = NULL;
    atomic_store(&d->done, true);
}

static void pump(struct drive *d)
{
    while (d->per_second == 0 && d->free != NULL && !is_over(d))
        begin(d);
    end_if_over(d);
}

static void on_time(evutil_socket_t fd, short events, void *arg)
{
    struct drive *d = arg;
    uint64_t due = 0;
    (void)events;
    if (read(fd, &due, sizeof(due)) != sizeof(due))
        return;
    for (; due > 0 && !is_over(d); due--) {
        if (d->free == NULL)
            d->late++;
        else
            begin(d);
    }
    end_if_over(d);
}

static void start_in_loop(void *arg)
{
    struct drive *d = arg;
    if (d->per_second > 0) {
        d->timer = event_new(d->member->base, d->timer_fd, EV_READ | EV_PERSIST, on_time, d);
        if (d->timer == NULL || event_add(d->timer, NULL) != 0)
            must(ERR_NOMEM, &(struct error){"no timer"});
    }
    d->began_us = clock_mono_us();
    pump(d);
}

/* --- from outside --- */

static int timer_of(unsigned per_second)
{
    long ns = 1000000000L / (long)per_second;
    const struct itimerspec t = {.it_interval = {.tv_nsec = ns}, .it_value = {.tv_nsec = ns}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0 || timerfd_settime(fd, 0, &t, NULL) != 0)
        must(ERR_IO, &(struct error){"no timer"});
    return fd;
}

void drive_start(struct drive *d, struct server *s)
{
    struct error e = {""};
    d->server = s;
    d->slot = allocate(d->outstanding * sizeof(*d->slot));
    d->latency = allocate(LATENCIES_MAX * sizeof(*d->latency));
    d->free = NULL;
    d->next = d->under_way = d->requests = d->positive = d->late = d->latencies = 0;
    atomic_store(&d->stops, false);
    atomic_store(&d->done, false);
    for (unsigned i = 0; i < d->outstanding; i++) {
        d->slot[i].drive = d;
        d->slot[i].next = d->free;
        d->free = &d->slot[i];
    }
    d->stalls = NULL;
    if (d->per_second > 0) {
        d->timer_fd = timer_of(d->per_second);
        d->stalls = allocate(sizeof(*d->stalls));
        stalls_start(d->stalls);
    }
    d->own = thread_cpu(d->member->worker);
    d->redis = server_cpu(s);
    must(mailbox_post(d->member->mailbox, start_in_loop, d), &e);
}

static int compare(const void *a, const void *b)
{
    const struct taken *x = a, *y = b;
    return (x->us > y->us) - (x->us < y->us);
}

/* Leave out the requests that a stall touched. */
static void leave_stalled(struct drive *d)
{
    unsigned left = 0;
    stalls_stop(d->stalls);
    for (unsigned i = 0; i < d->latencies; i++)
        if (!stalls_touch(d->stalls, d->latency[i].began, d->latency[i].began + d->latency[i].us))
            d->latency[left++] = d->latency[i];
    d->stalled = d->latencies > 0 ? 1 - (double)left / d->latencies : 0;
    d->latencies = left;
    free(d->stalls);
}

void drive_wait(struct drive *d)
{
    while (!atomic_load(&d->done))
        clock_sleep_us(2000);
    d->seconds = (double)(clock_mono_us() - d->began_us) / 1e6;
    d->own = thread_cpu(d->member->worker) - d->own;
    d->redis = server_cpu(d->server) - d->redis;
    if (d->stalls != NULL)
        leave_stalled(d);
    qsort(d->latency, d->latencies, sizeof(*d->latency), compare);
    if (d->latencies > 0) {
        size_t median = d->latencies / 2, late = (size_t)d->latencies * 99 / 100;
        d->p50 = d->latency[median].us;
        d->p99 = d->latency[late].us;
    }
    if (d->per_second > 0)
        (void)close(d->timer_fd);
    free(d->slot);
    free(d->latency);
}

void drive_stop(struct drive *d)
{
    atomic_store(&d->stops, true); /* the loop ends with the next reply, or when its timer fires */
    drive_wait(d);
}

void drive_run(struct drive *d, struct server *s)
{
    drive_start(d, s);
    drive_wait(d);
}
