/* SPDX-License-Identifier: MIT */
#ifndef SHARD_BLOCK_COMMAND_H
#define SHARD_BLOCK_COMMAND_H
/* The two commands on a block: GETRANGE of it (a check), BITFIELD with its tag and the key's bits (an add).
 * Formatting is by hand: there is one a key on the hot path. */
#include <hiredis/hiredis.h>
#include "shard/block.h"
#include "shard/names.h"

enum block_command_kind { BLOCK_READ, BLOCK_ADD };

struct block_command {
    size_t length; /* without the NUL at the end of the text */
    char text[KEY_NAME_MAX + 128 + GEOMETRY_HASHES_MAX * 48];
};

void block_command_format(struct block_command *c, enum block_command_kind kind, const struct names *names,
                          uint64_t epoch, uint64_t generation, unsigned layer, const struct geometry *g,
                          const struct key_place *place);

/* What the reply says: BLOCK_PRESENT where all bits are (an add: were) set, BLOCK_BAD for anything without
 * the tag: WRONGTYPE, a missing key, another length. BLOCK_REFUSED: any other error reply; the shard may be
 * whole. */
enum block_answer block_command_read(enum block_command_kind kind, const struct geometry *g, uint16_t tag,
                                     const struct key_place *place, const redisReply *reply);
#endif
