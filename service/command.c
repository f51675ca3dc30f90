/* SPDX-License-Identifier: MIT */
#include "service/command.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "base/log.h"

const struct command command_table[] = {
    {"BF.RESERVE", -4, COMMAND_ALONE | COMMAND_WRITE, command_bf_reserve, "Creates an empty filter", "bf"},
    {"BF.ADD", 3, COMMAND_WRITE, command_bf_add, "Adds an item", "bf"},
    {"BF.MADD", -3, COMMAND_WRITE, command_bf_madd, "Adds items", "bf"},
    {"BF.INSERT", -4, COMMAND_WRITE, command_bf_insert, "Adds items; creates the filter as told", "bf"},
    {"BF.EXISTS", 3, 0, command_bf_exists, "Tells whether an item may have been added", "bf"},
    {"BF.MEXISTS", -3, 0, command_bf_mexists, "Tells of several items whether they may have been added",
     "bf"},
    {"BF.CARD", 2, COMMAND_ALONE, command_bf_card, "Number of items that were added", "bf"},
    {"BF.INFO", -2, COMMAND_ALONE, command_bf_info, "Capacity, size, items of a filter", "bf"},
    {"BF.SCANDUMP", 3, COMMAND_ALONE, command_bf_scandump, "The next piece of a filter's dump", "bf"},
    {"BF.LOADCHUNK", 4, COMMAND_ALONE | COMMAND_WRITE, command_bf_loadchunk,
     "Loads a piece of a dump; the filter is there when all have come", "bf"},
    {"TB.LOAD", 2, COMMAND_ALONE, command_tb_load, "What has come of a filter that is being loaded",
     "twinbloom"},
    {"BF.DEBUG", 2, COMMAND_ALONE, command_bf_debug, "Size and layers of a filter", "bf"},
    {"TB.INIT", -4, COMMAND_ALONE | COMMAND_WRITE, command_tb_init,
     "Creates an empty filter where there is none", "twinbloom"},
    {"TB.MADD", -3, COMMAND_WRITE, command_tb_madd, "Adds items; tells how many were new", "twinbloom"},
    {"TB.MEXISTS", -3, 0, command_tb_mexists, "Tells how many items may have been added", "twinbloom"},
    {"TB.COUNT", 2, COMMAND_ALONE, command_tb_count, "Number of items, estimated from the bits", "twinbloom"},
    {"DEL", -2, COMMAND_ALONE | COMMAND_WRITE, command_del, "Deletes filters", "keyspace"},
    {"UNLINK", -2, COMMAND_ALONE | COMMAND_WRITE, command_del, "Deletes filters", "keyspace"},
    {"EXISTS", -2, COMMAND_ALONE, command_exists, "Tells how many of the names are filters", "keyspace"},
    {"TYPE", 2, COMMAND_ALONE, command_type, "MBbloom-- for a filter", "keyspace"},
    {"SCAN", -2, COMMAND_ALONE, command_scan, "Names of filters, a few at a time", "keyspace"},
    {"KEYS", 2, COMMAND_ALONE, command_keys, "Names of filters that match a pattern", "keyspace"},
    {"DBSIZE", 1, COMMAND_ALONE, command_dbsize, "Number of filters", "keyspace"},
    {"RANDOMKEY", 1, COMMAND_ALONE, command_randomkey, "The name of some filter", "keyspace"},
    {"MEMORY", -3, COMMAND_ALONE, command_memory, "USAGE: bytes that a filter occupies in Redis", "keyspace"},
    {"EXPIRE", -3, COMMAND_ALONE | COMMAND_WRITE, command_expire, "Deletes a filter after some seconds",
     "keyspace"},
    {"PEXPIRE", -3, COMMAND_ALONE | COMMAND_WRITE, command_pexpire, "The same in milliseconds", "keyspace"},
    {"EXPIREAT", -3, COMMAND_ALONE | COMMAND_WRITE, command_expireat, "Deletes a filter at a time",
     "keyspace"},
    {"PEXPIREAT", -3, COMMAND_ALONE | COMMAND_WRITE, command_pexpireat, "The same in milliseconds",
     "keyspace"},
    {"PERSIST", 2, COMMAND_ALONE | COMMAND_WRITE, command_persist, "Takes the time of its end from a filter",
     "keyspace"},
    {"TTL", 2, COMMAND_ALONE, command_ttl, "Seconds until a filter is deleted", "keyspace"},
    {"PTTL", 2, COMMAND_ALONE, command_pttl, "The same in milliseconds", "keyspace"},
    {"EXPIRETIME", 2, COMMAND_ALONE, command_expiretime, "When a filter is deleted", "keyspace"},
    {"PEXPIRETIME", 2, COMMAND_ALONE, command_pexpiretime, "The same in milliseconds", "keyspace"},
    {"TB.STATUS", -1, COMMAND_ALONE, command_tb_status, "State of a filter, or of all", "twinbloom"},
    {"TB.HISTORY", -2, COMMAND_ALONE, command_tb_history, "The last runs of a filter's expansions",
     "twinbloom"},
    {"TB.PLAN", -2, COMMAND_ALONE, command_tb_plan, "What an expansion would make and need", "twinbloom"},
    {"TB.REBUILD", -2, COMMAND_ALONE | COMMAND_WRITE, command_tb_rebuild, "Starts an expansion", "twinbloom"},
    {"TB.VERIFY", -2, COMMAND_ALONE | COMMAND_WRITE, command_tb_verify,
     "Looks up keys of the source in the generation in use", "twinbloom"},
    {"TB.CUTOVER", 2, COMMAND_ALONE | COMMAND_WRITE, command_tb_cutover,
     "Lets an expansion that holds switch to its generation", "twinbloom"},
    {"TB.ROLLBACK", 2, COMMAND_ALONE | COMMAND_WRITE, command_tb_rollback,
     "Switches back to the generation before, within the grace time", "twinbloom"},
    {"TB.FINISH", 2, COMMAND_ALONE | COMMAND_WRITE, command_tb_finish, "Ends the grace time", "twinbloom"},
    {"TB.ABORT", 2, COMMAND_ALONE | COMMAND_WRITE, command_tb_abort, "Aborts a running expansion",
     "twinbloom"},
    {"TB.PAUSE", 2, COMMAND_ALONE | COMMAND_WRITE, command_tb_pause, "Pauses a running expansion",
     "twinbloom"},
    {"TB.RESUME", 2, COMMAND_ALONE | COMMAND_WRITE, command_tb_resume, "Lets it go on", "twinbloom"},
    {"TB.THROTTLE", 3, COMMAND_ALONE | COMMAND_WRITE, command_tb_throttle,
     "Bounds the rows a second that an expansion reads; 0: no bound", "twinbloom"},
    {"PING", -1, 0, command_ping, "Answers", "connection"},
    {"ECHO", 2, 0, command_echo, "Returns its argument", "connection"},
    {"QUIT", -1, COMMAND_NO_AUTH | COMMAND_NOW, command_quit, "Closes the connection", "connection"},
    {"HELLO", -1, COMMAND_NO_AUTH, command_hello, "Chooses the protocol, logs in", "connection"},
    {"AUTH", -2, COMMAND_NO_AUTH, command_auth, "Logs in", "connection"},
    {"SELECT", 2, 0, command_select, "Database 0 is the only one", "connection"},
    {"RESET", 1, COMMAND_NO_AUTH | COMMAND_NOW, command_reset, "Back to how the connection began",
     "connection"},
    {"CLIENT", -2, 0, command_client, "Connections: lists, names, closes them", "connection"},
    {"COMMAND", -1, 0, command_command, "Lists commands", "server"},
    {"CONFIG", -2, 0, command_config, "GET, SET, HELP", "server"},
    {"INFO", -1, 0, command_info, "State of this coordinator", "server"},
    {"TIME", 1, 0, command_time, "Wall clock", "server"},
    {"MULTI", 1, COMMAND_NOW, command_multi, "Begins a transaction", "transactions"},
    {"EXEC", 1, COMMAND_NOW, command_exec, "Runs the commands of a transaction in order", "transactions"},
    {"DISCARD", 1, COMMAND_NOW, command_discard, "Drops a transaction", "transactions"},
    {"WATCH", -2, COMMAND_NOW, command_watch, "Is refused: filters cannot be watched", "transactions"},
    {"UNWATCH", 1, 0, command_unwatch, "Nothing is watched", "transactions"},
};
const size_t command_count = sizeof(command_table) / sizeof(command_table[0]);

bool argument_is(const struct argument *a, const char *word)
{
    return a->length == strlen(word) && strncasecmp(a->bytes, word, a->length) == 0;
}

int command_shown(size_t length)
{
    enum { SHOWN = 128 };
    return (int)(length < SHOWN ? length : SHOWN);
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
                 command_shown(arguments[0].length), arguments[0].bytes, (int)n, shown);
}

/* A page in a browser can have it send HTTP to any port of the machine. Closed before its body is read, in
 * which commands might stand. */
static bool is_http(const struct argument *name)
{
    return argument_is(name, "POST") || argument_is(name, "Host:");
}

bool command_fits(const struct command *command, size_t count)
{
    return command->arity >= 0 ? count == (size_t)command->arity : count >= (size_t)-command->arity;
}

static void wrong_arity(struct client *c, const struct command *command)
{
    char lower[32];
    size_t n = strlen(command->name);
    for (size_t i = 0; i <= n; i++)
        lower[i] = (char)tolower((unsigned char)command->name[i]);
    client_error(c, "ERR wrong number of arguments for '%s' command", lower);
}

void command_run(struct client *c, const struct argument *arguments, size_t count)
{
    const struct command *command = command_find(arguments[0].bytes, arguments[0].length);
    if ((command == NULL || (command->flags & COMMAND_NO_AUTH) == 0) && client_needs_login(c)) {
        client_error(c, "NOAUTH Authentication required.");
        return;
    }
    if (command == NULL && is_http(&arguments[0])) {
        log_warn("http", "client=%s note=\"HTTP on the port of Redis's protocol: closed\"", c->address);
        client_close_after_reply(c);
        return;
    }
    if (command == NULL || !command_fits(command, count)) {
        c->transaction_failed = c->in_transaction;
        if (command == NULL)
            unknown_command(c, arguments, count);
        else
            wrong_arity(c, command);
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
    c->command = command;
    command->run(c, arguments, count);
}
