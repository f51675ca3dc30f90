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
#include "shard/lineage.h"
#include "shard/phase.h"
#include "shard/unsure.h"

/* The form in which views are kept. A field that a coordinator may pass over without harm can be added at any
 * time: unknown fields are skipped, and stay in Redis. What it must not pass over is another format: whoever
 * meets one above its own neither answers from the filter nor touches it. 1: all views but those of 2: with
 * shards that are unsure. */
enum { VIEW_FORMAT = 2, VIEW_FORMAT_LOG = 3 /* a log: shard/view/log_view.h */ };

/* A filter that is deleted: requests go on under its view while its shards become tombstones; then a marker,
 * that is no view, lies in the view's place for a while. */
enum view_dropped { VIEW_KEPT, VIEW_DROP_BEGUN, VIEW_DROP_DONE };

/* A view that went back to an earlier one (reconcile.h): it was put back from somebody's memory, and nobody
 * may change it but by reconciling it; or it is reconciled, and its fence finds the shards under whatever
 * epochs they lie. */
enum view_recovery { RECOVERY_NONE, RECOVERY_DUE, RECOVERY_FENCE };

struct view {
    uint64_t incarnation;
    uint64_t epoch;
    uint64_t fenced_epoch;
    enum phase phase;
    unsigned current;          /* bloom_filter_current_index: slot 0 or 1 */
    struct generation slot[2]; /* number % 2 */
    uint64_t last_generation;  /* counter; numbers are never reused */
    uint32_t expansion;        /* growth factor of overflow layers; 0: non-scaling */
    bool sourced;              /* has a Postgres source */
    bool log;      /* it is a log (format 3, shard/view/log_view.h): a summary, whose epoch is its version */
    bool degraded; /* of a log: acknowledged keys may be missing */
    uint64_t retiring_epoch;    /* 0: nothing; else `retiring` still has shards under that epoch's names */
    struct generation retiring; /* the generation that left the view with that epoch */
    enum view_dropped dropped;
    enum view_recovery recovery;
    struct unsure unsure; /* lost shards of a generation of this view that are made anew */
    uint64_t
        expire_at_ms; /* wall clock; 0: never. fence_expire() alone writes it: no change of the view does */
    /* The masters whose data of this filter are known to be whole, and since when (wall clock; 0: not known):
     * written by fence_publish() and fence_trust() alone. Each time it is larger than all that was known. */
    struct trusted trusted;
    uint64_t trusted_ms;
    uint64_t keys[2];    /* of a log: of the generation in each slot, up to what was folded */
    uint64_t keys_of[2]; /* scratch: the generation that they are of */
};

/* Which view it is: enough to tell whether another one is older (latest.h). */
struct view_stamp {
    uint64_t incarnation; /* 0: none */
    uint64_t epoch;
    uint64_t trusted_ms;
};

/* One field of the hash as Redis gave it. */
struct view_field {
    const char *name;
    size_t name_length;
    const char *value;
    size_t value_length;
};

/* A view of a filter that is a log is read, too. ERR_NOT_FOUND: no fields, the view does not exist; or those
 * of a marker: then @out has VIEW_DROP_DONE, the incarnation and last_generation of what was deleted.
 * ERR_PARSE: damaged; names the field. What else is in
 * *@out is then undefined. ERR_FORMAT: a later version wrote it (without the field `format` it is 1). Unknown
 * fields are skipped. Without `retiring_epoch` and `retiring` nothing is retiring. Refused too: an epoch of 0
 * or below fenced_epoch, a generation in the slot of the other parity, an empty current slot, a phase that
 * the generations do not allow (BUILDING without an alternate, OVERFLOW_OPEN without a layer that is opening,
 * STEADY with one), unsure shards of a generation that has not as many. */
MUST_CHECK enum err view_parse(struct view *out, const struct view_field *fields, size_t count,
                               struct error *e);

/* ERR_FORMAT: it is a log where there are none, or none where all filters are. */
enum err view_refuse_core(const struct view *v, struct error *e);

/* Called for each field of the stored form; @value is valid during the call only. Needs no memory. */
typedef void view_field_fn(void *arg, const char *name, const char *value);
void view_format(const struct view *v, view_field_fn *fn, void *arg);

const struct generation *view_current(const struct view *v);
/* The generation of the other slot, or NULL if that slot is empty. */
const struct generation *view_alternate(const struct view *v);

/* How many shards of the generation in use are made anew, and do not hold all rows yet. */
uint32_t view_unsure(const struct view *v);
/* Shard @shard of layer @layer of @g is brought to its name under v->epoch from the one under which it was
 * made anew: a lost one that was given up with this epoch. */
bool view_is_anew(const struct view *v, const struct generation *g, unsigned layer, uint32_t shard);
/* Forget those of a generation that is not in the view. */
void view_trim_unsure(struct view *v);

/* True if the old names of shards may still have to be renamed. */
bool view_unfenced(const struct view *v);
#endif
