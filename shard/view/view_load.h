/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_VIEW_LOAD_H
#define SHARD_VIEW_VIEW_LOAD_H
/* The view of a filter from its metadata node. All of it is read in one command: generations, positions and
 * lanes belong together. */
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"

/* ERR_FENCED: whoever acted by a view finds another one in Redis, and reads it again. */
enum err log_view_another(const struct names *names, struct error *e);

/* The reply to HGETALL of the view, as log_view_parse(); ERR_WRONG_TYPE: the key is no hash. */
MUST_CHECK enum err log_view_take(struct log_view *out, const redisReply *reply, struct error *e);

/* Read it. ERR_NOT_FOUND: there is none. ERR_PARSE, ERR_FORMAT, ERR_WRONG_TYPE: it names the key, and what is
 * wrong. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. On error *@out is undefined. */
MUST_CHECK enum err log_view_load(struct sync_client *l, const struct names *names, struct log_view *out,
                                  struct error *e);
/* The same, and keep its fields in @kept, as they are, for log_view_again(): a view is large, and they are
 * not. On error @kept is as it was, but for ERR_NOMEM. */
MUST_CHECK enum err log_view_load_kept(struct sync_client *l, const struct names *names, struct log_view *out,
                                       struct buffer *kept, struct error *e);
/* The view that @kept was kept of. As log_view_parse(). */
MUST_CHECK enum err log_view_again(struct log_view *out, const struct buffer *kept, struct error *e);
/* The same as log_view_load() of the record of what no view names any more, or names yet (leftover.h). */
MUST_CHECK enum err log_view_load_leftover(struct sync_client *l, const struct names *names,
                                           struct log_view *out, struct error *e);
#endif
