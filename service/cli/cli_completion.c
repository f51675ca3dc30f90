/* SPDX-License-Identifier: MIT */
/* completion bash|zsh|fish: scripts for shells, which docs/generate makes of the tables of commands and
 * options. For names of filters they call "twinbloom completion filters", which asks the service. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli_table.h"

extern const char embedded_complete_bash[], embedded_complete_zsh[], embedded_complete_fish[];

/* Print the names of the filters, one per line; skip names that are more than a word for a shell, as
 * bash puts them into the line unquoted: whoever makes a filter must not write commands there, or options.
 * Prints nothing if the service does not answer. */
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
        if (escaped.length == (size_t)name->len && name->str[0] != '-' &&
            strpbrk(name->str, " '\"$`\\;&|<>()*?[!#~") == NULL)
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
    const char *script = strcmp(shell, "bash") == 0   ? embedded_complete_bash
                         : strcmp(shell, "zsh") == 0  ? embedded_complete_zsh
                         : strcmp(shell, "fish") == 0 ? embedded_complete_fish
                                                      : NULL;
    if (script == NULL)
        return cli_fail(CLI_USAGE, "completion for \"%s\" does not exist; give bash, zsh or fish", shell);
    (void)fputs(script, stdout);
    return CLI_OK;
}
