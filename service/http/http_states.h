/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_STATES_H
#define SERVICE_HTTP_STATES_H
/* What the streams of events are sent: the last state of each filter and of the coordinators, each as a whole
 * frame, the one that changed last at the end of the list. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "base/buffer.h"
#include "service/admin_watching.h"

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
    bool complete; /* all filters were looked at since it was empty */
};

void http_states_init(struct http_states *s);
/* Forget them all; the version goes on. */
void http_states_clear(struct http_states *s);
/* A look is taken over between these two: @all_known says that a filter without a record is gone. */
void http_states_begin(struct http_states *s);
void http_states_take(struct http_states *s, const struct watching_record *w);
void http_states_end(struct http_states *s, bool all_known);
/* All streams have been sent what there was up to @version: what has gone can be forgotten. */
void http_states_told(struct http_states *s, uint64_t version);
/* A job of some filter runs. */
bool http_states_busy(const struct http_states *s);
#endif
