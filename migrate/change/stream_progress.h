/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_STREAM_PROGRESS_H
#define MIGRATE_CHANGE_STREAM_PROGRESS_H
/* How far a stream is: what was handed out, and what may be reported to the server as confirmed. Pure.
 * Positions are ends of records in the write-ahead log. Confirmed changes never come again, so the confirmed
 * position moves up to what the consumer has confirmed, and further only over WAL without a row for it. */
#include <stdbool.h>
#include <stdint.h>

struct stream_progress {
    uint64_t confirmed;    /* the consumer has taken over all rows before it */
    uint64_t complete;     /* all rows of transactions that ended before it were handed out */
    uint64_t mark;         /* end of the last transaction handed out completely; consumers confirm it */
    uint64_t owed;         /* end of the last transaction that had a row */
    uint64_t received;     /* furthest position that the server has reported */
    uint64_t committed_us; /* commit time of the last row, on the server's clock; 0: no row yet */
    bool in_transaction;
    bool has_rows; /* the open transaction has handed out a row */
};

/* @confirmed: the slot's position. */
void stream_progress_init(struct stream_progress *p, uint64_t confirmed);

void stream_progress_receive(struct stream_progress *p, uint64_t position);
void stream_progress_begin(struct stream_progress *p);
void stream_progress_row(struct stream_progress *p, uint64_t committed_us);
void stream_progress_commit(struct stream_progress *p, uint64_t end);

/* The server has sent everything before @position. Ignored within a transaction. */
void stream_progress_idle(struct stream_progress *p, uint64_t position);

/* False: no such @mark was given out. */
bool stream_progress_confirm(struct stream_progress *p, uint64_t mark);
#endif
