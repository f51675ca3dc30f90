/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_WIRE_H
#define TESTS_LIB_WIRE_H
/* Finds where messages of Redis and Postgres begin and end, and who sends them, as far as the proxy needs it.
 * Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum wire_protocol { WIRE_REDIS, WIRE_POSTGRES };

enum wire_kind {
    WIRE_REQUEST, /* a reply will come; a Redis command, or in Postgres a Query or everything up to a Sync */
    WIRE_STARTUP, /* the first message in Postgres; a reply will come */
    WIRE_ENCRYPT, /* Postgres: the client asks for TLS or GSS; the answer is one byte */
    WIRE_ONE_WAY  /* no reply will come: a cancel request, a Terminate */
};

struct wire_request {
    enum wire_kind kind;
    char user[32]; /* set by a login; otherwise "" */
    char name[64]; /* CLIENT SETNAME, or application_name; otherwise "" */
};

/* The length of the first message of a client in @bytes; 0: it is incomplete; -1: it is invalid. @started:
 * the startup message of Postgres has been seen. */
ssize_t wire_request(enum wire_protocol protocol, bool started, const char *bytes, size_t length,
                     struct wire_request *out);

/* As wire_request(), for the first message of a server. *@ends: the message completes the reply to a
 * request. */
ssize_t wire_reply(enum wire_protocol protocol, const char *bytes, size_t length, bool *ends);
#endif
