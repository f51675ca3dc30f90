/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_CLIENT_H
#define SERVICE_CLI_CLIENT_H
/* The command line's connection to the daemon: blocking, one request at a time, each with a deadline. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"

enum { CLIENT_PORT = 6479 };

struct client_address {
    char host[256];
    uint16_t port;
    char user[128];     /* "": none */
    char password[512]; /* "": none; never printed */
    char path[108];     /* of a socket in the file system, instead of host and port; "": none */
    bool tls;
    const char *ca, *cert, *key; /* PEM files, NULL: none; borrowed */
};

/* redis://[[user]:password@]host[:port][/0], user and password percent-encoded, an IPv6 host in []; rediss://
 * with TLS; unix://[[user]:password@]/path. Parts that @url does not have stay as they are in @out. ERR_PARSE
 * says what is wrong, without the password. */
MUST_CHECK enum err client_parse_url(struct client_address *out, const char *url, struct error *e);

struct client;

/* Connect and log in, within @timeout_ms; later calls have the same. ERR_UNREACHABLE, ERR_TIMEOUT,
 * ERR_REFUSED. */
MUST_CHECK enum err client_open(struct client **out, const struct client_address *address,
                                unsigned timeout_ms, struct error *e);
void client_close(struct client *c);

/* One command; the caller frees *@out by freeReplyObject(). An error reply has the code that it begins with,
 * see error_of_reply(). Unless client_refused(), the connection is of no more use after an error. */
MUST_CHECK enum err client_call(struct client *c, redisReply **out, size_t argc, const char **argv,
                                const size_t *lengths, struct error *e);

/* Whether the last client_call() was answered by an error: the connection is good. */
bool client_refused(const struct client *c);

/* The two halves of a call, for several commands in flight: send one; read the next reply that is owed, an
 * error reply being a reply like others. */
MUST_CHECK enum err client_send(struct client *c, size_t argc, const char **argv, const size_t *lengths,
                                struct error *e);
/* The same, but what is appended goes out with the flush, as far as the connection takes it at once: the rest
 * while replies are awaited. */
MUST_CHECK enum err client_append(struct client *c, size_t argc, const char **argv, const size_t *lengths,
                                  struct error *e);
void client_flush(struct client *c);
MUST_CHECK enum err client_receive(struct client *c, redisReply **out, struct error *e);

/* Of a flat list name, value, name, value: the value of @name, or NULL. */
const redisReply *client_field(const redisReply *list, const char *name);

/* A value as text (cut to @size) or number; false if it is missing, empty or not of that kind. */
bool client_text(const redisReply *list, const char *name, char *out, size_t size);
bool client_is(const redisReply *list, const char *name, const char *wanted);
bool client_count(const redisReply *list, const char *name, uint64_t *out);
/* A moment: Unix seconds to milliseconds. */
bool client_time(const redisReply *list, const char *name, uint64_t *ms);
bool client_decimal(const redisReply *list, const char *name, double *out);
#endif
