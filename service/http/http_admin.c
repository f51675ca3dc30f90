/* SPDX-License-Identifier: MIT */
/* Routes whose work is done by the admin thread. It calls the functions that serve TB.* and BF.RESERVE, and
 * their replies are converted to JSON here. */
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/number.h"
#include "service/http/http_internal.h"
#include "service/http/message/http_json.h"
#include "service/protocol/job_id.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000 }; /* filters per page */

/* --- to the admin thread and back --- */

static void on_call_done(void *arg)
{
    struct admin_call *call = arg;
    struct http_request *r = call->asker;
    r->http->calls--;
    if (r->connection != NULL)
        call->on_done(call, r, call->done_arg);
    http_request_release(r);
    admin_call_free(call);
}

/* Run @call, which is taken over, in the admin thread, and then call @on_done, unless the request has been
 * answered meanwhile. If too many calls are under way, the request is answered with an error at once. */
static void call_admin(struct http_request *r, struct admin_call *call,
                       void (*on_done)(struct admin_call *call, void *request, void *arg))
{
    struct http *h = r->http;
    if (call != NULL && !http_limit(r, call)) {
        admin_call_free(call);
        call = NULL;
    }
    if (call == NULL || h->calls >= HTTP_CALLS_MAX) {
        if (call == NULL)
            http_no_memory(r);
        else
            http_problem(r, HTTP_OVERLOADED, "%d requests wait already; nothing was done", HTTP_CALLS_MAX);
        admin_call_free(call);
        return;
    }
    h->calls++;
    call->asker = http_request_hold(r);
    call->protocol = REPLY_TYPED;
    call->on_done = on_done;
    admin_post(h->o.admin, call, h->mailbox, on_call_done);
}

static struct admin_call *call_for(const struct http_request *r)
{
    const char *name = r->filter.data == NULL ? "" : r->filter.data;
    struct admin_call *call = admin_call_new(r->route->fn, name, r->filter.length);
    if (call != NULL)
        call->flags = (unsigned)r->route->wish;
    return call;
}

/* --- answers --- */

/* Answer with the reply of @call, as JSON, between @before and @after. */
static void answer_from_reply(struct http_request *r, const struct admin_call *call, const char *before,
                              const char *after)
{
    struct buffer json = {0};
    struct error e = {.text = ""};
    if (call->status != ERR_OK) {
        http_failure(r, call->status, call->error.text);
        return;
    }
    buffer_puts(&json, before);
    enum err code = buffer_failed(&call->reply)
                        ? error_set(&e, ERR_NOMEM, "out of memory")
                        : http_json_reply(&json, call->reply.data, call->reply.length, &e);
    buffer_puts(&json, after);
    if (code == ERR_OK) {
        http_answer(r, 200, &json);
        return;
    }
    log_error("http_reply_failed", "path=%s code=%s error=%s", log_quote(r->route->pattern), error_name(code),
              log_quote(e.text));
    buffer_fini(&json);
    if (code == ERR_NOMEM)
        http_no_memory(r);
    else
        http_problem(r, HTTP_INTERNAL, "%s", e.text);
}

static void on_object(struct admin_call *call, void *request, void *arg)
{
    (void)arg;
    answer_from_reply(request, call, "", "");
}

static void on_history(struct admin_call *call, void *request, void *arg)
{
    (void)arg;
    answer_from_reply(request, call, "{\"history\":", "}");
}

static void on_created(struct admin_call *call, void *request, void *arg)
{
    (void)arg;
    struct buffer json = {0}, location = {0};
    if (call->status != ERR_OK) {
        http_failure(request, call->status, call->error.text);
        return;
    }
    buffer_puts(&location, "/v1/filters/");
    http_percent_encode(&location, call->filter, call->filter_length);
    buffer_puts(&json, "{\"filter\":");
    http_json_bytes(&json, call->filter, call->filter_length);
    buffer_puts(&json, "}");
    http_header(request, "Location", buffer_text(&location));
    buffer_fini(&location);
    http_answer(request, 201, &json);
}

/* An accepted request is done later, by a job. Trust is the exception: it takes effect at once, without a
 * job. */
static void on_accepted(struct admin_call *call, void *request, void *arg)
{
    (void)arg;
    struct http_request *r = request;
    struct buffer json = {0}, location = {0};
    if (call->status != ERR_OK) {
        http_failure(r, call->status, call->error.text);
        return;
    }
    buffer_puts(&json, "{\"filter\":");
    http_json_bytes(&json, call->filter, call->filter_length);
    buffer_printf(&json, ",\"accepted\":\"%s\"", strrchr(r->route->pattern, '/') + 1);
    if (call->job != 0) {
        buffer_puts(&location, "/v1/jobs/");
        job_id_put(&location, call->filter, call->filter_length, call->job);
        http_header(r, "Location", buffer_text(&location));
        buffer_printf(&json, ",\"job_id\":\"%s\"", strrchr(buffer_text(&location), '/') + 1);
    }
    buffer_puts(&json, "}");
    buffer_fini(&location);
    http_answer(r, call->fn == admin_accept ? 200 : 202, &json);
}

static void on_job(struct admin_call *call, void *request, void *arg)
{
    if (call->status == ERR_NOT_FOUND)
        http_error(request, ERR_NOT_FOUND, "%s", call->error.text);
    else
        on_object(call, request, arg);
}

static void on_deleted(struct admin_call *call, void *request, void *arg)
{
    (void)arg;
    struct buffer nothing = {0};
    if (call->status == ERR_OK)
        http_answer(request, 204, &nothing);
    else
        http_failure(request, call->status, call->error.text);
}

static void on_coordinators(struct admin_call *call, void *request, void *arg)
{
    (void)arg;
    answer_from_reply(request, call, "{\"coordinators\":", "}");
}

static void on_nodes(struct admin_call *call, void *request, void *arg)
{
    (void)arg;
    answer_from_reply(request, call, "{\"nodes\":", "}");
}

/* ERR_BUSY means here that the request came too soon. Elsewhere it means a conflict. */
static void on_shards(struct admin_call *call, void *request, void *arg)
{
    if (call->status == ERR_BUSY)
        http_problem(request, HTTP_OVERLOADED, "%s", call->error.text);
    else
        on_object(call, request, arg);
}

/* --- routes --- */

void http_coordinators(struct http_request *r)
{
    char *filter = http_query(r, "filter");
    size_t length = filter == NULL ? 0 : strlen(filter);
    if (length == 0 || http_authorise(r, r->route->role, filter, length))
        call_admin(r, admin_call_new(r->route->fn, filter == NULL ? "" : filter, length), on_coordinators);
    free(filter);
}

void http_nodes(struct http_request *r)
{
    call_admin(r, admin_call_new(r->route->fn, "", 0), on_nodes);
}

void http_status(struct http_request *r)
{
    call_admin(r, call_for(r), on_object);
}

void http_shards(struct http_request *r)
{
    call_admin(r, call_for(r), on_shards);
}

/* Read a number from the query. False: it is invalid, and the request was answered. */
static bool query_count(struct http_request *r, const char *name, uint64_t *to)
{
    char *text = http_query(r, name);
    bool good = text == NULL || (number_u64(text, strlen(text), to) && *to > 0 && *to <= INT64_MAX);
    free(text);
    if (!good)
        http_error(r, ERR_RANGE, "the parameter '%s' is not an integer above 0", name);
    return good;
}

static bool query_rate(struct http_request *r, double *to)
{
    char *text = http_query(r, "error_rate");
    bool good = text == NULL || (number_double(text, strlen(text), to) && *to > 0 && *to < 1);
    free(text);
    if (!good)
        http_error(r, ERR_RANGE, "the parameter 'error_rate' is not a number above 0 and below 1");
    return good;
}

/* Read the cursor: the page begins behind the name in it. False: the cursor is invalid, and the request was
 * answered. */
static bool query_cursor(struct http_request *r, struct buffer *name)
{
    char *text = http_query(r, "cursor");
    bool good = text == NULL || job_id_take_name(name, text, strlen(text));
    free(text);
    if (!good)
        http_error(r, ERR_RANGE, "the parameter 'cursor' is not the 'next' of a page");
    return good;
}

void http_list(struct http_request *r)
{
    uint64_t limit = PAGE_DEFAULT;
    struct buffer name = {0};
    if (!query_count(r, "limit", &limit))
        return;
    if (limit > PAGE_MAX) {
        http_error(r, ERR_RANGE, "the parameter 'limit' is larger than %d", PAGE_MAX);
    } else if (query_cursor(r, &name)) {
        struct admin_call *call = admin_call_new(r->route->fn, buffer_text(&name), name.length);
        if (call != NULL)
            call->count = limit;
        call_admin(r, call, on_object);
    }
    buffer_fini(&name);
}

/* Call with the limit that the parameter 'count' gives. */
static void call_with_count(struct http_request *r, void (*done)(struct admin_call *, void *, void *))
{
    uint64_t count = 0;
    if (!query_count(r, "count", &count))
        return;
    struct admin_call *call = call_for(r);
    if (call != NULL)
        call->count = count;
    call_admin(r, call, done);
}

void http_history(struct http_request *r)
{
    call_with_count(r, on_history);
}

void http_samples(struct http_request *r)
{
    call_with_count(r, on_object);
}

void http_plan(struct http_request *r)
{
    uint64_t capacity = 0;
    double rate = 0;
    if (!query_count(r, "capacity", &capacity) || !query_rate(r, &rate))
        return;
    struct admin_call *call = call_for(r);
    if (call != NULL) {
        call->nodes = http_query(r, "nodes");
        call->capacity = capacity;
        call->error_rate = rate;
    }
    call_admin(r, call, on_object);
}

void http_create(struct http_request *r)
{
    const struct http_body *b = &r->body;
    const char *name = b->bytes.data + b->name.offset;
    if (!http_authorise(r, r->route->role, name, b->name.length))
        return;
    struct admin_call *call = admin_call_new(r->route->fn, name, b->name.length);
    if (call != NULL)
        call->creation = (struct creation){.allowed = true,
                                           .capacity = b->capacity,
                                           .error_rate = b->error_rate,
                                           .expansion = b->expansion,
                                           .non_scaling = b->nonscaling};
    call_admin(r, call, on_created);
}

void http_job(struct http_request *r)
{
    struct admin_call *call = call_for(r);
    if (call != NULL)
        call->job = r->job;
    call_admin(r, call, on_job);
}

void http_delete(struct http_request *r)
{
    call_admin(r, call_for(r), on_deleted);
}

void http_control(struct http_request *r)
{
    const struct http_body *b = &r->body;
    struct admin_call *call = call_for(r);
    if (call != NULL && b->nodes.length > 0 &&
        (call->nodes = strdup(b->bytes.data + b->nodes.offset)) == NULL) {
        admin_call_free(call);
        call = NULL;
    }
    if (call != NULL) {
        call->capacity = b->capacity;
        call->error_rate = b->error_rate;
        call->hold = b->hold;
        call->dry_run = b->dry_run;
        call->verify_full = b->verify_full;
        call->rows_per_second = b->rows_per_second;
    }
    call_admin(r, call, b->dry_run ? on_object : on_accepted);
}
