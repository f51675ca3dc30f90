/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_GROW_H
#define SHARD_GENERATIONS_GROW_H
/* A generation that is full gets a layer. Blocking, but for what decides and plans.
 *
 * The happy path is: draw a token; the view says which layer is being made (`next`); its shards are made
 * under the token; one script gives the generation the layer. Possible failure modes are: the grower is
 * killed (the next one makes the layer under a token of its own, and takes over what the one before has left;
 * whoever deletes the filter removes what `next` names); two growers (the one that wrote `next` last goes
 * on, the other one is ERR_CONFLICT); a command of a grower that was given up runs late (it replaces nothing
 * that was made under a later token, and a shard that it makes where one was lost has an earlier token than
 * its layer, and counts as lost: header_check_made()); a node changes its replication id meanwhile.
 *
 * No key goes into the layer before an entry in its lane says that it begins (LOG_LAYER in entry.h): then all
 * processes set a key in the same layer, whatever view they have (tests/model/log/layers.pml). Whoever finds
 * that a lane lacks the entry appends it, when the view has the layer. The rules:
 * - A generation's layers are only added to, by one script, when all shards of the layer are there.
 * - `folded` says how many layers had begun at its position; who begins to apply there goes on with that.
 * - Who meets the entry and does not have the layer applies nothing more of that lane until its view has it.
 * - A key is set in the layer of its place also where an older layer has all of its bits (placed.pml).
 * - A process that learns of a later `folded` takes the layers of that view first, and only then drops
 * entries from its overlay, or gives up shards that are in memory.
 * - Who folds and gets a layer enters its token into the new shards and reads them.
 * - A shard of the layer that is there keeps its bits: home may have gone back behind a layer that others
 * read by blocks (tests/model/log/back.pml). A bit that is set makes no key absent.
 * - Whoever knows layers that the view has no more puts them back: log_put_back(). So what is in memory is
 * still of the view's layers, and nobody is told once more that a key is new.
 */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"
#include "shard/view/shards.h"

enum grow_action {
    GROW_NOTHING,
    GROW_LAYER,
    GROW_FULL /* append full marks (full.h) */
};

/* What to do with a generation of @layers layers, planned for @capacity keys in all, that has @keys. @fixed:
 * it must not grow. With as many layers as there may be it gets no more, and takes keys all the same. */
enum grow_action grow_decide(uint64_t keys, uint64_t capacity, unsigned layers, bool fixed);

/* Error rate of the first layer of a generation that grows by layers: the others share the rest. */
double grow_first_rate(double rate);

/* @out is @g with one more layer, made under @token: without a source @expansion times as large as the last
 * one, more where only few more may come; with a source (@expansion is not looked at) @growth - 1 times the
 * generation. Together the layers keep the promised rate; with a source, 1.5 times it. ERR_RANGE: no more
 * layers, or it is too large to plan. Pure. */
MUST_CHECK enum err grow_plan(struct generation *out, const struct generation *g, uint32_t expansion,
                              bool sourced, double growth, uint32_t shard_bytes, uint64_t token,
                              struct error *e);

struct grow_options {
    uint64_t generation; /* which one */
    unsigned layers;     /* that it has as the caller knows: with more, nothing is done */
    uint32_t shard_bytes;
    double growth; /* of a filter with a source */
};

/* Give the generation a layer; *@out is the view that has it. The caller is the generation's writer
 * afterwards, and lets go of that; who folds it takes over again. ERR_NOT_FOUND: there is no such filter, or
 * it is being deleted, or has no such generation. ERR_CONFLICT: another grower, or a node's replication id is
 * none that the view accepts: later. ERR_RANGE: grow_plan(). Others as shards.h, and log_view_load(). */
MUST_CHECK enum err log_grow(struct sync_client *l, const struct names *names, const struct grow_options *o,
                             struct log_view *out, const struct work *w, struct error *e);

/* @known is @g with more layers: a view that has @g went back. Pure. */
bool grow_is_behind(const struct generation *g, const struct generation *known);
/* Have the view, which has @g, have the layers of @known again. *@done: it has them; else it has changed
 * meanwhile. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err log_put_back(struct sync_client *l, const struct names *names, const struct generation *g,
                                 const struct generation *known, bool *done, struct error *e);
#endif
