/* SPDX-License-Identifier: MIT */
/* Replies of the daemon as JSON, with the types that the schema promises. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/cli.h"

bool cli_is_list(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements % 2 == 0 &&
           (r->elements == 0 || r->element[0]->type == REDIS_REPLY_STRING);
}

static void write_integer(struct json *j, long long value, bool as_text)
{
    char text[24];
    if (as_text)
        json_string(j, text, (size_t)snprintf(text, sizeof(text), "%lld", value));
    else
        json_integer(j, value);
}

static void write_object(struct json *j, const redisReply *list, const struct json_shape *shape);

/* @member NULL: not listed. */
static void write_array(struct json *j, const redisReply *r, const struct json_member *member)
{
    json_open(j, '[');
    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *each = r->element[i];
        bool names = member != NULL && member->type & JSON_STRINGS;
        if (!names && each->type == REDIS_REPLY_ARRAY && cli_is_list(each))
            write_object(j, each, member == NULL ? NULL : member->shape);
        else if (each->type == REDIS_REPLY_STRING && names)
            json_string(j, each->str, (size_t)each->len);
        else if (each->type == REDIS_REPLY_STRING)
            json_number_or_string(j, each->str, (size_t)each->len);
        else if (each->type == REDIS_REPLY_INTEGER)
            write_integer(j, each->integer, names);
        else
            json_null(j);
    }
    json_close(j, ']');
}

/* A whole number that many a reader of JSON could not hold. */
static bool is_beyond(const redisReply *r)
{
    uint64_t n;
    return r->type == REDIS_REPLY_STRING && number_u64(r->str, (size_t)r->len, &n) && n > INT64_MAX;
}

static void write_value(struct json *j, const redisReply *r, const struct json_member *member)
{
    bool name = member != NULL ? (member->type & JSON_STRING) != 0 : is_beyond(r);
    switch (r->type) {
    case REDIS_REPLY_INTEGER:
        if (member != NULL && (member->type & JSON_BOOL) != 0) {
            json_bool(j, r->integer != 0);
            return;
        }
        write_integer(j, r->integer, name);
        return;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        if (name)
            json_string(j, r->str, (size_t)r->len);
        else
            json_number_or_string(j, r->str, (size_t)r->len);
        return;
    case REDIS_REPLY_ARRAY:
        write_array(j, r, member);
        return;
    default:
        json_null(j);
        return;
    }
}

static void write_object(struct json *j, const redisReply *list, const struct json_shape *shape)
{
    json_open(j, '{');
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const redisReply *key = list->element[i];
        if (key->type != REDIS_REPLY_STRING && key->type != REDIS_REPLY_STATUS)
            continue;
        const struct json_member *member = json_member_find(shape, key->str);
        const redisReply *value = list->element[i + 1];
        bool text = value->type == REDIS_REPLY_STRING && value->len == 0;
        /* A job's record keeps numbers that are not known as empty. */
        if (text && member != NULL && (member->type & (JSON_INTEGER | JSON_NUMBER)) != 0)
            continue;
        json_name(j, key->str);
        write_value(j, value, member);
    }
    json_close(j, '}');
}

void cli_print_json(const redisReply *reply, const struct json_shape *shape)
{
    struct buffer b = {0};
    struct json j = {.out = &b};
    if (cli_is_list(reply) && reply->elements != 0) {
        write_object(&j, reply, shape);
    } else {
        json_open(&j, '[');
        for (size_t i = 0; i < reply->elements; i++)
            write_object(&j, reply->element[i], shape);
        json_close(&j, ']');
    }
    (void)puts(buffer_text(&b));
    buffer_fini(&b);
}

void cli_print_outcome(const struct cli *cli, const char *name, const uint64_t *number)
{
    struct buffer b = {0};
    struct json j = {.out = &b};
    json_open(&j, '{');
    json_name(&j, "filter");
    json_string(&j, cli->arguments[0], strlen(cli->arguments[0]));
    json_name(&j, name);
    if (number == NULL)
        json_bool(&j, true);
    else
        json_integer(&j, (int64_t)*number);
    json_close(&j, '}');
    (void)puts(buffer_text(&b));
    buffer_fini(&b);
}
