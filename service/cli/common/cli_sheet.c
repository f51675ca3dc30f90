/* SPDX-License-Identifier: MIT */
#include "service/cli/common/cli_sheet.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum { BAR_WIDTH = 12 };

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

static void bytes_cell(struct table *t, enum output_color color, const char *bytes, size_t length)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    output_escape(&b, bytes, length);
    table_cell(t, color, buffer_text(&b));
}

void sheet_word_cell(struct table *t, enum output_color color, const char *text)
{
    bytes_cell(t, color, text, strlen(text));
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
    return list_decimal(list, "error_rate_bound", &bound) && list_decimal(list, "error_rate", &promised) &&
           bound <= promised;
}

/* A filter without a source can never be verified. */
static bool never_verifiable(const redisReply *list)
{
    uint64_t sourced;
    return list_count(list, "has_source", &sourced) && sourced == 0;
}

/* True if the value exists but the service does not know it. */
static bool is_unknown(const redisReply *list, const char *field)
{
    const redisReply *value = list_field(list, field);
    return value != NULL && value->type == REDIS_REPLY_NIL;
}

/* True if the value is missing or has its usual value. */
static bool is_hidden(const redisReply *list, const char *field, const char *usual)
{
    char text[16];
    if (is_unknown(list, field))
        return strcmp(field, "degraded_at") == 0 || strcmp(field, "verified_at") == 0 ||
               strcmp(field, "source_rows_at") == 0 ||
               strcmp(field, "folded_at") == 0; /* not now, or never */
    if (!list_text(list, field, text, sizeof(text)) || (usual[0] != '\0' && strcmp(usual, text) == 0))
        return true;
    return (strcmp(field, "error_rate_bound") == 0 && bound_is_quiet(list)) ||
           (strcmp(field, "verification") == 0 && never_verifiable(list));
}

/* --- values --- */

static const char *show_span(uint64_t ms, char out[OUTPUT_TEXT_SIZE])
{
    return output_duration(ms / 1000, out);
}

static const char *show_flag(uint64_t n, char out[OUTPUT_TEXT_SIZE])
{
    (void)snprintf(out, OUTPUT_TEXT_SIZE, "%s", n != 0 ? "yes" : "no");
    return out;
}

static const char *show_rounded(double n, char out[OUTPUT_TEXT_SIZE])
{
    return n >= 0 && n < 1e18 ? number_grouped((uint64_t)(n + 0.5), out) : NULL;
}

static const char *show_time(double seconds, char out[OUTPUT_TEXT_SIZE])
{
    return seconds > 0 && seconds < 1e12 ? output_time((uint64_t)(seconds * 1000 + 0.5) / 1000, out) : NULL;
}

/* How a number is shown; outputs.txt names the kind of each member. NULL: it has another form, and is shown
 * unchanged. */
static const struct kind {
    const char *name;
    const char *(*whole)(uint64_t n, char out[OUTPUT_TEXT_SIZE]);
    const char *(*decimal)(double n, char out[OUTPUT_TEXT_SIZE]);
} kinds[] = {{"count", number_grouped, show_rounded},
             {"bytes", output_bytes, NULL},
             {"rate", NULL, output_rate},
             {"percent", NULL, output_percent},
             {"fill", NULL, output_percent},
             {"time", NULL, show_time},
             {"ms_span", show_span, NULL},
             {"seconds", NULL, sheet_seconds},
             {"flag", show_flag, NULL}};

/* NULL: the value is no number, or its kind is none. */
static const char *show(const redisReply *list, const char *field, const char *kind,
                        char out[OUTPUT_TEXT_SIZE])
{
    uint64_t n;
    double d;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, kind) != 0)
            continue;
        if (kinds[i].whole != NULL && list_count(list, field, &n))
            return kinds[i].whole(n, out);
        if (kinds[i].decimal != NULL && list_decimal(list, field, &d))
            return kinds[i].decimal(d, out);
    }
    return NULL;
}

/* Add the two cells of a row. */
static void sheet_cells(const struct cli *cli, struct table *t, const char *const *row,
                        const redisReply *list)
{
    const char *field = row[MEMBER_NAME], *kind = row[MEMBER_KIND], *bytes;
    size_t length;
    char text[512] = "unknown", number[OUTPUT_TEXT_SIZE], label[64], bar[2 * OUTPUT_TEXT_SIZE + 1];
    double fill;
    (void)list_text(list, field, text, sizeof(text));
    enum output_color color = strcmp(kind, "colored") == 0   ? sheet_color(text)
                              : strcmp(kind, "warning") == 0 ? COLOR_WARN
                                                             : COLOR_NONE;
    (void)snprintf(label, sizeof(label), "  %s", row[MEMBER_LABEL]);
    table_cell(t, COLOR_QUIET, label);
    const char *shown = show(list, field, kind, number);
    if (shown != NULL && cli->terminal && strcmp(kind, "fill") == 0 && list_decimal(list, field, &fill)) {
        (void)snprintf(text, sizeof(text), "%s %s", output_bar(fill, BAR_WIDTH, bar), shown);
        shown = text;
    }
    if (shown != NULL)
        table_cell(t, COLOR_NONE, shown);
    else if (list_bytes(list, field, &bytes, &length))
        bytes_cell(t, color, bytes, length); /* the whole, which may be long */
    else
        sheet_word_cell(t, color, text);
}

void sheet_name_cell(struct table *t, const redisReply *list, const char *field)
{
    const char *bytes;
    size_t length;
    (void)list_bytes(list, field, &bytes, &length);
    bytes_cell(t, COLOR_NONE, bytes, length);
}

void sheet_text_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[256];
    bool there = list_text(list, field, text, sizeof(text));
    sheet_word_cell(t, there ? sheet_color(text) : COLOR_QUIET, there ? text : "-");
}

void sheet_count_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[NUMBER_GROUPED_SIZE];
    uint64_t n;
    bool there = list_count(list, field, &n);
    table_cell(t, there ? COLOR_NONE : COLOR_QUIET, there ? number_grouped(n, text) : "-");
}

void sheet_bytes_cell(struct table *t, const redisReply *list, const char *field)
{
    char text[OUTPUT_TEXT_SIZE] = "";
    uint64_t bytes;
    if (list_count(list, field, &bytes))
        (void)output_bytes(bytes, text);
    table_cell(t, COLOR_NONE, text);
}

void sheet_print(const struct cli *cli, const char *shape, const redisReply *list)
{
    static const struct table_column columns[] = {{NULL, false}, {NULL, false}};
    struct schema_shape members;
    SCOPED(table_fini) struct table t;
    const char *heading = NULL;
    schema_load(&members, shape);
    table_init(&t, columns, 2);
    for (size_t i = 0; i < members.count; i++) {
        const struct schema_member *m = &members.member[i];
        const char *const *row = m->row.field;
        if (row[MEMBER_LABEL][0] == '\0' || is_hidden(list, row[MEMBER_NAME], row[MEMBER_USUAL]))
            continue;
        if (heading == NULL || strcmp(heading, m->heading) != 0) {
            heading = m->heading;
            table_cell(&t, COLOR_NONE, heading);
            table_cell(&t, COLOR_NONE, "");
        }
        sheet_cells(cli, &t, row, list);
    }
    table_print(&t, stdout, cli->color);
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
    SCOPED(table_fini) struct table t = {0};
    if (rows->elements == 0 && none != NULL) {
        (void)puts(none);
        return;
    }
    sheet_rows(&t, columns, layout, rows);
    table_print(&t, stdout, cli->color);
}

int sheet_show(struct cli *cli, const char *verb, const char *shape,
               void (*print)(const struct cli *cli, const redisReply *all),
               bool (*judge)(const struct cli *cli, const redisReply *all))
{
    SCOPED(scope_reply) redisReply *reply = cli_request_array(cli, verb);
    if (reply == NULL)
        return cli->failure;
    if (cli->json)
        cli_print_json(reply, shape);
    else
        print(cli, reply);
    return judge == NULL || judge(cli, reply) ? CLI_OK : CLI_NO;
}
