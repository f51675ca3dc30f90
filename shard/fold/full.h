/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_FULL_H
#define SHARD_FOLD_FULL_H
/* A generation that does not grow (NONSCALING) and has its capacity of keys is full, by the log: a process
 * that has counted so many keys appends a full mark to each lane (lane_mark_full()). No process adds a key of
 * an entry behind the first mark of its lane to that generation. A key of such an entry is "old" if it is
 * present, else it is refused (ERR_FULL). All processes say the same, as the log has one order. Keys before
 * the mark are never refused later.
 *
 * The rules:
 * - A process that does not know all bits older than an entry counts too few keys, never too many: so a mark
 *   is never early. Two marks do no harm. The view stores `keys` with the positions up to which they were
 *   counted (fold_count()), before they are in the shards.
 * - A process sends at most as many keys in a turn as its count leaves room for, and marks the lanes when the
 *   capacity is reached. So a process that adds alone is refused at exactly that key; several exceed it by
 *   one turn each. Positions alone cannot be more exact: only the process that added a key knows whether it
 *   was new, as it has read the key's block before the entry (docs/decisions.md).
 * - Behind the mark nothing is applied: the bits of a present key are set already, other keys are refused.
 * - full_store() is called before fold_store() of a position behind the mark, so a process that loads from
 *   there knows of the mark.
 * - An add behind the mark only looks, and "old" is an acknowledgement for which nothing is kept. So it needs
 *   a tail read, and memory that others have, too: memory of before a failover may have keys of entries that
 *   are lost, and that nobody was told of. A registered writer is asked for its memory before the view takes
 *   an era (eras.h). Any other process refuses keys until it holds the generation anew (`doubtful`, held.h).
 * - With several lanes counts may differ by false positives: processes may see two keys of different lanes in
 *   a different order.
 * - A mark belongs to its lane's era, and is appended in no other. In another era the mark may be lost, and
 *   entries before it may be appended again behind its place. So the view's record of the mark no longer
 *   counts, nobody goes on with a mark that it does not have, and the folder, which has the count, marks the
 *   lane again.
 * - A mark names its generation. A rebuild makes the next one, which no mark names: it takes all keys from
 *   the log, also those that the former one refused. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/log/entry.h"
#include "shard/fold/fold.h"
#include "shard/view/log_view.h"

/* One generation in one lane; belongs to the lane's applier. */
struct log_full {
    uint64_t generation;
    bool is_marked;
    struct log_id mark;
};

/* Begin, or begin again under another view or era. */
void log_full_begin(struct log_full *f, const struct log_view *v, const struct log_generation *g,
                    unsigned lane);
/* Called for each entry of the lane, in order. True: the entry is behind the mark, so none of its keys is
 * applied to the generation. Pure. */
bool log_full_meets(struct log_full *f, struct log_id id, const struct log_entry *entry);

/* Store the mark of @lane; @in is the number and era in which it was met. ERR_FENCED: the caller is no longer
 * the writer, the lane was replaced, or the view has left that era. */
MUST_CHECK enum err full_store(struct fold *f, unsigned lane, struct log_lane in, struct log_id mark,
                               struct error *e);
#endif
