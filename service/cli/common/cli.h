/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMMON_CLI_H
#define SERVICE_CLI_COMMON_CLI_H
/* What the parts of the command line share: the options of this run, exit codes, handlers. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "service/cli/common/cli_client.h"
#include "service/cli/common/cli_output.h"
#include "service/cli/common/cli_schema.h"

/* base/error.h says which error gives which of the codes 3 to 6. */
enum cli_exit {
    CLI_OK = 0, /* or the answer is yes */
    CLI_NO = 1,
    CLI_USAGE = 2,
    CLI_UNREACHABLE = 3,
    CLI_REFUSED = 4,
    CLI_FAILED = 5,
    CLI_RETRY = 6,
    CLI_INTERRUPTED = 130
};

/* Options of a plan without a service; 0 and NULL: not given. */
struct cli_estimate {
    uint64_t keys, node_memory, scan_rate, readers, build_memory;
    double growth;
    const char *given; /* name of one such option that was given */
};

/* Options of bench; 0 and NULL: not given. main() sets the defaults of adds, batch, pipeline, connections and
 * key_size. */
struct cli_bench {
    const char *filter;
    double adds; /* share of adds */
    double seconds;
    uint64_t keys, batch, pipeline, connections, requests, rate, key_size;
};

struct cli {
    struct client_address address;
    unsigned timeout_ms;
    bool json, help, version, wait;
    bool hold, full, dry_run, restart, token, yes;
    uint64_t capacity;  /* 0: not given */
    uint64_t entries;   /* --count; 0: not given */
    uint64_t expansion; /* --expansion; 0: not given */
    const char *input;  /* --input; NULL: standard input */
    const char *output; /* --output; NULL: standard output */
    const char *csv;    /* --csv: a column; NULL: not given */
    uint64_t skip;      /* --skip: keys */
    bool resume, null, no_create, nonscaling;
    bool man, markdown;     /* formats of help */
    const char *error_rate; /* as given, validated; NULL: not given */
    const char *nodes;      /* --nodes; NULL: not given */
    struct cli_estimate estimate;
    struct cli_bench bench;
    double interval;     /* between refreshes of top, seconds */
    const char *command; /* the command's name */
    char **arguments;    /* behind the command */
    size_t count;
    bool terminal; /* standard output is a terminal */
    bool color;
    struct client *client; /* connected before a handler runs */
    int failure;           /* exit code of the last request that failed */
};

/* Handlers of commands. The arity was checked and the connection is open. A handler returns an exit code, and
 * has reported the error if it is not 0. */
typedef int cli_handler(struct cli *cli);
/* Setters of options for the service's address and the user: false if the value is invalid. */
typedef bool cli_setter(struct cli *cli, const char *value);

/* Print "twinbloom: ..." to standard error, or {"error": {"code", "message"}} after cli_errors_as_json(), and
 * return the exit code. */
int cli_fail_as(enum cli_exit status, const char *code, const char *format, ...) PRINTF_LIKE(3, 4);
/* The code is that of @status in cli_codes.h; or code and exit code are those of base/error.h. */
#define cli_fail(status, ...) cli_fail_as(status, cli_code_of(status), __VA_ARGS__)
#define cli_fail_with(code, ...) cli_fail_as(cli_exit_of(code), error_name(code), __VA_ARGS__)
const char *cli_code_of(enum cli_exit status);
enum cli_exit cli_exit_of(enum err code);
void cli_errors_as_json(void);
/* Write the member "error" of an object. */
void cli_put_error(struct json *j, const char *code, const char *text);

/* Report that the reply to @command is not one that the service gives; sets cli->failure. Returns NULL. */
redisReply *cli_odd_reply(struct cli *cli, redisReply *reply, const char *command);

/* Send TB.<VERB> [FILTER] with the given options. NULL after an error message; cli->failure is then the exit
 * code. */
redisReply *cli_request(struct cli *cli, const char *verb);

/* As cli_request(), for a reply that is an array of flat lists. */
redisReply *cli_request_array(struct cli *cli, const char *verb);

/* Return @code. If the filter does not exist, or exists already, @e gets a text that names it. */
MUST_CHECK enum err cli_name_filter(const struct cli *cli, enum err code, struct error *e);

/* client_call() with cli_name_filter(), as RESP's own text names no filter. */
MUST_CHECK enum err cli_call(struct cli *cli, redisReply **out, size_t argc, const char **argv,
                             const size_t *lengths, struct error *e);

/* Send a command of @argc words. NULL as of cli_request(). */
redisReply *cli_send(struct cli *cli, size_t argc, const char **argv);

/* True if the reply is a flat list name, value, name, value. */
bool cli_is_list(const redisReply *reply);
/* True if the reply is an array of flat lists. */
bool cli_are_lists(const redisReply *reply);

/* Print a flat list as a JSON object (or an array of them as an array) with a newline, on standard output.
 * Members have the types of @shape; a member that it does not list is a number if it looks like one. */
void cli_print_json(const redisReply *reply, const char *shape);

/* Print {"filter": the first argument, @name: true}; with *@number as the value if @number is not NULL. */
void cli_print_outcome(const struct cli *cli, const char *name, const uint64_t *number);
#endif
