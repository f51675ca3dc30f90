/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_OUTBOXES_H
#define TESTS_INTEGRATION_OUTBOXES_H
/* Shared parts of the tests of outboxes: make an outbox as a DBA does, and read it. */
#include "migrate/change/outbox.h"
#include "tests/integration/database.h"

/* The variables of sql/outbox.sql. */
struct outboxes_setup {
    const char *table;
    const char *id;      /* NULL: id */
    const char *columns; /* NULL: code */
    const char *outbox;
    const char *reader; /* NULL: postgres */
    const char *notify; /* NULL: true */
};

/* Run sql/outbox.sql; it must succeed. */
void outboxes_install(const struct temp_postgres *p, const struct outboxes_setup *setup);

/* Run sql/outbox.sql; it must fail, and psql must print @text. */
void outboxes_refuse(const struct temp_postgres *p, const struct outboxes_setup *setup, const char *text);

/* Run sql/outbox_drop.sql; it must succeed. */
void outboxes_drop(const struct temp_postgres *p, const char *outbox);

/* Open the outbox as the user postgres; it must succeed. @table: NULL for none. */
struct outbox *outboxes_open(const struct temp_postgres *p, const char *outbox, const char *table);

/* Fail the test unless the ids in the outbox, by seq and with '|' between them, are @ids; then empty the
 * outbox. */
void outboxes_expect(PGconn *pg, const char *outbox, const char *ids);

/* Read the next batch, whose ids, in the form above, must be @ids. Returns its mark. */
uint64_t outboxes_next(struct outbox *o, const char *ids);
#endif
