/* SPDX-License-Identifier: MIT */
#include "migrate/verify/log_check.h"

#include <string.h>
#include "shard/filter/block.h"

enum { AT_ONCE = 500 /* blocks requested before the first reply is read */ };

static enum err check_some(struct builder *b, unsigned layer, const struct key_hash *hashes, size_t count,
                           uint8_t *found, struct error *e)
{
    const struct geometry *g = &b->shape.layers[layer].geometry;
    uint8_t block[BLOCK_BITS_MAX / 8];
    struct key_place place;
    enum err code = ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        hash_place(g, hash_mix(hashes[i], b->shape.seed), &place);
        code = fold_get(&b->fold, layer, place.shard, place.block, e);
    }
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        hash_place(g, hash_mix(hashes[i], b->shape.seed), &place);
        code = fold_got(&b->fold, layer, place.shard, place.block, block, e);
        found[i] |=
            code == ERR_OK && block_test(g, b->fold.tag, &place, block, g->block_bits / 8) == BLOCK_PRESENT;
    }
    b->anew |= fold_is_lost(code);
    if (code != ERR_OK)
        sync_client_forget(b->fold.redis);
    return code;
}

enum err log_check(struct builder *b, const struct key_hash *hashes, size_t count, uint8_t *found,
                   struct error *e)
{
    enum err code = ERR_OK;
    memset(found, 0, count);
    for (size_t first = 0; first < count && code == ERR_OK; first += AT_ONCE)
        for (unsigned layer = 0; layer < b->shape.layer_count && code == ERR_OK; layer++)
            code = check_some(b, layer, hashes + first, count - first < AT_ONCE ? count - first : AT_ONCE,
                              found + first, e);
    return code;
}
