/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LATEST_H
#define SHARD_LATEST_H
/* Which view of a filter is the latest: noted on every master of a list, and by every coordinator. The
 * address of home may lead to another server for a while, and then to the first one again, which ran on: that
 * one has a whole view of its own, with shards and masters that it trusts. It is older than what was noted
 * elsewhere.
 *
 * `P:latest` is a hash: for each filter (escaped) "<incarnation>:<epoch>:<trusted_ms>". In a cluster there is
 * none: a master that was replaced comes back as a replica, and it has one database. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/fence.h"

struct view_stamp view_stamp_of(const struct view *v);

/* True where @one was superseded by @latest. Of one incarnation neither the epoch nor trusted_ms ever gets
 * smaller; of two incarnations the one that was trusted later is the later one. What is not known (0) says
 * nothing. Pure. */
bool view_stamp_is_older(const struct view_stamp *one, const struct view_stamp *latest);
/* True where @one is older, and of another incarnation: what it says of shards means nothing any more. Pure.
 */
bool view_stamp_is_replaced(const struct view_stamp *one, const struct view_stamp *latest);
/* @latest learns of @seen. Pure. */
void view_stamp_learn(struct view_stamp *latest, const struct view_stamp *seen);
/* False: nobody wrote that text. Pure. */
bool view_stamp_parse(struct view_stamp *out, const char *text, size_t length);

/* Note @v on those nodes for which answers[i], by their place in the list, and let *@latest learn what they
 * know. One that fails meanwhile is passed over. */
void latest_note(struct fence *f, const struct view *v, const bool *answers, struct view_stamp *latest);
/* The filter was deleted: on masters that answer nothing is noted of it any more. */
void latest_forget(struct fence *f);

/* All that is noted on the masters that answer. @filter is escaped. */
typedef void latest_fn(void *arg, const char *filter, size_t length, const struct view_stamp *stamp);
void latest_read(struct link *l, const char *prefix, latest_fn *fn, void *arg);
#endif
