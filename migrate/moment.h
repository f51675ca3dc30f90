/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_MOMENT_H
#define MIGRATE_MOMENT_H
/* Where the database is at a moment, for marks (shard/marks.h): what was committed before it, and what can
 * only come after. */
#include <stdint.h>
#include "base/error.h"
#include "migrate/source.h"

enum { MOMENT_SERVER_MAX = 48 };

struct moment {
    uint64_t ms;                    /* by the server's clock */
    uint64_t horizon;               /* transactions with smaller ids had ended */
    uint64_t next;                  /* ids from this one on had not been given */
    char server[MOMENT_SERVER_MAX]; /* ids compare only where this is the same */
};

/* A connection of its own for asking again and again. */
struct moments;

/* ERR_CONFIG, ERR_UNREACHABLE, ERR_TIMEOUT as connection_open(). */
MUST_CHECK enum err moments_open(struct moments **out, const char *dsn, unsigned timeout_ms,
                                 struct source_watch watch, struct error *e);
/* NULL is fine. */
void moments_close(struct moments *m);
/* ERR_CONFIG (a standby; the role may not ask), ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. After any of them
 * it is best opened anew. */
MUST_CHECK enum err moments_take(struct moments *m, struct moment *out, struct error *e);
#endif
