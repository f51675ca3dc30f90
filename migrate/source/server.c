/* SPDX-License-Identifier: MIT */
#include "migrate/source/server.h"

#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "migrate/source/connection.h"

static const char *field(const PGresult *r, const char *column)
{
    return PQgetvalue(r, 0, PQfnumber(r, column));
}

static uint64_t number(const PGresult *r, const char *column)
{
    const char *text = field(r, column);
    uint64_t n = 0;
    return number_u64(text, strlen(text), &n) ? n : 0;
}

enum err server_look(struct server_facts *out, const char *dsn, unsigned timeout_ms, struct error *e)
{
    struct connection *c = NULL;
    PGresult *r = NULL;
    const struct source_watch nobody = {NULL, NULL};
    const struct statement statement = {.name = "server"};
    enum err code = connection_open(&c, dsn, "twinbloom doctor", timeout_ms, nobody, e);
    if (code != ERR_OK)
        return code;
    code = connection_run(c, &statement, &r, e);
    if (code == ERR_OK) {
        *out = (struct server_facts){.version = connection_version(c),
                                     .sees_statistics = strcmp(field(r, "sees_statistics"), "t") == 0,
                                     .standby = strcmp(field(r, "is_standby"), "t") == 0,
                                     .now_ms = number(r, "now_ms"),
                                     .oldest_seconds = number(r, "oldest_seconds"),
                                     .prepared = number(r, "prepared"),
                                     .slots = number(r, "slots"),
                                     .slots_max = number(r, "slots_max")};
        (void)snprintf(out->version_text, sizeof(out->version_text), "%s", field(r, "version"));
        (void)snprintf(out->role, sizeof(out->role), "%s", field(r, "role"));
    }
    PQclear(r);
    connection_close(c);
    return code;
}
