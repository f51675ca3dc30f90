/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_ROLL_INTERNAL_H
#define SHARD_MEMBERS_ROLL_INTERNAL_H
/* What roll.c and remove.c share: scripts on the view, and looks into lanes. */
#include "shard/log/lane_sync.h"
#include "shard/members/roll.h"

/* Begin a script whose key is the view, and whose first argument is the incarnation. */
void roll_begin(struct roll *r, const char *text);
void roll_put_writer(struct roll *r, const uint8_t writer[LOG_WRITER_BYTES]);
MUST_CHECK enum err roll_run(struct roll *r, long long *result, struct error *e);

/* ERR_NOT_FOUND. */
enum err roll_not_registered(const uint8_t writer[LOG_WRITER_BYTES], struct error *e);

/* Read the era of the lane's node into *@page, and the position of the lane's first entry, if there is one,
 * into @first (or NULL). ERR_UNREACHABLE: also if the node is no master. */
MUST_CHECK enum err roll_look_at_era(struct roll *r, const struct lane *lane, struct log_position *first,
                                     struct lane_page *page, struct error *e);
#endif
