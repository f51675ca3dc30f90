/* SPDX-License-Identifier: MIT */
#include "service/meter/traffic.h"

#include <string.h>

static void add_requests(const struct meter *m, struct traffic *out)
{
    const struct meter_kind *kind = meter_kind(m);
    for (size_t row = 0; row < kind->rows; row++) {
        if (!kind->is_of_keys(row))
            continue;
        meter_read_timing(m, row, &out->took);
        for (size_t column = 0; column < kind->columns; column++)
            if (kind->is_failure(column))
                out->failed += meter_read(m, row, column);
    }
}

static void add_filter(const struct meter_filter *f, struct traffic_keys *out)
{
    out->checks += atomic_load_explicit(&f->checks, memory_order_relaxed);
    out->maybe += atomic_load_explicit(&f->positives, memory_order_relaxed);
    out->adds += atomic_load_explicit(&f->adds, memory_order_relaxed);
}

void traffic_read(const struct meters *all, struct traffic *out)
{
    *out = (struct traffic){0};
    for (unsigned i = 0; i < atomic_load(&all->count); i++) {
        add_requests(all->meter[i], out);
        for (const struct meter_filter *f = meter_filters(all->meter[i]); f != NULL; f = f->next)
            add_filter(f, &out->keys);
        add_filter(meter_others(all->meter[i]), &out->keys);
    }
    out->requests = out->took.count;
}

void traffic_of_filter(const struct meters *all, const char *name, size_t length, struct traffic_keys *out)
{
    *out = (struct traffic_keys){0};
    for (unsigned i = 0; i < atomic_load(&all->count); i++) {
        const struct meter_filter *f = meter_filters(all->meter[i]);
        while (f != NULL && (f->length != length || memcmp(f->name, name, length) != 0))
            f = f->next;
        if (f != NULL)
            add_filter(f, out);
    }
}
