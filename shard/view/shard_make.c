/* SPDX-License-Identifier: MIT */
#include "shard/view/shard_make.h"

extern const char embedded_shard_make_missing[];

enum err shard_make_send(struct fold *f, unsigned where, const struct header *h, struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8];
    const uint8_t tag[2] = {(uint8_t)(h->tag >> 8), (uint8_t)h->tag};
    struct header mine = *h;
    struct key_name key;
    mine.writer = f->token;
    header_encode(&mine, block);
    names_log_shard(f->names, (struct shard_id){h->generation, h->layer, h->shard}, &key);
    script_begin(&f->call, embedded_shard_make_missing);
    script_key(&f->call, &key);
    script_bytes(&f->call, block, h->block_bits / 8);
    script_bytes(&f->call, tag, sizeof(tag));
    script_number(&f->call, h->blocks);
    return script_send(&f->call, f->link, where, e);
}

enum err shard_make_reply(struct fold *f, unsigned where, bool *made, struct error *e)
{
    long long result = 0;
    enum err code = script_reply(f->link, where, &result, e);
    *made = result == 1;
    return code;
}
