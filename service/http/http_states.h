/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_STATES_H
#define SERVICE_HTTP_STATES_H
/* What the streams of events are sent: the last state of each filter, of the nodes and of the coordinators,
 * and how the last look ended. Each state is a complete frame. The list is ordered by the time of the last
 * change. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "base/buffer.h"
#include "service/admin/admin_watching.h"
#include "service/config/users.h"

struct http_state {
    TAILQ_ENTRY(http_state) link;
    uint64_t version; /* version of the list when this state last changed */
    uint64_t round;   /* the last round that found it */
    enum watching_kind kind;
    bool gone;
    bool busy; /* a job of the filter runs */
    char *name;
    size_t length;
    struct buffer frame; /* empty: nothing is known yet */
};
TAILQ_HEAD(http_state_list, http_state);

struct http_states {
    struct http_state_list list; /* ordered by version */
    void *tree;                  /* the same, by kind and name: see tsearch() */
    uint64_t version, round;
    bool complete;      /* all filters were looked at since the last http_states_clear() */
    struct error error; /* error of the last look; "": none */
};

void http_states_init(struct http_states *s);
/* Forget all states. The version is not reset. */
void http_states_clear(struct http_states *s);
/* Take over the states that a look found. A filter that it did not find is gone. @since_empty: the look began
 * after the last http_states_clear(). */
void http_states_take(struct http_states *s, const struct admin_call *call, bool since_empty);
/* Append the event "tick": the time, the error of the last look, and whether all filters were sent. */
void http_states_tick(const struct http_states *s, struct buffer *out);
/* True if @u may be sent this state. Some states are for users who may see all filters, others for the
 * rest. */
bool http_state_may_be_seen(const struct http_state *e, const struct config_user *u);
/* All streams have been sent every state up to @version, so filters that are gone can be forgotten. */
void http_states_told(struct http_states *s, uint64_t version);
/* True if a job of any filter runs. */
bool http_states_busy(const struct http_states *s);
#endif
