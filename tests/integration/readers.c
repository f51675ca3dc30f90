/* SPDX-License-Identifier: MIT */
#include "tests/integration/readers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

/* --- an applier: a bit for each key --- */

atomic_uchar readers_bits[KEYS];
atomic_uint readers_applied, readers_told_wrong;
static atomic_uint at_once;

bool readers_refuses;

static enum err apply(void *arg, const struct tail_record *record, uint8_t *fresh, struct error *e)
{
    (void)arg;
    if (readers_refuses)
        return error_set(e, ERR_NOMEM, "no memory to apply");
    if (atomic_fetch_add(&at_once, 1) != 0)
        atomic_fetch_add(&readers_told_wrong, 1);
    for (unsigned i = 0; i < record->entry.count; i++) {
        uint64_t key = log_entry_hash(&record->entry, i).low % KEYS;
        bool was = atomic_load_explicit(&readers_bits[key], memory_order_relaxed) != 0;
        atomic_store_explicit(&readers_bits[key], 1, memory_order_relaxed);
        if (fresh != NULL)
            fresh[i] = !was;
    }
    atomic_fetch_add(&readers_applied, 1);
    atomic_fetch_sub(&at_once, 1);
    return ERR_OK;
}

static bool counts(void *arg, uint64_t since);
static void on_stalled(void *arg, enum tail_state state);
const struct lane_reader_hooks readers_hooks = {.apply = apply, .counts = counts, .stalled = on_stalled};

/* --- fixture --- */

struct readers readers_w;

static bool counts(void *arg, uint64_t since)
{
    (void)arg;
    return readers_w.looked == 0 || readers_w.looked > since;
}

static void on_stalled(void *arg, enum tail_state state)
{
    (void)arg;
    readers_w.stalls++;
    readers_w.stalled = state;
    if (!readers_w.waits)
        lane_reader_end(readers_w.reader, ERR_CONFLICT, tail_state_name(state));
}

int readers_start(void **state)
{
    struct error e = {""};
    char url[64];
    uint16_t port;
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(&readers_w.redis, NULL, &e), e);
    must(client_open(&readers_w.client, readers_w.redis.port, REPLY_MS, &e), e);
    must(proxy_start(&readers_w.proxy, &e), e);
    must(proxy_add(readers_w.proxy, WIRE_REDIS, readers_w.redis.port, &readers_w.route, &port, &e), e);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", port);
    must(nodes_parse(&readers_w.nodes, url, &e), e);
    must(nodes_parse(&readers_w.direct, readers_w.redis.url, &e), e);
    must(names_init(&readers_w.names, "tb", "f", 1, &e), e);
    readers_w.link = sync_client_new(&readers_w.direct, REPLY_MS, NULL);
    assert_non_null(readers_w.link);
    return 0;
}

int readers_stop(void **state)
{
    (void)state;
    sync_client_free(readers_w.link);
    proxy_stop(readers_w.proxy);
    client_close(&readers_w.client);
    temp_redis_fini(&readers_w.redis);
    return 0;
}

void readers_open_port(unsigned i)
{
    readers_w.base[i] = event_base_new();
    readers_w.store[i] = async_client_new(readers_w.base[i], &readers_w.nodes, STORE_MS, NULL);
    readers_w.port[i] = lane_port_new(readers_w.base[i], readers_w.store[i], PORT_MS);
    assert_non_null(readers_w.port[i]);
}

void readers_close_port(unsigned i)
{
    if (readers_w.port[i] == NULL)
        return;
    lane_port_free(readers_w.port[i]);
    async_client_free(readers_w.store[i]);
    event_base_free(readers_w.base[i]);
    readers_w.port[i] = NULL;
}

int readers_set_up(void **state)
{
    struct error e = {""};
    (void)state;
    memset(readers_bits, 0, sizeof(readers_bits));
    readers_w.waits = readers_refuses = false;
    readers_w.stalls = 0;
    readers_w.looked = 0;
    atomic_store(&readers_applied, 0);
    atomic_store(&readers_told_wrong, 0);
    readers_w.lane = (struct lane){.where = NODE_HOME};
    lane_key(&readers_w.lane.key, &readers_w.names, 0, ++readers_w.number);
    must(lane_make(readers_w.link, &readers_w.lane, lanes_writer, 1, &readers_w.anchor, &e), e);
    readers_w.reader = lane_reader_new(&readers_w.lane, &readers_w.anchor, (const uint8_t *)"of this process",
                                       &readers_hooks, NULL);
    assert_non_null(readers_w.reader);
    readers_open_port(0);
    return 0;
}

int readers_tear_down(void **state)
{
    (void)state;
    proxy_lift(readers_w.proxy);
    readers_close_port(0);
    readers_close_port(1);
    assert_true(lane_reader_free(readers_w.reader));
    assert_int_equal(atomic_load(&readers_told_wrong), 0);
    return 0;
}

/* --- requests --- */

static void on_done(void *arg, const struct lane_result *result)
{
    struct readers_asked *a = arg;
    a->told++;
    a->took_us = clock_mono_us() - a->began;
    a->result = *result;
    (void)snprintf(a->text, sizeof(a->text), "%s", result->text);
}

struct readers_asked *readers_ask_by(unsigned port)
{
    struct readers_asked *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    a->began = clock_mono_us();
    lane_ask(readers_w.port[port], readers_w.reader, &a->request, on_done, a);
    assert_int_equal(a->told, 0);
    return a;
}

struct readers_asked *readers_add_by(unsigned port, uint64_t first, unsigned count)
{
    struct readers_asked *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    for (unsigned i = 0; i < count; i++)
        a->keys[i] = (struct key_hash){.high = 1, .low = first + i};
    a->began = clock_mono_us();
    lane_add(readers_w.port[port], readers_w.reader, &a->request, a->keys, count, a->fresh, 0, on_done, a);
    return a;
}

void readers_turn_loops(void)
{
    for (unsigned i = 0; i < 2; i++)
        if (readers_w.port[i] != NULL)
            (void)event_base_loop(readers_w.base[i], EVLOOP_NONBLOCK);
    clock_sleep_us(500);
}

/* Wait for the request's result, free the request, and return the result. */
struct lane_result readers_end_of(struct readers_asked *a)
{
    static char text[200];
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (a->told == 0) {
        if (clock_mono_us() > until)
            fail_msg("nobody was told");
        readers_turn_loops();
    }
    struct lane_result result = a->result;
    assert_int_equal(a->told, 1);
    (void)snprintf(text, sizeof(text), "%s", a->text);
    result.text = text;
    free(a);
    return result;
}

void readers_ends_as(struct readers_asked *a, enum err code)
{
    struct lane_result got = readers_end_of(a);
    if (got.code != code)
        fail_msg("%s (%s)", error_name(got.code), got.text);
}

/* on_stalled() must have ended the request. */
void readers_stalls_as(struct readers_asked *a, enum tail_state state)
{
    struct lane_result got = readers_end_of(a);
    if (got.code != ERR_CONFLICT || strcmp(got.text, tail_state_name(state)) != 0)
        fail_msg("%s (%s)", error_name(got.code), got.text);
}

uint64_t readers_calls_of(const char *command)
{
    char line[64];
    redisReply *r = client_command(&readers_w.client, "INFO commandstats");
    (void)snprintf(line, sizeof(line), "cmdstat_%s:calls=", command);
    const char *at = strstr(r->str, line);
    uint64_t calls = at == NULL ? 0 : strtoull(at + strlen(line), NULL, 10);
    freeReplyObject(r);
    return calls;
}

void readers_reset_calls(void)
{
    struct error e = {""};
    must(client_ok(&readers_w.client, &e, "CONFIG RESETSTAT"), e);
}

void readers_append_from_outside(const uint8_t *bytes, size_t length)
{
    redisReply *r = client_command(&readers_w.client, "XADD %b * e %b", readers_w.lane.key.text,
                                   readers_w.lane.key.length, bytes, length);
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    freeReplyObject(r);
}

void readers_add_from_outside(uint64_t key)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    const struct key_hash hash = {.high = 2, .low = key};
    readers_append_from_outside(bytes, log_entry_encode(bytes, lanes_writer, 100 + key, &hash, 1));
}
