/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BITMAP_H
#define SHARD_RESIDENT_BITMAP_H
/* The shards of one layer in memory, shared by the threads of a process: one mapping that is reserved as a
 * whole, and takes memory only for shards that are there. Bytes lie as in Redis, without the headers.
 *
 * Bits are only ever set, by atomic OR, and read without a lock. Marks say which bytes differ from Redis: one
 * mark for 64 bytes. A mark is set after its bits, and cleared before its bytes are copied (dirty.h). */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"

enum {
    BITMAP_UNIT = 64,
    BITMAP_PAGE = 4096 /* one word of marks covers it */
};

enum bitmap_state {
    BITMAP_ABSENT,    /* not in memory; nothing is known */
    BITMAP_LOADING,   /* set bits are true; unset bits say nothing */
    BITMAP_RELOADING, /* as BITMAP_LOADING; it was whole before, and is being loaded again */
    BITMAP_RESIDENT   /* whole: an unset bit was not added */
};
enum { BITMAP_STATES = 8 };

enum bitmap_answer { BITMAP_NO, BITMAP_YES, BITMAP_UNKNOWN };

/* 64 bits of a block (block.h) that threads share; in memory the bytes of a shard. */
typedef _Atomic uint64_t atomic_word;

struct bitmap {
    struct geometry geometry;
    uint16_t tag;
    uint32_t block_words, shard_words, shard_bytes;
    uint32_t shard_pages;      /* words of marks of each shard */
    size_t mapped;             /* bytes of @words */
    size_t marks_mapped;       /* bytes of @marks */
    atomic_word *words;        /* all shards, one after the other */
    atomic_word *marks;        /* @shard_pages words for each shard */
    _Atomic uint32_t *state;   /* of each shard: enum bitmap_state, and a counter of changes above it */
    _Atomic uint8_t *marked;   /* of each shard: some of its marks may be set */
    uint32_t *loaded;          /* of each shard: bytes ORed so far; belongs to the thread that loads it */
    _Atomic uint32_t *copies;  /* of each shard: odd while words are copied into it */
    _Atomic uint64_t *checked; /* of each shard: the resident_view() in which its header was checked, and
                                * below it 32 bits of the replication id of the server that had it; 0: none */
};

/* All shards are absent. ERR_NOMEM: no memory, or no room in the address space. */
MUST_CHECK enum err bitmap_new(struct bitmap **out, const struct geometry *g, uint16_t tag, struct error *e);
/* No thread may use @b any more. @b may be NULL. */
void bitmap_free(struct bitmap *b);

enum bitmap_state bitmap_state(const struct bitmap *b, uint32_t shard);
/* True if the state is BITMAP_LOADING or BITMAP_RELOADING. */
bool bitmap_is_loading(const struct bitmap *b, uint32_t shard);
/* A number that changes with each change of the shard's state; 0 if the shard is not BITMAP_RESIDENT. */
uint32_t bitmap_stamp(const struct bitmap *b, uint32_t shard);
/* True if the shard has been whole since bitmap_stamp() returned @stamp. */
bool bitmap_stayed(const struct bitmap *b, uint32_t shard, uint32_t stamp);
/* One thread at a time, while no thread sets bits. BITMAP_ABSENT gives the shard's memory back. */
void bitmap_change(struct bitmap *b, uint32_t shard, enum bitmap_state state);

enum {
    BITMAP_FEW_BYTES = 1 << 20, /* up to so many bytes are cleared, or copied, in the foreground */
    /* Bytes a microsecond: background work that is slower is finished in the foreground. */
    BITMAP_LOAD_RATE = 64,
    BITMAP_CLEAR_RATE = 1024
};

/* Take the memory of @count shards from @first from the system now. Otherwise the first write there waits for
 * it, for milliseconds if the system must find a huge page. Many bytes are cleared in the background. Any
 * thread, at any time. */
void bitmap_reserve(struct bitmap *b, uint32_t first, uint32_t count);

/* Where to look for a key. Its bits are placed only once its block has arrived from memory. */
struct bitmap_aim {
    const atomic_word *block;
    uint64_t low; /* of its hash, mixed */
    uint32_t shard;
};
/* @hash is mixed. Also begins to fetch the block from memory. */
void bitmap_aim(const struct bitmap *b, struct key_hash hash, struct bitmap_aim *out);
/* Returns an enum bitmap_answer. Any thread, at any time. */
uint8_t bitmap_see(const struct bitmap *b, const struct bitmap_aim *aim);

/* Let the processor fetch the block of @place. */
void bitmap_fetch(const struct bitmap *b, const struct key_place *place);

/* Set and mark the bits of @place. True: some bit was not set, or may have been lost to a piece that is being
 * copied into the shard. The shard must not be BITMAP_ABSENT. */
bool bitmap_set(struct bitmap *b, const struct key_place *place);

/* OR @length bytes, which lie in Redis @offset bytes behind the header of @shard, which is loading. Both
 * numbers are multiples of a block. Pieces come in order, from one thread; other threads may set bits
 * meanwhile. ERR_LOST: a block does not have the tag; ERR_CONFLICT: this is not the next piece. On error
 * nothing was ORed. */
MUST_CHECK enum err bitmap_or(struct bitmap *b, uint32_t shard, uint32_t offset, const void *bytes,
                              uint32_t length, struct error *e);
/* As bitmap_or(), for a shard that is whole, while bits are set: memory gets what only Redis has, and what
 * only memory has is marked. Any piece that is a multiple of a block. ERR_CONFLICT: the shard is not
 * whole. */
MUST_CHECK enum err bitmap_join(struct bitmap *b, uint32_t shard, uint32_t offset, const void *bytes,
                                uint32_t length, struct error *e);
/* True if all of the shard was ORed. */
bool bitmap_is_loaded(const struct bitmap *b, uint32_t shard);

/* Bytes that the bitmap takes beside the shards themselves. */
size_t bitmap_overhead(const struct bitmap *b);
#endif
