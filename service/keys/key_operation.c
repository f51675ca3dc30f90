/* SPDX-License-Identifier: MIT */
/* The happy path is: `shard/request` answers, and the callback is called. Possible failure modes are: the
 * filter does not exist or has no room (the admin thread creates or extends it, and the operation starts
 * again), the admin thread fails (its error is the failure), the owner has gone meanwhile (the admin thread's
 * answer is dropped). */
#include "service/keys/key_operation.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "service/admin/admin.h"
#include "service/filters/filter_states.h"
#include "shard/request/key_request.h"

enum { CREATIONS_MAX = 8 /* per add, in case somebody deletes its filter again and again */ };

struct key_operation {
    key_operation_done_fn *done;
    void *arg;
    struct key_query asked;
    struct open_filter *open; /* set while the operation runs */
    struct admin_call *call;  /* the call in the admin thread, or on its way there or back */
    unsigned creations;
    enum err refused; /* why the admin thread could not make what the add needs */
    char *refusal;    /* text of `refused`; NULL: no memory */
    bool is_running, is_released, has_answers;
    bool was_retried;
    uint64_t started_at; /* monotonic clock, us */
    unsigned timeout_ms; /* 0: the timeout of the port */
    enum key_room room;
    bool errs_on_loss; /* if keys may be lost, answer an error, not "maybe" */
    enum err status;
    char *error;
    size_t count, filled, bytes_filled;
    struct key_request request;
    struct request_key *keys;
    uint8_t *answers;
    char *bytes;
};

_Static_assert(sizeof(struct key_operation) + KEY_OPERATION_ONE_KEY <= KEY_OPERATION_BYTES,
               "operations of one key are kept for the next ones");

/* --- start and end --- */

struct key_operation *key_operation_new(const struct key_query *q, size_t keys, size_t bytes)
{
    size_t size = sizeof(struct key_operation) + keys * (sizeof(struct request_key) + 1) + bytes;
    struct key_operation *op = pool_take(&q->filter->port->operations, size);
    if (op == NULL)
        return NULL;
    memset(op, 0, offsetof(struct key_operation, request));
    op->asked = *q;
    key_filter_use(q->filter);
    op->count = keys;
    op->keys = (struct request_key *)(op + 1);
    op->answers = (uint8_t *)(op->keys + keys);
    op->bytes = (char *)op->answers + keys;
    return op;
}

char *key_operation_copy(struct key_operation *op, const char *bytes, size_t length)
{
    char *copy = op->bytes + op->bytes_filled;
    if (length > 0)
        memcpy(copy, bytes, length);
    op->bytes_filled += length;
    return copy;
}

void key_operation_name(struct key_operation *op, const char *key, size_t length)
{
    op->keys[op->filled++] = (struct request_key){.bytes = key, .length = length};
}

static void leave_filter(struct key_operation *op)
{
    open_filter_close(op->open);
    op->open = NULL;
}

static void operation_free(struct key_operation *op)
{
    struct key_port *p = op->asked.filter->port;
    leave_filter(op);
    key_filter_unuse(op->asked.filter);
    free(op->error);
    free(op->refusal);
    pool_give(&p->operations, op);
}

void key_operation_release(struct key_operation *op)
{
    if (op == NULL)
        return;
    op->is_released = true;
    if (op->call != NULL)
        op->call->asker = NULL; /* the admin thread does not read this member */
    if (!op->is_running)
        operation_free(op);
}

static bool make_room_first(struct key_operation *op);

static void finish(struct key_operation *op)
{
    op->is_running = false;
    leave_filter(op);
    if (op->is_released)
        operation_free(op);
    else if (!make_room_first(op))
        op->done(op, op->arg);
}

static void set_status(struct key_operation *op, enum err code, const char *text)
{
    op->status = code;
    free(op->error);
    op->error = text[0] != '\0' ? strdup(text) : NULL;
}

/* --- the outcome --- */

/* The filter may have lost keys, so no key can be reported absent. */
static void take_lost(struct key_operation *op, const char *text)
{
    if (op->asked.kind == OPERATION_ADD || op->asked.filter->policy.error_on_lost) {
        set_status(op, ERR_LOST, text);
    } else {
        memset(op->answers, KEY_MAYBE, op->count);
        op->has_answers = true;
        set_status(op, ERR_OK, "");
    }
}

/* A filter that the configuration names and that does not exist is treated as one that was lost. */
static void take_missing(struct key_operation *op, const char *text)
{
    const struct filter_policy *policy = &op->asked.filter->policy;
    op->asked.filter->seen = false;
    if (!policy->configured || (!policy->sourced && op->asked.kind == OPERATION_ADD)) {
        set_status(op, ERR_NOT_FOUND, "not found");
    } else {
        take_lost(op, text);
    }
}

static enum err open_filter(struct key_operation *op, struct key_filter *f)
{
    struct error e; /* not initialised where it is not needed, because it is large */
    (void)key_filter_close_if_over(f);
    enum err code = ERR_OK;
    if (f->open == NULL)
        code = filters_open(f->port->service->logs, f->name, f->name_length, &f->open, &e);
    if (code == ERR_OK)
        op->open = open_filter_keep(f->open);
    else
        set_status(op, code, e.text);
    return code;
}

/* The filter was found, so from now on its absence is a loss. The controllers are told, as they look for
 * filters whose names are missing from the list. */
static void take_found(struct key_operation *op)
{
    struct key_filter *f = op->asked.filter;
    if (f->seen)
        return;
    f->seen = true;
    filter_states_on_seen(f->port->service->watch, f->name, f->name_length,
                          log_filter_incarnation(open_filter_log(op->open)));
}

static bool ask(struct key_operation *op, uint64_t now, uint64_t timeout);

static uint64_t timeout_us(const struct key_operation *op)
{
    uint64_t ms = op->timeout_ms != 0 ? op->timeout_ms : (*op->asked.filter->port->config)->timeout_ms;
    return ms * 1000;
}

/* What was known of the name before the operation began may belong to a filter that was deleted and created
 * again since. */
static bool is_outdated(const struct key_operation *op, enum err code)
{
    bool of_view = code == ERR_NOT_FOUND || code == ERR_PARSE || code == ERR_FORMAT || code == ERR_WRONG_TYPE;
    return of_view && open_filter_is_over(op->open) && open_filter_since(op->open) < op->started_at;
}

static void on_told(void *arg, enum err code, const char *text)
{
    struct key_operation *op = arg;
    op->was_retried |= op->request.was_delayed;
    if (!op->is_released && is_outdated(op, code)) {
        leave_filter(op);
        op->was_retried = true;
        uint64_t now = clock_mono_us(), until = op->started_at + timeout_us(op);
        if (ask(op, now, until > now ? until - now : 0))
            finish(op);
        return;
    }
    if (code == ERR_NOT_FOUND) {
        take_missing(op, text);
    } else if (code == ERR_LOST) {
        take_lost(op, text);
    } else {
        bool is_late = code == ERR_TIMEOUT || code == ERR_UNREACHABLE;
        op->has_answers = code == ERR_OK || (is_late && op->asked.kind == OPERATION_CHECK);
        if (code == ERR_OK)
            take_found(op);
        /* The key of the view holds something else. */
        bool foreign = code == ERR_WRONG_TYPE && open_filter_is_over(op->open);
        set_status(op, code, foreign ? "Operation against a key holding the wrong kind of value" : text);
    }
    finish(op);
}

/* Run the next step at time @now, with @timeout in us. True: the operation has ended. */
static bool ask(struct key_operation *op, uint64_t now, uint64_t timeout)
{
    struct key_filter *f = op->asked.filter;
    memset(op->answers, KEY_NO_ANSWER, op->count); /* of the operation before that had this memory */
    if (open_filter(op, f) != ERR_OK)
        return true;
    struct request_port *p = f->port->requests;
    struct log_filter *log = open_filter_log(op->open);
    request_port_set_timeout(p, now, timeout);
    if (op->asked.kind == OPERATION_ADD) {
        const struct key_terms terms = {.room = op->room,
                                        .need = {.replicas = f->policy.add_acks,
                                                 .fsync = f->policy.add_fsync,
                                                 .timeout_ms = (unsigned)(timeout / 1000)}};
        key_add(p, log, &op->request, op->keys, (unsigned)op->count, op->answers, &terms, on_told, op);
    } else if (key_check(p, log, &op->request, op->keys, (unsigned)op->count, op->answers, on_told, op)) {
        op->has_answers = true;
        take_found(op);
        return true;
    }
    return false;
}

/* --- running --- */

/* True: the operation has ended. */
static bool run(struct key_operation *op)
{
    const struct key_filter *f = op->asked.filter;
    op->was_retried |= op->started_at != 0;
    op->started_at = clock_mono_us();
    latency_use(&f->port->service->latency, op->started_at);
    op->has_answers = false;
    op->errs_on_loss = f->policy.error_on_lost;
    set_status(op, ERR_OK, "");
    op->is_running = !ask(op, op->started_at, timeout_us(op));
    if (op->is_running)
        return false;
    leave_filter(op);
    return !make_room_first(op);
}

bool key_operation_start(struct key_operation *op, key_operation_done_fn *done, void *arg)
{
    op->done = done;
    op->arg = arg;
    op->room = op->asked.user != NULL ? KEY_ROOM_ENDS : KEY_ROOM_WAITS;
    return run(op);
}

void key_operation_set_timeout(struct key_operation *op, unsigned ms)
{
    op->timeout_ms = ms;
}

/* --- making what an add needs --- */

static void take_refusal(struct key_operation *op, const struct admin_call *call)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    buffer_printf(&text, "%s: %s",
                  call->fn == admin_create ? admin_creation_failure(call, call->status)
                                           : "could not grow filter",
                  call->error.text);
    op->refused = call->status;
    free(op->refusal);
    op->refusal = strdup(buffer_text(&text));
}

static void on_made(void *arg)
{
    struct admin_call *call = arg;
    struct key_operation *op = call->asker;
    if (op == NULL) {
        admin_call_free(call);
        return;
    }
    bool made = call->status == ERR_OK || call->status == ERR_EXISTS, grew = call->fn == admin_grow;
    op->call = NULL;
    if (made) {
        op->room = !grew && op->asked.user != NULL ? KEY_ROOM_ENDS : KEY_ROOM_WAITS;
    } else {
        take_refusal(op, call);
        op->room = KEY_ROOM_LOOKS; /* keys that are already there need no room */
    }
    admin_call_free(call);
    if ((!made && !grew) || run(op))
        op->done(op, op->arg);
}

static bool may_create(const struct key_operation *op)
{
    const struct creation *c = &op->asked.creation;
    return c->allowed && (!c->if_configured || op->asked.filter->policy.configured) &&
           op->creations < CREATIONS_MAX;
}

/* If an add finds no filter, or no room in it, have the admin thread make it first. */
static bool make_room_first(struct key_operation *op)
{
    const struct key_query *q = &op->asked;
    bool create = op->status == ERR_NOT_FOUND && may_create(op);
    if (!create && op->status != ERR_FULL)
        return false;
    op->creations += create;
    op->call = admin_call_new(create ? admin_create : admin_grow, q->filter->name, q->filter->name_length);
    if (op->call == NULL)
        return false;
    op->call->creation = q->creation;
    op->call->user = q->user != NULL ? strdup(q->user) : NULL;
    if (q->user != NULL && op->call->user == NULL) { /* without a user there is no quota */
        admin_call_free(op->call);
        op->call = NULL;
        return false;
    }
    op->call->asker = op;
    admin_post(q->admin, op->call, q->mailbox, on_made);
    return true;
}

/* --- answers --- */

static bool finds_no_key(const struct key_operation *op)
{
    return op->asked.unmade_is_empty && op->asked.kind == OPERATION_CHECK && op->status == ERR_NOT_FOUND;
}

bool key_operation_failed(const struct key_operation *op)
{
    if (op->refused == ERR_OK && (op->status == ERR_OK || finds_no_key(op)))
        return false;
    for (size_t i = 0; i < op->count; i++)
        if (key_operation_answer(op, i) != ANSWER_ERROR)
            return false;
    return true;
}

struct failure key_operation_failure(const struct key_operation *op)
{
    if (op->refused != ERR_OK)
        return (struct failure){
            .code = op->refused, .unmade = true, .text = op->refusal != NULL ? op->refusal : "out of memory"};
    const char *text = op->error != NULL ? op->error : error_name(op->status);
    return (struct failure){.code = op->status, .text = op->status == ERR_OK ? "ok" : text};
}

const struct key_query *key_operation_query(const struct key_operation *op)
{
    return &op->asked;
}

size_t key_operation_keys(const struct key_operation *op)
{
    return op->count;
}

/* The filter's answer to key @i. */
static enum answer told(const struct key_operation *op, size_t i)
{
    if (!op->has_answers)
        return ANSWER_ERROR;
    switch ((enum key_answer)op->answers[i]) {
    case KEY_PRESENT:
    case KEY_ADDED:
        return ANSWER_YES;
    case KEY_MAYBE:
        return op->errs_on_loss ? ANSWER_LOST : ANSWER_YES;
    case KEY_NO_ROOM:
        return ANSWER_FULL;
    case KEY_NO_ANSWER:
        return ANSWER_ERROR;
    case KEY_ABSENT:
    case KEY_OLD:
    case KEY_UNSURE:
        break;
    }
    return ANSWER_NO;
}

enum answer key_operation_answer(const struct key_operation *op, size_t i)
{
    enum answer answer = finds_no_key(op) ? ANSWER_NO : told(op, i);
    return answer == ANSWER_FULL && op->refused != ERR_OK ? ANSWER_ERROR : answer;
}

/* A set of enum key_answer values, as bits. */
#define SET(answer) (1U << (answer))
#define SET_YES (SET(KEY_PRESENT) | SET(KEY_ADDED))
#define SET_NO (SET(KEY_ABSENT) | SET(KEY_OLD) | SET(KEY_UNSURE))

size_t key_operation_plain(const struct key_operation *op, size_t from, size_t count, uint8_t *yes)
{
    const unsigned are_yes = op->errs_on_loss ? SET_YES : SET_YES | SET(KEY_MAYBE);
    const uint8_t *answers = op->answers + from;
    size_t i = 0;
    if (!op->has_answers)
        return 0;
    for (; i < count && ((are_yes | SET_NO) >> answers[i] & 1) != 0; i++)
        yes[i] = are_yes >> answers[i] & 1;
    return i;
}

size_t key_operation_until_full(const struct key_operation *op)
{
    bool ends = op->has_answers && op->refused == ERR_OK;
    const uint8_t *full = ends ? memchr(op->answers, KEY_NO_ROOM, op->count) : NULL;
    return full != NULL ? (size_t)(full - op->answers) + 1 : op->count;
}

bool key_operation_found(const struct key_operation *op, size_t i)
{
    return op->answers[i] == KEY_PRESENT;
}

bool key_operation_any_no(const struct key_operation *op)
{
    for (size_t i = 0; i < op->count; i++)
        if (key_operation_answer(op, i) == ANSWER_NO)
            return true;
    return false;
}

bool key_operation_was_retried(const struct key_operation *op)
{
    return op->was_retried;
}

bool key_operation_is_in_order(const struct key_operation *op)
{
    return op->is_running && op->status == ERR_OK && key_request_is_in_order(&op->request);
}
