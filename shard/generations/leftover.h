/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_LEFTOVER_H
#define SHARD_GENERATIONS_LEFTOVER_H
/* What a filter has in Redis while no view names it. The record P:{F}:leftover names it: a hash of the form
 * of a view. Who makes a filter writes it first, and publishing renames it to the view; who deletes a filter
 * renames the view to it, and removes it last. So whoever was killed in between has left a record, and the
 * next one to make or to delete the filter removes all that it names.
 *
 * What no record names may still be there: the metadata node came back empty, or commands of a process that
 * was given up ran late. Whoever makes the filter again looks through all keys for it (leftover_sweep()). A
 * stream that a killed replacer of a lane has left is removed by the next one (roll_replace_lane()). Where
 * the record says `strays`, or that a layer was being made, whoever deletes the filter looks through all keys
 * too.
 *
 * Blocking. Errors of all: ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"
#include "shard/view/shards.h"

enum { LEFTOVER_STREAMS_MAX = 64 };

/* Remove the lanes and the shards that @v names, both under the incarnation of @v, the shards of generations
 * that a view has forgotten (grace_delete()); where @v says that there may be others, all lanes and shards of
 * that incarnation; then the record, if it is that incarnation's. Whoever is still
 * making that filter publishes it no more, as long as the record says `deleting`. ERR_CONFIG: something lies
 * on a node that is not configured. */
MUST_CHECK enum err leftover_remove(struct sync_client *l, const struct names *names,
                                    const struct log_view *v, const struct work *w, struct error *e);

/* If there is a record of @incarnation (0: of any): have it say `deleting`, and remove what it names. *@was:
 * there was one. ERR_PARSE, ERR_FORMAT, ERR_WRONG_TYPE: it names the key. */
MUST_CHECK enum err leftover_clear(struct sync_client *l, const struct names *names, uint64_t incarnation,
                                   bool *was, const struct work *w, struct error *e);

/* Remove all lanes and shards of other incarnations than that of @names, on all masters: afterwards none of
 * their lanes is open. The record must be that of @names, so there is no view, and what is found was made
 * before by somebody who can publish it no more. Looks at every key of every node, in pieces. *@swept: how
 * many went. ERR_CONFLICT: somebody else has the record. */
MUST_CHECK enum err leftover_sweep(struct sync_client *l, const struct names *names, uint64_t *swept,
                                   const struct work *w, struct error *e);

/* Streams of one lane that were found, of the filter's own incarnation, closed or not, whatever the view says
 * of them. Those for which there is no room are found the next time. */
struct leftover_streams {
    unsigned lane;
    unsigned count;
    uint64_t number[LEFTOVER_STREAMS_MAX];
};

/* Remove all lanes of other incarnations than that of @names, which the view has: somebody may have made one,
 * found no view when all others were closed, and publish it when the view is lost again. To be called behind
 * the making of every lane. Looks at every key of every node; those of @own are noted there. ERR_CONFLICT:
 * the view is another one. */
MUST_CHECK enum err leftover_sweep_lanes(struct sync_client *l, const struct names *names,
                                         struct leftover_streams *own, uint64_t *swept, struct error *e);
#endif
