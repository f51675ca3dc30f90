/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_PROXY_INTERNAL_H
#define TESTS_LIB_PROXY_INTERNAL_H
/* What proxy.c (the loop) and proxy_control.c (the functions that tests call) share. */
#include <pthread.h>

#include "base/buffer.h"
#include "tests/lib/proxy.h"

enum { CONNECTIONS_MAX = 512 };

struct route {
    enum wire_protocol protocol;
    uint16_t target;
    int listener;
    struct proxy_fault fault; /* its user points to the next member, or is NULL */
    char user[32];
    char diverted[64]; /* set by proxy_divert(); "": nobody */
    uint16_t diversion;
};

struct stream {
    struct buffer bytes;
    size_t ready; /* bytes at the beginning that are complete messages */
    uint64_t due; /* not sent before this time */
};

struct connection {
    struct route *route; /* NULL: this place is free */
    int client, server;  /* -1: closed */
    struct stream up, down;
    char user[32];
    bool started, opaque, job;
    bool held;     /* only `ready` bytes go to the server; later requests are withheld */
    bool silenced; /* nothing goes to the client any more */
    bool broken;   /* will be reset */
    uint64_t asked, answered;
    uint64_t awaited; /* number of the reply to wait for; 0: none */
    uint64_t late;    /* number of the last request that proxy_release() has delivered */
};

struct proxy {
    pthread_mutex_t lock;
    pthread_t thread;
    int wake;
    bool stopping;
    struct route routes[PROXY_ROUTES_MAX];
    unsigned route_count;
    struct connection connections[CONNECTIONS_MAX];
    bool counting, holding, is_held;
    char job_user[32];
    char job_name[32]; /* set by proxy_count_as_job() */
    char job_text[80]; /* set by proxy_count_only() */
    enum proxy_moment moment;
    uint64_t counted, hold_at;
};

/* Wake the loop, so that it checks all connections again. */
void proxy_wake(struct proxy *p);

/* Close a connection and free its place. Call with the lock held. */
void proxy_forget(struct connection *c, bool reset);

/* Reset the client's end alone. Call with the lock held. */
void proxy_close_client(struct connection *c);

/* Take the bytes that have come from the client, as far as they may go to the server. Call with the lock
 * held. */
void proxy_take_requests(struct proxy *p, struct connection *c);
#endif
