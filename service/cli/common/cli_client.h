/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMMON_CLI_CLIENT_H
#define SERVICE_CLI_COMMON_CLI_CLIENT_H
/* The command line's connection to the daemon: blocking, each request with a deadline. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "service/protocol/list.h"
#include "shard/redis/wire/replies.h"

enum { CLIENT_PORT = 6479 };

struct client_address {
    char host[256];
    uint16_t port;
    char user[128];              /* "": none */
    char password[512];          /* "": none; never printed */
    char path[108];              /* of a Unix socket, instead of host and port; "": none */
    bool tls;                    /* a file for TLS means TLS, too */
    const char *ca, *cert, *key; /* PEM files; NULL: none; borrowed */
};

/* Parse redis://[[user]:password@]host[:port][/0], with user and password percent-encoded and an IPv6 host in
 * []; rediss:// for TLS; unix://[[user]:password@]/path. Parts that @url lacks stay unchanged in @out.
 * ERR_PARSE: the text says what is wrong, without the password. */
MUST_CHECK enum err client_parse_url(struct client_address *out, const char *url, struct error *e);

struct client;

/* Connect and log in, within @timeout_ms, which later calls use, too. ERR_UNREACHABLE, ERR_TIMEOUT,
 * ERR_REFUSED. */
MUST_CHECK enum err client_open(struct client **out, const struct client_address *address,
                                unsigned timeout_ms, struct error *e);
void client_close(struct client *c);

/* Send one command and read its reply; the caller frees *@out by freeReplyObject(). An error reply gives the
 * code that it begins with, see error_of_reply(). After any other error (client_refused() is false) the
 * connection is unusable. */
MUST_CHECK enum err client_call(struct client *c, redisReply **out, size_t argc, const char **argv,
                                const size_t *lengths, struct error *e);

/* True if the last client_call() got an error reply; the connection is still usable. */
bool client_refused(const struct client *c);

/* The two halves of a call, for several commands under way: send one; read the next reply, which may be an
 * error reply. */
MUST_CHECK enum err client_send(struct client *c, size_t argc, const char **argv, const size_t *lengths,
                                struct error *e);
/* As client_send(), but without waiting: client_flush() sends as much as the connection takes at once, and
 * client_receive() sends the rest. */
MUST_CHECK enum err client_append(struct client *c, size_t argc, const char **argv, const size_t *lengths,
                                  struct error *e);
void client_flush(struct client *c);
MUST_CHECK enum err client_receive(struct client *c, redisReply **out, struct error *e);
/* As client_receive(), but without waiting: *@out is NULL if the reply has not come. Then there is nothing to
 * do before client_fd() becomes readable, or writable, again. */
MUST_CHECK enum err client_take(struct client *c, redisReply **out, struct error *e);
int client_fd(const struct client *c);
#endif
