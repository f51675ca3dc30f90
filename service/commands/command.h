/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_COMMANDS_COMMAND_H
#define SERVICE_COMMANDS_COMMAND_H
/* The command table: name, arity, flags, handler, summary, keys. Only the dispatcher checks arity, login and
 * rights. No handler parses RESP or uses sockets. */
#include <stdbool.h>
#include <stddef.h>
#include "service/resp/client.h"
#include "service/resp/command_set.h"

enum command_flag {
    COMMAND_ALONE = 1,   /* starts when everything before it is answered; see client_call_admin() */
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

struct command {
    const char *name; /* upper case */
    int arity;        /* counted as Redis counts: with the name; negative: at least */
    unsigned flags;
    command_fn *run;
    const char *summary;
    const char *group;
    struct command_keys keys;
};

extern const struct command command_table[];
extern const size_t command_count;
/* Used by workers. The rows of their meters are the commands, in the order of the table. */
extern const struct command_set command_set;

/* Subcommands that need another role than their command, or that errors name. */
struct subcommand {
    const char *command, *word, *name;
    unsigned flag;
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
enum { COMMAND_BF_VERSION = 20600 }; /* the version of RedisBloom that clients are told */

/* True if the command takes @count arguments, the name included. */
bool command_fits(const struct command *command, size_t count);

/* How many bytes of an argument an error repeats; a precision for "%.*s". */
int command_shown(size_t length);

void command_ok(struct client *c);
/* Reply with an array of @count lines. */
void command_print_lines(struct client *c, const char *const *lines, size_t count);

/* Copy a name for the connection to @out. False: the name is invalid, and the error was sent. */
MUST_CHECK bool command_read_name(struct client *c, char *out, size_t size, const struct argument *name);

/* Does what DISCARD does. */
void command_drop_transaction(struct client *c);

/* --- handlers, by file --- */
command_fn command_bf_reserve, command_bf_add, command_bf_madd, command_bf_insert, command_bf_exists,
    command_bf_mexists, command_bf_card, command_bf_info, command_bf_debug, command_bf_scandump,
    command_bf_loadchunk;
command_fn command_tb_init, command_tb_madd, command_tb_mexists, command_tb_count;
command_fn command_del, command_exists, command_type, command_scan, command_keys, command_dbsize,
    command_randomkey, command_memory, command_expire, command_pexpire, command_expireat, command_pexpireat,
    command_persist, command_ttl, command_pttl, command_expiretime, command_pexpiretime;
command_fn command_tb_status, command_tb_history, command_tb_plan, command_tb_rebuild, command_tb_verify,
    command_tb_abort, command_tb_accept, command_tb_cutover, command_tb_rollback, command_tb_finish,
    command_tb_pause, command_tb_resume, command_tb_throttle, command_tb_load, command_tb_coordinators,
    command_tb_nodes, command_tb_doctor;
command_fn command_ping, command_echo, command_quit, command_hello, command_auth, command_acl, command_select,
    command_reset, command_client, command_command, command_config, command_info, command_multi, command_exec,
    command_discard, command_watch, command_unwatch, command_time, command_module;
#endif
