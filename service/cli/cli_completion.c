/* SPDX-License-Identifier: MIT */
/* completion bash|zsh|fish: scripts for shells. Each calls "twinbloom __complete WORDS" to get candidates for
 * the last word. The tables of commands and options provide them, or the service if the word is a filter's
 * name. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli_table.h"

/* The shell offers files if __complete prints this. */
static const char files[] = ":files";

extern const char embedded_complete_bash[], embedded_complete_zsh[], embedded_complete_fish[];

/* --- names of filters --- */

/* Print the names that begin with @begin, one per line; skip names that are more than a word for a shell, as
 * bash puts them into the line unquoted: whoever makes a filter must not write commands there, or options.
 * Prints nothing if the service does not answer. */
static int print_filters(struct cli *cli, const char *begin)
{
    struct error e = {""};
    SCOPED(scope_reply) redisReply *reply = NULL;
    const char *argv[] = {"KEYS", "*"};
    if (client_open(&cli->client, &cli->address, cli->timeout_ms, &e) != ERR_OK)
        return CLI_UNREACHABLE;
    enum err code = client_call(cli->client, &reply, 2, argv, NULL, &e);
    for (size_t i = 0; code == ERR_OK && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *name = reply->element[i];
        SCOPED(buffer_fini) struct buffer escaped = {0};
        if (name->type == REDIS_REPLY_STRING && strncmp(name->str, begin, strlen(begin)) == 0)
            output_escape(&escaped, name->str, (size_t)name->len);
        if (escaped.length == (size_t)name->len && name->str[0] != '-' &&
            strpbrk(name->str, " '\"$`\\;&|<>()*?[!#~") == NULL)
            (void)puts(name->str);
    }
    client_close(cli->client);
    return cli_exit_of(code);
}

int cli_completion(struct cli *cli)
{
    const char *shell = cli->arguments[0];
    if (strcmp(shell, "filters") == 0)
        return print_filters(cli, "");
    const char *script = strcmp(shell, "bash") == 0   ? embedded_complete_bash
                         : strcmp(shell, "zsh") == 0  ? embedded_complete_zsh
                         : strcmp(shell, "fish") == 0 ? embedded_complete_fish
                                                      : NULL;
    if (script == NULL)
        return cli_fail(CLI_USAGE, "completion for \"%s\" does not exist; give bash, zsh or fish", shell);
    (void)fputs(script, stdout);
    return CLI_OK;
}

/* --- candidates for a word --- */

/* What the words in front of the last one mean. */
struct line {
    const struct option_row *wants; /* the last word is this option's value; NULL: it is not a value */
    const char *command;            /* NULL: there is none yet */
    size_t arguments;               /* number of the command's arguments so far */
};

static const struct option_row *option_of(const char *word)
{
    for (size_t i = 0; i < cli_option_count; i++)
        if (strcmp(cli_option_table[i].name, word) == 0 || strcmp(cli_option_table[i].letter, word) == 0)
            return &cli_option_table[i];
    return NULL;
}

/* Apply options for the address of the service: those with @early set, or the others. */
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

/* Print the words of "a|b" or "[a|b] ..." that begin with @begin. */
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
        (void)puts(files);
    else if (strchr(value, '|') != NULL)
        offer_words(begin, value);
}

/* Print candidates for a command's first argument; further arguments have none. */
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
