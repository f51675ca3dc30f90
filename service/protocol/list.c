/* SPDX-License-Identifier: MIT */
#include "service/protocol/list.h"

#include <stdio.h>
#include <string.h>
#include "base/number.h"

const redisReply *list_field(const redisReply *list, const char *name)
{
    if (list->type != REDIS_REPLY_ARRAY)
        return NULL;
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const redisReply *key = list->element[i];
        if ((key->type == REDIS_REPLY_STRING || key->type == REDIS_REPLY_STATUS) &&
            strcmp(key->str, name) == 0)
            return list->element[i + 1];
    }
    return NULL;
}

bool list_text(const redisReply *list, const char *name, char *out, size_t size)
{
    const redisReply *value = list_field(list, name);
    if (value == NULL)
        return false;
    if (value->type == REDIS_REPLY_INTEGER)
        (void)snprintf(out, size, "%lld", value->integer);
    else if (value->type == REDIS_REPLY_STRING || value->type == REDIS_REPLY_STATUS)
        (void)snprintf(out, size, "%s", value->str);
    else
        return false;
    return out[0] != '\0';
}

bool list_bytes(const redisReply *list, const char *name, const char **bytes, size_t *length)
{
    const redisReply *value = list_field(list, name);
    bool there = value != NULL && (value->type == REDIS_REPLY_STRING || value->type == REDIS_REPLY_STATUS);
    *bytes = there ? value->str : "";
    *length = there ? value->len : 0;
    return *length > 0;
}

bool list_is(const redisReply *list, const char *name, const char *wanted)
{
    char text[64];
    return list_text(list, name, text, sizeof(text)) && strcmp(text, wanted) == 0;
}

bool list_count(const redisReply *list, const char *name, uint64_t *out)
{
    char text[64];
    return list_text(list, name, text, sizeof(text)) && number_u64(text, strlen(text), out);
}

bool list_time(const redisReply *list, const char *name, uint64_t *ms)
{
    double seconds;
    if (!list_decimal(list, name, &seconds) || !(seconds > 0 && seconds < 1e12))
        return false;
    *ms = (uint64_t)(seconds * 1000 + 0.5);
    return true;
}

bool list_decimal(const redisReply *list, const char *name, double *out)
{
    char text[64];
    return list_text(list, name, text, sizeof(text)) && number_double(text, strlen(text), out);
}

redisReply *list_parse(const struct buffer *bytes)
{
    redisReader *reader = bytes->length == 0 || buffer_failed(bytes) ? NULL : redisReaderCreate();
    void *list = NULL;
    if (reader != NULL && redisReaderFeed(reader, bytes->data, bytes->length) == REDIS_OK)
        (void)redisReaderGetReply(reader, &list);
    if (reader != NULL)
        redisReaderFree(reader);
    redisReply *r = list;
    if (r == NULL || r->type == REDIS_REPLY_ARRAY)
        return r;
    freeReplyObject(r);
    return NULL;
}
