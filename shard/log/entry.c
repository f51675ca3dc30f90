/* SPDX-License-Identifier: MIT */
#include "shard/log/entry.h"

#include <assert.h>
#include <endian.h>
#include <stdbool.h>
#include <string.h>
#include "shard/filter/generation.h"

enum { AT_MAGIC = 0, AT_FORMAT = 1, AT_COUNT = 2, AT_KIND = 3, AT_WRITER = 4, AT_SEQUENCE = 20 };

_Static_assert(LOG_KEYS_MAX <= UINT8_MAX, "a byte counts the keys");

static const uint8_t nobody[LOG_WRITER_BYTES];

static void put_u64(uint8_t *at, uint64_t value)
{
    uint64_t little = htole64(value);
    memcpy(at, &little, sizeof(little));
}

static uint64_t get_u64(const uint8_t *at)
{
    uint64_t little;
    memcpy(&little, at, sizeof(little));
    return le64toh(little);
}

size_t log_entry_encode(uint8_t out[LOG_ENTRY_BYTES_MAX], const uint8_t writer[LOG_WRITER_BYTES],
                        uint64_t sequence, const struct key_hash *keys, unsigned count)
{
    assert(count <= LOG_KEYS_MAX);
    out[AT_MAGIC] = LOG_MAGIC;
    out[AT_FORMAT] = LOG_FORMAT;
    out[AT_COUNT] = (uint8_t)count;
    out[AT_KIND] = LOG_KEYS;
    memcpy(out + AT_WRITER, writer, LOG_WRITER_BYTES);
    put_u64(out + AT_SEQUENCE, sequence);
    uint8_t *at = out + LOG_ENTRY_BYTES_MIN;
    for (unsigned i = 0; i < count; i++, at += LOG_HASH_BYTES) {
        put_u64(at, keys[i].low);
        put_u64(at + 8, keys[i].high);
    }
    return (size_t)(at - out);
}

static size_t encode_mark(uint8_t out[LOG_ENTRY_BYTES_MAX], enum log_entry_kind kind, uint64_t generation,
                          unsigned layer)
{
    size_t length = log_entry_encode(out, nobody, generation, NULL, 0);
    assert(generation != 0);
    out[AT_KIND] = (uint8_t)kind;
    out[AT_WRITER] = (uint8_t)layer;
    return length;
}

size_t log_entry_encode_removal(uint8_t out[LOG_ENTRY_BYTES_MAX], const uint8_t writer[LOG_WRITER_BYTES],
                                uint64_t registration)
{
    size_t length = log_entry_encode(out, writer, registration, NULL, 0);
    assert(registration != 0);
    out[AT_KIND] = LOG_REMOVAL;
    return length;
}

size_t log_entry_encode_full(uint8_t out[LOG_ENTRY_BYTES_MAX], uint64_t generation)
{
    return encode_mark(out, LOG_FULL, generation, 0);
}

size_t log_entry_encode_layer(uint8_t out[LOG_ENTRY_BYTES_MAX], uint64_t generation, unsigned layer)
{
    assert(layer > 0 && layer < GENERATION_LAYERS_MAX);
    return encode_mark(out, LOG_LAYER, generation, layer);
}

/* @in holds at least LOG_ENTRY_BYTES_MIN bytes. */
static bool is_mark(const uint8_t *in)
{
    unsigned layer = in[AT_WRITER];
    bool of_its_kind = (in[AT_KIND] == LOG_FULL && layer == 0) ||
                       (in[AT_KIND] == LOG_LAYER && layer > 0 && layer < GENERATION_LAYERS_MAX);
    return of_its_kind && in[AT_COUNT] == 0 && get_u64(in + AT_SEQUENCE) != 0 &&
           memcmp(in + AT_WRITER + 1, nobody, LOG_WRITER_BYTES - 1) == 0;
}

static bool is_removal(const uint8_t *in)
{
    return in[AT_KIND] == LOG_REMOVAL && in[AT_COUNT] == 0 && get_u64(in + AT_SEQUENCE) != 0 &&
           memcmp(in + AT_WRITER, nobody, LOG_WRITER_BYTES) != 0;
}

enum err log_entry_decode(struct log_entry *out, const void *bytes, size_t length, struct error *e)
{
    const uint8_t *in = bytes;
    if (length > AT_FORMAT && in[AT_MAGIC] == LOG_MAGIC && in[AT_FORMAT] > LOG_FORMAT)
        return error_set(e, ERR_FORMAT,
                         "entry format %u is newer than this version supports (%d); upgrade it",
                         in[AT_FORMAT], LOG_FORMAT);
    if (length < LOG_ENTRY_BYTES_MIN || in[AT_MAGIC] != LOG_MAGIC || in[AT_FORMAT] != LOG_FORMAT)
        return error_set(e, ERR_PARSE, "%zu bytes that do not begin like an entry", length);
    unsigned count = in[AT_COUNT];
    if (in[AT_KIND] != LOG_KEYS && !is_mark(in) && !is_removal(in))
        return error_set(e, ERR_PARSE, "an entry of unknown kind %u", in[AT_KIND]);
    if (count > LOG_KEYS_MAX || length != LOG_ENTRY_BYTES_MIN + (size_t)count * LOG_HASH_BYTES)
        return error_set(e, ERR_PARSE, "%zu bytes are not the length of an entry of %u keys", length, count);
    out->kind = (enum log_entry_kind)in[AT_KIND];
    out->layer = out->kind == LOG_LAYER ? in[AT_WRITER] : 0;
    memcpy(out->writer, in + AT_WRITER, LOG_WRITER_BYTES);
    out->sequence = get_u64(in + AT_SEQUENCE);
    out->count = count;
    out->hashes = in + LOG_ENTRY_BYTES_MIN;
    return ERR_OK;
}

struct key_hash log_entry_hash(const struct log_entry *entry, unsigned i)
{
    assert(i < entry->count);
    const uint8_t *at = entry->hashes + (size_t)i * LOG_HASH_BYTES;
    return (struct key_hash){.low = get_u64(at), .high = get_u64(at + 8)};
}
