/* SPDX-License-Identifier: MIT */
/* Waits for replies and notifications from Postgres; error texts. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "migrate/source/connection_internal.h"

enum { WATCH_MS = 100 }; /* between two calls of the watch */

/* --- texts --- */

/* Make the text one line, and mask the password: libpq and the server quote what they were given. */
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
    /* libpq tries a server with and without TLS, and reports both errors: if they are equal, keep one. */
    if (n % 2 == 1 && out[n / 2] == ' ' && memcmp(out, out + n / 2 + 1, n / 2) == 0)
        n /= 2;
    out[n] = '\0';
}

enum err connection_lost(struct connection *c, struct error *e)
{
    char text[800];
    clean_text(c, PQerrorMessage(c->pg), text, sizeof(text));
    c->broken = true;
    c->state[0] = '\0';
    return error_set(e, ERR_UNREACHABLE, "Postgres: %s", text[0] == '\0' ? "the connection is closed" : text);
}

static enum err code_of_state(const char *state)
{
    /* query_canceled: by statement_timeout or an operator; lock_not_available: by lock_timeout; transaction
     * rollback: a standby's replay had to go on */
    if (strcmp(state, "57014") == 0 || strcmp(state, "55P03") == 0 || strncmp(state, "40", 2) == 0)
        return ERR_TIMEOUT;
    bool gone = strncmp(state, "08", 2) == 0 && strcmp(state, "08P01") != 0; /* wrong number of parameters */
    if (gone || strncmp(state, "57P", 3) == 0) /* connection exception, shutdown */
        return ERR_UNREACHABLE;
    if (strncmp(state, "42", 2) == 0 || strncmp(state, "3F", 2) == 0) /* syntax, names, privileges; schema */
        return ERR_CONFIG;
    return ERR_REFUSED;
}

/* Error texts go to logs and to readers of a filter's status. So repeat the server's text only if it names
 * objects or describes the server's state: other texts quote values of rows, or the statement. */
static bool may_be_repeated(const char *state)
{
    static const char classes[] = "08 0A 25 26 28 3D 3F 40 42 53 54 55 57 58";
    const char class[3] = {state[0], state[1], '\0'};
    return strlen(class) == 2 && strstr(classes, class) != NULL && strcmp(state, "42601") != 0;
}

enum err connection_failed(struct connection *c, const PGresult *result, struct error *e)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    enum err err = state == NULL ? ERR_UNREACHABLE : code_of_state(state);
    (void)snprintf(c->state, sizeof(c->state), "%s", state == NULL ? "" : state);
    if (PQstatus(c->pg) == CONNECTION_BAD)
        err = ERR_UNREACHABLE;
    char text[400];
    if (state != NULL && !may_be_repeated(state))
        (void)snprintf(text, sizeof(text), "%s (SQLSTATE %s); the database's log has its words",
                       strcmp(state, "42601") == 0 ? "syntax error" : "the statement failed", state);
    else
        clean_text(c, message == NULL ? PQresultErrorMessage(result) : message, text, sizeof(text));
    if (err == ERR_UNREACHABLE)
        c->broken = true;
    return error_set(e, err, "Postgres: %s", text[0] == '\0' ? "no result" : text);
}

const char *connection_state(const struct connection *c)
{
    return c->state;
}

bool connection_has_warned(const struct connection *c)
{
    return c->warned;
}

void connection_set_watch(struct connection *c, struct source_watch watch)
{
    c->watch = watch;
}

bool connection_is_lost(const struct connection *c)
{
    return c->broken;
}

bool connection_is_idle(const struct connection *c)
{
    return !c->broken && PQtransactionStatus(c->pg) == PQTRANS_IDLE;
}

int connection_version(const struct connection *c)
{
    return PQserverVersion(c->pg);
}

enum err connection_refuse(struct error *e)
{
    return error_set(e, ERR_UNREACHABLE, "Postgres: the connection is lost; open it again");
}

/* --- waits --- */

struct connection_wait connection_wait_begin(unsigned ms, struct source_watch watch)
{
    uint64_t now = clock_mono_us();
    return (struct connection_wait){
        .ms = ms, .deadline = now + (uint64_t)ms * 1000, .watch_at = now + WATCH_MS * 1000, .watch = watch};
}

void connection_wait_renew(struct connection_wait *w, unsigned ms)
{
    w->ms = ms;
    w->deadline = clock_mono_us() + (uint64_t)ms * 1000;
}

enum err connection_slice(struct connection_wait *w, const char *what, int *ms, struct error *e)
{
    uint64_t now = clock_mono_us();
    *ms = 0;
    if (now >= w->deadline)
        return error_set(e, ERR_TIMEOUT, "Postgres: no %s within %u ms", what, w->ms);
    if (now >= w->watch_at) {
        enum err err = w->watch.fn == NULL ? ERR_OK : w->watch.fn(w->watch.arg, e);
        if (err != ERR_OK)
            return err;
        w->watch_at = now + WATCH_MS * 1000;
    }
    uint64_t until = w->deadline < w->watch_at ? w->deadline : w->watch_at;
    *ms = (int)((until - now + 999) / 1000);
    return ERR_OK;
}

/* Poll for reading and, if something is @unsent, for writing; take what has come. */
static enum err poll_once(struct connection *c, bool unsent, int ms, struct error *e)
{
    struct pollfd fd = {.fd = PQsocket(c->pg), .events = (short)(unsent ? POLLIN | POLLOUT : POLLIN)};
    int ready = poll(&fd, 1, ms);
    if (ready < 0 && errno != EINTR)
        return error_set(e, ERR_IO, "poll: %s", strerror(errno));
    if (ready > 0 && (fd.revents & ~POLLOUT) != 0 && PQconsumeInput(c->pg) == 0)
        return connection_lost(c, e);
    return ERR_OK;
}

enum err connection_wait_input(struct connection *c, struct connection_wait *wait, const char *what,
                               struct error *e)
{
    int unsent = PQflush(c->pg);
    if (unsent < 0)
        return connection_lost(c, e);
    int ms;
    enum err err = connection_slice(wait, what, &ms, e);
    return err == ERR_OK ? poll_once(c, unsent > 0, ms, e) : err;
}

enum err connection_wait_result(struct connection *c, struct connection_wait *wait, struct error *e)
{
    if (PQflush(c->pg) < 0)
        return connection_lost(c, e);
    enum err err = ERR_OK;
    while (err == ERR_OK && PQisBusy(c->pg))
        err = connection_wait_input(c, wait, "answer", e);
    return err;
}

/* --- notifications --- */

/* Drop the notifications that have come; true if one of them had the payload. */
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
        return connection_refuse(e);
    uint64_t until = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    /* only the watch may end this wait with an error */
    struct connection_wait wait = connection_wait_begin(UINT_MAX, c->watch);
    for (;;) {
        uint64_t now = clock_mono_us();
        if (drop_notifications(c, payload) || now >= until)
            return ERR_OK;
        int ms;
        enum err err = connection_slice(&wait, "notification", &ms, e);
        int rest = (int)((until - now + 999) / 1000);
        if (err == ERR_OK)
            err = poll_once(c, false, rest < ms ? rest : ms, e);
        if (err != ERR_OK)
            return err;
    }
}
