/* SPDX-License-Identifier: MIT */
/* One filter as a thing: drop, count. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "service/cli.h"

/* The filter's name as a terminal may see it; the caller calls buffer_fini(). */
static const char *shown(const struct cli *cli, struct buffer *b)
{
    output_escape(b, cli->arguments[0], strlen(cli->arguments[0]));
    return buffer_text(b);
}

/* Asks on a terminal; elsewhere --yes must say so. */
static enum cli_exit ask(const struct cli *cli, const char *name)
{
    char line[16];
    if (cli->yes)
        return CLI_OK;
    if (isatty(STDIN_FILENO) != 1)
        return cli_fail(CLI_USAGE, "drop deletes the filter and its keys; say so by --yes");
    (void)fprintf(stderr, "Delete the filter %s and all its keys? [y/N] ", name);
    if (fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y'))
        return CLI_OK;
    return cli_fail(CLI_NO, "nothing was deleted");
}

int cli_drop(struct cli *cli)
{
    struct buffer b = {0};
    const char *name = shown(cli, &b);
    const char *argv[] = {"DEL", cli->arguments[0]};
    enum cli_exit code = ask(cli, name);
    redisReply *reply = code == CLI_OK ? cli_send(cli, 2, argv) : NULL;
    if (code == CLI_OK && reply == NULL)
        code = CLI_UNAVAILABLE;
    else if (code == CLI_OK && reply->integer == 0)
        code = cli_fail(CLI_NO, "there is no filter %s", name);
    else if (code == CLI_OK && cli->json)
        cli_print_outcome(cli, "dropped", NULL);
    else if (code == CLI_OK)
        (void)printf("The filter %s is deleted.\n", name);
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
