/* SPDX-License-Identifier: MIT */
#include "migrate/verify/log_check.h"

#include <string.h>
#include "shard/filter/block.h"

enum { AT_ONCE = 500 /* blocks requested before the first reply is read */ };

/* The header of a key's shard and the key's place. */
static struct header find(const struct builder *b, unsigned layer, struct key_hash h, struct key_place *place,
                          unsigned *where)
{
    hash_place(&b->shape.layers[layer].geometry, hash_mix(h, b->shape.seed), place);
    *where = placement_where(&b->placement, layer, place->shard);
    return builder_header(b, layer, place->shard);
}

static enum err check_some(struct builder *b, unsigned layer, const struct key_hash *hashes, size_t count,
                           uint8_t *found, struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8];
    struct key_place place;
    unsigned where;
    enum err code = ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        struct header h = find(b, layer, hashes[i], &place, &where);
        code = fold_get(&b->fold, where, &h, place.block, e);
    }
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        struct header h = find(b, layer, hashes[i], &place, &where);
        code = fold_got(&b->fold, where, &h, place.block, block, e);
        found[i] |= code == ERR_OK && block_test(&b->shape.layers[layer].geometry, b->tag, &place, block,
                                                 h.block_bits / 8U) == BLOCK_PRESENT;
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
