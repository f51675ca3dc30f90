/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CONNECTION_INTERNAL_H
#define MIGRATE_CONNECTION_INTERNAL_H
/* What connection*.c share. Errors leave the statement under way; who called connection_*() stops it. */
#include <stdint.h>

#include "base/buffer.h"
#include "migrate/connection.h"

struct connection {
    PGconn *pg;
    PGcancel *cancel;
    unsigned timeout_ms;
    struct source_watch watch;
    uint64_t watch_at; /* when it is to be asked next in this statement; 0: not known yet */
    bool broken;
    char *password; /* of the dsn; NULL: none */
    char *line;     /* of a COPY, handed out */
    bool copies;    /* a COPY's answer has begun */
};

/* One wait: until when, and whether the watch may end it before. */
struct wait {
    unsigned ms;
    uint64_t deadline;
    bool watched;
};
struct wait connection_wait(struct connection *c, unsigned ms, bool watched);

/* Once: what is to be sent leaves, what has come is taken. */
MUST_CHECK enum err connection_wait_input(struct connection *c, const struct wait *wait, struct error *e);
/* Until the next PQgetResult() will not block. */
MUST_CHECK enum err connection_wait_result(struct connection *c, const struct wait *wait, struct error *e);
/* The first result, NULL where there is none; those after it (there is none but after errors) and lines of
 * COPY are dropped. */
MUST_CHECK enum err connection_collect(struct connection *c, const struct wait *wait, PGresult **out,
                                       struct error *e);

MUST_CHECK enum err connection_render(const struct statement *s, struct buffer *text, struct error *e);

/* The connection is gone. */
enum err connection_lost(struct connection *c, struct error *e);
enum err connection_refuse_broken(struct error *e);
/* The error that @result stands for; it is cleared. */
enum err connection_failed(struct connection *c, PGresult *result, struct error *e);
#endif
