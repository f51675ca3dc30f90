/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_LANE_SYNC_H
#define SHARD_LOG_LANE_SYNC_H
/* Lanes for blocking callers: jobs and administration. Each call goes to the lane's node through a sync
 * client, and waits for the replies.
 *
 * All functions may return ERR_UNREACHABLE, ERR_TIMEOUT (the client's deadlines), ERR_NOMEM, and the errors
 * of lane_refusal(). The text names the node or the lane. */
#include "shard/redis/sync_client.h"
#include "shard/log/tail.h"

/* Make the lane by its anchor, a notice of @writer. Call it before a view names the lane. After an error call
 * it again: that adds another notice, which is then the anchor. *@anchor is its position; @lane->era becomes
 * the era of its node. ERR_UNREACHABLE: also if the node is no master (then @lane->era is 0), or if the
 * anchor is gone at once (then it is not). */
MUST_CHECK enum err lane_make(struct sync_client *l, struct lane *lane,
                              const uint8_t writer[LOG_WRITER_BYTES], uint64_t sequence,
                              struct log_position *anchor, struct error *e);

/* Called for an entry behind the position. An error ends the read, and becomes its result. */
typedef enum err lane_apply_fn(void *arg, const struct tail_record *record, struct error *e);

/* Read the tail once from *@at on; *@at moves to the last entry that was applied. @apply may be NULL.
 * *@state: what the read met. Entries were applied only if it is TAIL_COMPLETE or TAIL_MORE. It is never
 * TAIL_EMPTY. */
MUST_CHECK enum err lane_read(struct sync_client *l, const struct lane *lane, struct log_position *at,
                              lane_apply_fn *apply, void *arg, enum tail_state *state, struct error *e);

/* What lane_look() met. */
struct lane_page {
    uint64_t era;    /* of the node; 0: the node is no master */
    uint64_t length; /* number of entries in the lane; 0: the lane is missing */
    bool more;       /* there may be more entries behind the last one */
    struct log_id last;
};

/* Look at up to @count entries from @from on, that one included, without a position: for callers that search
 * for entries. @apply is called for each entry if the node is a master of the lane's era (of any era if
 * @lane->era is 0). Otherwise nothing counts, and *@page says what was met. */
MUST_CHECK enum err lane_look(struct sync_client *l, const struct lane *lane, struct log_id from,
                              unsigned count, lane_apply_fn *apply, void *arg, struct lane_page *page,
                              struct error *e);

/* An entry that is appended without waiting until it is met. */
struct lane_put {
    size_t length;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct log_id id; /* out; zeros: unknown whether the entry was appended */
};

/* Append @count entries in one write. ERR_LOST: the lane is missing. After an error each of them may be
 * in the lane, or may come into it later. */
MUST_CHECK enum err lane_put(struct sync_client *l, const struct lane *lane, struct lane_put *put,
                             unsigned count, struct error *e);

/* Append a notice: "look at the view". It is a hint; nothing relies on it. ERR_LOST: the lane is missing. */
MUST_CHECK enum err lane_notice(struct sync_client *l, const struct lane *lane,
                                const uint8_t writer[LOG_WRITER_BYTES], struct error *e);

/* Append the full mark of @generation. Further marks change nothing: the first one counts. ERR_LOST: the lane
 * is missing. ERR_FENCED: its node is in another era, and nothing was appended. Model: full.pml. */
MUST_CHECK enum err lane_mark_full(struct sync_client *l, const struct lane *lane, uint64_t generation,
                                   struct error *e);
/* Append the mark that @layer (1 or more) of @generation begins. A view must have the layer before. A mark
 * that is there already, or of an earlier layer, changes nothing. ERR_LOST: the lane is missing. */
MUST_CHECK enum err lane_mark_layer(struct sync_client *l, const struct lane *lane, uint64_t generation,
                                    unsigned layer, struct error *e);

struct lane_trimmed {
    bool met;         /* the lane has the entry to keep; if not, nothing was removed */
    uint64_t removed; /* number of entries */
    uint64_t bytes;   /* memory of the lane in Redis, by MEMORY USAGE; 0: the lane is missing */
};

/* Remove entries before @keep, by whole nodes of the stream, so some may stay; @keep itself stays. If the
 * lane does not have that very entry (it was trimmed past it, is forked, or is another lane), or is in
 * another era, nothing is removed: entries with lower ids may then be in no shard. @keep NULL: remove
 * nothing, only measure the bytes. */
MUST_CHECK enum err lane_trim(struct sync_client *l, const struct lane *lane, const struct log_mark *keep,
                              struct lane_trimmed *out, struct error *e);

/* Rename the lane to "<key>.closed", acknowledged by its master: no append succeeds after that. ERR_OK also
 * if the lane is missing. */
MUST_CHECK enum err lane_close(struct sync_client *l, const struct lane *lane, struct error *e);

/* Delete a lane, and what lane_close() left of it. Call it when the view names another lane or none. */
MUST_CHECK enum err lane_forget(struct sync_client *l, const struct lane *lane, struct error *e);
#endif
