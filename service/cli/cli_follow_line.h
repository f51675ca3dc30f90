/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_FOLLOW_LINE_H
#define SERVICE_CLI_FOLLOW_LINE_H
/* How far a job is, in a line. Pure. */
#include "service/cli/cli.h"

/* Append it. @columns: of the terminal, which gets a bar, and short numbers where it is narrow; 0: none. */
void follow_line(struct buffer *line, const redisReply *status, unsigned columns);
#endif
