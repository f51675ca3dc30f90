/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_H
#define SHARD_VIEW_H
/* The view: what a coordinator believes of a filter. Stored as the hash P:{F}:view, changed only by the
 * scripts of fence.h. Pure; no I/O. */
#include <stdbool.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/generation.h"
#include "shard/phase.h"

/* A filter that is deleted: requests go on under its view while its shards become tombstones; then a marker,
 * that is no view, lies in the view's place for a while. */
enum view_dropped { VIEW_KEPT, VIEW_DROP_BEGUN, VIEW_DROP_DONE };

struct view {
    uint64_t incarnation;
    uint64_t epoch;
    uint64_t fenced_epoch;
    enum phase phase;
    unsigned current;           /* bloom_filter_current_index: slot 0 or 1 */
    struct generation slot[2];  /* number % 2 */
    uint64_t last_generation;   /* counter; numbers are never reused */
    uint32_t expansion;         /* growth factor of overflow layers; 0: non-scaling */
    bool sourced;               /* has a Postgres source */
    uint64_t retiring_epoch;    /* 0: nothing; else `retiring` still has shards under that epoch's names */
    struct generation retiring; /* the generation that left the view with that epoch */
    enum view_dropped dropped;
    uint64_t
        expire_at_ms; /* wall clock; 0: never. fence_expire() alone writes it: no change of the view does */
};

/* One field of the hash as Redis gave it. */
struct view_field {
    const char *name;
    size_t name_length;
    const char *value;
    size_t value_length;
};

/* ERR_NOT_FOUND: no fields, the view does not exist; or those of a marker: then @out has VIEW_DROP_DONE, the
 * incarnation and last_generation of what was deleted. ERR_PARSE: damaged; names the field. What else is in
 * *@out is then undefined. Unknown fields are skipped. Without `retiring_epoch` and `retiring` nothing is
 * retiring. Refused too: an epoch of 0 or below fenced_epoch, a generation in the slot of the other parity,
 * an empty current slot, a phase that the generations do not allow (BUILDING without an alternate,
 * OVERFLOW_OPEN without a layer that is opening, STEADY with one). */
MUST_CHECK enum err view_parse(struct view *out, const struct view_field *fields, size_t count,
                               struct error *e);

/* Called for each field of the stored form; @value is valid during the call only. Needs no memory. */
typedef void view_field_fn(void *arg, const char *name, const char *value);
void view_format(const struct view *v, view_field_fn *fn, void *arg);

const struct generation *view_current(const struct view *v);
/* The generation of the other slot, or NULL if that slot is empty. */
const struct generation *view_alternate(const struct view *v);

/* True if the old names of shards may still have to be renamed. */
bool view_unfenced(const struct view *v);
#endif
