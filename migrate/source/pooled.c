/* SPDX-License-Identifier: MIT */
/* The happy path is pooled_open(), questions, pooled_close(), and again. Possible failure modes are: the
 * connection broke meanwhile or the server does not answer (open a new connection, once); the connection
 * leads to another server, or the configuration names another (likewise). */
#include "migrate/source/pooled.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "migrate/source/source_internal.h"

enum { ANSWER_MS = 1000 /* a connection that does not answer within this time is replaced */ };

struct pooled {
    const char *application;
    struct connection *connection; /* NULL: none is pooled */
    char *dsn;                     /* dsn of the connection, or of the last one */
    unsigned timeout_ms;
    uint64_t opened_at, used_at;
};

struct pooled *pooled_new(const char *application)
{
    struct pooled *k = calloc(1, sizeof(*k));
    if (k != NULL)
        k->application = application;
    return k;
}

static void drop(struct pooled *k)
{
    connection_close(k->connection);
    k->connection = NULL;
    if (k->dsn != NULL)
        explicit_bzero(k->dsn, strlen(k->dsn));
    free(k->dsn);
    k->dsn = NULL;
}

void pooled_free(struct pooled *k)
{
    if (k == NULL)
        return;
    drop(k);
    free(k);
}

void pooled_tidy(struct pooled *k, const char *dsn, unsigned timeout_ms, uint64_t now)
{
    if (k->connection != NULL &&
        (now - k->used_at >= POOLED_IDLE_US || now - k->opened_at >= POOLED_LIFE_US ||
         strcmp(k->dsn, dsn) != 0 || k->timeout_ms != timeout_ms))
        drop(k);
}

/* The pooled connection, or NULL: there is none, or it was unusable and is closed now. */
static struct connection *take_kept(struct pooled *k)
{
    struct error e;
    struct connection *c = k->connection;
    k->connection = NULL;
    if (c == NULL || connection_reset(c, k->timeout_ms < ANSWER_MS ? k->timeout_ms : ANSWER_MS, &e) == ERR_OK)
        return c;
    connection_close(c);
    return NULL;
}

/* Over @c; NULL: over a new connection. */
static enum err open_over(struct source **out, struct connection *c, const struct source_config *config,
                          unsigned timeout_ms, struct error *e)
{
    *out = NULL;
    enum err code = source_open_over(out, c, config, timeout_ms, e);
    if (code == ERR_OK)
        code = source_check(*out, e);
    if (code != ERR_OK) {
        source_close(*out);
        *out = NULL;
    }
    return code;
}

enum err pooled_open(struct pooled *k, struct source **out, const struct source_config *config,
                     unsigned timeout_ms, struct error *e)
{
    struct source_config own = *config;
    own.application = k->application;
    own.watch = (struct source_watch){0};
    *out = NULL;
    pooled_tidy(k, own.dsn, timeout_ms, clock_mono_us());
    struct connection *kept = take_kept(k);
    if (kept != NULL && open_over(out, kept, &own, timeout_ms, e) == ERR_OK)
        return ERR_OK;
    drop(k);
    k->dsn = strdup(own.dsn);
    if (k->dsn == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    k->timeout_ms = timeout_ms;
    k->opened_at = clock_mono_us();
    return open_over(out, NULL, &own, timeout_ms, e);
}

void pooled_close(struct pooled *k, struct source *s)
{
    if (s != NULL && k->connection == NULL && connection_is_idle(s->connection)) {
        k->connection = s->connection;
        k->used_at = clock_mono_us();
        s->connection = NULL;
    }
    source_close(s);
}
