/* SPDX-License-Identifier: MIT */
#ifndef BASE_POOL_H
#define BASE_POOL_H
/* Memory that one thread allocates and frees all the time, in blocks of one size. The pool keeps a bounded
 * number of free blocks; larger requests go to malloc(). */
#include <stddef.h>
#include "base/error.h"

struct pool_block;

/* A pool whose fields are zero, except `size`, is empty. One thread uses it at a time. */
struct pool {
    size_t size;              /* of one block, bytes */
    unsigned kept;            /* number of free blocks */
    struct pool_block *first; /* list of the free blocks */
};

/* NULL: no memory. */
MUST_CHECK void *pool_take(struct pool *p, size_t size);
/* @memory came from pool_take(), or is NULL. */
void pool_give(struct pool *p, void *memory);
/* Free the pooled blocks. Blocks in use may still be given back; the pool keeps them then. */
void pool_fini(struct pool *p);
#endif
