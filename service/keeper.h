/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEEPER_H
#define SERVICE_KEEPER_H
/* The keeper: looks at every filter at an interval. It makes filters that are configured and not there,
 * starts expansions whose threshold or schedule says so, and hands unfinished jobs that nobody drives to the
 * runner. */
#include "base/error.h"
#include "service/service.h"

/* What the keeper last found of a filter that is not in Redis; a copy. */
struct keeper_note {
    uint64_t lost_shards;
    uint64_t lost_generation; /* the generation that they belong to */
    char postgres[256];       /* "" where it answers or is not needed */
    char problem[512];        /* why the filter is not as it should be; "" */
    char wanted[256];         /* why an expansion is wanted that waits for the filter's window; "" */
};

/* The keeper's memory; made before any thread that uses it, freed after the last. NULL: no memory. */
struct watch *watch_new(void);
void watch_free(struct watch *watch);

struct keeper_note keeper_note(struct service *s, const char *name, size_t length);

/* The thread: runs until service->stop. */
void *keeper_run(void *service);
/* Have it look at once. */
void keeper_wake(struct service *s);
#endif
