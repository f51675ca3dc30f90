/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_WORDS_H
#define SHARD_RESIDENT_WORDS_H
/* Bits of a block (block.h) in words of 64 bits that threads share. */
#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t atomic_word;

_Static_assert(sizeof(atomic_word) == 8, "words lie in memory as the bytes of a shard do");

/* The word that holds bit @p of a block, and the bit's place there: bit 7 - p % 8 of byte p / 8. */
static inline unsigned word_index(unsigned p)
{
    return p / 64;
}

static inline unsigned word_shift(unsigned p)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (p ^ 7) % 64;
#else
    return 63 - p % 64;
#endif
}

static inline uint64_t word_mask(unsigned p)
{
    return UINT64_C(1) << word_shift(p);
}
#endif
