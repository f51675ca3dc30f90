/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_GROW_H
#define SHARD_GENERATIONS_GROW_H
/* A generation that is full gets a layer. Blocking, except for the functions that decide and plan.
 *
 * The happy path is: draw a token; the view says which layer is being made (`next`); its shards are made
 * under the token; one script adds the layer to the generation. Possible failure modes are: the grower is
 * killed (the next one makes the layer under a token of its own, and takes over what the former one left;
 * whoever deletes the filter removes what `next` names); two growers (the one that wrote `next` last goes on,
 * the other one gets ERR_CONFLICT); a command of a grower that was given up runs late (it replaces nothing
 * that was made under a later token; a shard that it makes in place of a lost one has an earlier token than
 * its layer, and counts as lost: header_check_made()); a node changes its replication id meanwhile.
 *
 * No key goes into the layer before an entry in its lane says that the layer begins (LOG_LAYER in entry.h):
 * so all processes set a key in the same layer, whatever view they have (tests/model/log/layers.pml). Whoever
 * finds that a lane lacks this entry appends it, once the view has the layer. The rules:
 * - A generation's layers are only added to, by one script, when all shards of the layer are there.
 * - `folded` says how many layers had begun at its position; a process that begins to apply there continues
 *   with that number.
 * - A process that meets the entry, and does not have the layer, applies nothing more of that lane until its
 *   view has it.
 * - A key is set in the layer of its place even if an older layer has all of its bits (placed.pml).
 * - A process that learns of a later `folded` takes over the layers of that view first, and only then drops
 *   entries from its overlay, or lets shards leave memory.
 * - A folder that gets a layer enters its token into the new shards, and reads them.
 * - A shard of the layer that is already there keeps its bits: the metadata node may have gone back to before
 *   a layer that others read by blocks (tests/model/log/back.pml). A set bit makes no key absent.
 * - A process that knows layers which the view no longer has puts them back: log_put_back(). So what it has
 *   in memory is still of the view's layers, and no key counts as new twice. */
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

/* What to do with a generation of @layers layers with @keys keys, planned for @capacity keys in all. @fixed:
 * it must not grow. A generation with the maximum number of layers gets no more, and still takes keys. */
enum grow_action grow_decide(uint64_t keys, uint64_t capacity, unsigned layers, bool fixed);

/* Error rate of the first layer of a generation that grows by layers; the other layers share the rest. */
double grow_first_rate(double rate);

/* @out is @g with one more layer, made under @token. Without a source the layer is @expansion times as large
 * as the last one, or larger if few more layers may follow. With a source (@expansion is ignored) it is as
 * large as the generation. All layers together keep the promised rate; with a source,
 * 1.5 times that rate. ERR_RANGE: no more layers, or the layer is too large to plan. Pure. */
MUST_CHECK enum err grow_plan(struct generation *out, const struct generation *g, uint32_t expansion,
                              bool sourced, uint32_t shard_bytes, uint64_t token, struct error *e);

/* Add a layer to generation @generation; nothing is done if it has more than the @layers that the caller
 * knows. *@out is the view with the layer. What the layer is like follows from the view alone, so whoever
 * makes it again, as a maker was killed or home went back, finds shards of the same form, and keeps what is
 * in them. The caller then is the generation's writer, and gives that up; its folder takes over again.
 * ERR_NOT_FOUND: there is no such filter, or it is being deleted, or does not have the generation.
 * ERR_CONFLICT: there is another grower, or the view does not accept a node's replication id: try later.
 * ERR_RANGE: grow_plan(). Also the errors of shards.h and log_view_load(). */
MUST_CHECK enum err log_grow(struct sync_client *l, const struct names *names, uint64_t generation,
                             unsigned layers, struct log_view *out, struct error *e);

/* True if @known is @g with more layers: then a view that has @g went back. Pure. */
bool grow_is_behind(const struct generation *g, const struct generation *known);
/* Give @g, which the view has, the layers of @known again. *@done: the view has them; if not, it has changed
 * meanwhile. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err log_put_back(struct sync_client *l, const struct names *names, const struct generation *g,
                                 const struct generation *known, bool *done, struct error *e);
#endif
