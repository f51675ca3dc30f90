/* SPDX-License-Identifier: MIT */
/* twinbloom coordinators [FILTER]. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli.h"

static void escaped_cell(struct table *t, enum output_color color, const char *text)
{
    struct buffer b = {0};
    output_escape(&b, text, strlen(text));
    table_cell(t, color, buffer_text(&b));
    buffer_fini(&b);
}

static void text_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[256] = "-";
    bool there = client_text(list, field, text, sizeof(text));
    escaped_cell(t, there ? COLOR_NONE : COLOR_QUIET, there ? text : "-");
}

static void count_cell(struct table *t, const redisReply *list, const char *field, enum output_color color)
{
    char text[32] = "-";
    uint64_t n;
    bool there = client_count(list, field, &n);
    if (there)
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    table_cell(t, !there ? COLOR_QUIET : n > 0 ? color : COLOR_NONE, text);
}

static void time_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t ms;
    if (client_count(list, field, &ms))
        (void)output_duration(ms / 1000, text);
    table_cell(t, COLOR_NONE, text);
}

static bool is(const redisReply *list, const char *field, const char *wanted)
{
    char text[64] = "";
    return client_text(list, field, text, sizeof(text)) && strcmp(text, wanted) == 0;
}

static void state_cell(struct table *t, const redisReply *list)
{
    char text[64] = "-";
    (void)client_text(list, "state", text, sizeof(text));
    enum output_color color = strcmp(text, "serving") == 0         ? COLOR_GOOD
                              : strcmp(text, "shutting_down") == 0 ? COLOR_WARN
                                                                   : COLOR_BAD;
    escaped_cell(t, color, text);
}

static void jobs_cell(struct table *t, const redisReply *list)
{
    const redisReply *jobs = client_field(list, "jobs");
    struct buffer b = {0};
    for (size_t i = 0; jobs != NULL && i < jobs->elements; i++) {
        buffer_puts(&b, i > 0 ? "," : "");
        if (jobs->element[i]->type == REDIS_REPLY_STRING)
            output_escape(&b, jobs->element[i]->str, (size_t)jobs->element[i]->len);
    }
    table_cell(t, b.length > 0 ? COLOR_NONE : COLOR_QUIET, b.length > 0 ? buffer_text(&b) : "-");
    buffer_fini(&b);
}

static void health_cell(struct table *t, const redisReply *list)
{
    char redis[256] = "", postgres[256] = "";
    struct buffer b = {0};
    bool gone = is(list, "state", "gone");
    (void)client_text(list, "redis", redis, sizeof(redis));
    (void)client_text(list, "postgres", postgres, sizeof(postgres));
    bool redis_ok = strcmp(redis, "ok") == 0;
    bool postgres_ok = strcmp(postgres, "ok") == 0 || strcmp(postgres, "none") == 0;
    if (!redis_ok)
        output_escape(&b, redis, strlen(redis));
    if (!postgres_ok) {
        buffer_puts(&b, b.length > 0 ? "; " : "");
        output_escape(&b, postgres, strlen(postgres));
    }
    if (gone)
        table_cell(t, COLOR_QUIET, "-");
    else
        table_cell(t, b.length > 0 ? COLOR_BAD : COLOR_GOOD, b.length > 0 ? buffer_text(&b) : "ok");
    buffer_fini(&b);
}

static void epoch_cell(struct table *t, const redisReply *list)
{
    char text[48] = "-";
    uint64_t epoch;
    bool late = is(list, "current", "0");
    if (client_count(list, "epoch", &epoch))
        (void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)epoch, late ? " (behind)" : "");
    table_cell(t, late ? COLOR_WARN : COLOR_NONE, text);
}

static void row_cells(struct table *t, const redisReply *c, bool one)
{
    text_cell(t, c, "coordinator");
    state_cell(t, c);
    text_cell(t, c, "version");
    text_cell(t, c, "listen");
    time_cell(t, c, "uptime_ms");
    time_cell(t, c, "age_ms");
    count_cell(t, c, "clients", COLOR_NONE);
    if (one) {
        epoch_cell(t, c);
    } else {
        count_cell(t, c, "filters", COLOR_NONE);
        count_cell(t, c, "behind", COLOR_WARN);
    }
    jobs_cell(t, c);
    health_cell(t, c);
}

static void print_table(const struct cli *cli, const redisReply *all)
{
    static const struct table_column columns[] = {
        {"COORDINATOR", false}, {"STATE", false}, {"VERSION", false}, {"LISTEN", false},
        {"UP", true},           {"SEEN", true},   {"CLIENTS", true},  {"FILTERS", true},
        {"BEHIND", true},       {"JOBS", false},  {"HEALTH", false}};
    static const struct table_column columns_of_one[] = {
        {"COORDINATOR", false}, {"STATE", false},  {"VERSION", false}, {"LISTEN", false}, {"UP", true},
        {"SEEN", true},         {"CLIENTS", true}, {"EPOCH", true},    {"JOBS", false},   {"HEALTH", false}};
    struct table t;
    bool one = cli->count > 0;
    if (one)
        table_init(&t, columns_of_one, sizeof(columns_of_one) / sizeof(columns_of_one[0]));
    else
        table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < all->elements; i++)
        row_cells(&t, all->element[i], one);
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}

void cli_coordinators_table(struct table *t, const redisReply *all, bool narrow)
{
    static const struct table_column columns[] = {{"COORDINATOR", false}, {"STATE", false},
                                                  {"UP", true},           {"CLIENTS", true},
                                                  {"BEHIND", true},       {"HEALTH", false}};
    static const struct table_column few[] = {{"COORDINATOR", false}, {"STATE", false}, {"HEALTH", false}};
    if (narrow)
        table_init(t, few, sizeof(few) / sizeof(few[0]));
    else
        table_init(t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < all->elements; i++) {
        const redisReply *c = all->element[i];
        text_cell(t, c, "coordinator");
        state_cell(t, c);
        if (!narrow) {
            time_cell(t, c, "uptime_ms");
            count_cell(t, c, "clients", COLOR_NONE);
            count_cell(t, c, "behind", COLOR_WARN);
        }
        health_cell(t, c);
    }
}

/* Of those that are not gone: whether all serve the epoch that Redis has. */
static bool all_current(const redisReply *all)
{
    bool current = true;
    for (size_t i = 0; i < all->elements; i++)
        current &= is(all->element[i], "state", "gone") || !is(all->element[i], "current", "0");
    return current;
}

int cli_coordinators(struct cli *cli)
{
    redisReply *reply = cli_request_array(cli, "TB.COORDINATORS");
    int code = CLI_OK;
    if (reply == NULL)
        return cli->failure;
    if (cli->json)
        cli_print_json(reply, "coordinator");
    else if (reply->elements == 0)
        (void)puts("No coordinator has reported yet.");
    else
        print_table(cli, reply);
    if (code == CLI_OK && cli->count > 0 && !all_current(reply))
        code = CLI_NO;
    freeReplyObject(reply);
    return code;
}
