/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_COMMANDS_COMMAND_DOCS_H
#define SERVICE_COMMANDS_COMMAND_DOCS_H
/* What COMMAND DOCS tells of a command: redis-cli makes its hints and its help of it. */
#include "service/commands/command.h"
#include "service/protocol/reply.h"

/* Its arguments as people write them: "key item..."; "": none. */
const char *command_usage(const struct command *command);

/* Name and map of one command. */
void command_document(struct reply *r, const struct command *command);
#endif
