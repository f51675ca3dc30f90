/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_FOLDER_INTERNAL_H
#define SHARD_FOLD_FOLDER_INTERNAL_H
/* What folder.c (taking over, shards that are whole in memory, positions) and folder_keys.c (the other
 * shards, by their keys) share. */
#include "shard/filter/block.h"
#include "shard/resident/dirty.h"
#include "shard/fold/folder.h"

enum {
    KEYS = 4096, /* keys of the overlay at a time */
    BLOCKS = 256 /* blocks that are read at a time */
};

/* The storage of one fold. */
struct work {
    struct {
        unsigned layer;
        struct dirty_batch batch;
    } copied[FOLDER_WINDOW]; /* batches to send next */
    unsigned copies;
    struct overlay_met met[KEYS];
    uint8_t block[BLOCKS][BLOCK_BITS_MAX / 8];
};

static inline struct folder_shard *shard_of(struct folder *f, unsigned layer, uint32_t shard)
{
    return &f->shards[f->first[layer] + shard];
}

static inline enum err folder_tend(const struct folder *f, struct error *e)
{
    return f->tend == NULL ? ERR_OK : f->tend(f->tend_arg, e);
}

/* If @code is about this shard only, go on without it. What was written into it no longer counts: it may come
 * back as another shard, so all that the overlay has will be written again. */
MUST_CHECK enum err folder_go_on(struct folder *f, unsigned layer, uint32_t shard, enum err code,
                                 const struct error *e);
/* Send the script in f->fold for its shard. If f->window is full, take the oldest reply first. */
MUST_CHECK enum err folder_send_script(struct folder *f, const struct folder_script *script, struct error *e);
/* Take the replies of all scripts under way. */
MUST_CHECK enum err folder_take_replies(struct folder *f, struct error *e);
/* Scripts of the last fold whose replies did not come: count the keys of those that were executed. No such
 * script can be executed any more, as each shard has a later token by now. */
MUST_CHECK enum err folder_count_unanswered(struct folder *f, struct error *e);

/* Write the keys of entries behind @from, up to @to, into shards that were not whole in memory all the time.
 * @counts: keys that change a block were not counted yet. */
MUST_CHECK enum err folder_write_keys(struct folder *f, struct work *w, const struct log_id *from,
                                      const struct log_id *to, bool counts, struct error *e);
#endif
