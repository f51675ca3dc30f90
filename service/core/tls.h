/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_TLS_H
#define SERVICE_CORE_TLS_H
/* TLS for connections that were accepted, and what of it the configuration says, that towards Redis too:
 * files, TLS 1.2 at least. Contexts can be replaced while connections are open, which keep what they began
 * with. Safe from any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <event2/bufferevent.h>
#include "base/error.h"
#include "service/config/config.h"
#include "shard/redis/wire/tls_context.h"

enum { TLS_HANDSHAKE_SECONDS = 10 };

/* What connections begin with. */
struct tls_contexts {
    SSL_CTX *clients; /* NULL: there is no certificate */
    SSL_CTX *redis;   /* NULL: no node speaks TLS */
};

/* Read the files that the configuration names. The caller owns what is in *@out: tls_unload(), or
 * tls_replace() with each. ERR_CONFIG: "key = file: why"; *@out is empty then. */
MUST_CHECK enum err tls_load(struct tls_contexts *out, const struct config *c, struct error *e);
void tls_unload(struct tls_contexts *x);
/* Say in the log what is dangerous about it. */
void tls_warn(const struct config *c);

/* The server's side of a connection, which begins with a handshake: its callback for events gets
 * BEV_EVENT_CONNECTED when that is done. Takes @fd over where it is not NULL: no memory, or no certificate.
 */
struct bufferevent *tls_bufferevent(struct tls *t, struct event_base *base, int fd);
/* The common name (CN) of the client's certificate, which was verified; false: there is none, or none that
 * fits. */
bool tls_client_name(struct bufferevent *io, char *out, size_t size);
/* Say farewell to a connection that is about to be freed. Fine with one without TLS. */
void tls_farewell(struct bufferevent *io);
#endif
