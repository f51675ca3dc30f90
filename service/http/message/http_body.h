/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_BODY_H
#define SERVICE_HTTP_MESSAGE_HTTP_BODY_H
/* The body of a request: JSON to what is asked for. Pure; no I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

enum {
    HTTP_KEYS_MAX = 1000000,
    HTTP_BODY_DEPTH_MAX = 16 /* of arrays and objects in each other */
};

/* What a body may be about: each route takes one of these. A body may be empty where no member is needed. */
enum http_body_kind {
    HTTP_BODY_NONE = 1, /* nothing, or {} */
    HTTP_BODY_KEYS = 2,
    HTTP_BODY_CREATE = 4,
    HTTP_BODY_REBUILD = 8,
    HTTP_BODY_VERIFY = 16,
    HTTP_BODY_THROTTLE = 32
};

struct http_key {
    size_t offset; /* in the bytes */
    size_t length;
};

struct http_body {
    struct buffer bytes;   /* of keys, or of the name */
    struct http_key *keys; /* HTTP_BODY_KEYS */
    size_t key_count;
    struct http_key name;     /* HTTP_BODY_CREATE */
    struct http_key nodes;    /* HTTP_BODY_REBUILD: names with commas between them, and a NUL behind them */
    uint64_t capacity;        /* 0: not given; so below */
    double error_rate;        /* 0 */
    uint32_t expansion;       /* 0 */
    uint64_t rows_per_second; /* HTTP_BODY_THROTTLE */
    bool nonscaling, hold, dry_run, verify_full;
};

/* Fill the zeroed @out, which is the caller's to end in any case. ERR_PARSE: no JSON, the text says where and
 * why. ERR_RANGE: JSON, but not what is wanted here. ERR_NOMEM. */
MUST_CHECK enum err http_body_parse(struct http_body *out, enum http_body_kind kind, const char *text,
                                    size_t length, struct error *e);
/* The same by a tree of values, whatever the form: for tests, which compare them. */
MUST_CHECK enum err http_body_parse_tree(struct http_body *out, enum http_body_kind kind, const char *text,
                                         size_t length, struct error *e);
void http_body_fini(struct http_body *body);
#endif
