/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_ADMIN_WATCHING_H
#define SERVICE_ADMIN_ADMIN_WATCHING_H
/* A look at all filters in limited time, and what watchers are sent: one look for all watchers. */
#include "service/admin/admin.h"
#include "service/admin/statuses.h"

/* Look at one filter: write one->reply. */
typedef enum status_is admin_look_fn(struct admin *a, struct status *one);

/* A round: add the first @most filters to @s, which has none, and have @look called for them, from the cursor
 * on, until it was called for all or @deadline_us (monotonic) has come; at least once. What TB.STATUS asks is
 * asked ahead. ERR_OK: the names of all filters are known. */
MUST_CHECK enum err admin_look_at_all(struct admin *a, struct statuses *s, admin_look_fn *look, size_t most,
                                      uint64_t deadline_us, struct error *e);

enum { WATCHING_BUDGET_MS = 2000 };

enum { WATCHING_RESTRICTED = 1 }; /* call->flags: also STATUS_OF_ALL_COORDINATORS */

/* Look at all filters, the nodes and the coordinators. call->subject: the statuses, as of
 * admin_look_at_all(). call->status ERR_OK: the names of all filters are known. */
admin_fn admin_watching;
#endif
