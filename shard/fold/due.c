/* SPDX-License-Identifier: MIT */
#include "shard/fold/due.h"

uint64_t fold_due(const struct due_facts *f)
{
    uint64_t interval = f->interval == 0 ? DUE_INTERVAL_US : f->interval;
    uint64_t soon = f->last == 0 ? 0 : f->last + (interval < DUE_LEAST_US ? interval : DUE_LEAST_US);
    uint64_t next = f->last == 0 ? 0 : f->last + interval;
    if (f->unfolded_bytes == 0)
        return DUE_NEVER;
    if (f->unfolded_bytes >= DUE_MUCH_BYTES || f->unfolded_bytes >= f->log_max / 8)
        return soon;
    if (f->unfolded_bytes >= DUE_SOME_BYTES)
        return next;
    uint64_t latest = f->oldest + DUE_LITTLE * interval;
    return latest > next ? latest : next;
}

bool log_is_full(uint64_t lane_bytes, uint64_t log_max)
{
    return lane_bytes >= log_max;
}

uint64_t log_retain_bytes(uint64_t log_max)
{
    return log_max / 8;
}
