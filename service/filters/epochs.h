/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_EPOCHS_H
#define SERVICE_CONTROL_EPOCHS_H
/* Which version of each filter's view this coordinator serves (its "epoch", for people). The controller says
 * it, and what Redis has; the heartbeat asks. Safe from any thread; a lock is held for one filter at a time.
 * Names are escaped, as in key names. */
#include <stddef.h>
#include <stdint.h>

struct epochs;

/* NULL: no memory. */
struct epochs *epochs_new(void);
void epochs_free(struct epochs *e);

/* That view is served from now on; @epoch 0: none. */
void epochs_hold(struct epochs *e, const char *filter, uint64_t incarnation, uint64_t epoch);
/* Redis has that view. */
void epochs_found(struct epochs *e, const char *filter, uint64_t incarnation, uint64_t epoch);

struct epochs_total {
    uint64_t filters; /* that are served */
    uint64_t behind;  /* of these, those whose view is not the one that Redis has */
};
struct epochs_total epochs_total(struct epochs *e);

/* Called under the lock, for what has changed since it was taken last; @epoch 0: none is served. At most
 * @most; returns how many. */
typedef void epochs_fn(void *arg, const char *filter, uint64_t incarnation, uint64_t epoch);
size_t epochs_take(struct epochs *e, size_t most, epochs_fn *fn, void *arg);
/* All of them are to be taken once more. */
void epochs_again(struct epochs *e);

/* Called under the lock for at most @most filters that are behind, with the epoch that Redis has and how
 * often they were so when this was asked, this time included. */
typedef void epochs_behind_fn(void *arg, const char *filter, uint64_t epoch, unsigned times);
void epochs_behind(struct epochs *e, size_t most, epochs_behind_fn *fn, void *arg);
#endif
