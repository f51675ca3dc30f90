/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_ADMIN_WATCHING_H
#define SERVICE_ADMIN_ADMIN_WATCHING_H
/* What watchers are sent about all filters: one look for all watchers, in limited time. */
#include "service/admin/admin.h"

enum { WATCHING_BUDGET_MS = 2000 };

/* call->flags: what is wanted. Without WATCHING_STATUS only samples are taken. */
enum { WATCHING_STATUS = 1, WATCHING_RESTRICTED = 2 };

/* A record in a call's answer. */
enum watching_kind {
    WATCHING_FILTER,       /* @reply of TB.STATUS; empty: the filter exists, but was not looked at now */
    WATCHING_COORDINATORS, /* reply of TB.COORDINATORS */
    WATCHING_NODES,        /* reply of admin_nodes() */
    WATCHING_COORDINATORS_OF_ALL /* of TB.COORDINATORS without names of filters (WATCHING_RESTRICTED) */
};

struct watching_record {
    enum watching_kind kind;
    const char *name, *reply; /* pointers into the call */
    size_t name_length, reply_length;
};

/* Look at the filters from the call->cursor-th on, until all were looked at or the time is up; call->cursor
 * is then where the next look continues. call->status ERR_OK: the names of all filters are known, so a filter
 * without a record is gone. */
admin_fn admin_watching;

/* Append a record to a call's answer. */
void watching_put(struct admin_call *call, enum watching_kind kind, const char *name, size_t length,
                  const struct buffer *reply);
/* Read the record at *@at of a call's answer and move *@at behind it. False: there are no more. */
bool watching_next(const struct admin_call *call, size_t *at, struct watching_record *out);
#endif
