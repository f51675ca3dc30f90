/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_SWAP_H
#define TESTS_FAULT_LOG_SWAP_H
/* A node whose address leads to another server from one moment to the next: it was restarted, promoted, or
 * replaced. The other server is a new process, with another replication id, and has a copy of the data that
 * was taken before, or nothing. Functions return false on failure, and say why. */
#include "tests/lib/client.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

struct swap_node {
    struct proxy *proxy;
    unsigned route;
    uint16_t port; /* of the proxy */
    struct temp_redis redis[2];
    struct client client[2];
    unsigned at;      /* the server that the address leads to, */
    bool astray;      /* unless it leads to that of another node */
    redisReply *copy; /* data that were taken; NULL: none */
};

/* Start both servers. Call swap_fini() even after an error. */
MUST_CHECK enum err swap_start(struct swap_node *n, struct proxy *p, struct error *e);
void swap_fini(struct swap_node *n);
/* The connection to the server that the address leads to. */
struct client *swap_client(struct swap_node *n);

/* Start the other server again, empty. From the main thread. */
bool swap_prepare(struct swap_node *n);
/* Copy the data, as they are at one moment. */
bool swap_copy(struct swap_node *n);
void swap_forget(struct swap_node *n);
/* Nothing passes any more until swap_over() or swap_back(). What was sent before is executed. */
void swap_hush(struct swap_node *n);
/* The address leads to the other server, which gets the copied data, if there are any. */
bool swap_over(struct swap_node *n);
/* The address leads to the server of another node. */
void swap_astray(struct swap_node *n, const struct swap_node *other);
/* The address leads to the former server again, whose data are as they were. */
void swap_back(struct swap_node *n);
#endif
