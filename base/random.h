/* SPDX-License-Identifier: MIT */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H
/* Randomness from the kernel: seeds, incarnations, owner names. */
#include <stdint.h>

/* 64 random bits, never 0. Ends the process if the kernel cannot provide any. */
uint64_t random_u64(void);
/* 128 random bits, never all 0. */
void random_id(uint8_t out[16]);
#endif
