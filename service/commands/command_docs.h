/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_COMMANDS_COMMAND_DOCS_H
#define SERVICE_COMMANDS_COMMAND_DOCS_H
/* The replies of COMMAND DOCS. redis-cli makes its hints and its help from them. */
#include "service/commands/command.h"
#include "service/protocol/reply.h"

/* Write name and map of one command. */
void command_document(struct reply *r, const struct command *command);
#endif
