/* SPDX-License-Identifier: MIT */
#include "service/cli/top/cli_top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"
#include "service/cli/common/cli_sheet.h"
#include "service/cli/operate/cli_operate.h"
#include "service/cli/operate/cli_status.h"

enum { NARROW = 60, WIDE = 116, NAME_WIDE = 24, NAME_NARROW = 16, BAR_WIDE = 12, BAR_NARROW = 6 };

void top_cut(struct buffer *out, const char *text, size_t length, unsigned columns)
{
    unsigned used = 0;
    for (size_t at = 0; at < length;) {
        size_t n = utf8_sequence(text + at, length - at);
        if (text[at] == '\033') {
            const char *end = memchr(text + at, 'm', length - at);
            n = end == NULL ? length - at : (size_t)(end - (text + at)) + 1;
            buffer_append(out, text + at, n);
        } else if (used < columns) {
            buffer_append(out, text + at, n == 0 ? 1 : n);
            used++;
        }
        at += n == 0 ? 1 : n;
    }
    buffer_puts(out, "\n");
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

uint64_t top_trip(const struct top *t, double quantile)
{
    uint64_t sorted[TOP_TRIPS];
    size_t count = t->trips < TOP_TRIPS ? t->trips : TOP_TRIPS;
    if (count == 0)
        return 0;
    memcpy(sorted, t->trip_us, count * sizeof(sorted[0]));
    qsort(sorted, count, sizeof(sorted[0]), by_size);
    size_t at = (size_t)(quantile * (double)count);
    return sorted[at < count ? at : count - 1];
}

/* --- the head: items on as many lines as they need --- */

struct head {
    FILE *to;
    size_t used; /* columns of this line */
    unsigned columns;
};

static void end_head(struct head *h)
{
    (void)fputs(h->used > 0 ? "\n" : "", h->to);
    h->used = 0;
}

static void put_item(struct head *h, const char *name, const char *value)
{
    if (h->used > 0 && h->used + 3 + strlen(name) + 1 + strlen(value) > h->columns)
        end_head(h);
    h->used += (size_t)fprintf(h->to, "%s%s %s", h->used > 0 ? "   " : "", name, value);
}

/* The rate per second between two looks; "-": there is only one, or the service restarted between them. */
static const char *rate_of(const struct top *t, uint64_t now, uint64_t before, char out[OUTPUT_TEXT_SIZE])
{
    double seconds = (double)(t->now.at_us - t->before.at_us) / 1e6;
    if (t->before.at_us == 0 || !t->before.has_info || now < before || !(seconds > 0))
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "-");
    else
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%.0f/s", (double)(now - before) / seconds);
    return out;
}

static void put_trips(struct head *h, const struct top *t)
{
    char a[OUTPUT_TEXT_SIZE], text[4 * OUTPUT_TEXT_SIZE], b[OUTPUT_TEXT_SIZE], c[OUTPUT_TEXT_SIZE];
    if (t->trips == 0)
        return;
    (void)snprintf(text, sizeof(text), "p50 %s, p99 %s, max %s", output_latency(top_trip(t, 0.5), a),
                   output_latency(top_trip(t, 0.99), b), output_latency(top_trip(t, 1), c));
    put_item(h, "PING", text);
}

static void put_head(FILE *to, const struct top *t, unsigned columns)
{
    const struct top_look *n = &t->now, *p = &t->before;
    struct head h = {.to = to, .columns = columns};
    char text[OUTPUT_TEXT_SIZE], where[320];
    const struct client_address *at = &t->cli->address;
    (void)snprintf(where, sizeof(where), at->path[0] != '\0' ? "%s" : "%s:%u",
                   at->path[0] != '\0' ? at->path : at->host, (unsigned)at->port);
    put_item(&h, "twinbloom", n->version[0] != '\0' ? n->version : "-");
    put_item(&h, "at", where);
    if (n->has_info)
        put_item(&h, "up", output_duration(n->uptime_s, text));
    (void)output_time(t->wall_s, text);
    text[19] = '\0'; /* without the time zone */
    put_item(&h, "", text + 11);
    end_head(&h);
    if (n->has_info) {
        put_item(&h, "requests", rate_of(t, n->commands, p->commands, text));
        put_item(&h, "connections", rate_of(t, n->connections, p->connections, text));
        put_item(&h, "clients", number_grouped(n->clients, text));
        put_item(&h, "memory", output_bytes(n->memory, text));
        if (p->has_info && n->at_us > p->at_us && n->cpu_s >= p->cpu_s)
            put_item(&h, "CPU",
                     output_percent((n->cpu_s - p->cpu_s) * 1e6 / (double)(n->at_us - p->at_us), text));
    }
    put_trips(&h, t);
    end_head(&h);
    if (t->error[0] == '\0')
        return;
    SCOPED(buffer_fini) struct buffer error = {0};
    output_escape(&error, t->error, strlen(t->error));
    (void)fprintf(to, "%s%s%s\n", output_color_on(COLOR_BAD, t->cli->color), buffer_text(&error),
                  output_color_off(COLOR_BAD, t->cli->color));
}

/* --- tables --- */

static const redisReply *find(const redisReply *all, const redisReply *filter)
{
    const char *name, *other;
    size_t length, other_length;
    (void)list_bytes(filter, "filter", &name, &length);
    for (size_t i = 0; all != NULL && i < all->elements; i++) {
        (void)list_bytes(all->element[i], "filter", &other, &other_length);
        if (other_length == length && memcmp(other, name, length) == 0)
            return all->element[i];
    }
    return NULL;
}

/* Cut the name, so that a long one does not push other cells off the screen. */
static void name_cell(struct table *t, const redisReply *filter)
{
    const char *name;
    SCOPED(buffer_fini) struct buffer b = {0};
    size_t at = 0, length, most = t->bar == BAR_WIDE ? NAME_WIDE : NAME_NARROW;
    (void)list_bytes(filter, "filter", &name, &length);
    for (size_t used = 0; at < length && used < most; used++) {
        size_t n = utf8_sequence(name + at, length - at);
        at += n == 0 ? 1 : n;
    }
    output_escape(&b, name, at);
    buffer_puts(&b, at < length ? "~" : "");
    table_cell(t, COLOR_NONE, buffer_text(&b));
}

/* Keys added per second, in the same generation. */
static void growth_cell(struct table *table, const redisReply *filter)
{
    const struct top *t = table->context;
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t now, before, generation = 0, old = 0;
    const redisReply *last = t->before.at_us == 0 ? NULL : find(t->before.filters, filter);
    bool same = last != NULL && list_count(filter, "generation", &generation) &&
                list_count(last, "generation", &old) && generation == old;
    if (same && list_count(filter, "keys", &now) && list_count(last, "keys", &before) && now >= before &&
        t->now.at_us > t->before.at_us)
        (void)output_count(
            (uint64_t)((double)(now - before) * 1e6 / (double)(t->now.at_us - t->before.at_us) + 0.5), text);
    table_cell(table, COLOR_NONE, text);
}

static void put_filters(FILE *to, const struct top *t, unsigned columns)
{
    enum { ON_WIDE = 1, ON_MIDDLE = 2, ON_NARROW = 4 };
    static const struct sheet_column all[] = {
        {"FILTER", .own = name_cell},
        {"KEYS/CAPACITY", .right = true, .on = ON_WIDE | ON_MIDDLE, .own = status_short_counts_cell},
        {"KEYS/S", .right = true, .on = ON_WIDE | ON_MIDDLE, .own = growth_cell},
        {"FILL", .right = true, .own = status_fill_cell},
        {"FP RATE", .right = true, .on = ON_WIDE, .own = status_rates_cell},
        {"HEALTH", .own = status_health_cell},
        {"NEXT REBUILD", .on = ON_WIDE, .own = status_next_cell},
        {"JOB", .own = status_job_cell},
        {.title = NULL},
    };
    SCOPED(table_fini) struct table table = {.bar = columns >= WIDE ? BAR_WIDE : BAR_NARROW, .context = t};
    sheet_rows(&table, all,
               columns >= WIDE    ? ON_WIDE
               : columns < NARROW ? ON_NARROW
                                  : ON_MIDDLE,
               t->now.filters);
    table_print(&table, to, t->cli->color);
}

/* A line for each running job. */
static void put_jobs(FILE *to, const struct top *t, unsigned columns)
{
    char state[32];
    const char *name;
    size_t length;
    bool any = false;
    for (size_t i = 0; t->now.filters != NULL && i < t->now.filters->elements; i++) {
        const redisReply *f = t->now.filters->element[i];
        bool runs = list_text(f, "job_state", state, sizeof(state)) &&
                    (strcmp(state, "running") == 0 || strcmp(state, "waiting") == 0);
        if (!runs || !list_bytes(f, "filter", &name, &length))
            continue;
        SCOPED(buffer_fini) struct buffer line = {0};
        output_escape(&line, name, length);
        buffer_puts(&line, ": ");
        follow_line(&line, f, columns > line.length ? columns - (unsigned)line.length : 1);
        (void)fprintf(to, "%s%s\n", any ? "" : "\n", buffer_text(&line));
        any = true;
    }
}

static void put_coordinators(FILE *to, const struct top *t, unsigned columns)
{
    SCOPED(table_fini) struct table table = {0};
    if (t->now.coordinators == NULL || t->now.coordinators->elements == 0)
        return;
    (void)fputc('\n', to);
    cli_coordinators_table(&table, t->now.coordinators, columns < NARROW);
    table_print(&table, to, t->cli->color);
}

void top_render(struct buffer *out, const struct top *t, unsigned columns, unsigned rows)
{
    SCOPED(scope_free) char *all = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&all, &length);
    if (to == NULL)
        return;
    put_head(to, t, columns);
    (void)fputc('\n', to);
    if (t->now.filters != NULL && t->now.filters->elements == 0)
        (void)fputs("There are no filters yet.\n", to);
    else if (t->now.filters != NULL)
        put_filters(to, t, columns);
    put_jobs(to, t, columns);
    put_coordinators(to, t, columns);
    (void)fclose(to);
    const char *text = all;
    for (unsigned lines = 0; *text != '\0' && lines + 1 < rows; lines++) {
        size_t n = strcspn(text, "\n");
        top_cut(out, text, n, columns);
        text += n + (text[n] == '\n');
    }
    /* The last line shows how to leave. */
    top_cut(out, *text == '\0' ? "q: quit" : "q: quit; there are more lines", *text == '\0' ? 7 : 26,
            columns);
}
