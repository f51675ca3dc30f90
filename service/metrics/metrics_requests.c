/* SPDX-License-Identifier: MIT */
/* Metrics of requests: the sums of what the workers and the HTTP thread have counted. */
#include <stdlib.h>
#include "base/span.h"
#include "service/meter/meter.h"
#include "service/metrics/metrics_internal.h"

static const struct {
    enum metric requests, seconds;
} metrics[] = {[METER_OF_COMMANDS] = {METRIC_OF_REQUESTS, METRIC_OF_REQUEST_SECONDS},
               [METER_OF_ROUTES] = {METRIC_OF_HTTP_REQUESTS, METRIC_OF_HTTP_REQUEST_SECONDS}};

/* One row, of all meters of its kind. */
static void row_of(const struct meters *all, const struct meter_kind *kind, size_t row, struct samples *to)
{
    struct label labels[METER_LABELS + 1];
    struct timing_figures t = {0};
    unsigned count = atomic_load(&all->count);
    for (unsigned i = 0; i < kind->labels; i++)
        labels[i] = label(kind->label(row, i));
    for (size_t column = 0; column < kind->columns; column++) {
        char text[METER_COLUMN_SIZE];
        uint64_t sum = 0;
        for (unsigned i = 0; i < count; i++)
            sum += meter_kind(all->meter[i]) == kind ? meter_read(all->meter[i], row, column) : 0;
        labels[kind->labels] = label(kind->column(column, text));
        if (sum > 0)
            sample_count(to, metrics[kind->of].requests, labels, sum);
    }
    for (unsigned i = 0; i < count; i++)
        if (meter_kind(all->meter[i]) == kind)
            meter_read_timing(all->meter[i], row, &t);
    if (t.count > 0)
        sample_timing(to, metrics[kind->of].seconds, labels, &t);
}

/* Meters of one kind stand one behind the other. */
static void requests(const struct meters *all, struct samples *to)
{
    const struct meter_kind *before = NULL;
    for (unsigned i = 0; i < atomic_load(&all->count); i++) {
        const struct meter_kind *kind = meter_kind(all->meter[i]);
        for (size_t row = 0; kind != before && row < kind->rows; row++)
            row_of(all, kind, row, to);
        before = kind;
    }
}

/* --- by filter --- */

struct answers {
    const struct meter_filter *filter;
    uint64_t checks, positives, adds, added;
};

static int by_name(const void *a, const void *b)
{
    const struct meter_filter *l = ((const struct answers *)a)->filter,
                              *r = ((const struct answers *)b)->filter;
    return span_order(&(struct span){l->name, l->length}, &(struct span){r->name, r->length});
}

static size_t gather(const struct meter *m, struct answers *to, size_t room)
{
    size_t n = 0;
    for (const struct meter_filter *f = meter_filters(m); f != NULL; f = f->next, n++)
        if (n < room)
            to[n] = (struct answers){f, atomic_load_explicit(&f->checks, memory_order_relaxed),
                                     atomic_load_explicit(&f->positives, memory_order_relaxed),
                                     atomic_load_explicit(&f->adds, memory_order_relaxed),
                                     atomic_load_explicit(&f->added, memory_order_relaxed)};
    return n < room ? n : room;
}

static void add_up(struct answers *all, size_t count, struct samples *to)
{
    qsort(all, count, sizeof(*all), by_name);
    for (size_t i = 0; i < count; i++) {
        bool last = i + 1 == count || by_name(&all[i], &all[i + 1]) != 0;
        if (last) {
            const struct answers *a = &all[i];
            const struct label filter = {a->filter->name, a->filter->length};
            sample_count(to, METRIC_OF_FILTER_CHECKS, &filter, a->checks);
            sample_count(to, METRIC_OF_FILTER_POSITIVES, &filter, a->positives);
            sample_count(to, METRIC_OF_FILTER_ADDS, &filter, a->adds);
            sample_count(to, METRIC_OF_FILTER_ADDED, &filter, a->added);
            continue;
        }
        all[i + 1].checks += all[i].checks;
        all[i + 1].positives += all[i].positives;
        all[i + 1].adds += all[i].adds;
        all[i + 1].added += all[i].added;
    }
}

static void filters(const struct meters *all, struct samples *to)
{
    uint64_t others = 0;
    unsigned meters = atomic_load(&all->count);
    for (unsigned i = 0; i < meters; i++) {
        const struct meter_filter *f = meter_others(all->meter[i]);
        others += atomic_load_explicit(&f->checks, memory_order_relaxed) +
                  atomic_load_explicit(&f->adds, memory_order_relaxed);
    }
    sample_count(to, METRIC_OF_FILTER_KEYS_OMITTED, NULL, others);
    size_t room = (size_t)METER_FILTERS_MAX * meters, count = 0;
    struct answers *answers = malloc((room + 1) * sizeof(*answers));
    if (answers == NULL)
        return;
    for (unsigned i = 0; i < meters; i++)
        count += gather(all->meter[i], answers + count, room - count);
    add_up(answers, count, to);
    free(answers);
}

void metrics_of_requests(const struct meters *all, struct samples *to)
{
    uint64_t slow = 0;
    requests(all, to);
    filters(all, to);
    for (unsigned i = 0; i < atomic_load(&all->count); i++)
        slow += meter_read_slow(all->meter[i]);
    sample_count(to, METRIC_OF_SLOW_REQUESTS, NULL, slow);
}
