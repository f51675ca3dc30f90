/* SPDX-License-Identifier: MIT */
#ifndef DEPLOY_STALLS_H
#define DEPLOY_STALLS_H
/* The worst latency of each short slice of time. One thread writes; others may read meanwhile. */
#include <stdint.h>

enum { STALLS_SLICE_US = 10000, STALLS_SLICES = 60000 };

/* The worst latency of the requests that were under way in each slice of 10 ms, for ten minutes from
 * @start_us. */
struct stalls {
    uint64_t start_us;
    uint32_t worst_us[STALLS_SLICES];
};

void stalls_record(struct stalls *s, uint64_t begin_us, uint64_t end_us);
uint64_t stalls_worst(const struct stalls *s, uint64_t from_us, uint64_t to_us);
#endif
