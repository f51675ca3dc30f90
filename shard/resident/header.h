/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_HEADER_H
#define SHARD_RESIDENT_HEADER_H
/* The first block of a shard in Redis: it says which shard of which generation this is, and who may write it.
 * The shard's blocks follow, each with its tag (block.h). The header is as long as a block, so blocks are
 * aligned.
 *
 * The form is HEADER_BYTES bytes, then zeros: magic, format (2 bytes), tag (2), incarnation (8), generation
 * (8), writer's number (8) and random part (8), layer (4), shard (4), blocks (4), bits of a block (2), hashes
 * (2), checksum (8: XXH3 of the bytes before it). Numbers are big-endian, so that writers compare as bytes,
 * in scripts as here. */
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"

enum {
    HEADER_FORMAT = 1,
    HEADER_BYTES = 64,
    HEADER_WRITER_AT = 24,
    HEADER_WRITER_BYTES = 16,
    HEADER_SUM_AT = 56
};

/* Who may write a generation's shards. The number comes from the filter's tokens and only goes up. The random
 * part tells two writers apart if a metadata node that lost its data gave both the same number. */
struct writer_token {
    uint64_t number;
    uint64_t random;
};

struct header {
    uint16_t tag;
    uint64_t incarnation;
    uint64_t generation;
    struct writer_token writer;
    uint32_t layer;
    uint32_t shard;
    uint32_t blocks;
    uint16_t block_bits;
    uint16_t hashes;
};

/* The header of a shard with geometry @g, without its writer. */
struct header header_of_geometry(const struct geometry *g, uint64_t incarnation, uint64_t generation,
                                 uint16_t tag, unsigned layer, uint32_t shard);
/* The header of shard @shard of layer @layer of @g, as the view says: its writer's number is the token under
 * which the shards of the layer were made. */
struct header header_of_shard(const struct generation *g, uint64_t incarnation, uint16_t tag, unsigned layer,
                              uint32_t shard);

/* Bytes of a header, and of a whole shard in Redis, with geometry @g. */
uint32_t header_bytes(const struct geometry *g);
uint32_t header_shard_bytes(const struct geometry *g);

/* Write @h to @out: h->block_bits / 8 bytes. */
void header_encode(const struct header *h, uint8_t *out);

/* Read the first @length bytes of the shard; @length may be anything. @name is the shard's name in error
 * texts. ERR_LOST: this is no header; ERR_FORMAT: a later version wrote it. On error *@out is untouched. */
MUST_CHECK enum err header_decode(struct header *out, const uint8_t *bytes, size_t length, const char *name,
                                  struct error *e);

/* Compare the header of the shard @name with what the view says. ERR_LOST: it belongs to something else.
 * ERR_FENCED: its writer is later than the view's, so the view is not the latest. */
MUST_CHECK enum err header_check(const struct header *found, const struct header *expected, const char *name,
                                 struct error *e);

/* ERR_LOST: the header's writer is earlier than @made, the token under which the shards of its layer were
 * made. So an attempt that was given up made the shard again, empty, after the real one was lost. */
MUST_CHECK enum err header_check_made(const struct header *found, uint64_t made, const char *name,
                                      struct error *e);
/* All three, one after the other. */
MUST_CHECK enum err header_judge(struct header *out, const uint8_t *bytes, size_t length,
                                 const struct header *expected, uint64_t made, const char *name,
                                 struct error *e);

/* The error for the error reply @text to a command on the shard @name. ERR_WRONG_TYPE; ERR_UNREACHABLE: it
 * passes; ERR_REFUSED. */
enum err header_refused(const char *name, const char *text, struct error *e);

/* Below, equal to or above 0, as memcmp() of their bytes. */
int writer_compare(const struct writer_token *a, const struct writer_token *b);
#endif
