/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_REQUEST_PORT_H
#define SHARD_REQUEST_REQUEST_PORT_H
/* A worker's place for requests: its event loop, its connections, the deadlines of its requests, and telling
 * them in its thread. */
#include <stdint.h>
#include <event2/event.h>
#include "shard/redis/async_client.h"

struct request_port;

/* @base and @store are borrowed; all calls, but this one, are made in the thread that runs @base. A request
 * is told after @timeout_ms at the latest. NULL: no memory. */
struct request_port *request_port_new(struct event_base *base, struct async_client *async,
                                      unsigned timeout_ms);
/* The next request begins at @now (clock_mono_us()); it and those behind it have @timeout_us. */
void request_port_set_timeout(struct request_port *p, uint64_t now, uint64_t timeout_us);
/* Requests that are under way get no more time than that from now on. */
void request_port_bound(struct request_port *p, uint64_t timeout_us);
/* Before the store is freed. Requests are told ERR_CANCELLED. NULL is fine. */
void request_port_free(struct request_port *p);
#endif
