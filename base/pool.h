/* SPDX-License-Identifier: MIT */
#ifndef BASE_POOL_H
#define BASE_POOL_H
/* Memory for what one thread makes and frees all the time, in blocks of one size. So many are kept for the
 * next ones, and no more; what is larger than a block is malloc()'s own. */
#include <stddef.h>
#include "base/error.h"

struct pool_block;

/* Zeroes but for `size` are an empty pool. Of one thread at a time. */
struct pool {
    size_t size;              /* of a block */
    unsigned kept;            /* blocks that nobody uses */
    struct pool_block *first; /* of them */
};

/* NULL: no memory. */
MUST_CHECK void *pool_take(struct pool *p, size_t size);
/* @memory is of pool_take(); NULL is fine. */
void pool_give(struct pool *p, void *memory);
/* Free what is kept; what is in use may still be given back, and is kept then. */
void pool_fini(struct pool *p);
#endif
