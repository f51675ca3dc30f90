/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_FOLLOW_FOLLOWER_INTERNAL_H
#define EXPANSION_FOLLOW_FOLLOWER_INTERNAL_H
/* What the files of the follower share: follower.c (loop, connections), follower_lease.c, follower_add.c
 * (keys to the filter), follower_marks.c (persistent marks in Redis), follower_keyset.c and follower_feed.c
 * (the modes). */
#include "base/buffer.h"
#include "expansion/follow/follower.h"
#include "migrate/change/outbox.h"
#include "migrate/source/transaction_wait.h"
#include "migrate/change/stream.h"
#include "shard/view/handle.h"
#include "shard/redis/script_call.h"

/* Marks and request noted before a settle began: after it, nothing can be committed at or below the marks. */
struct follower_noted {
    struct transaction_wait *settle;
    int64_t *marks;   /* NULL: none are noted */
    uint64_t request; /* received before the settle */
};

/* A mark of INT64_MIN: none yet. */
struct follower_keyset {
    unsigned tables;
    int64_t *safe, *seen;
    struct follower_noted noted;
    uint64_t reread_at, reread_pause; /* monotonic time, us: end of the last reread; pause after it */
    uint64_t round_at, round_pause, complete_at;
};

struct follower_feed {
    struct stream *stream;
    struct outbox *outbox;
    struct stream_table *tables;
    const char *id_columns[SOURCE_ID_COLUMNS_MAX];
    uint64_t request, request_lsn; /* the pending request and its position; 0: none */
    uint64_t reporting; /* the publication's state when the feed was opened; 0: an outbox has none */
    int64_t *reported;  /* outbox_table_state() of each table then; owned */
    uint64_t history;   /* source_history(), its hash, then */
    uint64_t server;    /* the server that reports rows, see connection_server(); 0: rows are read by ids */
    uint64_t looked_at;
    struct follower_noted gap; /* see follower_gap.c */
    uint64_t gap_lsn;          /* end of its settle in the WAL; 0: it has not ended */
    bool gap_open;             /* the rows above the safe marks are to be read once more behind that settle */
    struct follower_relation {
        uint32_t relid;
        size_t table;
    } * relations; /* known relations of an outbox; owned */
    size_t relation_count;
};

struct follower {
    const struct follower_options *o;
    enum follower_mode mode; /* a fallback may have changed it */
    struct sync_client *redis;
    struct handle handle;
    struct view view; /* scratch */
    struct source *source;
    uint64_t identity; /* source_identity() when the source was opened */
    struct script_call call;
    struct follower_keyset keyset;
    struct follower_feed feed;
    bool held;         /* this coordinator has the lease, or had it when Redis was there last */
    bool taken;        /* for this attempt */
    uint64_t attempt;  /* told from others by a random number; what it sends later than that is refused */
    bool has_more;     /* tables have come since this follower began: their first rows are new, too */
    bool impossible;   /* retries are useless until configuration, table or outbox change */
    unsigned refusals; /* the last attempts that found another reader of the outbox */
    const char *state;
    char said[16]; /* the last logged state */
    struct error problem;
    enum err problem_code;            /* code of problem, if that has a text */
    char fallback[FOLLOWER_TEXT_MAX]; /* why it fell back to another mode; "": it did not */
    char coverage[FOLLOWER_COVERAGE_MAX];
    uint64_t request, done; /* the last one received, the last one fulfilled */
    uint64_t rows, lag_ms;
    struct key_client *client; /* NULL: not opened yet */
    uint64_t tended_at;
    uint64_t tables_due; /* monotonic time, us, of the next look at which tables there are */
    uint64_t stepped_at; /* monotonic time, us, of the last step without an error */
};

/* --- follower.c --- */
bool follower_stops(const struct follower *t);
/* A source_watch: ends a wait for Postgres when the follower must end; renews the lease meanwhile. */
enum err follower_watch(void *arg, struct error *e);

/* ERR_CHANGED: `table` means other tables than when the source was opened. @at_once: look even if that was
 * done a short time ago. */
MUST_CHECK enum err follower_same_tables(struct follower *t, bool at_once, struct error *e);

/* ERR_CHANGED: `table` is no more what it was when the source was opened. What is read since may be wrong: a
 * column of another type is still read as one of the type that it had. */
MUST_CHECK enum err follower_unchanged(struct follower *t, struct error *e);

/* --- follower_lease.c --- */
/* Take or renew the lease, and write the status. ERR_BUSY: another coordinator has the lease, or may have had
 * it meanwhile: begin again, from the marks. */
MUST_CHECK enum err follower_hold(struct follower *t, struct error *e);
/* follower_hold(), if it is due. */
MUST_CHECK enum err follower_tend(struct follower *t, struct error *e);
void follower_leave(struct follower *t);

/* --- follower_add.c --- */
/* Add all keys that follower_take_row() has kept. */
MUST_CHECK enum err follower_add(struct follower *t, const struct buffer *keys, struct error *e);
/* A scan_row_fn; @arg is a struct buffer, for scan_keep_key(). */
void follower_take_row(void *arg, const char *key, size_t length);

/* --- follower_marks.c --- */
/* Read a field of P:{F}:marks; *@out "": it does not exist. */
MUST_CHECK enum err follower_mark_read(struct follower *t, const char *field, char *out, size_t size,
                                       struct error *e);
/* @value NULL: delete the field. Compares the lease: ERR_BUSY, if it has ended. */
MUST_CHECK enum err follower_mark_write(struct follower *t, const char *field, const char *value,
                                        struct error *e);
/* Write the mark of a table. INT64_MIN: the table was empty, so every row of it is to be read. */
MUST_CHECK enum err follower_mark_write_id(struct follower *t, unsigned table, int64_t id, struct error *e);
/* The id at which to begin with table @i; INT64_MIN: there is no mark. A table without one is read from its
 * beginning if it has come since this follower began. */
MUST_CHECK enum err follower_mark_of_table(struct follower *t, unsigned i, bool *found, int64_t *out,
                                           struct error *e);
/* Rows that were reported under another `key` or `where`, by a follower that had another configuration, count
 * as missed if the generation that is read was built by ours: add all rows. */
MUST_CHECK enum err follower_same_keys(struct follower *t, struct error *e);
/* Marks of another id column say nothing of ours: then they go back to the beginning. */
MUST_CHECK enum err follower_same_ids(struct follower *t, struct error *e);

/* --- rows by ids: follower_keyset.c --- */
void follower_forget(struct follower_noted *n);
/* Add all rows of a table, and say so in the log. */
MUST_CHECK enum err follower_read_all(struct follower *t, unsigned table, struct error *e);
/* Add the rows with ids in (@after, @upto]. */
MUST_CHECK enum err follower_read_range(struct follower *t, unsigned table, int64_t after, int64_t upto,
                                        struct error *e);
/* The largest id of a table; INT64_MIN: the table is empty. */
MUST_CHECK enum err follower_largest(struct follower *t, unsigned table, int64_t *out, struct error *e);

/* --- follower_gap.c: marks that a feed leaves for a follower by ids --- */
/* Move the safe marks while a feed is followed; @quiet: all that was committed when this step began is
 * added. */
MUST_CHECK enum err follower_gap_note(struct follower *t, bool quiet, struct error *e);
/* Add the rows above the safe marks, if some may have come while nothing reported them: the slot begins @at,
 * beyond where a follower has noted to have moved it. An outbox begins at 0. */
MUST_CHECK enum err follower_gap_fill(struct follower *t, uint64_t at, struct error *e);
/* At the end: note where the slot is, so that the next follower reads no rows by their ids. */
void follower_gap_leave(struct follower *t);
/* Add all rows of each table for which @reported differs from what the last follower has noted, and note it:
 * rows may not have been reported, and may have any id. If no follower has noted any, those above the safe
 * marks came before: they are a gap. */
MUST_CHECK enum err follower_gap_compare(struct follower *t, const int64_t *reported, struct error *e);
/* The next follower by an outbox adds all rows of each table. */
MUST_CHECK enum err follower_gap_distrust(struct follower *t, struct error *e);

/* --- the modes; after an error the mode is opened again --- */
MUST_CHECK enum err follower_keyset_open(struct follower *t, struct error *e);
MUST_CHECK enum err follower_keyset_step(struct follower *t, struct error *e);
void follower_keyset_close(struct follower *t);
MUST_CHECK enum err follower_feed_open(struct follower *t, struct error *e);
MUST_CHECK enum err follower_feed_step(struct follower *t, struct error *e);
void follower_feed_close(struct follower *t);
/* If the server keeps too much WAL for the slot, drop it and fall back to ids. */
MUST_CHECK enum err follower_feed_watch_slot(struct follower *t, struct error *e);
/* Drop the slot, which is not needed any more. */
MUST_CHECK enum err follower_feed_drop_slot(struct follower *t, struct error *e);

MUST_CHECK enum err follower_text_to_id(const char *text, int64_t *out, struct error *e);
#endif
