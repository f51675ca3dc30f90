/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_CREATOR_H
#define TESTS_FAULT_CREATOR_H
/* One who makes keys: a row in Postgres and a BF.ADD to one coordinator, in either order that is documented.
 * One thread at a time. */
#include <libpq-fe.h>
#include <stdbool.h>

#include "tests/fault/ledger.h"
#include "tests/fault/world.h"

struct creator {
    char dsn[160];
    uint16_t port;
    unsigned coordinator;
    PGconn *db;
    struct client client;
};

/* Connections are made at the first use, and again where they broke. */
void creator_init(struct creator *c, const struct world *w, unsigned coordinator);
void creator_fini(struct creator *c);

/* Make one new key; @linger_us passes between its two halves. True: it was acknowledged, and the ledger
 * knows. */
bool creator_create(struct creator *c, struct ledger *l, enum ledger_order order, uint64_t linger_us);
#endif
