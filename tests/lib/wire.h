/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_WIRE_H
#define TESTS_LIB_WIRE_H
/* Where messages of Redis and Postgres begin and end, and who sends them: as much as a proxy needs. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum wire_protocol { WIRE_REDIS, WIRE_POSTGRES };

enum wire_kind {
    WIRE_REQUEST, /* a reply will come: a Redis command; in Postgres all up to a Sync, or a Query */
    WIRE_STARTUP, /* Postgres' first message; a reply will come */
    WIRE_ENCRYPT, /* Postgres: the client asks for TLS or GSS; the answer is one byte */
    WIRE_ONE_WAY  /* no reply: a cancel, a farewell */
};

struct wire_request {
    enum wire_kind kind;
    char user[32]; /* of a login; else "" */
    char name[64]; /* CLIENT SETNAME, or application_name; else "" */
};

/* The first message of a client in @bytes: its length, 0 if it is not whole yet, -1 if it is none that is
 * known. @started: Postgres' startup message has been seen. */
ssize_t wire_request(enum wire_protocol protocol, bool started, const char *bytes, size_t length,
                     struct wire_request *out);

/* The first message of a server, in the same way. *@ends: it ends the reply to a request. */
ssize_t wire_reply(enum wire_protocol protocol, const char *bytes, size_t length, bool *ends);
#endif
