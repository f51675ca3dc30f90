/* SPDX-License-Identifier: MIT */
/* One filter as a thing: create, delete, trust, count. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/cli.h"

/* One command that changes the filter; @said of its name, for people. */
static int change(struct cli *cli, size_t argc, const char **argv, const char *outcome, const char *said)
{
    redisReply *reply = cli_send(cli, argc, argv);
    if (reply == NULL)
        return cli->failure;
    bool done = reply->type != REDIS_REPLY_INTEGER || reply->integer != 0;
    freeReplyObject(reply);
    struct error e;
    if (!done)
        return cli_fail_with(cli_name_filter(cli, ERR_NOT_FOUND, &e), "%s", e.text);
    if (cli->json) {
        cli_print_outcome(cli, outcome, NULL);
        return CLI_OK;
    }
    struct buffer b = {0};
    output_escape(&b, cli->arguments[0], strlen(cli->arguments[0]));
    (void)printf("The filter %s %s.\n", buffer_text(&b), said);
    buffer_fini(&b);
    return CLI_OK;
}

int cli_create(struct cli *cli)
{
    char capacity[24], expansion[24];
    const char *argv[6] = {"BF.RESERVE", cli->arguments[0], cli->error_rate, capacity};
    size_t argc = 4;
    if (cli->capacity == 0 || cli->error_rate == NULL)
        return cli_fail(CLI_USAGE, "create needs --capacity and --error-rate");
    if (cli->nonscaling && cli->expansion != 0)
        return cli_fail(CLI_USAGE, "--nonscaling and --expansion do not go together");
    (void)snprintf(capacity, sizeof(capacity), "%llu", (unsigned long long)cli->capacity);
    (void)snprintf(expansion, sizeof(expansion), "%llu", (unsigned long long)cli->expansion);
    if (cli->expansion != 0) {
        argv[argc++] = "EXPANSION";
        argv[argc++] = expansion;
    } else if (cli->nonscaling) {
        argv[argc++] = "NONSCALING";
    }
    return change(cli, argc, argv, "created", "is created");
}

int cli_delete(struct cli *cli)
{
    const char *argv[] = {"DEL", cli->arguments[0]};
    int code = cli_confirm(cli, "deletes the filter and its keys", "Delete the filter %s and all its keys?");
    return code != CLI_OK ? code : change(cli, 2, argv, "deleted", "is deleted");
}

int cli_trust(struct cli *cli)
{
    const char *argv[] = {"TB.TRUST", cli->arguments[0]};
    int code = cli_confirm(cli, "lets keys that were lost be reported absent",
                           "Keys of %s that Redis has lost will be reported absent. Accept that?");
    return code != CLI_OK ? code : change(cli, 2, argv, "trusted", "is healthy again");
}

int cli_count(struct cli *cli)
{
    char number[NUMBER_GROUPED_SIZE];
    const char *argv[] = {"TB.COUNT", cli->arguments[0]};
    redisReply *reply = cli_send(cli, 2, argv);
    if (reply == NULL)
        return cli->failure;
    uint64_t count = reply->integer < 0 ? 0 : (uint64_t)reply->integer;
    freeReplyObject(reply);
    if (cli->json)
        cli_print_outcome(cli, "count", &count);
    else if (cli->terminal)
        (void)printf("%s\n", number_grouped(count, number));
    else
        (void)printf("%llu\n", (unsigned long long)count);
    return CLI_OK;
}
