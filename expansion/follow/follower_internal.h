/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_FOLLOW_FOLLOWER_INTERNAL_H
#define EXPANSION_FOLLOW_FOLLOWER_INTERNAL_H
/* What the files of the follower share: follower.c (loop, connections), follower_lease.c, follower_add.c
 * (keys to the filter), follower_marks.c (what outlasts it in Redis), follower_keyset.c and follower_feed.c
 * (the modes). */
#include "base/buffer.h"
#include "expansion/follow/follower.h"
#include "migrate/change/outbox.h"
#include "migrate/source/transaction_wait.h"
#include "migrate/change/stream.h"
#include "shard/view/handle.h"
#include "shard/redis/script_call.h"

/* Keys that were read and are to be added. */
struct tail_keys {
    struct buffer bytes;
    size_t *lengths;
    size_t count, room;
    bool failed; /* no memory: some are missing */
};

enum { FOLLOWER_SETTLES = 16 };

/* What was seen when a settle began: once it has ended, nothing more is committed at or below the marks. */
struct follower_noted {
    struct transaction_wait *settle;
    int64_t *marks;
    uint64_t request; /* that had come by then */
};

/* INT64_MIN: nothing yet. */
struct follower_keyset {
    unsigned tables;
    int64_t *safe, *seen;
    struct follower_noted noted[FOLLOWER_SETTLES]; /* the oldest first */
    size_t noted_count;
    uint64_t reread_at, reread_pause; /* when what is above the safe marks may be read again */
    uint64_t round_at, round_pause, complete_at;
};

struct follower_feed {
    struct stream *stream;
    struct outbox *outbox;
    struct stream_table *tables;
    const char *id_columns[SOURCE_ID_COLUMNS_MAX];
    uint64_t request, request_lsn; /* that waits; 0: none */
    uint64_t identity;             /* of the source, as it was opened */
    uint64_t looked_at;
    struct follower_noted gap; /* see follower_gap.c */
    uint64_t gap_lsn;          /* its settle has ended before it; 0: not yet */
    struct follower_relation {
        uint32_t relid;
        size_t table;
    } * relations; /* of an outbox */
    size_t relation_count;
};

struct follower {
    const struct follower_options *o;
    enum follower_mode mode; /* may have fallen back */
    struct sync_client *redis;
    struct handle handle;
    struct view view; /* as it was when this began to follow */
    struct source *source;
    struct script_call call;
    struct follower_keyset keyset;
    struct follower_feed feed;
    bool held;       /* the lease */
    bool impossible; /* only another configuration or table helps */
    const char *state;
    char said[16]; /* state that was logged last */
    struct error problem;
    enum err problem_code;            /* where it has a text */
    char fallback[FOLLOWER_TEXT_MAX]; /* why it is in another mode; "" */
    char coverage[FOLLOWER_COVERAGE_MAX];
    uint64_t request, done; /* the last one that came, and that was answered */
    uint64_t rows, added, lag_ms;
    struct key_client *client; /* NULL: none yet */
    uint64_t tended_at;
    uint64_t stepped_at; /* when it last followed without an error */
};

/* --- follower.c --- */
bool follower_stops(const struct follower *t);

/* --- follower_lease.c --- */
/* Take or renew the lease and write how we fare. ERR_BUSY: another coordinator has it. */
MUST_CHECK enum err follower_hold(struct follower *t, struct error *e);
/* The same where it is due. */
MUST_CHECK enum err follower_tend(struct follower *t, struct error *e);
void follower_leave(struct follower *t);

/* --- follower_add.c --- */
void follower_keys_clear(struct tail_keys *k);
void follower_keys_fini(struct tail_keys *k);
/* Add all of them. */
MUST_CHECK enum err follower_add(struct follower *t, const struct tail_keys *k, struct error *e);
/* A scan_row_fn whose argument is a struct tail_keys. */
void follower_take_row(void *arg, const char *key, size_t length);

/* --- follower_marks.c --- */
/* *@out: of one field of P:{F}:marks, "" where there is none. */
MUST_CHECK enum err follower_mark_read(struct follower *t, const char *field, char *out, size_t size,
                                       struct error *e);
MUST_CHECK enum err follower_mark_write(struct follower *t, const char *field, const char *value,
                                        struct error *e);
MUST_CHECK enum err follower_mark_forget(struct follower *t, const char *field, struct error *e);
/* Where to begin with table @i: INT64_MIN where there is no mark. */
MUST_CHECK enum err follower_mark_of_table(struct follower *t, unsigned i, bool *found, int64_t *out,
                                           struct error *e);

/* --- rows by ids: follower_keyset.c --- */
/* Add the rows of (@after, @upto]. */
MUST_CHECK enum err follower_read_range(struct follower *t, unsigned table, int64_t after, int64_t upto,
                                        struct error *e);
/* The largest id of a table; INT64_MIN: it is empty. */
MUST_CHECK enum err follower_largest(struct follower *t, unsigned table, int64_t *out, struct error *e);

/* --- follower_gap.c: what a feed that ends leaves to whoever follows by ids --- */
/* Move the safe marks while a feed is followed; @quiet: all that was committed when this step began is added.
 */
MUST_CHECK enum err follower_gap_note(struct follower *t, bool quiet, struct error *e);
void follower_gap_close(struct follower *t);
/* Add what lies above the safe marks: rows that came while there was no slot. */
MUST_CHECK enum err follower_gap_fill(struct follower *t, struct error *e);

/* --- the modes; an error ends the mode, which is opened again --- */
MUST_CHECK enum err follower_keyset_open(struct follower *t, struct error *e);
MUST_CHECK enum err follower_keyset_step(struct follower *t, struct error *e);
void follower_keyset_close(struct follower *t);
MUST_CHECK enum err follower_feed_open(struct follower *t, struct error *e);
MUST_CHECK enum err follower_feed_step(struct follower *t, struct error *e);
void follower_feed_close(struct follower *t);
/* Where the server keeps too much for the slot: drop it, and fall back. */
MUST_CHECK enum err follower_feed_watch_slot(struct follower *t, struct error *e);
/* The slot is not needed any more. */
MUST_CHECK enum err follower_feed_drop_slot(struct follower *t, struct error *e);

MUST_CHECK enum err follower_text_to_id(const char *text, int64_t *out, struct error *e);
#endif
