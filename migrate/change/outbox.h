/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_OUTBOX_H
#define MIGRATE_CHANGE_OUTBOX_H
/* An outbox: a table in which triggers record the id of each row of the source's table that was inserted, or
 * whose id, key or other given columns changed (sql/outbox.sql). It is for roles that may not use logical
 * replication. Rows are read, taken over by the caller, and then deleted by their numbers, so the order of
 * commits does not matter: a late commit is found late. A reader that dies before it confirms finds its rows
 * again. Several readers get the same rows and do not disturb each other. One thread owns the outbox, which
 * has one connection. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/change/feed.h"
#include "migrate/source/source.h"

enum {
    OUTBOX_BATCH_MAX = 5000,       /* rows */
    OUTBOX_UNCONFIRMED_MAX = 50000 /* rows handed out and not confirmed */
};

struct outbox;

/* Strings are borrowed for the call only. */
struct outbox_options {
    const char *dsn;
    const char
        *application;    /* application_name for Postgres; NULL: twinbloom. One in the dsn takes precedence */
    const char *outbox;  /* name, may be schema-qualified and quoted as in SQL */
    const char *table;   /* the source's, likewise; it must write to the outbox; NULL: not checked */
    unsigned timeout_ms; /* for connecting, and for each statement */
    struct source_watch watch;
};

/* Connect, check the outbox, and listen. ERR_CONFIG, with the remedy: there is no such outbox; the role lacks
 * SELECT or DELETE on it; sql/outbox.sql did not make it; the table's triggers that write to it are missing
 * or of the wrong kind, or their functions are others than it made; the server is a standby. ERR_UNREACHABLE,
 * ERR_TIMEOUT. */
MUST_CHECK enum err outbox_open(struct outbox **out, const struct outbox_options *options, struct error *e);
void outbox_close(struct outbox *o);
/* Say, until it is closed, that the outbox is read for @reader: a number that all have who read it for one
 * filter of one installation. ERR_CONFIG, and *@others: it is read for another one. */
MUST_CHECK enum err outbox_claim(struct outbox *o, uint32_t reader, bool *others, struct error *e);
/* What reports the rows of @table, as the server quotes it: another number when the outbox, a trigger or a
 * function of these is, or was meanwhile, another one, missing or disabled. ERR_CONFIG: they do not report
 * all rows now, or by other columns than @ids, names with commas between (NULL: by any). */
MUST_CHECK enum err outbox_table_state(struct outbox *o, const char *table, const char *ids, int64_t *out,
                                       struct error *e);
/* The connection_server() of the server that it reads from. */
uint64_t outbox_server(const struct outbox *o);

/* Get the oldest rows that were not handed out yet. If there are none, wait for some, at most @timeout_ms (0:
 * do not wait); the batch is empty if none came. Triggers may notify; without a notification the outbox is
 * read every half second. A row may come twice. ERR_CONFIG: the outbox or the right to it is gone, or another
 * outbox has its name: rows may have been missed. ERR_CONFLICT: OUTBOX_UNCONFIRMED_MAX rows wait to be
 * confirmed. ERR_UNREACHABLE: open the outbox again; unconfirmed rows come again. ERR_TIMEOUT, or the watch's
 * error: call it again. After an error @batch is empty, and no further row counts as handed out. */
MUST_CHECK enum err outbox_next(struct outbox *o, struct feed_batch *batch, unsigned timeout_ms,
                                struct error *e);

/* Delete the rows of all batches up to @mark that are not deleted yet. After an error the call may be
 * repeated. A mark of an outbox that was opened before this one confirms nothing. ERR_RANGE: no batch had
 * this mark. Other errors as of outbox_next(). */
MUST_CHECK enum err outbox_confirm(struct outbox *o, uint64_t mark, struct error *e);

/* The age of the oldest row, including those handed out; 0: there is none. Errors as of outbox_next(). */
MUST_CHECK enum err outbox_lag(struct outbox *o, double *seconds, struct error *e);
#endif
