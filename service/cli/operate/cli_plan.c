/* SPDX-License-Identifier: MIT */
/* plan: prints TB.PLAN and dry runs for people: a sheet, the nodes, the steps. plan --keys: estimates a
 * filter without a service; the result gets the form of a reply, so that the same code prints it. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "expansion/decide/estimate.h"
#include "service/cli/common/cli_sheet.h"
#include "service/cli/operate/cli_operate.h"
#include "service/protocol/field.h"

static void node_cells(struct table *t, const redisReply *node)
{
    char text[128] = "", shown[NUMBER_GROUPED_SIZE] = "";
    uint64_t limit = 0, used = 0, shards = 0;
    (void)list_text(node, "node", text, sizeof(text));
    sheet_word_cell(t, COLOR_NONE, text);
    table_cell(t, COLOR_NONE, list_count(node, "shards", &shards) ? number_grouped(shards, shown) : "");
    sheet_bytes_cell(t, node, "before_bytes");
    sheet_bytes_cell(t, node, "during_bytes");
    sheet_bytes_cell(t, node, "after_bytes");
    sheet_bytes_cell(t, node, "used_bytes");
    bool known = list_count(node, "used_during_bytes", &used) && list_count(node, "limit_bytes", &limit);
    (void)output_bytes(used, text);
    table_cell(t, known && limit != 0 && used > limit ? COLOR_BAD : COLOR_NONE, known ? text : "");
    bool told = list_count(node, "maxmemory_bytes", &limit);
    if (told && limit != 0)
        table_cell(t, COLOR_NONE, output_bytes(limit, text));
    else
        table_cell(t, COLOR_QUIET, told ? "none" : "unknown");
}

void cli_print_plan(const struct cli *cli, const redisReply *plan)
{
    /* What the filter occupies on each node before, during and after the rebuild, and each node's total now
     * and then. */
    static const struct sheet_column columns[] = {
        {"NODE", .own = node_cells},  {"SHARDS", .right = true},    {"BEFORE", .right = true},
        {"DURING", .right = true},    {"AFTER", .right = true},     {"USED NOW", .right = true},
        {"USED THEN", .right = true}, {"MAXMEMORY", .right = true}, {.title = NULL}};
    sheet_print(cli, "plan", plan);
    const redisReply *nodes = list_field(plan, "per_node");
    if (nodes == NULL || nodes->type != REDIS_REPLY_ARRAY || nodes->elements == 0)
        return;
    (void)putchar('\n');
    sheet_table(cli, columns, 0, nodes, NULL);
}

/* --- the steps of a dry run --- */

static void step_cells(struct table *t, const redisReply *step)
{
    char text[256] = "", shown[OUTPUT_TEXT_SIZE] = "";
    double seconds;
    uint64_t rows;
    (void)list_text(step, "step", text, sizeof(text));
    sheet_word_cell(t, COLOR_NONE, text);
    table_cell(t, COLOR_NONE, list_count(step, "rows", &rows) ? number_grouped(rows, text) : "");
    table_cell(t, COLOR_NONE,
               list_decimal(step, "duration_seconds", &seconds) ? sheet_seconds(seconds, shown) : "");
    sheet_bytes_cell(t, step, "memory_before_bytes");
    sheet_bytes_cell(t, step, "memory_peak_bytes");
    sheet_bytes_cell(t, step, "memory_after_bytes");
    text[0] = '\0';
    (void)list_text(step, "what", text, sizeof(text));
    sheet_word_cell(t, COLOR_QUIET, text);
}

void cli_print_steps(const struct cli *cli, const redisReply *plan)
{
    static const struct sheet_column columns[] = {
        {"STEP", .own = step_cells},    {"ROWS", .right = true},
        {"TIME", .right = true},        {"REDIS BEFORE", .right = true},
        {"AT ITS PEAK", .right = true}, {"AFTERWARDS", .right = true},
        {"WHAT", .right = false},       {.title = NULL}};
    const redisReply *steps = list_field(plan, "steps");
    if (steps == NULL || steps->type != REDIS_REPLY_ARRAY)
        return;
    (void)putchar('\n');
    sheet_table(cli, columns, 0, steps, NULL);
    (void)puts("\nNothing was started.");
}

/* --- plan --keys --- */

enum { NODES_MAX = 10000 };

static void put_filter(struct fields *f, const struct estimate_input *in, const struct estimate *est)
{
    const struct geometry *g = &est->geometry;
    field_number(f, "keys", in->keys);
    field_decimal(f, "error_rate", in->error_rate);
    field_number(f, "shards", g->shards);
    field_number(f, "blocks", g->blocks);
    field_number(f, "block_bits", g->block_bits);
    field_number(f, "hashes", g->hashes);
    field_number(f, "shard_bytes", geometry_shard_bytes(g));
    field_number(f, "shard_memory_bytes", est->shard_memory);
    field_number(f, "size_bytes", geometry_bytes(g));
    field_decimal(f, "bits_per_key", 8 * (double)geometry_bytes(g) / (double)in->keys);
    field_number(f, "memory_bytes", est->memory);
}

static void put_rebuild(struct fields *f, const struct estimate_input *in, const struct estimate *est,
                        bool assumed)
{
    field_number(f, "next_capacity", est->next_keys);
    field_number(f, "next_shards", est->next.shards);
    field_number(f, "next_memory_bytes", est->next_memory);
    if (in->build_memory != 0)
        field_number(f, "partitions", est->partitions);
    if (est->spilled != 0) {
        field_number(f, "spilled_bytes", est->spilled);
        field_number(f, "spill_peak_bytes", est->spill_peak);
    }
    field_number(f, "rows_per_second", (uint64_t)(in->scan_rate * in->readers));
    field_text(f, "rows_per_second_by", assumed ? "assumed; see --scan-rate" : "given");
    field_decimal(f, "create_seconds", est->create_s);
    field_decimal(f, "scan_seconds", est->scan_s);
    field_decimal(f, "upload_seconds", est->upload_s);
    field_decimal(f, "sweep_seconds", est->sweep_s);
    field_decimal(f, "rebuild_seconds", est->rebuild_s);
}

static void put_nodes(struct fields *f, const struct estimate_input *in, const struct estimate *est)
{
    if (in->node_memory != 0) {
        field_number(f, "node_memory_bytes", in->node_memory);
        field_number(f, "node_room_bytes", est->node_room);
    }
    if (est->nodes_needed != 0)
        field_number(f, "nodes_needed", est->nodes_needed);
    field_number(f, "node_count", est->nodes);
    field_number(f, "node_shards", est->node_shards);
    field_number(f, "node_before_bytes", est->before);
    field_number(f, "node_during_bytes", est->during);
    field_number(f, "node_after_bytes", est->after);
}

static int show(const struct cli *cli, struct fields *f)
{
    SCOPED(buffer_fini) struct buffer bytes = {0};
    struct reply r = {.out = &bytes, .protocol = 2};
    fields_end(f, &r);
    SCOPED(scope_reply) redisReply *reply = list_parse(&bytes);
    if (reply == NULL)
        return cli_fail_with(ERR_NOMEM, "out of memory");
    if (cli->json)
        cli_print_json(reply, "estimate");
    else
        sheet_print(cli, "estimate", reply);
    return CLI_OK;
}

/* For an existing filter, --nodes is a list of nodes. */
static bool parse_nodes(const char *text, unsigned *out)
{
    uint64_t n;
    if (!output_parse_count(text, &n) || n > NODES_MAX)
        return false;
    *out = (unsigned)n;
    return n > 0;
}

int cli_estimate(struct cli *cli)
{
    const struct cli_estimate *o = &cli->estimate;
    struct estimate_input in = {.keys = o->keys,
                                .growth = o->growth > 0 ? o->growth : 1,
                                .shard_bytes = SHARD_BYTES_DEFAULT,
                                .node_memory = o->node_memory,
                                .scan_rate = o->scan_rate != 0 ? (double)o->scan_rate : ESTIMATE_SCAN_RATE,
                                .readers = o->readers != 0 ? (unsigned)o->readers : 1,
                                .build_memory = o->build_memory,
                                .spill_bytes = UINT64_C(64) << 30};
    struct estimate est;
    struct error e = {""};
    struct fields f;
    const char *rate =
        cli->error_rate != NULL ? cli->error_rate : "0.001"; /* of a [filter NAME] without error_rate */
    if (o->keys == 0)
        return cli_fail(CLI_USAGE, "a plan needs FILTER, or --keys; see twinbloom help plan");
    if (cli->capacity != 0)
        return cli_fail(CLI_USAGE, "--capacity is for a plan of FILTER; here --keys says it");
    if (cli->nodes != NULL && !parse_nodes(cli->nodes, &in.nodes))
        return cli_fail(CLI_USAGE, "--nodes %s: with --keys it is how many there are, 1 to %d", cli->nodes,
                        NODES_MAX);
    (void)number_double(rate, strlen(rate), &in.error_rate);
    if (estimate_make(&est, &in, &e) != ERR_OK)
        return cli_fail(CLI_NO, "no plan is possible: %s", e.text);
    enum err fits = estimate_fits(&est, &in, &e);
    fields_begin(&f, 2);
    put_filter(&f, &in, &est);
    put_rebuild(&f, &in, &est, o->scan_rate == 0);
    put_nodes(&f, &in, &est);
    if (fits != ERR_OK || in.node_memory != 0)
        field_number(&f, "fits", fits == ERR_OK);
    if (fits != ERR_OK)
        field_text(&f, "refused", e.text);
    int code = show(cli, &f);
    return code != CLI_OK ? code : fits == ERR_OK ? CLI_OK : CLI_NO;
}
