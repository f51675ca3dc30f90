/* SPDX-License-Identifier: MIT */
#include "service/cli/common/cli_sheet.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum { BAR_WIDTH = 12 };

/* How a value is shown; outputs.txt says it for each member. */
enum kind { WORD, COUNT, BYTES, RATE, PERCENT, FILL, TIME, MS_SPAN, SECONDS, FLAG, COLORED, WARNING, KINDS };

static enum kind kind_of(struct schema_text name)
{
    static const char *const names[KINDS] = {"",     "count",   "bytes",   "rate", "percent", "fill",
                                             "time", "ms_span", "seconds", "flag", "colored", "warning"};
    enum kind kind = WORD;
    while (kind + 1 < KINDS && !schema_is(name, names[kind]))
        kind++;
    return kind;
}

enum output_color sheet_color(const char *state)
{
    static const struct {
        const char *state;
        enum output_color color;
    } colors[] = {{"serving", COLOR_GOOD},      {"done", COLOR_GOOD},     {"passed", COLOR_GOOD},
                  {"building", COLOR_WARN},     {"running", COLOR_WARN},  {"waiting", COLOR_WARN},
                  {"aborted", COLOR_WARN},      {"healed", COLOR_WARN},   {"degraded", COLOR_BAD},
                  {"unreachable", COLOR_BAD},   {"failed", COLOR_BAD},    {"up", COLOR_GOOD},
                  {"down", COLOR_BAD},          {"none", COLOR_QUIET},    {"stale", COLOR_WARN},
                  {"never", COLOR_QUIET},       {"not built", COLOR_BAD}, {"open", COLOR_GOOD},
                  {"opening", COLOR_WARN},      {"closed", COLOR_BAD},    {"gone", COLOR_BAD},
                  {"shutting_down", COLOR_WARN}};
    for (size_t i = 0; i < sizeof(colors) / sizeof(colors[0]); i++)
        if (strcmp(colors[i].state, state) == 0)
            return colors[i].color;
    return COLOR_NONE;
}

void sheet_word_cell(struct table *t, enum output_color color, const char *text)
{
    struct buffer b = {0};
    output_escape(&b, text, strlen(text));
    table_cell(t, color, buffer_text(&b));
    buffer_fini(&b);
}

static void show_fill(const struct cli *cli, double fill, char out[2 * OUTPUT_TEXT_SIZE])
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
    if (kind == COUNT)
        (void)number_grouped(n, out);
    else if (kind == BYTES)
        (void)output_bytes(n, out);
    else if (kind == MS_SPAN)
        (void)output_duration(n / 1000, out);
    else if (kind == FLAG)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%s", n != 0 ? "yes" : "no");
    else
        return false;
    return true;
}

const char *sheet_seconds(double seconds, char out[OUTPUT_TEXT_SIZE])
{
    if (seconds > 0 && seconds < 1)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "< 1s");
    else
        (void)output_duration(seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0, out);
    return out;
}

/* Show the bound only if layers may exceed the promised rate. */
static bool bound_is_quiet(const redisReply *list)
{
    double bound, promised;
    return client_decimal(list, "error_rate_bound", &bound) &&
           client_decimal(list, "error_rate", &promised) && bound <= promised;
}

/* A filter without a source can never be verified. */
static bool never_verifiable(const redisReply *list)
{
    uint64_t sourced;
    return client_count(list, "has_source", &sourced) && sourced == 0;
}

/* True if the value exists but the service does not know it. */
static bool is_unknown(const redisReply *list, const char *field)
{
    const redisReply *value = client_field(list, field);
    return value != NULL && value->type == REDIS_REPLY_NIL;
}

/* True if the value is missing or has its usual value. */
static bool is_hidden(const redisReply *list, const char *field, struct schema_text usual)
{
    char text[16];
    if (is_unknown(list, field))
        return strcmp(field, "degraded_at") == 0 || strcmp(field, "verified_at") == 0 ||
               strcmp(field, "source_rows_at") == 0 ||
               strcmp(field, "folded_at") == 0; /* not now, or never */
    if (!client_text(list, field, text, sizeof(text)) || (usual.length > 0 && schema_is(usual, text)))
        return true;
    return (strcmp(field, "error_rate_bound") == 0 && bound_is_quiet(list)) ||
           (strcmp(field, "verification") == 0 && never_verifiable(list));
}

/* Add the two cells of a row, or nothing if the value is missing. A value of an unexpected form is shown
 * unchanged. */
static void sheet_cells(const struct cli *cli, struct table *t, const char *field,
                        const struct schema_row *row, const redisReply *list)
{
    const enum kind kind = kind_of(row->field[MEMBER_KIND]);
    char text[512];
    char shown[2 * OUTPUT_TEXT_SIZE];
    uint64_t n;
    double d;
    if (is_unknown(list, field))
        (void)snprintf(text, sizeof(text), "unknown");
    else if (!client_text(list, field, text, sizeof(text)))
        return;
    char label[64];
    enum output_color color = kind == COLORED ? sheet_color(text) : kind == WARNING ? COLOR_WARN : COLOR_NONE;
    (void)snprintf(label, sizeof(label), "  %.*s", (int)row->field[MEMBER_LABEL].length,
                   row->field[MEMBER_LABEL].text);
    bool numeric = kind != WORD && kind != COLORED && kind != WARNING;
    bool decimal = numeric && client_decimal(list, field, &d);
    if (decimal && kind == RATE)
        (void)output_rate(d, shown);
    else if (decimal && kind == SECONDS)
        (void)sheet_seconds(d, shown);
    else if (decimal && kind == PERCENT)
        (void)output_percent(d, shown);
    else if (decimal && kind == FILL)
        show_fill(cli, d, shown);
    else if (decimal && kind == TIME && client_time(list, field, &n))
        (void)output_time(n / 1000, shown);
    else if (decimal && kind == COUNT && !client_count(list, field, &n) && d >= 0 && d < 1e18)
        (void)number_grouped((uint64_t)(d + 0.5), shown);
    else if (numeric && client_count(list, field, &n)) {
        if (!format_count(kind, n, shown))
            return;
    } else {
        table_cell(t, COLOR_QUIET, label);
        sheet_word_cell(t, color, text);
        return;
    }
    table_cell(t, COLOR_QUIET, label);
    table_cell(t, COLOR_NONE, shown);
}

void sheet_name_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[512] = "";
    (void)client_text(list, field, text, sizeof(text));
    sheet_word_cell(t, COLOR_NONE, text);
}

void sheet_text_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[256];
    bool there = client_text(list, field, text, sizeof(text));
    sheet_word_cell(t, there ? sheet_color(text) : COLOR_QUIET, there ? text : "-");
}

void sheet_count_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[NUMBER_GROUPED_SIZE];
    uint64_t n;
    bool there = client_count(list, field, &n);
    table_cell(t, there ? COLOR_NONE : COLOR_QUIET, there ? number_grouped(n, text) : "-");
}

void sheet_bytes_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[OUTPUT_TEXT_SIZE] = "";
    uint64_t bytes;
    if (client_count(list, field, &bytes))
        (void)output_bytes(bytes, text);
    table_cell(t, COLOR_NONE, text);
}

void sheet_print(const struct cli *cli, const char *shape, const redisReply *list)
{
    static const struct table_column columns[] = {{NULL, false}, {NULL, false}};
    struct schema_shape members;
    struct table t;
    const char *heading = NULL;
    schema_load(&members, (struct schema_text){shape, strlen(shape)});
    table_init(&t, columns, 2);
    for (size_t i = 0; i < members.count; i++) {
        const struct schema_member *m = &members.member[i];
        char name[64], text[64];
        (void)snprintf(name, sizeof(name), "%.*s", (int)m->row.field[MEMBER_NAME].length,
                       m->row.field[MEMBER_NAME].text);
        if (m->row.field[MEMBER_LABEL].length == 0 || is_hidden(list, name, m->row.field[MEMBER_USUAL]))
            continue;
        if (heading != m->heading.text) {
            heading = m->heading.text;
            (void)snprintf(text, sizeof(text), "%.*s", (int)m->heading.length, heading);
            table_cell(&t, COLOR_NONE, text);
            table_cell(&t, COLOR_NONE, "");
        }
        sheet_cells(cli, &t, name, &m->row, list);
    }
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}

void sheet_rows(struct table *t, const struct sheet_column *columns, unsigned layout, const redisReply *rows)
{
    t->column = t->own;
    for (const struct sheet_column *c = columns; c->title != NULL; c++)
        if (c->on == 0 || (c->on & layout) != 0)
            t->own[t->columns++] = (struct table_column){c->title, c->right};
    for (size_t i = 0; i < rows->elements; i++)
        for (const struct sheet_column *c = columns; c->title != NULL; c++)
            if (c->own != NULL && (c->on == 0 || (c->on & layout) != 0))
                c->own(t, rows->element[i]);
            else if (c->cell != NULL && (c->on == 0 || (c->on & layout) != 0))
                c->cell(t, rows->element[i], c->field);
}

void sheet_table(const struct cli *cli, const struct sheet_column *columns, unsigned layout,
                 const redisReply *rows, const char *none)
{
    struct table t = {0};
    if (rows->elements == 0 && none != NULL) {
        (void)puts(none);
        return;
    }
    sheet_rows(&t, columns, layout, rows);
    table_print(&t, stdout, cli->color);
    table_fini(&t);
}

int sheet_show(struct cli *cli, const char *verb, const char *shape,
               void (*print)(const struct cli *cli, const redisReply *all),
               bool (*judge)(const struct cli *cli, const redisReply *all))
{
    redisReply *reply = cli_request_array(cli, verb);
    if (reply == NULL)
        return cli->failure;
    if (cli->json)
        cli_print_json(reply, shape);
    else
        print(cli, reply);
    bool good = judge == NULL || judge(cli, reply);
    freeReplyObject(reply);
    return good ? CLI_OK : CLI_NO;
}
