/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_OUTBOX_H
#define MIGRATE_CHANGE_OUTBOX_H
/* An outbox: a table in which triggers leave the id of every row that came into the source's table, or whose
 * id, key or other given columns changed (sql/outbox.sql), for those who may not replicate. Rows are read,
 * taken over by the caller, and then deleted one by one by their numbers, so that the order of commits does
 * not matter: a row that is committed late is found late. Who dies before it has confirmed finds its rows
 * again; several readers get the same rows and disturb nobody. One connection, owned by one thread. */
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/change/feed.h"
#include "migrate/source/source.h"

enum {
    OUTBOX_BATCH_MAX = 5000,        /* rows */
    OUTBOX_UNCONFIRMED_MAX = 50000, /* rows that were handed out and not confirmed */
    OUTBOX_LAG_MAX = 1000 * 1000    /* rows are counted up to here */
};

struct outbox;

/* Strings are needed for the call alone. */
struct outbox_options {
    const char *dsn;
    const char
        *application;    /* what Postgres shows of the connection; NULL: twinbloom. The dsn's goes first */
    const char *outbox;  /* name, may be schema-qualified and quoted as in SQL */
    const char *table;   /* the source's, likewise, which must write into the outbox; NULL: not looked at */
    unsigned timeout_ms; /* bounds connecting and each statement */
    struct source_watch watch;
};

/* Connect, look whether all is as it must be, and listen. ERR_CONFIG with the remedy: there is no such
 * outbox, SELECT or DELETE on it is not granted, it was not made by sql/outbox.sql, the table has no triggers
 * that write into it, or none of the kind that it needs, the server is a standby. ERR_UNREACHABLE,
 * ERR_TIMEOUT. */
MUST_CHECK enum err outbox_open(struct outbox **out, const struct outbox_options *options, struct error *e);
void outbox_close(struct outbox *o);

/* The oldest rows that this outbox has not handed out yet; where there are none it waits for some until
 * @timeout_ms have passed (0: one look), and gives an empty batch if none came. Writers wake it up; where
 * they do not, it looks every half second. A row may come twice. ERR_CONFIG: the outbox, or the right to it,
 * is gone, or another one stands under its name: rows may have been missed. ERR_CONFLICT: so many rows wait
 * to be confirmed that no more are handed out. ERR_UNREACHABLE: open it again; what was not confirmed comes
 * again. ERR_TIMEOUT, or the watch's error: call again. After an error @batch is empty and nothing more was
 * handed out. */
MUST_CHECK enum err outbox_next(struct outbox *o, struct feed_batch *batch, unsigned timeout_ms,
                                struct error *e);

/* Delete exactly the rows of all batches up to @mark that are not deleted yet; may be repeated after an
 * error. A mark of an outbox that was opened before this one confirms nothing. ERR_RANGE: no batch had such a
 * mark. Else as outbox_next(). */
MUST_CHECK enum err outbox_confirm(struct outbox *o, uint64_t mark, struct error *e);

struct outbox_lag {
    uint64_t rows;      /* that wait, with those handed out and not confirmed; at most OUTBOX_LAG_MAX */
    double age_seconds; /* since the first of them was written; 0 where there is none */
};

/* Reads what waits, up to the bound. Errors as outbox_next(). */
MUST_CHECK enum err outbox_lag(struct outbox *o, struct outbox_lag *out, struct error *e);
#endif
