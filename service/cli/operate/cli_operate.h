/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_OPERATE_CLI_OPERATE_H
#define SERVICE_CLI_OPERATE_CLI_OPERATE_H
/* The commands about filters, jobs and coordinators, and what of their output others show, too. */
#include "service/cli/common/cli.h"

cli_handler cli_status, cli_history, cli_plan, cli_rebuild, cli_verify;
cli_handler cli_estimate; /* without a connection; calls cli_plan if there is no filter */
cli_handler cli_create, cli_throttle, cli_count, cli_coordinators, cli_nodes, cli_doctor;
cli_handler cli_config;
cli_handler cli_hash_password; /* without a connection */
cli_handler cli_control;       /* abort, cutover, rollback, finish, pause, resume, delete, trust */

/* Fill a small table of coordinators, for top; the caller prints it and calls table_fini(). */
void cli_coordinators_table(struct table *t, const redisReply *all, bool narrow);

/* Ask for confirmation on a terminal; elsewhere --yes is required. @why: what the command does, for the
 * error; @question: has one %s, for the first argument. CLI_OK, or an exit code after an error message. */
int cli_confirm(const struct cli *cli, const char *why, const char *question);

/* Print the table of all filters. */
int cli_status_all(struct cli *cli);
void cli_print_history(const struct cli *cli, const redisReply *runs);
void cli_print_plan(const struct cli *cli, const redisReply *plan);
/* Print the steps of a dry run. */
void cli_print_steps(const struct cli *cli, const redisReply *plan);

/* True if the job has built its generation and holds. */
bool cli_job_holds(const redisReply *status);

/* Follow the first job that is not the job in @before, until it ends or holds. @job: its name, "rebuild" or
 * "verification". */
int cli_follow(struct cli *cli, const char *job, const redisReply *before);
#endif
