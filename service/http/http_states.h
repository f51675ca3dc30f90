/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_STATES_H
#define SERVICE_HTTP_STATES_H
/* What the streams of events are sent: the last state of each filter, of the nodes and of the coordinators,
 * each as a whole frame, the one that changed last at the end of the list; and how the last look went. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "base/buffer.h"
#include "service/admin/admin_watching.h"
#include "service/config/users.h"

struct http_state {
    TAILQ_ENTRY(http_state) link;
    uint64_t version; /* of the list, with which it last changed */
    uint64_t round;   /* in which it was there */
    enum watching_kind kind;
    bool gone;
    bool busy; /* a job of it runs */
    char *name;
    size_t length;
    struct buffer frame; /* empty: nothing is known yet */
};
TAILQ_HEAD(http_state_list, http_state);

struct http_states {
    struct http_state_list list; /* by version */
    uint64_t version, round;
    bool complete;      /* all filters were looked at since it was empty */
    struct error error; /* of the last look; "": it was well */
};

void http_states_init(struct http_states *s);
/* Forget them all; the version goes on. */
void http_states_clear(struct http_states *s);
/* A look has ended: how it went. */
void http_states_answered(struct http_states *s, const struct admin_call *call);
/* Take over what it found; a filter that it did not find is gone. @since_empty: it began after the last
 * http_states_clear(). */
void http_states_take(struct http_states *s, const struct admin_call *call, bool since_empty);
/* Append the event "tick": the time, how the last look went, and whether all filters were told. */
void http_states_tick(const struct http_states *s, struct buffer *out);
/* May @u be sent this one? Some are of those who see all filters, some of the others. */
bool http_state_may_be_seen(const struct http_state *e, const struct config_user *u);
/* All streams have been sent what there was up to @version: what has gone can be forgotten. */
void http_states_told(struct http_states *s, uint64_t version);
/* A job of some filter runs. */
bool http_states_busy(const struct http_states *s);
#endif
