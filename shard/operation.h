/* SPDX-License-Identifier: MIT */
#ifndef SHARD_OPERATION_H
#define SHARD_OPERATION_H
/* One check or add of one or many keys, from start to an answer that may be given: under one view, tags seen,
 * retried whole after a view change. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/catalog.h"

enum operation_kind { OPERATION_CHECK, OPERATION_ADD };

/* Result of one key. */
enum key_result {
    KEY_NO = 0,   /* check: absent. add: was (or may have been) there */
    KEY_YES = 1,  /* check: present, or maybe. add: new */
    KEY_FULL = 3, /* add: not there, and the filter is full and may not grow */
    KEY_LOST = 2  /* its shard is lost and the filter is configured to answer an error, or has no source */
};

typedef void operation_done_fn(struct operation *op, void *arg);

/* @bytes: sum of the keys' lengths. NULL: no memory. */
struct operation *operation_new(struct catalog *c, enum operation_kind kind, size_t keys, size_t bytes);
/* Copy one key; exactly as many as announced. */
void operation_key(struct operation *op, const char *key, size_t length);

/* Another deadline than the catalog's; before it is started. */
void operation_set_timeout(struct operation *op, unsigned ms);

/* Of an add, for its next start: a filter that is full does not end it with ERR_FULL, but its keys are only
 * looked up; one that is not there is KEY_FULL. */
void operation_look_if_full(struct operation *op);

/* Start, or start again after ERR_NOT_FOUND or ERR_FULL: keys that have a result keep it, unless the filter
 * was deleted meanwhile. @done is called once, never from inside this call. */
void operation_start(struct operation *op, struct catalog_filter *f, operation_done_fn *done, void *arg);

/* After done: ERR_OK, ERR_NOT_FOUND (the filter was never made), ERR_TIMEOUT, ERR_UNREACHABLE, ERR_PARSE,
 * ERR_CONFIG (its shards lie on a node that is not configured here), ERR_FORMAT (a later version's), ERR_LOST
 * (the view is lost), ERR_REFUSED (Redis answers with an error, e.g. out of memory), ERR_CANCELLED, ERR_FULL
 * (an add to a filter without a source that must get another layer first: start the operation again after
 * that), ERR_WRONG_TYPE (the text is Redis's); text for people. */
enum err operation_status(const struct operation *op);
const char *operation_error(const struct operation *op);
size_t operation_keys(const struct operation *op);
/* True where key @i has its result, whatever the status says: the deadline may pass for some keys alone. */
bool operation_answered(const struct operation *op, size_t i);
enum key_result operation_result(const struct operation *op, size_t i);
enum operation_kind operation_kind(const struct operation *op);
bool operation_any_no(const struct operation *op);
/* True where it was retried: a later operation of the same client may have overtaken it. */
bool operation_was_retried(const struct operation *op);
/* Make a finished operation ready to be started again, with all its keys. */
void operation_rewind(struct operation *op);

/* Give up ownership, at any time while the catalog lives; no callback comes after it. */
void operation_release(struct operation *op);

/* --- for catalog.c --- */
void operation_view_ready(struct operation *op, enum view_outcome outcome, const char *why);
#endif
