/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_TLS_CONTEXT_H
#define SHARD_REDIS_WIRE_TLS_CONTEXT_H
/* What TLS towards clients and towards Redis share: a context made from PEM files, which can be replaced
 * while connections are open, and error texts. */
#include <openssl/ssl.h>
#include "base/error.h"

/* A context of @method for TLS 1.2 or later. Its sessions accept partial writes, and buffers that move. NULL:
 * no memory. */
SSL_CTX *tls_context_new(const SSL_METHOD *method);

/* @cert: a PEM file with a certificate and then those of its issuers. @file: a PEM file with its private key,
 * unencrypted. @cert_key and @private_key: the configuration's names for them. ERR_CONFIG: "key = file:
 * why". */
MUST_CHECK enum err tls_context_identify(SSL_CTX *x, const char *cert_key, const char *cert,
                                         const char *private_key, const char *file, struct error *e);

/* ERR_CONFIG "@key = @file: why; remedy". The reason comes from the queue of OpenSSL's errors in this
 * thread. */
enum err tls_context_refuse(const char *key, const char *file, struct error *e);

/* Why the last call of OpenSSL in this thread failed; NULL: unknown. Empties OpenSSL's queue of errors. */
const char *tls_context_reason(void);

/* A context for new connections, which can be replaced; open connections keep theirs. Any thread may call. */
struct tls;

/* NULL: no memory. */
struct tls *tls_new(void);
void tls_free(struct tls *t);
/* Use @context (or NULL), which is taken over, for new connections. */
void tls_replace(struct tls *t, SSL_CTX *context);
/* A session for one connection; free it with SSL_free(). NULL: no memory, or no context. */
SSL *tls_session(struct tls *t);
#endif
