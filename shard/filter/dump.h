/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_DUMP_H
#define SHARD_FILTER_DUMP_H
/* The form of a dump: a header, then chunks, each a run of whole shards whose tags are blanked. Pure; no I/O.
 * Numbers are little-endian, lengths come first, checksums are XXH3-64. What is decoded here may come from
 * anybody.
 *
 * A dump is of the first layers of one generation: those that its header names. Its id is derived from
 * incarnation, generation, number of layers and size of chunks, so that any coordinator can tell whether a
 * position belongs to what it serves, and none keeps a state between two calls. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/filter/view.h"

enum {
    DUMP_VERSION = 3, /* what keys are hashed to, and what a shard is, were other things in 1 and 2 */
    DUMP_CHUNK_VERSION = 2,
    DUMP_CHUNK_BYTES = 4 << 20,  /* of the chunks that are made: four of the largest shards */
    DUMP_CHUNK_LIMIT = 16 << 20, /* of those that are accepted */
    DUMP_CHUNK_HEADER = 48,
    DUMP_HEADER_LIMIT = 80 + GENERATION_LAYERS_MAX * 40,
    DUMP_EXPANSION_MAX = 32768
};

/* Of one layer, so that the sum over all can be told and counted on. */
#define DUMP_ITEMS_MAX ((uint64_t)INT64_MAX / GENERATION_LAYERS_MAX)

struct dump_layer {
    struct geometry geometry;
    uint64_t capacity;
    double error_rate;
    uint64_t items; /* keys that were counted into it */
};

struct dump_header {
    uint64_t id;
    uint64_t seed; /* secret of the hash */
    uint64_t mix;  /* of the generation (hash_mix()) */
    uint64_t capacity;
    double error_rate;
    uint32_t expansion;   /* 0: non-scaling */
    uint32_t chunk_bytes; /* the most that a chunk has, with its header */
    uint32_t chunks;
    unsigned layer_count;
    struct dump_layer layers[GENERATION_LAYERS_MAX];
};

/* Shards [first, first + count) of one layer: what one chunk holds. */
struct dump_run {
    unsigned layer;
    uint32_t first, count;
    uint32_t bytes; /* of all of them */
};

/* The header of a dump of the first @layers layers of @v's generation in use; items are 0, and of a filter
 * that is a log the seed, which @v has not. ERR_RANGE: there
 * are not so many layers, or more chunks than a position can say. */
MUST_CHECK enum err dump_header_of(struct dump_header *out, const struct view *v, unsigned layers,
                                   struct error *e);
void dump_header_encode(const struct dump_header *h, struct buffer *out);
/* ERR_PARSE: no header, damaged, or of values that no header has. ERR_FORMAT: of an earlier version. *@out is
 * then undefined. */
MUST_CHECK enum err dump_header_decode(struct dump_header *out, const void *bytes, size_t length,
                                       struct error *e);
/* True where @bytes begin as a header does. */
bool dump_is_header(const void *bytes, size_t length);
/* The same of a chunk. */
bool dump_is_chunk(const void *bytes, size_t length);

/* What chunk @number (1 .. h->chunks) holds. False: there is no such chunk. */
MUST_CHECK bool dump_run_at(const struct dump_header *h, uint32_t number, struct dump_run *out);
/* The number of the chunk with shard @shard of @layer. */
uint32_t dump_chunk_of(const struct dump_header *h, unsigned layer, uint32_t shard);

/* Positions, as clients see them: never 0, below 2^31. The one that asks for chunk
 * @number is what is given with the chunk before it (with the header for 1). */
uint64_t dump_position(const struct dump_header *h, uint32_t number);
/* The number of layers that @position is about: 1 or more; 0: it is no position. */
unsigned dump_position_layers(uint64_t position);
/* The chunk that @position asks for: 1 .. h->chunks + 1. False: it is not one of this dump. */
MUST_CHECK bool dump_position_chunk(const struct dump_header *h, uint64_t position, uint32_t *number);

/* What a chunk says of itself. */
struct dump_chunk {
    uint64_t id;
    uint32_t number;
    struct dump_run run;
    const uint8_t *shards; /* run.bytes; in the bytes that were decoded */
};

/* Write the header of chunk @number before its shards: @chunk has DUMP_CHUNK_HEADER bytes of room, then
 * run->bytes. */
void dump_chunk_encode(const struct dump_header *h, uint32_t number, const struct dump_run *run,
                       uint8_t *chunk);
/* ERR_PARSE: no chunk, or damaged. Whether it is one of a certain dump is the caller's to see. */
MUST_CHECK enum err dump_chunk_decode(struct dump_chunk *out, const void *bytes, size_t length,
                                      struct error *e);

/* Take the tag out of every block of one shard. False: a block does not have it. */
MUST_CHECK bool dump_tags_strip(const struct geometry *g, uint16_t tag, uint8_t *shard);
/* Put it in again. False: something is where tags go. */
MUST_CHECK bool dump_tags_put(const struct geometry *g, uint16_t tag, uint8_t *shard);
#endif
