/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_FULL_H
#define SHARD_FOLD_FULL_H
/* A generation that does not grow (NONSCALING) and has as many keys as it was made for is full by the log:
 * whoever counts so many appends a full mark to each lane (lane_mark_full()), and no key of an entry behind
 * the first mark of its lane is added to that generation, by anybody. A key of such an entry is "old" if it
 * is present, else it is refused (ERR_FULL). All say the same, as the log has one order; keys before the mark
 * are never refused later.
 *
 * The rules:
 * - Who does not know all bits older than an entry counts too few keys, never too many: so a mark is never
 *   early. Two marks do no harm. `keys` of the view are stored with the positions up to which they were
 *   counted (fold_count()), before they are in the shards.
 * - Whoever adds sends at most as many keys in a turn as its count leaves room for, and marks the lanes when
 * it is reached. So one that adds alone is refused at the very key; several go over by a turn each.
 *   More exact it cannot be by positions alone: whether a key of another process was new is known to that
 * process only, which has read its block before the entry (docs/decisions.md).
 * - Behind the mark nothing is applied: bits of a key that is present are there, others are refused.
 * - full_store() comes before fold_store() of a position behind the mark, so whoever loads behind it knows.
 * - With several lanes counts may differ by false positives: which of two keys in different lanes came first
 * is not the same for all.
 * - A mark belongs to its lane's era. With the era it may be lost, and entries before it are appended again,
 *   behind where it was; so the view's record of it counts no more, and who folds, and has the count, marks
 *   the lane again.
 * - A mark names its generation. A rebuild makes the next one, which no mark names: it takes all keys from
 *   the log, also those that the one before has refused. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/log/entry.h"
#include "shard/fold/fold.h"
#include "shard/view/log_view.h"

/* One generation in one lane, as its applier has it. */
struct log_full {
    uint64_t generation;
    bool is_marked;
    struct log_id mark;
};

/* Begin, or begin again under another view or era. */
void log_full_begin(struct log_full *f, const struct log_view *v, const struct log_generation *g,
                    unsigned lane);
/* Each entry of the lane, in order. True: it is behind the mark, so none of its keys is applied to the
 * generation. Pure. */
bool log_full_meets(struct log_full *f, struct log_id id, const struct log_entry *entry);

/* Store the mark of @lane, as @in has its number and era. ERR_FENCED: the caller writes no more, the lane was
 * replaced, or the view has left that era. */
MUST_CHECK enum err full_store(struct fold *f, unsigned lane, struct log_lane in, struct log_id mark,
                               struct error *e);
#endif
