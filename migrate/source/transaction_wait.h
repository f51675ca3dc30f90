/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_TRANSACTION_WAIT_H
#define MIGRATE_SOURCE_TRANSACTION_WAIT_H
/* Waits until every transaction that was open at some time has ended, as CREATE INDEX CONCURRENTLY does:
 * first for the virtual transaction ids in pg_locks (a transaction that took a number from a sequence may
 * have no xid yet), then for every prepared transaction seen after that (PREPARE drops the virtual id), then
 * until all that they wrote is on the server's disk. */
#include <stdbool.h>
#include <stddef.h>
#include "migrate/source/source.h"

struct transaction_wait;

/* A transaction that is waited for; for people. */
struct transaction_wait_blocker {
    int pid;            /* 0: a prepared transaction */
    double age_seconds; /* age of the transaction; < 0: unknown */
    char application[64];
    char query[160]; /* its query, or a prepared transaction's gid; "": it may not be seen */
};

/* Note the transactions that are open now in the source's database (other databases cannot write its tables).
 * ERR_CONFIG: the server is a standby, which cannot see its primary's transactions. */
MUST_CHECK enum err transaction_wait_begin(struct transaction_wait **out, struct source *s, struct error *e);

/* Look once, without sleeping. *@done, or up to @blocker_max transactions that are waited for, the oldest
 * first, of *@waiting in all. */
MUST_CHECK enum err transaction_wait_poll(struct transaction_wait *settle, bool *done,
                                          struct transaction_wait_blocker *blockers, size_t blocker_max,
                                          size_t *waiting, struct error *e);
void transaction_wait_free(struct transaction_wait *settle);
#endif
