/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_COMMANDS_COMMAND_H
#define SERVICE_COMMANDS_COMMAND_H
/* The command table. Only the dispatcher checks arity, login and rights. A command has a handler, or the
 * admin thread runs it, or it checks or adds keys. No handler parses RESP or uses sockets. */
#include <stdbool.h>
#include <stddef.h>
#include "service/admin/admin.h"
#include "service/resp/client.h"
#include "service/resp/command_set.h"

enum command_flag {
    COMMAND_ALONE = 1,   /* starts when everything before it is answered, as do those with @fn */
    COMMAND_NO_AUTH = 2, /* allowed before login */
    COMMAND_WRITE = 4,   /* for users that may write, unless COMMAND_ADMIN */
    COMMAND_NOW = 8,     /* runs at once, even inside MULTI */
    COMMAND_READ = 16,   /* for users that may read */
    COMMAND_FREE = 32,   /* allowed for every user */
    COMMAND_ADMIN = 64   /* for administrators; this is also the default without a role */
};

/* Which arguments name filters, counted as Redis counts: the first, the last (negative: from the end), the
 * step. */
struct command_keys {
    int first, last, step;
};
/* clang-format off */
#define KEYS_NONE  {0, 0, 0}
#define KEYS_FIRST {1, 1, 1}
#define KEYS_SECOND {2, 2, 1} /* for subcommands */
#define KEYS_ALL   {1, -1, 1}
/* clang-format on */

typedef void command_fn(struct client *c, const struct argument *arguments, size_t count);

/* A command as a client sent it. */
struct command_words {
    const struct config_user *user;
    const struct command *command;
    const struct argument *a;
    size_t count;
};

/* Read the arguments behind the filter's name into @call. Returns NULL, or the error, which may lie in
 * call->error. */
typedef const char *command_take_fn(const struct command_words *w, struct admin_call *call);

struct command {
    const char *name; /* upper case */
    int arity;        /* counted as Redis counts: with the name; negative: at least */
    unsigned flags;
    const char *summary;
    const char *group;
    struct command_keys keys;
    const char *arguments; /* as users write them, see command_docs.c; "": none */
    /* One of both is set; neither: the command checks or adds the keys behind the filter's name, and @value
     * is the enum reply_shape. */
    command_fn *run;
    admin_fn *fn;
    command_take_fn *take; /* for @fn; NULL: there are no arguments behind the filter's name */
    unsigned value;        /* for @fn: the call's flags at first */
    unsigned most;         /* with the name; 0: see @arity */
};

/* Values of commands with command_take_job(): what they take. */
enum { WITH_SIZES = 1, WITH_HOLD = 2, WITH_VERIFY = 4 };

extern const struct command command_table[];
extern const size_t command_count;
/* Used by workers. The rows of their meters are the commands, in the order of the table. */
extern const struct command_set command_set;

/* Subcommands, which may need another role than their command. */
struct subcommand {
    const char *command, *word;
    const char *name; /* in errors, as Redis has it */
    unsigned flag;
    size_t least, most;      /* number of arguments, the command's name included; most 0: no limit */
    command_fn *run;         /* NULL: it is not offered */
    const char *form, *help; /* for HELP, in this order; NULL: it is not there */
};
extern const struct subcommand command_subcommands[];
extern const size_t command_subcommand_count;

/* NULL: there is no such command. */
const struct command *command_find(const char *name, size_t length);

/* The role that a user needs for the command, or for the subcommand that @arguments name; 0: none. */
unsigned command_role(const struct command *command, const struct argument *arguments, size_t count);

/* The role that a command's @flags stand for; 0: every user. */
unsigned command_role_of(unsigned flags);

/* The version of Redis that clients are told. */
#define COMMAND_REDIS_VERSION "7.0.0"
#define COMMAND_BF_VERSION "20600" /* the version of RedisBloom that clients are told */

/* True if the command takes @count arguments, the name included. */
bool command_fits(const struct command *command, size_t count);

/* The name in lower case. */
void command_lower(const struct command *command, char out[32]);

/* How many bytes of an argument an error repeats; a precision for "%.*s". */
int command_shown(size_t length);

void command_ok(struct client *c);

/* Copy a name for the connection to @out. False: the name is invalid, and the error was sent. */
MUST_CHECK bool command_read_name(struct client *c, char *out, size_t size, const struct argument *name);

/* Write name and map of one command, for COMMAND DOCS. redis-cli makes its hints and its help from them. */
void command_document(struct reply *r, const struct command *command);

/* --- handlers, by file --- */
command_fn command_bf_insert;
command_take_fn command_take_creation, command_take_field, command_take_position, command_take_chunk;
command_take_fn command_take_names, command_take_scan, command_take_usage, command_take_expiry;
command_take_fn command_take_nodes, command_take_doctor, command_take_history, command_take_job,
    command_take_request;
command_fn command_ping, command_echo, command_quit, command_hello, command_auth, command_acl_whoami,
    command_select, command_reset, command_sub, command_command, command_info, command_multi, command_exec,
    command_discard, command_watch, command_unwatch, command_master, command_time, command_module;
command_fn command_client_getname, command_client_id, command_client_info, command_client_kill,
    command_client_list, command_client_on_off, command_client_reply, command_client_setinfo,
    command_client_setname, command_client_tracking;
command_fn command_config_get, command_config_set, command_config_rewrite;
command_fn command_count_all, command_getkeys, command_help, command_describe, command_list;
#endif
