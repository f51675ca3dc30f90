/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_CONNECTION_INTERNAL_H
#define MIGRATE_SOURCE_CONNECTION_INTERNAL_H
/* What the parts of a connection share: waits and error texts. These functions leave the statement under way
 * after an error; the connection_*() function that called them stops it. */
#include "migrate/source/connection.h"

struct connection {
    PGconn *pg;
    unsigned timeout_ms;
    struct source_watch watch;
    bool replication; /* replication protocol: no parameters */
    bool broken;
    bool warned;
    char state[6];  /* SQLSTATE of the last error from the server; "": none */
    char *dsn;      /* with the password */
    char *password; /* the dsn's; NULL: none */
    struct {
        char *host, *address, *port; /* comma-separated lists of the dsn; NULL: none */
    } servers;
    char *line;                  /* the line of a COPY that was handed out */
    bool copies;                 /* the reply to a COPY has begun */
    struct connection_wait copy; /* one for all lines, so that the watch is called while lines keep coming */
};

/* Set another deadline; the watch's time stays. */
void connection_wait_renew(struct connection_wait *w, unsigned ms);

/* How many milliseconds to poll() for @what. ERR_TIMEOUT: the deadline has passed; or the watch's error. */
MUST_CHECK enum err connection_slice(struct connection_wait *w, const char *what, int *ms, struct error *e);

/* Send what is unsent and take what has come, once. */
MUST_CHECK enum err connection_wait_input(struct connection *c, struct connection_wait *wait,
                                          const char *what, struct error *e);

/* Wait until the next PQgetResult() will not block. */
MUST_CHECK enum err connection_wait_result(struct connection *c, struct connection_wait *wait,
                                           struct error *e);

/* Get the first result; NULL: there is none. Further results (which only errors have) and lines of COPY are
 * dropped. */
MUST_CHECK enum err connection_collect(struct connection *c, struct connection_wait *wait, PGresult **out,
                                       struct error *e);

/* Mark the connection as lost: ERR_UNREACHABLE with libpq's text. */
enum err connection_lost(struct connection *c, struct error *e);

/* The error in @result. */
enum err connection_failed(struct connection *c, const PGresult *result, struct error *e);

/* The error of every call on a lost connection. */
enum err connection_refuse(struct error *e);
#endif
