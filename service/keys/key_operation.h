/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_KEY_OPERATION_H
#define SERVICE_KEYS_KEY_OPERATION_H
/* One check or add of one or many keys, which are copied, from start to an answer that may be given. Belongs
 * to the thread of its port. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "service/keys/key_port.h"

enum operation_kind { OPERATION_CHECK, OPERATION_ADD };

/* What is known of one key. */
enum answer {
    ANSWER_NO,   /* check: absent. add: was (or may have been) there */
    ANSWER_YES,  /* check: present, or maybe. add: new */
    ANSWER_LOST, /* it may be lost, and the filter is configured to answer an error */
    ANSWER_FULL, /* add: not there, and the filter is full and may not grow */
    ANSWER_ERROR /* none: the deadline passed for this key, say */
};

struct key_operation;
typedef void key_operation_done_fn(struct key_operation *op, void *arg);

/* @bytes: sum of the keys' lengths. NULL: no memory. */
struct key_operation *key_operation_new(struct key_port *p, enum operation_kind kind, size_t keys,
                                        size_t bytes);
/* Copy one key; exactly as many as announced. */
void key_operation_put(struct key_operation *op, const char *key, size_t length);
/* The same of keys that lie in one piece of memory: copy that (as many bytes as were announced), and then
 * name each key at its place in the copy. */
char *key_operation_copy(struct key_operation *op, const char *bytes, size_t length);
void key_operation_name(struct key_operation *op, const char *key, size_t length);
/* Another deadline than the port's; before it is started. */
void key_operation_set_timeout(struct key_operation *op, unsigned ms);
/* An add that may not have its filter grow ends with ERR_FULL. */
void key_operation_set_bounded(struct key_operation *op, bool bounded);
/* Of an add, for its next start: a filter that is full does not end it with ERR_FULL, but its keys are only
 * looked up; one that is not there is ANSWER_FULL. */
void key_operation_look_if_full(struct key_operation *op);

/* Start, or start again. True: it has ended, and nobody is told. Else @done is called once, later. */
MUST_CHECK bool key_operation_start(struct key_operation *op, struct key_filter *f,
                                    key_operation_done_fn *done, void *arg);

/* When it has ended: ERR_OK, ERR_NOT_FOUND (the filter was never made), ERR_TIMEOUT, ERR_UNREACHABLE,
 * ERR_PARSE, ERR_CONFIG (its shards lie on a node that is not configured here), ERR_FORMAT (another
 * version's), ERR_LOST (the view is lost), ERR_REFUSED (Redis answers with an error, e.g. out of memory),
 * ERR_CANCELLED, ERR_FULL (see key_operation_set_bounded()), ERR_WRONG_TYPE (the text is Redis's); text for
 * people. */
enum err key_operation_status(const struct key_operation *op);
const char *key_operation_error(const struct key_operation *op);
size_t key_operation_keys(const struct key_operation *op);
/* Of key @i, whatever the status says: the deadline may pass for some keys alone. */
enum answer key_operation_answer(const struct key_operation *op, size_t i);
/* How many of the @count keys from @from on, up to the first that has another answer, are ANSWER_YES or
 * ANSWER_NO; @yes: 1 or 0 of each. */
size_t key_operation_plain(const struct key_operation *op, size_t from, size_t count, uint8_t *yes);
/* How many keys there are up to the first that is ANSWER_FULL, and with it. */
size_t key_operation_until_full(const struct key_operation *op);
/* Of a check, at any time: key @i was found, and what else comes of the operation changes nothing of that. */
bool key_operation_found(const struct key_operation *op, size_t i);
enum operation_kind key_operation_kind(const struct key_operation *op);
bool key_operation_any_no(const struct key_operation *op);
/* True where it was retried, or delayed: a later operation of the same client may have overtaken it. */
bool key_operation_was_retried(const struct key_operation *op);
/* An add that was begun: nothing that is begun later in this thread comes before it. */
bool key_operation_is_in_order(const struct key_operation *op);

/* Give up ownership, at any time while the port lives; no callback comes after it. */
void key_operation_release(struct key_operation *op);
#endif
