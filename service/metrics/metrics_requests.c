/* SPDX-License-Identifier: MIT */
/* Metrics of requests: the sums of what the workers and the HTTP thread have counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "service/resp/command.h"
#include "service/http/http.h"
#include "service/http/http_route.h"
#include "service/metrics/meter.h"
#include "service/metrics/metrics_internal.h"
#include "service/core/worker.h"

static void commands(struct service *s, struct samples *to)
{
    for (size_t row = 0; row <= command_count; row++) {
        const struct label name = label(row < command_count ? command_table[row].name : "unknown");
        struct timing_figures t = {0};
        for (unsigned o = 0; o < OUTCOME_COUNT; o++) {
            uint64_t sum = 0;
            for (unsigned w = 0; w < s->worker_count; w++)
                sum += meter_read(s->workers[w]->meter, row, o);
            if (sum > 0)
                sample_count(to, METRIC_OF_REQUESTS,
                             (struct label[]){name, label(outcome_name((enum outcome)o))}, sum);
        }
        for (unsigned w = 0; w < s->worker_count; w++)
            meter_read_timing(s->workers[w]->meter, row, &t);
        if (t.count > 0)
            sample_timing(to, METRIC_OF_REQUEST_SECONDS, &name, &t);
    }
}

static void routes(const struct meter *m, struct samples *to)
{
    for (size_t row = 0; row <= http_route_count; row++) {
        bool is = row < http_route_count;
        const struct label who[] = {label(is ? http_routes[row].method : "other"),
                                    label(is ? http_routes[row].pattern : "other")};
        struct timing_figures t = {0};
        for (size_t i = 0; http_status_at(i) != 0; i++) {
            char code[8];
            uint64_t n = meter_read(m, row, i);
            (void)snprintf(code, sizeof(code), "%d", http_status_at(i));
            if (n > 0)
                sample_count(to, METRIC_OF_HTTP_REQUESTS, (struct label[]){who[0], who[1], label(code)}, n);
        }
        meter_read_timing(m, row, &t);
        if (t.count > 0)
            sample_timing(to, METRIC_OF_HTTP_REQUEST_SECONDS, who, &t);
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
    size_t shorter = l->length < r->length ? l->length : r->length;
    int order = memcmp(l->name, r->name, shorter);
    return order != 0 ? order : (l->length > r->length) - (l->length < r->length);
}

static void put_answers(const struct answers *a, struct samples *to)
{
    const struct label filter = {a->filter->name, a->filter->length};
    sample_count(to, METRIC_OF_FILTER_CHECKS, &filter, a->checks);
    sample_count(to, METRIC_OF_FILTER_POSITIVES, &filter, a->positives);
    sample_count(to, METRIC_OF_FILTER_ADDS, &filter, a->adds);
    sample_count(to, METRIC_OF_FILTER_ADDED, &filter, a->added);
}

static size_t gather(const struct meter *m, struct answers *to, size_t room)
{
    size_t n = 0;
    for (const struct meter_filter *f = m == NULL ? NULL : meter_filters(m); f != NULL; f = f->next, n++)
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
            put_answers(&all[i], to);
            continue;
        }
        all[i + 1].checks += all[i].checks;
        all[i + 1].positives += all[i].positives;
        all[i + 1].adds += all[i].adds;
        all[i + 1].added += all[i].added;
    }
}

static uint64_t omitted(const struct meter *m)
{
    const struct meter_filter *f = m == NULL ? NULL : meter_others(m);
    return f == NULL ? 0
                     : atomic_load_explicit(&f->checks, memory_order_relaxed) +
                           atomic_load_explicit(&f->adds, memory_order_relaxed);
}

static void filters(struct service *s, struct samples *to)
{
    uint64_t others = omitted(http_meter(s->http));
    for (unsigned w = 0; w < s->worker_count; w++)
        others += omitted(s->workers[w]->meter);
    sample_count(to, METRIC_OF_FILTER_KEYS_OMITTED, NULL, others);
    size_t room = (size_t)METER_FILTERS_MAX * (s->worker_count + 1), count = 0;
    struct answers *all = malloc(room * sizeof(*all));
    if (all == NULL)
        return;
    for (unsigned w = 0; w < s->worker_count; w++)
        count += gather(s->workers[w]->meter, all + count, room - count);
    count += gather(http_meter(s->http), all + count, room - count);
    add_up(all, count, to);
    free(all);
}

void metrics_of_requests(struct service *s, struct samples *to)
{
    uint64_t slow = 0;
    commands(s, to);
    filters(s, to);
    for (unsigned w = 0; w < s->worker_count; w++)
        slow += meter_read_slow(s->workers[w]->meter);
    if (s->http != NULL) {
        routes(http_meter(s->http), to);
        slow += meter_read_slow(http_meter(s->http));
        sample_count(to, METRIC_OF_HTTP_CONNECTIONS, NULL, http_connections(s->http));
    }
    sample_count(to, METRIC_OF_SLOW_REQUESTS, NULL, slow);
}
