/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_SERVER_H
#define MIGRATE_SOURCE_SERVER_H
/* What a Postgres server reports about itself and this role's rights, over a connection of its own. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

struct server_facts {
    int version; /* 150004 for 15.4 */
    char version_text[64];
    char role[144];       /* as SQL quotes it */
    bool sees_statistics; /* may see other sessions in pg_stat_activity */
    bool standby;
    uint64_t now_ms; /* the server's clock when it replied, since the Unix epoch */
    /* Age of the oldest open transaction of this database whose start is visible, except our own. */
    uint64_t oldest_seconds;
    uint64_t prepared; /* transactions of this database that wait for COMMIT PREPARED */
    uint64_t slots, slots_max;
};

/* Connect, ask, disconnect. @timeout_ms bounds connecting and the reply. ERR_CONFIG: @dsn is not a connection
 * string. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err server_look(struct server_facts *out, const char *dsn, unsigned timeout_ms,
                                struct error *e);
#endif
