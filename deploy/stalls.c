/* SPDX-License-Identifier: MIT */
#include "deploy/stalls.h"

#include <stddef.h>

static size_t slice_of(const struct stalls *s, uint64_t at_us)
{
    uint64_t slice = at_us <= s->start_us ? 0 : (at_us - s->start_us) / STALLS_SLICE_US;
    return slice < STALLS_SLICES ? (size_t)slice : STALLS_SLICES - 1;
}

void stalls_record(struct stalls *s, uint64_t begin_us, uint64_t end_us)
{
    uint64_t long_us = end_us - begin_us;
    uint32_t us = long_us < UINT32_MAX ? (uint32_t)long_us : UINT32_MAX;
    size_t last = slice_of(s, end_us);
    for (size_t i = slice_of(s, begin_us); i <= last; i++)
        if (us > s->worst_us[i])
            __atomic_store_n(&s->worst_us[i], us, __ATOMIC_RELAXED);
}

uint64_t stalls_worst(const struct stalls *s, uint64_t from_us, uint64_t to_us)
{
    uint64_t worst = 0;
    size_t last = slice_of(s, to_us);
    for (size_t i = slice_of(s, from_us); i <= last; i++) {
        uint64_t us = __atomic_load_n(&s->worst_us[i], __ATOMIC_RELAXED);
        if (us > worst)
            worst = us;
    }
    return worst;
}
