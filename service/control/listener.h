/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_LISTENER_H
#define SERVICE_CONTROL_LISTENER_H
/* The listener: a thread that learns from P:events what other coordinators do. A changed view is loaded again
 * by every worker that knows the filter, before a command can fail. A changed view or a released mutex wakes
 * the controller, which may wait for it. Missed messages cost only time: looks at views and the controller's
 * interval find the changes, too. */
#include "service/core/service.h"

struct heartbeat;
struct listener;

/* Start it after the workers and the controller's mailbox. The heartbeat must outlive it. */
MUST_CHECK enum err listener_start(struct listener **out, struct service *s, struct heartbeat *heartbeat,
                                   struct error *e);
/* Call it before the workers are drained, as it posts to them. NULL is fine. */
void listener_stop(struct listener *l);
#endif
