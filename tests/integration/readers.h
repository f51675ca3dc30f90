/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_READERS_H
#define TESTS_INTEGRATION_READERS_H
/* A lane on a Redis behind a proxy, its reader, and up to two ports whose loops the test turns. Keys are
 * numbers below KEYS; an applier has a bit for each. */
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
    struct nodes nodes; /* by the proxy */
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
    bool waits; /* who stalls waits; else it is told */
    unsigned stalls;
    enum tail_state stalled;
    uint64_t looked; /* connections count that were there before; 0: all do */
};

extern struct readers readers_w;
extern atomic_uchar readers_bits[KEYS];
extern atomic_uint readers_applied;    /* entries */
extern atomic_uint readers_told_wrong; /* two entries were applied at once, say */
extern bool readers_refuses;           /* the applier */
extern const struct lane_reader_hooks readers_hooks;

/* Of a group, and of each test; one port is open. */
int readers_start(void **state);
int readers_stop(void **state);
int readers_set_up(void **state);
int readers_tear_down(void **state);
void readers_open_port(unsigned i);
void readers_close_port(unsigned i);

/* A request; freed by what waits for its end. */
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
/* Until it is told; frees it and gives back what it was told. */
struct lane_result readers_end_of(struct readers_asked *a);
void readers_ends_as(struct readers_asked *a, enum err code);
/* The lane has stalled, and who waited was told. */
void readers_stalls_as(struct readers_asked *a, enum tail_state state);

/* Commands that Redis has executed since the reset. */
uint64_t readers_calls_of(const char *command);
void readers_reset_calls(void);
/* An entry of another process. */
void readers_add_from_outside(uint64_t key);
/* These @length bytes, as an entry. */
void readers_append_from_outside(const uint8_t *bytes, size_t length);
#endif
