/* SPDX-License-Identifier: MIT */
/* The last runs of a filter, as TB.HISTORY says them, for people. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli_sheet.h"

static void took_cell(struct table *t, const redisReply *run)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t started, finished;
    if (client_time(run, "started_at", &started) && client_time(run, "finished_at", &finished) &&
        finished >= started)
        (void)output_duration((finished - started + 500) / 1000, text);
    table_cell(t, COLOR_NONE, text);
}

static void started_cell(struct table *t, const redisReply *run)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t started;
    if (client_time(run, "started_at", &started))
        (void)output_time(started / 1000, text);
    table_cell(t, COLOR_NONE, text);
}

/* "4 -> 5"; of a run whose generation did not come into use "4". */
static void generations_cell(struct table *t, const redisReply *run)
{
    char outcome[16] = "", from[24] = "?", to[24] = "", text[64];
    bool done = client_text(run, "outcome", outcome, sizeof(outcome)) &&
                (strcmp(outcome, "done") == 0 || strcmp(outcome, "healed") == 0);
    (void)client_text(run, "generation_from", from, sizeof(from));
    bool used = done && client_text(run, "generation", to, sizeof(to));
    (void)snprintf(text, sizeof(text), "%s%s%s", from, used ? " -> " : "", used ? to : "");
    sheet_word_cell(t, COLOR_NONE, text);
}

static void why_cell(struct table *t, const redisReply *run)
{
    char reason[512] = "", error[1024] = "", text[1600];
    (void)client_text(run, "reason", reason, sizeof(reason));
    bool failed = client_text(run, "error", error, sizeof(error));
    (void)snprintf(text, sizeof(text), "%s%s%s", reason, failed ? ": " : "", error);
    sheet_word_cell(t, COLOR_NONE, text);
}

void cli_print_history(const struct cli *cli, const redisReply *runs)
{
    static const struct table_column columns[] = {{"STARTED", false}, {"TOOK", true}, {"OUTCOME", false},
                                                  {"TRIGGER", false}, {"ROWS", true}, {"GENERATION", false},
                                                  {"WHY", false}};
    if (runs->elements == 0) {
        (void)puts("There were no jobs yet.");
        return;
    }
    struct table t;
    table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < runs->elements; i++) {
        const redisReply *run = runs->element[i];
        started_cell(&t, run);
        took_cell(&t, run);
        sheet_text_cell(&t, run, "outcome");
        sheet_text_cell(&t, run, "trigger");
        sheet_count_cell(&t, run, "rows");
        generations_cell(&t, run);
        why_cell(&t, run);
    }
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}
