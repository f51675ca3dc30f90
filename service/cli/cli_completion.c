/* SPDX-License-Identifier: MIT */
/* completion bash|zsh|fish: scripts for shells. Each asks "twinbloom __complete WORDS" for what the last word
 * may become, which the tables of commands and options say, and the service where it is a filter's name. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli_table.h"

/* Where __complete says FILES, the shell offers those. */
#define FILES ":files"

static const struct {
    const char *shell, *script;
} scripts[] = {
    {"bash", "# bash completion for twinbloom, made by \"twinbloom completion bash\"\n"
             "_twinbloom() {\n"
             "  local cur=${COMP_WORDS[COMP_CWORD]}\n"
             "  mapfile -t COMPREPLY < <(\"${COMP_WORDS[0]}\" __complete "
             "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null | cut -f1)\n"
             "  if [[ ${COMPREPLY[0]-} == " FILES " ]]; then\n"
             "    compopt -o filenames 2>/dev/null\n"
             "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
             "  fi\n"
             "}\n"
             "complete -F _twinbloom twinbloom"},
    {"zsh",
     "#compdef twinbloom\n"
     "# zsh completion for twinbloom, made by \"twinbloom completion zsh\"\n"
     "_twinbloom() {\n"
     "  local -a found\n"
     "  found=(\"${(@f)$(\"${words[1]}\" __complete \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
     "  if [[ $found[1] == " FILES " ]]; then _files; return; fi\n"
     "  found=(\"${(@)found//:/\\\\:}\")\n"
     "  found=(\"${(@)found/$'\\t'/:}\")\n"
     "  [[ -n $found[1] ]] && _describe twinbloom found\n"
     "}\n"
     "if [[ $funcstack[1] == _twinbloom ]]; then _twinbloom \"$@\"; else compdef _twinbloom twinbloom; fi"},
    {"fish", "# fish completion for twinbloom, made by \"twinbloom completion fish\"\n"
             "function __twinbloom_complete\n"
             "    set -l words (commandline -opc)\n"
             "    set -l last (commandline -ct)\n"
             "    set -l found (command $words[1] __complete $words[2..-1] \"$last\" 2>/dev/null)\n"
             "    if test \"$found[1]\" = " FILES "\n"
             "        __fish_complete_path \"$last\"\n"
             "    else\n"
             "        printf '%s\\n' $found\n"
             "    end\n"
             "end\n"
             "complete -c twinbloom -f -a '(__twinbloom_complete)'"},
};

/* --- names of filters --- */

/* Those that begin with @begin, one a line; what a shell's word could not hold is left out. Silent where the
 * service does not answer. */
static int print_filters(struct cli *cli, const char *begin)
{
    struct error e = {""};
    redisReply *reply = NULL;
    const char *argv[] = {"KEYS", "*"};
    if (client_open(&cli->client, &cli->address, cli->timeout_ms, &e) != ERR_OK)
        return CLI_UNREACHABLE;
    enum err code = client_call(cli->client, &reply, 2, argv, NULL, &e);
    for (size_t i = 0; code == ERR_OK && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *name = reply->element[i];
        struct buffer escaped = {0};
        if (name->type == REDIS_REPLY_STRING && strncmp(name->str, begin, strlen(begin)) == 0)
            output_escape(&escaped, name->str, (size_t)name->len);
        if (escaped.length == (size_t)name->len && strpbrk(name->str, " '\"$`\\") == NULL)
            (void)puts(name->str);
        buffer_fini(&escaped);
    }
    freeReplyObject(reply);
    client_close(cli->client);
    return cli_exit_of(code);
}

int cli_completion(struct cli *cli)
{
    const char *shell = cli->arguments[0];
    if (strcmp(shell, "filters") == 0)
        return print_filters(cli, "");
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (strcmp(shell, scripts[i].shell) == 0) {
            (void)puts(scripts[i].script);
            return CLI_OK;
        }
    return cli_fail(CLI_USAGE, "completion for \"%s\" does not exist; give bash, zsh or fish", shell);
}

/* --- what a word may become --- */

/* What stands before the word. */
struct line {
    const struct option_row *wants; /* the word is the value of this option; NULL: it is none */
    const char *command;            /* NULL: it has not come yet */
    size_t arguments;               /* of it */
};

static const struct option_row *option_of(const char *word)
{
    for (size_t i = 0; i < cli_option_count; i++)
        if (strcmp(cli_option_table[i].name, word) == 0 || strcmp(cli_option_table[i].letter, word) == 0)
            return &cli_option_table[i];
    return NULL;
}

/* Options that say where the service is count: those that are @early, or the others. */
static struct line read_line(struct cli *cli, char *const *words, size_t count, bool early)
{
    struct line l = {.command = NULL};
    for (size_t i = 0; i < count; i++) {
        const struct option_row *o = words[i][0] == '-' ? option_of(words[i]) : NULL;
        bool has_value = o != NULL && o->value != NULL;
        if (has_value && i + 1 == count)
            l.wants = o;
        else if (o != NULL && o->command == 0 && o->early == early)
            (void)cli_option_set(cli, o, has_value ? words[i + 1] : NULL);
        i += has_value;
        if (o == NULL && words[i][0] != '-') {
            l.arguments += l.command != NULL;
            l.command = l.command == NULL ? words[i] : l.command;
        }
    }
    return l;
}

static void offer(const char *begin, const char *word, size_t length, const char *about)
{
    size_t n = strlen(begin);
    if (n <= length && memcmp(begin, word, n) == 0)
        (void)printf("%.*s%s%.*s\n", (int)length, word, about[0] == '\0' ? "" : "\t",
                     (int)strcspn(about, "\n"), about);
}

/* "a|b", or "[a|b] ...". */
static void offer_words(const char *begin, const char *text)
{
    for (text += strspn(text, "["); *text != '\0' && *text != ' ' && *text != ']'; text += *text == '|') {
        size_t length = strcspn(text, "| ]");
        offer(begin, text, length, "");
        text += length;
    }
}

static void offer_options(const char *begin, unsigned of_command)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct option_row *o = &cli_option_table[i];
        if (cli_option_belongs(o, of_command))
            offer(begin, o->name, strlen(o->name), o->help);
    }
}

static void offer_commands(const char *begin)
{
    for (size_t i = 0; i < cli_command_count; i++)
        offer(begin, cli_command_table[i].name, strlen(cli_command_table[i].name),
              cli_command_table[i].summary);
}

static void offer_value(const char *begin, const char *value)
{
    if (strcmp(value, "FILE") == 0 || strcmp(value, "PATH") == 0)
        (void)puts(FILES);
    else if (strchr(value, '|') != NULL)
        offer_words(begin, value);
}

/* Of a command's first argument; of several words only the first has any. */
static void offer_argument(struct cli *cli, const char *begin, const struct command *c)
{
    const char *a = c->arguments;
    if (strncmp(a, "FILTER", 6) == 0 || strncmp(a, "[FILTER]", 8) == 0)
        (void)print_filters(cli, begin);
    else if (strstr(a, "COMMAND") != NULL)
        offer_commands(begin);
    else if (strchr(a, '|') != NULL && a[strspn(a, "[")] >= 'a' && a[strspn(a, "[")] <= 'z')
        offer_words(begin, a);
}

int cli_complete(struct cli *cli, char *const *words, size_t count)
{
    const char *begin = count == 0 ? "" : words[count - 1];
    size_t before = count == 0 ? 0 : count - 1;
    (void)read_line(cli, words, before, true);
    const struct line l = read_line(cli, words, before, false);
    const struct command *c = NULL;
    for (size_t i = 0; l.command != NULL && i < cli_command_count; i++)
        if (strcmp(cli_command_table[i].name, l.command) == 0)
            c = &cli_command_table[i];
    if (l.wants != NULL) {
        offer_value(begin, l.wants->value);
    } else if (begin[0] == '-') {
        offer_options(begin, 0);
        if (c != NULL)
            offer_options(begin, c->options == 0 ? OFFLINE : c->options);
    } else if (l.command == NULL) {
        offer_commands(begin);
    } else if (c != NULL && l.arguments == 0) {
        offer_argument(cli, begin, c);
    }
    return CLI_OK;
}
