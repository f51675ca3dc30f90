/* SPDX-License-Identifier: MIT */
/* Requests to a running job: abort, cutover, rollback, finish, pause, resume, throttle. Changes of a filter:
 * create, delete, trust. count. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "service/cli/operate/cli_operate.h"

enum { JOB_ID_MAX = 2048 /* bytes; a name has at most 512, escaped */ };

/* --- confirmation of what cannot be undone --- */

int cli_confirm(const struct cli *cli, const char *why, const char *question)
{
    char line[16];
    if (cli->yes)
        return CLI_OK;
    if (isatty(STDIN_FILENO) != 1)
        return cli_fail(CLI_USAGE, "%s %s, and standard input is not a terminal; confirm with --yes",
                        cli->command, why);
    const char *name = strstr(question, "%s"); /* of the filter, escaped */
    SCOPED(buffer_fini) struct buffer b = {0};
    output_escape(&b, cli->arguments[0], strlen(cli->arguments[0]));
    (void)fprintf(stderr, "%.*s%s%s [y/N] ", (int)(name - question), question, buffer_text(&b), name + 2);
    if (fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y'))
        return CLI_OK;
    return cli_fail(CLI_NO, "nothing was changed");
}

/* --- requests with no reply but OK --- */

struct control {
    const char *command;
    const char *verb;
    const char *outcome;        /* name in JSON */
    const char *before, *then;  /* text before and behind the filter's name */
    const char *why, *question; /* for what cannot be undone; see cli_confirm(). NULL: it can */
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
    {"create", "BF.RESERVE", "created", "The filter ", " is created.", NULL, NULL},
    {"delete", "DEL", "deleted", "The filter ", " is deleted.", "deletes the filter and its keys",
     "Delete the filter %s and all its keys?"},
    {"trust", "TB.TRUST", "trusted", "The filter ", " is healthy.",
     "lets keys that were lost be reported absent",
     "Keys of %s that Redis has lost will be reported absent. Accept that?"},
};

static void say(const struct cli *cli, const struct control *c, const uint64_t *rows, bool paused)
{
    char number[NUMBER_GROUPED_SIZE];
    SCOPED(buffer_fini) struct buffer name = {0};
    output_escape(&name, cli->arguments[0], strlen(cli->arguments[0]));
    if (cli->json)
        cli_print_outcome(cli, c->outcome, rows);
    else if (rows == NULL)
        (void)printf("%s%s%s%s\n", c->before, buffer_text(&name), c->then,
                     paused ? " It is paused until \"twinbloom resume\"." : "");
    else if (*rows == 0)
        (void)printf("%s%s now reads rows without a limit.\n", c->before, buffer_text(&name));
    else
        (void)printf("%s%s now reads at most %s rows a second.\n", c->before, buffer_text(&name),
                     number_grouped(*rows, number));
}

/* Who is asked may take long to answer, and means the job of now. @id "": there is none. @paused: what is
 * requested waits for its pause to end. */
static bool job_of_now(struct cli *cli, const struct control *c, char *id, size_t size, bool *paused)
{
    const char *argv[] = {"TB.STATUS", cli->arguments[0]};
    uint64_t n = 0;
    bool cutover = strcmp(c->verb, "TB.CUTOVER") == 0;
    id[0] = '\0';
    if (!cutover && strcmp(c->verb, "TB.ABORT") != 0 && strcmp(c->verb, "TB.FINISH") != 0)
        return true;
    SCOPED(scope_reply) redisReply *status = cli_send(cli, 2, argv);
    if (status == NULL)
        return false;
    (void)list_text(status, "job_id", id, size);
    *paused = cutover && list_count(status, "job_paused", &n) && n == 1;
    return true;
}

/* Confirm, if this cannot be undone, and send the command. @argv has room for two more words. @rows: of
 * throttle, else NULL. */
static int control(struct cli *cli, size_t argc, const char **argv, const uint64_t *rows)
{
    const struct control *c = controls;
    while (strcmp(c->command, cli->command) != 0)
        c++;
    struct error e = {""};
    argv[0] = c->verb;
    argv[1] = cli->arguments[0];
    static char job[JOB_ID_MAX]; /* the caller keeps argv */
    bool paused = false;
    if (!job_of_now(cli, c, job, sizeof(job), &paused))
        return cli->failure;
    if (job[0] != '\0') {
        argv[argc++] = "JOB";
        argv[argc++] = job;
    }
    int code = c->why == NULL ? CLI_OK : cli_confirm(cli, c->why, c->question);
    SCOPED(scope_reply) redisReply *reply = code != CLI_OK ? NULL : cli_send(cli, argc, argv);
    if (reply == NULL)
        return code != CLI_OK ? code : cli->failure;
    bool done = reply->type != REDIS_REPLY_INTEGER || reply->integer != 0;
    if (!done && cli_name_filter(cli, ERR_NOT_FOUND, &e) != ERR_OK)
        return cli_fail_with(ERR_NOT_FOUND, "%s", e.text);
    say(cli, c, rows, paused);
    return CLI_OK;
}

int cli_control(struct cli *cli)
{
    const char *argv[4];
    return control(cli, 2, argv, NULL);
}

int cli_throttle(struct cli *cli)
{
    char text[32];
    const char *wanted = cli->arguments[1];
    uint64_t rows = 0; /* no limit */
    const char *argv[5] = {[2] = text};
    if (strcmp(wanted, "0") != 0 && strcmp(wanted, "none") != 0 && !output_parse_count(wanted, &rows))
        return cli_fail(CLI_USAGE, "%s: expected rows a second, such as 5000 or 5k, or none for no limit",
                        wanted);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)rows);
    return control(cli, 3, argv, &rows);
}

int cli_create(struct cli *cli)
{
    char capacity[24], expansion[24];
    const char *argv[8] = {[2] = cli->error_rate, [3] = capacity};
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
    return control(cli, argc, argv, NULL);
}

int cli_count(struct cli *cli)
{
    char number[NUMBER_GROUPED_SIZE];
    const char *argv[] = {"TB.COUNT", cli->arguments[0]};
    SCOPED(scope_reply) redisReply *reply = cli_send(cli, 2, argv);
    if (reply == NULL)
        return cli->failure;
    uint64_t count = reply->integer < 0 ? 0 : (uint64_t)reply->integer;
    if (cli->json)
        cli_print_outcome(cli, "count", &count);
    else if (cli->terminal)
        (void)printf("%s\n", number_grouped(count, number));
    else
        (void)printf("%llu\n", (unsigned long long)count);
    return CLI_OK;
}
