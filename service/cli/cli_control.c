/* SPDX-License-Identifier: MIT */
/* What is asked of a running job: abort, cutover, rollback, finish, pause, resume, throttle. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/cli.h"

struct control {
    const char *command;
    const char *verb;
    const char *outcome;        /* its name in JSON */
    const char *before, *then;  /* the sentence around the filter's name */
    const char *why, *question; /* of what cannot be taken back; see cli_confirm(). NULL: it can */
};

static const struct control controls[] = {
    {"abort", "TB.ABORT", "aborted", "The job of ", " is being stopped; the filter keeps serving.",
     "discards what the job has built", "Stop the job of %s, and discard what it has built?"},
    {"cutover", "TB.CUTOVER", "cutover", "The rebuild of ",
     " switches after the latest rows are read and verified.", NULL, NULL},
    {"rollback", "TB.ROLLBACK", "rolled_back", "The rebuild of ",
     " is being rolled back: the former generation answers again, and the rebuild holds.", NULL, NULL},
    {"finish", "TB.FINISH", "finished", "The rebuild of ",
     " ends its grace time; the former generation is removed.",
     "removes the former generation, so that a rollback is impossible",
     "Remove the former generation of %s, which makes a rollback impossible?"},
    {"pause", "TB.PAUSE", "paused", "The job of ", " pauses until \"twinbloom resume\".", NULL, NULL},
    {"resume", "TB.RESUME", "resumed", "The job of ", " continues.", NULL, NULL},
    {"throttle", "TB.THROTTLE", "rows_per_second_limit", "The job of ", "", NULL, NULL},
};

static const struct control *find(const char *command)
{
    size_t i = 0;
    while (strcmp(controls[i].command, command) != 0)
        i++;
    return &controls[i];
}

/* 0: no limit. */
static bool parse_rows(const char *text, uint64_t *rows)
{
    *rows = 0;
    return strcmp(text, "0") == 0 || strcmp(text, "none") == 0 || output_parse_count(text, rows);
}

static void say(const struct cli *cli, const struct control *c, const uint64_t *rows)
{
    char number[NUMBER_GROUPED_SIZE];
    if (cli->json)
        cli_print_outcome(cli, c->outcome, rows);
    else if (rows == NULL)
        (void)printf("%s%s%s\n", c->before, cli->arguments[0], c->then);
    else if (*rows == 0)
        (void)printf("%s%s now reads rows without a limit.\n", c->before, cli->arguments[0]);
    else
        (void)printf("%s%s now reads at most %s rows a second.\n", c->before, cli->arguments[0],
                     number_grouped(*rows, number));
}

int cli_control(struct cli *cli)
{
    const struct control *c = find(cli->command);
    const char *argv[3] = {c->verb, cli->arguments[0]};
    char text[32];
    uint64_t rows = 0;
    bool has_rows = cli->count == 2;
    if (has_rows) {
        if (!parse_rows(cli->arguments[1], &rows))
            return cli_fail(CLI_USAGE, "%s: expected rows a second, such as 5000 or 5k, or none for no limit",
                            cli->arguments[1]);
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)rows);
        argv[2] = text;
    }
    int code = c->why == NULL ? CLI_OK : cli_confirm(cli, c->why, c->question);
    if (code != CLI_OK)
        return code;
    redisReply *reply = cli_send(cli, has_rows ? 3 : 2, argv);
    if (reply == NULL)
        return cli->failure;
    freeReplyObject(reply);
    say(cli, c, has_rows ? &rows : NULL);
    return CLI_OK;
}
