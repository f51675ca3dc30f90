/* SPDX-License-Identifier: MIT */
#include "shard/fold/due.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t much(const struct due_facts *f)
{
    return f->log_max / 4;
}

static uint64_t interval_of(const struct due_facts *f)
{
    return f->interval == 0 ? DUE_INTERVAL_US : f->interval;
}

uint64_t fold_due(const struct due_facts *f)
{
    uint64_t interval = interval_of(f);
    uint64_t soon = f->last == 0 ? 0 : f->last + least(interval, DUE_LEAST_US);
    uint64_t next = f->last == 0 ? 0 : f->last + interval;
    if (f->unfolded_bytes == 0)
        return DUE_NEVER;
    if (f->unfolded_bytes >= much(f))
        return soon;
    if (f->unfolded_bytes >= DUE_SOME_BYTES)
        return next;
    uint64_t latest = f->oldest + DUE_LITTLE * interval;
    return latest > next ? latest : next;
}

uint64_t fold_look(const struct due_facts *f, uint64_t now)
{
    uint64_t interval = interval_of(f);
    double share = f->last == 0 ? 1 : (double)much(f) / 2 / (double)(f->unfolded_bytes + 1);
    double us = share * (double)(now - f->last);
    return now + (us >= (double)interval       ? interval
                  : us >= (double)DUE_LEAST_US ? (uint64_t)us
                                               : least(interval, DUE_LEAST_US));
}

bool log_is_full(uint64_t lane_bytes, uint64_t log_max)
{
    return lane_bytes >= log_max;
}

uint64_t log_retain_bytes(uint64_t log_max)
{
    return log_max / 8;
}
