/* SPDX-License-Identifier: MIT */
/* The happy path is: the operation ends, on_done is called. Possible failure modes are: there is no filter,
 * or no room in it (the admin thread makes it, and the operation starts again), that fails (its text is the
 * reply), the client is gone meanwhile (the answer of the admin thread is dropped then). */
#include "service/asking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "service/admin.h"
#include "service/client.h"

enum { CREATIONS_MAX = 8 /* of one add, whose filter somebody deletes again and again */ };

static void on_operation(struct operation *op, void *arg);

static void on_made(struct admin_call *call, void *asker, void *arg)
{
    (void)asker;
    struct asking *a = arg;
    bool deleted = call->fn == admin_grow && call->status == ERR_NOT_FOUND; /* the operation finds out */
    if (call->status == ERR_OK || call->status == ERR_EXISTS || deleted) {
        operation_start(a->op, a->filter, on_operation, a);
        return;
    }
    struct buffer text = {0};
    buffer_printf(&text, "ERR could not %s filter: %s", call->fn == admin_create ? "create" : "grow",
                  call->error.text);
    a->refusal = strdup(buffer_text(&text));
    buffer_fini(&text);
    a->on_done(a);
}

/* An add that finds no filter, or no room in it, waits until there is one. */
static bool make_room_first(struct asking *a)
{
    enum err status = operation_status(a->op);
    bool create = status == ERR_NOT_FOUND && a->creation.allowed && a->creations < CREATIONS_MAX;
    if (!create && status != ERR_FULL)
        return false;
    a->creations += create;
    struct admin_call *call =
        admin_call_new(create ? admin_create : admin_grow, a->filter->name, a->filter->name_length);
    if (call == NULL)
        return false;
    call->creation = a->creation;
    call->on_done = on_made;
    call->done_arg = a;
    client_post_admin(a->client, call);
    return true;
}

static void on_operation(struct operation *op, void *arg)
{
    (void)op;
    struct asking *a = arg;
    if (!make_room_first(a))
        a->on_done(a);
}

void asking_start(struct asking *a, struct operation *op)
{
    a->op = op;
    operation_start(op, a->filter, on_operation, a);
}

void asking_fini(struct asking *a)
{
    if (a->op != NULL)
        operation_release(a->op);
    a->op = NULL;
    free(a->refusal);
    a->refusal = NULL;
}

static bool never_made(const struct asking *a)
{
    return operation_status(a->op) == ERR_NOT_FOUND && operation_kind(a->op) == OPERATION_CHECK;
}

bool asking_failed(const struct asking *a)
{
    if (a->refusal == NULL && (operation_status(a->op) == ERR_OK || never_made(a)))
        return false;
    for (size_t i = 0; i < operation_keys(a->op); i++)
        if (operation_answered(a->op, i))
            return false;
    return true;
}

void asking_error(const struct asking *a, struct reply *out)
{
    enum err status = operation_status(a->op);
    if (a->refusal != NULL)
        reply_error(out, "%s", a->refusal);
    else if (status == ERR_NOT_FOUND)
        reply_error(out, "ERR not found");
    else if (status == ERR_WRONG_TYPE)
        reply_error(out, "%s", operation_error(a->op));
    else
        reply_error(out, "%s %s", status == ERR_UNREACHABLE ? "CLUSTERDOWN" : "ERR", operation_error(a->op));
}

enum answer asking_answer(const struct asking *a, size_t i)
{
    if (never_made(a))
        return ANSWER_NO;
    if (!operation_answered(a->op, i))
        return ANSWER_ERROR;
    switch (operation_result(a->op, i)) {
    case KEY_NO:
        return ANSWER_NO;
    case KEY_YES:
        return ANSWER_YES;
    case KEY_FULL:
        return ANSWER_FULL;
    case KEY_LOST:
        break;
    }
    return ANSWER_LOST;
}

void answer_reply(struct reply *out, enum answer answer, const char *filter, const char *error)
{
    switch (answer) {
    case ANSWER_NO:
    case ANSWER_YES:
        reply_boolean(out, answer == ANSWER_YES);
        break;
    case ANSWER_FULL:
        reply_error(out, "ERR non scaling filter is full");
        break;
    case ANSWER_LOST:
        reply_error(out, "ERR filter '%s' is degraded: the data of this key's shard is lost", filter);
        break;
    case ANSWER_ERROR:
        reply_error(out, "%s", error);
        break;
    }
}

void tally_add(struct tally *t, enum answer answer, const char *error)
{
    t->keys++;
    t->yes += answer == ANSWER_YES;
    t->done += answer == ANSWER_YES || answer == ANSWER_NO;
    if (answer == ANSWER_NO || answer == ANSWER_YES || t->worst != ANSWER_NO)
        return;
    t->worst = answer;
    (void)snprintf(t->error, sizeof(t->error), "%s", error == NULL ? "" : error);
}

void tally_reply(const struct tally *t, struct reply *out, const char *filter)
{
    if (t->worst == ANSWER_NO) {
        reply_integer(out, (int64_t)t->yes);
        return;
    }
    answer_reply(out, t->worst, filter, t->error);
    struct buffer *b = out->out;
    if (buffer_failed(b))
        return;
    b->length -= 2; /* the line goes on */
    buffer_printf(b, "; %zu of %zu items were done\r\n", t->done, t->keys);
}
