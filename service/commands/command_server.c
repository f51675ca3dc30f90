/* SPDX-License-Identifier: MIT */
/* Server commands such as COMMAND and TIME. Their replies are made from the command table. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/glob.h"
#include "service/commands/command.h"
#include "service/protocol/field.h"

/* --- INFO --- */

static void key_specification(struct reply *r, const struct command *command, struct command_keys keys)
{
    bool writes = (command->flags & COMMAND_WRITE) != 0;
    reply_array(r, 1);
    reply_map(r, 3);
    reply_text(r, "flags");
    reply_array(r, 1);
    reply_simple(r, writes ? "RW" : "RO");
    reply_text(r, "begin_search");
    reply_map(r, 2);
    reply_pair(r, "type", "index");
    reply_text(r, "spec");
    reply_map(r, 1);
    reply_text(r, "index");
    reply_integer(r, keys.first);
    reply_text(r, "find_keys");
    reply_map(r, 2);
    reply_pair(r, "type", "range");
    reply_text(r, "spec");
    reply_map(r, 3);
    reply_text(r, "lastkey");
    reply_integer(r, keys.last < 0 ? keys.last : keys.last - keys.first);
    reply_text(r, "keystep");
    reply_integer(r, keys.step);
    reply_text(r, "limit");
    reply_integer(r, 0);
}

static void describe(struct reply *r, const struct command *command)
{
    char name[32];
    struct command_keys keys = command->keys;
    bool no_auth = (command->flags & COMMAND_NO_AUTH) != 0;
    command_lower(command, name);
    reply_array(r, 10);
    reply_text(r, name);
    reply_integer(r, command->arity);
    reply_array(r, 1 + (size_t)no_auth);
    reply_simple(r, (command->flags & COMMAND_WRITE) != 0 ? "write" : "readonly");
    if (no_auth)
        reply_simple(r, "no_auth");
    reply_integer(r, keys.first);
    reply_integer(r, keys.last);
    reply_integer(r, keys.step);
    reply_array(r, 0); /* categories */
    reply_array(r, 0); /* tips */
    if (keys.first > 0)
        key_specification(r, command, keys);
    else
        reply_array(r, 0);
    reply_array(r, 0); /* subcommands */
}

/* Of the commands that are @names, or of all if @count is 0: what COMMAND DOCS says, or COMMAND INFO, which
 * has null for an unknown name. */
static void describe_each(struct client *c, const struct argument *names, size_t count, bool docs)
{
    void (*const put)(struct reply * r, const struct command *command) = docs ? command_document : describe;
    size_t known = 0;
    if (count > command_count) { /* a name can come again, and makes a reply a hundred times as long */
        client_failure(c, ERR_RANGE, "%zu names in one command: at most %zu are allowed", count,
                       command_count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        known += command_find(names[i].bytes, names[i].length) != NULL;
    struct reply r = client_reply_begin(c);
    if (docs)
        reply_map(&r, count == 0 ? command_count : known);
    else
        reply_array(&r, count == 0 ? command_count : count);
    for (size_t i = 0; count == 0 && i < command_count; i++)
        put(&r, &command_table[i]);
    for (size_t i = 0; i < count; i++) {
        const struct command *command = command_find(names[i].bytes, names[i].length);
        if (command != NULL)
            put(&r, command);
        else if (!docs)
            reply_null(&r);
    }
    client_reply_end(c);
}

void command_describe(struct client *c, const struct argument *a, size_t count)
{
    describe_each(c, a + 2, count - 2, argument_is(&a[1], "DOCS"));
}

/* --- HELP, DOCS, LIST, COUNT, GETKEYS --- */

static void put_line(struct fields *lines, const char *line)
{
    reply_simple(&lines->reply, line);
    lines->count++;
}

/* The help of a command that has subcommands. */
void command_help(struct client *c, const struct argument *a, size_t count UNUSED)
{
    const struct command *command = command_find(a[0].bytes, a[0].length);
    char line[192]; /* longer than any line of the table */
    struct fields lines;
    fields_begin(&lines, c->protocol);
    (void)snprintf(line, sizeof(line),
                   "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", command->name);
    put_line(&lines, line);
    for (size_t i = 0; i < command_subcommand_count; i++) {
        const struct subcommand *sub = &command_subcommands[i];
        if (sub->form == NULL || strcmp(sub->command, command->name) != 0)
            continue;
        put_line(&lines, sub->form);
        for (const char *at = sub->help; *at != '\0'; at += strspn(at, "\n")) {
            int length = (int)strcspn(at, "\n");
            (void)snprintf(line, sizeof(line), "    %.*s", length, at);
            put_line(&lines, line);
            at += length;
        }
    }
    struct reply r = client_reply_begin(c);
    fields_end_list(&lines, &r);
    client_reply_end(c);
}

/* @filter points to the word behind FILTERBY and its value; NULL: no filter. */
static bool is_listed(const char *name, const struct command *command, const struct argument *filter)
{
    if (filter == NULL)
        return true;
    if (argument_is(&filter[0], "PATTERN"))
        return glob_match(filter[1].bytes, filter[1].length, name, strlen(name));
    return argument_is(&filter[1], command->group); /* for MODULE and ACLCAT */
}

void command_list(struct client *c, const struct argument *a, size_t count)
{
    const struct argument *filter = count == 5 ? &a[3] : NULL;
    bool known =
        filter == NULL ||
        (argument_is(&a[2], "FILTERBY") &&
         (argument_is(&a[3], "PATTERN") || argument_is(&a[3], "MODULE") || argument_is(&a[3], "ACLCAT")));
    if ((count != 2 && count != 5) || !known) {
        client_error(c, "ERR syntax error");
        return;
    }
    if (filter != NULL && filter[1].length > GLOB_PATTERN_MAX) {
        client_failure(c, ERR_RANGE, "the pattern is too long: at most %d bytes are allowed",
                       GLOB_PATTERN_MAX);
        return;
    }
    char name[32];
    size_t hits = 0;
    for (size_t i = 0; i < command_count; i++) {
        command_lower(&command_table[i], name);
        hits += is_listed(name, &command_table[i], filter);
    }
    struct reply r = client_reply_begin(c);
    reply_array(&r, hits);
    for (size_t i = 0; i < command_count; i++) {
        command_lower(&command_table[i], name);
        if (is_listed(name, &command_table[i], filter))
            reply_text(&r, name);
    }
    client_reply_end(c);
}

void command_count_all(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    struct reply r = client_reply_begin(c);
    reply_integer(&r, (int64_t)command_count);
    client_reply_end(c);
}

void command_getkeys(struct client *c, const struct argument *a, size_t count)
{
    a += 2;
    count -= 2;
    const struct command *command = command_find(a[0].bytes, a[0].length);
    if (command == NULL) {
        client_error(c, "ERR Invalid command specified");
        return;
    }
    struct command_keys keys = command->keys;
    if (keys.first == 0) {
        client_error(c, "ERR The command has no key arguments");
        return;
    }
    size_t first = (size_t)keys.first, step = (size_t)keys.step;
    size_t last = keys.last < 0 ? count - (size_t)-keys.last : (size_t)keys.last;
    if (!command_fits(command, count) || last >= count) { /* a key may be optional */
        client_error(c, "ERR Invalid number of arguments specified for command");
        return;
    }
    struct reply r = client_reply_begin(c);
    reply_array(&r, (last - first) / step + 1);
    for (size_t i = first; i <= last; i += step)
        reply_bulk(&r, a[i].bytes, a[i].length);
    client_reply_end(c);
}

void command_command(struct client *c, const struct argument *a, size_t count)
{
    if (count == 1)
        describe_each(c, NULL, 0, false);
    else
        command_sub(c, a, count);
}

void command_master(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    struct reply r = client_reply_begin(c);
    reply_array(&r, 3);
    reply_text(&r, "master");
    reply_integer(&r, 0); /* of a replication that there is not */
    reply_array(&r, 0);
    client_reply_end(c);
}

void command_time(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    uint64_t now = clock_wall_us();
    struct reply r = client_reply_begin(c);
    reply_array(&r, 2);
    reply_printf(&r, "%" PRIu64, now / 1000000);
    reply_printf(&r, "%" PRIu64, now % 1000000);
    client_reply_end(c);
}

/* Replies as Redis 7 with RedisBloom 2.6 does. */
void command_module(struct client *c, const struct argument *a, size_t count)
{
    if (!argument_is(&a[1], "LIST")) {
        client_error(c, "ERR unknown subcommand '%.*s': there is MODULE LIST", command_shown(a[1].length),
                     a[1].bytes);
        return;
    }
    if (count != 2) {
        client_error(c, "ERR wrong number of arguments for 'module|list' command");
        return;
    }
    struct reply r = client_reply_begin(c);
    reply_array(&r, 1);
    reply_map(&r, 4);
    reply_pair(&r, "name", "bf");
    reply_text(&r, "ver");
    reply_integer(&r, strtol(COMMAND_BF_VERSION, NULL, 10));
    reply_pair(&r, "path", "");
    reply_text(&r, "args");
    reply_array(&r, 0);
    client_reply_end(c);
}
