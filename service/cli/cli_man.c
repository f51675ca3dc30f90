/* SPDX-License-Identifier: MIT */
/* The reference as a page of the manual, twinbloom.1. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli_reference.h"

/* A page has a date, and two builds are to be the same: that of the last change to what it says. */
#define CHANGED "2026-11-22"

enum { FOLD = 70 };

/* One byte that roff obeys in nothing. */
static void put_byte(char c, bool starts_line)
{
    if (starts_line && (c == '.' || c == '\''))
        (void)fputs("\\&", stdout);
    if (c == '\\' || c == '-' || c == '"')
        (void)fputs(c == '\\' ? "\\e" : c == '-' ? "\\-" : "\\(dq", stdout);
    else
        (void)putchar(c);
}

/* Text that is filled: a line a sentence, and none that is long. */
static void put_folded(const char *text)
{
    size_t column = 0;
    for (const char *p = text; *p != '\0'; p++) {
        bool blank = *p == ' ' || *p == '\n';
        bool sentence = blank && p > text && p[-1] == '.';
        if (blank && (sentence || column + strcspn(p + 1, " \n") > FOLD)) {
            (void)putchar('\n');
            column = 0;
        } else {
            put_byte(blank ? ' ' : *p, column == 0);
            column += *p == '-' ? 2 : *p == '"' ? 4 : 1;
        }
    }
}

static void put_bytes(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        put_byte(text[i], i == 0);
}

static void put(const char *text)
{
    put_bytes(text, strlen(text));
}

/* A paragraph of what is filled anew. */
static void line(const char *text)
{
    put_folded(text);
    (void)putchar('\n');
}

static void option_paragraph(const struct option_row *o)
{
    (void)fputs(".TP\n.B ", stdout);
    put(o->letter);
    (void)fputs(o->letter[0] == '\0' ? "" : ", ", stdout);
    put(o->name);
    if (o->value != NULL) {
        (void)fputs(" \\fI", stdout);
        put(o->value);
        (void)fputs("\\fP", stdout);
    }
    (void)putchar('\n');
    line(o->help);
}

static void options(unsigned of_command)
{
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_belongs(&cli_option_table[i], of_command))
            option_paragraph(&cli_option_table[i]);
}

static void examples(const struct command *c)
{
    const char *at = c->example, *text;
    size_t length;
    (void)puts(".PP\n.nf\n.RS 4");
    while (reference_example(&at, &text, &length)) {
        put_bytes(text, length);
        (void)putchar('\n');
    }
    (void)puts(".RE\n.fi");
}

static void command(const struct command *c)
{
    (void)fputs(".SS \"twinbloom ", stdout);
    put(c->name);
    (void)fputs(c->arguments[0] == '\0' ? "" : " ", stdout);
    put(c->arguments);
    (void)puts("\"");
    line(c->summary);
    if (c->details[0] != '\0') {
        (void)puts(".PP");
        line(c->details);
    }
    options(c->options == 0 ? OFFLINE : c->options);
    examples(c);
}

static void rows(const char *title, const struct reference_row *row, size_t count)
{
    (void)printf(".SH %s\n", title);
    for (size_t i = 0; i < count; i++) {
        (void)fputs(".TP\n.B ", stdout);
        line(row[i].name);
        line(row[i].meaning);
    }
}

void reference_man(void)
{
    (void)puts(
        ".\\\" Made by \"twinbloom help --man\".\n"
        ".TH TWINBLOOM 1 " CHANGED " \"Twinbloom " TWINBLOOM_VERSION "\" \"Twinbloom\"\n"
        ".SH NAME\ntwinbloom \\- look at, fill and rebuild the filters of a Twinbloom service\n"
        ".SH SYNOPSIS\n.B twinbloom\n.I command\n.RI [ arguments ]\n.RI [ options ]\n"
        ".SH DESCRIPTION\nTwinbloom serves sharded Bloom filters that are rebuilt from a\ntable while they "
        "are in use.\n.B twinbloom\nspeaks to a running\n.BR twinbloomd (8),\n127.0.0.1:6479 unless it is "
        "told otherwise.\nIts output is for people; with\n.B \\-\\-json\nit is for programs, by a schema "
        "that\n.B twinbloom help \\-\\-markdown\ndescribes.\n.SH COMMANDS");
    for (size_t i = 0; i < cli_command_count; i++)
        command(&cli_command_table[i]);
    (void)puts(".SH OPTIONS\nOptions may stand anywhere. After\n.B \\-\\-\nnothing is an option.");
    options(0);
    rows("EXIT STATUS", reference_exits, reference_exit_count);
    rows("ENVIRONMENT", reference_environment, reference_environment_count);
    (void)puts(".SH SEE ALSO\n.BR twinbloomd (8),\n.BR twinbloom.conf (5)");
}
