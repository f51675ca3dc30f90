/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_TLS_H
#define SERVICE_CORE_TLS_H
/* TLS for accepted connections, and the TLS files of the configuration, also those for Redis. TLS 1.2 at
 * least. Contexts can be replaced while connections are open; these keep the context that they began with.
 * Any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <event2/bufferevent.h>
#include "base/error.h"
#include "service/config/config.h"
#include "shard/redis/wire/tls_context.h"

enum { TLS_HANDSHAKE_SECONDS = 10 };

/* The contexts for new connections. */
struct tls_contexts {
    SSL_CTX *clients; /* NULL: there is no certificate */
    SSL_CTX *redis;   /* NULL: no node uses TLS */
};

/* Read the files that the configuration names. The caller owns the contexts in *@out, and gives each to
 * tls_unload() or tls_replace(). ERR_CONFIG: "key = file: why"; *@out is empty then. */
MUST_CHECK enum err tls_load(struct tls_contexts *out, const struct config *c, struct error *e);
void tls_unload(struct tls_contexts *x);
/* Log settings of the configuration that are dangerous. */
void tls_warn(const struct config *c);

/* Make the server side of a connection, which begins with a handshake. Its event callback gets
 * BEV_EVENT_CONNECTED when the handshake has ended. Takes @fd over unless it returns NULL: no memory, or no
 * certificate. */
struct bufferevent *tls_bufferevent(struct tls *t, struct event_base *base, int fd);
/* Get the common name (CN) of the client's verified certificate. False: there is no certificate, or the name
 * does not fit. */
bool tls_client_name(struct bufferevent *io, char *out, size_t size);
/* Close TLS on a connection that is about to be freed. A connection without TLS is fine. */
void tls_farewell(struct bufferevent *io);
#endif
