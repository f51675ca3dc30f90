/* SPDX-License-Identifier: MIT */
/* Prints TB.STATUS for people: a table of filters, or the sheet of one. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/cli/common/cli_sheet.h"
#include "service/cli/operate/cli_operate.h"
#include "service/cli/operate/cli_status.h"

/* --- the table --- */

void status_fill_cell(struct table *t, const redisReply *filter)
{
    char bar[OUTPUT_TEXT_SIZE] = "", percent[OUTPUT_TEXT_SIZE], text[2 * OUTPUT_TEXT_SIZE + 1] = "-";
    double fill;
    double limit = 1;
    enum output_color color = COLOR_QUIET;
    if (list_decimal(filter, "fill_ratio", &fill)) {
        if (t->bar != 0)
            (void)output_bar(fill, t->bar, bar);
        (void)snprintf(text, sizeof(text), t->bar != 0 ? "%s %4s" : "%s%s", bar,
                       output_percent(fill, percent));
        (void)list_decimal(filter, "expand_at_ratio", &limit);
        color = fill >= 1 ? COLOR_BAD : limit > 0 && fill >= limit ? COLOR_WARN : COLOR_NONE;
    }
    table_cell(t, color, text);
}

/* "0.016% of 0.1%". Far below the promise the digits do not matter: "<0.0001% of 0.1%". */
void status_rates_cell(struct table *t, const redisReply *filter)
{
    char now[OUTPUT_TEXT_SIZE], promised[OUTPUT_TEXT_SIZE], text[2 * OUTPUT_TEXT_SIZE + 8] = "-";
    double rate, limit;
    bool known =
        list_decimal(filter, "expected_error_rate", &rate) && list_decimal(filter, "error_rate", &limit);
    if (known) {
        bool tiny = rate < limit / 1000;
        (void)snprintf(text, sizeof(text), "%s%s of %s", tiny ? "<" : "",
                       output_rate(tiny ? limit / 1000 : rate, now), output_rate(limit, promised));
    }
    table_cell(t, known && rate > limit ? COLOR_WARN : COLOR_NONE, text);
}

/* "scan 48%", "ready to switch", "waiting", "failed", or "-". */
void status_job_cell(struct table *t, const redisReply *filter)
{
    char state[64] = "none";
    char step[64] = "";
    char percent[OUTPUT_TEXT_SIZE] = "";
    char text[192];
    uint64_t rows = 0;
    uint64_t total = 0;
    (void)list_text(filter, "job_state", state, sizeof(state));
    if (strcmp(state, "none") == 0) {
        table_cell(t, COLOR_QUIET, "-");
        return;
    }
    bool runs = strcmp(state, "running") == 0 && list_text(filter, "job_step", step, sizeof(step));
    if (runs && cli_job_holds(filter)) {
        table_cell(t, COLOR_GOOD, "ready to switch");
        return;
    }
    if (runs && strcmp(step, "scan") == 0 && list_count(filter, "job_rows", &rows) &&
        list_count(filter, "job_rows_total", &total) && total != 0)
        (void)output_percent((double)rows / (double)total, percent);
    uint64_t paused = 0;
    (void)list_count(filter, "job_paused", &paused);
    (void)snprintf(text, sizeof(text), "%s%s%s%s", runs ? step : state, percent[0] == '\0' ? "" : " ",
                   percent, runs && paused == 1 ? ", paused" : "");
    sheet_word_cell(t, sheet_color(state), text);
}

/* Whether answers are reliable, in a word. */
void status_health_cell(struct table *t, const redisReply *filter)
{
    uint64_t lost = 0;
    (void)list_count(filter, "lost_shards", &lost);
    if (list_is(filter, "state", "unreachable"))
        table_cell(t, COLOR_BAD, "unreachable");
    else if (lost > 0)
        table_cell(t, COLOR_BAD, "lost");
    else if (list_is(filter, "state", "degraded") || list_is(filter, "degraded", "1"))
        table_cell(t, COLOR_BAD, "degraded");
    else if (!list_is(filter, "state", "serving"))
        sheet_text_cell(t, filter, "state");
    else if (list_is(filter, "verification", "failed"))
        table_cell(t, COLOR_WARN, "keys missed");
    else
        table_cell(t, COLOR_GOOD, "healthy");
}

void status_next_cell(struct table *t, const redisReply *filter)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t at_ms;
    bool known = (list_is(filter, "state", "not built") && list_time(filter, "next_attempt_at", &at_ms)) ||
                 list_time(filter, "rebuild_expected_at", &at_ms);
    if (known)
        (void)output_when(at_ms / 1000, clock_wall_us() / 1000000, text);
    table_cell(t, known ? COLOR_NONE : COLOR_QUIET, text);
}

/* "196.0K/280.0K" */
void status_short_counts_cell(struct table *t, const redisReply *filter)
{
    char items[OUTPUT_TEXT_SIZE] = "-", capacity[OUTPUT_TEXT_SIZE] = "-", text[2 * OUTPUT_TEXT_SIZE + 1];
    uint64_t n;
    if (list_count(filter, "keys", &n))
        (void)output_count(n, items);
    if (list_count(filter, "capacity", &n))
        (void)output_count(n, capacity);
    (void)snprintf(text, sizeof(text), "%s/%s", items, capacity);
    table_cell(t, COLOR_NONE, text);
}

enum { WIDE = 1, NARROW = 2, WIDE_COLUMNS = 116, BAR_WIDE = 12, BAR_NARROW = 6 };

static void print_filters(const struct cli *cli, const redisReply *filters)
{
    static const struct sheet_column columns[] = {
        {"FILTER", .cell = sheet_name_cell, .field = "filter"},
        {"KEYS", .right = true, .on = WIDE, .cell = sheet_count_cell, .field = "keys"},
        {"CAPACITY", .right = true, .on = WIDE, .cell = sheet_count_cell, .field = "capacity"},
        {"KEYS/CAPACITY", .right = true, .on = NARROW, .own = status_short_counts_cell},
        {"FILL", .right = true, .own = status_fill_cell},
        {"FP RATE", .right = true, .own = status_rates_cell},
        {"GEN", .right = true, .cell = sheet_count_cell, .field = "generation"},
        {"PHASE", .on = WIDE, .cell = sheet_text_cell, .field = "phase"},
        {"HEALTH", .own = status_health_cell},
        {"NEXT REBUILD", .own = status_next_cell},
        {"JOB", .own = status_job_cell},
        {.title = NULL},
    };
    bool narrow = cli->terminal && output_columns() < WIDE_COLUMNS;
    SCOPED(table_fini) struct table t = {.bar = !cli->terminal ? 0 : narrow ? BAR_NARROW : BAR_WIDE};
    if (filters->elements == 0) {
        (void)puts("There are no filters yet.");
        return;
    }
    sheet_rows(&t, columns, narrow ? NARROW : WIDE, filters);
    table_print(&t, stdout, cli->color);
}

int cli_status_all(struct cli *cli)
{
    return sheet_show(cli, "TB.STATUS", "filter", print_filters, NULL);
}
