/* SPDX-License-Identifier: MIT */
#ifndef SHARD_UNSURE_H
#define SHARD_UNSURE_H
/* Shards of the generation in use that were lost and are made anew: they take adds, and do not hold all rows
 * yet, so nothing is absent in them. A field of the view; pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

enum {
    UNSURE_SHARDS_MAX = 1 << 16, /* of a generation: of one with more none is healed in place */
    UNSURE_TEXT_MAX = UNSURE_SHARDS_MAX / 4 + 128
};

/* All of it 0: none. Only the first layer has such shards. */
struct unsure {
    uint64_t generation; /* whose shards they are; 0: there are none */
    uint64_t epoch;      /* of the view with which the last of them were made anew, */
    uint64_t token;      /* under this fencing token: part of their first name */
    uint32_t shards;     /* that the layer has */
    uint32_t count;      /* that are unsure, > 0 */
    uint8_t bits[UNSURE_SHARDS_MAX / 8];
};

static inline bool unsure_contains(const struct unsure *u, uint64_t generation, unsigned layer,
                                   uint32_t shard)
{
    return u->generation == generation && layer == 0 && generation != 0 && shard < u->shards &&
           (u->bits[shard / 8] & 1u << shard % 8) != 0;
}

void unsure_clear(struct unsure *u);
/* None yet, of a layer of @shards <= UNSURE_SHARDS_MAX. */
void unsure_begin(struct unsure *u, uint64_t generation, uint32_t shards);
/* @shard < u->shards. */
void unsure_add(struct unsure *u, uint32_t shard);
bool unsure_same(const struct unsure *a, const struct unsure *b);

/* "<generation>:<epoch>:<token>:<shards>:<hexadecimal digits>", the first digit for shards 0 to 3, its lowest
 * bit for shard 0; "" where there are none. Returns the length. */
size_t unsure_text(const struct unsure *u, char out[UNSURE_TEXT_MAX]);
/* False: not such a text, no or too many shards, a bit beyond the last of them. *@out is then undefined. */
bool unsure_parse(struct unsure *out, const char *text, size_t length);

/* Append "shards 3,7-9 of 46" for people, cut after some @most ranges; @is: 1 for each of @shards that is
 * named. */
void unsure_describe(const uint8_t *is, uint32_t shards, unsigned most, struct buffer *out);
#endif
