/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_KEY_OPERATION_H
#define SERVICE_KEYS_KEY_OPERATION_H
/* One check or add of one or many keys, from start to answer. What an add needs is made first: a filter that
 * does not exist yet, or another layer for a filter that is full. It knows no protocol and no connection. The
 * keys are copied. An operation belongs to the thread of its port. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/mailbox.h"
#include "service/filters/filter_make.h"
#include "service/keys/key_port.h"

struct admin_threads;

enum operation_kind { OPERATION_CHECK, OPERATION_ADD };

/* The answer to one key. */
enum answer {
    ANSWER_NO,   /* check: absent. add: the key was there, or may have been */
    ANSWER_YES,  /* check: present, or maybe. add: the key is new */
    ANSWER_LOST, /* the key may be lost, and the filter is configured to answer an error */
    ANSWER_FULL, /* add: the key is not there, and the filter is full and may not grow */
    ANSWER_ERROR /* no answer, e.g. because the deadline passed for this key */
};

/* A request without its keys. */
struct key_query {
    struct admin_threads *admin; /* creates what is missing */
    struct mailbox *mailbox;     /* the mailbox of the calling thread */
    enum operation_kind kind;
    struct key_filter *filter;
    struct creation creation;
    const char *user;     /* the user, valid until the release; NULL: a user without a quota */
    bool unmade_is_empty; /* a check of a filter that was never created finds no key; otherwise it fails */
};

struct key_operation;
typedef void key_operation_done_fn(struct key_operation *op, void *arg);

/* @bytes is the sum of the keys' lengths. NULL: no memory. */
struct key_operation *key_operation_new(const struct key_query *q, size_t keys, size_t bytes);
/* Copy memory with keys in it (as many bytes as were announced, in one or several pieces), and give the place
 * of each key in the copy, exactly as often as keys were announced. */
char *key_operation_copy(struct key_operation *op, const char *bytes, size_t length);
void key_operation_name(struct key_operation *op, const char *key, size_t length);
/* Set another deadline than the port's. Call before the start. */
void key_operation_set_timeout(struct key_operation *op, unsigned ms);

/* Start the operation, or start one that has ended again. True: it has ended, and @done is not called.
 * Otherwise @done is called once, later. */
MUST_CHECK bool key_operation_start(struct key_operation *op, key_operation_done_fn *done, void *arg);

/* --- results, once the operation has ended --- */

/* Why keys have no answer. */
struct failure {
    enum err code;
    /* The filter or layer that the add needs could not be made; otherwise the operation failed. */
    bool unmade;
    const char *text;
};

/* True if no key has an answer; key_operation_failure() says why. */
bool key_operation_failed(const struct key_operation *op);
/* Its code is ERR_OK, ERR_NOT_FOUND (the filter was never created), ERR_TIMEOUT, ERR_UNREACHABLE, ERR_PARSE,
 * ERR_CONFIG (its shards lie on a node that is not configured here), ERR_FORMAT (a later version's format),
 * ERR_LOST (the view is lost), ERR_REFUSED (Redis replied with an error, e.g. out of memory), ERR_CANCELLED,
 * ERR_FULL, ERR_WRONG_TYPE (the text is Redis's), or what making failed with. The text is for people, and
 * valid until @op is started again or released. */
struct failure key_operation_failure(const struct key_operation *op);
const struct key_query *key_operation_query(const struct key_operation *op);
size_t key_operation_keys(const struct key_operation *op);
/* The answer to key @i, however the operation ended: the deadline may pass for some keys only. For
 * ANSWER_ERROR, key_operation_failure() says why. */
enum answer key_operation_answer(const struct key_operation *op, size_t i);
/* Look at up to @count keys from @from on, and stop at the first whose answer is neither ANSWER_YES nor
 * ANSWER_NO. Returns how many there are before it; @yes gets 1 or 0 for each. */
size_t key_operation_plain(const struct key_operation *op, size_t from, size_t count, uint8_t *yes);
/* The number of keys up to and including the first that is ANSWER_FULL. */
size_t key_operation_until_full(const struct key_operation *op);
/* For a check, at any time: true if key @i was found. The outcome of the operation does not change that. */
bool key_operation_found(const struct key_operation *op, size_t i);
/* True if a key is answered ANSWER_NO, also because the filter does not exist. */
bool key_operation_any_no(const struct key_operation *op);
/* True if the operation was retried or delayed: a later operation of the same client may have overtaken
 * it. */
bool key_operation_was_retried(const struct key_operation *op);
/* True for an add that was sent: no operation that this thread starts later is executed before it. */
bool key_operation_is_in_order(const struct key_operation *op);

/* Give up ownership, at any time while the port lives. No callback comes afterwards; what is under way runs
 * to its end. NULL is fine. */
void key_operation_release(struct key_operation *op);
#endif
