/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_BUILD_H
#define SHARD_GENERATIONS_BUILD_H
/* A new generation beside the one that is read: its place in the view, its shards, from where on its builder
 * needs the lanes, its record, and the cutover. What the keys are and how their bits come into the shards is
 * not known here. Blocking; of one thread. The caller holds the lease of the filter's job.
 *
 * The happy path is: builder_begin(); builder_start() has the lanes kept, makes the shards, and then notes
 * where the lanes end (S0); the caller waits until all transactions that are open then have ended, and reads
 * the rows; builder_follow() gives it the entries after S0. At intervals builder_note(), then all keys so far
 * are written under the builder's token (fold.h), then builder_record(); in the end, behind the last note and
 * the last write, builder_cutover(), twice. The old generation stays for a time of grace (grace.h).
 *
 * Possible failure modes are:
 *   - a lane was trimmed past the builder, is lost, was replaced, or its era changed; a shard is missing; a
 *     node of the shards is in an era that the view had not at S0; the metadata node was started again, or is
 *     another one, so that the view may be older than it was (tests/model/log/near.pml): `again`.
 * builder_start() and all rows come again, when the lanes of the view are well;
 *   - another builder took over (ERR_FENCED): whoever still has the lease may take over again;
 *   - a connection broke behind a write, so that it may still be executed: `took_over` is cleared, and
 *     builder_take_over() comes before the next write;
 *   - the process ends: the next one calls builder_resume(). */
#include <stdbool.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/log/lane_sync.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/fold/fold.h"
#include "shard/view/log_view.h"

/* Some 80 KB. */
struct builder {
    struct fold fold; /* of the new generation; its link and names are borrowed */
    struct generation shape;
    struct placement placement;
    uint16_t tag;
    uint64_t seed;  /* of the filter: of the keys' hashes */
    bool took_over; /* the headers of all shards have the token */
    bool near;      /* the view says so, since before builder_follow() was called last */
    bool anew;      /* what was read and applied so far does not count */

    /* Of S0. */
    unsigned lane_count;
    struct log_lane lane[LOG_LANES_MAX];
    struct lane stream[LOG_LANES_MAX]; /* where they lie */
    struct trusted eras;
    struct buffer lanes_text, eras_text; /* as the view has them */
    uint64_t home; /* replication id of the metadata node; of another one neither view nor record may count */

    struct log_position at[LOG_LANES_MAX];    /* up to where builder_follow() has given the entries */
    struct log_position noted[LOG_LANES_MAX]; /* of builder_note() */
    uint64_t keys; /* that were new, up to what is recorded, or cut over, next: of whoever writes the bits */
};

/* The names have the view's incarnation. ERR_NOMEM. */
MUST_CHECK enum err builder_new(struct builder **out, struct sync_client *l, const struct names *names,
                                struct error *e);
void builder_free(struct builder *b);

/* Enter a generation with the layers, nodes and capacity of @shape into the view, with this builder as its
 * writer; number and mix are chosen here. ERR_CONFLICT: there are two generations already, or the view
 * changed. ERR_CONFIG: nodes that are not configured. ERR_NOT_FOUND. After ERR_UNREACHABLE and ERR_TIMEOUT it
 * may be in the view: builder_resume(). */
MUST_CHECK enum err builder_begin(struct builder *b, const struct generation *shape, struct error *e);

/* Go on with the build that the view has, by taking it over. What was recorded last is in the positions, and
 * what the caller had added to it is appended to *@rows; or it begins `again`. ERR_NOT_FOUND: there is no
 * build. ERR_PARSE: the record is damaged; the text names it. */
MUST_CHECK enum err builder_resume(struct builder *b, struct buffer *rows, struct error *e);

/* Draw a token and enter it into all headers. ERR_LOST, with `again`: a shard is missing, or something else.
 * ERR_NOT_FOUND: the view has no such generation any more. */
MUST_CHECK enum err builder_take_over(struct builder *b, struct error *e);

/* Have the record forgotten, and all lanes kept from where the generation that is read has folded them; then
 * make all shards, under a new token, which the view says; then note where the lanes end. The build is not
 * `again` any more. ERR_LOST: a lane is lost, or in another era than the view, or a node of the shards is:
 * call again when that is mended. ERR_CONFLICT, ERR_WRONG_TYPE: something else has a shard's name. ERR_NOMEM,
 * also of Redis. ERR_FENCED: another one builds, or the view has no such generation any more. */
MUST_CHECK enum err builder_start(struct builder *b, struct error *e);

/* Give all entries behind the positions, up to the ends of the lanes, to @apply. ERR_LOST, with `again`: a
 * lane is not what it was. What @apply says. */
MUST_CHECK enum err builder_follow(struct builder *b, lane_apply_fn *apply, void *arg, struct error *e);

/* Note the positions. What is written behind this has the entries up to them, if they were applied. */
void builder_note(struct builder *b);

/* Record the noted positions, all of whose entries the shards have, and @rows, which the caller noted before
 * the same write; the lanes are kept from there. ERR_FENCED: another one builds. */
MUST_CHECK enum err builder_record(struct builder *b, const void *rows, size_t length, struct error *e);

/* Make the generation the one that is read, with all entries up to the noted positions in its shards: *@read.
 * Not by the first call, which has the view say that the cutover is near: from then on writers forget
 * nothing that a lane may lose before the build has it. builder_follow(), the note and the writing come
 * again, then this. @heals: it has every key that was ever acknowledged, so that the filter is not degraded
 * any more. The view says how many keys it has. To be repeated after ERR_UNREACHABLE and ERR_TIMEOUT, behind
 * a take-over. ERR_LOST, with `again`. ERR_FENCED: another one builds. */
MUST_CHECK enum err builder_cutover(struct builder *b, bool heals, bool *read, struct error *e);

/* Of shard @shard of @layer; its writer has the number of the token under which the layer was made, as
 * fold_adopt() has it. */
struct header builder_header(const struct builder *b, unsigned layer, uint32_t shard);
#endif
