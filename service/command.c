/* SPDX-License-Identifier: MIT */
#include "service/command.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "service/users.h"
#include "service/worker.h"

const struct command command_table[] = {
    {"BF.RESERVE", -4, COMMAND_ALONE | COMMAND_WRITE, command_bf_reserve, "Creates an empty filter", "bf",
     KEYS_FIRST},
    {"BF.ADD", 3, COMMAND_WRITE, command_bf_add, "Adds an item", "bf", KEYS_FIRST},
    {"BF.MADD", -3, COMMAND_WRITE, command_bf_madd, "Adds items", "bf", KEYS_FIRST},
    {"BF.INSERT", -4, COMMAND_WRITE, command_bf_insert, "Adds items; creates the filter as told", "bf",
     KEYS_FIRST},
    {"BF.EXISTS", 3, COMMAND_READ, command_bf_exists, "Tells whether an item may have been added", "bf",
     KEYS_FIRST},
    {"BF.MEXISTS", -3, COMMAND_READ, command_bf_mexists,
     "Tells of several items whether they may have been added", "bf", KEYS_FIRST},
    {"BF.CARD", 2, COMMAND_ALONE | COMMAND_READ, command_bf_card, "Number of items that were added", "bf",
     KEYS_FIRST},
    {"BF.INFO", -2, COMMAND_ALONE | COMMAND_READ, command_bf_info, "Capacity, size, items of a filter", "bf",
     KEYS_FIRST},
    {"TB.STATUS", -1, COMMAND_ALONE | COMMAND_READ, command_tb_status, "State of a filter, or of all",
     "twinbloom", KEYS_FIRST},
    {"TB.HISTORY", -2, COMMAND_ALONE | COMMAND_READ, command_tb_history,
     "The last runs of a filter's expansions", "twinbloom", KEYS_FIRST},
    {"TB.PLAN", -2, COMMAND_ALONE | COMMAND_READ, command_tb_plan, "What an expansion would make and need",
     "twinbloom", KEYS_FIRST},
    {"TB.REBUILD", -2, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_rebuild,
     "Starts an expansion", "twinbloom", KEYS_FIRST},
    {"TB.VERIFY", -2, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_verify,
     "Looks up keys of the source in the generation in use", "twinbloom", KEYS_FIRST},
    {"TB.CUTOVER", 2, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_cutover,
     "Lets an expansion that holds switch to its generation", "twinbloom", KEYS_FIRST},
    {"TB.ROLLBACK", 2, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_rollback,
     "Switches back to the generation before, within the grace time", "twinbloom", KEYS_FIRST},
    {"TB.FINISH", 2, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_finish, "Ends the grace time",
     "twinbloom", KEYS_FIRST},
    {"TB.ABORT", 2, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_abort,
     "Aborts a running expansion", "twinbloom", KEYS_FIRST},
    {"TB.PAUSE", 2, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_pause,
     "Pauses a running expansion", "twinbloom", KEYS_FIRST},
    {"TB.RESUME", 2, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_resume, "Lets it go on",
     "twinbloom", KEYS_FIRST},
    {"TB.THROTTLE", 3, COMMAND_ALONE | COMMAND_WRITE | COMMAND_ADMIN, command_tb_throttle,
     "Bounds the rows a second that an expansion reads; 0: no bound", "twinbloom", KEYS_FIRST},
    {"PING", -1, COMMAND_FREE, command_ping, "Answers", "connection", KEYS_NONE},
    {"ECHO", 2, COMMAND_FREE, command_echo, "Returns its argument", "connection", KEYS_NONE},
    {"QUIT", -1, COMMAND_NO_AUTH | COMMAND_NOW | COMMAND_FREE, command_quit, "Closes the connection",
     "connection", KEYS_NONE},
    {"HELLO", -1, COMMAND_NO_AUTH | COMMAND_NOW | COMMAND_ALONE | COMMAND_FREE, command_hello,
     "Chooses the protocol, logs in", "connection", KEYS_NONE},
    {"AUTH", -2, COMMAND_NO_AUTH | COMMAND_NOW | COMMAND_ALONE | COMMAND_FREE, command_auth, "Logs in",
     "connection", KEYS_NONE},
    {"ACL", -2, COMMAND_FREE, command_acl, "WHOAMI", "connection", KEYS_NONE},
    {"SELECT", 2, COMMAND_FREE, command_select, "Database 0 is the only one", "connection", KEYS_NONE},
    {"RESET", 1, COMMAND_NO_AUTH | COMMAND_NOW | COMMAND_ALONE | COMMAND_FREE, command_reset,
     "Back to how the connection began", "connection", KEYS_NONE},
    {"CLIENT", -2, COMMAND_FREE, command_client, "SETNAME, GETNAME, ID, SETINFO, INFO", "connection",
     KEYS_NONE},
    {"COMMAND", -1, COMMAND_FREE, command_command, "Lists commands", "server", KEYS_NONE},
    {"CONFIG", -2, COMMAND_ADMIN, command_config, "GET, SET, HELP", "server", KEYS_NONE},
    {"INFO", -1, COMMAND_FREE, command_info, "State of this coordinator", "server", KEYS_NONE},
    {"TIME", 1, COMMAND_FREE, command_time, "Wall clock", "server", KEYS_NONE},
    {"MULTI", 1, COMMAND_NOW | COMMAND_FREE, command_multi, "Begins a transaction", "transactions",
     KEYS_NONE},
    {"EXEC", 1, COMMAND_NOW | COMMAND_FREE, command_exec, "Runs the commands of a transaction in order",
     "transactions", KEYS_NONE},
    {"DISCARD", 1, COMMAND_NOW | COMMAND_FREE, command_discard, "Drops a transaction", "transactions",
     KEYS_NONE},
};
const size_t command_count = sizeof(command_table) / sizeof(command_table[0]);

/* Subcommands that errors name, as Redis's do, and that may be for other users than their command. */
static const struct subcommand {
    const char *command, *word, *name;
    unsigned flag;
} subcommands[] = {
    {"CLIENT", "LIST", "client|list", COMMAND_ADMIN},
    {"CLIENT", "KILL", "client|kill", COMMAND_ADMIN},
    {"CLIENT", "PAUSE", "client|pause", COMMAND_ADMIN},
    {"CLIENT", "UNPAUSE", "client|unpause", COMMAND_ADMIN},
    {"CONFIG", "GET", "config|get", COMMAND_ADMIN},
    {"CONFIG", "SET", "config|set", COMMAND_ADMIN},
    {"CONFIG", "REWRITE", "config|rewrite", COMMAND_ADMIN},
    {"CONFIG", "HELP", "config|help", COMMAND_FREE},
};

bool argument_is(const struct argument *a, const char *word)
{
    return a->length == strlen(word) && strncasecmp(a->bytes, word, a->length) == 0;
}

const struct command *command_find(const char *name, size_t length)
{
    const struct argument a = {.bytes = name, .length = length};
    for (size_t i = 0; i < command_count; i++)
        if (argument_is(&a, command_table[i].name))
            return &command_table[i];
    return NULL;
}

bool command_runs_alone(const struct argument *arguments, size_t count)
{
    const struct command *command = count == 0 ? NULL : command_find(arguments[0].bytes, arguments[0].length);
    return command != NULL && (command->flags & COMMAND_ALONE) != 0;
}

static void unknown_command(struct client *c, const struct argument *arguments, size_t count)
{
    char shown[160];
    size_t n = 0;
    for (size_t i = 1; i < count && n < 128; i++) {
        size_t length = arguments[i].length < 128 - n ? arguments[i].length : 128 - n;
        shown[n++] = '\'';
        memcpy(shown + n, arguments[i].bytes, length);
        n += length;
        shown[n++] = '\'';
        shown[n++] = ' ';
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)shown[i] < ' ')
            shown[i] = ' ';
    client_error(c, "ERR unknown command '%.*s', with args beginning with: %.*s",
                 (int)(arguments[0].length < 128 ? arguments[0].length : 128), arguments[0].bytes, (int)n,
                 shown);
}

static bool arity_is_right(const struct command *command, size_t count)
{
    return command->arity >= 0 ? count == (size_t)command->arity : count >= (size_t)-command->arity;
}

static void lower_case(const char *name, char out[32])
{
    size_t n = strlen(name);
    for (size_t i = 0; i <= n; i++)
        out[i] = (char)tolower((unsigned char)name[i]);
}

static void wrong_arity(struct client *c, const struct command *command)
{
    char lower[32];
    lower_case(command->name, lower);
    client_error(c, "ERR wrong number of arguments for '%s' command", lower);
}

static unsigned role_of(unsigned flags)
{
    if ((flags & COMMAND_ADMIN) != 0)
        return ROLE_ADMIN;
    if ((flags & COMMAND_WRITE) != 0)
        return ROLE_WRITE;
    if ((flags & COMMAND_READ) != 0)
        return ROLE_READ;
    return (flags & COMMAND_FREE) != 0 ? 0 : ROLE_ADMIN;
}

static const struct subcommand *subcommand_find(const struct command *command,
                                                const struct argument *arguments, size_t count)
{
    for (size_t i = 0; count > 1 && i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
        if (strcmp(subcommands[i].command, command->name) == 0 &&
            argument_is(&arguments[1], subcommands[i].word))
            return &subcommands[i];
    return NULL;
}

unsigned command_role(const struct command *command, const struct argument *arguments, size_t count)
{
    const struct subcommand *sub = subcommand_find(command, arguments, count);
    return role_of(sub != NULL ? sub->flag : command->flags);
}

static bool may_keys(const struct config_user *user, const struct command_keys *keys,
                     const struct argument *arguments, size_t count)
{
    if (keys->first == 0 || user_may_all_filters(user))
        return true;
    int last = keys->last < 0 ? (int)count + keys->last : keys->last;
    for (int i = keys->first; i <= last && i < (int)count; i += keys->step)
        if (!user_may_filter(user, arguments[i].bytes, arguments[i].length))
            return false;
    return true;
}

/* False: it was answered why not. */
static bool may_run(struct client *c, const struct command *command, const struct argument *arguments,
                    size_t count)
{
    const struct config_user *user = c->session.rights;
    if ((command->flags & COMMAND_NO_AUTH) != 0)
        return true;
    unsigned role = command_role(command, arguments, count);
    if ((user->roles & role) != role) {
        const struct subcommand *sub = subcommand_find(command, arguments, count);
        char lower[32];
        lower_case(command->name, lower);
        client_error(c, "NOPERM this user has no permissions to run the '%s' command",
                     sub != NULL ? sub->name : lower);
        return false;
    }
    if (!may_keys(user, &command->keys, arguments, count)) {
        client_error(c, "NOPERM this user has no permissions to access one of the keys used as arguments");
        return false;
    }
    return true;
}

void command_run(struct client *c, const struct argument *arguments, size_t count)
{
    const struct command *command = command_find(arguments[0].bytes, arguments[0].length);
    worker_sync(c->worker); /* rights that were taken away are so at once */
    if ((command == NULL || (command->flags & COMMAND_NO_AUTH) == 0) && client_needs_login(c)) {
        client_error(c, "NOAUTH Authentication required.");
        return;
    }
    if (command == NULL || !arity_is_right(command, count)) {
        c->transaction_failed = c->in_transaction;
        if (command == NULL)
            unknown_command(c, arguments, count);
        else
            wrong_arity(c, command);
        return;
    }
    if (!may_run(c, command, arguments, count)) {
        c->transaction_failed = c->in_transaction;
        return;
    }
    if (c->in_transaction && (command->flags & COMMAND_NOW) == 0) {
        struct reply r = client_reply_begin(c);
        if (client_queue_command(&c->transaction, arguments, count)) {
            c->transaction_count++;
            reply_simple(&r, "QUEUED");
        } else {
            reply_error(&r, "OOM out of memory");
        }
        client_reply_end(c);
        return;
    }
    command->run(c, arguments, count);
}
