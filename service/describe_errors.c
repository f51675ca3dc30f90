/* SPDX-License-Identifier: MIT */
/* Codes of errors, of the table in base/error.h. */
#include <ctype.h>
#include <string.h>
#include "base/error.h"
#include "service/cli/cli_codes.h"
#include "service/describe.h"
#include "service/http/http_problem.h"

static const char about[] =
    "# Errors\n\n"
    "Each error has a code that programs can rely on; its text is for people and may change. The code is the "
    "same\n"
    "everywhere:\n\n"
    "| where | form |\n|---|---|\n"
    "| RESP | the first word of the error reply: `-TIMEOUT no answer from Redis ...` |\n"
    "| HTTP | `code` in a problem (`application/problem+json`); its `type` is a place on the page `/errors` "
    "|\n"
    "| command line | the exit status; with `--json` also `{\"error\": {\"code\": ..., \"message\": ...}}` "
    "on "
    "standard error |\n"
    "| log, `TB.STATUS`, `TB.HISTORY` | `code=timeout`, `job_error_code` |\n\n"
    "Some replies in RESP keep the words of Redis and RedisBloom, because clients look for them: `-ERR not "
    "found`,\n"
    "`-ERR item exists`, `-ERR non scaling filter is full`, `-ERR could not create filter: ...` (range),\n"
    "`-ERR Insufficient memory to create filter: ...` (no-memory), `-NOAUTH`, `-NOPERM` and `-WRONGPASS` "
    "(refused), and\n"
    "`-ERR` with a syntax error or a wrong argument of one of their commands. Connections that are not\n"
    "accepted get `-ERR max number of clients reached`.\n\n"
    "Exit statuses: 3: the server cannot be reached; 4: refused, the same request would be refused again;\n"
    "5: failed; 6: try again later.\n\n";

void describe_errors(FILE *to)
{
    size_t count;
    const struct error_code *rows = error_codes(&count);
    (void)fputs(about, to);
    (void)fputs("| code | RESP | HTTP | exit status |\n|---|---|---|---|\n", to);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(to, "| [%s](#%s) | `-%s` | %d | %d |\n", rows[i].name, rows[i].name, rows[i].reply,
                      rows[i].http_status, rows[i].exit_status);
    for (size_t i = 0; i < count; i++) {
        const char *meaning = rows[i].meaning;
        (void)fprintf(to, "\n## %s\n\n%c%s.\n\n", rows[i].name, toupper((unsigned char)meaning[0]),
                      meaning + 1);
        (void)fprintf(to, "What to do: %s\n", rows[i].remedy);
    }
    (void)fputs("\n## Codes that only the command line has\n\n| code | exit status | meaning | what to do "
                "|\n|---|---|---|---|\n",
                to);
#define X(status, name, meaning, remedy)                                                                     \
    (void)fprintf(to, "| `%s` | %d | %s | %s |\n", name, status, meaning, remedy);
    CLI_CODES(X)
#undef X
    (void)fputs(
        "\n## Codes that only HTTP has\n\n| code | status | meaning | what to do |\n|---|---|---|---|\n", to);
    for (enum http_code code = 0; code < HTTP_CODE_COUNT; code++) {
        const struct http_code_row *row = http_code_row(code);
        (void)fprintf(to, "| `%s` | %d | ", row->name, row->status);
        describe_cell(to, row->meaning);
        (void)fputs(" | ", to);
        describe_cell(to, row->remedy);
        (void)fputs(" |\n", to);
    }
}
