/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DAEMON_LISTEN_H
#define SERVICE_DAEMON_LISTEN_H
/* The sockets on which Redis clients connect: TCP, TLS, and one of the file system. Connections are dealt out
 * to the workers that have the fewest. Belongs to the main thread. */
#include <event2/event.h>
#include "service/core/service.h"

struct listen;
struct workers;

/* Open all that the configuration names, or none. ERR_CONFIG, ERR_IO: "key = address: why". */
MUST_CHECK enum err listen_open(struct listen **out, struct service *s, const struct workers *workers,
                                struct event_base *base, const struct config *config, struct error *e);
/* Removes the socket's file, where it is still ours. Fine with NULL. */
void listen_close(struct listen *l);

/* How many connections there may be: as configured, and as the system lets this process open files. Where it
 * lets too few, HTTP gets a quarter of them at most. */
struct listen_room {
    uint64_t clients, http;
};
struct listen_room listen_room(struct service *s);
#endif
