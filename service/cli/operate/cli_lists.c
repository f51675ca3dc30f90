/* SPDX-License-Identifier: MIT */
/* history, nodes, doctor, coordinators: lists from the service, one line per item. */
#include <stdio.h>
#include <string.h>

#include "service/cli/operate/cli_operate.h"
#include "service/cli/common/cli_sheet.h"

/* --- history --- */

static void took_cell(struct table *t, const redisReply *run)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t started, finished;
    if (list_time(run, "started_at", &started) && list_time(run, "finished_at", &finished) &&
        finished >= started)
        (void)output_duration((finished - started + 500) / 1000, text);
    table_cell(t, COLOR_NONE, text);
}

static void started_cell(struct table *t, const redisReply *run)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t started;
    if (list_time(run, "started_at", &started))
        (void)output_time(started / 1000, text);
    table_cell(t, COLOR_NONE, text);
}

/* "4 -> 5"; only "4" for a run whose generation did not come into use. */
static void generations_cell(struct table *t, const redisReply *run)
{
    char outcome[16] = "", from[24] = "?", to[24] = "", text[64];
    bool done = list_text(run, "outcome", outcome, sizeof(outcome)) &&
                (strcmp(outcome, "done") == 0 || strcmp(outcome, "healed") == 0);
    (void)list_text(run, "generation_from", from, sizeof(from));
    bool used = done && list_text(run, "generation", to, sizeof(to));
    (void)snprintf(text, sizeof(text), "%s%s%s", from, used ? " -> " : "", used ? to : "");
    sheet_word_cell(t, COLOR_NONE, text);
}

static void why_cell(struct table *t, const redisReply *run)
{
    char reason[512] = "", error[1024] = "", text[1600];
    (void)list_text(run, "reason", reason, sizeof(reason));
    bool failed = list_text(run, "error", error, sizeof(error));
    (void)snprintf(text, sizeof(text), "%s%s%s", reason, failed ? ": " : "", error);
    sheet_word_cell(t, COLOR_NONE, text);
}

void cli_print_history(const struct cli *cli, const redisReply *runs)
{
    static const struct sheet_column columns[] = {
        {"STARTED", .own = started_cell},
        {"TOOK", .right = true, .own = took_cell},
        {"OUTCOME", .cell = sheet_text_cell, .field = "outcome"},
        {"TRIGGER", .cell = sheet_text_cell, .field = "trigger"},
        {"ROWS", .right = true, .cell = sheet_count_cell, .field = "rows"},
        {"GENERATION", .own = generations_cell},
        {"WHY", .own = why_cell},
        {.title = NULL},
    };
    sheet_table(cli, columns, 0, runs, "There were no jobs yet.");
}

int cli_history(struct cli *cli)
{
    return sheet_show(cli, "TB.HISTORY", "run", cli_print_history, NULL);
}

/* --- nodes --- */

static void version_cell(struct table *t, const redisReply *node)
{
    char server[16] = "", version[64] = "", text[96];
    bool known = list_text(node, "version", version, sizeof(version));
    (void)list_text(node, "server", server, sizeof(server));
    (void)snprintf(text, sizeof(text), "%s %s", strcmp(server, "valkey") == 0 ? "Valkey" : "Redis", version);
    sheet_word_cell(t, known ? COLOR_NONE : COLOR_QUIET, known ? text : "-");
}

/* Red from 95 % of Redis' maximum. */
static void memory_cells(struct table *t, const redisReply *node)
{
    char text[OUTPUT_TEXT_SIZE];
    uint64_t used = 0, limit = 0;
    bool known = list_count(node, "used_bytes", &used);
    bool told = list_count(node, "maxmemory_bytes", &limit);
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
    bool any = list_text(node, "error", error, sizeof(error));
    if (list_time(node, "error_at", &at_ms))
        (void)output_time(at_ms / 1000, when);
    (void)snprintf(text, sizeof(text), "%s %s", when, error);
    sheet_word_cell(t, any ? COLOR_WARN : COLOR_QUIET, any ? text : "-");
}

static void print_nodes(const struct cli *cli, const redisReply *nodes)
{
    static const struct sheet_column columns[] = {
        {"NODE", .cell = sheet_text_cell, .field = "node"},
        {"STATE", .cell = sheet_text_cell, .field = "state"},
        {"VERSION", .own = version_cell},
        {"USED", .right = true, .own = memory_cells},
        {"MAXMEMORY", .right = true},
        {"SLOTS", .right = true, .cell = sheet_count_cell, .field = "slots"},
        {"CONNECTIONS", .right = true, .cell = sheet_count_cell, .field = "connections"},
        {"LAST ERROR", .own = error_cell},
        {.title = NULL},
    };
    sheet_table(cli, columns, 0, nodes, NULL);
}

static bool all_up(const struct cli *cli UNUSED, const redisReply *nodes)
{
    for (size_t i = 0; i < nodes->elements; i++)
        if (list_is(nodes->element[i], "state", "down"))
            return false;
    return true;
}

int cli_nodes(struct cli *cli)
{
    return sheet_show(cli, "TB.NODES", "node", print_nodes, all_up);
}

/* --- doctor --- */

enum { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_PROBLEM, DOCTOR_STATES };

static int state_of(const redisReply *finding)
{
    char state[16] = "";
    (void)list_text(finding, "state", state, sizeof(state));
    return strcmp(state, "ok") == 0        ? DOCTOR_OK
           : strcmp(state, "warning") == 0 ? DOCTOR_WARNING
                                           : DOCTOR_PROBLEM;
}

/* A field, escaped for a terminal; the caller frees @b. */
static const char *field(struct buffer *b, const redisReply *finding, const char *name)
{
    char text[2048] = "";
    (void)list_text(finding, name, text, sizeof(text));
    buffer_clear(b);
    output_escape(b, text, strlen(text));
    return buffer_text(b);
}

static void print_finding(const struct cli *cli, const redisReply *finding)
{
    static const enum output_color colors[DOCTOR_STATES] = {COLOR_GOOD, COLOR_WARN, COLOR_BAD};
    SCOPED(buffer_fini) struct buffer state = {0}, probe = {0}, subject = {0}, found = {0}, remedy = {0};
    const enum output_color color = colors[state_of(finding)];
    const char *where = field(&subject, finding, "subject");
    (void)printf("%s%-8s%s %-13s %s%s%s\n", output_color_on(color, cli->color),
                 field(&state, finding, "state"), output_color_off(color, cli->color),
                 field(&probe, finding, "probe"), where, where[0] == '\0' ? "" : ": ",
                 field(&found, finding, "found"));
    if (field(&remedy, finding, "remedy")[0] != '\0')
        (void)printf("%22s -> %s\n", "", buffer_text(&remedy));
}

static void print_doctor(const struct cli *cli, const redisReply *findings)
{
    unsigned counts[DOCTOR_STATES] = {0};
    for (size_t i = 0; i < findings->elements; i++) {
        counts[state_of(findings->element[i])]++;
        print_finding(cli, findings->element[i]);
    }
    (void)printf("%u ok, %u warning%s, %u problem%s\n", counts[DOCTOR_OK], counts[DOCTOR_WARNING],
                 counts[DOCTOR_WARNING] == 1 ? "" : "s", counts[DOCTOR_PROBLEM],
                 counts[DOCTOR_PROBLEM] == 1 ? "" : "s");
}

static bool no_problem(const struct cli *cli UNUSED, const redisReply *findings)
{
    for (size_t i = 0; i < findings->elements; i++)
        if (state_of(findings->element[i]) == DOCTOR_PROBLEM)
            return false;
    return true;
}

int cli_doctor(struct cli *cli)
{
    return sheet_show(cli, "TB.DOCTOR", "finding", print_doctor, no_problem);
}

/* --- coordinators --- */

static void plain_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[32] = "-";
    uint64_t n;
    bool there = list_count(list, field, &n);
    if (there)
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    bool late = there && n > 0 && strcmp(field, "behind") == 0;
    table_cell(t, !there ? COLOR_QUIET : late ? COLOR_WARN : COLOR_NONE, text);
}

static void time_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[OUTPUT_TEXT_SIZE] = "-";
    uint64_t ms;
    if (list_count(list, field, &ms))
        (void)output_duration(ms / 1000, text);
    table_cell(t, COLOR_NONE, text);
}

static void jobs_cell(struct table *t, const redisReply *list)
{
    const redisReply *jobs = list_field(list, "jobs");
    SCOPED(buffer_fini) struct buffer b = {0};
    for (size_t i = 0; jobs != NULL && i < jobs->elements; i++) {
        buffer_puts(&b, i > 0 ? "," : "");
        if (jobs->element[i]->type == REDIS_REPLY_STRING)
            output_escape(&b, jobs->element[i]->str, (size_t)jobs->element[i]->len);
    }
    table_cell(t, b.length > 0 ? COLOR_NONE : COLOR_QUIET, b.length > 0 ? buffer_text(&b) : "-");
}

static void health_cell(struct table *t, const redisReply *list)
{
    char redis[256] = "", postgres[256] = "";
    SCOPED(buffer_fini) struct buffer b = {0};
    bool gone = list_is(list, "state", "gone");
    (void)list_text(list, "redis", redis, sizeof(redis));
    (void)list_text(list, "postgres", postgres, sizeof(postgres));
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
}

static void epoch_cell(struct table *t, const redisReply *list)
{
    char text[48] = "-";
    uint64_t epoch;
    bool late = list_is(list, "current", "0");
    if (list_count(list, "epoch", &epoch))
        (void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)epoch, late ? " (behind)" : "");
    table_cell(t, late ? COLOR_WARN : COLOR_NONE, text);
}

/* Layouts of the table: all filters, one filter, top, and top on a narrow terminal. */
enum { ALL = 1, ONE = 2, TOP = 4, NARROW = 8 };

static const struct sheet_column coordinator_columns[] = {
    {"COORDINATOR", .cell = sheet_text_cell, .field = "coordinator"},
    {"STATE", .cell = sheet_text_cell, .field = "state"},
    {"VERSION", .on = ALL | ONE, .cell = sheet_text_cell, .field = "version"},
    {"LISTEN", .on = ALL | ONE, .cell = sheet_text_cell, .field = "listen"},
    {"UP", .right = true, .on = ALL | ONE | TOP, .cell = time_cell, .field = "uptime_ms"},
    {"SEEN", .right = true, .on = ALL | ONE, .cell = time_cell, .field = "age_ms"},
    {"CLIENTS", .right = true, .on = ALL | ONE | TOP, .cell = plain_cell, .field = "clients"},
    {"EPOCH", .right = true, .on = ONE, .own = epoch_cell},
    {"FILTERS", .right = true, .on = ALL, .cell = plain_cell, .field = "filters"},
    {"BEHIND", .right = true, .on = ALL | TOP, .cell = plain_cell, .field = "behind"},
    {"JOBS", .on = ALL | ONE, .own = jobs_cell},
    {"HEALTH", .own = health_cell},
    {.title = NULL},
};

static void print_coordinators(const struct cli *cli, const redisReply *all)
{
    sheet_table(cli, coordinator_columns, cli->count > 0 ? ONE : ALL, all,
                "No coordinator has reported yet.");
}

void cli_coordinators_table(struct table *t, const redisReply *all, bool narrow)
{
    sheet_rows(t, coordinator_columns, narrow ? NARROW : TOP, all);
}

/* True if all coordinators that are not gone serve the filter's epoch in Redis. */
static bool all_current(const struct cli *cli, const redisReply *all)
{
    bool current = true;
    for (size_t i = 0; cli->count > 0 && i < all->elements; i++)
        current &= list_is(all->element[i], "state", "gone") || !list_is(all->element[i], "current", "0");
    return current;
}

int cli_coordinators(struct cli *cli)
{
    return sheet_show(cli, "TB.COORDINATORS", "coordinator", print_coordinators, all_current);
}
