/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "service/cli/cli.h"

int cli_fail(enum cli_exit code, const char *format, ...)
{
    (void)fflush(stdout);
    (void)fputs("twinbloom: ", stderr);
    va_list ap;
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
    return code;
}

enum cli_exit cli_exit_of(enum err code)
{
    const struct error_code *row = error_code_of(code);
    return code == ERR_OK ? CLI_OK : row == NULL ? CLI_FAILED : (enum cli_exit)row->exit_status;
}

int cli_fail_with(enum err code, const struct error *e)
{
    return cli_fail(cli_exit_of(code), "%s", e->text);
}

redisReply *cli_odd_reply(struct cli *cli, redisReply *reply, const char *command)
{
    freeReplyObject(reply);
    cli->failure = cli_fail(CLI_FAILED, "the reply to %s has an unexpected form: is it twinbloomd?", command);
    return NULL;
}
