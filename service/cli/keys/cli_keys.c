/* SPDX-License-Identifier: MIT */
/* check and add: keys from the command line or from standard input, in chunks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "service/cli/keys/cli_keys.h"

enum { CHUNK_KEYS = 1000, CHUNK_BYTES = 1 << 20 };

struct chunk {
    const char *argv[2 + CHUNK_KEYS]; /* command, filter, keys */
    size_t length[2 + CHUNK_KEYS];
    size_t count; /* words in argv */
    size_t bytes;
};

struct keys {
    struct cli *cli;
    const char *yes, *no;           /* text for a key with reply 1, with reply 0 */
    const char *yes_name, *no_name; /* names of their counts in JSON */
    uint64_t yes_count, no_count;
    struct chunk chunk;
    struct buffer text;
    struct json json;
    struct error error;
    enum err status; /* code of error */
    bool exists;     /* the filter is known to exist */
};

static void chunk_clear(struct chunk *c)
{
    c->count = 2;
    c->bytes = 0;
}

static void say_key(struct keys *k, const char *key, size_t length, bool yes)
{
    k->yes_count += yes;
    k->no_count += !yes;
    if (!k->cli->json) {
        buffer_printf(&k->text, "%s\t", yes ? k->yes : k->no);
        output_escape(&k->text, key, length);
        buffer_puts(&k->text, "\n");
        return;
    }
    json_open(&k->json, '{');
    json_name(&k->json, "key");
    json_string(&k->json, key, length);
    if (!utf8_valid(key, length)) {
        json_name(&k->json, "key_hex");
        buffer_puts(&k->text, "\"");
        for (size_t i = 0; i < length; i++)
            buffer_printf(&k->text, "%02x", (unsigned)(unsigned char)key[i]);
        buffer_puts(&k->text, "\"");
        k->json.comma = true;
    }
    json_name(&k->json, k->yes);
    json_bool(&k->json, yes);
    json_close(&k->json, '}');
}

static bool flush_text(struct keys *k)
{
    if (buffer_failed(&k->text)) {
        k->status = error_set(&k->error, ERR_NOMEM, "out of memory");
        return false;
    }
    bool written = k->text.length == 0 || fwrite(k->text.data, 1, k->text.length, stdout) == k->text.length;
    buffer_clear(&k->text);
    if (!written)
        k->status = error_set(&k->error, ERR_IO, "standard output could not be written");
    return written;
}

static bool take_replies(struct keys *k, const redisReply *reply)
{
    size_t keys = k->chunk.count - 2;
    size_t taken = 0;
    while (reply->type == REDIS_REPLY_ARRAY && taken < keys && taken < reply->elements) {
        const redisReply *r = reply->element[taken];
        if (r->type == REDIS_REPLY_ERROR) { /* an error for this key; later ones were not tried */
            k->status = error_set(&k->error, error_of_reply(r->str, r->len), "%s", r->str);
            return false;
        }
        if (r->type != REDIS_REPLY_INTEGER)
            break;
        say_key(k, k->chunk.argv[2 + taken], k->chunk.length[2 + taken], r->integer != 0);
        taken++;
    }
    if (taken != keys)
        k->status = error_set(&k->error, ERR_PARSE, "the service's reply has an unexpected form");
    return taken == keys;
}

static bool is_absent(const redisReply *reply)
{
    bool absent = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    for (size_t i = 0; absent && i < reply->elements; i++)
        absent = reply->element[i]->type == REDIS_REPLY_INTEGER && reply->element[i]->integer == 0;
    return absent;
}

/* For a filter that does not exist, BF.MEXISTS replies 0, as in RedisBloom; "absent" would be misleading
 * here. */
static bool may_be_absent(struct keys *k, const redisReply *reply)
{
    SCOPED(scope_reply) redisReply *exists = NULL;
    const char *argv[] = {"EXISTS", k->chunk.argv[1]};
    if (k->exists || !is_absent(reply))
        return true;
    k->status = client_call(k->cli->client, &exists, 2, argv, NULL, &k->error);
    k->exists = exists != NULL && exists->type == REDIS_REPLY_INTEGER && exists->integer == 1;
    if (k->status == ERR_OK && !k->exists)
        k->status = cli_name_filter(k->cli, ERR_NOT_FOUND, &k->error);
    return k->status == ERR_OK;
}

static bool send_chunk(struct keys *k)
{
    struct chunk *c = &k->chunk;
    if (c->count == 2)
        return true;
    SCOPED(scope_reply) redisReply *reply = NULL;
    k->status = cli_call(k->cli, &reply, c->count, c->argv, c->length, &k->error);
    if (k->status != ERR_OK)
        return false;
    bool good = may_be_absent(k, reply) && take_replies(k, reply);
    return flush_text(k) && good;
}

static void chunk_add(struct chunk *c, const char *key, size_t length)
{
    c->argv[c->count] = key;
    c->length[c->count++] = length;
    c->bytes += length;
}

static bool chunk_full(const struct chunk *c)
{
    return c->count == 2 + CHUNK_KEYS || c->bytes >= CHUNK_BYTES;
}

static bool from_arguments(struct keys *k)
{
    for (size_t i = 1; i < k->cli->count; i++) {
        chunk_add(&k->chunk, k->cli->arguments[i], strlen(k->cli->arguments[i]));
        if (!chunk_full(&k->chunk) && i + 1 < k->cli->count)
            continue;
        if (!send_chunk(k))
            return false;
        chunk_clear(&k->chunk);
    }
    return true;
}

/* Each line is allocated separately; the chunk owns it until its reply has come. */
static bool from_stdin(struct keys *k)
{
    if (isatty(STDIN_FILENO) == 1)
        (void)fputs("Type keys, one a line; end with Ctrl-D.\n", stderr);
    bool good = true;
    bool more = true;
    while (good && more) {
        char *line = NULL;
        size_t size = 0;
        ssize_t length = getline(&line, &size, stdin);
        more = length >= 0;
        if (length > 0 && line[length - 1] == '\n')
            length--;
        if (length > 0)
            chunk_add(&k->chunk, line, (size_t)length);
        else
            free(line);
        if (more && !chunk_full(&k->chunk))
            continue;
        good = send_chunk(k);
        for (size_t i = 2; i < k->chunk.count; i++)
            free((void *)(uintptr_t)k->chunk.argv[i]);
        chunk_clear(&k->chunk);
    }
    if (good && ferror(stdin) != 0) {
        k->status = error_set(&k->error, ERR_IO, "standard input could not be read");
        good = false;
    }
    return good;
}

/* Close the JSON properly if the work was interrupted: "error" says why. */
static void close_json(struct keys *k, bool good)
{
    json_close(&k->json, ']');
    json_count(&k->json, k->yes_name, k->yes_count);
    json_count(&k->json, k->no_name, k->no_count);
    if (!good)
        cli_put_error(&k->json, error_name(k->status), k->error.text);
    json_close(&k->json, '}');
    buffer_puts(&k->text, "\n");
}

static int run_keys(struct keys *k, const char *command)
{
    const char *filter = k->cli->arguments[0];
    buffer_init(&k->text);
    k->json.out = &k->text;
    k->chunk.argv[0] = command;
    k->chunk.length[0] = strlen(command);
    k->chunk.argv[1] = filter;
    k->chunk.length[1] = strlen(filter);
    chunk_clear(&k->chunk);
    if (k->cli->json) {
        json_open(&k->json, '{');
        json_text(&k->json, "filter", filter);
        json_name(&k->json, "keys");
        json_open(&k->json, '[');
    }
    bool good = k->cli->count > 1 ? from_arguments(k) : from_stdin(k);
    if (k->cli->json) {
        close_json(k, good);
        good = flush_text(k) && good;
    }
    buffer_fini(&k->text);
    return good ? CLI_OK : cli_fail_with(k->status, "%s", k->error.text);
}

int cli_check(struct cli *cli)
{
    struct keys k = {
        .cli = cli, .yes = "present", .no = "absent", .yes_name = "present_count", .no_name = "absent_count"};
    int code = run_keys(&k, "BF.MEXISTS");
    return code == CLI_OK && k.no_count > 0 ? CLI_NO : code;
}

int cli_add(struct cli *cli)
{
    struct keys k = {.cli = cli,
                     .yes = "added",
                     .no = "present",
                     .yes_name = "added_count",
                     .no_name = "present_count",
                     .exists = true}; /* an add creates it */
    return run_keys(&k, "BF.MADD");
}
