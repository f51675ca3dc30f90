/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_CONNECTION_H
#define MIGRATE_SOURCE_CONNECTION_H
/* A connection to Postgres on which every wait has a deadline. It runs the statements of sql/. One thread
 * owns it. Other folders only open and close one, for the slots of migrate/change/stream.h. */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/source/source.h"
#include "sql/sql.h"

enum { CONNECTION_OID_MAX = 16 };

/* For SCOPED(). */
static inline void scope_result(PGresult **r)
{
    PQclear(*r);
}

struct connection;

/* What a connection speaks: SQL; or the replication protocol (replication=database), for
 * connection_command(), connection_run() and a copy in both directions, but not for connection_copy(). */
enum connection_protocol { CONNECTION_SQL, CONNECTION_REPLICATION };

/* @application (NULL: twinbloom) is the application_name unless @dsn has one. @timeout_ms bounds connecting,
 * and each connection_run(). If @dsn names several servers, each has its share of that time to answer. @watch
 * (copied) may end any wait: the statement is stopped, and the call returns the watch's error. ERR_CONFIG:
 * @dsn is not a connection string. ERR_UNREACHABLE, ERR_TIMEOUT. Error texts contain no part of the dsn's
 * password. The lookup of a host name has no bound. */
MUST_CHECK enum err connection_open(struct connection **out, enum connection_protocol protocol,
                                    const char *dsn, const char *application, unsigned timeout_ms,
                                    struct source_watch watch, struct error *e);
/* NULL is fine. */
void connection_close(struct connection *c);

/* Run sql/<@name>.sql to its end; the rows are text. The caller clears *@out; NULL: the rows are dropped.
 * ERR_CONFIG: the server rejects the statement (names, types, privileges). ERR_TIMEOUT: the deadline, or a
 * lock that was not granted. ERR_UNREACHABLE: the connection is lost for good. ERR_REFUSED: any other
 * error. */
MUST_CHECK enum err connection_run(struct connection *c, const char *name, const struct sql_binding *bindings,
                                   PGresult **out, struct error *e);
/* As connection_run(): the first column of the first row; "" if there is no row. */
MUST_CHECK enum err connection_read(struct connection *c, const char *name,
                                    const struct sql_binding *bindings, char *out, size_t size,
                                    struct error *e);

/* Set up the session by sql/<@name>.sql, with the server's own timeouts of a statement and of a lock. */
MUST_CHECK enum err connection_set_up(struct connection *c, const char *name, unsigned statement_ms,
                                      unsigned lock_ms, struct error *e);
/* The oid of @table, under the session's search_path; "": there is no such table for this role. */
MUST_CHECK enum err connection_resolve(struct connection *c, const char *table, char oid[CONNECTION_OID_MAX],
                                       struct error *e);

/* Reset the session to its initial state, within @timeout_ms. After any error the connection can only be
 * closed. */
MUST_CHECK enum err connection_reset(struct connection *c, unsigned timeout_ms, struct error *e);

/* Replace the watch. */
void connection_set_watch(struct connection *c, struct source_watch watch);

/* True if no statement is under way, no transaction is open, and the connection is not lost. */
bool connection_is_idle(const struct connection *c);

/* SQLSTATE of the last error from the server; "": none. */
const char *connection_state(const struct connection *c);

/* True if the server has warned that an object is not in the required state (SQLSTATE 55000). */
bool connection_has_warned(const struct connection *c);

/* True if the connection is lost: it can only be closed. */
bool connection_is_lost(const struct connection *c);

/* The server's version: 150004 for 15.4. */
int connection_version(const struct connection *c);

/* Run a command of the replication protocol, which is not SQL. As connection_run(). It may begin a copy in
 * both directions. */
MUST_CHECK enum err connection_command(struct connection *c, const char *text, unsigned timeout_ms,
                                       PGresult **out, struct error *e);

/* Send a COPY ... TO STDOUT and return at once. Read its lines with connection_copy_line(), to the end or
 * until connection_abandon(). */
MUST_CHECK enum err connection_copy(struct connection *c, const char *name,
                                    const struct sql_binding *bindings, struct error *e);

/* The next line, without its line end; it lives until the next call. *@line NULL: the COPY has ended. Then,
 * and after any error, no statement is under way any more. ERR_TIMEOUT: no line for @timeout_ms. */
MUST_CHECK enum err connection_copy_line(struct connection *c, unsigned timeout_ms, const char **line,
                                         size_t *length, struct error *e);

/* Stop the statement and drop its rows. */
void connection_abandon(struct connection *c);

/* Wait until a notification with @payload has come since the last call (after LISTEN). Returns without error,
 * too, when @timeout_ms have passed. Drops other notifications. ERR_UNREACHABLE, or the watch's error. */
MUST_CHECK enum err connection_await_notification(struct connection *c, const char *payload,
                                                  unsigned timeout_ms, struct error *e);

/* One wait, possibly of several parts: its deadline, and the watch that may end it earlier. */
struct connection_wait {
    unsigned ms;
    uint64_t deadline;
    uint64_t watch_at;
    struct source_watch watch;
};

struct connection_wait connection_wait_begin(unsigned ms, struct source_watch watch);

/* --- copy in both directions (connection_both.c) --- */

/* Get a message that has come; *@data, to be freed by PQfreemem(), is NULL if there is none yet. The end of
 * the copy is an error, too: the server's, or ERR_UNREACHABLE. */
MUST_CHECK enum err connection_both_take(struct connection *c, char **data, size_t *length, struct error *e);

/* Wait for more, at most 100 ms. ERR_TIMEOUT: the deadline of @wait has passed; or the watch's error. */
MUST_CHECK enum err connection_both_wait(struct connection *c, struct connection_wait *wait, struct error *e);

/* Send a message without waiting; later calls send what did not fit. */
MUST_CHECK enum err connection_both_send(struct connection *c, const void *data, size_t length,
                                         struct error *e);

/* End the copy, and wait a second at most for the server to end it. Messages that still come are dropped. */
void connection_both_end(struct connection *c);
#endif
