/* SPDX-License-Identifier: MIT */
/* Adds the keys that the follower has read, as any caller adds keys: a build, too, gets them from the log. */
#include <stdlib.h>
#include <string.h>
#include "expansion/follow/follower_internal.h"
#include "shard/request/key_client.h"

enum { BATCH = 1000 };

/* --- keys --- */

static void follower_keys_put(struct tail_keys *k, const char *key, size_t length)
{
    if (k->count == k->room) {
        size_t room = k->room == 0 ? BATCH : 2 * k->room;
        size_t *more = reallocarray(k->lengths, room, sizeof(*more));
        if (more == NULL) {
            k->failed = true;
            return;
        }
        k->lengths = more;
        k->room = room;
    }
    buffer_append(&k->bytes, key, length);
    k->lengths[k->count++] = length;
}

void follower_take_row(void *arg, const char *key, size_t length)
{
    if (key != NULL && length > 0)
        follower_keys_put(arg, key, length);
}

void follower_keys_clear(struct tail_keys *k)
{
    buffer_clear(&k->bytes);
    k->count = 0;
    k->failed = false;
}

void follower_keys_fini(struct tail_keys *k)
{
    buffer_fini(&k->bytes);
    free(k->lengths);
    *k = (struct tail_keys){.count = 0};
}

/* --- adding --- */

struct batch {
    size_t count;
    const char *keys[BATCH];
    size_t lengths[BATCH];
    uint8_t answers[BATCH];
};

static enum err add_batch(struct follower *t, struct batch *b, struct error *e)
{
    const struct follower_options *o = t->o;
    if (t->client == NULL)
        t->client = key_client_new(o->logs, o->nodes, o->redis_timeout_ms);
    memset(b->answers, 0, sizeof(b->answers));
    enum err code = t->client == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                                      : key_client_open(t->client, o->filter, o->filter_length, e);
    if (code == ERR_OK)
        code = key_client_ask(t->client, true, b->keys, b->lengths, b->count, b->answers, e);
    for (size_t i = 0; i < b->count && code == ERR_OK; i++)
        t->added += b->answers[i] == KEY_ADDED;
    return code == ERR_OK ? follower_tend(t, e) : code;
}

static enum err add_all(struct follower *t, struct batch *b, const struct tail_keys *k, struct error *e)
{
    enum err code = ERR_OK;
    const char *at = k->bytes.data;
    for (size_t first = 0; first < k->count && code == ERR_OK; first += b->count) {
        b->count = k->count - first < BATCH ? k->count - first : BATCH;
        for (size_t i = 0; i < b->count; i++) {
            b->keys[i] = at;
            b->lengths[i] = k->lengths[first + i];
            at += b->lengths[i];
        }
        code = add_batch(t, b, e);
    }
    return code;
}

enum err follower_add(struct follower *t, const struct tail_keys *k, struct error *e)
{
    if (k->failed || buffer_failed(&k->bytes))
        return error_set(e, ERR_NOMEM, "out of memory");
    if (k->count == 0)
        return ERR_OK;
    struct batch *b = malloc(sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = add_all(t, b, k, e);
    free(b);
    if (code == ERR_OK)
        t->rows += k->count;
    return code;
}
