/* SPDX-License-Identifier: MIT */
/* Prints bench's results, for people and for programs. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/bench/cli_bench.h"

static const double quantiles[] = {0.5, 0.9, 0.99, 0.999};
static const char *const quantile_names[] = {"p50_us", "p90_us", "p99_us", "p999_us"};
enum { QUANTILES = sizeof(quantiles) / sizeof(quantiles[0]) };

void bench_merge(struct bench_figures *into, const struct bench_figures *from)
{
    for (size_t c = 0; c < BENCH_COMMANDS; c++) {
        histogram_merge(&into->latency[c], &from->latency[c]);
        into->keys[c] += from->keys[c];
        into->errors[c] += from->errors[c];
    }
    into->asked_present += from->asked_present;
    into->false_negatives += from->false_negatives;
    into->asked_absent += from->asked_absent;
    into->false_positives += from->false_positives;
    into->disconnects += from->disconnects;
    if (into->error[0] == '\0')
        memcpy(into->error, from->error, sizeof(into->error));
}

static double per_second(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

/* --- text --- */

static void number_cell(struct table *t, double n)
{
    char text[NUMBER_GROUPED_SIZE];
    table_cell(t, COLOR_NONE, number_grouped((uint64_t)(n + 0.5), text));
}

static void time_cell(struct table *t, uint64_t us)
{
    char text[OUTPUT_TEXT_SIZE];
    table_cell(t, COLOR_NONE, output_latency(us, text));
}

static void latencies(const struct bench *b, const struct bench_figures *all, double seconds)
{
    static const struct table_column columns[] = {
        {"COMMAND", false}, {"REQUESTS", true}, {"PER SECOND", true}, {"KEYS/S", true}, {"P50", true},
        {"P90", true},      {"P99", true},      {"P99.9", true},      {"MAX", true},    {"ERRORS", true}};
    SCOPED(table_fini) struct table t;
    table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t c = 0; c < BENCH_COMMANDS; c++) {
        const struct histogram *h = &all->latency[c];
        if (h->count == 0)
            continue;
        char errors[NUMBER_GROUPED_SIZE];
        table_cell(&t, COLOR_NONE, b->command[c]);
        number_cell(&t, (double)h->count);
        number_cell(&t, per_second(h->count, seconds));
        number_cell(&t, per_second(all->keys[c], seconds));
        for (size_t i = 0; i < QUANTILES; i++)
            time_cell(&t, histogram_quantile(h, quantiles[i]));
        time_cell(&t, h->worst);
        table_cell(&t, all->errors[c] > 0 ? COLOR_BAD : COLOR_NONE, number_grouped(all->errors[c], errors));
    }
    table_print(&t, stdout, b->cli->color);
}

static void answers(const struct bench *b, const struct bench_figures *all)
{
    char x[NUMBER_GROUPED_SIZE], y[NUMBER_GROUPED_SIZE], rate[OUTPUT_TEXT_SIZE], limit[OUTPUT_TEXT_SIZE];
    bool wrong = all->false_negatives > 0;
    if (all->asked_present > 0)
        (void)printf("%s%s of %s present keys were reported absent%s.%s\n",
                     output_color_on(wrong ? COLOR_BAD : COLOR_NONE, b->cli->color),
                     number_grouped(all->false_negatives, x), number_grouped(all->asked_present, y),
                     wrong ? ": a broken promise" : "",
                     output_color_off(wrong ? COLOR_BAD : COLOR_NONE, b->cli->color));
    double allowed = 0;
    (void)number_double(b->cli->error_rate, strlen(b->cli->error_rate), &allowed);
    if (all->asked_absent > 0)
        (void)printf(
            "%s of %s absent keys were reported present (%s); %s is allowed when the filter is full.\n",
            number_grouped(all->false_positives, x), number_grouped(all->asked_absent, y),
            output_rate((double)all->false_positives / (double)all->asked_absent, rate),
            output_rate(allowed, limit));
}

static bool knows_server(const struct bench *b)
{
    return b->before.known && b->after.known && b->after.cpu_s >= b->before.cpu_s;
}

static void costs(const struct bench *b, const struct bench_figures *all)
{
    char x[NUMBER_GROUPED_SIZE];
    uint64_t keys = all->keys[BENCH_EXISTS] + all->keys[BENCH_ADD];
    double cpu_s = b->after.cpu_s - b->before.cpu_s;
    if (knows_server(b) && keys > 0)
        (void)printf("The server used %.2f s of processor time, %.2f us a key%s.\n", cpu_s,
                     cpu_s * 1e6 / (double)keys,
                     b->after.coordinator ? "; its Redis nodes are not included" : "");
    if (bench_added_again(b) > 0)
        (void)printf("%s adds repeated an earlier key; with more --keys all adds are new.\n",
                     number_grouped(bench_added_again(b), x));
}

void bench_print(const struct bench *b, const struct bench_figures *all, double seconds, double load_seconds)
{
    char x[NUMBER_GROUPED_SIZE];
    uint64_t requests = all->latency[BENCH_EXISTS].count + all->latency[BENCH_ADD].count;
    (void)printf(
        "%s keys of %u bytes loaded in %.1f s; then %.1f s with %u connections, pipeline %u, batch %u",
        number_grouped(b->o->keys, x), (unsigned)b->o->key_size, load_seconds, seconds,
        (unsigned)b->o->connections, (unsigned)b->o->pipeline, (unsigned)b->o->batch);
    if (b->o->rate != 0)
        (void)printf(", %s requests/s at most", number_grouped(b->o->rate, x));
    (void)printf(": %s requests/s.\n\n", number_grouped((uint64_t)per_second(requests, seconds), x));
    latencies(b, all, seconds);
    (void)putchar('\n');
    answers(b, all);
    costs(b, all);
    if (all->disconnects > 0)
        (void)printf("Connections failed %s times.\n", number_grouped(all->disconnects, x));
    if (all->error[0] != '\0') {
        SCOPED(buffer_fini) struct buffer text = {0};
        output_escape(&text, all->error, strlen(all->error));
        (void)printf("The first error: %s\n", buffer_text(&text));
    }
}

/* --- JSON --- */

static void decimal(struct json *j, const char *name, double n)
{
    char text[32];
    json_name(j, name);
    json_number_or_string(j, text, (size_t)snprintf(text, sizeof(text), "%.6g", n));
}

static void server_cpu(struct json *j, const struct bench *b)
{
    if (knows_server(b)) {
        decimal(j, "server_cpu_seconds", b->after.cpu_s - b->before.cpu_s);
        return;
    }
    json_name(j, "server_cpu_seconds");
    json_null(j);
}

static void write_command(struct json *j, const char *name, const struct bench_figures *all,
                          enum bench_command c, double seconds)
{
    const struct histogram *h = &all->latency[c];
    json_open(j, '{');
    json_text(j, "command", name);
    json_count(j, "requests", h->count);
    json_count(j, "keys", all->keys[c]);
    json_count(j, "errors", all->errors[c]);
    decimal(j, "requests_per_second", per_second(h->count, seconds));
    decimal(j, "keys_per_second", per_second(all->keys[c], seconds));
    json_count(j, "mean_us", h->count == 0 ? 0 : h->sum / h->count);
    for (size_t i = 0; i < QUANTILES; i++)
        json_count(j, quantile_names[i], histogram_quantile(h, quantiles[i]));
    json_count(j, "max_us", h->worst);
    json_close(j, '}');
}

void bench_print_json(const struct bench *b, const struct bench_figures *all, double seconds,
                      double load_seconds)
{
    SCOPED(buffer_fini) struct buffer out = {0};
    struct json j = {.out = &out};
    json_open(&j, '{');
    json_text(&j, "filter", b->filter);
    json_count(&j, "keys", b->o->keys);
    json_count(&j, "key_bytes", b->o->key_size);
    json_count(&j, "connections", b->o->connections);
    json_count(&j, "pipeline", b->o->pipeline);
    json_count(&j, "batch", b->o->batch);
    json_count(&j, "requests_per_second_limit", b->o->rate);
    decimal(&j, "adds_ratio", b->o->adds);
    decimal(&j, "load_seconds", load_seconds);
    decimal(&j, "duration_seconds", seconds);
    json_name(&j, "commands");
    json_open(&j, '[');
    for (size_t c = 0; c < BENCH_COMMANDS; c++)
        if (all->latency[c].count > 0)
            write_command(&j, b->command[c], all, (enum bench_command)c, seconds);
    json_close(&j, ']');
    json_count(&j, "checked_present", all->asked_present);
    json_count(&j, "false_negatives", all->false_negatives);
    json_count(&j, "checked_absent", all->asked_absent);
    json_count(&j, "false_positives", all->false_positives);
    json_count(&j, "added_again", bench_added_again(b));
    server_cpu(&j, b);
    json_count(&j, "disconnects", all->disconnects);
    json_text(&j, "error", all->error);
    json_close(&j, '}');
    (void)puts(buffer_text(&out));
}
