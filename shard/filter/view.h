/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_VIEW_H
#define SHARD_FILTER_VIEW_H
/* The view of a filter (shard/view/log_view.h) as a summary, for code that does not follow the log:
 * administration, plans, jobs, status. Pure; no I/O. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "base/span.h"
#include "shard/filter/generation.h"

/* The format of views. Fields that a coordinator may ignore without harm can be added at any time: unknown
 * fields are skipped, and stay in Redis. Anything else needs a new format: a coordinator that meets another
 * format neither answers from the filter nor changes it. Formats 1 and 2 had shards only. */
enum { VIEW_FORMAT = 3 };

/* What a filter is doing, as the status shows it. */
enum phase {
    PHASE_STEADY,   /* one generation, of one layer */
    PHASE_BUILDING, /* another generation is being built */
    PHASE_SWITCHED, /* the new generation is read; the one before it is kept, for the way back */
    PHASE_OVERFLOW, /* one generation, of several layers */
    PHASE_COUNT
};
const char *phase_name(enum phase phase);

struct view {
    uint64_t incarnation;
    uint64_t epoch; /* the view's version */
    enum phase phase;
    bool current;              /* bloom_filter_current_index: the slot, 0 or 1, of the generation that is
                                * read */
    struct generation slot[2]; /* generation g is in slot g % 2 */
    uint64_t last_generation;  /* the highest generation number so far; numbers are never used again */
    uint32_t expansion;        /* growth factor of layers; 0: non-scaling */
    bool sourced;              /* has a Postgres source */
    bool degraded;             /* acknowledged keys may be missing */
    bool deleting;
    uint64_t expire_at_ms; /* wall clock; 0: never */
    uint64_t healthy_ms;   /* when the filter became healthy last (wall clock, ms; 0: unknown) */
    uint64_t keys[2];      /* keys folded so far into the generation in each slot */
    uint64_t keys_of[2];   /* scratch: the number of the generation that keys[] belongs to */
};

/* One field of the hash, as Redis returned it. */
struct view_field {
    const char *name;
    size_t name_length;
    const char *value;
    size_t value_length;
};

/* How to parse a field's value, and the type of the member. */
enum view_kind {
    VIEW_HEX,        /* uint64_t, 16 digits */
    VIEW_NUMBER,     /* uint64_t */
    VIEW_POSITIVE,   /* uint64_t, not 0 */
    VIEW_WORD,       /* uint32_t */
    VIEW_BIT,        /* bool */
    VIEW_GENERATION, /* struct generation; "" has the number 0 */
    VIEW_OTHER       /* parsed by row->parse */
};
struct view_row {
    const char *name;
    size_t offset;                                  /* of the member */
    bool (*parse)(void *member, struct span value); /* VIEW_OTHER */
    const char *expected;                           /* VIEW_OTHER: the form of the value, for error texts */
    enum view_kind kind;
    bool is_optional;
};
enum { VIEW_ROWS_MAX = 32 };

/* Read the fields that have a row, each at most once. @absent: the format to assume if there is no field
 * "format". @other (or NULL) gets all fields without a row, and skips those that it does not know. Errors:
 * those of view_parse(). */
MUST_CHECK enum err view_parse_rows(void *out, const struct view_row *rows, unsigned count, uint64_t absent,
                                    const struct view_field *fields, size_t field_count,
                                    enum err (*other)(void *out, const struct view_field *f, struct error *e),
                                    struct error *e);
bool view_is_bit(const char *value, size_t length);
/* ERR_PARSE, with a text that names the field, what it must be, and its value. */
enum err view_damaged(struct error *e, const struct view_field *f, const char *wanted);

/* ERR_NOT_FOUND: no fields; the view does not exist. ERR_PARSE: a field is damaged; the text names it, and
 * *@out is undefined. ERR_FORMAT: the format is not VIEW_FORMAT. Unknown fields are skipped. */
MUST_CHECK enum err view_parse(struct view *out, const struct view_field *fields, size_t count,
                               struct error *e);

/* Called for each field of a stored form. @value is valid during the call only. */
typedef void view_field_fn(void *arg, const char *name, const char *value);

const struct generation *view_current(const struct view *v);
/* The generation of the other slot, or NULL if that slot is empty. */
const struct generation *view_alternate(const struct view *v);
#endif
