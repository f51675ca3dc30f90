/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_HEARTBEAT_H
#define SERVICE_CONTROL_HEARTBEAT_H
/* The heartbeat: a thread that writes once a second into Redis that this coordinator is there, and how it
 * fares (shard/members/members.h). It has a connection of its own and waits for nobody else, so neither a
 * long round of the controller nor a Redis that is away makes this coordinator look dead, or slow. It also
 * has event loops load a view again that they have been behind with for two heartbeats: a message that was
 * not heard. */
#include "service/core/service.h"

struct heartbeat;
struct runner;

/* After the workers and HTTP. */
MUST_CHECK enum err heartbeat_start(struct heartbeat **out, struct service *s, struct runner *runner,
                                    struct error *e);
/* Have it write now. NULL is fine. */
void heartbeat_wake(struct heartbeat *p);
/* Take this coordinator off the list of members and end. Before HTTP and workers are freed. NULL is fine. */
void heartbeat_stop(struct heartbeat *p);
#endif
