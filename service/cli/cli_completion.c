/* SPDX-License-Identifier: MIT */
/* completion bash|zsh|fish: scripts for shells, made of the tables of commands and options. The scripts ask
 * "completion filters" for the names of filters, with the connection's options that stand on the line. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli_completion.h"

/* --- what the tables say --- */

enum completion_value completion_value_of(const char *value)
{
    if (value == NULL)
        return COMPLETION_NONE;
    if (strcmp(value, "FILE") == 0 || strcmp(value, "PATH") == 0)
        return COMPLETION_FILES;
    return strchr(value, '|') != NULL ? COMPLETION_WORDS : COMPLETION_OTHER;
}

enum completion_value completion_argument_of(const struct command *c)
{
    if (strncmp(c->arguments, "FILTER", 6) == 0 || strncmp(c->arguments, "[FILTER]", 8) == 0)
        return COMPLETION_FILTERS;
    if (strstr(c->arguments, "COMMAND") != NULL)
        return COMPLETION_COMMANDS;
    char first = c->arguments[strspn(c->arguments, "[")];
    bool words = strchr(c->arguments, '|') != NULL && first >= 'a' && first <= 'z';
    return words ? COMPLETION_WORDS : COMPLETION_NONE;
}

void completion_put_words(const char *text)
{
    for (text += strspn(text, "["); *text != '\0' && *text != ' ' && *text != ']'; text++)
        (void)putchar(*text == '|' ? ' ' : *text);
}

/* --- names of filters --- */

/* One a line; what a shell's word could not hold is left out. Silent where the service does not answer. */
static int print_filters(struct cli *cli)
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
        if (name->type == REDIS_REPLY_STRING)
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
        return print_filters(cli);
    if (strcmp(shell, "bash") == 0)
        completion_bash();
    else if (strcmp(shell, "zsh") == 0)
        completion_zsh();
    else if (strcmp(shell, "fish") == 0)
        completion_fish();
    else
        return cli_fail(CLI_USAGE, "completion for \"%s\" does not exist; give bash, zsh or fish", shell);
    return CLI_OK;
}
