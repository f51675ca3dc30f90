/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_COMMAND_SET_H
#define SERVICE_RESP_COMMAND_SET_H
/* What a worker knows of commands: how one is found and run. service/commands/ has them. */
#include <stdbool.h>
#include <stddef.h>
#include "service/meter/meter.h"
#include "service/protocol/resp.h"

struct client;
struct command;

struct command_set {
    /* NULL: there is none. */
    const struct command *(*find)(const char *name, size_t length);
    /* True where the command must wait until everything before it is answered; NULL is fine. */
    bool (*runs_alone)(const struct command *command);
    /* One reply comes, now or later. @command NULL: there is no such command. */
    void (*run)(struct client *c, const struct command *command, const struct argument *arguments,
                size_t count);
    const struct meter_kind *meter; /* its rows are commands; the last one is "unknown" */
};
#endif
