/* SPDX-License-Identifier: MIT */
#include "shard/redis/wire/replies.h"

#include "shard/redis/wire/arena.h"

enum { SLICE_MIN = 1024 };

bool replies_init(struct replies *r, bool keep)
{
    *r = (struct replies){.slice = SLICE_MIN};
    r->reader = redisReaderCreate();
    r->arena = keep ? NULL : arena_new();
    if (r->reader == NULL || (!keep && r->arena == NULL)) {
        replies_fini(r);
        return false;
    }
    if (!keep) {
        r->reader->fn = arena_functions();
        r->reader->privdata = r->arena;
    }
    return true;
}

void replies_fini(struct replies *r)
{
    if (r->reader != NULL)
        redisReaderFree(r->reader); /* with the arena's functions it frees no reply */
    arena_free(r->arena);
    r->reader = NULL;
    r->arena = NULL;
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
    if (r->given && r->arena != NULL)
        arena_reset(r->arena);
    r->given = false;
    for (;;) {
        if (redisReaderGetReply(r->reader, &reply) != REDIS_OK)
            return broken(r, e);
        if (reply != NULL) {
            r->slice = SLICE_MIN;
            r->given = true;
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
