/* SPDX-License-Identifier: MIT */
#include "migrate/source/server.h"

#include <string.h>
#include "base/number.h"
#include "migrate/source/connection.h"
#include "migrate/source/result.h"

static uint64_t number(const PGresult *r, const char *column)
{
    const char *text = result_text(r, column);
    uint64_t n = 0;
    return number_u64(text, strlen(text), &n) ? n : 0;
}

enum err server_look(struct server_facts *out, const char *dsn, unsigned timeout_ms, struct error *e)
{
    struct connection *c = NULL;
    PGresult *r = NULL;
    const struct source_watch nobody = {NULL, NULL};
    enum err code = connection_open(&c, dsn, "twinbloom doctor", timeout_ms, nobody, e);
    if (code != ERR_OK)
        return code;
    code = connection_run(c, "server", NULL, &r, e);
    if (code == ERR_OK) {
        *out = (struct server_facts){.version = connection_version(c),
                                     .sees_statistics = result_is_true(r, "sees_statistics"),
                                     .standby = result_is_true(r, "is_standby"),
                                     .now_ms = number(r, "now_ms"),
                                     .oldest_seconds = number(r, "oldest_seconds"),
                                     .prepared = number(r, "prepared"),
                                     .slots = number(r, "slots"),
                                     .slots_max = number(r, "slots_max")};
        result_copy(out->version_text, sizeof(out->version_text), r, "version");
        result_copy(out->role, sizeof(out->role), r, "role");
    }
    PQclear(r);
    connection_close(c);
    return code;
}
