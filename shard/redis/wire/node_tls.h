/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_NODE_TLS_H
#define SHARD_REDIS_WIRE_NODE_TLS_H
/* TLS towards Redis: which authorities to trust, which certificate to show, which name to expect. */
#include <stdbool.h>
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/wire/tls_context.h"

/* "" in any text: not set. */
struct node_tls_options {
    const char *ca_file; /* authorities, PEM; with neither ca_file nor ca_dir those of the system */
    const char *ca_dir;  /* authorities, a directory with hashed names (openssl rehash) */
    const char *cert_file, *key_file; /* for servers that ask for a certificate */
    const char *server_name;          /* the name in the certificates of all nodes; "": that of each node's
                                       * URL */
    bool verify;                      /* false: certificates are not verified */
};

/* Read the files. The caller owns *@out (SSL_CTX_free()), and passes it to tls_replace(). ERR_CONFIG:
 * "tls_... = file: why". */
MUST_CHECK enum err node_tls_load(SSL_CTX **out, const struct node_tls_options *o, struct error *e);

/* A session for one connection to @n over @fd; free it with SSL_free(). NULL: no memory, or @t is NULL or
 * empty. */
SSL *node_tls_session(struct tls *t, const struct node *n, int fd);

/* What to do after a call on @ssl that moved no byte. */
enum node_tls_want {
    NODE_TLS_READ,  /* call again when the socket is readable */
    NODE_TLS_WRITE, /* call again when the socket is writable */
    NODE_TLS_END,   /* the server closed the connection */
    NODE_TLS_FAULT  /* the connection broke; the text says why */
};
enum node_tls_want node_tls_judge(SSL *ssl, int result, struct error *e);
#endif
