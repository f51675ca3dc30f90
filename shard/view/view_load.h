/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_VIEW_LOAD_H
#define SHARD_VIEW_VIEW_LOAD_H
/* Load the view of a filter from its metadata node. One command reads all of it, as generations, positions
 * and lanes belong together. */
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"

/* ERR_FENCED: a caller that acted by a view found another one in Redis, and must read it again. */
enum err log_view_another(const struct names *names, struct error *e);

/* Load the view. ERR_NOT_FOUND: there is none. ERR_PARSE, ERR_FORMAT, ERR_WRONG_TYPE: the text names the key,
 * and what is wrong. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. On error *@out is undefined. */
MUST_CHECK enum err log_view_load(struct sync_client *l, const struct names *names, struct log_view *out,
                                  struct error *e);
/* As above, and keep the view's fields in @kept, for log_view_again(): a view is large, its fields are not.
 * On error @kept is unchanged, except after ERR_NOMEM. */
MUST_CHECK enum err log_view_load_kept(struct sync_client *l, const struct names *names, struct log_view *out,
                                       struct buffer *kept, struct error *e);
/* Ask ahead (shard/redis/ahead.h) for what one of the two above asks. */
void log_view_ask_ahead(struct sync_client *l, unsigned user, const struct names *names);
/* Parse the view whose fields are in @kept. Errors: those of log_view_parse(). */
MUST_CHECK enum err log_view_again(struct log_view *out, const struct buffer *kept, struct error *e);
/* As log_view_load(), for the record of what no view names (leftover.h). */
MUST_CHECK enum err log_view_load_leftover(struct sync_client *l, const struct names *names,
                                           struct log_view *out, struct error *e);

/* Append a notice to each lane of the view: a process that reads the lane's tail then reads the view, before
 * it would by itself. A hint: nothing relies on it, and errors are ignored. Blocking; call it after the
 * change. */
void log_view_notify(struct sync_client *l, const struct names *names);
#endif
