/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_LANE_SYNC_H
#define SHARD_LOG_LANE_SYNC_H
/* Lanes for whoever may block: jobs and administration. Each call goes to the lane's node by a link, and
 * waits for the replies.
 *
 * Errors of all: ERR_UNREACHABLE, ERR_TIMEOUT (the link's deadlines), ERR_NOMEM, and those of lane_refusal();
 * the text names the node or the lane. */
#include "shard/redis/sync_client.h"
#include "shard/log/tail.h"

/* Make the lane, by its anchor: a notice of @writer. To be called before a view names the lane; called again
 * after an error it adds another notice, which is then the anchor. *@anchor is its position; @lane->era
 * becomes the era that its node is in. ERR_UNREACHABLE also where the node is no master. */
MUST_CHECK enum err lane_make(struct sync_client *l, struct lane *lane,
                              const uint8_t writer[LOG_WRITER_BYTES], uint64_t sequence,
                              struct log_position *anchor, struct error *e);

/* An entry behind the position; what it returns but ERR_OK ends the read. NULL: nobody wants to know. */
typedef enum err lane_apply_fn(void *arg, const struct tail_record *record, struct error *e);

/* One tail read from *@at on, which moves to the last entry that was applied. In *@state what it met; nothing
 * was applied unless that is TAIL_COMPLETE or TAIL_MORE. It is never TAIL_EMPTY. */
MUST_CHECK enum err lane_read(struct sync_client *l, const struct lane *lane, struct log_position *at,
                              lane_apply_fn *apply, void *arg, enum tail_state *state, struct error *e);

/* Append an entry, as log_entry_encode() wrote it, and read the tail until it is met there: then it is
 * acknowledged, and *@state is TAIL_COMPLETE or TAIL_MORE. After a broken connection the entry is looked for
 * in the tail, and sent again only if it is not there; the first that is in the lane counts, a second one
 * changes nothing. Any other *@state: it is not acknowledged, and may be in the lane or not; so after an
 * error, but for those of lane_refusal(). @timeout_ms bounds all of it. */
MUST_CHECK enum err lane_append(struct sync_client *l, const struct lane *lane, struct log_position *at,
                                const void *entry, size_t length, unsigned timeout_ms, lane_apply_fn *apply,
                                void *arg, enum tail_state *state, struct error *e);

/* What a look met. */
struct lane_page {
    uint64_t era;    /* of the node; 0: it is no master */
    uint64_t length; /* entries of the lane; 0: it is missing */
    bool more;       /* there may be more behind the last entry */
    struct log_id last;
};

/* Look at the entries from @from on, that one included, at most @count, without a position: for who looks for
 * entries and does not go on from there. @apply is called for each if the node is a master of the lane's era,
 * or of any era where @lane->era is 0; otherwise nothing counts, and *@page says what was met. */
MUST_CHECK enum err lane_look(struct sync_client *l, const struct lane *lane, struct log_id from,
                              unsigned count, lane_apply_fn *apply, void *arg, struct lane_page *page,
                              struct error *e);

/* An entry that is appended without waiting until it is met. */
struct lane_put {
    size_t length;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct log_id id; /* out; zeroes: it is not known whether it was appended */
};

/* Append @count entries in one write. ERR_NOT_FOUND: the lane is missing. After an error any of them may be
 * in the lane, or come into it later. */
MUST_CHECK enum err lane_put(struct sync_client *l, const struct lane *lane, struct lane_put *put,
                             unsigned count, struct error *e);

/* Append a notice: "look at the view". A hint: nobody relies on it. ERR_NOT_FOUND: the lane is missing. */
MUST_CHECK enum err lane_notice(struct sync_client *l, const struct lane *lane,
                                const uint8_t writer[LOG_WRITER_BYTES], uint64_t sequence, struct error *e);

/* Append the full mark of @generation. One that is there already, or comes later, changes nothing: the first
 * counts. ERR_NOT_FOUND: the lane is missing. */
MUST_CHECK enum err lane_mark_full(struct sync_client *l, const struct lane *lane, uint64_t generation,
                                   struct error *e);
/* Append the mark that @layer, 1 or more, of @generation begins. A view has the layer before. One that is
 * there already changes nothing, nor does one of an earlier layer. ERR_NOT_FOUND: the lane is missing. */
MUST_CHECK enum err lane_mark_layer(struct sync_client *l, const struct lane *lane, uint64_t generation,
                                    unsigned layer, struct error *e);

struct lane_trimmed {
    bool met;         /* the lane has the entry that was to be kept; else nothing was removed */
    uint64_t removed; /* entries */
    uint64_t bytes;   /* of the lane in the memory of Redis, by MEMORY USAGE; 0: it is missing */
};

/* Remove entries before @keep, by whole nodes of the stream, so that some may stay; @keep itself stays. Where
 * the lane has not that very entry (it was trimmed past it, is forked, or another one) nothing goes: ids
 * before it may be entries that no shard has. NULL: remove nothing, look at the bytes. */
MUST_CHECK enum err lane_trim(struct sync_client *l, const struct lane *lane, const struct log_mark *keep,
                              struct lane_trimmed *out, struct error *e);

/* Rename the lane to "<key>.closed", as acknowledged by its master: no append succeeds behind that. A lane
 * that is missing is closed. */
MUST_CHECK enum err lane_close(struct sync_client *l, const struct lane *lane, struct error *e);

/* Delete what lane_close() left, when the view names another lane, or none; or a lane that no view has named.
 */
MUST_CHECK enum err lane_forget(struct sync_client *l, const struct lane *lane, struct error *e);
#endif
