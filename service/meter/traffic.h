/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METER_TRAFFIC_H
#define SERVICE_METER_TRAFFIC_H
/* Clients' requests to this coordinator since it started: the sums of all event loops' counters, for the
 * dashboard. From any thread while workers and HTTP exist; never waits. */
#include <stddef.h>
#include <stdint.h>
#include "base/timing.h"
#include "service/meter/meter.h"

/* Keys of requests that were replied to. */
struct traffic_keys {
    uint64_t checks; /* keys that were checked */
    uint64_t maybe;  /* checked keys reported "maybe present" */
    uint64_t adds;   /* keys whose adds were acknowledged */
};

/* Requests that check or add keys: BF.EXISTS, BF.ADD and the like, over RESP and HTTP. */
struct traffic {
    uint64_t requests;
    uint64_t failed;            /* with an error other than missing rights of the client */
    struct timing_figures took; /* times from a request's last byte to its reply */
    struct traffic_keys keys;
};

void traffic_read(const struct meters *all, struct traffic *out);
/* For one filter; zero if it had no requests, or is beyond METER_FILTERS_MAX. */
void traffic_of_filter(const struct meters *all, const char *name, size_t length, struct traffic_keys *out);
#endif
