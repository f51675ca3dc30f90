/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_ALLOCATIONS_H
#define TESTS_LIB_ALLOCATIONS_H
/* Makes one allocation fail, in one thread of a test's coordinator. The coordinator (twinbloomd_starved) is
 * linked with allocations.c instead of malloc and its relatives. The test chooses the allocation through a
 * file that both processes map. */
#include <stdatomic.h>
#include <stdint.h>

/* The environment variable with the path of that file. The coordinator maps the file when it starts. */
#define ALLOCATIONS_FILE "TWINBLOOM_ALLOCATIONS"

struct allocations {
    char thread[16];           /* the thread's name; written while `countdown` is 0 */
    _Atomic int64_t countdown; /* allocations until the one that fails, that one included; 0: none fails */
    _Atomic uint32_t failed;   /* 1: the allocation has failed */
};
#endif
