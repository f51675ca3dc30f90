/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_H
#define SERVICE_CLI_H
/* What the parts of the command line share: the options of this run, its exit codes, what is asked. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "service/cli/common/cli_client.h"
#include "service/cli/common/cli_output.h"
#include "service/cli/common/cli_schema.h"

/* base/error.h says which error leads to which of 3 to 6. */
enum cli_exit {
    CLI_OK = 0, /* yes */
    CLI_NO = 1,
    CLI_USAGE = 2,
    CLI_UNREACHABLE = 3,
    CLI_REFUSED = 4,
    CLI_FAILED = 5,
    CLI_RETRY = 6,
    CLI_INTERRUPTED = 130
};

/* For a plan without a service; 0 and NULL: not given. */
struct cli_estimate {
    uint64_t keys, node_memory, scan_rate, readers, build_memory;
    double growth;
    const char *given; /* one of these options that was */
};

/* For bench; 0 and NULL: not given. */
struct cli_bench {
    const char *filter;
    double adds; /* their share; below 0: not given */
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
    bool man, markdown;     /* forms of help */
    const char *error_rate; /* as given, checked; NULL: not given */
    const char *nodes;      /* --nodes; NULL: not given */
    struct cli_estimate estimate;
    struct cli_bench bench;
    double interval;     /* of top, seconds */
    const char *command; /* its name */
    char **arguments;    /* after it */
    size_t count;
    bool terminal; /* standard output is one */
    bool color;
    struct client *client; /* connected before a handler is called */
    int failure;           /* exit code of the last request that failed */
};

/* A handler: arity is checked and the connection open. It returns an exit code and has said why if that is
 * not 0. */
typedef int cli_handler(struct cli *cli);
/* Setters of options that say where the service is, and who asks: false where the value is none. */
typedef bool cli_setter(struct cli *cli, const char *value);

/* Say "twinbloom: ..." on standard error, or {"error": {"code", "message"}} after cli_errors_as_json(), and
 * return the exit code. cli_fail(): the code is that of @status in cli_codes.h. */
int cli_fail(enum cli_exit status, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same with code and exit code of base/error.h. */
int cli_fail_with(enum err code, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same with a code that has another exit code here. */
int cli_fail_as(enum cli_exit status, const char *code, const char *format, ...) PRINTF_LIKE(3, 4);
enum cli_exit cli_exit_of(enum err code);
void cli_errors_as_json(void);
/* The member "error" of an object. */
void cli_put_error(struct json *j, const char *code, const char *text);

/* NULL, after saying that the reply to @command is none that the service gives; cli->failure is set. */
redisReply *cli_odd_reply(struct cli *cli, redisReply *reply, const char *command);

/* Send TB.<VERB> [FILTER] with the options that were given. NULL after saying why it failed; cli->failure is
 * the exit code then. */
redisReply *cli_request(struct cli *cli, const char *verb);

/* The same for a reply that is an array of flat lists. */
redisReply *cli_request_array(struct cli *cli, const char *verb);

/* @code, with a text in @e that names the filter where it does not exist, or exists already. */
MUST_CHECK enum err cli_name_filter(const struct cli *cli, enum err code, struct error *e);

/* client_call() whose error names the filter that does not exist, or exists already, where RESP has but few
 * words. */
MUST_CHECK enum err cli_call(struct cli *cli, redisReply **out, size_t argc, const char **argv,
                             const size_t *lengths, struct error *e);

/* Send a command of @argc words. NULL as with cli_request(). */
redisReply *cli_send(struct cli *cli, size_t argc, const char **argv);

/* Whether a reply is a flat list name, value, name, value. */
bool cli_is_list(const redisReply *reply);
/* Whether it is an array of these. */
bool cli_are_lists(const redisReply *reply);

/* A flat list (or an array of them) as JSON object (or array), with a line's end, on standard output. Members
 * have the types of @shape; one that it does not list is a number where it looks like one. */
void cli_print_json(const redisReply *reply, const char *shape);

/* {"filter": the first argument, @name: true}, or *@number where it is not NULL. */
void cli_print_outcome(const struct cli *cli, const char *name, const uint64_t *number);
#endif
