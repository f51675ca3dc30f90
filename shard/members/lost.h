/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_LOST_H
#define SHARD_MEMBERS_LOST_H
/* Shards that are lost under their node's era (DEL, FLUSHALL), and made again by whoever has them in memory.
 * Blocking; one thread. tests/model/log/lost_shard.pml
 *
 * The happy path is: whoever misses a shard says so in the view; each process that has shards in memory draws
 * a token, reads the tails of the lanes, and makes again what is missing: a blank shard with its token, whose
 * blocks have no tags and are no answer; then, if the view has no later token, all blocks from memory; then
 * the view says so no more. Possible
 * failure modes are: several do it (the later token replaces what the earlier one has made, and the earlier
 * one writes no more); one stops in the middle (the shard is blank, at least at its end, and is lost still);
 * nobody has the shard in memory: each writer says so, and the last one degrades the filter; of a writer that
 * does not answer any more whoever folds says so. Then a build
 * heals it, or, if it has no source, an operator accepts the loss (lost_accept()). The view goes on saying
 * which shard is lost until it is there. Until then no key is called absent, and keys are added: their
 * entries stay in the lanes, which are not trimmed, so this ends at `log_max`.
 *
 * A shard that was made again has every entry up to any position that is stored. What was stored under
 * earlier tokens was so before this one was drawn, and the tails were read behind that. Whoever draws a later
 * one stores nothing before it has entered that into the shard, or has made it itself. A blank shard that
 * comes late, when others have done all that and the shard was lost once more, stays blank. */
#include <stdbool.h>
#include "shard/resident/resident.h"
#include "shard/fold/fold.h"
#include "shard/view/log_view.h"

/* What heals a filter of which something is lost. */
enum lost_remedy {
    LOST_NOTHING,
    LOST_HEALED_BY_MEMORY,  /* a process that has the shards in memory makes them again, by itself */
    LOST_HEALED_BY_BUILD,   /* a new generation from the source, and a cutover that heals */
    LOST_HEALED_BY_OPERATOR /* there is no source: lost_accept() */
};
/* Pure. */
enum lost_remedy lost_remedy(const struct log_view *v);
/* What it is, and what is to be done, for people. Static storage. */
const char *lost_remedy_text(enum lost_remedy remedy);

enum { LOST_NAMED_MAX = 16 };

/* Shards of one generation, looked at and made again under one token. */
struct lost_work {
    struct fold *fold; /* has drawn a token */
    const struct generation *shape;
    const struct placement *placement;
    struct resident *resident;    /* NULL: what is missing is made empty */
    const struct log_lost *named; /* what the view says: looked at wholly; NULL: nothing */
    enum err (*tend)(void *arg,
                     struct error *e); /* called between shards; an error ends it; NULL: nothing is */
    /* Not NULL: their node may have lost bits. Shards that were whole in memory until they were to be loaded
     * again are made and written, too. Those of them that are there have the token when this is called, which
     * has what else Redis has of them in memory. */
    enum err (*join)(void *arg, const struct writer_token *token, struct error *e);
    void *arg;                            /* of both */
    uint64_t made, missing;               /* out: shards */
    struct log_lost left[LOST_NAMED_MAX]; /* out: the first of those that are missing still */
    unsigned left_count;
};

/* Say in the view that a shard is lost. ERR_FENCED: the view has not that generation any more. */
MUST_CHECK enum err lost_say(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                             struct error *e);

/* Make again every shard that is missing and whole in memory. The tails of all lanes were read since the
 * token was drawn. @w->missing: shards that are missing still, or whose name has something
 * else. ERR_FENCED: another process has drawn a later token. ERR_NOMEM. */
MUST_CHECK enum err lost_make(struct lost_work *w, struct error *e);

/* Say that this process has not all shards that are lost. *@others: writers that may have them; 0: the filter
 * is degraded. ERR_FENCED: the view says something else. */
MUST_CHECK enum err lost_lack(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                              const uint8_t writer[LOG_WRITER_BYTES], unsigned *others, struct error *e);
/* An operator accepts what is known to be lost of a filter without a source: every shard that is missing is
 * made empty, and the filter is degraded no more. What is lost when this looks at the shards is accepted.
 * Keys that were in these shards, and those of writers that were given up, are "absent" from then on; entries
 * that are not folded yet are kept. *@made: shards. A filter that is not degraded is left as it is. May be
 * repeated after any error: until it ends well the filter stays degraded.
 *
 * ERR_NOT_FOUND: there is no such filter, or it is being deleted. ERR_CONFLICT: it has a source, from which a
 * build heals it; or a shard's name has something else, and the text has it. ERR_BUSY: a process may have the
 * shards in memory, or nodes have other replication ids than the view accepts: come again. ERR_FENCED: others
 * take over all the time. Errors of log_view_load(), and of shards.h. */
MUST_CHECK enum err lost_accept(struct sync_client *l, const struct names *names, uint64_t *made,
                                struct error *e);

/* Say that nothing is lost any more, as lost_make() has found under that token. ERR_FENCED as above. */
MUST_CHECK enum err lost_end(struct fold *f, const struct log_lost *lost, struct error *e);
#endif
