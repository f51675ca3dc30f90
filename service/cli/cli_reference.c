/* SPDX-License-Identifier: MIT */
/* The reference: its form for programs, of which docs/generate makes those for people, which are printed as
 * they are in docs/. */
#include "service/cli/cli_reference.h"

#include <stdio.h>
#include <string.h>

/* docs/man/twinbloom.1 and docs/reference/cli.md. */
extern const char embedded_twinbloom[], embedded_cli[];

const struct reference_row reference_exits[] = {
    {"0", "yes, or done"},
    {"1",
     "no: a key is absent, a plan does not fit, a coordinator is behind, a node is down, or a question was "
     "not answered with yes"},
    {"2", "wrong usage of the command line, or --yes is missing where standard input is not a terminal"},
    {"3", "unreachable: the service, or Redis or Postgres behind it"},
    {"4", "refused by the service: no rights, no such filter, a conflict, or a bad value"},
    {"5", "failed: a job failed or was aborted, a file is damaged, or an internal error"},
    {"6", "retry: a timeout, or something is busy; the same command may succeed later"},
    {"130", "interrupted"},
};
const size_t reference_exit_count = sizeof(reference_exits) / sizeof(reference_exits[0]);

const struct reference_row reference_environment[] = {
    {"TWINBLOOM_URL", "address of the service, as --url; options override it"},
    {"TWINBLOOM_PASSWORD", "the password, as --password"},
    {"NO_COLOR", "if set and not empty, nothing is coloured; nothing is without a terminal either"},
};
const size_t reference_environment_count = sizeof(reference_environment) / sizeof(reference_environment[0]);

/* The next line of a command's examples, without blanks at its ends; false at the end. Its length is
 * *@length. */
static bool next_example(const char **at, const char **line, size_t *length)
{
    *at += strspn(*at, " \n");
    *line = *at;
    *length = strcspn(*at, "\n");
    *at += *length;
    return *length > 0;
}

/* --- JSON --- */

static void text_member(struct json *j, const char *name, const char *text)
{
    json_name(j, name);
    json_string(j, text, strlen(text));
}

static void write_shape(struct json *j, const struct json_shape *shape)
{
    char type[96];
    text_member(j, "name", shape->name);
    json_name(j, "members");
    json_open(j, '[');
    for (size_t i = 0; i < shape->count; i++) {
        const struct json_member *m = &shape->member[i];
        json_open(j, '{');
        text_member(j, "name", m->name);
        text_member(j, "type", json_type_text(m->type, type, sizeof(type)));
        json_name(j, "always");
        json_bool(j, (m->type & JSON_ALWAYS) != 0);
        text_member(j, "meaning", m->meaning);
        if (m->shape != NULL) {
            json_name(j, "shape");
            json_open(j, '{');
            write_shape(j, m->shape);
            json_close(j, '}');
        }
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_outputs(struct json *j, const char *command)
{
    size_t count;
    const struct json_output *output = json_outputs(command, &count);
    json_name(j, "json");
    json_open(j, '[');
    for (size_t i = 0; i < count; i++) {
        json_open(j, '{');
        text_member(j, "when", output[i].when);
        json_name(j, "array");
        json_bool(j, output[i].array);
        write_shape(j, output[i].shape);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_options(struct json *j, unsigned of_command)
{
    json_name(j, "options");
    json_open(j, '[');
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct option_row *o = &cli_option_table[i];
        if (!cli_option_belongs(o, of_command))
            continue;
        json_open(j, '{');
        text_member(j, "letter", o->letter);
        text_member(j, "name", o->name);
        text_member(j, "value", o->value == NULL ? "" : o->value);
        text_member(j, "help", o->help);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_command(struct json *j, const struct command *c)
{
    const char *at = c->example, *line;
    size_t length;
    json_open(j, '{');
    text_member(j, "name", c->name);
    text_member(j, "arguments", c->arguments);
    text_member(j, "summary", c->summary);
    text_member(j, "details", c->details);
    json_name(j, "examples");
    json_open(j, '[');
    while (next_example(&at, &line, &length))
        json_string(j, line, length);
    json_close(j, ']');
    write_options(j, c->options == 0 ? OFFLINE : c->options);
    write_outputs(j, c->name);
    json_close(j, '}');
}

static void write_rows(struct json *j, const char *name, const struct reference_row *row, size_t count)
{
    json_name(j, name);
    json_open(j, '{');
    for (size_t i = 0; i < count; i++)
        text_member(j, row[i].name, row[i].meaning);
    json_close(j, '}');
}

void reference_json(void)
{
    struct buffer b = {0};
    struct json j = {.out = &b};
    json_open(&j, '{');
    text_member(&j, "version", TWINBLOOM_VERSION);
    json_name(&j, "commands");
    json_open(&j, '[');
    for (size_t i = 0; i < cli_command_count; i++)
        write_command(&j, &cli_command_table[i]);
    json_close(&j, ']');
    write_options(&j, 0);
    write_rows(&j, "exit_codes", reference_exits, reference_exit_count);
    write_rows(&j, "environment", reference_environment, reference_environment_count);
    json_close(&j, '}');
    (void)puts(buffer_text(&b));
    buffer_fini(&b);
}

void reference_man(void)
{
    (void)fputs(embedded_twinbloom, stdout);
}

void reference_markdown(void)
{
    (void)fputs(strchr(embedded_cli, '\n') + 1, stdout); /* without the remark that it is generated */
}
