/* SPDX-License-Identifier: MIT */
/* The happy path is: the operation ends, and on_done is called. Possible failure modes are: the filter does
 * not exist or has no room (the admin thread creates or extends it, and the operation starts again), the
 * admin thread fails (its error is the failure), the owner has gone meanwhile (the admin thread's answer is
 * dropped). */
#include "service/keys/pending_query.h"

#include <stdlib.h>
#include <string.h>
#include "service/admin/admin.h"

enum { CREATIONS_MAX = 8 /* per add, in case somebody deletes its filter again and again */ };

static bool start(struct pending_query *a);

static void start_again(struct pending_query *a)
{
    if (start(a))
        a->on_done(a);
}

static void take_made(struct pending_query *a, const struct admin_call *call)
{
    if (call->status == ERR_OK || call->status == ERR_EXISTS) {
        key_operation_set_bounded(a->op, call->fn != admin_grow && a->asked.user != NULL);
        start_again(a);
        return;
    }
    struct buffer text = {0};
    buffer_printf(&text, "%s: %s",
                  call->fn == admin_create ? admin_creation_failure(call, call->status)
                                           : "could not grow filter",
                  call->error.text);
    a->refused = call->status;
    free(a->refusal);
    a->refusal = strdup(buffer_text(&text));
    buffer_fini(&text);
    if (call->fn != admin_grow) {
        a->on_done(a);
        return;
    }
    key_operation_look_if_full(a->op); /* keys that are already there need no room */
    start_again(a);
}

static void on_made(void *arg)
{
    struct admin_call *call = arg;
    struct pending_query *a = call->asker;
    if (a != NULL) {
        a->call = NULL;
        take_made(a, call);
    }
    admin_call_free(call);
}

static bool may_create(const struct pending_query *a)
{
    const struct creation *c = &a->asked.creation;
    return c->allowed && (!c->if_configured || a->asked.filter->policy.configured) &&
           a->creations < CREATIONS_MAX;
}

/* If an add finds no filter, or no room in it, have the admin thread make it first. */
static bool make_room_first(struct pending_query *a)
{
    const struct key_query *q = &a->asked;
    enum err status = key_operation_status(a->op);
    bool create = status == ERR_NOT_FOUND && may_create(a);
    if (!create && status != ERR_FULL)
        return false;
    a->creations += create;
    a->call = admin_call_new(create ? admin_create : admin_grow, q->filter->name, q->filter->name_length);
    if (a->call == NULL)
        return false;
    a->call->creation = q->creation;
    a->call->user = q->user != NULL ? strdup(q->user) : NULL;
    if (q->user != NULL && a->call->user == NULL) { /* without a user there is no quota */
        admin_call_free(a->call);
        a->call = NULL;
        return false;
    }
    a->call->asker = a;
    admin_post(q->admin, a->call, q->mailbox, on_made);
    return true;
}

static void on_operation(struct key_operation *op, void *arg)
{
    (void)op;
    struct pending_query *a = arg;
    if (!make_room_first(a))
        a->on_done(a);
}

/* Start the operation. True: the query is done. */
static bool start(struct pending_query *a)
{
    return key_operation_start(a->op, a->asked.filter, on_operation, a) && !make_room_first(a);
}

bool pending_query_start(struct pending_query *a, struct key_operation *op)
{
    a->op = op;
    key_operation_set_bounded(op, a->asked.user != NULL);
    return start(a);
}

void pending_query_fini(struct pending_query *a)
{
    if (a->call != NULL)
        a->call->asker = NULL; /* the admin thread does not read this member */
    a->call = NULL;
    if (a->op != NULL)
        key_operation_release(a->op);
    a->op = NULL;
    free(a->refusal);
    a->refusal = NULL;
}

static bool finds_no_key(const struct pending_query *a)
{
    return a->asked.unmade_is_empty && key_operation_kind(a->op) == OPERATION_CHECK &&
           key_operation_status(a->op) == ERR_NOT_FOUND;
}

bool pending_query_failed(const struct pending_query *a)
{
    if (a->refused == ERR_OK && (key_operation_status(a->op) == ERR_OK || finds_no_key(a)))
        return false;
    for (size_t i = 0; i < key_operation_keys(a->op); i++)
        if (pending_query_answer(a, i) != ANSWER_ERROR)
            return false;
    return true;
}

struct failure pending_query_failure(const struct pending_query *a)
{
    if (a->refused != ERR_OK)
        return (struct failure){
            .code = a->refused, .unmade = true, .text = a->refusal != NULL ? a->refusal : "out of memory"};
    enum err code = key_operation_status(a->op);
    return (struct failure){.code = code, .text = code == ERR_OK ? "ok" : key_operation_error(a->op)};
}

enum answer pending_query_answer(const struct pending_query *a, size_t i)
{
    if (finds_no_key(a))
        return ANSWER_NO;
    enum answer answer = key_operation_answer(a->op, i);
    return answer == ANSWER_FULL && a->refused != ERR_OK ? ANSWER_ERROR : answer;
}
