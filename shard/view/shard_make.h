/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_SHARD_MAKE_H
#define SHARD_VIEW_SHARD_MAKE_H
/* One shard is made where there is none: its header with the writer's token, then blocks with nothing but
 * their tags. What lies there already is left as it is. Pipelined: a reply for each send to that address, in
 * order. */
#include <stdbool.h>
#include "shard/view/fold.h"

MUST_CHECK enum err shard_make_send(struct fold *f, unsigned where, const struct header *h, struct error *e);
/* *@made: there was none. ERR_REFUSED: Redis has no memory, or refuses it for another reason. */
MUST_CHECK enum err shard_make_reply(struct fold *f, unsigned where, bool *made, struct error *e);
#endif
