/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_LOST_H
#define SHARD_VIEW_LOST_H
/* Shards that are lost under their node's era (DEL, FLUSHALL), and made again by whoever has them in memory.
 * Blocking; one thread. tests/model/log/lost_shard.pml
 *
 * The happy path is: whoever misses a shard says so in the view; each process that has shards in memory draws
 * a token, reads the tails of the lanes, and makes again what is missing: a blank shard with its token, whose
 * blocks have no tags and are no answer; then, if the view has no later token, all blocks from memory; then
 * the view says so no more. Possible
 * failure modes are: several do it (the later token replaces what the earlier one has made, and the earlier
 * one writes no more); one stops in the middle (the shard is blank, at least at its end, and is lost still);
 * nobody has the shard in memory: each writer says so, the last one degrades the filter, and a build heals
 * it. The view goes on saying which shard is lost until it is there.
 *
 * A shard that was made again has every entry up to any position that is stored. What was stored under
 * earlier tokens was so before this one was drawn, and the tails were read behind that. Whoever draws a later
 * one stores nothing before it has entered that into the shard, or has made it itself. A blank shard that
 * comes late, when others have done all that and the shard was lost once more, stays blank. */
#include <stdbool.h>
#include "shard/resident/resident.h"
#include "shard/view/fold.h"
#include "shard/view/log_view.h"

/* Shards of one generation, looked at and made again under one token. */
struct lost_work {
    struct fold *fold; /* has drawn a token */
    const struct generation *shape;
    const struct placement *placement;
    struct resident *resident;
    const struct log_lost *named; /* what the view says: looked at wholly; NULL: nothing */
    uint64_t missing;             /* out: shards */
};

/* Say in the view that a shard is lost. ERR_FENCED: the view has not that generation any more. */
MUST_CHECK enum err lost_say(struct link *l, const struct names *names, const struct log_lost *lost,
                             struct error *e);

/* Make again every shard that is missing and whole in memory. The tails of all lanes were read since the
 * token was drawn. @w->missing: shards that are missing still, or whose name has something
 * else. ERR_FENCED: another process has drawn a later token. ERR_NOMEM. */
MUST_CHECK enum err lost_make(struct lost_work *w, struct error *e);

/* Say that this process has not all shards that are lost. *@others: writers that may have them; 0: the filter
 * is degraded. ERR_FENCED: the view says something else. */
MUST_CHECK enum err lost_lack(struct link *l, const struct names *names, const struct log_lost *lost,
                              const uint8_t writer[LOG_WRITER_BYTES], unsigned *others, struct error *e);
/* Say that nothing is lost any more, as lost_make() has found under that token. ERR_FENCED as above. */
MUST_CHECK enum err lost_end(struct fold *f, const struct log_lost *lost, struct error *e);
#endif
