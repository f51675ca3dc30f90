/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_ALLOCATIONS_H
#define TESTS_LIB_ALLOCATIONS_H
/* One allocation that fails, in one thread of a coordinator of a test. allocations.c is linked into the
 * coordinator (twinbloomd_starved) in the place of malloc and its kin; the test says by a file that both map
 * which allocation fails. */
#include <stdatomic.h>
#include <stdint.h>

/* Names the file to the coordinator, which maps it when it starts. */
#define ALLOCATIONS_FILE "TWINBLOOM_ALLOCATIONS"

struct allocations {
    char thread[16];           /* name of the thread; written while `countdown` is 0 */
    _Atomic int64_t countdown; /* so many allocations from now the one that fails is; 0: none */
    _Atomic uint32_t failed;   /* 1: it has */
};
#endif
