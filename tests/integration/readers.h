/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_READERS_H
#define TESTS_INTEGRATION_READERS_H
/* A lane on a Redis behind a proxy, its reader, and up to two ports whose loops the test runs. Keys are
 * numbers below KEYS; the applier has a bit for each. */
#include <stdatomic.h>
#include "tests/integration/lanes.h"

#include "shard/log/lane_reader.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

enum { REPLY_MS = 5000, STORE_MS = 400, PORT_MS = 2000, GUARD_MS = 20000, KEYS = 4096 };

struct readers {
    struct temp_redis redis;
    struct client client;
    struct proxy *proxy;
    unsigned route;
    struct nodes nodes; /* through the proxy */
    struct nodes direct;
    struct sync_client *link;
    struct names names;
    struct lane lane;
    struct log_position anchor;
    struct lane_reader *reader;
    struct event_base *base[2];
    struct async_client *store[2];
    struct lane_port *port[2];
    uint64_t number;
    bool waits; /* a request that stalls waits; else it gets its result */
    unsigned stalls;
    enum tail_state stalled;
    uint64_t looked; /* connections from before this time count; 0: all do */
};

extern struct readers readers_w;
extern atomic_uchar readers_bits[KEYS];
extern atomic_uint readers_applied; /* entries */
extern atomic_uint
    readers_told_wrong;      /* how often the reader broke a rule, e.g. by applying two entries at once */
extern bool readers_refuses; /* the applier refuses entries */
extern const struct lane_reader_hooks readers_hooks;

/* Setup of a group, and of each test; one port is open. */
int readers_start(void **state);
int readers_stop(void **state);
int readers_set_up(void **state);
int readers_tear_down(void **state);
void readers_open_port(unsigned i);
void readers_close_port(unsigned i);

/* A request. The function that waits for its result frees it. */
struct readers_asked {
    struct lane_request request;
    struct key_hash keys[KEYS];
    uint8_t fresh[KEYS];
    unsigned told;
    uint64_t took_us, began;
    struct lane_result result;
    char text[200];
};
struct readers_asked *readers_ask_by(unsigned port);
struct readers_asked *readers_add_by(unsigned port, uint64_t first, unsigned count);
void readers_turn_loops(void);
/* Wait for the request's result, free the request, and return the result. */
struct lane_result readers_end_of(struct readers_asked *a);
void readers_ends_as(struct readers_asked *a, enum err code);
/* The lane must have stalled with @state, and the request must have got that result. */
void readers_stalls_as(struct readers_asked *a, enum tail_state state);

/* How many of these commands Redis has executed since the reset. */
uint64_t readers_calls_of(const char *command);
void readers_reset_calls(void);
/* Append an entry as another process would. */
void readers_add_from_outside(uint64_t key);
/* Append these @length bytes as an entry. */
void readers_append_from_outside(const uint8_t *bytes, size_t length);
#endif
