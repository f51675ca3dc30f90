/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_DUMP_H
#define SHARD_FILTER_DUMP_H
/* The form of a dump: a header, then chunks. A chunk is a run of whole shards whose tags are zeroed. Pure; no
 * I/O. Numbers are little-endian, lengths come before data, checksums are XXH3-64. Decoders must expect bytes
 * from anybody.
 *
 * A dump holds the first layers of one generation; its header names them. The dump's id is derived from
 * incarnation, generation, number of layers and chunk size. So any coordinator can tell whether a position
 * belongs to the filter that it serves, and no coordinator keeps state between two calls. All dumps of the
 * same layers have the same id, and so have their chunks: the header's nonce tells them apart. Positions have
 * a part of it, so of two dumps that are loaded at the same time no chunk is taken for one of the other. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/filter/view.h"

enum {
    DUMP_VERSION = 3, /* versions 1 and 2 hashed keys otherwise, and their shards had another form */
    DUMP_CHUNK_VERSION = 2,
    DUMP_CHUNK_BYTES =
        4 << 20, /* length of the chunks that are written: room for four of the largest shards */
    DUMP_CHUNK_LIMIT = 16 << 20, /* the most bytes of a chunk that is accepted */
    DUMP_CHUNK_HEADER = 48,
    DUMP_HEADER_LIMIT = 88 + GENERATION_LAYERS_MAX * 40,
    DUMP_EXPANSION_MAX = 32768
};

/* The most keys of one layer: the sum over all layers fits into an int64_t. */
#define DUMP_ITEMS_MAX ((uint64_t)INT64_MAX / GENERATION_LAYERS_MAX)

struct dump_layer {
    struct geometry geometry;
    uint64_t capacity;
    double error_rate;
    uint64_t items; /* keys that were added to the layer */
};

struct dump_header {
    uint64_t id;
    uint64_t nonce; /* random: no other dump has it */
    uint64_t seed;  /* the secret seed of hash_key() */
    uint64_t mix;   /* the generation's mix, for hash_mix() */
    uint64_t capacity;
    double error_rate;
    uint32_t expansion;   /* growth factor of layers; 0: the filter does not grow */
    uint32_t chunk_bytes; /* the most bytes of a chunk, its header included */
    uint32_t chunks;
    unsigned layer_count;
    struct dump_layer layers[GENERATION_LAYERS_MAX];
};

/* Shards [first, first + count) of one layer: the contents of one chunk. */
struct dump_run {
    unsigned layer;
    uint32_t first, count;
    uint32_t bytes; /* of the run's shards together */
};

/* The header of a dump of the first @layers layers of @v's current generation. The header's items and nonce
 * are 0, and so is its seed, which @v does not have. ERR_RANGE: the generation has fewer layers, or the dump
 * has more chunks than a position can number. */
MUST_CHECK enum err dump_header_of(struct dump_header *out, const struct view *v, unsigned layers,
                                   struct error *e);
void dump_header_encode(const struct dump_header *h, struct buffer *out);
/* ERR_PARSE: @bytes are no header, are damaged, or hold values out of bounds. ERR_FORMAT: an earlier version
 * wrote the dump. On error *@out is undefined. */
MUST_CHECK enum err dump_header_decode(struct dump_header *out, const void *bytes, size_t length,
                                       struct error *e);
/* True if @bytes begin with a header's magic. */
bool dump_is_header(const void *bytes, size_t length);
/* True if @bytes begin with a chunk's magic. */
bool dump_is_chunk(const void *bytes, size_t length);

/* The run of chunk @number (1 .. h->chunks). False: the dump has no such chunk. */
MUST_CHECK bool dump_run_at(const struct dump_header *h, uint32_t number, struct dump_run *out);
/* The number of the chunk that holds shard @shard of @layer. */
uint32_t dump_chunk_of(const struct dump_header *h, unsigned layer, uint32_t shard);

/* The position that asks for chunk @number, as clients see it: never 0, below 2^46. A client gets it together
 * with the chunk before (with the header, for chunk 1). */
uint64_t dump_position(const struct dump_header *h, uint32_t number);
/* The number of layers of the dump that @position belongs to, 1 or more; 0: @position is invalid. */
unsigned dump_position_layers(uint64_t position);
/* Sets h->nonce to the part of it that @position has, which is all that positions of @h have. */
void dump_position_nonce(struct dump_header *h, uint64_t position);
/* The chunk that @position asks for: 1 .. h->chunks + 1. False: @position does not belong to this dump. */
MUST_CHECK bool dump_position_chunk(const struct dump_header *h, uint64_t position, uint32_t *number);

/* A decoded chunk. */
struct dump_chunk {
    uint64_t id;
    uint32_t number;
    struct dump_run run;
    const uint8_t *shards; /* run.bytes bytes, inside the bytes that were decoded */
};

/* Write the header of chunk @number to @chunk, which has DUMP_CHUNK_HEADER bytes of room and then the shards:
 * run->bytes bytes. */
void dump_chunk_encode(const struct dump_header *h, uint32_t number, const struct dump_run *run,
                       uint8_t *chunk);
/* ERR_PARSE: @bytes are no chunk, or are damaged. The caller compares the chunk with the dump's header. */
MUST_CHECK enum err dump_chunk_decode(struct dump_chunk *out, const void *bytes, size_t length,
                                      struct error *e);

/* Zero the tag of every block of one shard. False: a block does not have the tag @tag. */
MUST_CHECK bool dump_tags_strip(const struct geometry *g, uint16_t tag, uint8_t *shard);
/* Write the tag @tag into every block. False: a block's tag is not zero. */
MUST_CHECK bool dump_tags_put(const struct geometry *g, uint16_t tag, uint8_t *shard);
#endif
