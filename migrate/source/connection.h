/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_CONNECTION_H
#define MIGRATE_SOURCE_CONNECTION_H
/* A connection to Postgres on which every wait has a deadline. Statements are those of sql/. Owned by one
 * thread. Other folders only open and close one, for the slots of migrate/change/stream.h. */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/source/source.h"
#include "sql/sql.h"

enum { CONNECTION_PARAMS_MAX = 4 };

struct connection;

struct connection_param {
    const char *name;
    const char *value;
};

struct statement {
    const char *name; /* sql/<name>.sql */
    const struct sql_binding *bindings;
    size_t binding_count;
    struct connection_param params[CONNECTION_PARAMS_MAX];
    size_t param_count;
};

/* @application is the application_name unless @dsn has one. @timeout_ms bounds connecting, and each
 * connection_run(). Of several servers in @dsn each one has its share of that time to answer. @watch (copied)
 * may end any wait: the statement is stopped, and its error is what the call returns. ERR_CONFIG: @dsn is not
 * a connection string. ERR_UNREACHABLE, ERR_TIMEOUT. No part of the dsn's password gets into a text. Looking
 * up a host name is not bounded. */
MUST_CHECK enum err connection_open(struct connection **out, const char *dsn, const char *application,
                                    unsigned timeout_ms, struct source_watch watch, struct error *e);
/* NULL is fine. */
void connection_close(struct connection *c);

/* The same on the protocol of replication (replication=database): for connection_command(), connection_run()
 * and a copy in both directions. There is no COPY of lines there. */
MUST_CHECK enum err connection_open_replication(struct connection **out, const char *dsn,
                                                const char *application, unsigned timeout_ms,
                                                struct source_watch watch, struct error *e);

/* Run one statement to its end; the rows are text. The caller clears *@out.
 * ERR_CONFIG: the server does not accept the statement (names, types, privileges). ERR_TIMEOUT: the deadline,
 * or a lock that could not be had. ERR_UNREACHABLE: the connection is gone and stays so.
 * ERR_REFUSED: all else. */
MUST_CHECK enum err connection_run(struct connection *c, const struct statement *s, PGresult **out,
                                   struct error *e);

/* Back to the session that it began with, within @timeout_ms. After any error it can only be closed. */
MUST_CHECK enum err connection_reset(struct connection *c, unsigned timeout_ms, struct error *e);

/* Another one asks from now on. */
void connection_set_watch(struct connection *c, struct source_watch watch);

/* Nothing is under way on it, no transaction is open, and it is not lost. */
bool connection_is_idle(const struct connection *c);

/* The SQLSTATE of the last error that the server told; "" for none. */
const char *connection_state(const struct connection *c);

/* The server has warned of something that is not in the state that it should be in (SQLSTATE 55000). */
bool connection_has_warned(const struct connection *c);

/* Nothing more will come over it; it can only be closed. */
bool connection_is_lost(const struct connection *c);

/* 150004 for 15.4. */
int connection_version(const struct connection *c);

/* Run a command of replication, which is no SQL. As connection_run(). */
MUST_CHECK enum err connection_command(struct connection *c, const char *text, unsigned timeout_ms,
                                       PGresult **out, struct error *e);

/* Send a COPY ... TO STDOUT and return at once; its lines come by connection_copy_line(), to the end or to
 * connection_abandon(). */
MUST_CHECK enum err connection_copy(struct connection *c, const struct statement *s, struct error *e);

/* The next line, without its end; it lives until the next call. *@line NULL: the end, nothing is under way
 * any more, as after any error. ERR_TIMEOUT: nothing came for @timeout_ms. */
MUST_CHECK enum err connection_copy_line(struct connection *c, unsigned timeout_ms, const char **line,
                                         size_t *length, struct error *e);

/* Stop what was sent and throw its rows away. */
void connection_abandon(struct connection *c);

/* Wait until a notification with this @payload has come since the last call (after LISTEN), or @timeout_ms
 * have passed, which is no error. Others are dropped. ERR_UNREACHABLE, or the watch's error. */
MUST_CHECK enum err connection_await_notification(struct connection *c, const char *payload,
                                                  unsigned timeout_ms, struct error *e);

/* One wait, which may be of several parts: until when, and who may end it before. */
struct connection_wait {
    unsigned ms;
    uint64_t deadline;
    uint64_t watch_at;
    struct source_watch watch;
};

struct connection_wait connection_wait_begin(unsigned ms, struct source_watch watch);

/* A copy in both directions (connection_both.c). */

/* Run the command that begins it. After an error that the server told another command may follow; after any
 * other one the connection can only be closed. */
MUST_CHECK enum err connection_both_begin(struct connection *c, const char *text, unsigned timeout_ms,
                                          struct error *e);

/* A message that has come; *@data, to be freed by PQfreemem(), is NULL where there is none yet. The copy's
 * end is an error, too: what the server told, or ERR_UNREACHABLE. */
MUST_CHECK enum err connection_both_take(struct connection *c, char **data, size_t *length, struct error *e);

/* Wait for more, a tenth of a second at most. ERR_TIMEOUT: the deadline of @wait has passed; or the watch's
 * error. */
MUST_CHECK enum err connection_both_wait(struct connection *c, struct connection_wait *wait, struct error *e);

/* Send a message without waiting; the rest of it goes with the calls that follow. */
MUST_CHECK enum err connection_both_send(struct connection *c, const void *data, size_t length,
                                         struct error *e);

/* End the copy, and wait at most @ms until the server has, too. What still comes is thrown away. */
void connection_both_end(struct connection *c, unsigned ms);
#endif
