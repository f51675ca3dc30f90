/* SPDX-License-Identifier: MIT */
#include "service/commands/command.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include "base/log.h"
#include "service/config/users.h"
#include "service/resp/worker.h"

const struct command command_table[] = {
    {"BF.RESERVE", -4, COMMAND_WRITE, "Creates an empty filter", "bf", KEYS_FIRST,
     "filter error_rate capacity [EXPANSION expansion] [NONSCALING]", .fn = admin_reserve,
     .take = command_take_creation, .most = 7},
    {"BF.ADD", 3, COMMAND_WRITE, "Adds a key", "bf", KEYS_FIRST, "filter key", .value = REPLY_ONE},
    {"BF.MADD", -3, COMMAND_WRITE, "Adds keys", "bf", KEYS_FIRST, "filter key...", .value = REPLY_ARRAY},
    {"BF.INSERT", -4, COMMAND_WRITE, "Adds keys; creates the filter if it does not exist, as told", "bf",
     KEYS_FIRST,
     "filter [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING] ITEMS key...",
     .run = command_bf_insert},
    {"BF.EXISTS", 3, COMMAND_READ, "Checks a key: 0 is certainly absent, 1 is maybe present", "bf",
     KEYS_FIRST, "filter key", .value = REPLY_ONE},
    {"BF.MEXISTS", -3, COMMAND_READ, "Checks several keys", "bf", KEYS_FIRST, "filter key...",
     .value = REPLY_ARRAY},
    {"BF.CARD", 2, COMMAND_READ, "Number of keys that were added", "bf", KEYS_FIRST, "filter",
     .fn = admin_card},
    {"BF.INFO", -2, COMMAND_READ, "Capacity, size and keys of a filter", "bf", KEYS_FIRST,
     "filter [CAPACITY|SIZE|FILTERS|ITEMS|EXPANSION]", .fn = admin_info, .take = command_take_field,
     .most = 3},
    {"BF.SCANDUMP", 3, COMMAND_ADMIN, "Returns the next piece of a filter's dump", "bf", KEYS_FIRST,
     "filter iterator", .fn = admin_scandump, .take = command_take_position},
    {"BF.LOADCHUNK", 4, COMMAND_WRITE,
     "Loads a piece of a dump; the filter can be used when all pieces have arrived", "bf", KEYS_FIRST,
     "filter iterator data", .fn = admin_loadchunk, .take = command_take_chunk},
    {"TB.LOAD", 2, COMMAND_READ, "Tells which pieces of a dump have arrived", "twinbloom", KEYS_FIRST,
     "filter", .fn = admin_load_status},
    {"BF.DEBUG", 2, COMMAND_READ, "Size and layers of a filter", "bf", KEYS_FIRST, "filter",
     .fn = admin_debug},
    {"TB.INIT", -4, COMMAND_WRITE, "Creates an empty filter if it does not exist", "twinbloom", KEYS_FIRST,
     "filter error_rate capacity [EXPANSION expansion] [NONSCALING]", .fn = admin_init,
     .take = command_take_creation, .most = 7},
    {"TB.MADD", -3, COMMAND_WRITE, "Adds keys; tells how many were new", "twinbloom", KEYS_FIRST,
     "filter key...", .value = REPLY_COUNT},
    {"TB.MEXISTS", -3, COMMAND_READ, "Checks keys; tells how many are maybe present", "twinbloom", KEYS_FIRST,
     "filter key...", .value = REPLY_COUNT},
    {"TB.COUNT", 2, COMMAND_READ, "Number of keys, estimated from the bits", "twinbloom", KEYS_FIRST,
     "filter", .fn = admin_count},
    {"DEL", -2, COMMAND_WRITE, "Deletes filters", "keyspace", KEYS_ALL, "filter...", .fn = admin_drop,
     .take = command_take_names},
    {"UNLINK", -2, COMMAND_WRITE, "Deletes filters", "keyspace", KEYS_ALL, "filter...", .fn = admin_drop,
     .take = command_take_names},
    {"EXISTS", -2, COMMAND_READ, "Tells how many of the names are filters", "keyspace", KEYS_ALL, "filter...",
     .fn = admin_exists, .take = command_take_names},
    {"TYPE", 2, COMMAND_READ, "MBbloom-- for a filter", "keyspace", KEYS_FIRST, "filter", .fn = admin_type},
    {"SCAN", -2, COMMAND_READ, "Names of filters, a few at a time", "keyspace", KEYS_NONE,
     "cursor [MATCH pattern] [COUNT count] [TYPE type]", .fn = admin_scan, .take = command_take_scan},
    {"KEYS", 2, COMMAND_READ, "Names of filters that match a pattern", "keyspace", KEYS_NONE, "pattern",
     .fn = admin_list},
    {"DBSIZE", 1, COMMAND_READ, "Number of filters", "keyspace", KEYS_NONE, "", .fn = admin_list,
     .value = LIST_COUNT},
    {"RANDOMKEY", 1, COMMAND_READ, "The name of a random filter", "keyspace", KEYS_NONE, "", .fn = admin_list,
     .value = LIST_ANY},
    {"MEMORY", -3, COMMAND_READ, "USAGE: bytes that a filter takes in Redis", "keyspace", KEYS_SECOND,
     "subcommand filter [SAMPLES count]", .fn = admin_usage, .take = command_take_usage},
    {"EXPIRE", -3, COMMAND_WRITE, "Deletes a filter after some seconds", "keyspace", KEYS_FIRST,
     "filter seconds [NX|XX|GT|LT]", .fn = admin_expire, .take = command_take_expiry, .value = TTL_SECONDS},
    {"PEXPIRE", -3, COMMAND_WRITE, "The same in milliseconds", "keyspace", KEYS_FIRST,
     "filter milliseconds [NX|XX|GT|LT]", .fn = admin_expire, .take = command_take_expiry},
    {"EXPIREAT", -3, COMMAND_WRITE, "Deletes a filter at a time", "keyspace", KEYS_FIRST,
     "filter unix_time_seconds [NX|XX|GT|LT]", .fn = admin_expire, .take = command_take_expiry,
     .value = TTL_SECONDS | TTL_ABSOLUTE},
    {"PEXPIREAT", -3, COMMAND_WRITE, "The same in milliseconds", "keyspace", KEYS_FIRST,
     "filter unix_time_milliseconds [NX|XX|GT|LT]", .fn = admin_expire, .take = command_take_expiry,
     .value = TTL_ABSOLUTE},
    {"PERSIST", 2, COMMAND_WRITE, "Removes the expiry of a filter", "keyspace", KEYS_FIRST, "filter",
     .fn = admin_expire},
    {"TTL", 2, COMMAND_READ, "Seconds until a filter is deleted", "keyspace", KEYS_FIRST, "filter",
     .fn = admin_ttl, .value = TTL_SECONDS},
    {"PTTL", 2, COMMAND_READ, "The same in milliseconds", "keyspace", KEYS_FIRST, "filter", .fn = admin_ttl},
    {"EXPIRETIME", 2, COMMAND_READ, "When a filter is deleted", "keyspace", KEYS_FIRST, "filter",
     .fn = admin_ttl, .value = TTL_SECONDS | TTL_ABSOLUTE},
    {"PEXPIRETIME", 2, COMMAND_READ, "The same in milliseconds", "keyspace", KEYS_FIRST, "filter",
     .fn = admin_ttl, .value = TTL_ABSOLUTE},
    {"TB.STATUS", -1, COMMAND_READ, "State of a filter, or of all", "twinbloom", KEYS_FIRST, "[filter]",
     .fn = admin_status, .most = 2},
    {"TB.COORDINATORS", -1, COMMAND_READ, "All coordinators, and which epoch of a filter each serves",
     "twinbloom", KEYS_FIRST, "[filter]", .fn = admin_coordinators, .most = 2},
    {"TB.NODES", 1, COMMAND_READ, "The Redis nodes: state, version and memory of each", "twinbloom",
     KEYS_NONE, "", .fn = admin_nodes, .take = command_take_nodes},
    {"TB.DOCTOR", 1, COMMAND_ADMIN, "Checks everything that the service needs, and says what to do",
     "twinbloom", KEYS_NONE, "", .fn = admin_doctor, .take = command_take_doctor},
    {"TB.HISTORY", -2, COMMAND_READ, "The last jobs of a filter", "twinbloom", KEYS_FIRST,
     "filter [COUNT count]", .fn = admin_history, .take = command_take_history},
    {"TB.PLAN", -2, COMMAND_READ, "What a rebuild would make and need", "twinbloom", KEYS_FIRST,
     "filter [CAPACITY capacity] [ERROR error] [NODES nodes]", .fn = admin_plan, .take = command_take_job,
     .value = WITH_SIZES},
    {"TB.REBUILD", -2, COMMAND_WRITE | COMMAND_ADMIN, "Starts a rebuild", "twinbloom", KEYS_FIRST,
     "filter [CAPACITY capacity] [ERROR error] [NODES nodes] [HOLD] [DRYRUN]", .fn = admin_rebuild,
     .take = command_take_job, .value = WITH_SIZES | WITH_HOLD | WITH_VERIFY},
    {"TB.VERIFY", -2, COMMAND_WRITE | COMMAND_ADMIN,
     "Starts a verification: looks up keys of the source in the filter", "twinbloom", KEYS_FIRST,
     "filter [FULL]", .fn = admin_verify, .take = command_take_job, .value = WITH_VERIFY},
    {"TB.CUTOVER", -2, COMMAND_WRITE | COMMAND_ADMIN, "Lets a rebuild that holds switch to its generation",
     "twinbloom", KEYS_FIRST, "filter [JOB id]", .fn = admin_control, .take = command_take_request, .most = 4,
     .value = WISH_CUTOVER},
    {"TB.ROLLBACK", -2, COMMAND_WRITE | COMMAND_ADMIN,
     "Switches back to the former generation, within the grace time", "twinbloom", KEYS_FIRST,
     "filter [JOB id]", .fn = admin_control, .take = command_take_request, .most = 4, .value = WISH_ROLLBACK},
    {"TB.FINISH", -2, COMMAND_WRITE | COMMAND_ADMIN, "Ends the grace time", "twinbloom", KEYS_FIRST,
     "filter [JOB id]", .fn = admin_control, .take = command_take_request, .most = 4, .value = WISH_FINISH},
    {"TB.ABORT", -2, COMMAND_WRITE | COMMAND_ADMIN, "Aborts the running job", "twinbloom", KEYS_FIRST,
     "filter [JOB id]", .fn = admin_control, .take = command_take_request, .most = 4, .value = WISH_ABORT},
    {"TB.TRUST", 2, COMMAND_WRITE | COMMAND_ADMIN, "Accepts what Redis has lost of the filter", "twinbloom",
     KEYS_FIRST, "filter", .fn = admin_accept},
    {"TB.PAUSE", -2, COMMAND_WRITE | COMMAND_ADMIN, "Pauses the running job", "twinbloom", KEYS_FIRST,
     "filter [JOB id]", .fn = admin_control, .take = command_take_request, .most = 4, .value = WISH_PAUSE},
    {"TB.RESUME", -2, COMMAND_WRITE | COMMAND_ADMIN, "Resumes a paused job", "twinbloom", KEYS_FIRST,
     "filter [JOB id]", .fn = admin_control, .take = command_take_request, .most = 4, .value = WISH_RESUME},
    {"TB.THROTTLE", -3, COMMAND_WRITE | COMMAND_ADMIN,
     "Limits the rows a second that the running job reads; 0: no limit", "twinbloom", KEYS_FIRST,
     "filter rows_per_second [JOB id]", .fn = admin_control, .take = command_take_request, .most = 5,
     .value = WISH_THROTTLE},
    {"PING", -1, COMMAND_FREE, "Answers", "connection", KEYS_NONE, "[message]", .run = command_ping,
     .most = 2},
    {"ECHO", 2, COMMAND_FREE, "Returns its argument", "connection", KEYS_NONE, "message",
     .run = command_echo},
    {"QUIT", -1, COMMAND_NO_AUTH | COMMAND_NOW | COMMAND_FREE, "Closes the connection", "connection",
     KEYS_NONE, "", .run = command_quit},
    {"HELLO", -1, COMMAND_ALONE | COMMAND_NO_AUTH | COMMAND_FREE, "Chooses the protocol, logs in",
     "connection", KEYS_NONE, "[protover] [AUTH username_password] [SETNAME clientname]",
     .run = command_hello},
    {"AUTH", -2, COMMAND_ALONE | COMMAND_NO_AUTH | COMMAND_FREE, "Logs in", "connection", KEYS_NONE,
     "[username] password", .run = command_auth},
    {"ACL", -2, COMMAND_FREE, "WHOAMI", "connection", KEYS_NONE, "subcommand", .run = command_sub},
    {"SELECT", 2, COMMAND_FREE, "Database 0 is the only one", "connection", KEYS_NONE, "index",
     .run = command_select},
    {"RESET", 1, COMMAND_ALONE | COMMAND_NO_AUTH | COMMAND_NOW | COMMAND_FREE,
     "Resets the connection to its initial state", "connection", KEYS_NONE, "", .run = command_reset},
    {"CLIENT", -2, COMMAND_FREE, "Connections: lists, names, closes them", "connection", KEYS_NONE,
     "subcommand [argument...]", .run = command_sub},
    {"COMMAND", -1, COMMAND_FREE, "Lists commands", "server", KEYS_NONE, "[subcommand] [argument...]",
     .run = command_command},
    {"CONFIG", -2, COMMAND_ADMIN, "GET, SET, HELP", "server", KEYS_NONE, "subcommand [argument...]",
     .run = command_sub},
    {"INFO", -1, COMMAND_FREE, "State of this coordinator", "server", KEYS_NONE, "[section...]",
     .run = command_info},
    {"ROLE", 1, COMMAND_FREE, "master without replicas: libraries that choose among servers ask", "server",
     KEYS_NONE, "", .run = command_master},
    {"TIME", 1, COMMAND_FREE, "Wall clock", "server", KEYS_NONE, "", .run = command_time},
    {"MODULE", -2, COMMAND_FREE, "LIST: names bf, which tools look for", "server", KEYS_NONE, "subcommand",
     .run = command_module},
    {"MULTI", 1, COMMAND_NOW | COMMAND_FREE, "Begins a transaction", "transactions", KEYS_NONE, "",
     .run = command_multi},
    {"EXEC", 1, COMMAND_NOW | COMMAND_FREE, "Runs the commands of a transaction in order", "transactions",
     KEYS_NONE, "", .run = command_exec},
    {"DISCARD", 1, COMMAND_NOW | COMMAND_FREE, "Drops a transaction", "transactions", KEYS_NONE, "",
     .run = command_discard},
    {"WATCH", -2, COMMAND_NOW | COMMAND_FREE, "Is refused: filters cannot be watched", "transactions",
     KEYS_ALL, "filter...", .run = command_watch},
    {"UNWATCH", 1, COMMAND_FREE, "Nothing is watched", "transactions", KEYS_NONE, "", .run = command_unwatch},
};
const size_t command_count = sizeof(command_table) / sizeof(command_table[0]);

/* True for a command that checks or adds the keys behind the filter's name. */
static bool is_operation(const struct command *command)
{
    return command->run == NULL && command->fn == NULL;
}

/* --- rows and columns of the meter --- */

static const char *meter_label(size_t row, unsigned i UNUSED)
{
    return row < command_count ? command_table[row].name : "unknown";
}

static const char *meter_column(size_t column, char out[METER_COLUMN_SIZE])
{
    (void)out;
    return outcome_name((enum outcome)column);
}

/* For rates: TB.* are not counted. */
static bool is_of_keys(size_t row)
{
    const struct command *c = &command_table[row];
    return row < command_count &&
           (c->run == command_bf_insert || (is_operation(c) && c->value != REPLY_COUNT));
}

static bool is_failure(size_t column)
{
    return column == OUTCOME_ERROR || column == OUTCOME_TIMEOUT || column == OUTCOME_UNAVAILABLE;
}

static const struct meter_kind command_meter = {.of = METER_OF_COMMANDS,
                                                .rows = sizeof(command_table) / sizeof(command_table[0]) + 1,
                                                .columns = OUTCOME_COUNT,
                                                .labels = 1,
                                                .label = meter_label,
                                                .column = meter_column,
                                                .is_of_keys = is_of_keys,
                                                .is_failure = is_failure};

const struct subcommand command_subcommands[] = {
    {"ACL", "WHOAMI", "acl|whoami", COMMAND_FREE, 2, 2, command_acl_whoami, "WHOAMI",
     "Return the name of the user of this connection."},
    {"ACL", "HELP", "acl|help", COMMAND_FREE, 2, 2, command_help, "HELP", "Print this help."},
    {"CLIENT", "GETNAME", "client|getname", COMMAND_FREE, 2, 2, command_client_getname, "GETNAME",
     "Return the name of this connection."},
    {"CLIENT", "HELP", "client|help", COMMAND_FREE, 2, 2, command_help, "HELP", "Print this help."},
    {"CLIENT", "ID", "client|id", COMMAND_FREE, 2, 2, command_client_id, "ID",
     "Return the number of this connection."},
    {"CLIENT", "INFO", "client|info", COMMAND_FREE, 2, 2, command_client_info, "INFO",
     "Return the line of this connection."},
    {"CLIENT", "KILL", "client|kill", COMMAND_ADMIN, 3, 0, command_client_kill,
     "KILL <ip:port> | [ID <id>] [TYPE normal] [ADDR <ip:port>] [LADDR <ip:port>] [USER <name>] [MAXAGE "
     "<seconds>] [SKIPME yes|no]",
     "Close connections: of all workers, those that fit every filter."},
    {"CLIENT", "LIST", "client|list", COMMAND_ADMIN, 2, 0, command_client_list,
     "LIST [TYPE normal] | [ID <id> ...]", "Return a line for each connection."},
    {"CLIENT", "NO-EVICT", "client|no-evict", COMMAND_FREE, 3, 3, command_client_on_off, "NO-EVICT on|off",
     "Accepted; clients are not evicted."},
    {"CLIENT", "NO-TOUCH", "client|no-touch", COMMAND_FREE, 3, 3, command_client_on_off, "NO-TOUCH on|off",
     "Accepted; reading changes no key."},
    {"CLIENT", "REPLY", "client|reply", COMMAND_FREE, 3, 3, command_client_reply, "REPLY on",
     "Accepted; OFF and SKIP are refused."},
    {"CLIENT", "SETINFO", "client|setinfo", COMMAND_FREE, 4, 4, command_client_setinfo,
     "SETINFO LIB-NAME|LIB-VER <value>", "Say which library the client is."},
    {"CLIENT", "SETNAME", "client|setname", COMMAND_FREE, 3, 3, command_client_setname, "SETNAME <name>",
     "Name this connection."},
    {"CLIENT", "TRACKING", "client|tracking", COMMAND_FREE, 3, 0, command_client_tracking, "TRACKING off",
     "Accepted; ON is refused."},
    {"CONFIG", "GET", "config|get", COMMAND_ADMIN, 3, 0, command_config_get, "GET <pattern> [<pattern> ...]",
     "Return keys that match the glob-like patterns, and their values. Secrets are masked.\n"
     "Keys are named section.key and filter.NAME.key; the bare key will do where one section has it, other "
     "than those of filters and users."},
    {"CONFIG", "SET", "config|set", COMMAND_ADMIN, 4, 0, command_config_set,
     "SET <key> <value> [<key> <value> ...]",
     "Set keys that may change while the daemon runs: all of them or, on an error, none.\n"
     "They last until the next SIGHUP, which reads the file again, or restart.\n"
     "Keys that become SQL, paths and trust are taken from the file alone."},
    {"CONFIG", "REWRITE", "config|rewrite", COMMAND_ADMIN, 2, .run = command_config_rewrite},
    {"CONFIG", "HELP", "config|help", COMMAND_FREE, 2, 0, command_help, "HELP", "Print this help."},
    {"COMMAND", "", "command", COMMAND_FREE, .form = "(no subcommand)",
     .help = "Return details of all commands."},
    {"COMMAND", "COUNT", "command|count", COMMAND_FREE, 2, 2, command_count_all, "COUNT",
     "Return how many there are."},
    {"COMMAND", "LIST", "command|list", COMMAND_FREE, 2, 0, command_list,
     "LIST [FILTERBY (PATTERN <pattern> | MODULE <group> | ACLCAT <group>)]", "Return their names."},
    {"COMMAND", "INFO", "command|info", COMMAND_FREE, 2, 0, command_describe, "INFO [<name> ...]",
     "Return details of those commands, or of all."},
    {"COMMAND", "DOCS", "command|docs", COMMAND_FREE, 2, 0, command_describe, "DOCS [<name> ...]",
     "Return what people want to know of them."},
    {"COMMAND", "GETKEYS", "command|getkeys", COMMAND_FREE, 3, 0, command_getkeys, "GETKEYS <command>",
     "Return the keys of a whole command."},
    {"COMMAND", "HELP", "command|help", COMMAND_FREE, 2, 2, command_help, "HELP", "Print this help."},
};
const size_t command_subcommand_count = sizeof(command_subcommands) / sizeof(command_subcommands[0]);

int command_shown(size_t length)
{
    enum { SHOWN = 128 };
    return (int)(length < SHOWN ? length : SHOWN);
}

void command_ok(struct client *c)
{
    struct reply r = client_reply_begin(c);
    reply_simple(&r, "OK");
    client_reply_end(c);
}

/* The rows of the table, by a hash of their names. Each row has the number of the next row with the same
 * hash. */
enum { INDEX_SIZE = 256 };
static uint8_t first_row[INDEX_SIZE],
    next_row[sizeof(command_table) / sizeof(command_table[0])]; /* 0: none */
_Static_assert(sizeof(next_row) < UINT8_MAX, "a number of a row, plus one, is a byte");

/* Ignores case. It uses only a few letters, which tell nearly all names apart. */
static unsigned hash_name(const char *name, size_t length)
{
    if (length == 0)
        return 0;
    unsigned first = (unsigned char)name[0] | 0x20, last = (unsigned char)name[length - 1] | 0x20;
    unsigned h = (first * 31 + ((unsigned char)name[length / 2] | 0x20)) * 31 + last * 7 + (unsigned)length;
    return (h ^ h >> 8) % INDEX_SIZE;
}

/* Runs before there are threads. */
__attribute__((constructor)) static void index_commands(void)
{
    for (size_t i = command_count; i-- > 0;) {
        uint8_t *first = &first_row[hash_name(command_table[i].name, strlen(command_table[i].name))];
        next_row[i] = *first;
        *first = (uint8_t)(i + 1);
    }
}

const struct command *command_find(const char *name, size_t length)
{
    for (size_t row = first_row[hash_name(name, length)]; row != 0; row = next_row[row - 1]) {
        const struct command *c = &command_table[row - 1];
        if (strlen(c->name) == length &&
            (memcmp(name, c->name, length) == 0 || strncasecmp(name, c->name, length) == 0))
            return c;
    }
    return NULL;
}

static bool runs_alone(const struct client *c, const struct command *command)
{
    return command != NULL && (command->fn != NULL || (command->flags & COMMAND_ALONE) != 0) &&
           (!c->in_transaction || (command->flags & COMMAND_NOW) != 0);
}

/* Some clients subscribe whatever the server is. They get a reason, because "unknown command" would look as
 * if the server were too old. */
static bool is_subscription(const struct argument *name)
{
    return argument_is(name, "SUBSCRIBE") || argument_is(name, "PSUBSCRIBE") ||
           argument_is(name, "SSUBSCRIBE");
}

static void unknown_command(struct client *c, const struct argument *arguments, size_t count)
{
    char shown[160];
    size_t n = 0;
    if (is_subscription(&arguments[0])) {
        client_error(
            c, "ERR %.*s is not supported: there are no channels; configure the client without subscriptions",
            (int)arguments[0].length, arguments[0].bytes);
        return;
    }
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
                 command_shown(arguments[0].length), arguments[0].bytes, (int)n, shown);
}

bool command_fits(const struct command *command, size_t count)
{
    return command->arity >= 0 ? count == (size_t)command->arity : count >= (size_t)-command->arity;
}

void command_lower(const struct command *command, char out[32])
{
    size_t n = strlen(command->name);
    for (size_t i = 0; i <= n; i++)
        out[i] = (char)tolower((unsigned char)command->name[i]);
}

static void wrong_arity(struct client *c, const struct command *command)
{
    char lower[32];
    command_lower(command, lower);
    client_error(c, "ERR wrong number of arguments for '%s' command", lower);
}

unsigned command_role_of(unsigned flags)
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
    bool may = count > 1 && (command->run == command_sub || command->run == command_command);
    for (size_t i = 0; may && i < command_subcommand_count; i++)
        if (strcmp(command_subcommands[i].command, command->name) == 0 &&
            argument_is(&arguments[1], command_subcommands[i].word))
            return &command_subcommands[i];
    return NULL;
}

void command_sub(struct client *c, const struct argument *a, size_t count)
{
    const struct command *command = command_find(a[0].bytes, a[0].length);
    const struct subcommand *sub = subcommand_find(command, a, count);
    if (sub == NULL || sub->run == NULL) {
        client_error(c, "ERR unknown subcommand '%.*s'. Try %s HELP.", command_shown(a[1].length), a[1].bytes,
                     command->name);
    } else if (count < sub->least || (sub->most != 0 && count > sub->most)) {
        client_error(c, "ERR wrong number of arguments for '%s' command", sub->name);
    } else {
        if (strcmp(sub->command, "CLIENT") == 0)
            c->command = sub->name; /* CLIENT LIST shows them */
        sub->run(c, a, count);
    }
}

unsigned command_role(const struct command *command, const struct argument *arguments, size_t count)
{
    const struct subcommand *sub = subcommand_find(command, arguments, count);
    return command_role_of(sub != NULL ? sub->flag : command->flags);
}

/* Have the transaction's EXEC fail, and free the queued commands. */
static void fail_transaction(struct client *c)
{
    client_clear_commands(&c->transaction);
    c->transaction_bytes = 0;
    c->transaction_failed = c->in_transaction;
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

/* False: the user lacks a right, and the error was sent. */
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
        command_lower(command, lower);
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

/* Queue a command of a transaction. A transaction that has failed keeps no commands. */
static void queue(struct client *c, const struct argument *arguments, size_t count)
{
    if (!c->transaction_failed) {
        uint64_t max = c->worker->config->request_max;
        size_t bytes = client_queue_command(&c->transaction, arguments, count);
        if (bytes == 0) {
            fail_transaction(c);
            client_error(c, "OOM out of memory");
            return;
        }
        c->transaction_count++;
        c->transaction_bytes += bytes;
        if (c->transaction_bytes > max) {
            fail_transaction(c);
            client_failure(c, ERR_RANGE, "the transaction has more than %" PRIu64 " bytes (request_max)",
                           max);
            return;
        }
    }
    struct reply r = client_reply_begin(c);
    reply_simple(&r, "QUEUED");
    c->counted.row = METER_NO_ROW; /* the command is counted when it runs */
    client_reply_end(c);
}

/* Have the admin thread run a command. */
static void ask(struct client *c, const struct command *command, const struct argument *a, size_t count)
{
    const struct command_keys *keys = &command->keys;
    size_t at = keys->first > 1 ? (size_t)keys->first : 1;
    bool named = at < count && keys->first == keys->last; /* commands with several names take them */
    struct admin_call *call =
        admin_call_new(command->fn, named ? a[at].bytes : NULL, named ? a[at].length : 0);
    const struct command_words words = {
        .user = c->session.rights, .command = command, .a = a, .count = count};
    const char *error = call == NULL ? "OOM out of memory" : NULL;
    if (call != NULL)
        call->flags = command->value;
    if (call != NULL && command->take != NULL)
        error = command->take(&words, call);
    if (error == NULL) {
        client_call_admin(c, call);
        return;
    }
    client_error(c, "%s", error);
    admin_call_free(call);
}

static void operate(struct client *c, const struct command *command, const struct argument *a, size_t count)
{
    static const struct creation as_configured = {.allowed = true};
    bool adds = (command->flags & COMMAND_WRITE) != 0;
    client_operate(c, adds ? OPERATION_ADD : OPERATION_CHECK, &a[1], &a[2], count - 2,
                   (enum reply_shape)command->value, adds ? &as_configured : NULL);
}

static void run(struct client *c, const struct command *command, const struct argument *arguments,
                size_t count)
{
    c->counted.row = command == NULL ? command_count : (size_t)(command - command_table);
    /* A page in a browser can make it send HTTP to any port of the machine. The connection is closed before
     * the body is read, as the body might contain commands. */
    if (command == NULL && (argument_is(&arguments[0], "POST") || argument_is(&arguments[0], "Host:"))) {
        log_warn("http_on_redis_port", "client=%s note=\"closed\"", c->address);
        client_close_after_reply(c);
        return;
    }
    if ((command == NULL || (command->flags & COMMAND_NO_AUTH) == 0) && client_needs_login(c)) {
        client_error(c, "NOAUTH Authentication required.");
        return;
    }
    if (command != NULL && command->run == command_exec && c->in_transaction && count > 1) {
        client_drop_transaction(c); /* as in Redis: the wrong arity discards the transaction */
        client_error(
            c, "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command");
        return;
    }
    if (command == NULL || !command_fits(command, count)) {
        fail_transaction(c);
        if (command == NULL)
            unknown_command(c, arguments, count);
        else
            wrong_arity(c, command);
        return;
    }
    if (!may_run(c, command, arguments, count)) {
        fail_transaction(c);
        return;
    }
    if (c->in_transaction && (command->flags & COMMAND_NOW) == 0) {
        queue(c, arguments, count);
        return;
    }
    c->command = command->name;
    if (command->most != 0 && count > command->most)
        wrong_arity(c, command);
    else if (is_operation(command))
        operate(c, command, arguments, count);
    else if (command->fn != NULL)
        ask(c, command, arguments, count);
    else
        command->run(c, arguments, count);
}

const struct command_set command_set = {
    .find = command_find, .runs_alone = runs_alone, .run = run, .meter = &command_meter};
