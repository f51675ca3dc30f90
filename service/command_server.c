/* SPDX-License-Identifier: MIT */
/* Server commands: COMMAND, INFO, TIME. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "service/command.h"
#include "service/worker.h"

static void lower_name(const struct command *command, char out[32])
{
    size_t n = strlen(command->name);
    for (size_t i = 0; i <= n; i++)
        out[i] = (char)tolower((unsigned char)command->name[i]);
}

static void describe(struct reply *r, const struct command *command)
{
    char name[32];
    lower_name(command, name);
    reply_array(r, 6);
    reply_text(r, name);
    reply_integer(r, command->arity);
    reply_array(r, 1);
    reply_simple(r, (command->flags & COMMAND_WRITE) != 0 ? "write" : "readonly");
    reply_integer(r, command->keys.first);
    reply_integer(r, command->keys.last);
    reply_integer(r, command->keys.step);
}

static void document(struct reply *r, const struct command *command)
{
    char name[32];
    lower_name(command, name);
    reply_text(r, name);
    reply_map(r, 4);
    reply_text(r, "summary");
    reply_text(r, command->summary);
    reply_text(r, "since");
    reply_text(r, "0.1.0");
    reply_text(r, "group");
    reply_text(r, command->group);
    reply_text(r, "complexity");
    reply_text(r, "O(layers) a key");
}

static void list_some(struct reply *r, const struct argument *names, size_t count)
{
    reply_array(r, count);
    for (size_t i = 0; i < count; i++) {
        const struct command *command = command_find(names[i].bytes, names[i].length);
        if (command == NULL)
            reply_null(r);
        else
            describe(r, command);
    }
}

static void document_some(struct reply *r, const struct argument *names, size_t count)
{
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        known += command_find(names[i].bytes, names[i].length) != NULL;
    reply_map(r, count == 0 ? command_count : known);
    for (size_t i = 0; count == 0 && i < command_count; i++)
        document(r, &command_table[i]);
    for (size_t i = 0; i < count; i++)
        if (command_find(names[i].bytes, names[i].length) != NULL)
            document(r, command_find(names[i].bytes, names[i].length));
}

void command_command(struct client *c, const struct argument *a, size_t count)
{
    struct reply r = client_reply_begin(c);
    if (count == 1 || (argument_is(&a[1], "INFO") && count == 2)) {
        reply_array(&r, command_count);
        for (size_t i = 0; i < command_count; i++)
            describe(&r, &command_table[i]);
    } else if (argument_is(&a[1], "COUNT")) {
        reply_integer(&r, (int64_t)command_count);
    } else if (argument_is(&a[1], "INFO")) {
        list_some(&r, a + 2, count - 2);
    } else if (argument_is(&a[1], "DOCS")) {
        document_some(&r, a + 2, count - 2);
    } else {
        reply_error(&r, "ERR unknown subcommand '%.*s'. Try COMMAND HELP.",
                    (int)(a[1].length < 64 ? a[1].length : 64), a[1].bytes);
    }
    client_reply_end(c);
}

void command_info(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    struct service *s = c->worker->service;
    const struct config *config = live_config_acquire(s->config);
    uint64_t max_clients = config->max_clients;
    config_release(config);
    struct reply r = client_reply_begin(c);
    reply_printf(
        &r,
        "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\ntwinbloom_version:%s\r\n"
        "process_id:%d\r\nuptime_in_seconds:%" PRIu64 "\r\ncoordinator:%s\r\n\r\n"
        "# Clients\r\nconnected_clients:%u\r\nmaxclients:%" PRIu64 "\r\n\r\n"
        "# Persistence\r\nloading:0\r\n\r\n"
        "# Stats\r\ntotal_connections_received:%" PRIuFAST64 "\r\ntotal_commands_processed:%" PRIuFAST64
        "\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"
        "# Cluster\r\ncluster_enabled:0\r\n",
        TWINBLOOM_VERSION, (int)getpid(), (clock_mono_us() - s->started_us) / 1000000, s->owner,
        atomic_load(&s->clients), max_clients, atomic_load(&s->connections), atomic_load(&s->commands));
    client_reply_end(c);
}

void command_time(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    uint64_t now = clock_wall_us();
    struct reply r = client_reply_begin(c);
    reply_array(&r, 2);
    reply_printf(&r, "%" PRIu64, now / 1000000);
    reply_printf(&r, "%" PRIu64, now % 1000000);
    client_reply_end(c);
}
