/* SPDX-License-Identifier: MIT */
#include "migrate/connection_internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
    WATCH_MS = 100,  /* between two calls of the watch */
    DRAIN_MS = 2000, /* for the server to obey a cancel */
};

/* Texts. */

/* One line, with the password masked: libpq and the server quote what they were given. */
static void clean_text(const struct connection *c, const char *text, char *out, size_t size)
{
    size_t secret = c->password == NULL ? 0 : strlen(c->password);
    size_t n = 0;
    while (*text != '\0' && n + 4 < size) {
        if (secret > 0 && strncmp(text, c->password, secret) == 0) {
            memcpy(out + n, "***", 3);
            n += 3;
            text += secret;
            continue;
        }
        char ch = *text++;
        out[n++] = (unsigned char)ch < ' ' ? ' ' : ch;
    }
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}

enum err connection_lost(struct connection *c, struct error *e)
{
    char text[400];
    clean_text(c, PQerrorMessage(c->pg), text, sizeof(text));
    c->broken = true;
    return error_set(e, ERR_UNREACHABLE, "Postgres: %s", text[0] == '\0' ? "the connection is closed" : text);
}

static enum err code_of_state(const char *state)
{
    /* query_canceled: statement_timeout or an operator; lock_not_available: lock_timeout; transaction
     * rollback: a standby's replay had to go on */
    if (strcmp(state, "57014") == 0 || strcmp(state, "55P03") == 0 || strncmp(state, "40", 2) == 0)
        return ERR_TIMEOUT;
    bool gone =
        strncmp(state, "08", 2) == 0 && strcmp(state, "08P01") != 0; /* not: wrong number of parameters */
    if (gone || strncmp(state, "57P", 3) == 0)                       /* connection exception, shutdown */
        return ERR_UNREACHABLE;
    if (strncmp(state, "42", 2) == 0 || strncmp(state, "3F", 2) == 0) /* syntax, names, privileges; schema */
        return ERR_CONFIG;
    return ERR_REFUSED;
}

enum err connection_failed(struct connection *c, PGresult *result, struct error *e)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    enum err err = state == NULL ? ERR_UNREACHABLE : code_of_state(state);
    if (PQstatus(c->pg) == CONNECTION_BAD)
        err = ERR_UNREACHABLE;
    char text[400];
    clean_text(c, message == NULL ? PQresultErrorMessage(result) : message, text, sizeof(text));
    PQclear(result);
    if (err == ERR_UNREACHABLE)
        c->broken = true;
    return error_set(e, err, "Postgres: %s", text[0] == '\0' ? "no result" : text);
}

enum err connection_refuse_broken(struct error *e)
{
    return error_set(e, ERR_UNREACHABLE, "Postgres: the connection is lost; open it again");
}

/* Connecting. */

/* libpq cuts a URI at the first '@' and '/': a password with such a character would end up as a host's name
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
        PQconninfoParse(dsn, NULL); /* its message may quote a piece of the password */
    if (options == NULL)
        return error_set(
            e, ERR_CONFIG,
            "dsn is no connection string; write postgresql://user@host:port/database or key=value pairs");
    enum err err = ERR_OK;
    for (PQconninfoOption *o = options; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, "password") != 0 || o->val == NULL || o->val[0] == '\0')
            continue;
        c->password = strdup(o->val);
        if (c->password == NULL)
            err = error_set(e, ERR_NOMEM, "out of memory");
    }
    PQconninfoFree(options);
    return err;
}

struct wait connection_wait(struct connection *c, unsigned ms, bool watched)
{
    uint64_t now = clock_mono_us();
    if (c->watch_at == 0)
        c->watch_at = now + WATCH_MS * 1000;
    return (struct wait){.ms = ms, .deadline = now + (uint64_t)ms * 1000, .watched = watched};
}

/* Milliseconds to poll() for @what. ERR_TIMEOUT: the deadline has passed; or the watch's error. */
static enum err wait_slice(struct connection *c, const struct wait *w, const char *what, int *ms,
                           struct error *e)
{
    uint64_t now = clock_mono_us();
    *ms = 0;
    if (now >= w->deadline)
        return error_set(e, ERR_TIMEOUT, "Postgres: no %s within %u ms", what, w->ms);
    if (w->watched && now >= c->watch_at) {
        enum err err = c->watch.fn == NULL ? ERR_OK : c->watch.fn(c->watch.arg, e);
        if (err != ERR_OK)
            return err;
        c->watch_at = now + WATCH_MS * 1000;
    }
    uint64_t until = w->watched && c->watch_at < w->deadline ? c->watch_at : w->deadline;
    *ms = (int)((until - now + 999) / 1000);
    return ERR_OK;
}

static enum err connect_to(struct connection *c, const char *dsn, const char *application, struct error *e)
{
    char user_timeout[16];
    (void)snprintf(user_timeout, sizeof(user_timeout), "%u", c->timeout_ms);
    /* What stands before the dsn is a default that it may override. */
    const char *const keys[] = {"application_name", "tcp_user_timeout", "keepalives_idle", "dbname", NULL};
    const char *const values[] = {application, user_timeout, "30", dsn, NULL};
    c->pg = PQconnectStartParams(keys, values, 1);
    if (c->pg == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    struct wait wait = connection_wait(c, c->timeout_ms, true);
    PostgresPollingStatusType want =
        PQstatus(c->pg) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (want != PGRES_POLLING_OK) {
        if (want == PGRES_POLLING_FAILED)
            return connection_lost(c, e);
        struct pollfd fd = {.fd = PQsocket(c->pg),
                            .events = want == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        int ms;
        enum err err = wait_slice(c, &wait, "connection", &ms, e);
        if (err != ERR_OK)
            return err;
        if (poll(&fd, 1, ms) > 0)
            want = PQconnectPoll(c->pg);
    }
    c->cancel = PQgetCancel(c->pg);
    if (c->cancel == NULL || PQsetnonblocking(c->pg, 1) != 0)
        return error_set(e, ERR_NOMEM, "out of memory");
    return ERR_OK;
}

/* A notice has nobody to read it; warnings on standard error are not ours to write. */
static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

enum err connection_open(struct connection **out, const char *dsn, const char *application,
                         unsigned timeout_ms, struct source_watch watch, struct error *e)
{
    struct connection *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    c->timeout_ms = timeout_ms;
    c->watch = watch;
    enum err err = read_dsn(c, dsn, e);
    if (err == ERR_OK)
        err = connect_to(c, dsn, application, e);
    if (err != ERR_OK) {
        connection_close(c);
        return err;
    }
    (void)PQsetNoticeReceiver(c->pg, ignore_notice, NULL);
    *out = c;
    return ERR_OK;
}

void connection_close(struct connection *c)
{
    if (c == NULL)
        return;
    PQfreemem(c->line);
    PQfreeCancel(c->cancel);
    PQfinish(c->pg);
    if (c->password != NULL)
        explicit_bzero(c->password, strlen(c->password));
    free(c->password);
    free(c);
}

/* Statements. */

enum err connection_wait_input(struct connection *c, const struct wait *wait, struct error *e)
{
    int unsent = PQflush(c->pg), ms;
    if (unsent < 0)
        return connection_lost(c, e);
    enum err err = wait_slice(c, wait, "answer", &ms, e);
    if (err != ERR_OK)
        return err;
    struct pollfd fd = {.fd = PQsocket(c->pg), .events = (short)(unsent > 0 ? POLLIN | POLLOUT : POLLIN)};
    int ready = poll(&fd, 1, ms);
    if (ready < 0 && errno != EINTR)
        return error_set(e, ERR_IO, "poll: %s", strerror(errno));
    if (ready > 0 && (fd.revents & ~POLLOUT) != 0 && PQconsumeInput(c->pg) == 0)
        return connection_lost(c, e);
    return ERR_OK;
}

enum err connection_wait_result(struct connection *c, const struct wait *wait, struct error *e)
{
    if (PQflush(c->pg) < 0)
        return connection_lost(c, e);
    enum err err = ERR_OK;
    while (err == ERR_OK && PQisBusy(c->pg))
        err = connection_wait_input(c, wait, e);
    return err;
}

/* What is left of a COPY's lines. */
static enum err drop_lines(struct connection *c, const struct wait *wait, struct error *e)
{
    char *line = NULL;
    int n = 0;
    while (c->copies && (n = PQgetCopyData(c->pg, &line, 1)) >= 0) {
        PQfreemem(line);
        line = NULL;
        enum err err = n == 0 ? connection_wait_input(c, wait, e) : ERR_OK;
        if (err != ERR_OK)
            return err;
    }
    c->copies = false;
    return ERR_OK;
}

enum err connection_collect(struct connection *c, const struct wait *wait, PGresult **out, struct error *e)
{
    *out = NULL;
    enum err err;
    while ((err = connection_wait_result(c, wait, e)) == ERR_OK) {
        PGresult *result = PQgetResult(c->pg);
        if (result == NULL)
            return ERR_OK;
        /* This "result" would come again and again, until its lines are taken. */
        c->copies = PQresultStatus(result) == PGRES_COPY_OUT;
        if (*out == NULL && !c->copies)
            *out = result;
        else
            PQclear(result);
        err = drop_lines(c, wait, e);
        if (err != ERR_OK)
            break;
    }
    PQclear(*out);
    *out = NULL;
    return err;
}

void connection_abandon(struct connection *c)
{
    if (c->broken || PQtransactionStatus(c->pg) != PQTRANS_ACTIVE)
        return; /* a cancel could hit what is sent next */
    char why[256];
    (void)PQcancel(c->cancel, why, sizeof(why));
    PGresult *result = NULL;
    const struct wait wait = connection_wait(c, DRAIN_MS, false);
    if (drop_lines(c, &wait, NULL) != ERR_OK || connection_collect(c, &wait, &result, NULL) != ERR_OK)
        c->broken = true;
    else
        PQclear(result);
}

/* After any error nothing is under way any more. */
static enum err receive(struct connection *c, PGresult **out, struct error *e)
{
    if (c->broken)
        return connection_refuse_broken(e);
    PGresult *result;
    c->watch_at = 0;
    const struct wait wait = connection_wait(c, c->timeout_ms, true);
    enum err err = connection_collect(c, &wait, &result, e);
    if (err != ERR_OK) {
        connection_abandon(c);
        return err;
    }
    if (result == NULL)
        return connection_lost(c, e);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        return connection_failed(c, result, e);
    *out = result;
    return ERR_OK;
}

enum err connection_render(const struct statement *s, struct buffer *text, struct error *e)
{
    const char *names[CONNECTION_PARAMS_MAX];
    for (size_t i = 0; i < s->param_count; i++)
        names[i] = s->params[i].name;
    return sql_render(s->name, s->bindings, s->binding_count, names, s->param_count, text, e);
}

static void values_of(const struct statement *s, const char *values[CONNECTION_PARAMS_MAX])
{
    for (size_t i = 0; i < s->param_count; i++)
        values[i] = s->params[i].value;
}

enum err connection_run(struct connection *c, const struct statement *s, PGresult **out, struct error *e)
{
    if (c->broken)
        return connection_refuse_broken(e);
    struct buffer text = {0};
    enum err err = connection_render(s, &text, e);
    const char *values[CONNECTION_PARAMS_MAX];
    values_of(s, values);
    if (err == ERR_OK &&
        PQsendQueryParams(c->pg, buffer_text(&text), (int)s->param_count, NULL, values, NULL, NULL, 0) != 1)
        err = connection_lost(c, e);
    buffer_fini(&text);
    return err == ERR_OK ? receive(c, out, e) : err;
}

int connection_version(const struct connection *c)
{
    return PQserverVersion(c->pg);
}

/* Drop the notifications that have come; true: one of them had the payload. */
static bool drop_notifications(struct connection *c, const char *payload)
{
    bool found = false;
    PGnotify *notification;
    while ((notification = PQnotifies(c->pg)) != NULL) {
        found = found || strcmp(notification->extra, payload) == 0;
        PQfreemem(notification);
    }
    return found;
}

enum err connection_await_notification(struct connection *c, const char *payload, unsigned timeout_ms,
                                       struct error *e)
{
    if (c->broken)
        return connection_refuse_broken(e);
    uint64_t until = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    c->watch_at = 0;
    const struct wait wait = connection_wait(c, UINT_MAX, true); /* only the watch may end it with an error */
    for (;;) {
        uint64_t now = clock_mono_us();
        if (drop_notifications(c, payload) || now >= until)
            return ERR_OK;
        int ms;
        enum err err = wait_slice(c, &wait, "notification", &ms, e);
        if (err != ERR_OK)
            return err;
        int rest = (int)((until - now + 999) / 1000);
        struct pollfd fd = {.fd = PQsocket(c->pg), .events = POLLIN};
        int ready = poll(&fd, 1, rest < ms ? rest : ms);
        if (ready < 0 && errno != EINTR)
            return error_set(e, ERR_IO, "poll: %s", strerror(errno));
        if (ready > 0 && PQconsumeInput(c->pg) == 0)
            return connection_lost(c, e);
    }
}
