/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_BUILD_H
#define SHARD_GENERATIONS_BUILD_H
/* A new generation beside the one that is read: its place in the view, its shards, the positions from which
 * its builder needs the lanes, its record, and the cutover. Which keys there are, and how their bits get into
 * the shards, is decided elsewhere. Blocking; for one thread. The caller holds the lease of the filter's job.
 *
 * The happy path is: builder_begin(); builder_start() makes the view keep the lanes, makes the shards, and
 * then notes where the lanes end (S0); the caller waits until all transactions that are open at S0 have
 * ended, and reads the rows; builder_follow() gives it the entries after S0. At intervals: builder_note(),
 * then write all keys so far under the builder's token (fold.h), then builder_record(). At the end, after the
 * last note and the last write: builder_cutover(), twice. The old generation stays for its time of grace
 * (grace.h).
 *
 * Possible failure modes are:
 * - a lane was trimmed past the builder, is lost, was replaced, or its era changed; a shard is missing; a
 *   node of the shards is in an era that the view did not have at S0; the metadata node was started again, or
 *   is another one, so that the view may be older than it was (tests/model/log/near.pml): the build begins
 *   again (`anew`). When the lanes of the view are well, call builder_start(), and read all rows again
 * - another builder took over (ERR_FENCED): whoever still has the lease may take over again
 * - a connection broke behind a write, which may still be executed: `took_over` is cleared, and
 *   builder_take_over() must precede the next write
 * - the process ends: the next one calls builder_resume() */
#include <stdbool.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/log/lane_sync.h"
#include "shard/fold/fold.h"
#include "shard/view/log_view.h"

/* Some hundred KB. */
struct builder {
    struct fold fold; /* of the new generation; its client and names are borrowed */
    struct generation shape;
    uint64_t seed;  /* of the filter: secret of the keys' hashes */
    bool took_over; /* the headers of all shards have the token */
    bool near;      /* the view says that the cutover is near, and did so before the last builder_follow() */
    bool anew;      /* nothing that was read and applied so far counts */

    struct log_view view; /* as it was loaded last */

    /* What the view and the lanes were at S0: */
    unsigned lane_count;
    struct log_lane lane[LOG_LANES_MAX];
    struct lane stream[LOG_LANES_MAX]; /* where the lanes lie */
    struct trusted eras;
    struct buffer lanes_text, eras_text; /* as in the view */
    uint64_t home; /* replication id of the metadata node; of another one neither view nor record may count */

    struct log_position at[LOG_LANES_MAX];      /* up to where builder_follow() has given the entries */
    struct log_position noted[LOG_LANES_MAX];   /* by builder_note() */
    struct log_position written[LOG_LANES_MAX]; /* up to where the shards have every entry */
    uint64_t keys; /* number of new keys up to the next record or cutover; set by the caller */
};

/* @names has the view's incarnation. ERR_NOMEM. */
MUST_CHECK enum err builder_new(struct builder **out, struct sync_client *l, const struct names *names,
                                struct error *e);
void builder_free(struct builder *b);

/* Enter a generation with the layers, nodes and capacity of @shape into the view, with this builder as its
 * writer. Chooses number and mix. @mutex: see grace.h. ERR_CONFLICT: there are two generations already, or
 * the view changed. ERR_CONFIG: a node is not configured. ERR_NOT_FOUND. After ERR_UNREACHABLE and
 * ERR_TIMEOUT the generation may be in the view: call builder_resume(). */
MUST_CHECK enum err builder_begin(struct builder *b, const struct generation *shape, const char *mutex,
                                  struct error *e);

/* Take over the build that the view has. The positions are those of the last record, and what the caller had
 * added to it is appended to *@rows; or the build begins again (`anew`). ERR_NOT_FOUND: there is no build.
 * ERR_PARSE: the record is damaged; the text names it. */
MUST_CHECK enum err builder_resume(struct builder *b, struct buffer *rows, struct error *e);

/* Draw a token, and enter it into all headers. The errors of fold_is_lost(), with `anew`: a shard is missing,
 * or is something else. ERR_NOT_FOUND: the view no longer has this generation. */
MUST_CHECK enum err builder_take_over(struct builder *b, struct error *e);

/* Delete the record, and make the view keep all lanes from where the current generation has folded them; then
 * make all shards, under a new token, which the view names; then note where the lanes end. Clears `anew`.
 * ERR_LOST: a lane is lost, or in another era than the view, or a node of the shards is: call again when that
 * is mended. ERR_CONFLICT, ERR_WRONG_TYPE: something else has a shard's name. ERR_NOMEM, also of Redis.
 * ERR_FENCED: another builder took over, or the view no longer has this generation. */
MUST_CHECK enum err builder_start(struct builder *b, struct error *e);

/* Give all entries behind the positions, up to the ends of the lanes, to @apply. ERR_LOST, with `anew`: a
 * lane has changed. Also the errors of @apply. */
MUST_CHECK enum err builder_follow(struct builder *b, lane_apply_fn *apply, void *arg, struct error *e);

/* Note the positions. What is written after this contains the entries up to them, if those were applied. */
void builder_note(struct builder *b);
/* Call it before writing, with a pinned client, which stays pinned until builder_wrote(): take over, if need
 * be, and check where the nodes lead. Errors as builder_take_over(). */
MUST_CHECK enum err builder_prepare(struct builder *b, struct error *e);
/* All that was applied up to the noted positions was written. ERR_LOST, with `anew`: the address of a node
 * leads to another server. */
MUST_CHECK enum err builder_wrote(struct builder *b, struct error *e);
/* What was applied and not written is forgotten: builder_follow() gives it again. */
void builder_go_back(struct builder *b);

/* Record the noted positions, up to which the shards have all entries, and @rows, which the caller noted
 * before the same write. The lanes are kept from there. ERR_FENCED: another builder took over. */
MUST_CHECK enum err builder_record(struct builder *b, const void *rows, size_t length, struct error *e);

/* Make the generation the current one, with all entries up to the noted positions in its shards: *@read. The
 * first call does not: it makes the view say that the cutover is near; from then on writers forget nothing
 * that a lane may lose before the build has it. Then call builder_follow(), note and write again, and then
 * call this again. @heals: the generation has every key that was ever acknowledged, so the filter is no
 * longer degraded. The view stores the number of keys. After ERR_UNREACHABLE and ERR_TIMEOUT take over, and
 * call again. ERR_LOST, with `anew`. ERR_FENCED: another builder took over. */
MUST_CHECK enum err builder_cutover(struct builder *b, bool heals, bool *read, struct error *e);
#endif
