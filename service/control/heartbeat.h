/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_HEARTBEAT_H
#define SERVICE_CONTROL_HEARTBEAT_H
/* The heartbeat: a thread that once a second writes to Redis that this coordinator lives, and its state
 * (shard/members/members.h). It has a connection of its own and waits for no other thread, so neither a long
 * round of the controller nor a dead Redis makes this coordinator look dead or slow. If an event loop was
 * behind with a view for two heartbeats, because it missed a message, the heartbeat has it load the view
 * again. */
#include "service/core/service.h"

struct heartbeat;
struct runner;

/* Start it after the workers and HTTP. */
MUST_CHECK enum err heartbeat_start(struct heartbeat **out, struct service *s, struct runner *runner,
                                    struct error *e);
/* Write a heartbeat now. NULL is fine. */
void heartbeat_wake(struct heartbeat *p);
/* Remove this coordinator from the list of members, and end. Before HTTP and workers are freed. NULL is
 * fine. */
void heartbeat_stop(struct heartbeat *p);
#endif
