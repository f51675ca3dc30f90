/* SPDX-License-Identifier: MIT */
/* What TB.STATUS and TB.PLAN say, for people: a table of filters, sheets of named values. Fields that are
 * missing are left out; fields that are not known are shown by --json only. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli.h"

enum { BAR_WIDTH = 12 };

enum kind {
    HEADING,
    WORD,
    COUNT,
    BYTES,
    RATE,
    PERCENT,
    FILL,
    UNIX_TIME,
    MS_TIME,
    MS_SPAN,
    SPAN,
    SECONDS,
    FLAG,
    COLORED,
    WARNING
};

struct sheet_row {
    const char *label;
    const char *field;
    enum kind kind;
};

static const struct sheet_row status_rows[] = {
    {"Filter", NULL, HEADING},
    {"name", "filter", WORD},
    {"state", "state", COLORED},
    {"phase", "phase", WORD},
    {"degraded", "degraded", WORD},
    {"lost shards", "lost_shards", COUNT},
    {"epoch", "epoch", COUNT},
    {"fenced epoch", "fenced_epoch", COUNT},
    {"source", "table", WORD},
    {"expands at", "expand_at", PERCENT},
    {"rebuilds at dead keys", "expand_at_dead", PERCENT},
    {"schedule", "schedule", WORD},
    {"next run", "next_schedule", UNIX_TIME},
    {"window", "window", WORD},
    {"window opens", "window_opens", UNIX_TIME},
    {"waits for the window", "wanted", WORD},
    {"Generation", NULL, HEADING},
    {"number", "generation", COUNT},
    {"current index", "current_index", COUNT},
    {"built", "built", FLAG},
    {"items", "items", COUNT},
    {"capacity", "capacity", COUNT},
    {"fill", "fill", FILL},
    {"rows in the source", "source_rows", COUNT},
    {"known by", "source_rows_by", WORD},
    {"looked at", "source_rows_ms", MS_TIME},
    {"dead keys", "dead", COUNT},
    {"share of dead keys", "dead_ratio", PERCENT},
    {"dead keys when built", "job_dead_at_build", COUNT},
    {"error rate now", "expected_error_rate", RATE},
    {"error rate promised", "error_rate", RATE},
    {"error rate, layers full", "error_rate_bound", RATE},
    {"grown by layers", "overflow", WARNING},
    {"verified", "verified", COLORED},
    {"verified at", "verified_ms", MS_TIME},
    {"expansion", "expansion", COUNT},
    {"layers", "layers", COUNT},
    {"shards", "shards", COUNT},
    {"size", "bytes", BYTES},
    {"alternate generation", "alternate_generation", COUNT},
    {"alternate items", "alternate_items", COUNT},
    {"alternate capacity", "alternate_capacity", COUNT},
    {"Job", NULL, HEADING},
    {"state", "job_state", COLORED},
    {"step", "job_step", WORD},
    {"reason", "job_reason", WORD},
    {"error", "job_error", WORD},
    {"waits for", "job_waiting_for", WORD},
    {"holds before the cutover", "job_hold", FLAG},
    {"paused", "job_paused", FLAG},
    {"rows", "job_rows", COUNT},
    {"rows in all", "job_rows_total", COUNT},
    {"rows a second", "job_rate", COUNT},
    {"at most, rows a second", "job_rows_per_second", COUNT},
    {"time left", "job_eta_seconds", SPAN},
    {"pass", "job_pass", COUNT},
    {"partitions", "job_partitions", COUNT},
    {"no further layer", "job_growth_refused", WARNING},
    {"skipped, null", "job_skipped_null", COUNT},
    {"skipped, empty", "job_skipped_empty", COUNT},
    {"keys verified", "job_verified", COUNT},
    {"verified by", "job_verify_mode", WORD},
    {"keys missing", "job_verify_missing", COUNT},
    {"missing", "job_verify_missing_keys", WORD},
    {"because", "job_verify_reason", WORD},
    {"items when verified", "job_verify_items", COUNT},
    {"rows when verified", "job_verify_rows", COUNT},
    {"false positives", "job_false_positive_rate", RATE},
    {"started", "job_started_ms", MS_TIME},
    {"updated", "job_updated_ms", MS_TIME},
    {"finished", "job_finished_ms", MS_TIME},
    {"owner", "job_owner", WORD},
    {"token", "job_token", WORD},
    {"mutex held by", "mutex_owner", WORD},
    {"mutex expires in", "mutex_ttl_ms", MS_SPAN},
    {"Servers", NULL, HEADING},
    {"Redis", "redis", WORD},
    {"Postgres", "postgres", WORD},
    {"nodes", "nodes", WORD},
};

static const struct sheet_row plan_rows[] = {
    {"Plan", NULL, HEADING},
    {"filter", "filter", WORD},
    {"reason", "reason", WORD},
    {"rows in the source", "rows", COUNT},
    {"items now", "items", COUNT},
    {"capacity", "capacity", COUNT},
    {"error rate", "error_rate", RATE},
    {"shards", "shards", COUNT},
    {"blocks a shard", "blocks", COUNT},
    {"bits a block", "block_bits", COUNT},
    {"bits a key sets", "hashes", COUNT},
    {"size", "bytes", BYTES},
    {"partitions of the build", "partitions", COUNT},
    {"rows read a second", "rate", COUNT},
    {"that rate is known", "rate_by", WORD},
    {"time, at least", "seconds", SECONDS},
    {"Redis memory", NULL, HEADING},
    {"now", "memory_now", BYTES},
    {"for the new one", "memory_new", BYTES},
    {"at the peak", "memory_peak", BYTES},
    {"afterwards", "memory_after", BYTES},
    {"nodes", "nodes", WORD},
    {"fits", "fits", COLORED},
    {"warning", "warning", WORD},
    {"refused", "refused", WORD},
};

static enum output_color color_of(const char *state)
{
    static const struct {
        const char *state;
        enum output_color color;
    } colors[] = {{"serving", COLOR_GOOD},  {"done", COLOR_GOOD},    {"yes", COLOR_GOOD},
                  {"building", COLOR_WARN}, {"running", COLOR_WARN}, {"waiting", COLOR_WARN},
                  {"aborted", COLOR_WARN},  {"degraded", COLOR_BAD}, {"unreachable", COLOR_BAD},
                  {"failed", COLOR_BAD},    {"no", COLOR_BAD},       {"none", COLOR_QUIET},
                  {"stale", COLOR_WARN},    {"never", COLOR_QUIET}};
    for (size_t i = 0; i < sizeof(colors) / sizeof(colors[0]); i++)
        if (strcmp(colors[i].state, state) == 0)
            return colors[i].color;
    return COLOR_NONE;
}

/* A value of bytes from outside, as the next cell. */
static void word_cell(struct table *t, enum output_color color, const char *text)
{
    struct buffer b = {0};
    output_escape(&b, text, strlen(text));
    table_cell(t, color, buffer_text(&b));
    buffer_fini(&b);
}

static void format_fill(const struct cli *cli, double fill, char out[2 * OUTPUT_TEXT_SIZE])
{
    char bar[OUTPUT_TEXT_SIZE] = "";
    char percent[OUTPUT_TEXT_SIZE];
    if (cli->terminal)
        (void)output_bar(fill, BAR_WIDTH, bar);
    (void)snprintf(out, 2 * OUTPUT_TEXT_SIZE, "%s%s%s", bar, cli->terminal ? " " : "",
                   output_percent(fill, percent));
}

static bool format_count(enum kind kind, uint64_t n, char out[OUTPUT_TEXT_SIZE])
{
    switch (kind) {
    case COUNT:
        (void)number_grouped(n, out);
        return true;
    case BYTES:
        (void)output_bytes(n, out);
        return true;
    case UNIX_TIME:
    case MS_TIME:
        (void)output_time(kind == MS_TIME ? n / 1000 : n, out);
        return n != 0;
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
    case COLORED:
    case WARNING:
        break;
    }
    return false;
}

/* Seconds with fractions: "< 1s" where there is less than one. */
static const char *format_seconds(double seconds, char out[OUTPUT_TEXT_SIZE])
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
    return client_count(list, "sourced", &sourced) && sourced == 0;
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
    } usual[] = {{"overflow", "no"},          {"expand_at_dead", "0"}, {"job_dead_at_build", "0"},
                 {"job_hold", "0"},           {"job_paused", "0"},     {"job_verify_missing", "0"},
                 {"job_rows_per_second", "0"}};
    char text[8];
    if (is_unknown(list, field))
        return false;
    if (!client_text(list, field, text, sizeof(text)))
        return true;
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (strcmp(usual[i].field, field) == 0 && strcmp(usual[i].value, text) == 0)
            return true;
    return (strcmp(field, "error_rate_bound") == 0 && bound_is_quiet(list)) ||
           (strcmp(field, "verified") == 0 && never_verifiable(list));
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
    enum output_color color = row->kind == COLORED   ? color_of(text)
                              : row->kind == WARNING ? COLOR_WARN
                                                     : COLOR_NONE;
    (void)snprintf(label, sizeof(label), "  %s", row->label);
    bool numeric = row->kind != WORD && row->kind != COLORED && row->kind != WARNING;
    bool decimal = numeric && client_decimal(list, row->field, &d);
    if (decimal && row->kind == RATE)
        (void)output_rate(d, shown);
    else if (decimal && row->kind == SECONDS)
        (void)format_seconds(d, shown);
    else if (decimal && row->kind == PERCENT)
        (void)output_percent(d, shown);
    else if (decimal && row->kind == FILL)
        format_fill(cli, d, shown);
    else if (decimal && row->kind == COUNT && !client_count(list, row->field, &n) && d >= 0 && d < 1e18)
        (void)number_grouped((uint64_t)(d + 0.5), shown);
    else if (numeric && client_count(list, row->field, &n)) {
        if (!format_count(row->kind, n, shown))
            return;
    } else {
        table_cell(t, COLOR_QUIET, label);
        word_cell(t, color, text);
        return;
    }
    table_cell(t, COLOR_QUIET, label);
    table_cell(t, COLOR_NONE, shown);
}

static void print_rows(const struct cli *cli, const struct sheet_row *rows, size_t count,
                       const redisReply *list)
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

void cli_print_sheet(const struct cli *cli, const redisReply *filter)
{
    print_rows(cli, status_rows, sizeof(status_rows) / sizeof(status_rows[0]), filter);
}

void cli_print_plan(const struct cli *cli, const redisReply *plan)
{
    print_rows(cli, plan_rows, sizeof(plan_rows) / sizeof(plan_rows[0]), plan);
}

/* --- the steps of a dry run --- */

static void bytes_cell(struct table *t, const redisReply *step, const char *field)
{
    char text[OUTPUT_TEXT_SIZE] = "";
    uint64_t bytes;
    if (client_count(step, field, &bytes))
        (void)output_bytes(bytes, text);
    table_cell(t, COLOR_NONE, text);
}

static void step_cells(struct table *t, const redisReply *step)
{
    char text[256] = "", shown[OUTPUT_TEXT_SIZE] = "";
    double seconds;
    uint64_t rows;
    (void)client_text(step, "step", text, sizeof(text));
    word_cell(t, COLOR_NONE, text);
    table_cell(t, COLOR_NONE, client_count(step, "rows", &rows) ? number_grouped(rows, text) : "");
    table_cell(t, COLOR_NONE,
               client_decimal(step, "seconds", &seconds) ? format_seconds(seconds, shown) : "");
    bytes_cell(t, step, "memory_before");
    bytes_cell(t, step, "memory_peak");
    bytes_cell(t, step, "memory_after");
    text[0] = '\0';
    (void)client_text(step, "what", text, sizeof(text));
    word_cell(t, COLOR_QUIET, text);
}

void cli_print_steps(const struct cli *cli, const redisReply *plan)
{
    static const struct table_column columns[] = {
        {"STEP", false},       {"ROWS", true},       {"TIME", true}, {"REDIS BEFORE", true},
        {"AT ITS PEAK", true}, {"AFTERWARDS", true}, {"WHAT", false}};
    const redisReply *steps = client_field(plan, "steps");
    if (steps == NULL || steps->type != REDIS_REPLY_ARRAY)
        return;
    struct table t;
    table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < steps->elements; i++)
        step_cells(&t, steps->element[i]);
    (void)putchar('\n');
    table_print(&t, stdout, cli->color);
    table_fini(&t);
    (void)puts("\nNothing was started.");
}

/* --- the table --- */

static void text_cell(struct table *t, const redisReply *filter, const char *field)
{
    char text[256];
    bool there = client_text(filter, field, text, sizeof(text));
    word_cell(t, there ? color_of(text) : COLOR_QUIET, there ? text : "-");
}

static void count_cell(struct table *t, const redisReply *filter, const char *field)
{
    char text[NUMBER_GROUPED_SIZE];
    uint64_t n;
    bool there = client_count(filter, field, &n);
    table_cell(t, there ? COLOR_NONE : COLOR_QUIET, there ? number_grouped(n, text) : "-");
}

static void fill_cell(const struct cli *cli, struct table *t, const redisReply *filter)
{
    char text[2 * OUTPUT_TEXT_SIZE] = "-";
    double fill;
    double limit = 1;
    enum output_color color = COLOR_QUIET;
    if (client_decimal(filter, "fill", &fill)) {
        format_fill(cli, fill, text);
        (void)client_decimal(filter, "expand_at", &limit);
        color = fill >= 1 ? COLOR_BAD : fill >= limit ? COLOR_WARN : COLOR_NONE;
    }
    table_cell(t, color, text);
}

static void rates_cell(struct table *t, const redisReply *filter)
{
    char now[OUTPUT_TEXT_SIZE] = "-";
    char promised[OUTPUT_TEXT_SIZE] = "-";
    char text[2 * OUTPUT_TEXT_SIZE + 1];
    double rate = 0;
    double limit = 0;
    bool both = client_decimal(filter, "expected_error_rate", &rate);
    if (both)
        (void)output_rate(rate, now);
    if (client_decimal(filter, "error_rate", &limit))
        (void)output_rate(limit, promised);
    else
        both = false;
    (void)snprintf(text, sizeof(text), "%s/%s", now, promised);
    table_cell(t, both && rate > limit ? COLOR_WARN : COLOR_NONE, text);
}

/* "scan 48%", "waiting", "failed", or "-". */
static void job_cell(struct table *t, const redisReply *filter)
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
    if (runs && client_count(filter, "job_rows", &rows) && client_count(filter, "job_rows_total", &total) &&
        total != 0)
        (void)output_percent((double)rows / (double)total, percent);
    uint64_t paused = 0;
    (void)client_count(filter, "job_paused", &paused);
    (void)snprintf(text, sizeof(text), "%s%s%s%s", runs ? step : state, percent[0] == '\0' ? "" : " ",
                   percent, runs && paused == 1 ? ", paused" : "");
    word_cell(t, color_of(state), text);
}

void cli_print_table(const struct cli *cli, const redisReply *filters)
{
    static const struct table_column columns[] = {
        {"FILTER", false}, {"STATE", false},           {"PHASE", false}, {"ITEMS", true}, {"CAPACITY", true},
        {"FILL", true},    {"FPR now/promised", true}, {"GEN", true},    {"JOB", false}};
    if (filters->elements == 0) {
        (void)puts("There are no filters yet.");
        return;
    }
    struct table t;
    table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < filters->elements; i++) {
        const redisReply *filter = filters->element[i];
        char name[512] = "-";
        (void)client_text(filter, "filter", name, sizeof(name));
        word_cell(&t, COLOR_NONE, name);
        text_cell(&t, filter, "state");
        text_cell(&t, filter, "phase");
        count_cell(&t, filter, "items");
        count_cell(&t, filter, "capacity");
        fill_cell(cli, &t, filter);
        rates_cell(&t, filter);
        count_cell(&t, filter, "generation");
        job_cell(&t, filter);
    }
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}

/* --- the history --- */

static void took_cell(struct table *t, const redisReply *run)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t started, finished;
    if (client_count(run, "started_ms", &started) && client_count(run, "finished_ms", &finished) &&
        finished >= started)
        (void)output_duration((finished - started + 500) / 1000, text);
    table_cell(t, COLOR_NONE, text);
}

static void started_cell(struct table *t, const redisReply *run)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t started;
    if (client_count(run, "started_ms", &started))
        (void)output_time(started / 1000, text);
    table_cell(t, COLOR_NONE, text);
}

/* "4 -> 5"; of a run whose generation did not come into use "4". */
static void generations_cell(struct table *t, const redisReply *run)
{
    char outcome[16] = "", from[24] = "?", to[24] = "", text[64];
    bool done = client_text(run, "outcome", outcome, sizeof(outcome)) && strcmp(outcome, "done") == 0;
    (void)client_text(run, "generation_from", from, sizeof(from));
    bool used = done && client_text(run, "generation", to, sizeof(to));
    (void)snprintf(text, sizeof(text), "%s%s%s", from, used ? " -> " : "", used ? to : "");
    word_cell(t, COLOR_NONE, text);
}

static void why_cell(struct table *t, const redisReply *run)
{
    char reason[512] = "", error[1024] = "", text[1600];
    (void)client_text(run, "reason", reason, sizeof(reason));
    bool failed = client_text(run, "error", error, sizeof(error));
    (void)snprintf(text, sizeof(text), "%s%s%s", reason, failed ? ": " : "", error);
    word_cell(t, COLOR_NONE, text);
}

void cli_print_history(const struct cli *cli, const redisReply *runs)
{
    static const struct table_column columns[] = {{"STARTED", false}, {"TOOK", true}, {"OUTCOME", false},
                                                  {"TRIGGER", false}, {"ROWS", true}, {"GENERATION", false},
                                                  {"WHY", false}};
    if (runs->elements == 0) {
        (void)puts("There were no rebuilds yet.");
        return;
    }
    struct table t;
    table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < runs->elements; i++) {
        const redisReply *run = runs->element[i];
        started_cell(&t, run);
        took_cell(&t, run);
        text_cell(&t, run, "outcome");
        text_cell(&t, run, "trigger");
        count_cell(&t, run, "rows");
        generations_cell(&t, run);
        why_cell(&t, run);
    }
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}
