/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_STREAM_PROGRESS_H
#define MIGRATE_CHANGE_STREAM_PROGRESS_H
/* How far a stream has come: what was handed out, and what may be told to the server as confirmed. Pure.
 * Positions are ends of records in the write-ahead log. What is confirmed never comes again, so it moves to
 * what the consumer has confirmed, and beyond that only over what held no row for it. */
#include <stdbool.h>
#include <stdint.h>

struct stream_progress {
    uint64_t confirmed; /* all before it is taken over by the consumer, or none of its business */
    uint64_t complete;  /* all rows of transactions that ended before it are handed out */
    uint64_t mark;      /* end of the last transaction of which the same is true; the consumer confirms it */
    uint64_t owed;      /* end of the last transaction that had a row */
    uint64_t received;  /* the server's furthest position that was heard of */
    bool in_transaction;
    bool has_rows; /* the transaction that is open has handed out one */
};

/* @confirmed: the slot's. */
void stream_progress_init(struct stream_progress *p, uint64_t confirmed);

void stream_progress_receive(struct stream_progress *p, uint64_t position);
void stream_progress_begin(struct stream_progress *p);
void stream_progress_row(struct stream_progress *p);
void stream_progress_commit(struct stream_progress *p, uint64_t end);

/* The server has sent all that there is before @position. Within a transaction that means nothing. */
void stream_progress_idle(struct stream_progress *p, uint64_t position);

/* False: @mark is none that was given. */
bool stream_progress_confirm(struct stream_progress *p, uint64_t mark);
#endif
