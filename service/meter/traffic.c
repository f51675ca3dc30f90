/* SPDX-License-Identifier: MIT */
#include "service/meter/traffic.h"

#include <string.h>
#include "service/commands/command.h"
#include "service/http/http.h"
#include "service/http/http_route.h"
#include "service/meter/meter.h"
#include "service/resp/worker.h"

static bool is_key_command(const struct command *c)
{
    static const char *const names[] = {"BF.EXISTS", "BF.MEXISTS", "BF.ADD", "BF.MADD", "BF.INSERT"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(c->name, names[i]) == 0)
            return true;
    return false;
}

static void add_commands(const struct meter *m, struct traffic *out)
{
    static const enum outcome failures[] = {OUTCOME_ERROR, OUTCOME_TIMEOUT, OUTCOME_UNAVAILABLE};
    for (size_t row = 0; row < command_count; row++) {
        if (!is_key_command(&command_table[row]))
            continue;
        meter_read_timing(m, row, &out->took);
        for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
            out->failed += meter_read(m, row, failures[i]);
    }
}

static void add_routes(const struct meter *m, struct traffic *out)
{
    for (size_t row = 0; row < http_route_count; row++) {
        if (http_routes[row].run != http_check && http_routes[row].run != http_add)
            continue;
        meter_read_timing(m, row, &out->took);
        for (size_t i = 0; http_status_at(i) != 0; i++)
            if (http_status_at(i) >= 500)
                out->failed += meter_read(m, row, i);
    }
}

static void add_filter(const struct meter_filter *f, struct traffic_keys *out)
{
    out->checks += atomic_load_explicit(&f->checks, memory_order_relaxed);
    out->maybe += atomic_load_explicit(&f->positives, memory_order_relaxed);
    out->adds += atomic_load_explicit(&f->adds, memory_order_relaxed);
}

static void add_keys(const struct meter *m, struct traffic_keys *out)
{
    for (const struct meter_filter *f = meter_filters(m); f != NULL; f = f->next)
        add_filter(f, out);
    add_filter(meter_others(m), out);
}

void traffic_read(struct service *s, struct traffic *out)
{
    *out = (struct traffic){0};
    for (unsigned w = 0; w < s->worker_count; w++) {
        add_commands(s->workers[w]->meter, out);
        add_keys(s->workers[w]->meter, &out->keys);
    }
    if (s->http != NULL) {
        add_routes(http_meter(s->http), out);
        add_keys(http_meter(s->http), &out->keys);
    }
    out->requests = out->took.count;
}

static void add_named(const struct meter *m, const char *name, size_t length, struct traffic_keys *out)
{
    for (const struct meter_filter *f = meter_filters(m); f != NULL; f = f->next)
        if (f->length == length && memcmp(f->name, name, length) == 0) {
            add_filter(f, out);
            return;
        }
}

void traffic_of_filter(struct service *s, const char *name, size_t length, struct traffic_keys *out)
{
    *out = (struct traffic_keys){0};
    for (unsigned w = 0; w < s->worker_count; w++)
        add_named(s->workers[w]->meter, name, length, out);
    if (s->http != NULL)
        add_named(http_meter(s->http), name, length, out);
}
