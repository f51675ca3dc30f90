/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_SOCKETS_H
#define SERVICE_CORE_SOCKETS_H
/* Sockets that listen, of one event loop. */
#include <stdbool.h>
#include <stddef.h>
#include <event2/listener.h>
#include "base/error.h"

enum { SOCKETS_MAX = 64 };

struct sockets {
    struct event_base *base;
    evconnlistener_errorcb on_error; /* a connection was not accepted */
    size_t count;
    struct evconnlistener *at[SOCKETS_MAX];
};

/* Listen at every address that @address stands for: "host:port" at those of the host, ":port" at all of IPv4
 * and of IPv6. Addresses that this machine lacks are left out, if there is another one. @key is named in
 * messages. ERR_PARSE, ERR_CONFIG, ERR_IO. After an error sockets_close() ends what was opened. */
MUST_CHECK enum err sockets_listen(struct sockets *s, const char *key, const char *address,
                                   evconnlistener_cb on_accept, void *arg, struct error *e);
/* Listen at @fd, which is bound. ERR_OK: @s owns it. ERR_CONFIG, ERR_IO. */
MUST_CHECK enum err sockets_add(struct sockets *s, int fd, evconnlistener_cb on_accept, void *arg,
                                struct error *e);
/* Whether connections are accepted; at first they are. */
void sockets_enable(struct sockets *s, bool on);
void sockets_close(struct sockets *s);
#endif
