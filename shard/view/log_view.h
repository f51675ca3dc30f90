/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_LOG_VIEW_H
#define SHARD_VIEW_LOG_VIEW_H
/* The view of a filter: its lanes, its generations, who may write their shards, and up to which position of
 * each lane these shards hold every entry. It is stored as the hash P:{F}:view, read in one command, and
 * changed only by scripts. Pure; no I/O.
 *
 *   format=3  incarnation=<hex>  version=<n>
 *   bloom_filter_current_index=<0|1>  bloom_filter_size=<shards>
 *   last_generation=<n>  seed=<hex>  expansion=<n>
 *   shard_bytes=<n>               the most bytes of a shard of layers that are added
 *   sourced=<0|1>  degraded=<0|1>  deleting=<0|1>
 *   lanes=<number>:<era>,...      of each lane: its stream's number, its node's replication id
 *                                 (0: none is accepted yet)
 *   lane_nodes=<node>,<node>...   where the lanes lie, in turn; "" if slots decide (in a cluster),
 *                                 or if all lie on the metadata node
 *   eras=<id> <id>...             accepted replication ids of the shards' nodes
 *   generation0=  generation1=    generation.h; a generation's seed is its mix; "": there is none
 *   token0=  token1=<number> <hex>              who may write the shards of that generation
 *   folded<slot>.<lane>=<number> <position> <layers>   the number of the lane's stream; the position
 *                                 in it; how many layers of the generation had begun there
 *   filled<slot>=<layers>         shards of so many layers may have bits of entries that no lane has:
 *                                 they are to be read, whatever `folded` says
 *   keys<slot>=<generation> <n>[ <number>:<era> <id>...]   number of keys that were new when they
 *                                 were applied, up to that id in each lane; or up to `folded`, if
 *                                 no lanes are named, or other ones than the view has
 *   full<slot>.<lane>=<generation> <number>:<era> <id>   entries behind that id add no key
 *   next<slot>=<generation.h>     with one more layer, whose shards are being made
 *   lost<slot>=<generation> <layer>.<shard> <ms>   this shard is missing, others may be, too: a
 *                                 process that has them in memory makes them again (lost.h);
 *                                 since when, by the metadata node's clock
 *   hold.<lane>=<number> <id>     a build needs this lane's entries from that id on
 *   near=<generation>             the cutover to it is near: writers keep their entries, too
 *   strays=1                      there may be streams or shards that the view does not name
 *                                 (leftover.h)
 *   history=<id> <id>...          replication ids that the view has taken, cutovers, and losses
 *                                 that were noticed (history.h), the last ones first
 *   left=<id>:<registration> ...  writers that left or were removed, the last ones first
 *   expire_at=<ms>  healthy_ms=<ms>  when it is deleted; when it became healthy last
 *   writer.<id>=<registration>[?] <lane>.<number>:<era> ...   a writer, "?": in doubt; the lanes,
 *                                 with eras that are not accepted yet, in which it has looked for
 *                                 its entries and appended what was missing */
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
    uint64_t era;    /* the accepted replication id of its node; 0: none yet */
};

struct log_folded {
    uint64_t lane_number; /* number of the stream that the position is in; 0: nothing was folded yet */
    struct log_position position;
    unsigned layers; /* number of layers that had begun there; 0: the filter was made without keys, and
                        nothing was folded yet */
};

/* The full mark of a generation that does not grow: it takes no keys from entries of the lane behind this
 * one. It counts only for that generation, and only in the current lane, under its current era. */
struct log_full_at {
    uint64_t generation; /* 0: there is no mark */
    struct log_lane lane;
    struct log_id id;
};

struct log_counted {
    struct log_lane lane;
    struct log_id id;
};

/* A shard that is missing in Redis. */
struct log_lost {
    uint64_t generation; /* other than the slot's generation: no shard is missing */
    unsigned layer;
    uint32_t shard;
    uint64_t since_ms; /* when the view began to say so; 0: it does not yet */
};

struct log_generation {
    struct generation shape;    /* number 0: there is no generation */
    struct generation next;     /* the same with one more layer, which is being made; number 0: none is */
    struct writer_token writer; /* who may write its shards; number 0: nobody yet */
    struct log_folded folded[LOG_LANES_MAX];
    struct log_full_at full[LOG_LANES_MAX];
    uint64_t filled;  /* number of layers whose shards may have bits of entries that no lane has: lanes may
                         have lost entries, or the view a layer. Else `folded` says which shards are empty */
    uint64_t keys;    /* number of keys that were new, up to log_view_counted() */
    uint64_t keys_of; /* the generation that they belong to; other than shape.number: keys is 0 */
    unsigned counted_lanes;
    struct log_counted counted[LOG_LANES_MAX];
    struct log_lost lost;
};

/* The position from which a build needs a lane. */
struct log_hold {
    uint64_t lane_number; /* 0: there is no hold */
    struct log_id from;
};

/* A writer said that in this stream of the lane, under this era, none of its entries is missing. */
struct log_said {
    unsigned lane;
    uint64_t number, era;
};

/* A process that appends. It is registered from before its first entry until its entries are folded. */
struct log_writer {
    uint8_t id[LOG_WRITER_BYTES];
    uint64_t registration; /* number of the registration; a later one of the same writer is higher */
    bool in_doubt;         /* it is being removed; if it still runs, it registers again (remove.h) */
    unsigned said_count;
    struct log_said said[LOG_LANES_MAX]; /* one for each lane, the latest */
};

/* A writer that is no longer registered. */
struct log_left {
    uint8_t id[LOG_WRITER_BYTES];
    uint64_t registration;
};

/* About 250 KB: not for the stack. */
struct log_view {
    uint64_t incarnation;
    uint64_t version; /* grows with every change, except of positions and of what writers say */
    uint64_t seed;    /* secret of the keys' hashes */
    uint64_t last_generation;
    uint32_t expansion;   /* growth factor of layers; 0: the filter does not grow */
    uint32_t shard_bytes; /* the most bytes of a shard of layers that are added */
    bool sourced;
    bool degraded; /* acknowledged keys may be missing: no key is "absent" */
    bool deleting;
    bool strays; /* there may be streams or shards of this incarnation that the view does not name */
    bool current;
    unsigned lane_count;
    struct log_lane lane[LOG_LANES_MAX];
    unsigned lane_node_count; /* 0: slots decide, or all lanes lie on the metadata node */
    char lane_node[LOG_LANES_MAX][NODE_NAME_MAX];
    struct log_hold hold[LOG_LANES_MAX];
    uint64_t near;                 /* number of the generation; 0: there is none */
    struct trusted eras;           /* of the nodes that hold shards */
    struct log_generation slot[2]; /* generation g is in slot g % 2 */
    unsigned writer_count;
    struct log_writer writer[LOG_WRITERS_MAX];
    unsigned left_count;
    struct log_left left[LOG_LEFT_MAX];
    unsigned history_count;
    uint64_t history[LOG_HISTORY_MAX]; /* the last one first */
    uint64_t expire_at_ms;             /* wall clock; 0: never */
    uint64_t healthy_ms;               /* when the filter became healthy last (wall clock, ms; 0: unknown) */
};

/* One field of the hash, as Redis returned it. */
struct view_field {
    const char *name;
    size_t name_length;
    const char *value;
    size_t value_length;
};

/* ERR_NOT_FOUND: there are no fields. ERR_PARSE: a field is damaged; the text names it. ERR_FORMAT: the
 * format is another one. On error *@out is undefined. Unknown fields are skipped. */
MUST_CHECK enum err log_view_parse(struct log_view *out, const struct view_field *fields, size_t count,
                                   struct error *e);

/* @v as a summary. */
void log_view_sum_up(const struct log_view *v, struct view *out);

/* Called for each field of a stored form. @value is valid during the call only. */
typedef void view_field_fn(void *arg, const char *name, const char *value);
/* Call @fn for each field of the stored form, except positions, keys, full marks, the next layer, losses,
 * holds, strays, filled layers and writers: only scripts store those. */
void log_view_format(const struct log_view *v, view_field_fn *fn, void *arg);

/* The lane of a key, out of @lanes. */
unsigned log_lane_of(struct key_hash h, unsigned lanes);

/* Where a lane of the view lies: its key, its address, its era. ERR_CONFIG: its node is not configured. */
MUST_CHECK enum err log_view_lane_at(const struct log_view *v, const struct names *names,
                                     const struct nodes *nodes, unsigned lane, struct lane *out,
                                     struct error *e);

/* True if @g takes no keys from entries of @lane behind g->full[lane].id. */
bool log_view_is_full(const struct log_view *v, const struct log_generation *g, unsigned lane);

/* True if the shards of @g hold all entries of @lane up to g->folded[lane]: that position is in the current
 * lane. */
bool log_view_is_folded(const struct log_view *v, const struct log_generation *g, unsigned lane);

/* The id in @lane up to which g->keys were counted: `folded` or behind it. */
struct log_id log_view_counted(const struct log_view *v, const struct log_generation *g, unsigned lane);

/* "<number> <random part, 16 hexadecimal digits>" */
void log_token_text(const struct writer_token *t, char out[LOG_TOKEN_TEXT_MAX]);
MUST_CHECK bool log_token_parse(struct writer_token *out, const char *text, size_t length);

/* Append "<number>:<era>"; all lanes, or ids (NULL: none), in the form of the view. */
void log_lane_text(struct log_lane lane, struct buffer *out);
void log_lanes_text(const struct log_lane *lane, unsigned count, struct buffer *out);
void log_eras_text(const struct trusted *eras, struct buffer *out);

/* "<generation> <layer>.<shard> <ms>" */
void log_lost_text(const struct log_lost *lost, char out[LOG_LOST_TEXT_MAX]);

/* True if @w said that none of its entries is missing in the stream @number of @lane, under @era. */
bool log_writer_has_said(const struct log_writer *w, unsigned lane, uint64_t number, uint64_t era);
/* The writer with that id; NULL: it is not registered. */
const struct log_writer *log_view_writer(const struct log_view *v, const uint8_t id[LOG_WRITER_BYTES]);

/* True if @w, from another view of the filter, is neither registered in @v nor among its writers that left.
 * So @v is from before the registration, or the writer left long ago. */
bool log_view_lacks(const struct log_view *v, const struct log_writer *w);

/* "writer.<32 hexadecimal digits>" */
void log_writer_name(const uint8_t id[LOG_WRITER_BYTES], char out[LOG_WRITER_NAME_MAX]);

/* "folded<slot>.<lane>", "full<slot>.<lane>" */
void log_folded_name(unsigned slot, unsigned lane, char out[LOG_FOLDED_NAME_MAX]);
#endif
