/* SPDX-License-Identifier: MIT */
/* Adds the keys that the follower has read, as any caller adds keys: a build, too, gets them from the log. */
#include <string.h>
#include "expansion/follow/follower_internal.h"
#include "migrate/source/scan.h"
#include "shard/control/key_client.h"

enum { BATCH = 1000 };

void follower_take_row(void *arg, const char *key, size_t length)
{
    if (key != NULL)
        scan_keep_key(arg, key, length);
}

struct batch {
    size_t count;
    const char *keys[BATCH];
    size_t lengths[BATCH];
    uint8_t answers[BATCH];
};

/* A filter that was made without growth may have got a table later. Its rows come again, as nothing is
 * confirmed: they are added once a rebuild has made room. */
static enum err add_batch(struct follower *t, struct batch *b, struct error *e)
{
    const struct follower_options *o = t->o;
    memset(b->answers, 0, sizeof(b->answers));
    enum err code =
        key_client_open(&t->client, o->logs, o->nodes, o->redis_timeout_ms, o->filter, o->filter_length, e);
    if (code == ERR_OK)
        code = key_client_ask(t->client, true, b->keys, b->lengths, b->count, b->answers, e);
    if (code == ERR_OK && memchr(b->answers, KEY_NO_ROOM, b->count) != NULL)
        code = error_set(e, ERR_FULL, "the filter is full and does not grow: its rows wait for a rebuild");
    return code == ERR_OK ? follower_tend(t, e) : code;
}

enum err follower_add(struct follower *t, const struct buffer *keys, struct error *e)
{
    if (buffer_failed(keys))
        return error_set(e, ERR_NOMEM, "out of memory");
    struct batch b;
    enum err code = ERR_OK;
    size_t at = 0, rows = 0;
    while (code == ERR_OK && (b.count = scan_kept_keys(keys, &at, BATCH, b.keys, b.lengths)) > 0) {
        code = add_batch(t, &b, e);
        rows += b.count;
    }
    if (code == ERR_OK)
        t->rows += rows;
    return code;
}
