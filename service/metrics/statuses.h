/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_STATUSES_H
#define SERVICE_METRICS_STATUSES_H
/* The last status of each filter, over rounds of questions: a round has limited time, and the next round
 * continues where it ended. No I/O of its own. */
#include <stdbool.h>
#include <stddef.h>
#include "base/buffer.h"

enum status_is {
    STATUS_UNKNOWN,     /* not asked for yet */
    STATUS_SAID,        /* Redis has replied */
    STATUS_UNREACHABLE, /* asked for, without a reply */
    STATUS_GONE,        /* the filter does not exist */
};

struct status {
    char *name;
    size_t length;
    enum status_is is;
    struct buffer reply; /* reply of TB.STATUS; may be empty unless STATUS_SAID */
};

/* Zero-initialised: no filters. */
struct statuses {
    struct status *of;
    size_t count, room;
    size_t cursor; /* where the next round begins */
};

void statuses_fini(struct statuses *s);
/* Add a filter with unknown status. False: no memory. */
bool statuses_add(struct statuses *s, const char *name, size_t length);

/* How to ask for one filter, and whether the round's time is up. */
struct questions {
    enum status_is (*ask)(void *arg, const char *name, size_t length, struct buffer *reply);
    bool (*late)(void *arg);
    void *arg;
};

/* Ask for the filters of @s, from @before->cursor on, at least for one, until all were asked for or the time
 * is up. The others keep their status in @before, which is emptied; if Redis has replied to no question, they
 * become STATUS_UNREACHABLE. */
void statuses_ask(struct statuses *s, struct statuses *before, const struct questions *q);
#endif
