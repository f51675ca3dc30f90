/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_OUTBOXES_H
#define TESTS_INTEGRATION_OUTBOXES_H
/* What tests of outboxes share: making one as a DBA does, and reading it. */
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

/* The same, and it must fail; what psql printed must have @text in it. */
void outboxes_refuse(const struct temp_postgres *p, const struct outboxes_setup *setup, const char *text);

/* Run sql/outbox_drop.sql; it must succeed. */
void outboxes_drop(const struct temp_postgres *p, const char *outbox);

/* Open as postgres; it must succeed. @table: NULL for none. */
struct outbox *outboxes_open(const struct temp_postgres *p, const char *outbox, const char *table);

/* Fail unless the ids in the outbox, by seq and with '|' between them, are @ids; then empty it. */
void outboxes_expect(PGconn *pg, const char *outbox, const char *ids);

/* The next batch, which must have these ids, in this form; gives its mark. */
uint64_t outboxes_next(struct outbox *o, const char *ids);
#endif
