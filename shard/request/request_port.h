/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_REQUEST_PORT_H
#define SHARD_REQUEST_REQUEST_PORT_H
/* A worker's place for requests: its event loop, its connections, the deadlines of its requests, and their
 * callbacks, which run in its thread. */
#include <stdint.h>
#include <event2/event.h>
#include "shard/redis/async_client.h"

struct request_port;

/* @base and @async are borrowed. All other calls are made in the thread that runs @base. A request ends after
 * @timeout_ms at the latest. NULL: no memory. */
struct request_port *request_port_new(struct event_base *base, struct async_client *async,
                                      unsigned timeout_ms);
/* The next request begins at @now (clock_mono_us()); it and later ones have @timeout_us. */
void request_port_set_timeout(struct request_port *p, uint64_t now, uint64_t timeout_us);
/* Requests that are under way get at most @timeout_us more from now on. */
void request_port_bound(struct request_port *p, uint64_t timeout_us);
/* As lane_port_rest(). */
void request_port_rest(struct request_port *p);
/* Call it before the client is freed. Pending requests get ERR_CANCELLED. @p may be NULL. */
void request_port_free(struct request_port *p);
#endif
