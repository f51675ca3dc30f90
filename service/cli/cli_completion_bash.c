/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "service/cli/cli_completion.h"

/* Patterns of a case: -a|--password. */
static void put_pattern(const struct option_row *o)
{
    (void)printf("%s%s%s", o->letter, o->letter[0] == '\0' ? "" : "|", o->name);
}

/* The patterns of all options that @wanted holds for, as one alternative; false: there are none. */
static bool put_patterns(bool wanted(const struct option_row *o))
{
    bool any = false;
    for (size_t i = 0; i < cli_option_count; i++) {
        if (!wanted(&cli_option_table[i]))
            continue;
        (void)fputs(any ? "|" : "", stdout);
        put_pattern(&cli_option_table[i]);
        any = true;
    }
    return any;
}

static bool connects_with(const struct option_row *o)
{
    return cli_option_belongs(o, 0) && o->value != NULL;
}

static bool has_value(const struct option_row *o)
{
    return o->value != NULL;
}

static bool has_file(const struct option_row *o)
{
    return completion_value_of(o->value) == COMPLETION_FILES;
}

static void put_values(void)
{
    (void)puts("  case $prev in");
    for (size_t i = 0; i < cli_option_count; i++) {
        if (completion_value_of(cli_option_table[i].value) != COMPLETION_WORDS)
            continue;
        (void)fputs("    ", stdout);
        put_pattern(&cli_option_table[i]);
        (void)fputs(") mapfile -t COMPREPLY < <(compgen -W '", stdout);
        completion_put_words(cli_option_table[i].value);
        (void)puts("' -- \"$cur\"); return ;;");
    }
    (void)fputs("    ", stdout);
    (void)put_patterns(has_file);
    (void)puts(
        ") compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;");
    (void)fputs("    ", stdout);
    (void)put_patterns(has_value);
    (void)puts(") return ;;\n  esac");
}

static void put_options(unsigned of_command)
{
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_belongs(&cli_option_table[i], of_command))
            (void)printf(" %s", cli_option_table[i].name);
}

static void put_command(const struct command *c)
{
    (void)printf("    %s) options+='", c->name);
    put_options(c->options == 0 ? OFFLINE : c->options);
    (void)fputs("'", stdout);
    switch (completion_argument_of(c)) {
    case COMPLETION_FILTERS:
        (void)fputs("; first=filters", stdout);
        break;
    case COMPLETION_COMMANDS:
        (void)fputs("; first=$commands", stdout);
        break;
    case COMPLETION_WORDS:
        (void)fputs("; first='", stdout);
        completion_put_words(c->arguments);
        (void)fputs("'", stdout);
        break;
    case COMPLETION_NONE:
    case COMPLETION_OTHER:
    case COMPLETION_FILES:
        break;
    }
    (void)puts(" ;;");
}

void completion_bash(void)
{
    (void)puts("# bash completion for twinbloom, made by \"twinbloom completion bash\"\n"
               "_twinbloom() {\n"
               "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
               "  local command='' first='' i words=0\n"
               "  local -a at=()\n"
               "  COMPREPLY=()");
    (void)fputs("  local commands='", stdout);
    for (size_t i = 0; i < cli_command_count; i++)
        (void)printf("%s%s", i == 0 ? "" : " ", cli_command_table[i].name);
    (void)fputs("'\n  local options='", stdout);
    put_options(0);
    (void)fputs("'\n  for ((i = 1; i < COMP_CWORD; i++)); do\n    case ${COMP_WORDS[i]} in\n      ", stdout);
    (void)put_patterns(connects_with);
    (void)fputs(") at+=(\"${COMP_WORDS[i]}\" \"${COMP_WORDS[i+1]}\"); ((i++)) ;;\n      --tls) at+=(--tls) "
                ";;\n      ",
                stdout);
    (void)put_patterns(has_value);
    (void)puts(") ((i++)) ;;\n      -*) ;;\n"
               "      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}; else ((words++)); fi ;;\n"
               "    esac\n  done");
    put_values();
    (void)puts("  case $command in");
    for (size_t i = 0; i < cli_command_count; i++)
        put_command(&cli_command_table[i]);
    (void)puts("  esac\n"
               "  if [[ $cur == -* ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
               "  elif [[ -z $command ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$cur\")\n"
               "  elif ((words == 0)); then\n"
               "    if [[ $first == filters ]]; then\n"
               "      first=$(\"${COMP_WORDS[0]}\" --timeout 1 \"${at[@]}\" completion filters 2>/dev/null)\n"
               "    fi\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"$first\" -- \"$cur\")\n"
               "  fi\n"
               "}\n"
               "complete -F _twinbloom twinbloom");
}
