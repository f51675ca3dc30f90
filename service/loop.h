/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_LOOP_H
#define SERVICE_LOOP_H
/* What threads with an event loop and a catalog have in common: workers, and the thread that serves HTTP. */
#include <event2/event.h>
#include "service/service.h"

/* Without locks: one thread uses it. NULL: no memory. */
struct event_base *loop_base_new(void);

/* The catalog of a thread, the process's @loop-th (workers by index, then HTTP); @held is where the thread
 * keeps the configuration that it holds, as policies are asked for under whatever lies there then. NULL: no
 * memory. */
struct catalog *loop_catalog_new(struct service *s, struct event_base *base, unsigned loop,
                                 const struct config *const *held);

/* Operations still running are finished with ERR_CANCELLED. NULL is fine. */
void loop_catalog_free(struct catalog *c);

/* In the thread of @c (NULL where it has ended): hold the configuration in force instead of what lies at
 * *@held. */
void loop_take_config(struct service *s, struct catalog *c, const struct config **held);

/* From any thread: have the owner of @mailbox load the view of a filter again, if the catalog that it keeps
 * at
 * @catalog (NULL there where it has ended) knows it. */
void loop_refresh(struct mailbox *mailbox, struct catalog *const *catalog, const char *name, size_t length);
#endif
