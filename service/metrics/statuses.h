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

/* The filter to ask for as the @n-th of a round, which begins where the one before, @before, ended. */
struct status *statuses_next(struct statuses *s, const struct statuses *before, size_t n);
/* The round is over: @asked filters were asked for. The others keep their status in @before, which is
 * emptied; if Redis has replied to no question (@answered), they become STATUS_UNREACHABLE. */
void statuses_end(struct statuses *s, struct statuses *before, size_t asked, bool answered);
#endif
