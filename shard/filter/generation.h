/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_GENERATION_H
#define SHARD_FILTER_GENERATION_H
/* A generation: one complete build of a filter, and its text form in the view. */
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
    uint64_t capacity; /* keys it was planned for */
    double error_rate; /* at that capacity */
    uint64_t token;    /* under which its shards were made */
};

struct generation {
    uint64_t number; /* 0: this slot is empty */
    uint64_t seed;   /* secret of the hash */
    bool built;      /* false: holds only what was added since it was made, so it cannot say "no" */
    uint64_t capacity;
    double error_rate;
    unsigned layer_count;
    struct layer layers[GENERATION_LAYERS_MAX];
    unsigned node_count;
    char nodes[GENERATION_NODES_MAX][NODE_NAME_MAX]; /* host:port; shard i lies on nodes[i % node_count] */
};

/* The text form, NUL-terminated: "number=1 seed=<hex> built=1 capacity=.. rate=.. nodes=a:1,b:2
 * layers=<l>;<l>", with <l> = shards:blocks:block_bits:hashes:capacity:rate:token. Returns the length. Needs
 * no memory, so it cannot fail. */
size_t generation_text(const struct generation *g, char out[GENERATION_TEXT_MAX]);

/* ERR_PARSE: not the text form, or values out of bounds. *@out is then
 * undefined. Names of nodes are any printable characters but blank, comma and semicolon; at least one node
 * and one layer are needed; rates lie between 0 and 1. */
MUST_CHECK enum err generation_parse(struct generation *out, const char *text, size_t length,
                                     struct error *e);

/* Shards over all layers; bytes of all layers' strings; expected false-positive rate when @keys keys are
 * spread over the layers in the order in which they fill. */
uint64_t generation_shards(const struct generation *g);
uint64_t generation_bytes(const struct generation *g);
double generation_rate(const struct generation *g, uint64_t keys);
#endif
