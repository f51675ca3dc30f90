/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_H
#define SHARD_VIEW_H
/* The view of a filter (shard/view/log_view.h) as a summary, for those who do not follow the log:
 * administration, plans, jobs, status. Pure; no I/O. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/generation.h"
#include "shard/phase.h"

/* The form in which views are kept. A field that a coordinator may pass over without harm can be added at any
 * time: unknown fields are skipped, and stay in Redis. What it must not pass over is another format: whoever
 * meets one that is not its own neither answers from the filter nor touches it. 1 and 2 were shards alone. */
enum { VIEW_FORMAT = 3 };

enum view_dropped { VIEW_KEPT, VIEW_DROP_BEGUN };

struct view {
    uint64_t incarnation;
    uint64_t epoch; /* its version */
    enum phase phase;
    unsigned current;          /* bloom_filter_current_index: slot 0 or 1 */
    struct generation slot[2]; /* number % 2 */
    uint64_t last_generation;  /* counter; numbers are never reused */
    uint32_t expansion;        /* growth factor of layers; 0: non-scaling */
    bool sourced;              /* has a Postgres source */
    bool degraded;             /* acknowledged keys may be missing */
    enum view_dropped dropped; /* it is being deleted */
    uint64_t expire_at_ms;     /* wall clock; 0: never */
    uint64_t healthy_ms;       /* when it was made whole last (wall clock; 0: not known) */
    uint64_t keys[2];          /* of the generation in each slot, up to what was folded */
    uint64_t keys_of[2];       /* scratch: the generation that they are of */
};

/* One field of the hash as Redis gave it. */
struct view_field {
    const char *name;
    size_t name_length;
    const char *value;
    size_t value_length;
};

/* ERR_NOT_FOUND: no fields, the view does not exist. ERR_PARSE: damaged; names the field. What else is in
 * *@out is then undefined. ERR_FORMAT: another format than VIEW_FORMAT. Unknown fields are skipped. */
MUST_CHECK enum err view_parse(struct view *out, const struct view_field *fields, size_t count,
                               struct error *e);

/* Called for each field of a stored form; @value is valid during the call only. Needs no memory. */
typedef void view_field_fn(void *arg, const char *name, const char *value);

const struct generation *view_current(const struct view *v);
/* The generation of the other slot, or NULL if that slot is empty. */
const struct generation *view_alternate(const struct view *v);
#endif
