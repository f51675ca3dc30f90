/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_OVERFLOW_H
#define EXPANSION_OVERFLOW_H
/* Overflow: a filter without a source grows by layers, each `expansion` times larger than the one before with
 * half its error rate. Two view changes: OVERFLOW_OPEN (all read the new layer, nobody writes it), OVERFLOW
 * (it is written). */
#include <stdint.h>
#include "base/error.h"
#include "expansion/mutex.h"
#include "shard/fence.h"

/* Error rate of the first layer, such that the sum over all layers to come stays below @rate: the series
 * rate/2, rate/4, ... */
double overflow_first_rate(double rate);

/* Finish what another driver left half done; then, if the newest layer has as many items as it was planned
 * for, open another one. @f names the filter; @scratch is overwritten. ERR_OK: there is room. ERR_CONFLICT:
 * the filter has a source or may not grow. ERR_RANGE: no more layers, or the next one is too large to plan.
 * ERR_REFUSED: no memory in Redis. ERR_MUTEX_LOST, ERR_FENCED, ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err overflow_grow(struct fence *f, struct view *scratch, struct mutex *mutex,
                                  uint32_t shard_bytes, struct error *e);
#endif
