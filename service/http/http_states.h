/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_STATES_H
#define SERVICE_HTTP_STATES_H
/* What the streams of events are sent: the last state of each filter, of the nodes and of the coordinators,
 * and how the last look ended. */
#include <stdbool.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "service/admin/statuses.h"
#include "service/config/users.h"

/* Zero-initialised: nothing is known. */
struct http_states {
    struct statuses of; /* ordered by version */
    bool complete;      /* all filters were looked at since the last http_states_clear() */
    bool busy;          /* a job of some filter runs */
    struct error error; /* error of the last look; "": none */
};

/* Forget all states. */
void http_states_clear(struct http_states *s);
/* Take over the states that a look found. A filter that it did not find is gone if it knew @all names. */
void http_states_take(struct http_states *s, struct statuses *found, bool all);
/* Append the event that tells of a state. */
void http_state_put(const struct status *one, struct buffer *out);
/* Append the event "tick": the time, the error of the last look, and whether all filters were sent. */
void http_states_tick(const struct http_states *s, struct buffer *out);
/* True if @u may be sent this state. Some states are for users who may see all filters, others for the
 * rest. */
bool http_state_may_be_seen(const struct status *one, const struct config_user *u);
#endif
