/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_H
#define SERVICE_CLI_H
/* What the parts of the command line share: the options of this run, its exit codes, its handlers. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "service/cli_client.h"
#include "service/cli_output.h"

enum cli_exit { CLI_OK = 0, CLI_NO = 1, CLI_USAGE = 2, CLI_UNAVAILABLE = 3, CLI_INTERRUPTED = 130 };

struct cli {
    struct client_address address;
    unsigned timeout_ms;
    bool json, help, version, wait;
    uint64_t capacity;      /* 0: not given */
    uint64_t entries;       /* --count; 0: not given */
    const char *error_rate; /* as given, checked; NULL: not given */
    char **arguments;       /* after the command's name */
    size_t count;
    bool terminal; /* standard output is one */
    bool color;
    struct client *client; /* connected before a handler is called */
};

/* Handlers: arity is checked and the connection open. They return an exit code and have said why if it is not
 * 0. */
typedef int cli_handler(struct cli *cli);
cli_handler cli_status, cli_history, cli_plan, cli_rebuild, cli_abort, cli_check, cli_add;

/* Say "twinbloom: ..." on standard error and return @code. */
int cli_fail(enum cli_exit code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Send TB.<VERB> [FILTER] with --capacity, --error-rate and --count where given. NULL after saying why it
 * failed. */
redisReply *cli_request(struct cli *cli, const char *verb);

/* A flat list (or an array of them) as JSON object (or array), with a line's end, on standard output. */
void cli_print_json(const redisReply *reply);

/* The table of all filters, and the sheet of one. */
void cli_print_table(const struct cli *cli, const redisReply *filters);
void cli_print_sheet(const struct cli *cli, const redisReply *filter);
void cli_print_history(const struct cli *cli, const redisReply *runs);
void cli_print_plan(const struct cli *cli, const redisReply *plan);

/* rebuild --wait: follow the job that is another than the one of @before until it ends. */
int cli_follow(struct cli *cli, const redisReply *before);
#endif
