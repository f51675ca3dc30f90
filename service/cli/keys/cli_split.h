/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_KEYS_CLI_SPLIT_H
#define SERVICE_CLI_KEYS_CLI_SPLIT_H
/* Splits the bytes of a file, in pieces of any size, into keys: lines, NUL-separated keys, or a column of CSV
 * (RFC 4180). Empty keys are skipped and counted. Pure; no I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

enum { SPLIT_KEY_MAX = 64 << 20 }; /* a longer key has a quote that was never closed */

enum split_kind { SPLIT_LINES, SPLIT_NULS, SPLIT_CSV };

struct split {
    enum split_kind kind;
    size_t column; /* SPLIT_CSV: from 1; 0: found by @name in the first record */
    const char *name;
    uint64_t empty;     /* keys that were skipped */
    uint64_t malformed; /* records without the column, or with text behind a quoted field */
    uint64_t first_malformed;
    /* private to the parser */
    bool searching, bad;
    unsigned mark; /* bytes of a byte order mark seen so far */
    int state;
    size_t field; /* number of the current field, from 1 */
    uint64_t record, quote_record;
    struct buffer key;
};

/* @column: a number from 1, or a name in the first record; borrowed. */
void split_init(struct split *s, enum split_kind kind, const char *column);
void split_fini(struct split *s);

/* @key is valid during the call. False: no more keys are wanted, and the rest of the bytes is dropped. */
typedef bool split_fn(void *arg, const char *key, size_t length);

/* ERR_CANCELLED: @fn returned false. ERR_PARSE: the first record has no such column. ERR_RANGE: a key exceeds
 * SPLIT_KEY_MAX bytes. ERR_NOMEM. */
MUST_CHECK enum err split_feed(struct split *s, const char *bytes, size_t length, split_fn *fn, void *arg,
                               struct error *e);
/* Call it at the end of the bytes: text without a separator behind it is a key, too. ERR_PARSE: a quote is
 * open. */
MUST_CHECK enum err split_end(struct split *s, split_fn *fn, void *arg, struct error *e);
#endif
