/* SPDX-License-Identifier: MIT */
#ifndef TESTS_WORKLOADS_H
#define TESTS_WORKLOADS_H
/* The requests that are compared: Twinbloom's, raw reads of a block, and the script of the usual client-side
 * filter with a classic bitmap of the same keys at the same error rate. */
#include "bench.h"

enum { CLASSIC_K = 10, BLOCK_BYTES = 128 };
#define CLASSIC_BITS_PER_KEY 14.3776 /* -ln(1e-3) / ln(2)^2 */

/* Counters of codes that are not in the table. New keys begin at FRESH_FROM, absent ones at ABSENT_FROM. */
#define FRESH_FROM (UINT64_C(1) << 36)
#define ABSENT_FROM (CODE_COUNT / 2)

struct request {
    const char *command; /* BF.EXISTS, BF.ADD, BF.MEXISTS */
    const char *filter;
    const struct code *known; /* the table's codes, or NULL: the codes of counters from @counter on */
    size_t known_count;
    uint64_t counter;
    uint64_t bits; /* of the classic bitmap */
    char sha[41];  /* of the script */
};

void request_filter(void *request, struct buffer *out, uint64_t first, unsigned keys);
void request_getrange(void *request, struct buffer *out, uint64_t first, unsigned keys);
void request_script(void *request, struct buffer *out, uint64_t first, unsigned keys);

#define BITMAP_NAME "bench:classic"

/* Fill the classic bitmap with @known and store it in Redis. *@bits: its size. */
MUST_CHECK enum err classic_fill(redisContext *redis, const struct code *known, size_t count, uint64_t *bits,
                                 struct error *e);
/* Load the script of the check or the add. */
MUST_CHECK enum err classic_script(redisContext *redis, bool add, char sha[41], struct error *e);
#endif
