/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_LISTENER_H
#define SERVICE_CONTROL_LISTENER_H
/* The listener: a thread that hears of other coordinators' doings by P:events. A view that changed is loaded
 * again by every worker that knows the filter, so that no command has to fail first; that and a mutex that
 * was released wake the controller, which may have waited for it. What is not heard costs time only: looks at
 * views and the controller's interval find it too. */
#include "service/core/service.h"

struct listener;

/* After the workers and the controller's mailbox. */
MUST_CHECK enum err listener_start(struct listener **out, struct service *s, struct error *e);
/* Before the workers are drained: it posts to them. NULL is fine. */
void listener_stop(struct listener *l);
#endif
