/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "migrate/source/connection_internal.h"

enum {
    DRAIN_MS = 2000, /* for the server to obey a cancel request */
    POOLER_LOOKS = 10,
};

/* --- connecting --- */

/* libpq splits a URI at the first '@' and '/': a password with such a character would appear as a host name
 * in its error texts. */
static bool uri_is_ambiguous(const char *dsn)
{
    const char *scheme = strstr(dsn, "://");
    if (scheme == NULL || (strncmp(dsn, "postgresql", 10) != 0 && strncmp(dsn, "postgres", 8) != 0))
        return false;
    const char *from = scheme + 3;
    size_t length = strcspn(from, "?");
    const char *at = memchr(from, '@', length);
    if (at == NULL)
        return false;
    size_t rest = length - (size_t)(at + 1 - from);
    return memchr(from, '/', (size_t)(at - from)) != NULL || memchr(at + 1, '@', rest) != NULL;
}

static enum err read_dsn(struct connection *c, const char *dsn, struct error *e)
{
    if (uri_is_ambiguous(dsn))
        return error_set(e, ERR_CONFIG,
                         "dsn: write '@' as %%40 and '/' as %%2F in user, password and database");
    PQconninfoOption *options =
        PQconninfoParse(dsn, NULL); /* libpq's message may quote a part of the password */
    if (options == NULL)
        return error_set(
            e, ERR_CONFIG,
            "dsn is not a connection string; write postgresql://user@host:port/database or key=value pairs");
    c->dsn = strdup(dsn);
    enum err err = c->dsn == NULL ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
    const struct {
        const char *keyword;
        char **value;
    } wanted[] = {{"password", &c->password},
                  {"host", &c->servers.host},
                  {"hostaddr", &c->servers.address},
                  {"port", &c->servers.port}};
    for (PQconninfoOption *o = options; o->keyword != NULL; o++)
        for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
            if (strcmp(o->keyword, wanted[i].keyword) != 0 || o->val == NULL || o->val[0] == '\0')
                continue;
            *wanted[i].value = strdup(o->val);
            if (*wanted[i].value == NULL)
                err = error_set(e, ERR_NOMEM, "out of memory");
        }
    PQconninfoFree(options);
    return err;
}

/* --- several servers --- */

/* libpq goes on to the next server when one refuses, but waits for a server that does not answer
 * (connect_timeout applies to its blocking calls only). So each server gets a share of the time at the head
 * of the list. */

static unsigned length_of_list(const char *list)
{
    unsigned n = 1;
    for (; list != NULL && *list != '\0'; list++)
        n += *list == ',';
    return n;
}

/* Moves the first element of a list to its end. */
static void rotate(char *list)
{
    char *comma = list == NULL ? NULL : strchr(list, ',');
    if (comma == NULL)
        return;
    size_t head = (size_t)(comma - list), rest = strlen(comma + 1);
    for (size_t i = 0; i < head; i++) { /* in place, as lists are short */
        char first = list[0];
        memmove(list, list + 1, head + rest);
        list[head + rest] = first;
    }
    memmove(list, list + 1, rest); /* the comma is the first character now */
    list[rest] = ',';
}

static enum err connect_within(struct connection *c, const char *dsn, const char *application, unsigned ms,
                               struct error *e)
{
    char user_timeout[16];
    (void)snprintf(user_timeout, sizeof(user_timeout), "%u", c->timeout_ms);
    /* Parameters in front of the dsn are defaults that it may override; those behind it override the dsn. */
    const char *const keys[] = {"application_name",
                                "tcp_user_timeout",
                                "keepalives_idle",
                                "dbname",
                                "host",
                                "hostaddr",
                                "port",
                                c->replication ? "replication" : NULL,
                                NULL};
    const char *const values[] = {application,        user_timeout,    "30",       dsn, c->servers.host,
                                  c->servers.address, c->servers.port, "database", NULL};
    c->pg = PQconnectStartParams(keys, values, 1);
    if (c->pg == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    struct connection_wait wait = connection_wait_begin(ms, c->watch);
    wait.ms = c->timeout_ms; /* the error's text names the time of all attempts */
    PostgresPollingStatusType want =
        PQstatus(c->pg) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (want != PGRES_POLLING_OK) {
        if (want == PGRES_POLLING_FAILED) {
            struct error lost;
            enum err err = connection_lost(c, &lost);
            bool password = PQconnectionNeedsPassword(c->pg) != 0 || strstr(lost.text, "password") != NULL;
            return error_set(e, err, "%s; check %s in [postgres]", lost.text,
                             password ? "the password" : "dsn");
        }
        struct pollfd fd = {.fd = PQsocket(c->pg),
                            .events = want == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        int slice;
        enum err err = connection_slice(&wait, "connection", &slice, e);
        if (err != ERR_OK)
            return err;
        if (poll(&fd, 1, slice) > 0)
            want = PQconnectPoll(c->pg);
    }
    return ERR_OK;
}

static enum err connect_to(struct connection *c, const char *dsn, const char *application, struct error *e)
{
    unsigned hosts = length_of_list(c->servers.host), addresses = length_of_list(c->servers.address);
    unsigned servers = hosts > addresses ? hosts : addresses;
    enum err err = ERR_TIMEOUT;
    for (unsigned i = 0; i < servers && err == ERR_TIMEOUT; i++) {
        if (i > 0) {
            PQfinish(c->pg);
            rotate(c->servers.host);
            rotate(c->servers.address);
            rotate(c->servers.port);
        }
        err = connect_within(c, dsn, application, c->timeout_ms / servers, e);
    }
    if (err != ERR_OK)
        return err;
    return PQsetnonblocking(c->pg, 1) == 0 ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
}

/* Notices are dropped: nobody would read them, and standard error belongs to the log. See
 * connection_has_warned(). */
static void take_notice(void *arg, const PGresult *result)
{
    struct connection *c = arg;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (severity != NULL && state != NULL && strcmp(severity, "WARNING") == 0 && strcmp(state, "55000") == 0)
        c->warned = true;
}

enum err connection_open(struct connection **out, enum connection_protocol protocol, const char *dsn,
                         const char *application, unsigned timeout_ms, struct source_watch watch,
                         struct error *e)
{
    struct connection *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    c->replication = protocol == CONNECTION_REPLICATION;
    c->timeout_ms = timeout_ms;
    c->watch = watch;
    enum err err = read_dsn(c, dsn, e);
    if (err == ERR_OK)
        err = connect_to(c, dsn, application != NULL ? application : "twinbloom", e);
    if (err != ERR_OK) {
        connection_close(c);
        return err;
    }
    (void)PQsetNoticeReceiver(c->pg, take_notice, c);
    *out = c;
    return ERR_OK;
}

void connection_close(struct connection *c)
{
    if (c == NULL)
        return;
    PQfreemem(c->line);
    PQfinish(c->pg);
    if (c->password != NULL)
        explicit_bzero(c->password, strlen(c->password));
    if (c->dsn != NULL)
        explicit_bzero(c->dsn, strlen(c->dsn));
    free(c->password);
    free(c->dsn);
    free(c->servers.host);
    free(c->servers.address);
    free(c->servers.port);
    free(c);
}

/* --- statements --- */

/* Read and drop the remaining lines of a COPY. */
static enum err drop_lines(struct connection *c, struct connection_wait *wait, struct error *e)
{
    char *line = NULL;
    int n = 0;
    while (c->copies && (n = PQgetCopyData(c->pg, &line, 1)) >= 0) {
        PQfreemem(line);
        line = NULL;
        enum err err = n == 0 ? connection_wait_input(c, wait, "answer", e) : ERR_OK;
        if (err != ERR_OK)
            return err;
    }
    c->copies = false;
    return ERR_OK;
}

enum err connection_collect(struct connection *c, struct connection_wait *wait, PGresult **out,
                            struct error *e)
{
    *out = NULL;
    enum err err;
    while ((err = connection_wait_result(c, wait, e)) == ERR_OK) {
        PGresult *result = PQgetResult(c->pg);
        if (result == NULL)
            return ERR_OK;
        /* PQgetResult() would return this result again and again until the lines are read. */
        c->copies = PQresultStatus(result) == PGRES_COPY_OUT;
        bool both = PQresultStatus(result) == PGRES_COPY_BOTH; /* until the copy ends there is no other */
        if (*out == NULL && !c->copies)
            *out = result;
        else
            PQclear(result);
        if (both)
            return ERR_OK;
        err = drop_lines(c, wait, e);
        if (err != ERR_OK)
            break;
    }
    PQclear(*out);
    *out = NULL;
    return err;
}

static void *run_cancel(void *arg)
{
    PGcancel *cancel = arg;
    char why[256];
    (void)PQcancel(cancel, why, sizeof(why));
    PQfreeCancel(cancel);
    return NULL;
}

/* PQcancel() opens a second connection and waits until the server closes it, without a bound, so it runs in a
 * thread. If the server does not answer, that thread is left behind, and this returns false. */
static bool cancel_statement(const struct connection *c)
{
    pthread_t thread;
    PGcancel *cancel = PQgetCancel(c->pg);
    if (cancel == NULL || pthread_create(&thread, NULL, run_cancel, cancel) != 0) {
        PQfreeCancel(cancel);
        return false;
    }
    const struct timespec until = clock_mono_after(DRAIN_MS * 1000);
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0)
        return true;
    (void)pthread_detach(thread);
    return false;
}

void connection_abandon(struct connection *c)
{
    if (c->broken || PQtransactionStatus(c->pg) != PQTRANS_ACTIVE)
        return; /* a cancel could hit the next statement */
    if (!cancel_statement(c)) {
        c->broken = true;
        return;
    }
    SCOPED(scope_result) PGresult *result = NULL;
    struct connection_wait wait = connection_wait_begin(DRAIN_MS, (struct source_watch){0});
    if (drop_lines(c, &wait, NULL) != ERR_OK || connection_collect(c, &wait, &result, NULL) != ERR_OK)
        c->broken = true;
}

/* After any error no statement is under way. */
static enum err receive(struct connection *c, unsigned timeout_ms, PGresult **out, struct error *e)
{
    if (c->broken)
        return connection_refuse(e);
    PGresult *result;
    struct connection_wait wait = connection_wait_begin(timeout_ms, c->watch);
    enum err err = connection_collect(c, &wait, &result, e);
    if (err != ERR_OK) {
        connection_abandon(c);
        return err;
    }
    if (result == NULL)
        return connection_lost(c, e);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_COPY_BOTH)
        err = connection_failed(c, result, e);
    if (err == ERR_OK && out != NULL)
        *out = result;
    else
        PQclear(result);
    return err;
}

static enum err run_with_parameters(struct connection *c, const char *name,
                                    const struct sql_binding *bindings, PGresult **out, struct error *e)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    struct sql_values values;
    enum err err = sql_render(name, bindings, &values, &text, e);
    if (err == ERR_OK && PQsendQueryParams(c->pg, buffer_text(&text), (int)values.count, NULL, values.text,
                                           NULL, NULL, 0) != 1)
        err = connection_lost(c, e);
    return err == ERR_OK ? receive(c, c->timeout_ms, out, e) : err;
}

/* The replication protocol has no parameters: values become literals, as in psql. Its statements have no
 * other variables. */
static enum err run_with_literals(struct connection *c, const char *name, const struct sql_binding *bindings,
                                  PGresult **out, struct error *e)
{
    struct sql_binding quoted[SQL_VALUES_MAX + 1] = {{NULL, NULL}};
    char *literals[SQL_VALUES_MAX] = {NULL};
    enum err err = ERR_OK;
    for (size_t i = 0; i < SQL_VALUES_MAX && bindings != NULL && bindings[i].name != NULL && err == ERR_OK;
         i++) {
        literals[i] = PQescapeLiteral(c->pg, bindings[i].text, strlen(bindings[i].text));
        quoted[i] = (struct sql_binding){bindings[i].name, literals[i]};
        if (literals[i] == NULL)
            err =
                error_set(e, ERR_CONFIG, "statement %s: a value is not text in the server's encoding", name);
    }
    SCOPED(buffer_fini) struct buffer text = {0};
    if (err == ERR_OK)
        err = sql_render(name, quoted, NULL, &text, e);
    if (err == ERR_OK)
        err = connection_command(c, buffer_text(&text), c->timeout_ms, out, e);
    for (size_t i = 0; i < SQL_VALUES_MAX; i++)
        PQfreemem(literals[i]);
    return err;
}

enum err connection_run(struct connection *c, const char *name, const struct sql_binding *bindings,
                        PGresult **out, struct error *e)
{
    if (c->broken)
        return connection_refuse(e);
    return c->replication ? run_with_literals(c, name, bindings, out, e)
                          : run_with_parameters(c, name, bindings, out, e);
}

enum err connection_read(struct connection *c, const char *name, const struct sql_binding *bindings,
                         char *out, size_t size, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_run(c, name, bindings, &r, e);
    if (err == ERR_OK)
        (void)snprintf(out, size, "%s", PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
    return err;
}

enum err connection_command(struct connection *c, const char *text, unsigned timeout_ms, PGresult **out,
                            struct error *e)
{
    if (c->broken)
        return connection_refuse(e);
    if (PQsendQuery(c->pg, text) != 1)
        return connection_lost(c, e);
    return receive(c, timeout_ms, out, e);
}

static enum err read_backend(struct connection *c, int *pid, struct error *e)
{
    char text[16] = "";
    enum err err = connection_read(c, "backend", NULL, text, sizeof(text), e);
    *pid = (int)strtol(text, NULL, 10);
    return err;
}

/* A pooler that gives a session of the server to another client after each transaction would have that client
 * run with what is set here: read-only, without a search_path. It is known by a connection that changes its
 * session, or has that of another one. */
static enum err check_keeps_session(struct connection *c, struct error *e)
{
    struct connection *other = NULL;
    int first = 0, pid, others = 0;
    enum err err = read_backend(c, &first, e);
    if (err != ERR_OK || first == PQbackendPID(c->pg)) /* there is no pooler */
        return err;
    pid = first;
    err = connection_open(&other, CONNECTION_SQL, c->dsn, NULL, c->timeout_ms, c->watch, e);
    for (unsigned i = 0; i < POOLER_LOOKS && err == ERR_OK && pid == first && pid != others; i++) {
        assert(other != NULL);
        err = read_backend(c, &pid, e);
        if (err == ERR_OK)
            err = read_backend(other, &others, e);
    }
    connection_close(other);
    if (err == ERR_OK && (pid != first || pid == others))
        err = error_set(e, ERR_CONFIG,
                        "dsn leads to a pooler that shares sessions between clients; let it lead to the "
                        "server, or set pool_mode = session for it");
    return err;
}

enum err connection_set_up(struct connection *c, const char *name, unsigned statement_ms, unsigned lock_ms,
                           struct error *e)
{
    enum err err = check_keeps_session(c, e);
    if (err != ERR_OK)
        return err;
    char statement_text[16], lock_text[16];
    (void)snprintf(statement_text, sizeof(statement_text), "%u", statement_ms);
    (void)snprintf(lock_text, sizeof(lock_text), "%u", lock_ms);
    return connection_run(
        c, name, SQL_BINDINGS({"statement_timeout", statement_text}, {"lock_timeout", lock_text}), NULL, e);
}

enum err connection_resolve(struct connection *c, const char *table, char oid[CONNECTION_OID_MAX],
                            struct error *e)
{
    return connection_read(c, "resolve", SQL_BINDINGS({"table", table}), oid, CONNECTION_OID_MAX, e);
}

/* If the server does not answer, send no cancel request: that would wait longer. */
enum err connection_reset(struct connection *c, unsigned timeout_ms, struct error *e)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    SCOPED(scope_result) PGresult *result = NULL;
    if (c->broken)
        return connection_refuse(e);
    enum err err = sql_render("session_reset", NULL, NULL, &text, e);
    if (err == ERR_OK && PQsendQuery(c->pg, buffer_text(&text)) != 1)
        err = connection_lost(c, e);
    struct connection_wait wait = connection_wait_begin(timeout_ms, c->watch);
    if (err == ERR_OK)
        err = connection_collect(c, &wait, &result, e);
    if (err == ERR_OK && (result == NULL || PQresultStatus(result) != PGRES_COMMAND_OK))
        err = error_set(e, ERR_REFUSED, "the session of a connection cannot be reset");
    c->broken = c->broken || err != ERR_OK;
    return err;
}
