/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_LOG_VIEW_H
#define SHARD_VIEW_LOG_VIEW_H
/* The view of a filter that is a log: which lanes it has, which generations, who may write their shards, and
 * up to where of each lane these shards hold every entry. Stored as the hash P:{F}:view, read in one command,
 * changed only by scripts. Pure; no I/O.
 *
 *   format=3  incarnation=<hex>  version=<n>
 *   bloom_filter_current_index=<0|1>  bloom_filter_size=<shards>
 *   last_generation=<n>  seed=<hex>  expansion=<n>
 *   sourced=<0|1>  degraded=<0|1>  deleting=<0|1>
 *   lanes=<number>:<era>,...      of each lane: its stream's number, its node's replication id;
 *                                 0: none is accepted yet
 *   lane_nodes=<node>,<node>...   where lanes lie, in turn; "" in a cluster, where slots decide,
 *                                 and where all lie on the metadata node
 *   eras=<id> <id>...             of the shards' nodes: replication ids that the filter accepts
 *   generation0=  generation1=    generation.h; a generation's seed is its mix; "": there is none
 *   token0=  token1=<number> <hex>              who may write the shards of that generation
 *   folded<slot>.<lane>=<number> <position> <layers>   in the lane with that number; how many layers of the
 *                                 generation had begun there
 *   keys<slot>=<generation> <n>[ <number>:<era> <id>...]   keys that were new when they were
 *                                 applied, up to there in each lane; up to `folded`, where it
 *                                 names no lanes, or other ones than the view has
 *   full<slot>.<lane>=<generation> <number>:<era> <id>   entries behind it add no key
 *   next<slot>=<generation.h>     with one more layer, whose shards are being made
 *   lost<slot>=<generation> <layer>.<shard> <ms>   is missing, others may be too: whoever has them in
 *                                 memory makes them again (lost.h); since when, by the metadata
 *                                 node's clock
 *   hold.<lane>=<number> <id>     a build needs this lane's entries from there on
 *   near=<generation>             and writers keep theirs from there on: its cutover is near
 *   strays=1                      streams or shards may be there that the view does not name
 *                                 (leftover.h)
 *   history=<id> <id>...          replication ids that the view has taken, and losses that were
 *                                 noticed (history.h); the last ones first
 *   left=<id>:<registration> ...  writers that left or were removed, the last ones first
 *   writer.<id>=<registration>[?] <lane>.<number>:<era> ...   a writer; "?": it is in doubt; the
 *                                 lanes with the eras, not yet accepted, under which it has
 *                                 looked for its entries and appended what was missing */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/redis/wire/replication.h"
#include "shard/log/lane.h"
#include "shard/log/position.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/header.h"
#include "shard/filter/view.h"

enum {
    LOG_LANES_MAX = 16,
    LOG_WRITERS_MAX = 256,
    LOG_LEFT_MAX = 40,
    LOG_HISTORY_MAX = 40,
    LOG_TOKEN_TEXT_MAX = 38,
    LOG_FOLDED_NAME_MAX = 16,
    LOG_WRITER_NAME_MAX = 48,
    LOG_LOST_TEXT_MAX = 72
};

struct log_lane {
    uint64_t number; /* of its stream; never 0 */
    uint64_t era;    /* the replication id of its node that the filter accepts; 0: none yet */
};

struct log_folded {
    uint64_t lane_number; /* of the stream that the position is in; 0: nothing was folded yet */
    struct log_position position;
    unsigned
        layers; /* that had begun there; 0: the filter was made without keys, and nothing was folded yet */
};

/* Of a generation that does not grow: it takes no keys from entries of a lane behind this one. It counts only
 * for that generation, and in the lane that the view has now, under its era. */
struct log_full_at {
    uint64_t generation; /* 0: there is none */
    struct log_lane lane;
    struct log_id id;
};

struct log_counted {
    struct log_lane lane;
    struct log_id id;
};

/* A shard that is missing in Redis. */
struct log_lost {
    uint64_t generation; /* another one than the slot has: none is */
    unsigned layer;
    uint32_t shard;
    uint64_t since_ms; /* when the view began to say so; 0: it does not yet */
};

struct log_generation {
    struct generation shape;    /* number 0: there is none */
    struct generation next;     /* the same with one more layer, which is being made; number 0: none is */
    struct writer_token writer; /* who may write its shards; number 0: nobody yet */
    struct log_folded folded[LOG_LANES_MAX];
    struct log_full_at full[LOG_LANES_MAX];
    uint64_t keys;    /* that were new, up to log_view_counted() */
    uint64_t keys_of; /* the generation that they are of; another one than shape.number: keys is 0 */
    unsigned counted_lanes;
    struct log_counted counted[LOG_LANES_MAX];
    struct log_lost lost;
};

/* From where on a build needs a lane. */
struct log_hold {
    uint64_t lane_number; /* 0: there is none */
    struct log_id from;
};

/* In that stream of the lane, under that era, a writer has none of its entries missing. */
struct log_said {
    unsigned lane;
    uint64_t number, era;
};

/* A process that appends. It is registered before its first entry, and until its entries are folded. */
struct log_writer {
    uint8_t id[LOG_WRITER_BYTES];
    uint64_t registration; /* its number: later ones of this writer have higher ones */
    bool in_doubt;         /* it is being removed, and registers again if it is still there (remove.h) */
    unsigned said_count;
    struct log_said said[LOG_LANES_MAX]; /* one for each lane, the latest */
};

/* A writer that is not registered any more. */
struct log_left {
    uint8_t id[LOG_WRITER_BYTES];
    uint64_t registration;
};

/* Some 250 KB: not for the stack. */
struct log_view {
    uint64_t incarnation;
    uint64_t version; /* grows with every change, but for positions and what writers say */
    uint64_t seed;    /* secret of the keys' hashes */
    uint64_t last_generation;
    uint32_t expansion; /* growth factor of layers; 0: the filter does not grow */
    bool sourced;
    bool degraded; /* acknowledged keys may be missing: no key is "absent" */
    bool deleting;
    bool strays; /* there may be streams or shards of this incarnation that are not named here */
    bool current;
    unsigned lane_count;
    struct log_lane lane[LOG_LANES_MAX];
    unsigned lane_node_count; /* 0: slots decide, or all lie on the metadata node */
    char lane_node[LOG_LANES_MAX][NODE_NAME_MAX];
    struct log_hold hold[LOG_LANES_MAX];
    uint64_t near;                 /* number of the generation; 0: there is none */
    struct trusted eras;           /* of the nodes that hold shards */
    struct log_generation slot[2]; /* number % 2 */
    unsigned writer_count;
    struct log_writer writer[LOG_WRITERS_MAX];
    unsigned left_count;
    struct log_left left[LOG_LEFT_MAX];
    unsigned history_count;
    uint64_t history[LOG_HISTORY_MAX]; /* the last one first */
};

/* As view_parse(): ERR_NOT_FOUND: no fields. ERR_PARSE: damaged; the text names the field. ERR_FORMAT:
 * another format. What is in *@out is then undefined. Unknown fields are skipped. */
MUST_CHECK enum err log_view_parse(struct log_view *out, const struct view_field *fields, size_t count,
                                   struct error *e);

/* Each field of the stored form, but for positions, keys, full marks, the next layer, what is lost, holds,
 * strays and writers, which scripts alone store. */
void log_view_format(const struct log_view *v, view_field_fn *fn, void *arg);

/* The lane of a key, of @lanes. */
unsigned log_lane_of(struct key_hash h, unsigned lanes);

/* Where a lane of the view lies: its key, its address, its era. ERR_CONFIG: on a node that is not configured.
 */
MUST_CHECK enum err log_view_lane_at(const struct log_view *v, const struct names *names,
                                     const struct nodes *nodes, unsigned lane, struct lane *out,
                                     struct error *e);

/* True if @g takes no keys from entries of @lane behind @g->full[lane].id. */
bool log_view_is_full(const struct log_view *v, const struct log_generation *g, unsigned lane);

/* True if @g's shards hold all entries of @lane up to @g->folded[lane]: the position is in the lane that the
 * view has now. */
bool log_view_is_folded(const struct log_view *v, const struct log_generation *g, unsigned lane);

/* Up to where in @lane @g->keys were counted: `folded` or behind it. */
struct log_id log_view_counted(const struct log_view *v, const struct log_generation *g, unsigned lane);

/* "<number> <random part, 16 hexadecimal digits>" */
void log_token_text(const struct writer_token *t, char out[LOG_TOKEN_TEXT_MAX]);
MUST_CHECK bool log_token_parse(struct writer_token *out, const char *text, size_t length);

/* "<generation> <layer>.<shard> <ms>" */
void log_lost_text(const struct log_lost *lost, char out[LOG_LOST_TEXT_MAX]);

/* True if @w has said that none of its entries is missing in the stream @number of @lane under @era. */
bool log_writer_has_said(const struct log_writer *w, unsigned lane, uint64_t number, uint64_t era);
/* The writer with that id; NULL: it is not registered. */
const struct log_writer *log_view_writer(const struct log_view *v, const uint8_t id[LOG_WRITER_BYTES]);

/* @w, of another view of the filter, is neither registered in this one, nor has it left or was removed. So
 * this one is from before it was registered, or that is long ago. */
bool log_view_lacks(const struct log_view *v, const struct log_writer *w);

/* "writer.<32 hexadecimal digits>" */
void log_writer_name(const uint8_t id[LOG_WRITER_BYTES], char out[LOG_WRITER_NAME_MAX]);

/* "folded<slot>.<lane>", "full<slot>.<lane>" */
void log_folded_name(unsigned slot, unsigned lane, char out[LOG_FOLDED_NAME_MAX]);
#endif
