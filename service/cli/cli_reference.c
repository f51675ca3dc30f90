/* SPDX-License-Identifier: MIT */
/* Help and reference, generated from the tables. The reference is printed for programs; docs/generate
 * converts it to the pages for people in docs/, which are embedded and printed unchanged. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/cli/cli_table.h"

/* Exit codes and environment variables. */
struct reference_row {
    const char *name, *meaning;
};

static const struct reference_row reference_exits[] = {
    {"0", "yes, or done"},
    {"1", "no: a key is absent, a plan does not fit, a coordinator is behind, a node is down, or a question "
          "was not answered with yes"},
    {"2", "wrong usage of the command line, or --yes is missing where standard input is not a terminal"},
    {"3", "unreachable: the service, or Redis or Postgres behind it"},
    {"4", "refused by the service: no rights, no such filter, a conflict, or a bad value"},
    {"5", "failed: a job failed or was aborted, a file is damaged, or an internal error"},
    {"6", "retry: a timeout, or something is busy; the same command may succeed later"},
    {"130", "interrupted"},
    {NULL, NULL},
};

static const struct reference_row reference_environment[] = {
    {"TWINBLOOM_URL", "address of the service, as --url; options override it"},
    {"TWINBLOOM_PASSWORD", "the password, as --password"},
    {"NO_COLOR", "if set and not empty, nothing is coloured; nothing is without a terminal either"},
    {NULL, NULL},
};

/* --- help --- */

enum { LINE_MAX_COLUMNS = 100, RIGHT_LEAST = 30 };

/* The first command of each group in the table. */
static const struct {
    const char *first, *title;
} groups[] = {{"status", "Look"},
              {"plan", "Rebuild and verify"},
              {"create", "Filters and keys"},
              {"config", "The service"},
              {"completion", "This command line"}};

bool cli_option_belongs(const struct option_row *o, unsigned of_command)
{
    return of_command == 0 ? o->command == 0 : (o->command & of_command) != 0;
}

/* Print the words of @text from column @indent on, wrapped, with a newline at the end. */
static void put_wrapped(const char *text, unsigned indent)
{
    unsigned most = isatty(STDOUT_FILENO) == 1 ? output_columns() : LINE_MAX_COLUMNS;
    if (most > LINE_MAX_COLUMNS)
        most = LINE_MAX_COLUMNS;
    if (most < indent + RIGHT_LEAST)
        most = indent + RIGHT_LEAST;
    unsigned at = indent;
    for (const char *p = text + strspn(text, " \n"); *p != '\0'; p += strspn(p, " \n")) {
        unsigned n = (unsigned)strcspn(p, " \n");
        if (at > indent && at + 1 + n > most) {
            (void)printf("\n%*s", (int)indent, "");
            at = indent;
        }
        (void)printf("%s%.*s", at > indent ? " " : "", (int)n, p);
        at += n + (at > indent ? 1 : 0);
        p += n;
    }
    (void)putchar('\n');
}

static void put_row(const char *left, unsigned width, const char *right)
{
    (void)printf("  %-*s  ", (int)width, left);
    put_wrapped(right, width + 4);
}

static unsigned longer(unsigned width, const char *text)
{
    return strlen(text) > width ? (unsigned)strlen(text) : width;
}

/* --- rows --- */

static void option_name(const struct option_row *o, char *out, size_t size)
{
    (void)snprintf(out, size, "%s%s%s%s%s", o->letter, o->letter[0] == '\0' ? "" : ", ", o->name,
                   o->value == NULL ? "" : " ", o->value == NULL ? "" : o->value);
}

static void print_options(unsigned of_command, const char *title)
{
    char name[64];
    unsigned width = 0;
    for (size_t i = 0; i < cli_option_count; i++) {
        if (!cli_option_belongs(&cli_option_table[i], of_command))
            continue;
        option_name(&cli_option_table[i], name, sizeof(name));
        width = longer(width, name);
    }
    if (width == 0)
        return;
    (void)printf("\n%s:\n", title);
    for (size_t i = 0; i < cli_option_count; i++) {
        if (!cli_option_belongs(&cli_option_table[i], of_command))
            continue;
        option_name(&cli_option_table[i], name, sizeof(name));
        put_row(name, width, cli_option_table[i].help);
    }
}

static void print_rows(const char *title, const struct reference_row *row)
{
    unsigned width = 0;
    for (size_t i = 0; row[i].name != NULL; i++)
        width = longer(width, row[i].name);
    (void)printf("\n%s:\n", title);
    for (; row->name != NULL; row++)
        put_row(row->name, width, row->meaning);
}

static void usage(const struct command *c, char *out, size_t size)
{
    (void)snprintf(out, size, "%s%s%s", c->name, c->arguments[0] == '\0' ? "" : " ", c->arguments);
}

static void print_commands(void)
{
    char left[64];
    unsigned width = 0;
    for (size_t i = 0; i < cli_command_count; i++) {
        usage(&cli_command_table[i], left, sizeof(left));
        width = longer(width, left);
    }
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct command *c = &cli_command_table[i];
        for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++)
            if (strcmp(groups[g].first, c->name) == 0)
                (void)printf("\n%s:\n", groups[g].title);
        usage(c, left, sizeof(left));
        put_row(left, width, c->summary);
    }
}

/* --- the pages --- */

void cli_print_help(void)
{
    (void)puts("usage: twinbloom COMMAND [ARGUMENTS] [OPTIONS]");
    print_commands();
    print_options(0, "Options, anywhere (after -- nothing is an option)");
    print_rows("Exit codes", reference_exits);
    print_rows("Environment", reference_environment);
    (void)puts("\n\"twinbloom help COMMAND\" explains one command.");
}

void cli_print_command_help(const struct command *c)
{
    char left[64];
    usage(c, left, sizeof(left));
    (void)printf("usage: twinbloom %s%s\n\n", left,
                 (c->options & ~(unsigned)OFFLINE) == 0 ? "" : " [OPTIONS]");
    put_wrapped(c->summary, 0);
    if (c->details[0] != '\0') {
        (void)putchar('\n');
        put_wrapped(c->details, 0);
    }
    if (c->options != 0)
        print_options(c->options, "Options");
    (void)printf("\nExample:\n  %s\n", c->example);
}

/* --- the reference --- */

/* --- JSON --- */

static void write_shape(struct json *j, const char *name)
{
    struct schema_shape shape;
    schema_load(&shape, name);
    json_text(j, "name", name);
    json_name(j, "members");
    json_open(j, '[');
    for (size_t i = 0; i < shape.count; i++) {
        const char *const *m = shape.member[i].row.field;
        json_open(j, '{');
        json_text(j, "name", m[MEMBER_NAME]);
        json_text(j, "type", m[MEMBER_TYPE]);
        json_name(j, "always");
        json_bool(j, shape.member[i].always);
        json_text(j, "meaning", m[MEMBER_MEANING]);
        if (m[MEMBER_SHAPE][0] != '\0') {
            json_name(j, "shape");
            json_open(j, '{');
            write_shape(j, m[MEMBER_SHAPE]);
            json_close(j, '}');
        }
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_outputs(struct json *j, const char *command)
{
    const char *at = NULL;
    struct schema_row output; /* ">", command, shape, "array" or nothing, when */
    json_name(j, "json");
    json_open(j, '[');
    while (schema_next_output(&at, command, &output)) {
        json_open(j, '{');
        json_text(j, "when", output.field[4]);
        json_name(j, "array");
        json_bool(j, output.field[3][0] != '\0');
        write_shape(j, output.field[2]);
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
        json_text(j, "letter", o->letter);
        json_text(j, "name", o->name);
        json_text(j, "value", o->value == NULL ? "" : o->value);
        json_text(j, "help", o->help);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_command(struct json *j, const struct command *c)
{
    json_open(j, '{');
    json_text(j, "name", c->name);
    json_text(j, "arguments", c->arguments);
    json_text(j, "summary", c->summary);
    json_text(j, "details", c->details);
    json_name(j, "examples");
    json_open(j, '[');
    for (const char *line = c->example; *line != '\0'; line += strspn(line, " \n")) {
        size_t length = strcspn(line, "\n");
        json_string(j, line, length);
        line += length;
    }
    json_close(j, ']');
    write_options(j, c->options == 0 ? OFFLINE : c->options);
    write_outputs(j, c->name);
    json_close(j, '}');
}

static void write_rows(struct json *j, const char *name, const struct reference_row *row)
{
    json_name(j, name);
    json_open(j, '{');
    for (; row->name != NULL; row++)
        json_text(j, row->name, row->meaning);
    json_close(j, '}');
}

void reference_json(void)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    struct json j = {.out = &b};
    json_open(&j, '{');
    json_text(&j, "version", TWINBLOOM_VERSION);
    json_name(&j, "commands");
    json_open(&j, '[');
    for (size_t i = 0; i < cli_command_count; i++)
        write_command(&j, &cli_command_table[i]);
    json_close(&j, ']');
    write_options(&j, 0);
    write_rows(&j, "exit_codes", reference_exits);
    write_rows(&j, "environment", reference_environment);
    json_close(&j, '}');
    (void)puts(buffer_text(&b));
}
