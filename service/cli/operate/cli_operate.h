/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_OPERATE_CLI_OPERATE_H
#define SERVICE_CLI_OPERATE_CLI_OPERATE_H
/* The commands about filters, jobs and coordinators, and what of their output others show, too. */
#include "service/cli/common/cli.h"

cli_handler cli_status, cli_history, cli_plan, cli_rebuild, cli_verify;
cli_handler cli_estimate; /* without a connection: cli_plan where there is no filter */
cli_handler cli_create, cli_delete, cli_trust, cli_count, cli_coordinators, cli_nodes, cli_doctor;
cli_handler cli_config;
cli_handler cli_hash_password; /* without a connection */
cli_handler cli_control;       /* abort, cutover, rollback, finish, pause, resume, throttle */

/* A small table of coordinators, for top; the caller prints it and calls table_fini(). */
void cli_coordinators_table(struct table *t, const redisReply *all, bool narrow);

/* Ask for a yes, on a terminal; elsewhere --yes must say so. @why: what the command does, for the error;
 * @question: with one %s, for the first argument. CLI_OK, or an exit code after saying why. */
int cli_confirm(const struct cli *cli, const char *why, const char *question);

/* The table of all filters. */
void cli_print_table(const struct cli *cli, const redisReply *filters);
void cli_print_history(const struct cli *cli, const redisReply *runs);
void cli_print_plan(const struct cli *cli, const redisReply *plan);
/* The steps of a dry run. */
void cli_print_steps(const struct cli *cli, const redisReply *plan);

/* The job is built, and waits for a word. */
bool cli_job_holds(const redisReply *status);

/* Follow the job that is another than the one of @before until it ends, or until it holds. @job: what it is
 * called, "rebuild" or "verification". */
int cli_follow(struct cli *cli, const char *job, const redisReply *before);
#endif
