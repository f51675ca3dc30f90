/* SPDX-License-Identifier: MIT */
#include "migrate/source/server.h"

#include "migrate/source/connection.h"
#include "migrate/source/result.h"

enum err server_look(struct server_facts *out, const char *dsn, unsigned timeout_ms, struct error *e)
{
    struct connection *c = NULL;
    PGresult *r = NULL;
    const struct source_watch nobody = {NULL, NULL};
    enum err code = connection_open(&c, CONNECTION_SQL, dsn, "twinbloom doctor", timeout_ms, nobody, e);
    if (code != ERR_OK)
        return code;
    code = connection_run(c, "server", NULL, &r, e);
    if (code == ERR_OK) {
        *out = (struct server_facts){.version = connection_version(c),
                                     .sees_statistics = result_is_true(r, "sees_statistics"),
                                     .standby = result_is_true(r, "is_standby")};
        (void)result_number(r, "now_ms", &out->now_ms);
        (void)result_number(r, "oldest_seconds", &out->oldest_seconds);
        (void)result_number(r, "prepared", &out->prepared);
        (void)result_number(r, "slots", &out->slots);
        (void)result_number(r, "slots_max", &out->slots_max);
        result_copy(out->version_text, sizeof(out->version_text), r, "version");
        result_copy(out->role, sizeof(out->role), r, "role");
    }
    PQclear(r);
    connection_close(c);
    return code;
}
