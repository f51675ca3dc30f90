/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_BODY_H
#define SERVICE_HTTP_MESSAGE_HTTP_BODY_H
/* The body of a request: from JSON to its members. Pure; no I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

enum {
    HTTP_KEYS_MAX = 1000000,
    HTTP_BODY_DEPTH_MAX = 16 /* nesting of arrays and objects */
};

/* What a body contains. Each route takes one of these kinds. If no member is required, the body may be
 * empty. */
enum http_body_kind {
    HTTP_BODY_NONE = 1, /* no body, or {} */
    HTTP_BODY_KEYS = 2,
    HTTP_BODY_CREATE = 4,
    HTTP_BODY_REBUILD = 8,
    HTTP_BODY_VERIFY = 16,
    HTTP_BODY_THROTTLE = 32
};

struct http_key {
    size_t offset; /* offset in `bytes` */
    size_t length;
};

struct http_body {
    struct buffer bytes;   /* bytes of keys, or of the name */
    struct http_key *keys; /* HTTP_BODY_KEYS */
    size_t key_count;
    struct http_key name;     /* HTTP_BODY_CREATE */
    struct http_key nodes;    /* HTTP_BODY_REBUILD: names separated by commas and ended by a NUL */
    uint64_t capacity;        /* 0: not given */
    double error_rate;        /* 0: not given */
    uint64_t expansion;       /* 0: not given; at most 32768 */
    uint64_t rows_per_second; /* HTTP_BODY_THROTTLE */
    bool nonscaling, hold, dry_run, verify_full;
};

/* Fill @out, which must be zeroed. The caller frees it in any case. ERR_PARSE: the body is not JSON, and the
 * text says where and why. ERR_RANGE: it is JSON, but not what this kind requires. ERR_NOMEM. */
MUST_CHECK enum err http_body_parse(struct http_body *out, enum http_body_kind kind, const char *text,
                                    size_t length, struct error *e);
/* As http_body_parse(), but without the fast path. Tests compare both. */
MUST_CHECK enum err http_body_parse_tree(struct http_body *out, enum http_body_kind kind, const char *text,
                                         size_t length, struct error *e);
void http_body_fini(struct http_body *body);
#endif
