/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_PROXY_INTERNAL_H
#define TESTS_LIB_PROXY_INTERNAL_H
/* What proxy.c, the loop, and proxy_control.c, the calls of a test, share. */
#include <pthread.h>

#include "base/buffer.h"
#include "tests/lib/proxy.h"

enum { CONNECTIONS_MAX = 512 };

struct route {
    enum wire_protocol protocol;
    uint16_t target;
    int listener;
    struct proxy_fault fault; /* its user points to the next field, or is NULL */
    char user[32];
};

struct stream {
    struct buffer bytes;
    size_t ready; /* so many bytes at its beginning are whole messages */
    uint64_t due; /* not before */
};

struct connection {
    struct route *route; /* NULL: free */
    int client, server;  /* -1: gone */
    struct stream up, down;
    char user[32];
    bool started, opaque, job;
    bool held;     /* nothing but what is ready goes up any more */
    bool silenced; /* nothing goes down any more */
    bool broken;   /* to be reset */
    uint64_t asked, answered;
    uint64_t awaited; /* the answer to wait for; 0: none */
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
    char job_name[32]; /* of proxy_count_as_job() */
    enum proxy_moment moment;
    uint64_t counted, hold_at;
};

/* The loop looks at everything again. */
void proxy_wake(struct proxy *p);

/* With the lock held: close a connection, and free its place. */
void proxy_forget(struct connection *c, bool reset);

/* With the lock held: take what has come from the client as far as it may go up. */
void proxy_take_requests(struct proxy *p, struct connection *c);
#endif
