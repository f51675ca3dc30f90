/* SPDX-License-Identifier: MIT */
#include "base/pool.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__ /* AddressSanitizer must see each block freed */
enum { KEPT_MAX = 0 };
#else
enum { KEPT_MAX = 1024 };
#endif

/* Lies in front of each block that is handed out. */
struct pool_block {
    alignas(max_align_t) struct pool_block *next; /* while the block is pooled */
    bool is_one;                                  /* the block has the pool's size; false: it is larger */
};

void *pool_take(struct pool *p, size_t size)
{
    struct pool_block *b = p->first;
    bool is_one = size <= p->size;
    if (is_one && b != NULL) {
        p->first = b->next;
        p->kept--;
        return b + 1;
    }
    b = malloc(sizeof(*b) + (is_one ? p->size : size));
    if (b == NULL)
        return NULL;
    b->is_one = is_one;
    return b + 1;
}

void pool_give(struct pool *p, void *memory)
{
    if (memory == NULL)
        return;
    struct pool_block *b = (struct pool_block *)memory - 1;
    if (!b->is_one || p->kept + 1 > KEPT_MAX) {
        free(b);
        return;
    }
    b->next = p->first;
    p->first = b;
    p->kept++;
}

void pool_fini(struct pool *p)
{
    struct pool_block *b;
    while ((b = p->first) != NULL) {
        p->first = b->next;
        free(b);
    }
    p->kept = 0;
}
