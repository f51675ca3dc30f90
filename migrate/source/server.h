/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_SERVER_H
#define MIGRATE_SOURCE_SERVER_H
/* What a Postgres server says of itself and of this role's rights, over a connection of its own. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

struct server_facts {
    int version; /* 150004 for 15.4 */
    char version_text[64];
    char role[144];       /* as SQL quotes it */
    bool sees_statistics; /* who and what others are, in pg_stat_activity */
    bool standby;
    uint64_t now_ms; /* the server's clock, since the Unix epoch, as it answered */
    /* Of the open transactions of this database whose beginning may be seen, but our own, the age of the
     * oldest. */
    uint64_t oldest_seconds;
    uint64_t prepared; /* transactions that wait for COMMIT PREPARED, of this database */
    uint64_t slots, slots_max;
};

/* Connect, ask, disconnect. @timeout_ms bounds connecting and the answer. ERR_CONFIG: @dsn is no connection
 * string. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err server_look(struct server_facts *out, const char *dsn, unsigned timeout_ms,
                                struct error *e);
#endif
