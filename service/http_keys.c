/* SPDX-License-Identifier: MIT */
/* Check and add. A batch is cut into slices, each an operation of its own, a few of them at a time: a large
 * one leaves room for others between its slices.
 *
 * The happy path is: slices start, end in any order, the last one answers. Possible failure modes are: a
 * slice fails (no further one starts, and the answer is a problem: what was added stays added, and may be
 * added again), an add finds no room or no filter (made first, then the slice goes on), the request is
 * answered by its deadline (no further slice starts). */
#include <stdlib.h>
#include <string.h>
#include "service/http_internal.h"
#include "service/http_json.h"
#include "shard/operation.h"

enum { SLICE_KEYS = 500, SLICES_MAX = 4 };

struct batch {
    struct http_request *r; /* held */
    enum operation_kind kind;
    size_t next; /* the first key of the next slice */
    unsigned running;
    enum err status; /* of the first slice that failed */
    struct error error;
    uint8_t results[]; /* enum key_result of each key */
};

struct slice {
    struct batch *batch;
    struct operation *op;
    struct catalog_filter *filter;
    size_t first;
    bool created; /* the filter was made for it: once */
};

static void advance(struct batch *b);
static void on_operation(struct operation *op, void *arg);

/* --- the answer --- */

static const char *error_of(enum key_result result)
{
    return result == KEY_FULL ? "{\"error\":\"full\",\"detail\":\"the filter is full and does not scale\"}"
                              : "{\"error\":\"lost\",\"detail\":\"the data of this key's shard is lost\"}";
}

static void answer(struct batch *b)
{
    size_t count = b->r->body.key_count;
    struct buffer json = {0};
    buffer_puts(&json, "{\"results\":[");
    for (size_t i = 0; i < count; i++) {
        enum key_result result = (enum key_result)b->results[i];
        if (i > 0)
            buffer_puts(&json, ",");
        if (result == KEY_YES || result == KEY_NO)
            buffer_puts(&json, result == KEY_YES ? "true" : "false");
        else
            buffer_puts(&json, error_of(result));
    }
    buffer_puts(&json, "]}");
    http_answer(b->r, 200, &json);
}

static void end(struct batch *b)
{
    if (b->status == ERR_OK)
        answer(b);
    else
        http_failure(b->r, b->status, b->error.text);
    http_request_release(b->r);
    free(b);
}

/* --- slices --- */

static void fail(struct batch *b, enum err status, const char *text)
{
    if (b->status == ERR_OK)
        b->status = error_set(&b->error, status, "%s", text);
}

static void end_slice(struct slice *s)
{
    struct batch *b = s->batch;
    operation_release(s->op);
    free(s);
    b->running--;
    advance(b);
}

static void on_room(void *arg)
{
    struct admin_call *call = arg;
    struct slice *s = call->asker;
    struct batch *b = s->batch;
    bool good = call->status == ERR_OK || call->status == ERR_EXISTS;
    if (good && b->r->req != NULL && !b->r->http->stopped) {
        operation_start(s->op, s->filter, on_operation, s);
    } else {
        fail(b, good ? ERR_CANCELLED : call->status, good ? "cancelled" : call->error.text);
        end_slice(s);
    }
    admin_call_free(call);
}

/* An add that finds no room, or a configured filter that is not made yet, waits until there is one. */
static bool make_room_first(struct slice *s)
{
    struct http *h = s->batch->r->http;
    const struct catalog_filter *f = s->filter;
    enum err status = operation_status(s->op);
    bool create = status == ERR_NOT_FOUND && s->batch->kind == OPERATION_ADD && !s->created &&
                  config_find(h->config, f->name, f->name_length) != NULL;
    if (h->stopped || s->batch->r->req == NULL || (!create && status != ERR_FULL))
        return false;
    s->created |= create;
    struct admin_call *call = admin_call_new(create ? admin_create : admin_grow, f->name, f->name_length);
    if (call == NULL)
        return false;
    call->creation.allowed = true;
    call->asker = s;
    admin_post(h->service, call, h->mailbox, on_room);
    return true;
}

static void on_operation(struct operation *op, void *arg)
{
    struct slice *s = arg;
    struct batch *b = s->batch;
    if (make_room_first(s))
        return;
    if (operation_status(op) == ERR_OK)
        for (size_t i = 0; i < operation_keys(op); i++)
            b->results[s->first + i] = (uint8_t)operation_result(op, i);
    else
        fail(b, operation_status(op), operation_error(op));
    end_slice(s);
}

static void start_slice(struct batch *b)
{
    const struct http_body *body = &b->r->body;
    struct catalog *catalog = b->r->http->catalog;
    size_t first = b->next, bytes = 0;
    size_t count = body->key_count - first < SLICE_KEYS ? body->key_count - first : SLICE_KEYS;
    struct catalog_filter *filter;
    struct error e;
    enum err code = catalog_find(catalog, b->r->filter.data, b->r->filter.length, &filter, &e);
    if (code != ERR_OK) {
        fail(b, code, e.text);
        return;
    }
    for (size_t i = first; i < first + count; i++)
        bytes += body->keys[i].length;
    struct slice *s = calloc(1, sizeof(*s));
    struct operation *op = s == NULL ? NULL : operation_new(catalog, b->kind, count, bytes);
    if (op == NULL) {
        free(s);
        fail(b, ERR_NOMEM, "out of memory");
        return;
    }
    for (size_t i = first; i < first + count; i++)
        operation_key(op, body->keys[i].length == 0 ? "" : body->bytes.data + body->keys[i].offset,
                      body->keys[i].length);
    *s = (struct slice){.batch = b, .op = op, .filter = filter, .first = first};
    b->next += count;
    b->running++;
    operation_start(op, filter, on_operation, s);
}

static void advance(struct batch *b)
{
    while (b->status == ERR_OK && b->r->req != NULL && b->running < SLICES_MAX &&
           b->next < b->r->body.key_count)
        start_slice(b);
    if (b->running == 0)
        end(b);
}

/* --- routes --- */

static void operate(struct http_request *r, enum operation_kind kind)
{
    struct batch *b = calloc(1, sizeof(*b) + r->body.key_count);
    if (b == NULL) {
        http_problem(r, 503, "out of memory");
        return;
    }
    b->r = http_request_hold(r);
    b->kind = kind;
    advance(b);
}

void http_check(struct http_request *r)
{
    operate(r, OPERATION_CHECK);
}

void http_add(struct http_request *r)
{
    operate(r, OPERATION_ADD);
}
