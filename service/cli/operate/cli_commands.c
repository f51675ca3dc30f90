/* SPDX-License-Identifier: MIT */
/* Commands about whole filters: status, plan, rebuild, verify. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/cli/common/cli_sheet.h"
#include "service/cli/operate/cli_operate.h"

/* @reply if it is a flat list. NULL after an error message. */
static redisReply *as_list(struct cli *cli, redisReply *reply, const char *verb)
{
    return reply == NULL || (cli_is_list(reply) && reply->elements != 0) ? reply
                                                                         : cli_odd_reply(cli, reply, verb);
}

static redisReply *request_list(struct cli *cli, const char *verb)
{
    return as_list(cli, cli_request(cli, verb), verb);
}

/* Print the last runs below the sheet; nothing if they are unavailable. */
static void print_last_runs(struct cli *cli)
{
    struct error e;
    SCOPED(scope_reply) redisReply *runs = NULL;
    const char *argv[] = {"TB.HISTORY", cli->arguments[0], "COUNT", "5"};
    enum err code = client_call(cli->client, &runs, 4, argv, NULL, &e);
    if (code == ERR_OK && cli_are_lists(runs) && runs->elements > 0) {
        (void)puts("\nLast jobs");
        cli_print_history(cli, runs);
    }
}

int cli_status(struct cli *cli)
{
    if (cli->count == 0)
        return cli_status_all(cli);
    SCOPED(scope_reply) redisReply *reply = request_list(cli, "TB.STATUS");
    if (reply == NULL)
        return cli->failure;
    if (cli->json)
        cli_print_json(reply, "filter");
    else
        sheet_print(cli, "filter", reply);
    if (!cli->json)
        print_last_runs(cli);
    return CLI_OK;
}

int cli_plan(struct cli *cli)
{
    if (cli->count == 0)
        return cli_estimate(cli);
    if (cli->estimate.given != NULL)
        return cli_fail(CLI_USAGE, "%s is for a plan without FILTER", cli->estimate.given);
    SCOPED(scope_reply) redisReply *reply = request_list(cli, "TB.PLAN");
    if (reply == NULL)
        return cli->failure;
    if (cli->json)
        cli_print_json(reply, "plan");
    else
        cli_print_plan(cli, reply);
    uint64_t fits = 0;
    return list_count(reply, "fits", &fits) && fits == 0 ? CLI_NO : CLI_OK;
}

enum { RESTART_S = 120, RESTART_LOOK_US = 100 * 1000 };

/* The status, by none of the options of this run. */
static redisReply *status_before(struct cli *cli)
{
    const char *argv[] = {"TB.STATUS", cli->arguments[0]};
    return as_list(cli, cli_send(cli, 2, argv), argv[0]);
}

static int dry_run(struct cli *cli)
{
    char refused[512];
    SCOPED(scope_reply) redisReply *reply = request_list(cli, "TB.REBUILD");
    if (reply == NULL)
        return cli->failure;
    if (cli->json) {
        cli_print_json(reply, "plan");
    } else if (list_field(reply, "capacity") != NULL) { /* otherwise no plan was made */
        cli_print_plan(cli, reply);
        cli_print_steps(cli, reply);
    }
    if (!list_text(reply, "refused", refused, sizeof(refused)))
        return CLI_OK;
    SCOPED(buffer_fini) struct buffer b = {0};
    output_escape(&b, refused, strlen(refused));
    return cli_fail(CLI_NO, "a rebuild of %s would fail: %s", cli->arguments[0], buffer_text(&b));
}

/* Start a job, and follow it with --wait. @job: as for cli_follow(); @shows: what status shows then. */
static int start(struct cli *cli, const char *verb, const char *job, const char *shows)
{
    SCOPED(scope_reply) redisReply *before = NULL;
    if (cli->wait) {
        before = status_before(cli);
        if (before == NULL)
            return cli->failure;
    }
    SCOPED(scope_reply) redisReply *reply = cli_request(cli, verb);
    int code = CLI_OK;
    if (reply == NULL)
        code = cli->failure;
    else if (cli->wait)
        code = cli_follow(cli, job, before);
    else if (cli->json)
        cli_print_outcome(cli, "started", NULL);
    else
        (void)printf("The %s of %s has started; \"twinbloom status %s\" shows %s.\n", job, cli->arguments[0],
                     cli->arguments[0], shows);
    return code;
}

/* *@unfinished: there is a job that has not ended, with or without a driver. False: no reply. */
static bool is_unfinished(struct cli *cli, bool *unfinished)
{
    char state[32] = "";
    SCOPED(scope_reply) redisReply *status = status_before(cli);
    if (status == NULL)
        return false;
    (void)list_text(status, "job_state", state, sizeof(state));
    *unfinished = strcmp(state, "running") == 0 || strcmp(state, "waiting") == 0;
    return true;
}

/* Abort the unfinished job, if there is one, and wait for its end. */
static int throw_away(struct cli *cli)
{
    const char *argv[] = {"TB.ABORT", cli->arguments[0]};
    bool unfinished = false, asked = false;
    uint64_t until = clock_mono_us() + RESTART_S * UINT64_C(1000000);
    while (is_unfinished(cli, &unfinished)) {
        if (!unfinished)
            return CLI_OK;
        SCOPED(scope_reply) redisReply *reply = asked ? NULL : cli_send(cli, 2, argv);
        if (!asked && reply == NULL)
            return cli->failure;
        asked = true;
        if (clock_mono_us() > until)
            return cli_fail_with(ERR_TIMEOUT,
                                 "the unfinished job of %s has not ended within %d s of its abort",
                                 cli->arguments[0], RESTART_S);
        clock_sleep_us(RESTART_LOOK_US);
    }
    return cli->failure;
}

static int restart(struct cli *cli)
{
    bool unfinished = false;
    if (!is_unfinished(cli, &unfinished))
        return cli->failure;
    int code = !unfinished ? CLI_OK
                           : cli_confirm(cli, "with --restart discards what the unfinished job has built",
                                         "Discard what the unfinished job of %s has built?");
    return code != CLI_OK ? code : throw_away(cli);
}

int cli_rebuild(struct cli *cli)
{
    if (cli->dry_run && cli->restart)
        return cli_fail(CLI_USAGE, "--dry-run starts nothing, so --restart has no meaning with it");
    if (cli->dry_run && cli->wait)
        return cli_fail(CLI_USAGE, "--dry-run starts nothing, so --wait has no meaning with it");
    if (cli->dry_run)
        return dry_run(cli);
    int code = cli->restart ? restart(cli) : CLI_OK;
    return code != CLI_OK ? code : start(cli, "TB.REBUILD", "rebuild", "how far it is");
}

int cli_verify(struct cli *cli)
{
    return start(cli, "TB.VERIFY", "verification", "what it finds");
}
