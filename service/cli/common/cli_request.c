/* SPDX-License-Identifier: MIT */
/* What is asked of the daemon, by the options of this run. */
#include <stdio.h>
#include <string.h>
#include "service/cli/common/cli.h"

enum err cli_name_filter(const struct cli *cli, enum err code, struct error *e)
{
    SCOPED(buffer_fini) struct buffer name = {0};
    if (cli->count > 0)
        output_escape(&name, cli->arguments[0], strlen(cli->arguments[0]));
    if (name.length > 0 && code == ERR_NOT_FOUND)
        code = error_set(e, code, "filter '%.200s' does not exist; %s", buffer_text(&name),
                         cli->no_create ? "create it, or leave out --no-create"
                                        : "\"twinbloom status\" lists the filters");
    else if (name.length > 0 && code == ERR_EXISTS)
        code = error_set(e, code, "filter '%.200s' exists already", buffer_text(&name));
    return code;
}

enum err cli_call(struct cli *cli, redisReply **out, size_t argc, const char **argv, const size_t *lengths,
                  struct error *e)
{
    return cli_name_filter(cli, client_call(cli->client, out, argc, argv, lengths, e), e);
}

redisReply *cli_send(struct cli *cli, size_t argc, const char **argv)
{
    struct error e = {""};
    redisReply *reply = NULL;
    enum err code = cli_call(cli, &reply, argc, argv, NULL, &e);
    if (code != ERR_OK)
        cli->failure = cli_fail_with(code, "%s", e.text);
    return reply;
}

redisReply *cli_request(struct cli *cli, const char *verb)
{
    char capacity[32], entries[32];
    (void)snprintf(capacity, sizeof(capacity), "%llu", (unsigned long long)cli->capacity);
    (void)snprintf(entries, sizeof(entries), "%llu", (unsigned long long)cli->entries);
    const char *const given[][2] = {{"CAPACITY", cli->capacity != 0 ? capacity : NULL},
                                    {"ERROR", cli->error_rate},
                                    {"NODES", cli->nodes},
                                    {"COUNT", cli->entries != 0 ? entries : NULL}};
    const char *argv[13] = {verb, cli->count > 0 ? cli->arguments[0] : NULL};
    size_t argc = cli->count > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        if (given[i][1] != NULL) {
            argv[argc++] = given[i][0];
            argv[argc++] = given[i][1];
        }
    if (cli->hold)
        argv[argc++] = "HOLD";
    if (cli->full)
        argv[argc++] = "FULL";
    if (cli->dry_run)
        argv[argc++] = "DRYRUN";
    return cli_send(cli, argc, argv);
}

redisReply *cli_request_array(struct cli *cli, const char *verb)
{
    redisReply *reply = cli_request(cli, verb);
    return reply == NULL || cli_are_lists(reply) ? reply : cli_odd_reply(cli, reply, verb);
}
