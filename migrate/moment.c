/* SPDX-License-Identifier: MIT */
#include "migrate/moment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "migrate/source_internal.h"

struct moments {
    struct connection *connection;
};

enum err moments_open(struct moments **out, const char *dsn, unsigned timeout_ms, struct source_watch watch,
                      struct error *e)
{
    struct moments *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = connection_open(&m->connection, dsn, "twinbloom marks", timeout_ms, watch, e);
    if (code == ERR_OK)
        *out = m;
    else
        free(m);
    return code;
}

void moments_close(struct moments *m)
{
    if (m == NULL)
        return;
    connection_close(m->connection);
    free(m);
}

static bool take_number(const PGresult *r, const char *column, uint64_t *out)
{
    const char *text = PQgetvalue(r, 0, PQfnumber(r, column));
    return number_u64(text, strlen(text), out);
}

static enum err take_moment(const PGresult *r, struct moment *out, struct error *e)
{
    const char *server = PQgetvalue(r, 0, PQfnumber(r, "server"));
    if (!take_number(r, "ms", &out->ms) || !take_number(r, "horizon", &out->horizon) ||
        !take_number(r, "next", &out->next) || strlen(server) >= sizeof(out->server))
        return error_set(e, ERR_PARSE, "moment.sql: unexpected answer");
    memcpy(out->server, server, strlen(server) + 1);
    return ERR_OK;
}

enum err moments_take(struct moments *m, struct moment *out, struct error *e)
{
    PGresult *r = NULL;
    const struct statement statement = {.name = "moment"};
    enum err code = connection_run(m->connection, &statement, &r, e);
    if (code == ERR_OK)
        code = take_moment(r, out, e);
    PQclear(r);
    return code;
}
