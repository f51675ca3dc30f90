/* SPDX-License-Identifier: MIT */
#include "migrate/change/stream_progress.h"

static void raise_to(uint64_t *position, uint64_t to)
{
    if (to > *position)
        *position = to;
}

/* If no handed-out row is unconfirmed, the position follows the WAL. Otherwise the slot would retain WAL for
 * ever while the database is busy but has no rows for us. */
static void follow(struct stream_progress *p)
{
    if (p->confirmed >= p->owed)
        raise_to(&p->confirmed, p->complete);
}

void stream_progress_init(struct stream_progress *p, uint64_t confirmed)
{
    *p = (struct stream_progress){
        .confirmed = confirmed, .complete = confirmed, .mark = confirmed, .received = confirmed};
}

void stream_progress_receive(struct stream_progress *p, uint64_t position)
{
    raise_to(&p->received, position);
}

void stream_progress_begin(struct stream_progress *p)
{
    p->in_transaction = true;
    p->has_rows = false;
}

void stream_progress_row(struct stream_progress *p, uint64_t committed_us)
{
    p->has_rows = true;
    p->committed_us = committed_us;
}

void stream_progress_commit(struct stream_progress *p, uint64_t end)
{
    p->in_transaction = false;
    raise_to(&p->mark, end);
    raise_to(&p->complete, end);
    if (p->has_rows)
        raise_to(&p->owed, end);
    stream_progress_receive(p, end);
    follow(p);
}

void stream_progress_idle(struct stream_progress *p, uint64_t position)
{
    stream_progress_receive(p, position);
    if (p->in_transaction)
        return;
    raise_to(&p->complete, position);
    follow(p);
}

bool stream_progress_confirm(struct stream_progress *p, uint64_t mark)
{
    if (mark > p->mark)
        return false;
    raise_to(&p->confirmed, mark);
    follow(p);
    return true;
}
