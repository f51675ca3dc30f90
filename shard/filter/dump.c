/* SPDX-License-Identifier: MIT */
#include "shard/filter/dump.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    MAGIC_BYTES = 8,
    HEADER_FIXED = 64,
    LAYER_BYTES = 40,
    AFTER_LAYERS = 16, /* the generation's mix, and the nonce */
    CHECKSUM_BYTES = 8,
    LAYERS_BITS = 5,
};

/* A position consists of chunk number, number of layers, a part of the id, and a part of the nonce. It stays
 * below 2^46, since Lua clients write numbers of more than 14 digits as 1e+15. CHUNKS_MAX also bounds what is
 * kept for each chunk, whatever a header says. */
enum {
    NUMBER_BITS = 16,
    ID_BITS = 10,
    NONCE_BITS = 15,
    NONCE_AT = NUMBER_BITS + LAYERS_BITS + ID_BITS,
    CHUNKS_MAX = (1 << 16) - 2
};

_Static_assert(GENERATION_LAYERS_MAX < 1 << LAYERS_BITS, "the number of layers has its bits");
_Static_assert(HEADER_FIXED + GENERATION_LAYERS_MAX * LAYER_BYTES + AFTER_LAYERS + CHECKSUM_BYTES ==
                   DUMP_HEADER_LIMIT,
               "the largest header");
_Static_assert(DUMP_CHUNK_HEADER + SHARD_BYTES_MAX <= DUMP_CHUNK_BYTES, "a chunk holds whole shards");

static const char header_magic[MAGIC_BYTES] = {'T', 'B', 'L', 'M', 'D', 'U', 'M', 'P'};
static const char chunk_magic[MAGIC_BYTES] = {'T', 'B', 'L', 'M', 'C', 'H', 'N', 'K'};

/* --- numbers --- */

static uint8_t *put_u32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
    return to + sizeof(value);
}

static uint8_t *put_u64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof(value));
    return to + sizeof(value);
}

static uint8_t *put_double(uint8_t *to, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return put_u64(to, bits);
}

static uint32_t get_u32(const uint8_t **from)
{
    uint32_t value;
    memcpy(&value, *from, sizeof(value));
    *from += sizeof(value);
    return le32toh(value);
}

static uint64_t get_u64(const uint8_t **from)
{
    uint64_t value;
    memcpy(&value, *from, sizeof(value));
    *from += sizeof(value);
    return le64toh(value);
}

static double get_double(const uint8_t **from)
{
    uint64_t bits = get_u64(from);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* --- runs --- */

static uint32_t shards_in_chunk(const struct dump_header *h, unsigned layer)
{
    return (h->chunk_bytes - DUMP_CHUNK_HEADER) / geometry_shard_bytes(&h->layers[layer].geometry);
}

static uint32_t chunks_of_layer(const struct dump_header *h, unsigned layer)
{
    uint32_t shards = h->layers[layer].geometry.shards, each = shards_in_chunk(h, layer);
    return shards / each + (shards % each != 0);
}

static uint64_t count_chunks(const struct dump_header *h)
{
    uint64_t chunks = 0;
    for (unsigned i = 0; i < h->layer_count; i++)
        chunks += chunks_of_layer(h, i);
    return chunks;
}

bool dump_run_at(const struct dump_header *h, uint32_t number, struct dump_run *out)
{
    if (number == 0 || number > h->chunks)
        return false;
    uint32_t index = number - 1;
    unsigned layer = 0;
    while (index >= chunks_of_layer(h, layer))
        index -= chunks_of_layer(h, layer++);
    const struct geometry *g = &h->layers[layer].geometry;
    uint32_t each = shards_in_chunk(h, layer), first = index * each;
    uint32_t count = g->shards - first < each ? g->shards - first : each;
    *out = (struct dump_run){
        .layer = layer, .first = first, .count = count, .bytes = count * geometry_shard_bytes(g)};
    return true;
}

uint32_t dump_chunk_of(const struct dump_header *h, unsigned layer, uint32_t shard)
{
    uint32_t number = 1 + shard / shards_in_chunk(h, layer);
    for (unsigned i = 0; i < layer; i++)
        number += chunks_of_layer(h, i);
    return number;
}

/* --- positions --- */

uint64_t dump_position(const struct dump_header *h, uint32_t number)
{
    uint64_t id_part = h->id & ((UINT64_C(1) << ID_BITS) - 1);
    uint64_t nonce_part = h->nonce & ((UINT64_C(1) << NONCE_BITS) - 1);
    return nonce_part << NONCE_AT | (id_part << LAYERS_BITS | h->layer_count) << NUMBER_BITS | number;
}

void dump_position_nonce(struct dump_header *h, uint64_t position)
{
    h->nonce = position >> NONCE_AT;
}

unsigned dump_position_layers(uint64_t position)
{
    unsigned layers = (unsigned)(position >> NUMBER_BITS) & ((1u << LAYERS_BITS) - 1);
    return layers <= GENERATION_LAYERS_MAX ? layers : 0;
}

bool dump_position_chunk(const struct dump_header *h, uint64_t position, uint32_t *number)
{
    *number = (uint32_t)(position & ((1u << NUMBER_BITS) - 1));
    return *number >= 1 && *number <= h->chunks + 1 && position == dump_position(h, *number);
}

/* --- the header --- */

/* Positions carry the id's low bits: the sum of the generation's number and the incarnation, whose low bits
 * are random. So a position from before a rebuild is always noticed, and one from before the filter was
 * deleted and made again in 1023 of 1024 cases. Chunks carry the whole id, which tells apart what a position
 * cannot. */
static uint64_t make_id(uint64_t incarnation, uint64_t generation, unsigned layers, uint32_t chunk_bytes)
{
    uint8_t what[16];
    uint64_t part = (UINT64_C(1) << ID_BITS) - 1;
    (void)put_u32(put_u32(put_u64(what, generation), layers), chunk_bytes);
    return (XXH3_64bits_withSeed(what, sizeof(what), incarnation) & ~part) |
           ((generation + incarnation) & part);
}

enum err dump_header_of(struct dump_header *out, const struct view *v, unsigned layers, struct error *e)
{
    const struct generation *g = view_current(v);
    if (layers == 0 || layers > g->layer_count)
        return error_set(e, ERR_RANGE, "the filter has %u layers, not %u", g->layer_count, layers);
    *out = (struct dump_header){.id = make_id(v->incarnation, g->number, layers, DUMP_CHUNK_BYTES),
                                .mix = g->seed,
                                .capacity = g->capacity,
                                .error_rate = g->error_rate,
                                .expansion = v->expansion,
                                .chunk_bytes = DUMP_CHUNK_BYTES,
                                .layer_count = layers};
    for (unsigned i = 0; i < layers; i++)
        out->layers[i] = (struct dump_layer){.geometry = g->layers[i].geometry,
                                             .capacity = g->layers[i].capacity,
                                             .error_rate = g->layers[i].error_rate};
    uint64_t chunks = count_chunks(out);
    if (chunks > CHUNKS_MAX)
        return error_set(e, ERR_RANGE,
                         "the filter is too large to be dumped: %" PRIu64
                         " chunks, where %d can be told apart",
                         chunks, CHUNKS_MAX);
    out->chunks = (uint32_t)chunks;
    return ERR_OK;
}

static size_t header_length(unsigned layers)
{
    return HEADER_FIXED + (size_t)layers * LAYER_BYTES + AFTER_LAYERS + CHECKSUM_BYTES;
}

void dump_header_encode(const struct dump_header *h, struct buffer *out)
{
    uint8_t bytes[DUMP_HEADER_LIMIT];
    size_t length = header_length(h->layer_count);
    memcpy(bytes, header_magic, MAGIC_BYTES);
    uint8_t *to = put_u32(bytes + MAGIC_BYTES, DUMP_VERSION);
    to = put_u32(to, (uint32_t)length);
    to = put_u64(to, h->id);
    to = put_u64(to, h->seed);
    to = put_u64(to, h->capacity);
    to = put_double(to, h->error_rate);
    to = put_u32(to, h->expansion);
    to = put_u32(to, h->chunk_bytes);
    to = put_u32(to, h->chunks);
    to = put_u32(to, h->layer_count);
    for (unsigned i = 0; i < h->layer_count; i++) {
        const struct dump_layer *l = &h->layers[i];
        to = put_u32(to, l->geometry.shards);
        to = put_u32(to, l->geometry.blocks);
        to = put_u32(to, l->geometry.block_bits);
        to = put_u32(to, l->geometry.hashes);
        to = put_u64(to, l->capacity);
        to = put_double(to, l->error_rate);
        to = put_u64(to, l->items);
    }
    to = put_u64(to, h->mix);
    to = put_u64(to, h->nonce);
    (void)put_u64(to, XXH3_64bits(bytes, length - CHECKSUM_BYTES));
    buffer_append(out, bytes, length);
}

bool dump_is_header(const void *bytes, size_t length)
{
    return length >= MAGIC_BYTES && memcmp(bytes, header_magic, MAGIC_BYTES) == 0;
}

static bool is_rate(double rate)
{
    return rate > 0 && rate < 1;
}

static enum err check_layer(const struct dump_header *h, unsigned i, struct error *e)
{
    const struct dump_layer *l = &h->layers[i];
    if (geometry_check(&l->geometry, e) != ERR_OK)
        return error_prefix(e, ERR_PARSE, "dump: layer %u", i);
    if (!is_rate(l->error_rate) || l->capacity == 0 || l->capacity > DUMP_ITEMS_MAX ||
        l->items > DUMP_ITEMS_MAX)
        return error_set(e, ERR_PARSE, "dump: layer %u: rate, capacity or items are out of bounds", i);
    if (geometry_shard_bytes(&l->geometry) > h->chunk_bytes - DUMP_CHUNK_HEADER)
        return error_set(e, ERR_PARSE, "dump: layer %u: a shard is larger than a chunk", i);
    return ERR_OK;
}

/* Check bounds first: compute nothing from a value that has not passed them. */
static enum err check_header(const struct dump_header *h, struct error *e)
{
    if (!is_rate(h->error_rate) || h->capacity == 0 || h->capacity > INT64_MAX ||
        h->expansion > DUMP_EXPANSION_MAX)
        return error_set(e, ERR_PARSE, "dump: rate, capacity or expansion are out of bounds");
    if (h->chunk_bytes <= DUMP_CHUNK_HEADER || h->chunk_bytes > DUMP_CHUNK_LIMIT)
        return error_set(e, ERR_PARSE, "dump: chunks of %u bytes, not %d to %d", h->chunk_bytes,
                         DUMP_CHUNK_HEADER + 1, DUMP_CHUNK_LIMIT);
    for (unsigned i = 0; i < h->layer_count; i++) {
        enum err code = check_layer(h, i, e);
        if (code != ERR_OK)
            return code;
    }
    uint64_t chunks = count_chunks(h);
    if (chunks > CHUNKS_MAX || chunks != h->chunks)
        return error_set(e, ERR_PARSE, "dump: %u chunks, where the shards make %llu", h->chunks,
                         (unsigned long long)chunks);
    return ERR_OK;
}

enum err dump_header_decode(struct dump_header *out, const void *bytes, size_t length, struct error *e)
{
    const uint8_t *start = bytes, *at = start + MAGIC_BYTES;
    if (!dump_is_header(bytes, length) || length < HEADER_FIXED + CHECKSUM_BYTES)
        return error_set(e, ERR_PARSE, "dump: not a header");
    uint32_t version = get_u32(&at);
    if (version == 0 || version > DUMP_VERSION)
        return error_set(e, ERR_PARSE, "dump: version %u is not %d", version, DUMP_VERSION);
    if (version < DUMP_VERSION)
        return error_set(e, ERR_FORMAT, "the dump has version %u", version);
    uint32_t said = get_u32(&at);
    *out = (struct dump_header){0};
    out->id = get_u64(&at);
    out->seed = get_u64(&at);
    out->capacity = get_u64(&at);
    out->error_rate = get_double(&at);
    out->expansion = get_u32(&at);
    out->chunk_bytes = get_u32(&at);
    out->chunks = get_u32(&at);
    out->layer_count = get_u32(&at);
    if (out->layer_count == 0 || out->layer_count > GENERATION_LAYERS_MAX || said != length ||
        length != header_length(out->layer_count))
        return error_set(e, ERR_PARSE, "dump: a header of %zu bytes with %u layers", length,
                         out->layer_count);
    for (unsigned i = 0; i < out->layer_count; i++) {
        struct dump_layer *l = &out->layers[i];
        l->geometry.shards = get_u32(&at);
        l->geometry.blocks = get_u32(&at);
        l->geometry.block_bits = get_u32(&at);
        l->geometry.hashes = get_u32(&at);
        l->capacity = get_u64(&at);
        l->error_rate = get_double(&at);
        l->items = get_u64(&at);
    }
    out->mix = get_u64(&at);
    out->nonce = get_u64(&at);
    if (get_u64(&at) != XXH3_64bits(bytes, length - CHECKSUM_BYTES))
        return error_set(e, ERR_PARSE, "dump: the header's checksum is wrong");
    return check_header(out, e);
}

/* --- chunks --- */

bool dump_is_chunk(const void *bytes, size_t length)
{
    return length >= MAGIC_BYTES && memcmp(bytes, chunk_magic, MAGIC_BYTES) == 0;
}

static uint64_t chunk_checksum(const uint8_t *chunk, size_t shard_bytes)
{
    uint64_t head = XXH3_64bits(chunk, DUMP_CHUNK_HEADER - CHECKSUM_BYTES);
    return XXH3_64bits_withSeed(chunk + DUMP_CHUNK_HEADER, shard_bytes, head);
}

void dump_chunk_encode(const struct dump_header *h, uint32_t number, const struct dump_run *run,
                       uint8_t *chunk)
{
    memcpy(chunk, chunk_magic, MAGIC_BYTES);
    uint8_t *to = put_u64(chunk + MAGIC_BYTES, h->id);
    to = put_u32(to, run->bytes);
    to = put_u32(to, number);
    to = put_u32(to, run->layer);
    to = put_u32(to, run->first);
    to = put_u32(to, run->count);
    to = put_u32(to, DUMP_CHUNK_VERSION);
    (void)put_u64(to, chunk_checksum(chunk, run->bytes));
}

enum err dump_chunk_decode(struct dump_chunk *out, const void *bytes, size_t length, struct error *e)
{
    const uint8_t *start = bytes, *at = start + MAGIC_BYTES;
    if (length < DUMP_CHUNK_HEADER || memcmp(bytes, chunk_magic, MAGIC_BYTES) != 0)
        return error_set(e, ERR_PARSE, "dump: not a chunk");
    uint64_t id = get_u64(&at);
    uint32_t said = get_u32(&at);
    if (said != length - DUMP_CHUNK_HEADER)
        return error_set(e, ERR_PARSE, "dump: a chunk of %zu bytes says %u", length - DUMP_CHUNK_HEADER,
                         said);
    *out = (struct dump_chunk){.id = id};
    out->number = get_u32(&at);
    out->run.bytes = said;
    out->run.layer = get_u32(&at);
    out->run.first = get_u32(&at);
    out->run.count = get_u32(&at);
    uint32_t version = get_u32(&at);
    if (version != DUMP_CHUNK_VERSION)
        return error_set(e, ERR_PARSE, "dump: version %u is not %d", version, DUMP_CHUNK_VERSION);
    if (get_u64(&at) != chunk_checksum(start, said))
        return error_set(e, ERR_PARSE, "dump: the checksum of chunk %u is wrong", out->number);
    out->shards = at;
    return ERR_OK;
}

/* --- tags --- */

static bool replace_tags(const struct geometry *g, uint16_t from, uint16_t to, uint8_t *shard)
{
    size_t block_bytes = g->block_bits / 8;
    for (uint32_t i = 0; i < g->blocks; i++, shard += block_bytes) {
        if ((shard[0] << 8 | shard[1]) != from)
            return false;
        shard[0] = (uint8_t)(to >> 8);
        shard[1] = (uint8_t)(to & 0xff);
    }
    return true;
}

bool dump_tags_strip(const struct geometry *g, uint16_t tag, uint8_t *shard)
{
    return replace_tags(g, tag, 0, shard);
}

bool dump_tags_put(const struct geometry *g, uint16_t tag, uint8_t *shard)
{
    return replace_tags(g, 0, tag, shard);
}
