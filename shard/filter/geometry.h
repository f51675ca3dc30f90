/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_GEOMETRY_H
#define SHARD_FILTER_GEOMETRY_H
/* Geometry: how many shards, blocks and bits a layer of n keys at false-positive rate p needs. Pure; no I/O.
 *
 * A key sets k bits inside one block of B bits, of which the first BLOCK_TAG_BITS are the tag. With n keys
 * over N blocks the load j of a block is Poisson with mean n/N, so the layer's false-positive rate is sum
 * over j of Poisson(j; n/N) * E[(bits set by j keys / (B - 16))^k]. Source: Putze, Sanders, Singler, "Cache-,
 * Hash- and Space-Efficient Bloom Filters", 2007, section 3. */
#include <stdint.h>
#include "base/error.h"

enum {
    BLOCK_TAG_BITS = 16,
    BLOCK_BITS_MIN = 512,
    BLOCK_BITS_MAX = 4096,
    GEOMETRY_HASHES_MAX = 40,
    SHARD_BYTES_DEFAULT = (1 << 20) - 64,
    SHARD_BYTES_MIN = 1024, /* one block and a header of one block, of any size */
    SHARD_BYTES_MAX = (1 << 20) - 64
};

struct geometry {
    uint32_t shards;     /* number of shards, >= 1 */
    uint32_t blocks;     /* blocks in each shard, >= 1 */
    uint32_t block_bits; /* 512, 1024, 2048 or 4096, tag included */
    uint32_t hashes;     /* bits set by a key, 1 .. GEOMETRY_HASHES_MAX */
};

/* Plan a layer for @keys keys at false-positive rate @rate, in shards of at most @shard_bytes bytes, the
 * header of one block included. The caller owns *@out; on error it is untouched. ERR_RANGE: @rate is outside
 * (0, 1) or below what blocks can reach, @keys is 0, @shard_bytes is out of bounds, or more than 2^31 shards
 * would be needed.
 *
 * The block size is the smallest whose bits per key stay within 5 % of a classic filter's, or else the
 * largest: within 15 % down to a rate of 1e-10, within 60 % down to 1e-20. The number of shards is chosen so
 * that a shard fills an allocation class of jemalloc; the shard's length is then enlarged to fill it. */
MUST_CHECK enum err geometry_plan(struct geometry *out, uint64_t keys, double rate, uint32_t shard_bytes,
                                  struct error *e);

/* ERR_RANGE: geometry_plan() could not have made this geometry. For geometries from outside. */
MUST_CHECK enum err geometry_check(const struct geometry *g, struct error *e);

/* Expected false-positive rate, in [0, 1], once @keys keys were added. */
double geometry_rate(const struct geometry *g, uint64_t keys);

/* The number of keys after which a share @zeros (0 to 1) of the usable bits is expected to be unset. It is
 * the inverse of zeros = (1 - (1 - (1 - 1/m)^k) / N)^n: each of n keys draws one of N blocks, and k of its m
 * usable bits with replacement. If no bit is unset, the result is that of half an unset bit. */
double geometry_keys(const struct geometry *g, double zeros);

/* Length in bytes of one shard, and of all of them. */
uint32_t geometry_shard_bytes(const struct geometry *g);
uint64_t geometry_bytes(const struct geometry *g);

/* Bytes that Redis allocates for all shards: jemalloc's class of each string, and the keyspace's overhead. */
uint64_t geometry_memory(const struct geometry *g);

/* As geometry_bytes() and geometry_memory(), for shards that begin with a header of one block. */
uint64_t geometry_bytes_log(const struct geometry *g);
uint64_t geometry_memory_log(const struct geometry *g);

/* Bits per key of a classic Bloom filter with ideal k: -ln(rate) / ln(2)^2. */
double geometry_classic_bits(double rate);
#endif
