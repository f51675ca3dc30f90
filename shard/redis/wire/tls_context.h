/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_TLS_CONTEXT_H
#define SHARD_REDIS_WIRE_TLS_CONTEXT_H
/* What both sides of TLS have in common, that towards clients and that towards Redis: a context made of PEM
 * files, which can be replaced while connections are open, and texts of errors. */
#include <openssl/ssl.h>
#include "base/error.h"

/* A context of @method, TLS 1.2 at least, whose sessions take partial writes from buffers that move. NULL: no
 * memory. */
SSL_CTX *tls_context_new(const SSL_METHOD *method);

/* A PEM file with a certificate, then those of its issuers, and one with its private key, not encrypted.
 * @cert_key and @private_key are what the configuration calls them. ERR_CONFIG: "key = file: why". */
MUST_CHECK enum err tls_context_identify(SSL_CTX *x, const char *cert_key, const char *cert,
                                         const char *private_key, const char *file, struct error *e);

/* ERR_CONFIG "@key = @file: why; remedy", from what OpenSSL has queued in this thread. */
enum err tls_context_refuse(const char *key, const char *file, struct error *e);

/* Why the last call of OpenSSL in this thread failed; NULL: it does not say. Its queue of errors is empty
 * afterwards. */
const char *tls_context_reason(void);

/* A context that connections begin with and that can be put in another's place; connections that are open
 * keep theirs. Safe from any thread. */
struct tls;

/* NULL: no memory. */
struct tls *tls_new(void);
void tls_free(struct tls *t);
/* Take @context (may be NULL) over for connections from now on. */
void tls_replace(struct tls *t, SSL_CTX *context);
/* For one connection, to be freed with SSL_free(). NULL: no memory, or no context. */
SSL *tls_session(struct tls *t);
#endif
