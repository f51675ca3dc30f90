/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_LOST_H
#define SHARD_MEMBERS_LOST_H
/* Shards that were lost under their node's era (DEL, FLUSHALL), and that processes make again from memory.
 * Blocking; one thread. Model: tests/model/log/lost_shard.pml.
 *
 * The happy path is: whoever misses a shard says so in the view. Each process that has shards in memory draws
 * a token, and reads the tails of the lanes. It makes again what is missing: first a blank shard with its
 * token, whose blocks have no tags and count as lost; then, if the view has no later token, all blocks from
 * memory. Then the view drops the loss. Possible failure modes are:
 * - several processes do this: the later token replaces what the earlier one has made, and the earlier one
 *   writes no more
 * - the generation is not the one that is read: nobody makes the shard again, and the view does not go back
 *   to that generation (lost_say.lua)
 * - one stops in the middle: the shard is blank, at least at its end, and still counts as lost
 * - nobody has the shard in memory: each writer says so, and the last one degrades the filter; the folder
 *   says so for a writer that no longer answers. Then a build heals the filter; if it has no source, an
 *   operator accepts the loss (lost_accept()). The view names the lost shard until it is there. Until then no
 *   key is called absent, and adds go on: their entries stay in the lanes, which are not trimmed, so adds end
 *   at `log_max`
 * - something else has the shard's name: a writer that has the shard in memory says so, too, and makes it
 *   again when the name is free; no operator can accept the loss meanwhile
 *
 * A shard that was made again has every entry up to any stored position. Positions of earlier tokens were
 * stored before this token was drawn, and the tails were read after that. A process that draws a later token
 * stores nothing before it has entered the token into the shard, or has made the shard itself. A blank shard
 * may come late, when others have done all that, and the shard was lost once more: it stays blank. */
#include <stdbool.h>
#include "shard/resident/resident.h"
#include "shard/fold/fold.h"
#include "shard/view/log_view.h"

/* What heals a filter that has lost something. */
enum lost_remedy {
    LOST_NOTHING,
    LOST_HEALED_BY_MEMORY,  /* a process that has the shards in memory makes them again, by itself */
    LOST_HEALED_BY_BUILD,   /* a new generation from the source, and a cutover that heals */
    LOST_HEALED_BY_OPERATOR /* there is no source: lost_accept() */
};
/* Pure. */
enum lost_remedy lost_remedy(const struct log_view *v);
/* What was lost, and what to do, for people. Static storage. */
const char *lost_remedy_text(enum lost_remedy remedy);

enum { LOST_NAMED_MAX = 16 };

/* Shards of one generation that are checked, and made again, under one token. */
struct lost_work {
    struct fold *fold;            /* has drawn a token, and knows the shards */
    struct resident *resident;    /* NULL: missing shards are made empty */
    const struct log_lost *named; /* the view's lost shard: all of it is checked; NULL: none */
    enum err (*tend)(void *arg, struct error *e); /* called between shards; an error ends it; may be NULL */
    /* May be NULL. Not NULL: the nodes of shards may have lost bits. So shards that were whole in memory
     * until they had to be loaded again are made and written, too. Called when those of them that exist have
     * the token: it gets what else Redis has of them into memory. */
    enum err (*join)(void *arg, const struct writer_token *token, struct error *e);
    void *arg;                            /* of both */
    uint64_t made, missing;               /* out: numbers of shards */
    bool lacks;                           /* out: memory does not have all that are missing */
    struct log_lost left[LOST_NAMED_MAX]; /* out: the first shards that are still missing */
    unsigned left_count;
};

/* Say in the view that a shard is lost. ERR_FENCED: the view no longer has that generation. */
MUST_CHECK enum err lost_say(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                             struct error *e);

/* Make again every shard that is missing and whole in memory. The tails of all lanes must have been read
 * since the token was drawn. @w->missing: number of shards that are still missing, or whose name something
 * else has. With @w->join and such a name, shards that must be loaded again are not written. ERR_FENCED:
 * another process has drawn a later token. ERR_NOMEM. */
MUST_CHECK enum err lost_make(struct lost_work *w, struct error *e);

/* *@taken: something else has the names of all these shards. False if one of them is missing, or there. */
MUST_CHECK enum err lost_are_taken(struct lost_work *w, const struct log_lost *shard, unsigned count,
                                   bool *taken, struct error *e);

/* Say that this process cannot make the lost shards again. @has: it has them in memory, and something else
 * has their names. Once no writer is silent, the filter is degraded. ERR_FENCED: the view has changed. */
MUST_CHECK enum err lost_lack(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                              const uint8_t writer[LOG_WRITER_BYTES], bool has, struct error *e);
/* Accept, for an operator, what is known to be lost of a filter without a source: every missing shard is made
 * empty, and the filter is no longer degraded. Also accepts what is lost when this looks at the shards. Keys
 * that were in these shards, and keys of writers that were given up, are "absent" from then on; entries that
 * are not folded yet are kept. *@made: number of shards. A filter that is not degraded is not changed. May be
 * repeated after any error: the filter stays degraded until this succeeds.
 *
 * ERR_NOT_FOUND: there is no such filter, or it is being deleted. ERR_CONFLICT: it has a source, from which a
 * build heals it; or something else has a shard's name, which the text has. ERR_BUSY: a process may have the
 * shards in memory, and makes them again once nothing else has their names; or nodes have replication ids
 * that the view does not accept: try again later. ERR_FENCED: other processes keep taking over. Also the
 * errors of log_view_load() and shards.h. */
MUST_CHECK enum err lost_accept(struct sync_client *l, const struct names *names, uint64_t *made,
                                struct error *e);

/* Say that nothing is lost any more, as lost_make() has found under that token. ERR_FENCED as above. */
MUST_CHECK enum err lost_end(struct fold *f, const struct log_lost *lost, struct error *e);
#endif
