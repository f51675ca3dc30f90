/* SPDX-License-Identifier: MIT */
/* plan: prints TB.PLAN and dry runs for people: a sheet, the nodes, the steps. plan --keys: estimates a
 * filter without a service; the result gets the form of a reply, so that the same code prints it. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "expansion/decide/estimate.h"
#include "service/cli/common/cli_sheet.h"
#include "service/cli/operate/cli_operate.h"

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

/* Print what the filter occupies on each node before, during and after the rebuild, and each node's total now
 * and then. */
static void print_nodes(const struct cli *cli, const redisReply *nodes)
{
    static const struct sheet_column columns[] = {
        {"NODE", .own = node_cells},  {"SHARDS", .right = true},    {"BEFORE", .right = true},
        {"DURING", .right = true},    {"AFTER", .right = true},     {"USED NOW", .right = true},
        {"USED THEN", .right = true}, {"MAXMEMORY", .right = true}, {.title = NULL}};
    (void)putchar('\n');
    sheet_table(cli, columns, 0, nodes, NULL);
}

void cli_print_plan(const struct cli *cli, const redisReply *plan)
{
    sheet_print(cli, "plan", plan);
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
    static const struct sheet_column columns[] = {
        {"STEP", .own = step_cells},    {"ROWS", .right = true},
        {"TIME", .right = true},        {"REDIS BEFORE", .right = true},
        {"AT ITS PEAK", .right = true}, {"AFTERWARDS", .right = true},
        {"WHAT", .right = false},       {.title = NULL}};
    const redisReply *steps = client_field(plan, "steps");
    if (steps == NULL || steps->type != REDIS_REPLY_ARRAY)
        return;
    (void)putchar('\n');
    sheet_table(cli, columns, 0, steps, NULL);
    (void)puts("\nNothing was started.");
}

/* --- plan --keys --- */

enum { NODES_MAX = 10000 };

/* --- the reply --- */

/* A flat list of names and values in RESP. */
struct list {
    struct buffer items;
    size_t count;
};

static void put_text(struct list *l, const char *name, const char *value)
{
    buffer_printf(&l->items, "$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(name), name, strlen(value), value);
    l->count += 2;
}

static void put_number(struct list *l, const char *name, uint64_t value)
{
    buffer_printf(&l->items, "$%zu\r\n%s\r\n:%llu\r\n", strlen(name), name, (unsigned long long)value);
    l->count += 2;
}

static void put_decimal(struct list *l, const char *name, double value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.6g", value);
    put_text(l, name, text);
}

/* NULL: no memory. */
static redisReply *list_reply(struct list *l)
{
    struct buffer all = {0};
    void *reply = NULL;
    buffer_printf(&all, "*%zu\r\n", l->count);
    buffer_append(&all, l->items.data, l->items.length);
    redisReader *reader = buffer_failed(&all) || buffer_failed(&l->items) ? NULL : redisReaderCreate();
    if (reader != NULL && redisReaderFeed(reader, all.data, all.length) == REDIS_OK)
        (void)redisReaderGetReply(reader, &reply);
    if (reader != NULL)
        redisReaderFree(reader);
    buffer_fini(&all);
    return reply;
}

static void put_filter(struct list *l, const struct estimate_input *in, const struct estimate *est)
{
    const struct geometry *g = &est->geometry;
    put_number(l, "keys", in->keys);
    put_decimal(l, "error_rate", in->error_rate);
    put_number(l, "shards", g->shards);
    put_number(l, "blocks", g->blocks);
    put_number(l, "block_bits", g->block_bits);
    put_number(l, "hashes", g->hashes);
    put_number(l, "shard_bytes", geometry_shard_bytes(g));
    put_number(l, "shard_memory_bytes", est->shard_memory);
    put_number(l, "size_bytes", geometry_bytes(g));
    put_decimal(l, "bits_per_key", 8 * (double)geometry_bytes(g) / (double)in->keys);
    put_number(l, "memory_bytes", est->memory);
}

static void put_rebuild(struct list *l, const struct estimate_input *in, const struct estimate *est,
                        bool assumed)
{
    put_number(l, "next_capacity", est->next_keys);
    put_number(l, "next_shards", est->next.shards);
    put_number(l, "next_memory_bytes", est->next_memory);
    if (in->build_memory != 0)
        put_number(l, "partitions", est->partitions);
    if (est->spilled != 0) {
        put_number(l, "spilled_bytes", est->spilled);
        put_number(l, "spill_peak_bytes", est->spill_peak);
    }
    put_number(l, "rows_per_second", (uint64_t)(in->scan_rate * in->readers));
    put_text(l, "rows_per_second_by", assumed ? "assumed; see --scan-rate" : "given");
    put_decimal(l, "create_seconds", est->create_s);
    put_decimal(l, "scan_seconds", est->scan_s);
    put_decimal(l, "upload_seconds", est->upload_s);
    put_decimal(l, "sweep_seconds", est->sweep_s);
    put_decimal(l, "rebuild_seconds", est->rebuild_s);
}

static void put_nodes(struct list *l, const struct estimate_input *in, const struct estimate *est)
{
    if (in->node_memory != 0) {
        put_number(l, "node_memory_bytes", in->node_memory);
        put_number(l, "node_room_bytes", est->node_room);
    }
    if (est->nodes_needed != 0)
        put_number(l, "nodes_needed", est->nodes_needed);
    put_number(l, "node_count", est->nodes);
    put_number(l, "node_shards", est->node_shards);
    put_number(l, "node_before_bytes", est->before);
    put_number(l, "node_during_bytes", est->during);
    put_number(l, "node_after_bytes", est->after);
}

static int show(const struct cli *cli, struct list *l)
{
    redisReply *reply = list_reply(l);
    if (reply == NULL)
        return cli_fail_with(ERR_NOMEM, "out of memory");
    if (cli->json)
        cli_print_json(reply, "estimate");
    else
        sheet_print(cli, "estimate", reply);
    freeReplyObject(reply);
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
    struct list l = {.count = 0};
    if (o->keys == 0 || cli->error_rate == NULL)
        return cli_fail(CLI_USAGE,
                        "a plan needs FILTER, or --keys and --error-rate; see twinbloom help plan");
    if (cli->capacity != 0)
        return cli_fail(CLI_USAGE, "--capacity is for a plan of FILTER; here --keys says it");
    if (cli->nodes != NULL && !parse_nodes(cli->nodes, &in.nodes))
        return cli_fail(CLI_USAGE, "--nodes %s: with --keys it is how many there are, 1 to %d", cli->nodes,
                        NODES_MAX);
    (void)number_double(cli->error_rate, strlen(cli->error_rate), &in.error_rate);
    if (estimate_make(&est, &in, &e) != ERR_OK)
        return cli_fail(CLI_NO, "no plan is possible: %s", e.text);
    enum err fits = estimate_fits(&est, &in, &e);
    put_filter(&l, &in, &est);
    put_rebuild(&l, &in, &est, o->scan_rate == 0);
    put_nodes(&l, &in, &est);
    if (fits != ERR_OK || in.node_memory != 0)
        put_number(&l, "fits", fits == ERR_OK);
    if (fits != ERR_OK)
        put_text(&l, "refused", e.text);
    int code = show(cli, &l);
    buffer_fini(&l.items);
    return code != CLI_OK ? code : fits == ERR_OK ? CLI_OK : CLI_NO;
}
