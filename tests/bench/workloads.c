/* SPDX-License-Identifier: MIT */
#include "workloads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { KEYS_MAX = 1000 };

static struct code code_at(const struct request *r, uint64_t i)
{
    /* The stride has no common factor with usual sizes, so that the order of the codes defeats caches. */
    if (r->known != NULL)
        return r->known[(i * UINT64_C(2654435761)) % r->known_count];
    return code_of(r->counter + i);
}

void request_filter(void *request, struct buffer *out, uint64_t first, unsigned keys)
{
    const struct request *r = request;
    struct code codes[KEYS_MAX];
    const char *argv[KEYS_MAX + 2] = {r->command, r->filter};
    size_t lengths[KEYS_MAX + 2] = {strlen(r->command), strlen(r->filter)};
    if (keys > KEYS_MAX)
        keys = KEYS_MAX;
    for (unsigned i = 0; i < keys; i++) {
        codes[i] = code_at(r, first + i);
        argv[2 + i] = codes[i].text;
        lengths[2 + i] = CODE_LENGTH;
    }
    buffer_command(out, keys + 2, argv, lengths);
}

/* Return the i-th position of a key by double hashing, as client-side filters do it. */
static uint64_t position(const struct code *code, unsigned i, uint64_t bits)
{
    XXH128_hash_t h = XXH3_128bits(code->text, CODE_LENGTH);
    return (h.low64 + i * (h.high64 | 1)) % bits;
}

void request_getrange(void *request, struct buffer *out, uint64_t first, unsigned keys)
{
    const struct request *r = request;
    char from[24];
    char to[24];
    (void)keys;
    struct code code = code_at(r, first);
    unsigned long long from_byte = position(&code, 0, r->bits / 8 / BLOCK_BYTES) * BLOCK_BYTES;
    int from_length = snprintf(from, sizeof(from), "%llu", from_byte);
    int to_length = snprintf(to, sizeof(to), "%llu", from_byte + BLOCK_BYTES - 1);
    const char *argv[] = {"GETRANGE", BITMAP_NAME, from, to};
    const size_t lengths[] = {strlen(argv[0]), strlen(argv[1]), (size_t)from_length, (size_t)to_length};
    buffer_command(out, 4, argv, lengths);
}

void request_script(void *request, struct buffer *out, uint64_t first, unsigned keys)
{
    const struct request *r = request;
    char text[CLASSIC_K][24];
    const char *argv[4 + CLASSIC_K] = {"EVALSHA", r->sha, "1", BITMAP_NAME};
    size_t lengths[4 + CLASSIC_K] = {7, 40, 1, strlen(BITMAP_NAME)};
    (void)keys;
    struct code code = code_at(r, first);
    for (unsigned i = 0; i < CLASSIC_K; i++) {
        int n = snprintf(text[i], sizeof(text[i]), "%llu", (unsigned long long)position(&code, i, r->bits));
        argv[4 + i] = text[i];
        lengths[4 + i] = (size_t)n;
    }
    buffer_command(out, 4 + CLASSIC_K, argv, lengths);
}

enum err classic_fill(redisContext *redis, const struct code *known, size_t count, uint64_t *bits,
                      struct error *e)
{
    *bits = (uint64_t)((double)count * CLASSIC_BITS_PER_KEY);
    size_t bytes = (size_t)(*bits / 8) + 1;
    unsigned char *map = calloc(bytes, 1);
    if (map == NULL)
        return error_set(e, ERR_NOMEM, "no memory for the classic bitmap");
    for (size_t k = 0; k < count; k++)
        for (unsigned i = 0; i < CLASSIC_K; i++) {
            uint64_t bit = position(&known[k], i, *bits);
            map[bit / 8] |= (unsigned char)(0x80U >> (bit % 8)); /* Redis counts bits from the highest */
        }
    redisReply *r = redisCommand(redis, "SET %s %b", BITMAP_NAME, map, bytes);
    bool ok = r != NULL && r->type == REDIS_REPLY_STATUS;
    freeReplyObject(r);
    free(map);
    return ok ? ERR_OK : error_set(e, ERR_REFUSED, "the classic bitmap could not be stored");
}

enum err classic_script(redisContext *redis, bool add, char sha[41], struct error *e)
{
    static const char check_text[] = "for i = 1, #ARGV do"
                                     " if redis.call('GETBIT', KEYS[1], ARGV[i]) == 0 then return 0 end"
                                     " end"
                                     " return 1";
    static const char add_text[] = "local new = 0"
                                   " for i = 1, #ARGV do"
                                   " if redis.call('SETBIT', KEYS[1], ARGV[i], 1) == 0 then new = 1 end"
                                   " end"
                                   " return new";
    redisReply *r = redisCommand(redis, "SCRIPT LOAD %s", add ? add_text : check_text);
    bool ok = r != NULL && r->type == REDIS_REPLY_STRING && r->len == 40;
    if (ok)
        memcpy(sha, r->str, 41);
    freeReplyObject(r);
    return ok ? ERR_OK : error_set(e, ERR_REFUSED, "the script could not be loaded");
}
