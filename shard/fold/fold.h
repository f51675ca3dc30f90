/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_FOLD_H
#define SHARD_FOLD_FOLD_H
/* Folding, the commands: a writer of a generation's shards enters its token into the view and into the
 * shards' headers, writes pieces of shards, and stores up to where of each lane the shards hold every entry.
 * Blocking. Who calls them, when and in which order is the folder's affair (folder.h).
 *
 * Writing is fenced by the header, storing by the view: both compare the whole token. After an error that is
 * neither ERR_FENCED nor about one shard, what was sent may still be executed, later: the writer draws a new
 * token before it goes on.
 */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/log/position.h"
#include "shard/filter/names.h"
#include "shard/resident/dirty.h"
#include "shard/resident/header.h"
#include "shard/redis/script_call.h"

enum { FOLD_WRITE_BYTES = 64 << 10 /* at most in one script */ };

/* Entries of a lane before @id are needed no more. */
struct fold_bound {
    bool some; /* false: all are needed */
    struct log_id id;
};

struct fold {
    struct sync_client *redis; /* borrowed, as the names are */
    const struct names *names;
    unsigned slot; /* of the generation */
    uint64_t generation;
    struct writer_token token; /* what is drawn */
    struct script_call call;   /* storage */
};

void fold_init(struct fold *f, struct sync_client *l, const struct names *names, uint64_t generation);
void fold_fini(struct fold *f);

/* Draw a token of @at_least, and enter it into the view as the writer of the generation. ERR_NOT_FOUND: the
 * view has no such generation, or is another incarnation's. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err fold_draw(struct fold *f, uint64_t at_least, struct error *e);
/* The same, if the view still names this writer. ERR_FENCED: it names another one. */
MUST_CHECK enum err fold_draw_next(struct fold *f, uint64_t at_least, struct error *e);

/* Errors of what follows that are about one shard, and whose text names its key: ERR_LOST: it is missing, cut
 * or something else; ERR_WRONG_TYPE; ERR_FORMAT: a later version wrote it. Nothing was written. */
bool fold_is_lost(enum err code);

/* Enter the token into the header of a shard, at the address @where. @h says which shard it is; its writer
 * has the number of the token under which the shards of its layer were made: one with an earlier token is
 * none of them (header_check_made()). ERR_FENCED: the shard has a later token, whose number is *@later (else
 * 0): draw one above it, if the view still names this writer. Or as fold_is_lost(). */
MUST_CHECK enum err fold_adopt(struct fold *f, unsigned where, const struct header *h, uint64_t *later,
                               struct error *e);
/* The same in two steps, for many shards: queue it; its reply, in order. */
MUST_CHECK enum err fold_enter(struct fold *f, unsigned where, const struct header *h, struct error *e);
MUST_CHECK enum err fold_entered(struct fold *f, unsigned where, const struct header *h, uint64_t *later,
                                 struct error *e);

/* Queue the reading of @length bytes of a shard; the reply is read by sync_client_reply(). */
MUST_CHECK enum err fold_read(struct fold *f, unsigned where, const struct header *h, uint64_t offset,
                              uint32_t length, struct error *e);

/* Queue what is written into one shard. fold_begin(), any number of fold_piece(), fold_send(); the replies
 * are read by fold_reply(), one for each fold_send() to that address, in order. */
void fold_begin(struct fold *f, const struct header *h);
void fold_piece(struct fold *f, uint64_t offset, const void *bytes, size_t length);
MUST_CHECK enum err fold_send(struct fold *f, unsigned where, struct error *e);
/* fold_begin(), and all pieces of @b. */
void fold_batch(struct fold *f, const struct header *h, const struct dirty_batch *b);
/* ERR_FENCED: the shard has another writer; nothing was written. Or as fold_is_lost(). */
MUST_CHECK enum err fold_reply(struct fold *f, unsigned where, const struct header *h, struct error *e);

/* Queue the reading of one block of a shard; the replies are read by fold_got(), in order with those above.
 */
MUST_CHECK enum err fold_get(struct fold *f, unsigned where, const struct header *h, uint32_t block,
                             struct error *e);
/* @h->block_bits / 8 bytes into @out. As fold_is_lost(), also where the block has not its tag. */
MUST_CHECK enum err fold_got(struct fold *f, unsigned where, const struct header *h, uint32_t block,
                             uint8_t *out, struct error *e);

struct log_counted; /* log_view.h */
/* Store that the generation had @keys at these positions of all its @lanes lanes. Before bits of these keys
 * are written: who loads later counts what comes behind, and of the others cannot tell any more which were
 * new. Fewer keys than are stored change nothing. ERR_FENCED: the caller writes no more, a lane was replaced,
 * or the view has left its era. */
MUST_CHECK enum err fold_count(struct fold *f, const struct log_counted *at, unsigned lanes, uint64_t keys,
                               struct error *e);
/* Store that the shards of the generation hold all entries of @lane, whose stream has number @lane_number, up
 * to @p, where @layers had begun, and which was read under the replication id @era. A position before the one
 * that is stored changes nothing. @is_long: the lane is trimmed whatever builds need, and writers are to keep
 * nothing for them. *@needed: up to where the lane may be trimmed, for all generations and builds of the
 * view.
 * *@over_hold: the same if builds are left alone, which then begin again. ERR_FENCED: the caller writes no
 * more, the lane was replaced, or the view has left that era. */
MUST_CHECK enum err fold_store(struct fold *f, unsigned lane, uint64_t lane_number, uint64_t era,
                               const struct log_position *p, unsigned layers, bool is_long,
                               struct fold_bound *needed, struct fold_bound *over_hold, struct error *e);
#endif
