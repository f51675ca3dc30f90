/* SPDX-License-Identifier: MIT */
/* The reference as Markdown. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli_reference.h"

/* Text of a paragraph or a table's cell: nothing of it is markup. */
static void put(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (strchr("\\`*_<>|[]#", *p) != NULL)
            (void)putchar('\\');
        (void)putchar(*p == '\n' ? ' ' : *p);
    }
}

/* In `code`; in a table a | needs its backslash even there. */
static void put_code(const char *text)
{
    (void)putchar('`');
    for (const char *p = text; *p != '\0'; p++)
        (void)printf(*p == '|' ? "\\|" : "%c", *p);
    (void)putchar('`');
}

static void option_row(const struct option_row *o)
{
    char name[128];
    (void)snprintf(name, sizeof(name), "%s%s%s%s%s", o->letter, o->letter[0] == '\0' ? "" : ", ", o->name,
                   o->value == NULL ? "" : " ", o->value == NULL ? "" : o->value);
    (void)fputs("| ", stdout);
    put_code(name);
    (void)fputs(" | ", stdout);
    put(o->help);
    (void)puts(" |");
}

static void options(unsigned of_command)
{
    bool any = false;
    for (size_t i = 0; i < cli_option_count; i++) {
        if (!cli_option_belongs(&cli_option_table[i], of_command))
            continue;
        if (!any)
            (void)puts("\n| option | |\n|---|---|");
        any = true;
        option_row(&cli_option_table[i]);
    }
}

static void examples(const struct command *c)
{
    const char *at = c->example, *line;
    size_t length;
    (void)puts("\n```sh");
    while (reference_example(&at, &line, &length))
        (void)printf("%.*s\n", (int)length, line);
    (void)puts("```");
}

/* The members of @shape, those of the objects in it after them as "steps[].rows". */
static void members(const struct json_shape *shape, const char *of)
{
    char type[96], name[160];
    for (size_t i = 0; i < shape->count; i++) {
        const struct json_member *m = &shape->member[i];
        (void)snprintf(name, sizeof(name), "%s%s", of, m->name);
        (void)fputs("| ", stdout);
        put_code(name);
        (void)printf(" | %s | %s | ", json_type_text(m->type, type, sizeof(type)),
                     (m->type & JSON_ALWAYS) != 0 ? "yes" : "");
        put(m->meaning);
        (void)puts(" |");
        (void)snprintf(name, sizeof(name), "%s%s%s", of, m->name, (m->type & JSON_OBJECT) != 0 ? "." : "[].");
        if (m->shape != NULL)
            members(m->shape, name);
    }
}

static bool shown_before(const struct json_shape *shape, size_t command)
{
    size_t count;
    for (size_t c = 0; c < command; c++) {
        const struct json_output *output = json_outputs(cli_command_table[c].name, &count);
        for (size_t i = 0; i < count; i++)
            if (output[i].shape == shape)
                return true;
    }
    return false;
}

static void outputs(size_t command)
{
    size_t count;
    const struct json_output *output = json_outputs(cli_command_table[command].name, &count);
    for (size_t i = 0; i < count; i++)
        (void)printf("\n`--json`%s%s: %s of [%s](#json-%s)\n", output[i].when[0] == '\0' ? "" : ", ",
                     output[i].when, output[i].array ? "an array" : "one object", output[i].shape->name,
                     output[i].shape->name);
}

static void shape(const struct json_shape *s)
{
    (void)printf("\n### <a id=\"json-%s\"></a>JSON: %s\n\n| member | type | always | |\n|---|---|---|---|\n",
                 s->name, s->name);
    members(s, "");
}

static void shapes(void)
{
    (void)puts("\n## JSON\n\nAn error is `{\"error\": {\"code\": ..., \"message\": ...}}` on standard error; "
               "[errors.md](errors.md) lists the codes.\n\nMembers keep their names, types and meanings; new "
               "ones may be added. \"Always\" "
               "says that a "
               "member is never missing. Names that end in `_at` are moments in Unix seconds, in `_seconds`, "
               "`_ms` and `_us` durations, in `_ratio` shares of 0 to 1.");
    for (size_t c = 0; c < cli_command_count; c++) {
        size_t count;
        const struct json_output *output = json_outputs(cli_command_table[c].name, &count);
        for (size_t i = 0; i < count; i++) {
            bool before = shown_before(output[i].shape, c);
            for (size_t k = 0; k < i; k++)
                before |= output[k].shape == output[i].shape;
            if (!before)
                shape(output[i].shape);
        }
    }
}

static void rows(const char *title, const struct reference_row *row, size_t count)
{
    (void)printf("\n## %s\n\n| | |\n|---|---|\n", title);
    for (size_t i = 0; i < count; i++) {
        (void)fputs("| ", stdout);
        put_code(row[i].name);
        (void)fputs(" | ", stdout);
        put(row[i].meaning);
        (void)puts(" |");
    }
}

void reference_markdown(void)
{
    (void)puts(
        "# twinbloom: the command line\n\n`twinbloom COMMAND [ARGUMENTS] [OPTIONS]`: made by `twinbloom help "
        "--markdown`.\n\n## Commands\n\n| | |\n|---|---|");
    for (size_t i = 0; i < cli_command_count; i++) {
        (void)printf("| [`%s`](#%s) | ", cli_command_table[i].name, cli_command_table[i].name);
        put(cli_command_table[i].summary);
        (void)puts(" |");
    }
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct command *c = &cli_command_table[i];
        (void)printf("\n### %s\n\n`twinbloom %s%s%s`: ", c->name, c->name, c->arguments[0] == '\0' ? "" : " ",
                     c->arguments);
        put(c->summary);
        (void)puts(".");
        if (c->details[0] != '\0') {
            (void)putchar('\n');
            put(c->details);
            (void)putchar('\n');
        }
        options(c->options == 0 ? OFFLINE : c->options);
        examples(c);
        outputs(i);
    }
    (void)puts("\n## Options of all commands\n\nThey may stand anywhere; after `--` all is taken as it is.");
    options(0);
    rows("Exit codes", reference_exits, reference_exit_count);
    rows("Environment", reference_environment, reference_environment_count);
    shapes();
}
