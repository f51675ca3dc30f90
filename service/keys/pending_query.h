/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_PENDING_QUERY_H
#define SERVICE_KEYS_PENDING_QUERY_H
/* An operation, and what an add may need before it can be done: a filter that is to be made, another layer
 * for one that is full. Knows no protocol and no connection. Belongs to one thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/mailbox.h"
#include "service/filters/filter_make.h"
#include "service/keys/key_operation.h"

struct admin_call;
struct admin_threads;

/* What is asked of a filter, but for the keys. */
struct key_query {
    struct admin_threads *admin; /* make what is missing */
    struct mailbox *mailbox;     /* of the thread that asks */
    enum operation_kind kind;
    struct key_filter *filter;
    struct creation creation;
    const char *user;     /* who asks, for as long as it does; NULL: nobody that has a quota */
    bool unmade_is_empty; /* a check of a filter that was never made finds no key; else that is a failure */
};

struct pending_query;
typedef void pending_query_done_fn(struct pending_query *a);

struct pending_query {
    struct key_query asked;
    pending_query_done_fn *on_done;
    struct key_operation *op;
    struct admin_call *call; /* in the admin thread, or on its way there or back */
    unsigned creations;
    enum err refused; /* what the add needs could not be made */
    char *refusal;    /* why; NULL: no memory */
};

/* Start @op, which becomes @a's. True: it is done, and nobody is told. Else on_done is called once, later.
 * Also to ask once more what is done. The first two members are the caller's to fill. */
MUST_CHECK bool pending_query_start(struct pending_query *a, struct key_operation *op);
/* At any time; no call comes after it. What is under way ends by itself. */
void pending_query_fini(struct pending_query *a);

/* Why keys have no answer. */
struct failure {
    enum err code;
    bool unmade; /* what the add needs could not be made; else the operation failed */
    const char *text;
};

/* No key has an answer, for the reason that pending_query_failure() gives. */
bool pending_query_failed(const struct pending_query *a);
/* Its text lives as long as @a is neither started again nor ended. */
struct failure pending_query_failure(const struct pending_query *a);

/* Of one key; ANSWER_ERROR: pending_query_failure() says why. */
enum answer pending_query_answer(const struct pending_query *a, size_t i);
#endif
