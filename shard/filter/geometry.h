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
    SHARD_BYTES_MIN = 512,      /* one block of any size */
    SHARD_BYTES_MIN_LOG = 1024, /* and a header */
    SHARD_BYTES_MAX = (1 << 20) - 64
};

struct geometry {
    uint32_t shards;     /* number of shards, >= 1 */
    uint32_t blocks;     /* blocks in each shard, >= 1 */
    uint32_t block_bits; /* 512, 1024, 2048 or 4096, tag included */
    uint32_t hashes;     /* bits set by a key, 1 .. GEOMETRY_HASHES_MAX */
};

/* Plan a layer for @keys keys at false-positive rate @rate, in shards of at most @shard_bytes bytes, the
 * header of one block included. The block size is the smallest whose bits per key stay within 5 % of a
 * classic filter's, or the largest: within 15 % down to a rate of 1e-10, within 60 % down to 1e-20; the
 * number of shards is chosen so that a shard fills an allocation class of jemalloc, and its length is then
 * enlarged to fill it. The caller owns *@out; on error it is untouched. ERR_RANGE: @rate outside (0, 1),
 * below what the block formula can reach, @keys is 0, @shard_bytes out of bounds, or more than 2^31 shards
 * would be needed. */
MUST_CHECK enum err geometry_plan(struct geometry *out, uint64_t keys, double rate, uint32_t shard_bytes,
                                  struct error *e);

/* ERR_RANGE where a geometry read from outside is not one geometry_plan() could have made. */
MUST_CHECK enum err geometry_check(const struct geometry *g, struct error *e);

/* Expected false-positive rate with @keys keys added. In [0, 1]. */
double geometry_rate(const struct geometry *g, uint64_t keys);

/* The number of keys with which a share of @zeros (0 to 1) of the bits that keys may use is expected to be
 * unset: the inverse of zeros = (1 - (1 - (1 - 1/m)^k) / N)^n, as each of n keys draws one of N blocks, and k
 * of its m usable bits with replacement. Where no bit is unset, what half a bit would say. */
double geometry_keys(const struct geometry *g, double zeros);

/* Length in bytes of one shard, and of all of them. */
uint32_t geometry_shard_bytes(const struct geometry *g);
uint64_t geometry_bytes(const struct geometry *g);

/* What Redis allocates for all shards: jemalloc's class of each string plus the keyspace's overhead. Bytes.
 */
uint64_t geometry_memory(const struct geometry *g);

/* The same two of shards that begin with a header of one block. */
uint64_t geometry_bytes_log(const struct geometry *g);
uint64_t geometry_memory_log(const struct geometry *g);

/* Bits per key of a classic Bloom filter with ideal k: -ln(rate) / ln(2)^2. */
double geometry_classic_bits(double rate);
#endif
