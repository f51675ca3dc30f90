/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_ADMIN_WATCHING_H
#define SERVICE_ADMIN_ADMIN_WATCHING_H
/* What those who watch are told of all filters at once: one look for all of them, with a bound on its time.
 */
#include "service/admin/admin.h"

enum { WATCHING_BUDGET_MS = 2000 };

/* call->flags: what is wanted. Without WATCHING_STATUS only samples are taken. */
enum { WATCHING_STATUS = 1, WATCHING_RESTRICTED = 2 };

/* One of the records in a call's answer. */
enum watching_kind {
    WATCHING_FILTER,       /* @reply is that of TB.STATUS; empty: it exists, and was not looked at now */
    WATCHING_COORDINATORS, /* that of TB.COORDINATORS */
    WATCHING_NODES,        /* that of admin_nodes() */
    WATCHING_COORDINATORS_OF_ALL /* the same without names of filters (WATCHING_RESTRICTED) */
};

struct watching_record {
    enum watching_kind kind;
    const char *name, *reply; /* into the call */
    size_t name_length, reply_length;
};

/* Look at the filters from the call->cursor-th on, until all were looked at or the time is over; call->cursor
 * is where the next look goes on. call->status: that the names of all filters are known, so that one without
 * a record is gone. */
admin_fn admin_watching;

/* The record at *@at of a call's answer, and move *@at behind it. False: there are no more. */
bool watching_next(const struct admin_call *call, size_t *at, struct watching_record *out);
#endif
