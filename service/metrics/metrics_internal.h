/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_INTERNAL_H
#define SERVICE_METRICS_INTERNAL_H
/* The sources of the samples in the table of metrics. */
#include "service/admin/admin_watching.h"
#include "service/meter/meter.h"
#include "service/metrics/samples.h"

/* --- metrics_filters.c: from TB.STATUS --- */
/* One round of requests to Redis, until @deadline_us (monotonic); what was not requested by then waits for
 * the next round. @statuses: in: of the previous round; out: of this one. True: Redis has returned the list
 * of filters. */
bool metrics_of_filters(struct admin *a, struct samples *to, struct statuses *statuses, uint64_t deadline_us);

void metrics_of_memory(struct admin *a, struct samples *to, uint64_t deadline_us);
void metrics_of_nodes(struct service *s, struct samples *to);

/* --- metrics_requests.c: counters of event loops --- */
void metrics_of_requests(const struct meters *all, struct samples *to);

/* --- metrics_process.c --- */
void metrics_of_process(struct service *s, struct samples *to);
#endif
