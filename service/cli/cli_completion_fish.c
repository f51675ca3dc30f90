/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "service/cli/cli_completion.h"

/* Inside '...'. */
static void put_text(const char *text)
{
    for (; *text != '\0'; text++)
        (void)printf(*text == '\'' || *text == '\\' ? "\\%c" : "%c", *text == '\n' ? ' ' : *text);
}

static void put_description(const char *text)
{
    (void)fputs(" -d '", stdout);
    put_text(text);
    (void)puts("'");
}

/* What follows an option, or a command: only files are offered by default. */
static void put_value(enum completion_value kind, const char *words)
{
    switch (kind) {
    case COMPLETION_FILES:
        (void)fputs(" -F -r", stdout);
        break;
    case COMPLETION_WORDS:
        (void)fputs(" -x -a '", stdout);
        completion_put_words(words);
        (void)fputs("'", stdout);
        break;
    case COMPLETION_OTHER:
        (void)fputs(" -x", stdout);
        break;
    case COMPLETION_FILTERS:
        (void)fputs(" -a '(__twinbloom_filters)'", stdout);
        break;
    case COMPLETION_COMMANDS:
        (void)fputs(" -a '(__twinbloom_commands)'", stdout);
        break;
    case COMPLETION_NONE:
        break;
    }
}

static void put_option(const struct option_row *o, const char *command)
{
    (void)fputs("complete -c twinbloom", stdout);
    if (command != NULL)
        (void)printf(" -n '__fish_seen_subcommand_from %s'", command);
    if (o->letter[0] != '\0')
        (void)printf(" -s %s", o->letter + 1);
    (void)printf(" -l %s", o->name + 2);
    put_value(completion_value_of(o->value), o->value);
    put_description(o->help);
}

static void put_command(const struct command *c)
{
    enum completion_value argument = completion_argument_of(c);
    (void)printf("complete -c twinbloom -n __fish_use_subcommand -a %s", c->name);
    put_description(c->summary);
    if (argument != COMPLETION_NONE) {
        (void)printf("complete -c twinbloom -n '__fish_seen_subcommand_from %s'", c->name);
        put_value(argument, c->arguments);
        (void)putchar('\n');
    }
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_belongs(&cli_option_table[i], c->options == 0 ? OFFLINE : c->options))
            put_option(&cli_option_table[i], c->name);
}

/* The options of the connection that stand on the line go to the command that asks for names. */
static void put_functions(void)
{
    (void)fputs("function __twinbloom_filters\n"
                "    set -l words (commandline -opc)\n"
                "    set -l at\n"
                "    for i in (seq 2 (count $words))\n"
                "        switch $words[$i]\n"
                "            case",
                stdout);
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_belongs(&cli_option_table[i], 0) && cli_option_table[i].value != NULL)
            (void)printf(" %s%s%s", cli_option_table[i].letter,
                         cli_option_table[i].letter[0] == '\0' ? "" : " ", cli_option_table[i].name);
    (void)puts("\n"
               "                set at $at $words[$i] $words[(math $i + 1)]\n"
               "            case --tls\n"
               "                set at $at --tls\n"
               "        end\n"
               "    end\n"
               "    command twinbloom --timeout 1 $at completion filters 2>/dev/null\n"
               "end");
    (void)fputs("function __twinbloom_commands\n    printf '%s\\n'", stdout);
    for (size_t i = 0; i < cli_command_count; i++)
        (void)printf(" %s", cli_command_table[i].name);
    (void)puts("\nend");
}

void completion_fish(void)
{
    (void)puts("# fish completion for twinbloom, made by \"twinbloom completion fish\"");
    put_functions();
    (void)puts("complete -c twinbloom -f");
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_belongs(&cli_option_table[i], 0))
            put_option(&cli_option_table[i], NULL);
    for (size_t i = 0; i < cli_command_count; i++)
        put_command(&cli_command_table[i]);
}
