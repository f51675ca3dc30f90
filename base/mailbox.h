/* SPDX-License-Identifier: MIT */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H
/* A queue of calls from any thread to the one thread that owns the mailbox. The owner watches mailbox_fd()
 * for reading and calls mailbox_run(), or blocks in mailbox_wait(). It takes a lock: do not use it on the hot
 * path. */
#include "base/error.h"

struct mailbox;
typedef void mailbox_fn(void *arg);

struct mailbox *mailbox_new(void);
/* Drops tasks that were not run. */
void mailbox_free(struct mailbox *m);
int mailbox_fd(const struct mailbox *m);

/* Queue @fn(@arg) for the owner, who runs tasks in the order of posting. ERR_NOMEM: not queued. */
MUST_CHECK enum err mailbox_post(struct mailbox *m, mailbox_fn *fn, void *arg);

/* End the owner's wait without a task. From any thread; needs no memory. */
void mailbox_wake(struct mailbox *m);

void mailbox_run(struct mailbox *m);

/* Wait for a task, at most @timeout_ms, then run all that are queued. */
void mailbox_wait(struct mailbox *m, int timeout_ms);
#endif
