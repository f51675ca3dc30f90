/* SPDX-License-Identifier: MIT */
#include "shard/redis/wire/replies.h"

enum { SLICE_MIN = 1024 };

bool replies_init(struct replies *r)
{
    *r = (struct replies){.slice = SLICE_MIN, .reader = redisReaderCreate()};
    return r->reader != NULL;
}

void replies_fini(struct replies *r)
{
    if (r->reader != NULL)
        redisReaderFree(r->reader);
    r->reader = NULL;
}

char *replies_room(struct replies *r)
{
    r->from = r->to = 0;
    return r->chunk;
}

void replies_filled(struct replies *r, size_t n)
{
    r->to = n;
}

static enum err broken(const struct replies *r, struct error *e)
{
    bool memory = r->reader->err == REDIS_ERR_OOM;
    return error_set(e, memory ? ERR_NOMEM : ERR_PARSE, "%s", r->reader->errstr);
}

enum err replies_next(struct replies *r, redisReply **out, struct error *e)
{
    void *reply = NULL;
    *out = NULL;
    for (;;) {
        if (redisReaderGetReply(r->reader, &reply) != REDIS_OK)
            return broken(r, e);
        if (reply != NULL) {
            r->slice = SLICE_MIN;
            *out = reply;
            return ERR_OK;
        }
        size_t n = r->to - r->from < r->slice ? r->to - r->from : r->slice;
        if (n == 0)
            return ERR_OK;
        if (redisReaderFeed(r->reader, r->chunk + r->from, n) != REDIS_OK)
            return broken(r, e);
        r->from += n;
        if (r->slice < REPLIES_CHUNK)
            r->slice *= 2; /* a large reply is coming */
    }
}
