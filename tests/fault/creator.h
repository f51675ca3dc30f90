/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_CREATOR_H
#define TESTS_FAULT_CREATOR_H
/* Makes keys: a row in Postgres and a BF.ADD to one coordinator, in either of the documented orders. One
 * thread at a time. */
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

/* The creator connects at the first use, and again when a connection broke. */
void creator_init(struct creator *c, const struct world *w, unsigned coordinator);
void creator_fini(struct creator *c);

/* Make one new key, with a pause of @linger_us between row and BF.ADD. True: the key was acknowledged, and
 * the ledger knows it. */
bool creator_create(struct creator *c, struct ledger *l, enum ledger_order order, uint64_t linger_us);
#endif
