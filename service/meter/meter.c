/* SPDX-License-Identifier: MIT */
#include "service/meter/meter.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/buffer.h"

enum { CHAINS = 256 };

struct meter {
    const struct meter_kind *kind;
    atomic_uint_fast64_t *count; /* [rows][columns] */
    struct timing *timing;       /* [rows] */
    atomic_uint_fast64_t slow;
    _Atomic(struct meter_filter *) filters;
    size_t filter_count;
    struct meter_filter others;                   /* sums of filters that came when the table was full */
    _Atomic(struct meter_filter *) chain[CHAINS]; /* hash table */
};

/* --- outcomes --- */

const char *outcome_name(enum outcome o)
{
    static const char *const names[] = {
        [OUTCOME_OK] = "ok",
        [OUTCOME_PARTIAL] = "partial",
        [OUTCOME_ERROR] = "error",
        [OUTCOME_DENIED] = "denied",
        [OUTCOME_TIMEOUT] = "timeout",
        [OUTCOME_UNAVAILABLE] = "unavailable",
        [OUTCOME_CANCELLED] = "cancelled",
    };
    return names[o];
}

enum outcome outcome_of_reply(const char *bytes, size_t length)
{
    static const struct {
        const char *begin;
        enum outcome outcome;
    } errors[] = {{"-NOAUTH", OUTCOME_DENIED}, {"-NOPERM", OUTCOME_DENIED}, {"-WRONGPASS", OUTCOME_DENIED}};
    if (length == 0 || bytes[0] != '-')
        return OUTCOME_OK;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        size_t n = strlen(errors[i].begin);
        if (length >= n && memcmp(bytes, errors[i].begin, n) == 0)
            return errors[i].outcome;
    }
    return outcome_of_error(error_of_reply(bytes + 1, length - 1));
}

enum outcome outcome_of_error(enum err code)
{
    return code == ERR_TIMEOUT       ? OUTCOME_TIMEOUT
           : code == ERR_UNREACHABLE ? OUTCOME_UNAVAILABLE
                                     : OUTCOME_ERROR;
}

/* --- the meter --- */

struct meter *meter_new(const struct meter_kind *kind)
{
    struct meter *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return NULL;
    m->kind = kind;
    m->count = calloc(kind->rows * kind->columns, sizeof(*m->count));
    m->timing = calloc(kind->rows, sizeof(*m->timing));
    if (m->count != NULL && m->timing != NULL)
        return m;
    meter_free(m);
    return NULL;
}

void meter_free(struct meter *m)
{
    if (m == NULL)
        return;
    struct meter_filter *f = atomic_load(&m->filters);
    while (f != NULL) {
        struct meter_filter *next = f->next;
        free(f->name);
        free(f);
        f = next;
    }
    free(m->count);
    free(m->timing);
    free(m);
}

const struct meter_kind *meter_kind(const struct meter *m)
{
    return m->kind;
}

void meters_add(struct meters *all, const struct meter *m)
{
    unsigned count = atomic_load(&all->count);
    all->meter[count] = m;
    atomic_store(&all->count, count + 1);
}

void meter_count(struct meter *m, size_t row, size_t column, uint64_t us, uint64_t times)
{
    timing_bump(&m->count[row * m->kind->columns + column], times);
    timing_record_many(&m->timing[row], us, times);
}

void meter_slow(struct meter *m)
{
    timing_bump(&m->slow, 1);
}

/* From any thread. */
static struct meter_filter *find(const _Atomic(struct meter_filter *) *chain, const char *name, size_t length)
{
    struct meter_filter *f = atomic_load_explicit(chain, memory_order_acquire);
    while (f != NULL && (f->length != length || memcmp(f->name, name, length) != 0))
        f = f->chain;
    return f;
}

struct meter_filter *meter_filter(struct meter *m, const char *name, size_t length)
{
    _Atomic(struct meter_filter *) *chain = &m->chain[XXH3_64bits(name, length) % CHAINS];
    struct meter_filter *f = find(chain, name, length);
    if (f != NULL)
        return f;
    f = m->filter_count < METER_FILTERS_MAX ? calloc(1, sizeof(*f)) : NULL;
    if (f == NULL)
        return &m->others;
    f->name = buffer_copy(name, length);
    if (f->name == NULL) {
        free(f);
        return &m->others;
    }
    f->length = length;
    m->filter_count++;
    f->chain = atomic_load_explicit(chain, memory_order_relaxed);
    f->next = atomic_load_explicit(&m->filters, memory_order_relaxed);
    atomic_store_explicit(chain, f, memory_order_release);
    atomic_store_explicit(&m->filters, f, memory_order_release);
    return f;
}

void meter_answered(struct meter_filter *f, bool is_check, const struct meter_answers *a)
{
    if (f == NULL)
        return;
    timing_bump(is_check ? &f->checks : &f->adds, a->yes + a->no);
    timing_bump(is_check ? &f->positives : &f->added, a->yes);
}

uint64_t meter_read(const struct meter *m, size_t row, size_t column)
{
    return atomic_load_explicit(&m->count[row * m->kind->columns + column], memory_order_relaxed);
}

void meter_read_timing(const struct meter *m, size_t row, struct timing_figures *out)
{
    timing_add(&m->timing[row], out);
}

uint64_t meter_read_slow(const struct meter *m)
{
    return atomic_load_explicit(&m->slow, memory_order_relaxed);
}

const struct meter_filter *meter_filters(const struct meter *m)
{
    return atomic_load_explicit(&m->filters, memory_order_acquire);
}

const struct meter_filter *meter_others(const struct meter *m)
{
    return &m->others;
}

/* --- sums --- */

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
    const size_t chain = XXH3_64bits(name, length) % CHAINS;
    *out = (struct traffic_keys){0};
    for (unsigned i = 0; i < atomic_load(&all->count); i++) {
        const struct meter_filter *f = find(&all->meter[i]->chain[chain], name, length);
        if (f != NULL)
            add_filter(f, out);
    }
}
