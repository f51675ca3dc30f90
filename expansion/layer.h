/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_LAYER_H
#define EXPANSION_LAYER_H
/* Further layers of a generation. One that is read gains a layer by two view changes: `opening` (all read the
 * new layer, nobody writes it), then it is written. One that is only written gains it by one.
 *
 * A filter without a source grows by layers alone, each `expansion` times larger than the one before. A check
 * reads every layer, so there are GENERATION_LAYERS_MAX at the most; that a small `expansion` is no early end
 * the later ones are larger than it says (layer_next_capacity()). One with a source gets layers where an
 * expansion comes too late: `growth` - 1 times the generation. Each layer takes a part of what is left of the
 * promised rate, of which 1.5 times is for a filter with a source (layer_next_rate()). */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "expansion/mutex.h"
#include "shard/fence.h"

/* All borrowed. */
struct layer_options {
    struct fence *fence;
    struct mutex *mutex;
    uint32_t shard_bytes;
    double growth; /* of a filter with a source */
};

/* Error rate of the first layer of a filter without a source. */
double layer_first_rate(double rate);

/* That of the layer behind the last one of @g, which has room for one: half of what the others have left of
 * the promise, or, from the LAYER_EVEN-th on, an even share of it for each that may come. So the sum over all
 * layers is never more than the promise. @sourced: the filter has a source. */
enum { LAYER_EVEN = 8 };
double layer_next_rate(const struct generation *g, bool sourced);

/* Capacity of that layer in a filter without a source: of the last one @expansion times as much; at least
 * twice as much from the LAYER_EVEN-th on, and four times from the 2 * LAYER_EVEN-th. ERR_RANGE: that is out
 * of range. */
MUST_CHECK enum err layer_next_capacity(const struct generation *g, uint32_t expansion, uint64_t *out,
                                        struct error *e);

/* The highest rate that @g may have with its layers full: the sum of theirs. */
double layer_rate_bound(const struct generation *g);

/* Model: layer_grow(). Make the shards of another layer of the generation in slot @slot of @v and publish it;
 * for the current generation both changes. @v must be fenced and nothing of it opening; it is the new view
 * afterwards.
 * @scratch is overwritten. ERR_RANGE: no more layers, or the next one is too large to plan. ERR_REFUSED: no
 * memory in Redis. ERR_MUTEX_LOST, ERR_FENCED, ERR_UNREACHABLE, ERR_TIMEOUT: load the view again. */
MUST_CHECK enum err layer_add(const struct layer_options *o, struct view *v, struct view *scratch,
                              unsigned slot, struct error *e);

/* Model: IS_READY. The second change, where another driver did not come to it; else nothing. @v must be
 * fenced. */
MUST_CHECK enum err layer_complete(const struct layer_options *o, struct view *v, struct view *scratch,
                                   struct error *e);

/* Load the view of @o->fence's filter into @v, finish what another driver left half done; then, if the newest
 * layer of the current generation has as many items as it was planned for, add one. ERR_OK: there is room.
 * ERR_CONFLICT: the filter may not grow (NONSCALING), has not been built, or an expansion is under way whose
 * driver does it. Else as layer_add(). */
MUST_CHECK enum err layer_grow(const struct layer_options *o, struct view *v, struct error *e);
#endif
