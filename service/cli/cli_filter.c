/* SPDX-License-Identifier: MIT */
/* One filter as a thing: delete, trust, count. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/cli.h"

int cli_delete(struct cli *cli)
{
    const char *argv[] = {"DEL", cli->arguments[0]};
    int code = cli_confirm(cli, "deletes the filter and its keys", "Delete the filter %s and all its keys?");
    redisReply *reply = code == CLI_OK ? cli_send(cli, 2, argv) : NULL;
    struct buffer b = {0};
    output_escape(&b, cli->arguments[0], strlen(cli->arguments[0]));
    if (code == CLI_OK && reply == NULL)
        code = CLI_UNAVAILABLE;
    else if (code == CLI_OK && reply->integer == 0)
        code = cli_fail(CLI_NO, "there is no filter %s", buffer_text(&b));
    else if (code == CLI_OK && cli->json)
        cli_print_outcome(cli, "deleted", NULL);
    else if (code == CLI_OK)
        (void)printf("The filter %s is deleted.\n", buffer_text(&b));
    freeReplyObject(reply);
    buffer_fini(&b);
    return code;
}

int cli_trust(struct cli *cli)
{
    const char *argv[] = {"TB.TRUST", cli->arguments[0]};
    int code = cli_confirm(
        cli, "lets keys that were lost be reported absent",
        "Keys of %s that a failover or restart has lost will be reported absent. Trust the masters?");
    redisReply *reply = code == CLI_OK ? cli_send(cli, 2, argv) : NULL;
    struct buffer b = {0};
    output_escape(&b, cli->arguments[0], strlen(cli->arguments[0]));
    if (code == CLI_OK && reply == NULL)
        code = CLI_UNAVAILABLE;
    else if (code == CLI_OK && cli->json)
        cli_print_outcome(cli, "trusted", NULL);
    else if (code == CLI_OK)
        (void)printf("All masters are trusted by the filter %s again.\n", buffer_text(&b));
    freeReplyObject(reply);
    buffer_fini(&b);
    return code;
}

int cli_count(struct cli *cli)
{
    char number[NUMBER_GROUPED_SIZE];
    const char *argv[] = {"TB.COUNT", cli->arguments[0]};
    redisReply *reply = cli_send(cli, 2, argv);
    if (reply == NULL)
        return CLI_UNAVAILABLE;
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
