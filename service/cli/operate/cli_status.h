/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_OPERATE_CLI_STATUS_H
#define SERVICE_CLI_OPERATE_CLI_STATUS_H
/* Cells of tables of filters: each function adds the next cell of @t, from a filter's TB.STATUS. */
#include "service/cli/common/cli.h"

void status_short_counts_cell(struct table *t, const redisReply *filter); /* keys/capacity */
void status_fill_cell(struct table *t, const redisReply *filter);         /* with a bar of @t's width */
void status_rates_cell(struct table *t, const redisReply *filter); /* false-positive rate, now/promised */
/* Whether answers are reliable, in a word: yes, building, not built, keys missed, degraded, lost,
 * unreachable. */
void status_health_cell(struct table *t, const redisReply *filter);
void status_next_cell(struct table *t, const redisReply *filter); /* when the next expansion is expected */
void status_job_cell(struct table *t, const redisReply *filter);  /* "scan 48%", "ready to switch", ... */

/* Write the job's progress in one line; @columns: width of the terminal, 0: no terminal. */
void follow_line(struct buffer *line, const redisReply *status, unsigned columns);
#endif
