/* SPDX-License-Identifier: MIT */
/* Questions before what cannot be taken back. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/cli/cli.h"

/* @question up to its %s, the filter's name as a terminal may see it, and what follows. */
static void put_question(const struct cli *cli, const char *question)
{
    const char *name = strstr(question, "%s");
    struct buffer b = {0};
    output_escape(&b, cli->arguments[0], strlen(cli->arguments[0]));
    (void)fprintf(stderr, "%.*s%s%s [y/N] ", (int)(name - question), question, buffer_text(&b), name + 2);
    buffer_fini(&b);
}

int cli_confirm(const struct cli *cli, const char *why, const char *question)
{
    char line[16];
    if (cli->yes)
        return CLI_OK;
    if (isatty(STDIN_FILENO) != 1)
        return cli_fail(CLI_USAGE, "%s %s, and standard input is not a terminal; confirm with --yes",
                        cli->command, why);
    put_question(cli, question);
    if (fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y'))
        return CLI_OK;
    return cli_fail(CLI_NO, "nothing was changed");
}
