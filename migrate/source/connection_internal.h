/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_CONNECTION_INTERNAL_H
#define MIGRATE_SOURCE_CONNECTION_INTERNAL_H
/* What the parts of a connection share: its waits, and how its errors are told. An error leaves the statement
 * under way; who called connection_*() stops it. */
#include "base/buffer.h"
#include "migrate/source/connection.h"

struct connection {
    PGconn *pg;
    unsigned timeout_ms;
    struct source_watch watch;
    bool replication; /* the protocol of replication: statements have no parameters */
    bool broken;
    bool warned;
    char state[6];  /* SQLSTATE of the last error that the server told; "" for none */
    char *password; /* of the dsn; NULL: none */
    struct {
        char *host, *address, *port; /* lists of the dsn, separated by commas; NULL: none */
    } servers;
    char *line;  /* of a COPY, handed out */
    bool copies; /* a COPY's answer has begun */
    struct connection_wait
        copy; /* one for all its lines, so that the watch is asked while they keep coming */
};

/* Another deadline, the watch as it stands. */
void connection_wait_renew(struct connection_wait *w, unsigned ms);

/* Milliseconds to poll() for @what. ERR_TIMEOUT: the deadline has passed; or the watch's error. */
MUST_CHECK enum err connection_slice(struct connection_wait *w, const char *what, int *ms, struct error *e);

/* Both, once: what is to be sent leaves, what has come is taken. */
MUST_CHECK enum err connection_wait_input(struct connection *c, struct connection_wait *wait,
                                          const char *what, struct error *e);

/* Wait until the next PQgetResult() will not block. */
MUST_CHECK enum err connection_wait_result(struct connection *c, struct connection_wait *wait,
                                           struct error *e);

/* The first result, NULL where there is none; those after it (there is none but after errors) and lines of
 * COPY are dropped. */
MUST_CHECK enum err connection_collect(struct connection *c, struct connection_wait *wait, PGresult **out,
                                       struct error *e);

/* @literals: instead of parameters; NULL: none. */
MUST_CHECK enum err connection_render(const struct statement *s, const char *const *literals,
                                      struct buffer *text, struct error *e);

/* The connection is gone: ERR_UNREACHABLE with libpq's text. */
enum err connection_lost(struct connection *c, struct error *e);

/* The error that @result stands for; it is cleared. */
enum err connection_failed(struct connection *c, PGresult *result, struct error *e);

/* What every call on a connection that is gone says. */
enum err connection_refuse(struct error *e);
#endif
