/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_LEFTOVER_H
#define SHARD_GENERATIONS_LEFTOVER_H
/* Keys of a filter in Redis that no view names. The record P:{F}:leftover names them; it is a hash in the
 * form of a view. A maker writes the record first, and publishing renames it to the view. A deleter renames
 * the view to the record, and removes the record last. So a maker or deleter that is killed leaves a record,
 * and the next one to make or delete the filter removes all that it names.
 *
 * There may also be keys that no record names: the metadata node came back empty, or commands of a process
 * that was given up ran late. Whoever makes the filter again searches all keys for them (leftover_sweep()). A
 * stream that a killed replacer of a lane left is removed by the next replacer (roll_replace_lane()). If the
 * record says `strays`, or that a layer was being made, whoever deletes the filter searches all keys, too.
 *
 * Blocking. All functions may return ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"
#include "shard/view/shards.h"

enum { LEFTOVER_STREAMS_MAX = 64 };

/* Remove the lanes and shards that @v names, both with the incarnation of @v; the shards of generations that
 * a view has dropped (grace_delete()); all lanes and shards of that incarnation, if @v says that there may be
 * others; then the record, if it belongs to that incarnation. A maker of that filter cannot publish it, as
 * the record says `deleting`. ERR_CONFIG: something lies on a node that is not configured. */
MUST_CHECK enum err leftover_remove(struct sync_client *l, const struct names *names,
                                    const struct log_view *v, const struct work *w, struct error *e);

/* If there is a record, make it say `deleting`: then nobody can publish what it stands for. *@incarnation:
 * its own; 0: there is none. Errors as below. */
MUST_CHECK enum err leftover_stop(struct sync_client *l, const struct names *names, uint64_t *incarnation,
                                  struct error *e);
/* If there is a record of @incarnation (0: of any), make it say `deleting`, and remove what it names. *@was:
 * there was one. ERR_PARSE, ERR_FORMAT, ERR_WRONG_TYPE: the text names the key. */
MUST_CHECK enum err leftover_clear(struct sync_client *l, const struct names *names, uint64_t incarnation,
                                   bool *was, const struct work *w, struct error *e);

/* Remove all lanes and shards of incarnations other than that of @names, on all masters: afterwards none of
 * their lanes is open. The record must be that of @names: so there is no view, and whoever made what is found
 * can no longer publish it. Looks at every key of every node, in pieces. ERR_CONFLICT: the record belongs to
 * another process. */
MUST_CHECK enum err leftover_sweep(struct sync_client *l, const struct names *names, const struct work *w,
                                   struct error *e);

/* Streams of one lane that were found, of the filter's own incarnation, closed or not, in the view or not.
 * Those that exceed the array are found the next time. */
struct leftover_streams {
    unsigned lane;
    unsigned count;
    uint64_t number[LEFTOVER_STREAMS_MAX];
};

/* Remove all lanes of incarnations other than that of @names, which the view has. Somebody may have made such
 * a lane, found no view after all others were closed, and publish it if the view is lost again. Call it after
 * the making of every lane. Looks at every key of every node, and notes those of @own there. ERR_CONFLICT:
 * the view is another one. */
MUST_CHECK enum err leftover_sweep_lanes(struct sync_client *l, const struct names *names,
                                         struct leftover_streams *own, struct error *e);
#endif
