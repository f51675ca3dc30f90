/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BITMAP_H
#define SHARD_RESIDENT_BITMAP_H
/* The shards of one layer in memory, shared by the threads of a process: one mapping that is reserved whole
 * and takes memory only for shards that are there. Bytes lie as in Redis, without the headers.
 *
 * Bits are only ever set, by atomic OR, and read without a lock. Marks say which bytes differ from Redis: one
 * bit for 64 bytes, set after the bits themselves, taken back before bytes are copied (dirty.h). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"
#include "shard/resident/words.h"

enum {
    BITMAP_UNIT = 64,
    BITMAP_PAGE = 4096 /* of one word of marks */
};

enum bitmap_state {
    BITMAP_ABSENT,    /* no memory; nothing is known */
    BITMAP_LOADING,   /* what is set is true, what is not set is unknown */
    BITMAP_RELOADING, /* the same; it was whole, until it was to be loaded again */
    BITMAP_RESIDENT,  /* whole: what is not set was not added */
    BITMAP_LEAVING    /* whole, for some time still */
};
enum { BITMAP_STATES = 8 };

enum bitmap_answer { BITMAP_NO, BITMAP_YES, BITMAP_UNKNOWN };

struct bitmap {
    struct geometry geometry;
    uint16_t tag;
    uint32_t block_words, shard_words, shard_bytes;
    uint32_t shard_pages;    /* words of marks that a shard has */
    size_t mapped;           /* bytes of @words */
    size_t marks_mapped;     /* bytes of @marks */
    atomic_word *words;      /* all shards, one behind the other */
    atomic_word *marks;      /* @shard_pages for each shard */
    _Atomic uint32_t *state; /* of each shard: enum bitmap_state, and above it how often that has changed */
    _Atomic uint8_t *marked; /* of each shard: some of its marks may be set */
    uint32_t *loaded;        /* of each shard: bytes that were ORed; of whoever loads it */
    uint32_t
        *from_empty; /* of each shard: bitmap_stamp() where it was whole without being read; 0: it was read */
    _Atomic uint32_t *checked; /* of each shard: under which resident_view() Redis had its header; 0: none */
};

/* No shard is there yet. ERR_NOMEM: there is no memory, or no room among the addresses. */
MUST_CHECK enum err bitmap_new(struct bitmap **out, const struct geometry *g, uint16_t tag, struct error *e);
/* Nobody may be inside. NULL is fine. */
void bitmap_free(struct bitmap *b);

enum bitmap_state bitmap_state(const struct bitmap *b, uint32_t shard);
/* BITMAP_LOADING or BITMAP_RELOADING. */
bool bitmap_is_loading(const struct bitmap *b, uint32_t shard);
/* Another number after each change of the shard's state; 0 where it is not BITMAP_RESIDENT or BITMAP_LEAVING.
 */
uint32_t bitmap_stamp(const struct bitmap *b, uint32_t shard);
/* The shard is whole, and was since bitmap_stamp() gave @stamp. */
bool bitmap_stayed(const struct bitmap *b, uint32_t shard, uint32_t stamp);
/* Of one thread at a time, with no bits being set meanwhile. BITMAP_ABSENT gives the shard's memory back. */
void bitmap_change(struct bitmap *b, uint32_t shard, enum bitmap_state state);

enum {
    BITMAP_FEW_BYTES = 1 << 20, /* they are cleared, or copied, before anybody has waited */
    /* Bytes a microsecond: background work that gets on more slowly goes on in the foreground. */
    BITMAP_LOAD_RATE = 64,
    BITMAP_CLEAR_RATE = 1024
};

/* Have the system give the memory of @count shards from @first now: else the first one to write there waits
 * for it, for milliseconds where a huge page is looked for. Many bytes are cleared in the background. Any
 * thread, at any time. */
void bitmap_reserve(struct bitmap *b, uint32_t first, uint32_t count);

/* Where a key that is looked up lies: its bits are not placed before its block is there. */
struct bitmap_aim {
    const atomic_word *block;
    uint64_t low; /* of its hash, mixed */
    uint32_t shard;
};
/* @hash is mixed. Its block is on the way from memory when this returns. */
void bitmap_aim(const struct bitmap *b, struct key_hash hash, struct bitmap_aim *out);
/* enum bitmap_answer. Any thread, at any time. */
uint8_t bitmap_see(const struct bitmap *b, const struct bitmap_aim *aim);

/* Look up @count places. Any thread, at any time. */
void bitmap_look(const struct bitmap *b, const struct key_place *places, unsigned count, uint8_t *answers);
/* Have the processor fetch the blocks of these places. */
void bitmap_fetch(const struct bitmap *b, const struct key_place *places, unsigned count);

/* Set the bits of @place, and mark them. True: some bit was not set. Its shard is not BITMAP_ABSENT. */
bool bitmap_set(struct bitmap *b, const struct key_place *place);

/* OR @length bytes, which Redis has @offset bytes behind the header of @shard, which is loading.
 * Both are multiples of a block. Pieces come in order, from one thread; bits may be set meanwhile. ERR_LOST:
 * a block has not the tag; ERR_CONFLICT: the piece is not the next one; nothing was ORed. */
MUST_CHECK enum err bitmap_or(struct bitmap *b, uint32_t shard, uint32_t offset, const void *bytes,
                              uint32_t length, struct error *e);
/* The same for a shard that is whole, while bits are set: what Redis has more gets into memory, and what
 * memory has more is marked. Any piece, a multiple of a block. ERR_CONFLICT: the shard is not whole. */
MUST_CHECK enum err bitmap_join(struct bitmap *b, uint32_t shard, uint32_t offset, const void *bytes,
                                uint32_t length, struct error *e);
/* All of the shard was ORed. */
bool bitmap_is_loaded(const struct bitmap *b, uint32_t shard);

/* Bytes beside the shards themselves. */
size_t bitmap_overhead(const struct bitmap *b);
#endif
