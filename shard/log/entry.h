/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_ENTRY_H
#define SHARD_LOG_ENTRY_H
/* The form of an entry in a lane: its writer, its sequence number among the entries of that writer, and the
 * hashes of up to LOG_KEYS_MAX keys under the filter's seed. Pure. There are other kinds of entries:
 * - An entry without keys is a notice: "look at the view". Each lane begins with one, its anchor.
 * - A layer mark says that a layer of a generation begins: keys of the entries behind it are set in that
 *   layer.
 * - A full mark says that a generation which does not grow has its capacity of keys: keys of the entries
 *   behind it are not added to that generation.
 * - A removal names a registration of a writer (roll.h) that is about to end: entries of that writer behind
 *   the removal are not acknowledged.
 *
 * Bytes, little-endian: 0xb1 (1), format (1), count (1), kind (1), writer (16), sequence (8), then 16 for
 * each key: low, high. A mark has no writer: its writer is all zeros, except that the first byte of a layer
 * mark's is the layer; its sequence is the generation's number. A removal's writer is the one that is
 * removed; its sequence is the number of that registration. */
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"

enum {
    LOG_MAGIC = 0xb1,
    LOG_FORMAT = 1,
    LOG_KEYS_MAX = 128,
    LOG_WRITER_BYTES = 16,
    LOG_HASH_BYTES = 16,
    LOG_ENTRY_BYTES_MIN = 28,
    LOG_ENTRY_BYTES_MAX = LOG_ENTRY_BYTES_MIN + LOG_KEYS_MAX * LOG_HASH_BYTES
};

enum log_entry_kind { LOG_KEYS = 0, LOG_FULL = 1, LOG_LAYER = 2, LOG_REMOVAL = 3 };

struct log_entry {
    enum log_entry_kind kind;
    uint8_t writer[LOG_WRITER_BYTES]; /* random, one for each process */
    uint64_t sequence;     /* grows with each entry of the writer; of marks and removals: see above */
    unsigned layer;        /* the layer that begins, from 1, of a layer mark; else 0 */
    unsigned count;        /* number of keys; 0: a notice */
    const uint8_t *hashes; /* LOG_HASH_BYTES for each key, in the bytes that were decoded; borrowed */
};

/* Write an entry of @count keys, at most LOG_KEYS_MAX. Returns its length. */
size_t log_entry_encode(uint8_t out[LOG_ENTRY_BYTES_MAX], const uint8_t writer[LOG_WRITER_BYTES],
                        uint64_t sequence, const struct key_hash *keys, unsigned count);
/* Write the full mark of @generation, which is not 0. Returns its length. */
size_t log_entry_encode_full(uint8_t out[LOG_ENTRY_BYTES_MAX], uint64_t generation);
/* Write the mark that @layer (1 or more) of @generation (not 0) begins. Returns its length. */
size_t log_entry_encode_layer(uint8_t out[LOG_ENTRY_BYTES_MAX], uint64_t generation, unsigned layer);
/* Write the removal of @writer's registration with the number @registration, which is not 0. Returns its
 * length. */
size_t log_entry_encode_removal(uint8_t out[LOG_ENTRY_BYTES_MAX], const uint8_t writer[LOG_WRITER_BYTES],
                                uint64_t registration);

/* ERR_PARSE: the bytes are no entry. ERR_FORMAT: a later version wrote the entry. On error *@out is
 * untouched. */
MUST_CHECK enum err log_entry_decode(struct log_entry *out, const void *bytes, size_t length,
                                     struct error *e);

/* The hash of key @i; @i is below entry->count. */
struct key_hash log_entry_hash(const struct log_entry *entry, unsigned i);
#endif
