/* SPDX-License-Identifier: MIT */
/* An add waits until replicas or disks have acknowledged its keys. What they do not acknowledge is asked
 * again, at the port's ticks, until the deadline. */
#include <stdio.h>
#include <stdlib.h>
#include "shard/request/key_request_internal.h"

/* Acknowledgements asked of the lanes' nodes; it outlives a request that no longer waits. */
struct key_acks {
    struct key_request *request; /* NULL: it no longer waits */
    unsigned under_way;
    bool lacks; /* an acknowledgement was not given */
};

void key_request_leave_acks(struct key_request *q)
{
    if (q->acks != NULL)
        q->acks->request = NULL;
    else
        TAILQ_REMOVE(&q->port->unacked, q, parked);
    q->acks = NULL;
}

static void end_acks(struct key_acks *a)
{
    struct key_request *q = a->request;
    bool lacks = a->lacks;
    free(a);
    if (q == NULL)
        return;
    q->acks = NULL;
    if (lacks)
        TAILQ_INSERT_TAIL(&q->port->unacked, q, parked);
    else
        key_request_end_part(q);
}

static void on_acked(void *arg, enum ack_outcome outcome, const char *why)
{
    struct key_acks *a = arg;
    struct key_request *q = a->request;
    a->lacks |= outcome != ACK_GIVEN;
    if (q != NULL && (outcome == ACK_SHORT || outcome == ACK_REFUSED)) {
        q->code = outcome == ACK_SHORT ? ERR_TIMEOUT : ERR_REFUSED;
        (void)snprintf(q->text, sizeof(q->text), "%s", why);
    }
    if (--a->under_way == 0)
        end_acks(a);
}

/* The keys that this process met in a lane are in every lane that its reader is moved to. So ask the lane as
 * it is now. */
static void ask_lane_acks(struct key_request *q, struct key_acks *a, unsigned i)
{
    struct lane lane;
    if (lane_reader_lane(q->filter->lane[i].reader, &lane) &&
        async_client_await_acks(q->port->async, lane.where, lane.key.text, lane.key.length, lane.era,
                                &q->terms.need, on_acked, a))
        a->under_way++;
    else
        a->lacks = true;
}

void key_request_ask_acks(struct key_request *q)
{
    struct key_acks *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        TAILQ_INSERT_TAIL(&q->port->unacked, q, parked);
        return;
    }
    q->acks = a;
    a->request = q;
    for (unsigned i = 0; i < q->parts_count; i++)
        if (q->parts[i].count > 0)
            ask_lane_acks(q, a, i);
    if (a->under_way == 0)
        end_acks(a);
}

/* Also for a key that was present before: whoever added it may not have waited for acknowledgements. */
void key_request_begin_acks(struct key_request *q)
{
    key_request_set(q, REQUEST_UNACKED);
    q->code = ERR_OK;
    q->text[0] = '\0';
    key_request_ask_acks(q);
}
