/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_GENERATION_H
#define SHARD_FILTER_GENERATION_H
/* A generation: one complete set of a filter's shards, and its text form in the view. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/geometry.h"

enum {
    GENERATION_LAYERS_MAX = 24,
    GENERATION_NODES_MAX = 64,
    NODE_NAME_MAX = 96,
    GENERATION_TEXT_MAX = 256 + GENERATION_NODES_MAX * NODE_NAME_MAX + GENERATION_LAYERS_MAX * 160
};

struct layer {
    struct geometry geometry;
    uint64_t capacity; /* keys that the layer was planned for */
    double error_rate; /* false-positive rate at that capacity */
    uint64_t token;    /* the token under which the layer's shards were made */
};

struct generation {
    uint64_t number; /* 0: this slot is empty */
    uint64_t seed;   /* of a filter: secret of the hash; of a log's generation: its mix */
    bool built;      /* false: it holds only keys added since it was made, so it cannot say "absent" */
    uint64_t capacity;
    double error_rate;
    unsigned layer_count;
    struct layer layers[GENERATION_LAYERS_MAX];
    unsigned node_count;
    char nodes[GENERATION_NODES_MAX][NODE_NAME_MAX]; /* host:port; shard i lies on nodes[i % node_count] */
};

/* Write the text form, NUL-terminated: "number=1 seed=<hex> built=1 capacity=.. rate=.. nodes=a:1,b:2
 * layers=<l>;<l>", with <l> = shards:blocks:block_bits:hashes:capacity:rate:token. Returns the length.
 * Allocates nothing, so it cannot fail. */
size_t generation_text(const struct generation *g, char out[GENERATION_TEXT_MAX]);

/* ERR_PARSE: @text is not the text form, or a value is out of bounds; *@out is then undefined. A node's name
 * consists of printable characters except blank, comma and semicolon. At least one node and one layer are
 * needed. Rates lie between 0 and 1. */
MUST_CHECK enum err generation_parse(struct generation *out, const char *text, size_t length,
                                     struct error *e);

/* The least number of a token under which shards of all layers can be made: later than the tokens that the
 * layers were made under. The counter of tokens alone does not see to that, as it goes back with its node. */
uint64_t generation_next_token(const struct generation *g);

/* Number of shards of all layers; bytes of all layers' strings; expected false-positive rate when @keys keys
 * fill the layers in order. */
uint64_t generation_shards(const struct generation *g);
uint64_t generation_bytes(const struct generation *g);
double generation_rate(const struct generation *g, uint64_t keys);
#endif
