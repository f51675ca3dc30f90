/* SPDX-License-Identifier: MIT */
/* config: the running service's configuration, and changes to it at run time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "service/cli/operate/cli_operate.h"
#include "shard/filter/names.h"

/* CONFIG GET also returns what generic Redis tools ask for; Twinbloom's keys have a section. */
static bool is_shown(const redisReply *name, const redisReply *value, bool all)
{
    return name->type == REDIS_REPLY_STRING && value->type == REDIS_REPLY_STRING &&
           (all || strchr(name->str, '.') != NULL);
}

static void print_json(const redisReply *reply, bool all)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    struct json j = {.out = &b};
    json_open(&j, '{');
    json_name(&j, "keys");
    json_open(&j, '[');
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *name = reply->element[i], *value = reply->element[i + 1];
        if (!is_shown(name, value, all))
            continue;
        json_open(&j, '{');
        json_name(&j, "key");
        json_string(&j, name->str, (size_t)name->len);
        json_name(&j, "value");
        json_string(&j, value->str, (size_t)value->len);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    (void)puts(buffer_text(&b));
}

static void text_cell(struct table *t, enum output_color color, const redisReply *r)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    output_escape(&b, r->str, (size_t)r->len);
    table_cell(t, r->len == 0 ? COLOR_QUIET : color, r->len == 0 ? "-" : buffer_text(&b));
}

static void print_table(const struct cli *cli, const redisReply *reply, bool all)
{
    static const struct table_column columns[] = {{"KEY", false}, {"VALUE", false}};
    SCOPED(table_fini) struct table t;
    table_init(&t, columns, 2);
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *name = reply->element[i], *value = reply->element[i + 1];
        if (!is_shown(name, value, all))
            continue;
        text_cell(&t, COLOR_NONE, name);
        text_cell(&t, COLOR_NONE, value);
    }
    table_print(&t, stdout, cli->color);
}

/* Send CONFIG GET or SET with @count words. NULL after an error message. */
static redisReply *ask(struct cli *cli, const char *verb, char *const *words, size_t count)
{
    const char **argv = calloc(count + 2, sizeof(*argv));
    if (argv == NULL) {
        cli->failure = cli_fail_with(ERR_NOMEM, "out of memory");
        return NULL;
    }
    argv[0] = "CONFIG";
    argv[1] = verb;
    for (size_t i = 0; i < count; i++)
        argv[2 + i] = words[i];
    redisReply *reply = cli_send(cli, count + 2, argv);
    free(argv);
    if (reply == NULL || strcmp(verb, "GET") != 0 ||
        (reply->type == REDIS_REPLY_ARRAY && reply->elements % 2 == 0))
        return reply;
    return cli_odd_reply(cli, reply, "CONFIG GET");
}

/* @count 0: show all of Twinbloom's keys. */
static int show(struct cli *cli, char **patterns, size_t count)
{
    char everything[] = "*", *all[] = {everything};
    SCOPED(scope_reply)
    redisReply *reply = ask(cli, "GET", count == 0 ? all : patterns, count == 0 ? 1 : count);
    if (reply == NULL)
        return cli->failure;
    int code = CLI_OK;
    if (reply->elements == 0)
        code = cli_fail_with(ERR_NOT_FOUND,
                             "no key of the configuration matches; \"twinbloom config\" lists them");
    else if (cli->json)
        print_json(reply, count != 0);
    else
        print_table(cli, reply, count != 0);
    return code;
}

static int set(struct cli *cli, char **pairs, size_t count)
{
    if (count == 0 || count % 2 != 0)
        return cli_fail(CLI_USAGE, "config set needs KEY VALUE, once or several times");
    SCOPED(scope_reply) redisReply *reply = ask(cli, "SET", pairs, count);
    if (reply == NULL)
        return cli->failure;
    /* Show what was set: each key literally, as the name of a filter may have characters of a pattern. */
    SCOPED(buffer_fini) struct buffer patterns = {0};
    for (size_t i = 0; i < count; i += 2) {
        names_literally(&patterns, pairs[i], strlen(pairs[i]));
        buffer_append(&patterns, "", 1);
    }
    char *at = patterns.data;
    for (size_t i = 0; i < count / 2 && !buffer_failed(&patterns); i++, at += strlen(at) + 1)
        pairs[i] = at;
    int code =
        buffer_failed(&patterns) ? cli_fail_with(ERR_NOMEM, "out of memory") : show(cli, pairs, count / 2);
    return code;
}

int cli_config(struct cli *cli)
{
    const char *verb = cli->count == 0 ? "show" : cli->arguments[0];
    size_t rest = cli->count == 0 ? 0 : cli->count - 1;
    if (strcmp(verb, "show") == 0 || (strcmp(verb, "get") == 0 && rest > 0))
        return show(cli, cli->arguments + 1, rest);
    if (strcmp(verb, "set") == 0)
        return set(cli, cli->arguments + 1, rest);
    if (strcmp(verb, "get") == 0)
        return cli_fail(CLI_USAGE, "config get needs KEY");
    return cli_fail(CLI_USAGE, "config %s: expected show, get or set", verb);
}
