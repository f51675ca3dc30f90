/* SPDX-License-Identifier: MIT */
/* What TB.PLAN and a dry run say, for people: a sheet, the nodes, the steps. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/cli_sheet.h"

static const struct sheet_row plan_rows[] = {
    {"Plan", NULL, HEADING},
    {"filter", "filter", WORD},
    {"reason", "reason", WORD},
    {"rows in the source", "rows", COUNT},
    {"keys now", "keys", COUNT},
    {"capacity", "capacity", COUNT},
    {"false positives allowed", "error_rate", RATE},
    {"shards", "shards", COUNT},
    {"blocks per shard", "blocks", COUNT},
    {"bits per block", "block_bits", COUNT},
    {"bits set per key", "hashes", COUNT},
    {"size", "size_bytes", BYTES},
    {"partitions of the build", "partitions", COUNT},
    {"rows read per second", "rows_per_second", COUNT},
    {"this rate is known", "rows_per_second_by", WORD},
    {"time, at least", "duration_seconds", SECONDS},
    {"Redis memory", NULL, HEADING},
    {"now", "memory_now_bytes", BYTES},
    {"new generation", "memory_new_bytes", BYTES},
    {"at the peak", "memory_peak_bytes", BYTES},
    {"afterwards", "memory_after_bytes", BYTES},
    {"nodes", "nodes", WORD},
    {"fits", "fits", FLAG},
    {"warning", "warning", WORD},
    {"refused", "refused", WORD},
};

static void node_cells(struct table *t, const redisReply *node)
{
    char text[128] = "", shown[NUMBER_GROUPED_SIZE] = "";
    uint64_t limit = 0, used = 0, shards = 0;
    (void)client_text(node, "node", text, sizeof(text));
    sheet_word_cell(t, COLOR_NONE, text);
    table_cell(t, COLOR_NONE, client_count(node, "shards", &shards) ? number_grouped(shards, shown) : "");
    sheet_bytes_cell(t, node, "before_bytes");
    sheet_bytes_cell(t, node, "during_bytes");
    sheet_bytes_cell(t, node, "after_bytes");
    sheet_bytes_cell(t, node, "used_bytes");
    bool known = client_count(node, "used_during_bytes", &used) && client_count(node, "limit_bytes", &limit);
    (void)output_bytes(used, text);
    table_cell(t, known && limit != 0 && used > limit ? COLOR_BAD : COLOR_NONE, known ? text : "");
    bool told = client_count(node, "maxmemory_bytes", &limit);
    if (told && limit != 0)
        table_cell(t, COLOR_NONE, output_bytes(limit, text));
    else
        table_cell(t, COLOR_QUIET, told ? "none" : "unknown");
}

/* What the filter has on each node before, during and after the rebuild; what all has there now and then. */
static void print_nodes(const struct cli *cli, const redisReply *nodes)
{
    static const struct table_column columns[] = {{"NODE", false},     {"SHARDS", true},   {"BEFORE", true},
                                                  {"DURING", true},    {"AFTER", true},    {"USED NOW", true},
                                                  {"USED THEN", true}, {"MAXMEMORY", true}};
    struct table t;
    table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < nodes->elements; i++)
        node_cells(&t, nodes->element[i]);
    (void)putchar('\n');
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}

void cli_print_plan(const struct cli *cli, const redisReply *plan)
{
    sheet_print(cli, plan_rows, sizeof(plan_rows) / sizeof(plan_rows[0]), plan);
    const redisReply *nodes = client_field(plan, "per_node");
    if (nodes != NULL && nodes->type == REDIS_REPLY_ARRAY && nodes->elements > 0)
        print_nodes(cli, nodes);
}

/* --- the steps of a dry run --- */

static void step_cells(struct table *t, const redisReply *step)
{
    char text[256] = "", shown[OUTPUT_TEXT_SIZE] = "";
    double seconds;
    uint64_t rows;
    (void)client_text(step, "step", text, sizeof(text));
    sheet_word_cell(t, COLOR_NONE, text);
    table_cell(t, COLOR_NONE, client_count(step, "rows", &rows) ? number_grouped(rows, text) : "");
    table_cell(t, COLOR_NONE,
               client_decimal(step, "duration_seconds", &seconds) ? sheet_seconds(seconds, shown) : "");
    sheet_bytes_cell(t, step, "memory_before_bytes");
    sheet_bytes_cell(t, step, "memory_peak_bytes");
    sheet_bytes_cell(t, step, "memory_after_bytes");
    text[0] = '\0';
    (void)client_text(step, "what", text, sizeof(text));
    sheet_word_cell(t, COLOR_QUIET, text);
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
