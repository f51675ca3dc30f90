/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_STATUSES_H
#define SERVICE_ADMIN_STATUSES_H
/* The last status of each filter, over rounds of questions: a round has limited time, and the next round
 * continues where it ended. No I/O of its own. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

enum status_of {
    STATUS_OF_FILTER,           /* @reply of TB.STATUS */
    STATUS_OF_COORDINATORS,     /* of TB.COORDINATORS */
    STATUS_OF_NODES,            /* of admin_nodes() */
    STATUS_OF_ALL_COORDINATORS, /* of TB.COORDINATORS without names of filters */
};

enum status_is {
    STATUS_UNKNOWN,     /* not asked for yet */
    STATUS_SAID,        /* Redis has replied */
    STATUS_UNREACHABLE, /* asked for, without a reply */
    STATUS_GONE,        /* the filter does not exist */
};

struct status {
    enum status_of of;
    enum status_is is;
    char *name; /* the filter's; of others "" */
    size_t length;
    struct buffer reply; /* may be empty unless STATUS_SAID */
    uint64_t version;    /* of all statuses when this one last changed; 0: it was never said */
};

/* Zero-initialised: no filters. */
struct statuses {
    struct status *of;
    size_t count, room;
    size_t omitted; /* filters that were not added */
    size_t cursor;  /* the filter that is asked for first in the next round, or in this one */
    uint64_t version;
};

/* Leaves no filters, and the cursor. */
void statuses_fini(struct statuses *s);
/* Add an unknown status. NULL: no memory. */
struct status *statuses_add(struct statuses *s, enum status_of of, const char *name, size_t length);

/* The filter to ask for as the @n-th of a round. */
struct status *statuses_next(const struct statuses *s, size_t n);
/* The round is over: @asked filters were asked for. If Redis has replied to no question (@answered), the
 * others become STATUS_UNREACHABLE. */
void statuses_end(struct statuses *s, size_t asked, bool answered);

/* What becomes of a status that a round does not name. */
enum statuses_unnamed { UNNAMED_DROP, UNNAMED_KEEP, UNNAMED_GONE /* of a filter; others are kept */ };
/* @s becomes @now, a later round, which is emptied. What is unknown in it keeps its status. */
void statuses_take(struct statuses *s, struct statuses *now, enum statuses_unnamed unnamed);
/* For qsort(): first what changed first. */
int statuses_by_version(const void *a, const void *b);
/* Forget the filters that are gone since @version, or earlier. */
void statuses_forget_gone(struct statuses *s, uint64_t version);
#endif
