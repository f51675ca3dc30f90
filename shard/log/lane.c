/* SPDX-License-Identifier: MIT */
#include "shard/log/lane.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "shard/redis/wire/greeting.h"
#include "shard/filter/slots.h"

void lane_key(struct key_name *out, const struct names *names, unsigned lane, uint64_t number)
{
    int n = snprintf(out->text, sizeof(out->text), "%s:{%s.%u}:%016" PRIx64 ".log%" PRIu64, names->prefix,
                     names->filter, lane, names->incarnation, number);
    out->length = (size_t)n;
}

/* --- commands --- */

void lane_commands_clear(struct lane_commands *c)
{
    buffer_clear(&c->bytes);
    c->count = 0;
}

void lane_commands_fini(struct lane_commands *c)
{
    buffer_fini(&c->bytes);
}

static void note(struct lane_commands *c, enum lane_command kind)
{
    assert(c->count < LANE_COMMANDS_MAX);
    c->kind[c->count] = (uint8_t)kind;
    c->end[c->count++] = c->bytes.length;
}

static void put(struct lane_commands *c, enum lane_command kind, size_t argc, const char *const *argv,
                const size_t *lengths)
{
    buffer_command(&c->bytes, argc, argv, lengths);
    note(c, kind);
}

void lane_commands_add(struct lane_commands *c, const struct lane *lane, const void *entry, size_t length)
{
    const char *const argv[] = {"XADD", lane->key.text, "NOMKSTREAM", "*", "e", entry};
    const size_t lengths[] = {4, lane->key.length, 10, 1, 1, length};
    put(c, LANE_ADD, 6, argv, lengths);
}

void lane_commands_range(struct lane_commands *c, const struct lane *lane, struct log_id from, unsigned limit,
                         bool with_length)
{
    char id[LOG_ID_TEXT_MAX], count[12];
    const char *const argv[] = {"XRANGE", lane->key.text, id, "+", "COUNT", count};
    (void)log_id_format(from, id);
    (void)snprintf(count, sizeof(count), "%u", limit);
    if (with_length)
        put(c, LANE_LENGTH, 2, (const char *const[]){"XLEN", lane->key.text}, NULL);
    put(c, LANE_RANGE, 6, argv, NULL);
    buffer_puts(&c->bytes, greeting_ask_replication);
    note(c, LANE_INFO);
}

/* --- replies --- */

static bool begins(const redisReply *reply, const char *word)
{
    return strncmp(reply->str, word, strlen(word)) == 0;
}

enum err lane_refusal(const struct lane *lane, const redisReply *reply, struct error *e)
{
    const char *key = lane->key.text;
    if (begins(reply, "WRONGTYPE"))
        return error_set(e, ERR_WRONG_TYPE, "lane %s is not a stream; delete or rename that key", key);
    if (strstr(reply->str, "exhausted the last possible ID") != NULL)
        return error_set(e, ERR_CONFLICT,
                         "lane %s: the id of its last entry is the highest there is; replace the lane", key);
    enum err code = ERR_REFUSED;
    if (begins(reply, "OOM "))
        code = ERR_NOMEM;
    else if (slots_error_passes(reply->str) || begins(reply, "READONLY") || begins(reply, "MOVED ") ||
             begins(reply, "ASK "))
        code = ERR_UNREACHABLE;
    return error_set(e, code, "lane %s: %s", key, reply->str);
}

enum err lane_take_id(const struct lane *lane, const redisReply *reply, struct log_id *out, struct error *e)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return lane_refusal(lane, reply, e);
    if (reply->type != REDIS_REPLY_STRING || !log_id_parse(out, reply->str, reply->len))
        return error_set(e, ERR_PARSE, "lane %s: the reply to XADD is no id", lane->key.text);
    return ERR_OK;
}
