/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_SOCKETS_H
#define SERVICE_CORE_SOCKETS_H
/* Sockets that listen, of one event loop. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <event2/listener.h>
#include "base/error.h"

enum { SOCKETS_MAX = 64 };

struct sockets {
    struct event_base *base;
    evconnlistener_errorcb on_error; /* a connection was not accepted: calls sockets_not_accepted() */
    uint64_t failed_us;              /* when that was last; 0: never */
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
/* A connection was not accepted: errno says why. Mostly no descriptors are left, and to try again at once
 * would only burn the processor, so no more are accepted until sockets_enable(). Logged when it begins. @via
 * is logged, too. */
void sockets_not_accepted(struct sockets *s, const char *via);
/* Whether connections are accepted; at first they are. */
void sockets_enable(struct sockets *s, bool on);
void sockets_close(struct sockets *s);

/* --- addresses of clients as text --- */

enum { ADDRESS_TEXT_MAX = 64 };

/* Write "host:port" in numbers, "[host]:port" for IPv6, as Redis does. "": it is no such address. */
void address_text(const struct sockaddr *address, socklen_t length, char out[ADDRESS_TEXT_MAX]);

/* Write the host of such a text, without brackets. */
void address_host(const char *text, char out[ADDRESS_TEXT_MAX]);
#endif
