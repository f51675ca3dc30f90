/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_LOOP_H
#define SERVICE_KEYS_LOOP_H
/* What threads with an event loop and a port for keys have in common: workers, and the thread that serves
 * HTTP. */
#include <event2/event.h>
#include "service/keys/key_port.h"
#include "service/core/service.h"

/* Without locks: one thread uses it. NULL: no memory. */
struct event_base *loop_base_new(void);

/* The port of a thread; @held is where the thread keeps the configuration that it holds, as policies are
 * asked for under whatever lies there then. NULL: no memory. */
struct key_port *loop_keys_new(struct service *s, struct event_base *base, const struct config *const *held);

/* In the thread of @keys (NULL where it has ended): hold the configuration in force instead of what lies at
 * *@held. */
void loop_take_config(struct service *s, struct key_port *keys, const struct config **held);
#endif
