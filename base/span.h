/* SPDX-License-Identifier: MIT */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H
/* A text without a terminator, whose pieces are cut off its front. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/number.h"

struct span {
    const char *at; /* NULL: nothing is left, not even an empty piece */
    size_t length;
};

/* Cut off what lies before the first @separator, or all of it if there is none. False: nothing is left. */
static inline bool span_cut(struct span *rest, char separator, struct span *piece)
{
    if (rest->at == NULL)
        return false;
    const char *found = memchr(rest->at, separator, rest->length);
    *piece = *rest;
    if (found == NULL) {
        *rest = (struct span){NULL, 0};
        return true;
    }
    piece->length = (size_t)(found - rest->at);
    rest->at = found + 1;
    rest->length -= piece->length + 1;
    return true;
}

/* For qsort() and the like: by bytes; of two that begin alike the shorter is first. */
static inline int span_order(const void *a, const void *b)
{
    const struct span *one = a, *other = b;
    size_t least = one->length < other->length ? one->length : other->length;
    int order = least == 0 ? 0 : memcmp(one->at, other->at, least);
    return order != 0 ? order : (one->length > other->length) - (one->length < other->length);
}

/* As span_cut(), for a piece that is a number. */
static inline bool span_cut_u64(struct span *rest, char separator, uint64_t *out)
{
    struct span piece;
    return span_cut(rest, separator, &piece) && number_u64(piece.at, piece.length, out);
}
#endif
