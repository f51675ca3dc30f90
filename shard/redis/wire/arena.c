/* SPDX-License-Identifier: MIT */
#include "shard/redis/wire/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384, ALIGNMENT = _Alignof(max_align_t) };

struct block {
    struct block *next;
    size_t size;
    _Alignas(max_align_t) char bytes[];
};

struct arena {
    struct block *first, *last; /* the first one is kept */
    size_t used;                /* bytes of the last block */
};

static struct block *block_new(size_t size)
{
    struct block *b = size <= SIZE_MAX - sizeof(*b) ? malloc(sizeof(*b) + size) : NULL;
    if (b != NULL) {
        b->next = NULL;
        b->size = size;
    }
    return b;
}

struct arena *arena_new(void)
{
    struct arena *a = calloc(1, sizeof(*a));
    struct block *b = block_new(BLOCK_BYTES);
    if (a == NULL || b == NULL) {
        free(a);
        free(b);
        return NULL;
    }
    a->first = a->last = b;
    return a;
}

void arena_reset(struct arena *a)
{
    for (struct block *b = a->first->next, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    a->first->next = NULL;
    a->last = a->first;
    a->used = 0;
}

void arena_free(struct arena *a)
{
    if (a == NULL)
        return;
    arena_reset(a);
    free(a->first);
    free(a);
}

/* @size bytes, aligned for any type. NULL: no memory. */
static void *take(struct arena *a, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT)
        return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (size > a->last->size - a->used) {
        struct block *b = block_new(size > BLOCK_BYTES ? size : BLOCK_BYTES);
        if (b == NULL)
            return NULL;
        a->last->next = b;
        a->last = b;
        a->used = 0;
    }
    void *taken = a->last->bytes + a->used;
    a->used += size;
    return taken;
}

/* --- the functions that make hiredis' replies --- */

static redisReply *take_reply(const redisReadTask *task, int type)
{
    redisReply *r = take(task->privdata, sizeof(*r));
    if (r != NULL)
        *r = (redisReply){.type = type};
    return r;
}

/* Put a complete reply into its parent. */
static void *settle(const redisReadTask *task, redisReply *r)
{
    if (task->parent != NULL) {
        redisReply *parent = task->parent->obj;
        parent->element[task->idx] = r;
    }
    return r;
}

static void *create_string(const redisReadTask *task, char *text, size_t length)
{
    redisReply *r = take_reply(task, task->type);
    char *copy = length < SIZE_MAX ? take(task->privdata, length + 1) : NULL;
    if (r == NULL || copy == NULL)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    r->str = copy;
    r->len = length;
    return settle(task, r);
}

#if HIREDIS_MAJOR >= 1
static void *create_array(const redisReadTask *task, size_t elements)
#else
static void *create_array(const redisReadTask *task, int elements)
#endif
{
    redisReply *r = take_reply(task, REDIS_REPLY_ARRAY);
    size_t count = (size_t)elements, size;
    if (r == NULL || __builtin_mul_overflow(count, sizeof(struct redisReply *), &size))
        return NULL;
    if (count > 0 && (r->element = take(task->privdata, size)) == NULL)
        return NULL;
    r->elements = count;
    return settle(task, r);
}

static void *create_integer(const redisReadTask *task, long long value)
{
    redisReply *r = take_reply(task, REDIS_REPLY_INTEGER);
    if (r == NULL)
        return NULL;
    r->integer = value;
    return settle(task, r);
}

static void *create_nil(const redisReadTask *task)
{
    redisReply *r = take_reply(task, REDIS_REPLY_NIL);
    return r == NULL ? NULL : settle(task, r);
}

#if HIREDIS_MAJOR >= 1
/* Only RESP3 has these two types, which nobody asks for. The reply is refused: without a function hiredis
 * would return a type in place of a pointer. */
static void *refuse_double(const redisReadTask *task, double value, char *text, size_t length)
{
    (void)task;
    (void)value;
    (void)text;
    (void)length;
    return NULL;
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)task;
    (void)value;
    return NULL;
}
#endif

static void free_object(void *object)
{
    (void)object; /* freed with the arena */
}

redisReplyObjectFunctions *arena_functions(void)
{
    static redisReplyObjectFunctions functions = {
        .createString = create_string,
        .createArray = create_array,
        .createInteger = create_integer,
        .createNil = create_nil,
#if HIREDIS_MAJOR >= 1
        .createDouble = refuse_double,
        .createBool = refuse_bool,
#endif
        .freeObject = free_object
    };
    return &functions;
}
