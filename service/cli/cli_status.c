/* SPDX-License-Identifier: MIT */
/* What TB.STATUS says, for people: a table of filters, the sheet of one. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/cli/cli_sheet.h"
#include "service/cli/cli_status.h"

static const struct sheet_row status_rows[] = {
    {"Filter", NULL, HEADING},
    {"name", "filter", WORD},
    {"state", "state", COLORED},
    {"phase", "phase", WORD},
    {"degraded", "degraded", FLAG},
    {"lost shards", "lost_shards", COUNT},
    {"affected", "degraded_scope", WARNING},
    {"degraded since", "degraded_at", TIME},
    {"healthy since", "healthy_at", TIME},
    {"problem", "problem", WARNING},
    {"not built because", "next_attempt_reason", WARNING},
    {"next attempt", "next_attempt_at", TIME},
    {"epoch", "epoch", COUNT},
    {"deleted at", "expires_at", TIME},
    {"Next rebuild", NULL, HEADING},
    {"expected", "rebuild_expected_at", TIME},
    {"expected by", "rebuild_expected_by", WORD},
    {"starts at fill", "expand_at_ratio", PERCENT},
    {"starts at dead keys", "expand_at_dead_ratio", PERCENT},
    {"schedule", "schedule", WORD},
    {"next run", "schedule_next_at", TIME},
    {"window", "window", WORD},
    {"window opens", "window_opens_at", TIME},
    {"waits, because", "waiting_reason", WORD},
    {"Generation", NULL, HEADING},
    {"number", "generation", COUNT},
    {"index", "current_index", COUNT},
    {"built", "built", FLAG},
    {"keys", "keys", COUNT},
    {"capacity", "capacity", COUNT},
    {"fill", "fill_ratio", FILL},
    {"false positives now", "expected_error_rate", RATE},
    {"false positives allowed", "error_rate", RATE},
    {"allowed, all layers full", "error_rate_bound", RATE},
    {"grown by layers", "has_layers", FLAG},
    {"expansion", "expansion", COUNT},
    {"layers", "layers", COUNT},
    {"shards", "shards", COUNT},
    {"memory in Redis", "memory_bytes", BYTES},
    {"nodes", "nodes", WORD},
    {"Other generation", NULL, HEADING},
    {"number", "alternate_generation", COUNT},
    {"keys", "alternate_keys", COUNT},
    {"capacity", "alternate_capacity", COUNT},
    {"nodes", "alternate_nodes", WORD},
    {"Log", NULL, HEADING},
    {"state", "log_state", COLORED},
    {"error", "log_error", WARNING},
    {"answers from generation", "serving_generation", COUNT},
    {"resident shards", "resident_shards", COUNT},
    {"loading shards", "loading_shards", COUNT},
    {"dirty shards", "dirty_shards", COUNT},
    {"resident", "resident_bytes", BYTES},
    {"loading", "loading_bytes", BYTES},
    {"dirty", "dirty_bytes", BYTES},
    {"beside the shards", "resident_overhead_bytes", BYTES},
    {"resident, other generation", "alternate_resident_shards", COUNT},
    {"loading, other generation", "alternate_loading_shards", COUNT},
    {"memory, other generation", "alternate_resident_bytes", BYTES},
    {"lanes", "lanes", COUNT},
    {"lane state", "lane_state", WARNING},
    {"lanes in Redis", "lane_bytes", BYTES},
    {"writers", "writers", COUNT},
    {"entries to be folded", "fold_lag_entries", COUNT},
    {"bytes to be folded", "fold_lag_bytes", BYTES},
    {"folder", "folder", WORD},
    {"folds", "folds", COUNT},
    {"folded at", "folded_at", TIME},
    {"fold error", "fold_error", WARNING},
    {"Source", NULL, HEADING},
    {"table", "table", WORD},
    {"rows", "source_rows", COUNT},
    {"counted by", "source_rows_by", WORD},
    {"counted at", "source_rows_at", TIME},
    {"dead keys", "dead_keys", COUNT},
    {"share of dead keys", "dead_ratio", PERCENT},
    {"dead keys when built", "job_dead_keys_at_build", COUNT},
    {"followed by", "follow_owner", WORD},
    {"follower", "follow_state", COLORED},
    {"follows by", "follow_mode", WORD},
    {"follower error", "follow_error", WARNING},
    {"lag", "follow_lag_ms", MS_SPAN},
    {"rows followed", "follow_rows", COUNT},
    {"Verification", NULL, HEADING},
    {"last verification", "verification", COLORED},
    {"verified at", "verified_at", TIME},
    {"keys looked up", "job_verified_keys", COUNT},
    {"method", "job_verify_mode", WORD},
    {"keys missing and added", "job_verify_added", COUNT},
    {"keys missing", "job_verify_missing", COUNT},
    {"missing keys", "job_verify_missing_keys", WORD},
    {"because", "job_verify_reason", WORD},
    {"keys then", "job_verify_keys", COUNT},
    {"rows then", "job_verify_rows", COUNT},
    {"false positives measured", "job_false_positive_rate", RATE},
    {"Job", NULL, HEADING},
    {"state", "job_state", COLORED},
    {"step", "job_step", WORD},
    {"reason", "job_reason", WORD},
    {"error", "job_error", WARNING},
    {"waits for", "job_waiting_for", WORD},
    {"slowed by", "job_throttle_reason", WORD},
    {"holds before cutover", "job_hold", FLAG},
    {"paused", "job_paused", FLAG},
    {"rows", "job_rows", COUNT},
    {"rows in total", "job_rows_total", COUNT},
    {"rows per second", "job_rows_per_second", COUNT},
    {"limit, rows per second", "job_rows_per_second_limit", COUNT},
    {"time left", "job_eta_seconds", SECONDS},
    {"partitions", "job_partitions", COUNT},
    {"could not grow", "job_growth_refused", WARNING},
    {"skipped, key is NULL", "job_skipped_null", COUNT},
    {"skipped, key is empty", "job_skipped_empty", COUNT},
    {"started", "job_started_at", TIME},
    {"updated", "job_updated_at", TIME},
    {"rollback until", "job_grace_ends_at", TIME},
    {"finished", "job_finished_at", TIME},
    {"owner", "job_owner", WORD},
    {"token", "job_token", WORD},
    {"mutex owner", "mutex_owner", WORD},
    {"mutex expires in", "mutex_ttl_ms", MS_SPAN},
    {"Servers", NULL, HEADING},
    {"Redis", "redis", WORD},
    {"Postgres", "postgres", WORD},
    {"masters", "masters", WORD},
    {"nodes down", "nodes_down", WARNING},
};

void cli_print_sheet(const struct cli *cli, const redisReply *filter)
{
    sheet_print(cli, status_rows, sizeof(status_rows) / sizeof(status_rows[0]), filter);
}

/* --- the table --- */

void status_fill_cell(const struct cli *cli, struct table *t, const redisReply *filter, unsigned width)
{
    char bar[OUTPUT_TEXT_SIZE] = "", percent[OUTPUT_TEXT_SIZE], text[2 * OUTPUT_TEXT_SIZE + 1] = "-";
    double fill;
    double limit = 1;
    enum output_color color = COLOR_QUIET;
    if (client_decimal(filter, "fill_ratio", &fill)) {
        if (cli->terminal)
            (void)output_bar(fill, width, bar);
        (void)snprintf(text, sizeof(text), cli->terminal ? "%s %4s" : "%s%s", bar,
                       output_percent(fill, percent));
        (void)client_decimal(filter, "expand_at_ratio", &limit);
        color = fill >= 1 ? COLOR_BAD : limit > 0 && fill >= limit ? COLOR_WARN : COLOR_NONE;
    }
    table_cell(t, color, text);
}

/* "0.016% of 0.1%"; far below the promise it does not matter how far: "<0.0001% of 0.1%". */
void status_rates_cell(struct table *t, const redisReply *filter)
{
    char now[OUTPUT_TEXT_SIZE], promised[OUTPUT_TEXT_SIZE], text[2 * OUTPUT_TEXT_SIZE + 8] = "-";
    double rate, limit;
    bool known =
        client_decimal(filter, "expected_error_rate", &rate) && client_decimal(filter, "error_rate", &limit);
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
    (void)client_text(filter, "job_state", state, sizeof(state));
    if (strcmp(state, "none") == 0) {
        table_cell(t, COLOR_QUIET, "-");
        return;
    }
    bool runs = strcmp(state, "running") == 0 && client_text(filter, "job_step", step, sizeof(step));
    if (runs && cli_job_holds(filter)) {
        table_cell(t, COLOR_GOOD, "ready to switch");
        return;
    }
    if (runs && strcmp(step, "scan") == 0 && client_count(filter, "job_rows", &rows) &&
        client_count(filter, "job_rows_total", &total) && total != 0)
        (void)output_percent((double)rows / (double)total, percent);
    uint64_t paused = 0;
    (void)client_count(filter, "job_paused", &paused);
    (void)snprintf(text, sizeof(text), "%s%s%s%s", runs ? step : state, percent[0] == '\0' ? "" : " ",
                   percent, runs && paused == 1 ? ", paused" : "");
    sheet_word_cell(t, sheet_color(state), text);
}

/* Whether answers can be relied on, in a word. */
void status_health_cell(struct table *t, const redisReply *filter)
{
    uint64_t lost = 0;
    (void)client_count(filter, "lost_shards", &lost);
    if (client_is(filter, "state", "unreachable"))
        table_cell(t, COLOR_BAD, "unreachable");
    else if (lost > 0)
        table_cell(t, COLOR_BAD, "lost");
    else if (client_is(filter, "state", "degraded") || client_is(filter, "degraded", "1"))
        table_cell(t, COLOR_BAD, "degraded");
    else if (!client_is(filter, "state", "serving"))
        sheet_text_cell(t, filter, "state");
    else if (client_is(filter, "verification", "failed"))
        table_cell(t, COLOR_WARN, "keys missed");
    else
        table_cell(t, COLOR_GOOD, "healthy");
}

void status_next_cell(struct table *t, const redisReply *filter)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t at_ms;
    bool known =
        (client_is(filter, "state", "not built") && client_time(filter, "next_attempt_at", &at_ms)) ||
        client_time(filter, "rebuild_expected_at", &at_ms);
    if (known)
        (void)output_when(at_ms / 1000, clock_wall_us() / 1000000, text);
    table_cell(t, known ? COLOR_NONE : COLOR_QUIET, text);
}

/* "196.0K/280.0K" */
void status_short_counts_cell(struct table *t, const redisReply *filter)
{
    char items[OUTPUT_TEXT_SIZE] = "-", capacity[OUTPUT_TEXT_SIZE] = "-", text[2 * OUTPUT_TEXT_SIZE + 1];
    uint64_t n;
    if (client_count(filter, "keys", &n))
        (void)output_count(n, items);
    if (client_count(filter, "capacity", &n))
        (void)output_count(n, capacity);
    (void)snprintf(text, sizeof(text), "%s/%s", items, capacity);
    table_cell(t, COLOR_NONE, text);
}

static void name_cell(struct table *t, const redisReply *filter)
{
    char name[512] = "-";
    (void)client_text(filter, "filter", name, sizeof(name));
    sheet_word_cell(t, COLOR_NONE, name);
}

enum { WIDE = 116, BAR_WIDE = 12, BAR_NARROW = 6 };

static void row_cells(const struct cli *cli, struct table *t, const redisReply *filter, bool narrow)
{
    name_cell(t, filter);
    if (narrow) {
        status_short_counts_cell(t, filter);
    } else {
        sheet_count_cell(t, filter, "keys");
        sheet_count_cell(t, filter, "capacity");
    }
    status_fill_cell(cli, t, filter, narrow ? BAR_NARROW : BAR_WIDE);
    status_rates_cell(t, filter);
    sheet_count_cell(t, filter, "generation");
    if (!narrow)
        sheet_text_cell(t, filter, "phase");
    status_health_cell(t, filter);
    status_next_cell(t, filter);
    status_job_cell(t, filter);
}

void cli_print_table(const struct cli *cli, const redisReply *filters)
{
    static const struct table_column wide[] = {
        {"FILTER", false}, {"KEYS", true},   {"CAPACITY", true}, {"FILL", true},          {"FP RATE", true},
        {"GEN", true},     {"PHASE", false}, {"HEALTH", false},  {"NEXT REBUILD", false}, {"JOB", false}};
    static const struct table_column narrow[] = {
        {"FILTER", false}, {"KEYS/CAPACITY", true}, {"FILL", true},          {"FP RATE", true},
        {"GEN", true},     {"HEALTH", false},       {"NEXT REBUILD", false}, {"JOB", false}};
    if (filters->elements == 0) {
        (void)puts("There are no filters yet.");
        return;
    }
    struct table t;
    bool is_narrow = cli->terminal && output_columns() < WIDE;
    if (is_narrow)
        table_init(&t, narrow, sizeof(narrow) / sizeof(narrow[0]));
    else
        table_init(&t, wide, sizeof(wide) / sizeof(wide[0]));
    for (size_t i = 0; i < filters->elements; i++)
        row_cells(cli, &t, filters->element[i], is_narrow);
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}
