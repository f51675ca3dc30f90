/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_LOG_VIEW_H
#define SHARD_VIEW_LOG_VIEW_H
/* The view of a filter that is a log: which lanes it has, which generations, who may write their shards, and
 * up to where of each lane these shards hold every entry. Stored as the hash P:{F}:view, read in one command,
 * changed only by scripts. Pure; no I/O.
 *
 *   format=3  incarnation=<hex>  version=<n>  bloom_filter_current_index=<0|1>  bloom_filter_size=<shards>
 *   last_generation=<n>  seed=<hex>  expansion=<n>  sourced=<0|1>
 *   lanes=<number>,<number>...          the number of each lane's stream
 *   eras=<id> <id>...                   replication ids that the filter accepts (lineage.h)
 *   generation0=  generation1=          generation.h; a generation's seed is its mix; "" where there is none
 *   token0=  token1=<number> <hex>      who may write the shards of that generation
 *   folded<slot>.<lane>=<number> <position>   of that generation, in the lane with that number */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/generation.h"
#include "shard/lineage.h"
#include "shard/log/position.h"
#include "shard/resident/header.h"
#include "shard/view.h"

enum { LOG_VIEW_FORMAT = 3, LOG_LANES_MAX = 16, LOG_TOKEN_TEXT_MAX = 38, LOG_FOLDED_NAME_MAX = 16 };

struct log_folded {
    uint64_t lane_number; /* of the stream that the position is in; 0: nothing was folded yet */
    struct log_position position;
};

struct log_generation {
    struct generation shape;    /* number 0: there is none */
    struct writer_token writer; /* who may write its shards; number 0: nobody yet */
    struct log_folded folded[LOG_LANES_MAX];
};

/* Some 130 KB: not for the stack. */
struct log_view {
    uint64_t incarnation;
    uint64_t version; /* grows with every change, but for that of a position */
    uint64_t seed;    /* secret of the keys' hashes */
    uint64_t last_generation;
    uint32_t expansion; /* growth factor of layers; 0: the filter does not grow */
    bool sourced;
    unsigned current;
    unsigned lane_count;
    uint64_t lane_number[LOG_LANES_MAX];
    struct trusted eras;
    struct log_generation slot[2]; /* number % 2 */
};

/* As view_parse(): ERR_NOT_FOUND: no fields. ERR_PARSE: damaged; the text names the field. ERR_FORMAT:
 * another format. What is in *@out is then undefined. Unknown fields are skipped. */
MUST_CHECK enum err log_view_parse(struct log_view *out, const struct view_field *fields, size_t count,
                                   struct error *e);

/* Each field of the stored form, but for the positions: fold_store() alone stores those. */
void log_view_format(const struct log_view *v, view_field_fn *fn, void *arg);

/* The lane of a key. */
unsigned log_view_lane(const struct log_view *v, struct key_hash h);

/* True if @g's shards hold all entries of @lane up to @g->folded[lane]: the position is in the lane that the
 * view has now. */
bool log_view_is_folded(const struct log_view *v, const struct log_generation *g, unsigned lane);

/* "<number> <random part, 16 hexadecimal digits>" */
void log_token_text(const struct writer_token *t, char out[LOG_TOKEN_TEXT_MAX]);
MUST_CHECK bool log_token_parse(struct writer_token *out, const char *text, size_t length);

/* "folded<slot>.<lane>" */
void log_folded_name(unsigned slot, unsigned lane, char out[LOG_FOLDED_NAME_MAX]);
#endif
