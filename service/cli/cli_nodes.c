/* SPDX-License-Identifier: MIT */
/* twinbloom nodes. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/cli_sheet.h"

static void version_cell(struct table *t, const redisReply *node)
{
    char server[16] = "", version[64] = "", text[96];
    bool known = client_text(node, "version", version, sizeof(version));
    (void)client_text(node, "server", server, sizeof(server));
    (void)snprintf(text, sizeof(text), "%s %s", strcmp(server, "valkey") == 0 ? "Valkey" : "Redis", version);
    sheet_word_cell(t, known ? COLOR_NONE : COLOR_QUIET, known ? text : "-");
}

/* Red from 95% of what Redis may use. */
static void memory_cells(struct table *t, const redisReply *node)
{
    char text[OUTPUT_TEXT_SIZE];
    uint64_t used = 0, limit = 0;
    bool known = client_count(node, "used_bytes", &used);
    bool told = client_count(node, "maxmemory_bytes", &limit);
    bool tight = known && limit != 0 && (double)used > 0.95 * (double)limit;
    table_cell(t,
               tight   ? COLOR_BAD
               : known ? COLOR_NONE
                       : COLOR_QUIET,
               known ? output_bytes(used, text) : "-");
    table_cell(t, told && limit != 0 ? COLOR_NONE : COLOR_QUIET,
               !told        ? "-"
               : limit == 0 ? "none"
                            : output_bytes(limit, text));
}

static void error_cell(struct table *t, const redisReply *node)
{
    char error[512] = "", when[OUTPUT_TEXT_SIZE] = "", text[640];
    uint64_t at_ms;
    bool any = client_text(node, "error", error, sizeof(error));
    if (client_time(node, "error_at", &at_ms))
        (void)output_time(at_ms / 1000, when);
    (void)snprintf(text, sizeof(text), "%s %s", when, error);
    sheet_word_cell(t, any ? COLOR_WARN : COLOR_QUIET, any ? text : "-");
}

static void print_table(const struct cli *cli, const redisReply *nodes)
{
    static const struct table_column columns[] = {
        {"NODE", false},     {"STATE", false}, {"VERSION", false},    {"USED", true},
        {"MAXMEMORY", true}, {"SLOTS", true},  {"CONNECTIONS", true}, {"LAST ERROR", false}};
    struct table t;
    table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < nodes->elements; i++) {
        const redisReply *node = nodes->element[i];
        sheet_text_cell(&t, node, "node");
        sheet_text_cell(&t, node, "state");
        version_cell(&t, node);
        memory_cells(&t, node);
        sheet_count_cell(&t, node, "slots");
        sheet_count_cell(&t, node, "connections");
        error_cell(&t, node);
    }
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}

static bool all_up(const redisReply *nodes)
{
    char state[16] = "";
    for (size_t i = 0; i < nodes->elements; i++)
        if (client_text(nodes->element[i], "state", state, sizeof(state)) && strcmp(state, "down") == 0)
            return false;
    return true;
}

int cli_nodes(struct cli *cli)
{
    redisReply *reply = cli_request_array(cli, "TB.NODES");
    if (reply == NULL)
        return cli->failure;
    if (cli->json)
        cli_print_json(reply, "node");
    else
        print_table(cli, reply);
    int code = all_up(reply) ? CLI_OK : CLI_NO;
    freeReplyObject(reply);
    return code;
}
