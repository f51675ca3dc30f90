/* SPDX-License-Identifier: MIT */
/* One filter of one process with four workers and a control, each in a thread, on a real Redis. Whichever
 * worker adds a key, it is new once, and present for all workers from then on; with all shards in memory,
 * with some, with none. */
#include "tests/integration/log_redis.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
    REPLY_MS = 5000,
    WORKERS = 4,
    UNDER_WAY = 6,
    BATCH = 8,
    KEYS = 4000,
    REQUESTS = 600, /* by each worker */
    SHARD_BYTES = 8192,
    LANES = 3
};

static struct log_member member; /* has the control, and a worker that sends no requests */

static _Atomic unsigned begun[KEYS], news[KEYS], unsure[KEYS];
static _Atomic uint8_t acknowledged[KEYS];
static _Atomic unsigned wrong, errors, finished; /* counts of answers, requests, workers */

struct worker;

struct job {
    struct worker *worker;
    struct key_request request;
    struct request_key keys[BATCH];
    char text[BATCH][16];
    unsigned number[BATCH];
    uint8_t answers[BATCH];
    bool promised[BATCH], adds;
};

struct worker {
    pthread_t thread;
    struct event_base *base;
    struct async_client *store;
    struct request_port *port;
    struct event *ticks; /* keeps the loop going */
    uint64_t random;
    unsigned left, under_way;
    struct job job[UNDER_WAY];
};

static unsigned draw(struct worker *w, unsigned below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (unsigned)(w->random % below);
}

static void begin_job(struct job *j);

static void take_answers(struct job *j)
{
    for (unsigned i = 0; i < BATCH; i++) {
        unsigned k = j->number[i];
        if (j->adds) {
            atomic_fetch_add(&news[k], j->answers[i] == KEY_ADDED);
            atomic_fetch_add(&unsure[k], j->answers[i] == KEY_UNSURE);
            atomic_store(&acknowledged[k], 1);
        } else if (j->promised[i] && j->answers[i] != KEY_PRESENT) {
            atomic_fetch_add(&wrong, 1);
        }
    }
}

static void on_done(void *arg, enum err code, const char *text)
{
    struct job *j = arg;
    if (code == ERR_OK)
        take_answers(j);
    else if (atomic_fetch_add(&errors, 1) == 0)
        (void)fprintf(stderr, "%s\n", text);
    j->worker->under_way--;
    begin_job(j);
}

static void begin_job(struct job *j)
{
    struct worker *w = j->worker;
    bool found = true;
    while (found && w->left > 0) {
        w->left--;
        j->adds = draw(w, 2) == 0;
        unsigned first = draw(w, KEYS);
        for (unsigned i = 0; i < BATCH; i++) {
            unsigned k = j->number[i] = (first + i) % KEYS;
            j->keys[i].bytes = j->text[i];
            j->keys[i].length = (size_t)snprintf(j->text[i], sizeof(j->text[i]), "%u", k);
            j->promised[i] = atomic_load(&acknowledged[k]) != 0;
            if (j->adds)
                atomic_fetch_add(&begun[k], 1);
        }
        found = false;
        if (j->adds)
            key_add(w->port, member.filter, &j->request, j->keys, BATCH, j->answers, NULL, on_done, j);
        else
            found = key_check(w->port, member.filter, &j->request, j->keys, BATCH, j->answers, on_done, j);
    }
    if (!found)
        w->under_way++;
    else if (w->under_way == 0)
        atomic_fetch_add(&finished, 1);
}

/* A worker without requests of its own may be reading a lane for the others. */
static void on_tick(evutil_socket_t fd, short events, void *arg)
{
    struct worker *w = arg;
    (void)fd;
    (void)events;
    if (atomic_load(&finished) == WORKERS)
        (void)event_base_loopbreak(w->base);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < UNDER_WAY; i++) {
        w->job[i].worker = w;
        begin_job(&w->job[i]);
    }
    (void)event_base_dispatch(w->base);
    return NULL;
}

static void worker_open(struct worker *w, unsigned number)
{
    const struct timeval often = {.tv_usec = 10000};
    *w = (struct worker){.random = number + 12345, .left = REQUESTS};
    w->base = event_base_new();
    w->store = async_client_new(w->base, &on.nodes, REPLY_MS, NULL);
    w->port = request_port_new(w->base, w->store, REPLY_MS);
    w->ticks = event_new(w->base, -1, EV_PERSIST, on_tick, w);
    assert_true(w->port != NULL && w->ticks != NULL && event_add(w->ticks, &often) == 0);
}

static void worker_close(struct worker *w)
{
    request_port_free(w->port);
    async_client_free(w->store);
    event_free(w->ticks);
    event_base_free(w->base);
}

static void *look_at_it(void *arg)
{
    _Atomic bool *ends = arg;
    struct log_status *s = malloc(sizeof(*s));
    while (!atomic_load(ends)) {
        control_status(member.control, s);
        clock_sleep_us(500);
    }
    free(s);
    return NULL;
}

static void with_memory(uint64_t memory)
{
    static struct worker worker[WORKERS];
    pthread_t looker;
    _Atomic bool ends = false;
    log_redis_make(100000, LANES, SHARD_BYTES);
    atomic_store(&finished, 0);
    memset(begun, 0, sizeof(begun));
    memset(news, 0, sizeof(news));
    memset(unsure, 0, sizeof(unsure));
    memset(acknowledged, 0, sizeof(acknowledged));
    log_members_open(&member, &on.nodes, &on.names, memory, true);
    assert_int_equal(pthread_create(&looker, NULL, look_at_it, &ends), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        worker_open(&worker[i], i);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(worker[i].thread, NULL), 0);
    atomic_store(&ends, true);
    assert_int_equal(pthread_join(looker, NULL), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        worker_close(&worker[i]);
    assert_int_equal(errors, 0);
    assert_int_equal(wrong, 0);
    unsigned added = 0, new_ones = 0;
    for (unsigned k = 0; k < KEYS; k++) {
        assert_true(news[k] <= 1);
        if (begun[k] == 0)
            assert_int_equal(news[k], 0);
        added += begun[k] > 0;
        new_ones += news[k] + (news[k] == 0 && unsure[k] > 0);
    }
    assert_true(added > KEYS / 2);
    assert_in_range(new_ones, added - 3, added); /* a false positive was never new */
    for (unsigned k = 0; k < KEYS; k++)
        if (begun[k] > 0)
            assert_int_equal(log_member_count(&member, k, 1, KEY_PRESENT), 1);
    log_member_close(&member);
}

static void test_four_workers__with_all_shards_in_memory(void **state)
{
    (void)state;
    with_memory(UINT64_MAX);
}

static void test_four_workers__with_some_shards_in_memory(void **state)
{
    (void)state;
    with_memory(10 * SHARD_BYTES);
}

static void test_four_workers__without_shards_in_memory(void **state)
{
    (void)state;
    with_memory(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_workers__with_all_shards_in_memory),
        cmocka_unit_test(test_four_workers__with_some_shards_in_memory),
        cmocka_unit_test(test_four_workers__without_shards_in_memory),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
