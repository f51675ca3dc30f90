/* SPDX-License-Identifier: MIT */
#ifndef SHARD_CONTROL_CONTROL_THREAD_H
#define SHARD_CONTROL_CONTROL_THREAD_H
/* What all controls of one thread share, as they are tended one at a time: connections of an event loop for
 * tail reads, and large memory that is needed only while a control is tended. */
#include "shard/redis/sync_client.h"
#include "shard/log/lane_reader.h"
#include "shard/view/log_view.h"

struct control;

struct control_thread {
    struct event_base *base; /* of tail reads */
    struct async_client *async;
    struct lane_port *port;
    struct sync_client *lease;    /* a lease can be renewed over it while the controls' client has a pipeline
                                   * under way */
    struct log_view *view;        /* of the control that is tended, or was tended last */
    const struct control *viewer; /* that control; NULL: none */
    struct log_position *at, *position; /* scratch, one for each lane */
};

/* @nodes is borrowed. NULL: no memory. */
struct control_thread *control_thread_new(const struct nodes *nodes, unsigned timeout_ms);
/* Call it after the controls are freed, and before their filters are. @t may be NULL. */
void control_thread_free(struct control_thread *t);
#endif
