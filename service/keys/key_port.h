/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_KEY_PORT_H
#define SERVICE_KEYS_KEY_PORT_H
/* What an event loop needs for operations on keys (key_operation.h): its connections to Redis, and the
 * filters that its requests name. A port belongs to one thread; there are no locks. */
#include <stdbool.h>
#include <stddef.h>
#include <event2/event.h>
#include "base/error.h"
#include "base/pool.h"
#include "service/core/service.h"
#include "shard/control/filters.h"
#include "shard/request/request_port.h"
#include "shard/redis/async_client.h"

/* What the configuration says about a filter. */
struct filter_policy {
    bool configured;
    bool sourced;       /* the filter has a table in Postgres, so a rebuild restores what is lost */
    bool error_on_lost; /* answer an error instead of "maybe" */
    unsigned add_acks;  /* number of replicas that must have an add before it is acknowledged */
    bool add_fsync;     /* these replicas must also have written the add to disk */
};

/* A filter by the name that requests use. */
struct key_filter {
    struct key_port *port;
    struct filter_policy policy;
    bool seen; /* the filter has been found before */
    size_t name_length;
    char *name;
    void *meter;              /* belongs to the code that counts the filter's answers; NULL at first */
    struct open_filter *open; /* NULL: not opened yet */
    size_t users;             /* number of operations and batches that use this entry */
    struct key_filter *next;  /* next entry of the hash chain */
};

struct key_port;

/* @config points to the configuration that the thread of @base holds. NULL: no memory. */
struct key_port *key_port_new(struct service *s, struct event_base *base, const struct config *const *config);
/* The configuration has changed. Operations under way get no more time than new ones, and the policy of every
 * filter is looked up again. */
void key_port_configure(struct key_port *p);
/* End running operations with ERR_CANCELLED and free the port. NULL is fine. */
void key_port_free(struct key_port *p);

/* Find the entry of a filter, or make it. ERR_RANGE: the name is too long. The entry lives until the port is
 * freed, or until its filter is found not to exist, or is over, unless it is in use (key_filter_use()). */
MUST_CHECK enum err key_port_find(struct key_port *p, const char *name, size_t length,
                                  struct key_filter **out, struct error *e);
/* True if the entry had a filter open that is over; it has none any more. */
bool key_filter_close_if_over(struct key_filter *f);
void key_filter_use(struct key_filter *f);
void key_filter_unuse(struct key_filter *f);

struct async_client *key_port_redis(const struct key_port *p);

/* --- for this room --- */
enum { KEY_OPERATION_BYTES = 2048, KEY_OPERATION_ONE_KEY = 64, KEY_PORT_BUCKETS = 4096 };

struct key_port {
    struct service *service;
    const struct config *const *config; /* of its thread */
    struct async_client *async;
    struct request_port *requests;
    struct pool operations; /* the memory of operations, in blocks of KEY_OPERATION_BYTES */
    struct event *second;
    unsigned ended; /* filters_ended() when the entries were last looked at */
    bool closing;
    struct key_filter *bucket[KEY_PORT_BUCKETS];
};
#endif
