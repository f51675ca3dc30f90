/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_LOOP_H
#define SERVICE_KEYS_LOOP_H
/* What the threads with an event loop and a port for keys share: workers, and the HTTP thread. */
#include "service/keys/key_port.h"

/* Make an event base without locks, for use by one thread. NULL: no memory. */
struct event_base *loop_base_new(void);

/* As event_free(). NULL is fine. */
void loop_event_free(struct event *event);

/* Replace the configuration at *@held by the one in force. Call in the thread of @keys. @keys is NULL if the
 * thread has ended. */
void loop_take_config(struct service *s, struct key_port *keys, const struct config **held);
#endif
