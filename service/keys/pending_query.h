/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_PENDING_QUERY_H
#define SERVICE_KEYS_PENDING_QUERY_H
/* An operation on keys, and what an add may need first: a filter that does not exist yet, or another layer
 * for a filter that is full. It knows no protocol and no connection. It belongs to one thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/mailbox.h"
#include "service/filters/filter_make.h"
#include "service/keys/key_operation.h"

struct admin_call;
struct admin_threads;

/* A request without its keys. */
struct key_query {
    struct admin_threads *admin; /* creates what is missing */
    struct mailbox *mailbox;     /* the mailbox of the calling thread */
    enum operation_kind kind;
    struct key_filter *filter;
    struct creation creation;
    const char *user;     /* the user, valid as long as the query; NULL: a user without a quota */
    bool unmade_is_empty; /* a check of a filter that was never created finds no key; otherwise it fails */
};

struct pending_query;
typedef void pending_query_done_fn(struct pending_query *a);

struct pending_query {
    struct key_query asked;
    pending_query_done_fn *on_done;
    struct key_operation *op;
    struct admin_call *call; /* the call in the admin thread, or on its way there or back */
    unsigned creations;
    enum err refused; /* why the admin thread could not make what the add needs */
    char *refusal;    /* text of `refused`; NULL: no memory */
};

/* Start @op, which @a takes over. True: it is done, and on_done is not called. Otherwise on_done is called
 * once, later. May be called again to repeat a query that is done. The caller fills the first two members. */
MUST_CHECK bool pending_query_start(struct pending_query *a, struct key_operation *op);
/* May be called at any time. No callback comes afterwards, and operations under way run to their end. */
void pending_query_fini(struct pending_query *a);

/* Why keys have no answer. */
struct failure {
    enum err code;
    /* The filter or layer that the add needs could not be made; otherwise the operation failed. */
    bool unmade;
    const char *text;
};

/* True if no key has an answer; pending_query_failure() says why. */
bool pending_query_failed(const struct pending_query *a);
/* The text is valid until @a is started again or ended. */
struct failure pending_query_failure(const struct pending_query *a);

/* The answer to one key. For ANSWER_ERROR, pending_query_failure() says why. */
enum answer pending_query_answer(const struct pending_query *a, size_t i);
#endif
