/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_TLS_H
#define SERVICE_TLS_H
/* TLS for connections that were accepted: certificates as the configuration names them, TLS 1.2 at least.
 * They can be replaced while connections are open, which keep what they began with. Safe from any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <event2/bufferevent.h>
#include <openssl/ssl.h>
#include "base/error.h"
#include "service/config.h"

enum { TLS_HANDSHAKE_SECONDS = 10 };

struct tls;

/* Read the files that the configuration names. The caller owns *@out (SSL_CTX_free()), NULL where there is no
 * certificate. ERR_CONFIG: "key = file: why". */
MUST_CHECK enum err tls_load(SSL_CTX **out, const struct config *c, struct error *e);

/* NULL: no memory. */
struct tls *tls_new(void);
void tls_free(struct tls *t);
/* Take @context (may be NULL) over for connections from now on. */
void tls_replace(struct tls *t, SSL_CTX *context);

/* The server's side of a connection, which begins with a handshake: its callback for events gets
 * BEV_EVENT_CONNECTED when that is done. Takes @fd over where it is not NULL: no memory, or no certificate.
 */
struct bufferevent *tls_bufferevent(struct tls *t, struct event_base *base, int fd);
/* For whoever makes the bufferevent itself; to be freed with SSL_free(). NULL likewise. */
SSL *tls_session(struct tls *t);
/* The common name (CN) of the client's certificate, which was verified; false: there is none, or none that
 * fits. */
bool tls_client_name(struct bufferevent *io, char *out, size_t size);
/* Say farewell to a connection that is about to be freed. Fine with one without TLS. */
void tls_farewell(struct bufferevent *io);
#endif
