/* SPDX-License-Identifier: MIT */
/* Lines of COPY ... TO STDOUT as they come. The happy path is: the statement is sent, its reply begins, each
 * line is handed out, and behind the last line the statement reports how it ended. Possible failure modes
 * are: no line comes in time, or the watch ends the wait (even if lines keep coming). Then the statement is
 * stopped and its remaining lines are dropped. */
#include "migrate/source/connection_internal.h"

enum err connection_copy(struct connection *c, const char *name, const struct sql_binding *bindings,
                         struct error *e)
{
    if (c->broken)
        return connection_refuse(e);
    c->copy = connection_wait_begin(c->timeout_ms, c->watch);
    SCOPED(buffer_fini) struct buffer text = {0};
    enum err err = sql_render(name, bindings, NULL, &text, e);
    if (err == ERR_OK && (PQsendQuery(c->pg, buffer_text(&text)) != 1 || PQflush(c->pg) < 0))
        err = connection_lost(c, e);
    return err;
}

static enum err begin_lines(struct connection *c, struct connection_wait *wait, struct error *e)
{
    enum err err = connection_wait_result(c, wait, e);
    if (err != ERR_OK)
        return err;
    SCOPED(scope_result) PGresult *result = PQgetResult(c->pg);
    if (result == NULL)
        return connection_lost(c, e);
    if (PQresultStatus(result) != PGRES_COPY_OUT)
        return connection_failed(c, result, e);
    c->copies = true;
    return ERR_OK;
}

/* Behind the last line: read how the statement ended. */
static enum err end_lines(struct connection *c, struct connection_wait *wait, struct error *e)
{
    c->copies = false;
    SCOPED(scope_result) PGresult *result = NULL;
    enum err err = connection_collect(c, wait, &result, e);
    if (err != ERR_OK)
        return err;
    if (result == NULL)
        return connection_lost(c, e);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        return connection_failed(c, result, e);
    return ERR_OK;
}

enum err connection_copy_line(struct connection *c, unsigned timeout_ms, const char **line, size_t *length,
                              struct error *e)
{
    if (c->broken)
        return connection_refuse(e);
    PQfreemem(c->line);
    c->line = NULL;
    *length = 0;
    /* A line has usually come: save the look at the clock. */
    int n = c->copies ? PQgetCopyData(c->pg, &c->line, 1) : 0;
    enum err err = ERR_OK;
    if (n <= 0)
        connection_wait_renew(&c->copy, timeout_ms); /* new deadline, but the watch's time stays */
    if (!c->copies)
        err = begin_lines(c, &c->copy, e);
    while (err == ERR_OK && n == 0) {
        n = PQgetCopyData(c->pg, &c->line, 1);
        if (n == 0)
            err = connection_wait_input(c, &c->copy, "answer", e);
    }
    if (err == ERR_OK && n < 0)
        err = n == -1 ? end_lines(c, &c->copy, e) : connection_lost(c, e);
    if (err != ERR_OK)
        connection_abandon(c);
    else if (n > 0)
        *length = (size_t)n - 1; /* without the newline */
    *line = err == ERR_OK ? c->line : NULL;
    return err;
}
