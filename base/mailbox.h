/* SPDX-License-Identifier: MIT */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H
/* A queue of calls from any thread to the one thread that owns the mailbox. The owner watches mailbox_fd()
 * for reading and calls mailbox_run(), or blocks in mailbox_wait(). Not for the hot path: it takes a lock. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

struct mailbox;
typedef void mailbox_fn(void *arg);

struct mailbox *mailbox_new(void);
/* Letters that nobody ran are dropped. */
void mailbox_free(struct mailbox *m);
int mailbox_fd(const struct mailbox *m);

/* Have @fn(@arg) called by the owner, in the order of posting. ERR_NOMEM: not queued. */
MUST_CHECK enum err mailbox_post(struct mailbox *m, mailbox_fn *fn, void *arg);

/* End the owner's wait, with nothing to run. From any thread; needs no memory. */
void mailbox_wake(struct mailbox *m);

/* Run what is queued. */
void mailbox_run(struct mailbox *m);

/* Wait at most @timeout_ms for a task, then run what is queued. */
void mailbox_wait(struct mailbox *m, int timeout_ms);
#endif
