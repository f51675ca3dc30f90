/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_LAYER_H
#define EXPANSION_LAYER_H
/* Further layers of a generation. One that is read gains a layer by two view changes: `opening` (all read the
 * new layer, nobody writes it), then it is written. One that is only written gains it by one.
 *
 * A filter without a source grows by layers alone, each `expansion` times larger than the one before with
 * half its error rate. One with a source gets them where an expansion comes too late: `growth` - 1 times the
 * generation, at a quarter, an eighth, ... of the promised rate, so that all layers together stay below 1.5
 * times the promise. */
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

/* Error rate of the first layer of a filter without a source, such that the sum over all layers to come stays
 * below
 * @rate: the series rate/2, rate/4, ... */
double layer_first_rate(double rate);

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
