/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_STATUS_H
#define SERVICE_CLI_STATUS_H
/* Cells of tables of filters: each the next cell of @t, by a filter's TB.STATUS. */
#include "service/cli/common/cli.h"

void status_short_counts_cell(struct table *t, const redisReply *filter); /* keys/capacity */
/* On a terminal with a bar of @width. */
void status_fill_cell(const struct cli *cli, struct table *t, const redisReply *filter, unsigned width);
void status_rates_cell(struct table *t, const redisReply *filter); /* of false positives, now/promised */
/* Whether answers can be relied on, in a word: yes, building, not built, keys missed, degraded, lost,
 * unreachable. */
void status_health_cell(struct table *t, const redisReply *filter);
void status_next_cell(struct table *t, const redisReply *filter); /* when the next expansion is expected */
void status_job_cell(struct table *t, const redisReply *filter);  /* "scan 48%", "ready to switch", ... */

/* How far the job is, in a line; @columns: of the terminal, 0: it is none. */
void follow_line(struct buffer *line, const redisReply *status, unsigned columns);
#endif
