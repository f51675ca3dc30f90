/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_COMMAND_SET_H
#define SERVICE_RESP_COMMAND_SET_H
/* What a worker needs to know about commands: how to find one and how to run it. service/commands/ implements
 * it. */
#include <stdbool.h>
#include <stddef.h>
#include "service/meter/meter.h"
#include "service/protocol/resp.h"

struct client;
struct command;

struct command_set {
    /* NULL: there is no such command. */
    const struct command *(*find)(const char *name, size_t length);
    /* True if the command must wait until everything before it is answered, other than one that a transaction
     * queues. @command may be NULL. */
    bool (*runs_alone)(const struct client *c, const struct command *command);
    /* Run the command, which writes one reply, now or later. @command is NULL if there is no such command. */
    void (*run)(struct client *c, const struct command *command, const struct argument *arguments,
                size_t count);
    const struct meter_kind *meter; /* its rows are the commands; the last row is "unknown" */
};
#endif
