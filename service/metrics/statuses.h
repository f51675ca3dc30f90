/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_STATUSES_H
#define SERVICE_METRICS_STATUSES_H
/* What was last said of each filter, over rounds of questions: a round has a bound on its time, the next one
 * goes on where it ended. No I/O of its own. */
#include <stdbool.h>
#include <stddef.h>
#include "base/buffer.h"

enum status_is {
    STATUS_UNKNOWN,     /* not asked for yet */
    STATUS_SAID,        /* Redis has answered */
    STATUS_UNREACHABLE, /* it was asked, and has not */
    STATUS_GONE,        /* the filter does not exist */
};

struct status {
    char *name;
    size_t length;
    enum status_is is;
    struct buffer reply; /* of TB.STATUS; may be empty where it is not STATUS_SAID */
};

/* Zero-initialised there are none. */
struct statuses {
    struct status *of;
    size_t count, room;
    size_t cursor; /* where the next round begins */
};

void statuses_fini(struct statuses *s);
/* Add a filter of which nothing is known. False: no memory. */
bool statuses_add(struct statuses *s, const char *name, size_t length);

/* How to ask for one filter, and whether the time of the round is up. */
struct questions {
    enum status_is (*ask)(void *arg, const char *name, size_t length, struct buffer *reply);
    bool (*late)(void *arg);
    void *arg;
};

/* Ask for the filters of @s, from @before->cursor on, for one at least, until all were asked for or it is
 * late. The others are as @before has them, which is emptied; where Redis has answered none of the questions,
 * STATUS_UNREACHABLE. */
void statuses_ask(struct statuses *s, struct statuses *before, const struct questions *q);
#endif
