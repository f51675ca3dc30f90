/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_TRAFFIC_H
#define SERVICE_METRICS_TRAFFIC_H
/* What clients have asked of this coordinator since it started: the counters of all its event loops added up,
 * for the dashboard. From any thread while workers and HTTP are there; waits for nobody. */
#include <stddef.h>
#include <stdint.h>
#include "base/timing.h"
#include "service/meter/meter.h"

/* Keys of requests that were answered. */
struct traffic_keys {
    uint64_t checks; /* keys that were checked */
    uint64_t maybe;  /* of these, answered "maybe present" */
    uint64_t adds;   /* keys whose adds were acknowledged */
};

/* Requests that check or add keys: BF.EXISTS, BF.ADD and their like, over RESP and over HTTP. */
struct traffic {
    uint64_t requests;
    uint64_t failed;            /* of these, with an error that is not the client's rights */
    struct timing_figures took; /* from a request's last byte to its reply */
    struct traffic_keys keys;
};

void traffic_read(const struct meters *all, struct traffic *out);
/* Of one filter; zero where nobody asked for it, or where it is beyond METER_FILTERS_MAX. */
void traffic_of_filter(const struct meters *all, const char *name, size_t length, struct traffic_keys *out);
#endif
