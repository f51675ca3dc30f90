/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_FILTERS_EPOCHS_H
#define SERVICE_FILTERS_EPOCHS_H
/* Which version of each filter's view (for people: its "epoch") this coordinator serves. The controller
 * reports it, and the version in Redis; the heartbeat reads both. Safe from any thread; a lock is held for
 * one filter at a time. Names are escaped, as in names of keys. */
#include <stddef.h>
#include <stdint.h>

struct epochs;

/* NULL: no memory. */
struct epochs *epochs_new(void);
void epochs_free(struct epochs *e);

/* This version is served from now on; @epoch 0: none. */
void epochs_hold(struct epochs *e, const char *filter, uint64_t incarnation, uint64_t epoch);
/* Redis has this version. */
void epochs_found(struct epochs *e, const char *filter, uint64_t incarnation, uint64_t epoch);

struct epochs_total {
    uint64_t filters; /* number of filters served */
    uint64_t behind;  /* of these: those whose view is not the one in Redis */
};
struct epochs_total epochs_total(struct epochs *e);

/* Called with the lock held for each change since the last call, for at most @most filters; @epoch 0: none is
 * served. Returns the number. */
typedef void epochs_fn(void *arg, const char *filter, uint64_t incarnation, uint64_t epoch);
size_t epochs_take(struct epochs *e, size_t most, epochs_fn *fn, void *arg);
/* Report all filters once more. */
void epochs_again(struct epochs *e);

/* Called with the lock held for at most @most filters that are behind: the epoch in Redis, and at how many
 * consecutive calls, this one included, the filter was behind. */
typedef void epochs_behind_fn(void *arg, const char *filter, uint64_t epoch, unsigned times);
void epochs_behind(struct epochs *e, size_t most, epochs_behind_fn *fn, void *arg);
#endif
