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
    bool hold, full, dry_run, restart, token, yes;
    uint64_t capacity;  /* 0: not given */
    uint64_t entries;   /* --count; 0: not given */
    const char *input;  /* --input; NULL: standard input */
    const char *output; /* --output; NULL: standard output */
    const char *csv;    /* --csv: a column; NULL: not given */
    uint64_t skip;      /* --skip: keys */
    bool resume, null, no_create;
    const char *error_rate; /* as given, checked; NULL: not given */
    const char *command;    /* its name */
    char **arguments;       /* after it */
    size_t count;
    bool terminal; /* standard output is one */
    bool color;
    struct client *client; /* connected before a handler is called */
};

/* Handlers: arity is checked and the connection open. They return an exit code and have said why if it is not
 * 0. */
typedef int cli_handler(struct cli *cli);
cli_handler cli_status, cli_history, cli_plan, cli_rebuild, cli_verify, cli_check, cli_add;
cli_handler cli_drop, cli_count;
cli_handler cli_passwd; /* without a connection */
cli_handler cli_dump, cli_restore, cli_import;
cli_handler cli_control; /* abort, cutover, rollback, finish, pause, resume, throttle */

/* Setters of options: false where the value is none. */
typedef bool cli_setter(struct cli *cli, const char *value);
cli_setter cli_set_host, cli_set_port, cli_set_url, cli_set_socket, cli_set_user, cli_set_password,
    cli_set_tls, cli_set_ca, cli_set_cert, cli_set_key, cli_set_token;

/* Say "twinbloom: ..." on standard error and return @code. */
int cli_fail(enum cli_exit code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Send TB.<VERB> [FILTER] with the options that were given. NULL after saying why it failed. */
redisReply *cli_request(struct cli *cli, const char *verb);

/* Send a command of @argc words. NULL after saying why it failed. */
redisReply *cli_send(struct cli *cli, size_t argc, const char **argv);

/* A flat list (or an array of them) as JSON object (or array), with a line's end, on standard output. */
void cli_print_json(const redisReply *reply);

/* {"filter": the first argument, @name: true}, or *@number where it is not NULL. */
void cli_print_outcome(const struct cli *cli, const char *name, const uint64_t *number);

/* The table of all filters, and the sheet of one. */
void cli_print_table(const struct cli *cli, const redisReply *filters);
void cli_print_sheet(const struct cli *cli, const redisReply *filter);
void cli_print_history(const struct cli *cli, const redisReply *runs);
void cli_print_plan(const struct cli *cli, const redisReply *plan);
/* The steps of a dry run. */
void cli_print_steps(const struct cli *cli, const redisReply *plan);

/* Follow the job that is another than the one of @before until it ends, or until it holds. @job: what it is
 * called, "rebuild" or "verification". */
int cli_follow(struct cli *cli, const char *job, const redisReply *before);
#endif
