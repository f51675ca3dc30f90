/* SPDX-License-Identifier: MIT */
#include "shard/resident/header.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>
#include "shard/filter/slots.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char magic[4] = {'T', 'B', 'S', 'H'};

_Static_assert(HEADER_BYTES <= BLOCK_BITS_MIN / 8, "a header fits into the smallest block");

/* --- bytes, at a position that moves on --- */

static void put(uint8_t **at, uint64_t value, size_t bytes)
{
    uint64_t big = htobe64(value);
    memcpy(*at, (const uint8_t *)&big + 8 - bytes, bytes);
    *at += bytes;
}

static uint64_t get(const uint8_t **at, size_t bytes)
{
    uint64_t big = 0;
    memcpy((uint8_t *)&big + 8 - bytes, *at, bytes);
    *at += bytes;
    return be64toh(big);
}

/* --- form --- */

struct header header_of_geometry(const struct geometry *g, uint64_t incarnation, uint64_t generation,
                                 uint16_t tag, unsigned layer, uint32_t shard)
{
    return (struct header){.tag = tag,
                           .incarnation = incarnation,
                           .generation = generation,
                           .layer = layer,
                           .shard = shard,
                           .blocks = g->blocks,
                           .block_bits = (uint16_t)g->block_bits,
                           .hashes = (uint16_t)g->hashes};
}

struct header header_of_shard(const struct generation *g, uint64_t incarnation, uint16_t tag, unsigned layer,
                              uint32_t shard)
{
    const struct layer *l = &g->layers[layer];
    struct header h = header_of_geometry(&l->geometry, incarnation, g->number, tag, layer, shard);
    h.writer.number = l->token;
    return h;
}

uint32_t header_bytes(const struct geometry *g)
{
    return g->block_bits / 8;
}

uint32_t header_shard_bytes(const struct geometry *g)
{
    return header_bytes(g) + geometry_shard_bytes(g);
}

void header_encode(const struct header *h, uint8_t *out)
{
    uint8_t *at = out;
    memset(out, 0, h->block_bits / 8);
    memcpy(at, magic, sizeof(magic));
    at += sizeof(magic);
    put(&at, HEADER_FORMAT, 2);
    put(&at, h->tag, 2);
    put(&at, h->incarnation, 8);
    put(&at, h->generation, 8);
    put(&at, h->writer.number, 8);
    put(&at, h->writer.random, 8);
    put(&at, h->layer, 4);
    put(&at, h->shard, 4);
    put(&at, h->blocks, 4);
    put(&at, h->block_bits, 2);
    put(&at, h->hashes, 2);
    put(&at, XXH3_64bits(out, (size_t)(at - out)), 8);
}

enum err header_decode(struct header *out, const uint8_t *bytes, size_t length, const char *name,
                       struct error *e)
{
    if (length == 0)
        return error_set(e, ERR_LOST, "shard %s is missing", name);
    if (length < HEADER_BYTES)
        return error_set(e, ERR_LOST, "shard %s has %zu bytes, fewer than its header", name, length);
    if (memcmp(bytes, magic, sizeof(magic)) != 0)
        return error_set(e, ERR_LOST, "shard %s does not begin with the header of a shard", name);
    const uint8_t *at = bytes + sizeof(magic);
    unsigned format = (unsigned)get(&at, 2);
    if (format > HEADER_FORMAT)
        return error_set(e, ERR_FORMAT,
                         "shard %s has format %u; this version reads formats up to %d: upgrade it", name,
                         format, HEADER_FORMAT);
    struct header h = {.tag = (uint16_t)get(&at, 2), .incarnation = get(&at, 8), .generation = get(&at, 8)};
    h.writer.number = get(&at, 8);
    h.writer.random = get(&at, 8);
    h.layer = (uint32_t)get(&at, 4);
    h.shard = (uint32_t)get(&at, 4);
    h.blocks = (uint32_t)get(&at, 4);
    h.block_bits = (uint16_t)get(&at, 2);
    h.hashes = (uint16_t)get(&at, 2);
    uint64_t sum = XXH3_64bits(bytes, (size_t)(at - bytes));
    if (format == 0 || get(&at, 8) != sum)
        return error_set(e, ERR_LOST, "the header of shard %s is damaged", name);
    *out = h;
    return ERR_OK;
}

int writer_compare(const struct writer_token *a, const struct writer_token *b)
{
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->random < b->random ? -1 : a->random > b->random;
}

enum err header_check(const struct header *found, const struct header *expected, const char *name,
                      struct error *e)
{
    const struct header *f = found, *x = expected;
    if (f->incarnation != x->incarnation || f->generation != x->generation || f->tag != x->tag)
        return error_set(e, ERR_LOST,
                         "shard %s belongs to generation %" PRIu64 " of incarnation %016" PRIx64
                         ", not to generation %" PRIu64 " of incarnation %016" PRIx64,
                         name, f->generation, f->incarnation, x->generation, x->incarnation);
    if (f->layer != x->layer || f->shard != x->shard)
        return error_set(e, ERR_LOST, "shard %s holds shard %" PRIu32 " of layer %" PRIu32, name, f->shard,
                         f->layer);
    if (f->blocks != x->blocks || f->block_bits != x->block_bits || f->hashes != x->hashes)
        return error_set(e, ERR_LOST,
                         "shard %s has %" PRIu32 " blocks of %u bits for %u hashes; the view says %" PRIu32
                         " blocks of %u bits for %u hashes",
                         name, f->blocks, f->block_bits, f->hashes, x->blocks, x->block_bits, x->hashes);
    if (writer_compare(&f->writer, &x->writer) > 0)
        return error_set(e, ERR_FENCED,
                         "shard %s was written under token %" PRIu64 ", later than the view's %" PRIu64
                         ": load the view again",
                         name, f->writer.number, x->writer.number);
    return ERR_OK;
}

enum err header_check_made(const struct header *found, uint64_t made, const char *name, struct error *e)
{
    return found->writer.number >= made
               ? ERR_OK
               : error_set(e, ERR_LOST,
                           "shard %s was made under token %" PRIu64 ", and those of its layer under %" PRIu64,
                           name, found->writer.number, made);
}

enum err header_judge(struct header *out, const uint8_t *bytes, size_t length, const struct header *expected,
                      uint64_t made, const char *name, struct error *e)
{
    enum err code = header_decode(out, bytes, length, name, e);
    if (code == ERR_OK)
        code = header_check(out, expected, name, e);
    return code == ERR_OK ? header_check_made(out, made, name, e) : code;
}

enum err header_refused(const char *name, const char *text, struct error *e)
{
    if (strncmp(text, "WRONGTYPE", strlen("WRONGTYPE")) == 0)
        return error_set(e, ERR_WRONG_TYPE, "shard %s is no string: delete or rename the foreign key", name);
    return error_set(e, slots_error_passes(text) ? ERR_UNREACHABLE : ERR_REFUSED, "shard %s: %s", name, text);
}
