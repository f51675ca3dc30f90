/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_VIEW_H
#define SHARD_FILTER_VIEW_H
/* The view of a filter (shard/view/log_view.h) as a summary, for those who do not follow the log:
 * administration, plans, jobs, status. Pure; no I/O. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/filter/phase.h"

/* The form in which views are kept. A field that a coordinator may pass over without harm can be added at any
 * time: unknown fields are skipped, and stay in Redis. What it must not pass over is another format: whoever
 * meets one that is not its own neither answers from the filter nor touches it. 1 and 2 were shards alone. */
enum { VIEW_FORMAT = 3 };

struct view {
    uint64_t incarnation;
    uint64_t epoch; /* its version */
    enum phase phase;
    bool current;              /* bloom_filter_current_index: slot 0 or 1 */
    struct generation slot[2]; /* number % 2 */
    uint64_t last_generation;  /* counter; numbers are never reused */
    uint32_t expansion;        /* growth factor of layers; 0: non-scaling */
    bool sourced;              /* has a Postgres source */
    bool degraded;             /* acknowledged keys may be missing */
    bool deleting;
    uint64_t expire_at_ms; /* wall clock; 0: never */
    uint64_t healthy_ms;   /* when it was made whole last (wall clock; 0: not known) */
    uint64_t keys[2];      /* of the generation in each slot, up to what was folded */
    uint64_t keys_of[2];   /* scratch: the generation that they are of */
};

/* One field of the hash as Redis gave it. */
struct view_field {
    const char *name;
    size_t name_length;
    const char *value;
    size_t value_length;
};

/* How a field is read: into which member, and as what. */
enum view_kind {
    VIEW_HEX,        /* uint64_t, 16 digits */
    VIEW_NUMBER,     /* uint64_t */
    VIEW_POSITIVE,   /* uint64_t, not 0 */
    VIEW_WORD,       /* uint32_t */
    VIEW_BIT,        /* bool */
    VIEW_GENERATION, /* struct generation; "" has the number 0 */
    VIEW_OTHER       /* by a function */
};
struct view_row {
    const char *name;
    size_t offset;                                              /* of the member; 0 for VIEW_OTHER */
    bool (*parse)(void *out, const char *value, size_t length); /* VIEW_OTHER */
    const char *expected;                                       /* VIEW_OTHER: for people */
    enum view_kind kind;
    bool is_optional;
};
enum { VIEW_ROWS_MAX = 32 };

/* Read the fields that have a row, each once, of a view of format VIEW_FORMAT (@absent: which it is where no
 * field says so); @other (NULL: none) is given the others, which it passes over where it does not know them.
 * Errors as below. */
MUST_CHECK enum err view_parse_rows(void *out, const struct view_row *rows, unsigned count, uint64_t absent,
                                    const struct view_field *fields, size_t field_count,
                                    enum err (*other)(void *out, const struct view_field *f, struct error *e),
                                    struct error *e);
bool view_is_bit(const char *value, size_t length);
/* ERR_PARSE: the text names the field, what it must be, and its value. */
enum err view_damaged(struct error *e, const struct view_field *f, const char *wanted);

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
