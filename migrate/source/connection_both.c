/* SPDX-License-Identifier: MIT */
/* A copy in both directions, for replication. The happy path is: connection_command() begins it, and the
 * server switches to the copy; connection_both_take() returns messages that have come, connection_both_wait()
 * waits for more. Possible failure modes are: the server ends the copy with an error (its text and SQLSTATE);
 * the connection breaks. */

#include "migrate/source/connection_internal.h"

enum {
    TELL_MS = 2000, /* for the server's report about the end of a copy */
    END_MS = 1000,  /* for the server to finish what it is sending */
};

/* Explain why there are no more messages. */
static enum err ended(struct connection *c, struct error *e)
{
    struct connection_wait wait = connection_wait_begin(TELL_MS, (struct source_watch){0});
    enum err err = connection_wait_result(c, &wait, e);
    SCOPED(scope_result) PGresult *result = err == ERR_OK ? PQgetResult(c->pg) : NULL;
    if (result != NULL && PQresultStatus(result) == PGRES_FATAL_ERROR) {
        err = connection_failed(c, result, e);
    } else {
        c->state[0] = '\0';
        err = error_set(e, ERR_UNREACHABLE, "Postgres: the server ended the copy");
    }
    c->broken = true;
    return err;
}

enum err connection_both_take(struct connection *c, char **data, size_t *length, struct error *e)
{
    *data = NULL;
    *length = 0;
    if (c->broken)
        return connection_refuse(e);
    int n = PQgetCopyData(c->pg, data, 1);
    if (n == 0) {
        if (PQconsumeInput(c->pg) == 0)
            return connection_lost(c, e);
        n = PQgetCopyData(c->pg, data, 1);
    }
    if (n == -1)
        return ended(c, e);
    if (n < 0)
        return connection_lost(c, e);
    *length = (size_t)n;
    return ERR_OK;
}

enum err connection_both_wait(struct connection *c, struct connection_wait *wait, struct error *e)
{
    return c->broken ? connection_refuse(e) : connection_wait_input(c, wait, "message", e);
}

enum err connection_both_send(struct connection *c, const void *data, size_t length, struct error *e)
{
    if (c->broken)
        return connection_refuse(e);
    /* 0: the socket and its buffer are full; the next message repeats this one's contents */
    if (PQputCopyData(c->pg, data, (int)length) < 0 || PQflush(c->pg) < 0)
        return connection_lost(c, e);
    return ERR_OK;
}

void connection_both_end(struct connection *c)
{
    if (c->broken || PQputCopyEnd(c->pg, NULL) < 0)
        return;
    struct connection_wait wait = connection_wait_begin(END_MS, (struct source_watch){0});
    enum err err = ERR_OK;
    while (err == ERR_OK) { /* messages are dropped until the copy ends */
        char *data;
        size_t length;
        err = connection_both_take(c, &data, &length, NULL);
        if (err == ERR_OK && data == NULL)
            err = connection_both_wait(c, &wait, NULL);
        PQfreemem(data);
    }
}
