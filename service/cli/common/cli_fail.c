/* SPDX-License-Identifier: MIT */
/* Error messages on standard error: a sentence, or an object with --json. */
#include <stdarg.h>
#include <stdio.h>

#include "service/cli/common/cli.h"
#include "service/cli/common/cli_codes.h"

static bool as_json;

void cli_errors_as_json(void)
{
    as_json = true;
}

void cli_put_error(struct json *j, const char *code, const char *text)
{
    json_name(j, "error");
    json_open(j, '{');
    json_text(j, "code", code);
    json_text(j, "message", text);
    json_close(j, '}');
}

const char *cli_code_of(enum cli_exit status)
{
    static const struct {
        enum cli_exit status;
        const char *name;
    } codes[] = {
#define X(status, name, ...) {(enum cli_exit)(status), name},
        CLI_CODES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].status == status)
            return codes[i].name;
    return "failed";
}

int cli_fail_as(enum cli_exit status, const char *code, const char *format, ...)
{
    char text[2048];
    SCOPED(buffer_fini) struct buffer b = {0};
    struct json j = {.out = &b};
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (as_json) {
        json_open(&j, '{');
        cli_put_error(&j, code, text);
        json_close(&j, '}');
    } else {
        buffer_printf(&b, "twinbloom: %s", text);
    }
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s\n", buffer_text(&b));
    return (int)status;
}

enum cli_exit cli_exit_of(enum err code)
{
    const struct error_code *row = error_code_of(code);
    return code == ERR_OK ? CLI_OK : row == NULL ? CLI_FAILED : (enum cli_exit)row->exit_status;
}

redisReply *cli_odd_reply(struct cli *cli, redisReply *reply, const char *command)
{
    freeReplyObject(reply);
    cli->failure = cli_fail(CLI_FAILED, "the reply to %s has an unexpected form: is it twinbloomd?", command);
    return NULL;
}
