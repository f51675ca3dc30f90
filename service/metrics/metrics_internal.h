/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_INTERNAL_H
#define SERVICE_METRICS_INTERNAL_H
/* Where the samples of the table's metrics come from. */
#include "service/admin/admin.h"
#include "service/meter/meter.h"
#include "service/metrics/samples.h"
#include "service/metrics/statuses.h"

/* One asking of Redis. */
struct collection {
    struct samples *samples;
    struct statuses *statuses; /* of the round before; result: of this one */
    uint64_t deadline_us;      /* then what was not asked for yet has to wait for the next round */
    const atomic_bool *stop;   /* the same at once */
    bool reached;              /* result: Redis has told which filters there are */
};

/* --- metrics_filters.c: by what TB.STATUS says --- */
void metrics_of_filters(struct admin *a, struct collection *to);

/* --- metrics_nodes.c --- */
void metrics_of_memory(struct admin *a, struct collection *to);
void metrics_of_nodes(struct service *s, struct samples *to);

/* --- metrics_requests.c: what event loops have counted --- */
void metrics_of_requests(const struct meters *all, struct samples *to);

/* --- metrics_process.c --- */
void metrics_of_process(struct service *s, struct samples *to);
#endif
