/* SPDX-License-Identifier: MIT */
#include "service/cli/cli_sheet.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum { BAR_WIDTH = 12 };

enum output_color sheet_color(const char *state)
{
    static const struct {
        const char *state;
        enum output_color color;
    } colors[] = {{"serving", COLOR_GOOD},      {"done", COLOR_GOOD},     {"passed", COLOR_GOOD},
                  {"building", COLOR_WARN},     {"running", COLOR_WARN},  {"waiting", COLOR_WARN},
                  {"aborted", COLOR_WARN},      {"healed", COLOR_WARN},   {"degraded", COLOR_BAD},
                  {"unreachable", COLOR_BAD},   {"failed", COLOR_BAD},    {"up", COLOR_GOOD},
                  {"down", COLOR_BAD},          {"none", COLOR_QUIET},    {"stale", COLOR_WARN},
                  {"never", COLOR_QUIET},       {"not built", COLOR_BAD}, {"open", COLOR_GOOD},
                  {"opening", COLOR_WARN},      {"closed", COLOR_BAD},    {"gone", COLOR_BAD},
                  {"shutting_down", COLOR_WARN}};
    for (size_t i = 0; i < sizeof(colors) / sizeof(colors[0]); i++)
        if (strcmp(colors[i].state, state) == 0)
            return colors[i].color;
    return COLOR_NONE;
}

void sheet_word_cell(struct table *t, enum output_color color, const char *text)
{
    struct buffer b = {0};
    output_escape(&b, text, strlen(text));
    table_cell(t, color, buffer_text(&b));
    buffer_fini(&b);
}

void sheet_fill(const struct cli *cli, double fill, char out[2 * OUTPUT_TEXT_SIZE])
{
    char bar[OUTPUT_TEXT_SIZE] = "";
    char percent[OUTPUT_TEXT_SIZE];
    if (cli->terminal)
        (void)output_bar(fill, BAR_WIDTH, bar);
    (void)snprintf(out, 2 * OUTPUT_TEXT_SIZE, "%s%s%s", bar, cli->terminal ? " " : "",
                   output_percent(fill, percent));
}

static bool format_count(enum sheet_kind kind, uint64_t n, char out[OUTPUT_TEXT_SIZE])
{
    switch (kind) {
    case COUNT:
        (void)number_grouped(n, out);
        return true;
    case BYTES:
        (void)output_bytes(n, out);
        return true;
    case SPAN:
    case MS_SPAN:
        (void)output_duration(kind == MS_SPAN ? n / 1000 : n, out);
        return true;
    case FLAG:
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%s", n != 0 ? "yes" : "no");
        return true;
    case HEADING:
    case WORD:
    case RATE:
    case SECONDS:
    case PERCENT:
    case FILL:
    case TIME:
    case COLORED:
    case WARNING:
        break;
    }
    return false;
}

const char *sheet_seconds(double seconds, char out[OUTPUT_TEXT_SIZE])
{
    if (seconds > 0 && seconds < 1)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "< 1s");
    else
        (void)output_duration(seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0, out);
    return out;
}

/* Layers that may exceed what was promised are worth a line. */
static bool bound_is_quiet(const redisReply *list)
{
    double bound, promised;
    return client_decimal(list, "error_rate_bound", &bound) &&
           client_decimal(list, "error_rate", &promised) && bound <= promised;
}

/* A filter without a source has nothing that it could be verified against. */
static bool never_verifiable(const redisReply *list)
{
    uint64_t sourced;
    return client_count(list, "has_source", &sourced) && sourced == 0;
}

/* There is such a value, but the service does not know it. */
static bool is_unknown(const redisReply *list, const char *field)
{
    const redisReply *value = client_field(list, field);
    return value != NULL && value->type == REDIS_REPLY_NIL;
}

/* Missing, or what it always is unless something is to be said. */
static bool is_hidden(const redisReply *list, const char *field)
{
    static const struct {
        const char *field, *value;
    } usual[] = {{"has_layers", "0"},
                 {"expand_at_dead_ratio", "0"},
                 {"job_dead_keys_at_build", "0"},
                 {"job_hold", "0"},
                 {"job_paused", "0"},
                 {"job_verify_added", "0"},
                 {"job_verify_missing", "0"},
                 {"lost_shards", "0"},
                 {"job_rows_per_second_limit", "0"},
                 {"job_skipped_null", "0"},
                 {"mutex_ttl_ms", "0"},
                 {"job_skipped_empty", "0"},
                 {"job_eta_seconds", "0"},
                 {"job_partitions", "1"},
                 {"follow_state", "none"},
                 {"degraded", "0"},
                 {"expand_at_ratio", "0"},
                 {"loading_shards", "0"},
                 {"loading_bytes", "0"},
                 {"lane_state", "complete"},
                 {"alternate_loading_shards", "0"},
                 {"folds", "0"}};
    char text[16];
    if (is_unknown(list, field))
        return strcmp(field, "degraded_at") == 0 || strcmp(field, "verified_at") == 0 ||
               strcmp(field, "source_rows_at") == 0 ||
               strcmp(field, "folded_at") == 0; /* it is not, or was never */
    if (!client_text(list, field, text, sizeof(text)))
        return true;
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (strcmp(usual[i].field, field) == 0 && strcmp(usual[i].value, text) == 0)
            return true;
    return (strcmp(field, "error_rate_bound") == 0 && bound_is_quiet(list)) ||
           (strcmp(field, "verification") == 0 && never_verifiable(list));
}

/* The two cells of one row, or nothing where the value is missing. A value that is not what its row expects
 * is shown as it is. */
static void sheet_cells(const struct cli *cli, struct table *t, const struct sheet_row *row,
                        const redisReply *list)
{
    char text[512];
    char shown[2 * OUTPUT_TEXT_SIZE];
    uint64_t n;
    double d;
    if (is_unknown(list, row->field))
        (void)snprintf(text, sizeof(text), "unknown");
    else if (!client_text(list, row->field, text, sizeof(text)))
        return;
    char label[64];
    enum output_color color = row->kind == COLORED   ? sheet_color(text)
                              : row->kind == WARNING ? COLOR_WARN
                                                     : COLOR_NONE;
    (void)snprintf(label, sizeof(label), "  %s", row->label);
    bool numeric = row->kind != WORD && row->kind != COLORED && row->kind != WARNING;
    bool decimal = numeric && client_decimal(list, row->field, &d);
    if (decimal && row->kind == RATE)
        (void)output_rate(d, shown);
    else if (decimal && row->kind == SECONDS)
        (void)sheet_seconds(d, shown);
    else if (decimal && row->kind == PERCENT)
        (void)output_percent(d, shown);
    else if (decimal && row->kind == FILL)
        sheet_fill(cli, d, shown);
    else if (decimal && row->kind == TIME && client_time(list, row->field, &n))
        (void)output_time(n / 1000, shown);
    else if (decimal && row->kind == COUNT && !client_count(list, row->field, &n) && d >= 0 && d < 1e18)
        (void)number_grouped((uint64_t)(d + 0.5), shown);
    else if (numeric && client_count(list, row->field, &n)) {
        if (!format_count(row->kind, n, shown))
            return;
    } else {
        table_cell(t, COLOR_QUIET, label);
        sheet_word_cell(t, color, text);
        return;
    }
    table_cell(t, COLOR_QUIET, label);
    table_cell(t, COLOR_NONE, shown);
}

void sheet_text_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[256];
    bool there = client_text(list, field, text, sizeof(text));
    sheet_word_cell(t, there ? sheet_color(text) : COLOR_QUIET, there ? text : "-");
}

void sheet_count_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[NUMBER_GROUPED_SIZE];
    uint64_t n;
    bool there = client_count(list, field, &n);
    table_cell(t, there ? COLOR_NONE : COLOR_QUIET, there ? number_grouped(n, text) : "-");
}

void sheet_bytes_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[OUTPUT_TEXT_SIZE] = "";
    uint64_t bytes;
    if (client_count(list, field, &bytes))
        (void)output_bytes(bytes, text);
    table_cell(t, COLOR_NONE, text);
}

void sheet_print(const struct cli *cli, const struct sheet_row *rows, size_t count, const redisReply *list)
{
    static const struct table_column columns[] = {{NULL, false}, {NULL, false}};
    struct table t;
    table_init(&t, columns, 2);
    const struct sheet_row *heading = NULL;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == HEADING) {
            heading = &rows[i];
            continue;
        }
        if (is_hidden(list, rows[i].field))
            continue;
        if (heading != NULL) {
            table_cell(&t, COLOR_NONE, heading->label);
            table_cell(&t, COLOR_NONE, "");
            heading = NULL;
        }
        sheet_cells(cli, &t, &rows[i], list);
    }
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}
