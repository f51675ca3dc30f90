/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FENCE_INTERNAL_H
#define SHARD_FENCE_INTERNAL_H
/* What the files of the fence share. */
#include "shard/fence.h"

/* Put a key of the filter, or the channel of events and the filter's name, into f->call. */
void fence_put_key(struct fence *f, const char *what);
void fence_put_event(struct fence *f);

/* For trusted_ms: the wall clock, or what is larger than all that is known. */
uint64_t fence_trust_time(const struct fence *f);
/* Put the fields of a first view, @trusted among them, into f->call. */
void fence_put_first_view(struct fence *f, const struct view *v, const char *trusted);
/* Strings that this takes. */
uint64_t fence_count_first_view(const struct view *v);

/* What fence_lineages() gives, as a view's text. */
MUST_CHECK enum err fence_read_trusted(struct fence *f, const struct view *v, struct buffer *out,
                                       struct error *e);

/* Turn the shards of one layer under @epoch's names into tombstones. */
MUST_CHECK enum err fence_put_tombstones(struct fence *f, const struct generation *g, unsigned layer,
                                         uint64_t epoch, struct error *e);
/* The fields of @v as arguments of f->call, and how many arguments that is: `trusted` is not among them. */
void fence_put_view(struct fence *f, const struct view *v);
uint64_t fence_count_fields(const struct view *v);

/* Fill @c with the rename of an unsure shard in the epoch in which it was made anew. */
void fence_anew_call(struct script_call *c, const struct names *names, const struct view *v,
                     struct shard_id id, uint16_t tag, uint64_t tombstone_ms);

/* Run f->call at home: a script that changes the view of @epoch under @mutex. It answers 1: done, -1: the
 * mutex is not ours (ERR_MUTEX_LOST), -3: the view is not fenced yet (ERR_CONFLICT), -4: @refused, with the
 * text @why, or anything else: the view moved on (ERR_FENCED). */
MUST_CHECK enum err fence_run_change(struct fence *f, const char *mutex, uint64_t epoch, enum err refused,
                                     const char *why, struct error *e);

/* A view was published: whoever wants to remember it does. */
void fence_tell(const struct fence *f, const struct view *v);

/* Append @text so that MATCH takes each of its characters for itself. */
void fence_put_literally(struct buffer *pattern, const char *text, size_t length);
/* The names of the filter's shards, of any incarnation, on one node: each behind its length (a size_t), in
 * @found. */
MUST_CHECK enum err fence_find_names(struct fence *f, unsigned where, struct buffer *found, struct error *e);
/* The address of a shard that was found on a node. In a cluster by its slot, which may be on its way to
 * another one. */
unsigned fence_shard_where(const struct fence *f, unsigned found_on, const char *shard, size_t length);

/* Model: gather. The fence of a view that is reconciled: bring the shards of @v to their names under its
 * epoch from whatever names they lie under; what else there is of the incarnation becomes tombstones.
 * ERR_FENCED: the epoch is over. ERR_CONFLICT: shards keep appearing. */
MUST_CHECK enum err fence_gather(struct fence *f, const struct view *v, struct error *e);
#endif
