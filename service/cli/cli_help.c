/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "service/cli/cli_reference.h"

enum { LINE_MAX_COLUMNS = 100, RIGHT_LEAST = 30 };

/* The command that begins each group of the table. */
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

static unsigned line_columns(void)
{
    unsigned columns = isatty(STDOUT_FILENO) == 1 ? output_columns() : LINE_MAX_COLUMNS;
    return columns < LINE_MAX_COLUMNS ? columns : LINE_MAX_COLUMNS;
}

/* Words of @text from column @indent on, lines as long as they may be, with the last line's end. */
static void put_wrapped(const char *text, unsigned indent)
{
    unsigned most = line_columns();
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

static void print_rows(const char *title, const struct reference_row *row, size_t count)
{
    unsigned width = 0;
    for (size_t i = 0; i < count; i++)
        width = longer(width, row[i].name);
    (void)printf("\n%s:\n", title);
    for (size_t i = 0; i < count; i++)
        put_row(row[i].name, width, row[i].meaning);
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
    print_rows("Exit codes", reference_exits, reference_exit_count);
    print_rows("Environment", reference_environment, reference_environment_count);
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
