/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_KEY_PORT_H
#define SERVICE_KEYS_KEY_PORT_H
/* An event loop's place for operations on keys (key_operation.h): its connections to Redis, and the filters
 * that its requests name. Belongs to one thread; nothing is locked. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include "base/error.h"
#include "base/pool.h"
#include "shard/redis/nodes/latency.h"
#include "shard/request/filters.h"
#include "shard/request/request_port.h"
#include "shard/redis/async_client.h"

/* What the configuration says of a filter. */
struct filter_policy {
    bool configured;
    bool sourced;       /* rows in Postgres are the truth: what is lost comes back by a rebuild */
    bool error_on_lost; /* answer an error instead of "maybe" */
    unsigned add_acks;  /* replicas that must have an add before it is acknowledged */
    bool add_fsync;     /* and disks */
};

struct key_port_options {
    struct event_base *base;
    const struct nodes *nodes; /* borrowed, as all that follows */
    struct filters *filters;
    const char *prefix;
    struct latency *latency; /* how long Redis takes is recorded there */
    unsigned redis_timeout_ms;
    unsigned timeout_ms; /* of an operation */
    struct filter_policy (*policy)(void *policy_arg, const char *name, size_t length);
    void *policy_arg;
    /* There is such a filter, as some port of this process found: its absence is a loss from now on. Called
     * for each incarnation. */
    void (*on_seen)(void *arg, const char *name, size_t length, uint64_t incarnation);
    void *arg;
};

/* A filter as requests name it. */
struct key_filter {
    struct key_port *port;
    struct filter_policy policy;
    bool seen; /* there was such a filter */
    size_t name_length;
    char *name;
    void *meter;              /* of whoever counts its answers; NULL at first */
    struct open_filter *open; /* NULL: not yet */
    size_t users;             /* operations and batches that name it */
    struct key_filter *next;  /* of the hash chain */
};

struct key_port;

/* NULL: no memory. */
struct key_port *key_port_new(const struct key_port_options *o);
/* The configuration has changed: operations under way get no more time than new ones, and the policy of every
 * filter is asked for again. */
void key_port_configure(struct key_port *p, unsigned timeout_ms);
/* Operations still running are finished with ERR_CANCELLED. NULL is fine. */
void key_port_free(struct key_port *p);

/* The entry of a filter, made if needed. ERR_RANGE: the name is too long. The entry lives until the port is
 * freed or its filter turns out not to exist. */
MUST_CHECK enum err key_port_find(struct key_port *p, const char *name, size_t length,
                                  struct key_filter **out, struct error *e);
void key_filter_use(struct key_filter *f);
void key_filter_unuse(struct key_filter *f);

struct async_client *key_port_redis(const struct key_port *p);

/* --- for key_operation.c --- */
enum { KEY_OPERATION_BYTES = 2048, KEY_OPERATION_ONE_KEY = 64 };
/* Where operations come from: blocks of KEY_OPERATION_BYTES. */
struct pool *key_port_operations(struct key_port *p);
const struct key_port_options *key_port_options(const struct key_port *p);
struct request_port *key_port_requests(const struct key_port *p);
#endif
