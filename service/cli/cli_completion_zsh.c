/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli_completion.h"

/* Inside '...', in a place where [ ] and : have a meaning of their own. */
static void put_text(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            (void)fputs("'\\''", stdout);
        else
            (void)printf(strchr("[]:\\", *text) != NULL ? "\\%c" : "%c", *text);
}

static void put_value(const char *value)
{
    switch (completion_value_of(value)) {
    case COMPLETION_FILES:
        (void)printf(":%s:_files", value);
        break;
    case COMPLETION_WORDS:
        (void)fputs(":value:(", stdout);
        completion_put_words(value);
        (void)putchar(')');
        break;
    case COMPLETION_OTHER:
        (void)fputs(":", stdout);
        put_text(value);
        (void)fputs(":", stdout);
        break;
    case COMPLETION_NONE:
    case COMPLETION_FILTERS:
    case COMPLETION_COMMANDS:
        break;
    }
}

static void put_option(const char *name, const struct option_row *o)
{
    (void)printf("    '%s[", name);
    put_text(o->help);
    (void)putchar(']');
    put_value(o->value);
    (void)puts("'");
}

static void put_options(unsigned of_command)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct option_row *o = &cli_option_table[i];
        if (!cli_option_belongs(o, of_command))
            continue;
        if (o->letter[0] != '\0')
            put_option(o->letter, o);
        put_option(o->name, o);
    }
}

static void put_command(const struct command *c)
{
    (void)printf("      %s)\n        own=(\n", c->name);
    put_options(c->options == 0 ? OFFLINE : c->options);
    switch (completion_argument_of(c)) {
    case COMPLETION_FILTERS:
        (void)puts("    '1:filter:_twinbloom_filters'");
        break;
    case COMPLETION_COMMANDS:
        (void)puts("    '1:command:_twinbloom_commands'");
        break;
    case COMPLETION_WORDS:
        (void)fputs("    '1:what:(", stdout);
        completion_put_words(c->arguments);
        (void)puts(")'");
        break;
    case COMPLETION_NONE:
    case COMPLETION_OTHER:
    case COMPLETION_FILES:
        break;
    }
    (void)puts("        ) ;;");
}

static void put_filters(void)
{
    (void)fputs("_twinbloom_filters() {\n"
                "  local -a names at\n"
                "  local option\n"
                "  for option in",
                stdout);
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_belongs(&cli_option_table[i], 0) && cli_option_table[i].value != NULL)
            (void)printf(" %s%s%s", cli_option_table[i].letter,
                         cli_option_table[i].letter[0] == '\0' ? "" : " ", cli_option_table[i].name);
    (void)puts("; do\n"
               "    if (( $+opt_args[$option] )); then at+=($option ${(Q)opt_args[$option]}); fi\n"
               "  done\n"
               "  if (( $+opt_args[--tls] )); then at+=(--tls); fi\n"
               "  names=(${(f)\"$(twinbloom --timeout 1 $at completion filters 2>/dev/null)\"})\n"
               "  compadd -a names\n"
               "}");
}

static void put_commands(void)
{
    (void)puts("_twinbloom_commands() {\n  local -a commands\n  commands=(");
    for (size_t i = 0; i < cli_command_count; i++) {
        (void)printf("    '%s:", cli_command_table[i].name);
        put_text(cli_command_table[i].summary);
        (void)puts("'");
    }
    (void)puts("  )\n  _describe command commands\n}");
}

void completion_zsh(void)
{
    (void)puts("#compdef twinbloom\n# zsh completion for twinbloom, made by \"twinbloom completion zsh\"");
    put_filters();
    put_commands();
    (void)puts("_twinbloom() {\n"
               "  local context state line\n"
               "  typeset -A opt_args\n"
               "  local -a everywhere own\n"
               "  everywhere=(");
    put_options(0);
    (void)puts(
        "  )\n"
        "  _arguments -C $everywhere '1:command:_twinbloom_commands' '*::argument:->argument' && return\n"
        "  if [[ $state == argument ]]; then\n"
        "    case $words[1] in");
    for (size_t i = 0; i < cli_command_count; i++)
        put_command(&cli_command_table[i]);
    (void)puts("    esac\n"
               "    _arguments $everywhere $own\n"
               "  fi\n"
               "}\n"
               "if [[ $funcstack[1] == _twinbloom ]]; then _twinbloom \"$@\"; else compdef _twinbloom "
               "twinbloom; fi");
}
