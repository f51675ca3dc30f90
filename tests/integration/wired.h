/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_WIRED_H
#define TESTS_INTEGRATION_WIRED_H
/* One Redis server of the test that listens on a port, on a Unix socket, and with TLS; and servers that are
 * no Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shard/redis/nodes/health.h"
#include "shard/redis/sync_connection.h"
#include "shard/redis/wire/node_tls.h"
#include "shard/redis/nodes/nodes.h"
#include "tests/lib/temp_redis.h"

/* Fail the test with the error's text unless @expression gives @code. Main thread only. */
#define gives(code, expression, e)                                                                           \
    do {                                                                                                     \
        enum err got_ = (expression);                                                                        \
        if (got_ != (code))                                                                                  \
            fail_msg("%s: %s (%s), expected %s", #expression, error_name(got_), (e).text, error_name(code)); \
    } while (0)
#ifndef must
#define must(expression, e) gives(ERR_OK, expression, e)
#endif

struct wired {
    struct temp_redis redis;
    char directory[PATH_MAX]; /* of certificates_make() */
    char socket[PATH_MAX + 16];
    uint16_t tls_port;
    struct nodes nodes; /* of the last wired_use() */
};

/* Start the server with the certificate @certificate. @clients: whether clients need a certificate: "yes",
 * "no" or "optional". */
void wired_start(struct wired *w, const char *certificate, const char *clients);
void wired_stop(struct wired *w);

/* Set w->nodes to @format with its arguments and the TLS options @o (NULL: trust the authority "ours"). */
void wired_use(struct wired *w, const struct node_tls_options *o, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The three ways to the server. */
enum way { WAY_TCP, WAY_UNIX, WAY_TLS, WAYS };
void wired_use_way(struct wired *w, enum way way);

/* The path of a file of the certificates, in one of a few static buffers. */
const char *wired_file(const struct wired *w, const char *name);
/* The text of a reply of redis-cli on the plain port. */
const char *wired_ask(struct wired *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Connect to the first node. wired_open() must not fail, wired_try() may, wired_refused() must: with that
 * code and a text that has @wanted and the node's name, and no password ("hunter2"). */
enum { WIRED_MS = 2000, WIRED_REPLY_MS = 20000 /* of a connection that is answered */ };
struct sync_connection *wired_open(struct wired *w);
MUST_CHECK enum err wired_try(struct wired *w, struct sync_connection **c, unsigned ms, struct error *e);
void wired_refused(struct wired *w, enum err code, const char *wanted);

/* Append a command that consists of strings; get a reply, which must come. */
void wired_append(struct sync_connection *c, size_t argc, const char *const *argv);
redisReply *wired_reply(struct sync_connection *c);
/* The text of the reply to one command, in a static buffer. */
const char *wired_words(struct sync_connection *c, size_t argc, const char *const *argv);
#define WIRED_ASK(c, ...)                                                                                    \
    wired_words(c, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

/* The reply to INFO replication, which a server that is no Redis must send, too. */
#define WIRED_REPLICATION                                                                                    \
    "$69\r\nrole:master\r\nmaster_replid:aaaaaaaaaaaaaaa1bbbbbbbbbbbbbbbbbbbbbbbb\r\n\r\n"

/* A server with TLS that echoes its input, and reads no more until the echo was taken: a command is also an
 * array of strings as a reply. (Redis itself, up to 7.2, sometimes closes a TLS connection that it cannot
 * write to at once.) The server takes one connection; w->nodes leads to it. */
void wired_echo_start(struct wired *w);
void wired_echo_end(void);

/* A function of the test looks up hosts: here.test is loopback, none.test is unknown, slow.test takes
 * WIRED_SLOW_MS and fails, two.test is WIRED_ELSEWHERE and loopback; others are looked up as usual. */
#define WIRED_ELSEWHERE "127.0.0.9"
enum { WIRED_SLOW_MS = 1500 };
extern atomic_uint wired_slow_lookups;

/* A listener on loopback, for servers that are no Redis. */
int wired_listen(uint16_t *port);
/* Accept the next connection of the listener. */
int wired_accept(int listener);
#endif
