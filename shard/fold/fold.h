/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_FOLD_H
#define SHARD_FOLD_FOLD_H
/* The commands of folding. A writer of a generation's shards enters its token into the view and into the
 * shards' headers, writes pieces of shards, and stores up to which position of each lane the shards hold
 * every entry. Blocking. The folder decides who calls them, when, and in which order (folder.h).
 *
 * The header fences writes, the view fences positions: both compare the whole token. After an error that is
 * neither ERR_FENCED nor about one shard, a command that was sent may still be executed later: the writer
 * must draw a new token before it goes on. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/log/position.h"
#include "shard/filter/generation.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/dirty.h"
#include "shard/resident/header.h"
#include "shard/redis/script_call.h"

enum { FOLD_WRITE_BYTES = 64 << 10 /* the most bytes of one script */ };

/* Entries of a lane before @id are no longer needed. */
struct fold_bound {
    bool some; /* false: all entries are needed */
    struct log_id id;
};

struct fold {
    struct sync_client *redis; /* borrowed, like @names and @shape */
    const struct names *names;
    unsigned slot; /* of the generation */
    uint64_t generation;
    struct writer_token token;      /* the token that was drawn */
    struct script_call call;        /* scratch: the script that is being written or run */
    const struct generation *shape; /* from here on: set by fold_place() */
    struct placement placement;
    uint16_t tag; /* of the shards' blocks */
};

void fold_init(struct fold *f, struct sync_client *l, const struct names *names, uint64_t generation);
void fold_fini(struct fold *f);

/* Say which shards there are, before any function below that names one: those of @shape, which has this
 * generation's number, and may gain layers. ERR_CONFIG: they lie on nodes that are not configured. */
MUST_CHECK enum err fold_place(struct fold *f, const struct generation *shape, struct error *e);
/* The header of a shard; the number of its writer is the token under which its layer was made. */
struct header fold_header(const struct fold *f, unsigned layer, uint32_t shard);
/* The key of a shard, and its address. */
void fold_key(const struct fold *f, unsigned layer, uint32_t shard, struct key_name *out);
static inline unsigned fold_where(const struct fold *f, unsigned layer, uint32_t shard)
{
    return placement_where(&f->placement, layer, shard);
}

/* Draw a token with a number of at least @at_least, and enter it into the view as the writer of the
 * generation. ERR_NOT_FOUND: the view does not have this generation, or has another incarnation.
 * ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err fold_draw(struct fold *f, uint64_t at_least, struct error *e);
/* As above, if the view still names this writer. ERR_FENCED: it names another one. */
MUST_CHECK enum err fold_draw_next(struct fold *f, uint64_t at_least, struct error *e);
/* ERR_FENCED: another process is the writer now; @more: what else may be the reason. */
enum err fold_fenced(const struct fold *f, const char *more, struct error *e);
/* Add the token to the arguments of a script. */
void fold_add_token(const struct fold *f, struct script_call *c);

/* True for an error of the functions below that is about one shard; its text names the shard's key. ERR_LOST:
 * the shard is missing, cut, or something else; ERR_WRONG_TYPE; ERR_FORMAT: a later version wrote it. Nothing
 * was written. */
bool fold_is_lost(enum err code);

/* Enter the token into the header of a shard. A shard with an earlier token than the one under which its
 * layer was made is not one of them (header_check_made()). ERR_FENCED: the shard has a later token, whose
 * number is
 * *@later (else 0); draw one above it, if the view still names this writer. Also the errors of
 * fold_is_lost(). */
MUST_CHECK enum err fold_adopt(struct fold *f, unsigned layer, uint32_t shard, uint64_t *later,
                               struct error *e);
/* fold_adopt() in two steps, for many shards: queue it; take its reply, in order. */
MUST_CHECK enum err fold_enter(struct fold *f, unsigned layer, uint32_t shard, struct error *e);
MUST_CHECK enum err fold_entered(struct fold *f, unsigned layer, uint32_t shard, uint64_t *later,
                                 struct error *e);

/* Queue a read of @length bytes of a shard. sync_client_reply() reads the reply, fold_refused() judges an
 * error. */
MUST_CHECK enum err fold_read(struct fold *f, unsigned layer, uint32_t shard, uint64_t offset,
                              uint32_t length, struct error *e);
/* The error for an error reply to a command on the shard. */
MUST_CHECK enum err fold_refused(struct fold *f, unsigned layer, uint32_t shard, const redisReply *r,
                                 struct error *e);

/* Queue what to write into one shard: fold_begin(), any number of fold_piece(), fold_send(). fold_reply()
 * reads the replies: one for each fold_send() to that address, in order. */
void fold_begin(struct fold *f, unsigned layer, uint32_t shard);
void fold_piece(struct fold *f, uint64_t offset, const void *bytes, size_t length);
MUST_CHECK enum err fold_send(struct fold *f, unsigned layer, uint32_t shard, struct error *e);
/* fold_begin(), and all pieces of @b. */
void fold_batch(struct fold *f, unsigned layer, const struct dirty_batch *b);
/* ERR_FENCED: the shard has another writer; nothing was written. Also the errors of fold_is_lost(). */
MUST_CHECK enum err fold_reply(struct fold *f, unsigned layer, uint32_t shard, struct error *e);

/* Queue a read of one block of a shard. fold_got() reads the replies, in order with those above. */
MUST_CHECK enum err fold_get(struct fold *f, unsigned layer, uint32_t shard, uint32_t block, struct error *e);
/* Take the block into @out. The errors of fold_is_lost(), also if the block does not have its tag. */
MUST_CHECK enum err fold_got(struct fold *f, unsigned layer, uint32_t shard, uint32_t block, uint8_t *out,
                             struct error *e);

struct log_counted; /* defined in log_view.h */
/* Store that the generation had @keys keys at these positions of all its @lanes lanes. Call it before bits of
 * these keys are written: a process that loads later counts the keys behind the positions, and cannot tell
 * which earlier ones were new. Fewer keys than are stored change nothing. ERR_FENCED: the caller is no longer
 * the writer, a lane was replaced, or the view has left its era. */
MUST_CHECK enum err fold_count(struct fold *f, const struct log_counted *at, unsigned lanes, uint64_t keys,
                               struct error *e);
/* Store that the shards of the generation hold all entries of @lane, whose stream has number @lane_number, up
 * to @p, where @layers layers had begun; @p was read under the replication id @era. A position before the
 * stored one changes nothing. @is_long: the lane is trimmed whatever builds need, and writers keep nothing
 * for builds. *@needed: up to where the lane may be trimmed, for all generations and builds of the view.
 * *@over_hold: the same without regard to builds, which then begin again. ERR_FENCED: the caller is no longer
 * the writer, the lane was replaced, or the view has left that era. */
MUST_CHECK enum err fold_store(struct fold *f, unsigned lane, uint64_t lane_number, uint64_t era,
                               const struct log_position *p, unsigned layers, bool is_long,
                               struct fold_bound *needed, struct fold_bound *over_hold, struct error *e);
#endif
