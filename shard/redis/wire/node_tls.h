/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_NODE_TLS_H
#define SHARD_REDIS_WIRE_NODE_TLS_H
/* TLS towards Redis: whom to trust, as whom to come, whom to expect. */
#include <stdbool.h>
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/wire/tls_context.h"

/* "": none. */
struct node_tls_options {
    const char *ca_file; /* authorities, PEM; with neither this nor a directory those of the system */
    const char *ca_dir;  /* the same by hashed names (openssl rehash) */
    const char *cert_file, *key_file; /* for servers that ask for a certificate */
    const char *server_name;          /* in the certificates of all nodes; "": that of each node's URL */
    bool verify;                      /* false: whoever answers is believed */
};

/* Read the files. The caller owns *@out (SSL_CTX_free()), for tls_replace() of what nodes->tls is.
 * ERR_CONFIG: "tls_... = file: why". */
MUST_CHECK enum err node_tls_load(SSL_CTX **out, const struct node_tls_options *o, struct error *e);

/* For one connection to @n on @fd, to be freed with SSL_free(). NULL: no memory, or @t is NULL or empty. */
SSL *node_tls_session(struct tls *t, const struct node *n, int fd);

/* What a call on @ssl that moved nothing says. */
enum node_tls_want {
    NODE_TLS_READ,  /* again when the socket can be read */
    NODE_TLS_WRITE, /* when it can be written */
    NODE_TLS_END,   /* the server has closed the connection */
    NODE_TLS_FAULT  /* or broken it; the text says why */
};
enum node_tls_want node_tls_judge(SSL *ssl, int result, struct error *e);
#endif
