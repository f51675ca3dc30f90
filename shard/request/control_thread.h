/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_CONTROL_THREAD_H
#define SHARD_REQUEST_CONTROL_THREAD_H
/* What all controls of one thread share, as one of them is tended at a time: connections of an event loop for
 * tail reads, and memory that is large, and needed while a control is tended alone. */
#include "shard/redis/sync_client.h"
#include "shard/log/lane_reader.h"
#include "shard/view/log_view.h"

struct control;

struct control_thread {
    struct event_base *base; /* of tail reads */
    struct async_client *async;
    struct lane_port *port;
    struct sync_client *lease;    /* so that a lease can be renewed beside a pipeline of the controls' link */
    struct log_view *view;        /* of the control that is tended, or was last: */
    const struct control *viewer; /* NULL: nobody's */
    struct log_position *at, *position; /* of each lane, storage */
};

/* @nodes is borrowed. NULL: no memory. */
struct control_thread *control_thread_new(const struct nodes *nodes, unsigned timeout_ms);
/* When the controls are freed, and before their filters are. NULL is fine. */
void control_thread_free(struct control_thread *t);
/* Go on with what tail reads have left behind: a lane that is being read keeps its filter from being freed.
 * Nobody waits. */
void control_thread_go_on(struct control_thread *t);
#endif
