/* SPDX-License-Identifier: MIT */
/* Routes whose work is done by the admin thread. It calls the functions that serve TB.* and BF.RESERVE, and
 * their replies are JSON. */
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "service/http/http_internal.h"
#include "service/protocol/json.h"
#include "service/protocol/job_id.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000 }; /* filters per page */

/* --- answers --- */

/* Answer with the reply of @call as JSON. */
static void answer_reply(struct http_request *r, const struct admin_call *call)
{
    const char *member = r->route->member;
    SCOPED(buffer_fini) struct buffer json = {0};
    if (member != NULL)
        buffer_printf(&json, "{\"%s\":", member);
    buffer_append(&json, call->reply.data, call->reply.length);
    if (member != NULL)
        buffer_puts(&json, "}");
    if (!buffer_failed(&json) && !buffer_failed(&call->reply)) {
        http_answer(r, 200, &json);
        return;
    }
    http_no_memory(r);
}

static void answer_created(struct http_request *r, const struct admin_call *call)
{
    SCOPED(buffer_fini) struct buffer json = {0}, location = {0};
    buffer_puts(&location, "/v1/filters/");
    buffer_percent(&location, call->filter, call->filter_length);
    buffer_puts(&json, "{\"filter\":");
    json_put_bytes(&json, call->filter, call->filter_length);
    buffer_puts(&json, "}");
    http_header(r, "Location", buffer_text(&location));
    http_answer(r, 201, &json);
}

/* An accepted request is done later, by a job. Trust is the exception: it takes effect at once, without a
 * job. */
static void answer_accepted(struct http_request *r, const struct admin_call *call)
{
    SCOPED(buffer_fini) struct buffer json = {0}, location = {0};
    buffer_puts(&json, "{\"filter\":");
    json_put_bytes(&json, call->filter, call->filter_length);
    buffer_printf(&json, ",\"accepted\":\"%s\"", strrchr(r->route->pattern, '/') + 1);
    if (call->job != 0) {
        buffer_puts(&location, "/v1/jobs/");
        job_id_put(&location, call->filter, call->filter_length, call->job);
        http_header(r, "Location", buffer_text(&location));
        buffer_printf(&json, ",\"job_id\":\"%s\"", strrchr(buffer_text(&location), '/') + 1);
    }
    buffer_puts(&json, "}");
    http_answer(r, call->fn == admin_accept ? 200 : 202, &json);
}

static void answer(struct http_request *r, const struct admin_call *call)
{
    admin_fn *fn = r->route->fn;
    if (call->status == ERR_NOT_FOUND && fn == admin_job)
        http_error(r, ERR_NOT_FOUND, "%s", call->error.text);
    else if (call->status == ERR_BUSY && fn == admin_shards) /* the request came too soon; no conflict */
        http_problem(r, HTTP_OVERLOADED, "%s", call->error.text);
    else if (call->status != ERR_OK)
        http_failure(r, call->status, call->error.text);
    else if (fn == admin_reserve)
        answer_created(r, call);
    else if (fn == admin_delete)
        http_answer(r, 204, &(struct buffer){0});
    else if (r->route->body != 0 && !call->dry_run)
        answer_accepted(r, call);
    else
        answer_reply(r, call);
}

/* --- to the admin thread and back --- */

static void on_done(void *arg)
{
    struct admin_call *call = arg;
    struct http_request *r = call->asker;
    r->http->calls--;
    if (r->connection != NULL)
        answer(r, call);
    http_request_release(r);
    admin_call_free(call);
}

/* The answer comes later, unless the request has been answered meanwhile. If too many calls are under way,
 * the request is answered with an error at once. */
void http_ask(struct http_request *r)
{
    struct http *h = r->http;
    struct admin_call *call = admin_call_new(r->route->fn, r->filter.data, r->filter.length);
    if (call == NULL || !http_limit(r, call)) {
        http_no_memory(r);
    } else if (r->route->take != NULL && !r->route->take(r, call)) {
        /* answered */
    } else if (h->calls >= HTTP_CALLS_MAX) {
        http_problem(r, HTTP_OVERLOADED, "%d requests wait already; nothing was done", HTTP_CALLS_MAX);
    } else {
        h->calls++;
        call->asker = http_request_hold(r);
        call->protocol = REPLY_JSON;
        call->flags = r->route->value;
        call->job = r->job;
        admin_post(h->o.admin, call, h->mailbox, on_done);
        return;
    }
    admin_call_free(call);
}

/* --- what a request asks for --- */

/* Name the filter of the call. False: no memory, and the request was answered. */
static bool name_filter(struct http_request *r, struct admin_call *call, const char *name, size_t length)
{
    bool named = admin_call_name(call, name, length);
    if (!named)
        http_no_memory(r);
    return named;
}

bool http_take_filter(struct http_request *r, struct admin_call *call)
{
    SCOPED(scope_free) char *filter = http_query(r, "filter");
    size_t length = filter == NULL ? 0 : strlen(filter);
    return filter == NULL ||
           (http_authorise(r, r->route->role, filter, length) && name_filter(r, call, filter, length));
}

/* Read a number from the query. False: it is invalid, and the request was answered. */
static bool query_count(struct http_request *r, const char *name, uint64_t *to)
{
    SCOPED(scope_free) char *text = http_query(r, name);
    bool good = text == NULL || (number_u64(text, strlen(text), to) && *to > 0 && *to <= INT64_MAX);
    if (!good)
        http_error(r, ERR_RANGE, "the parameter '%s' is not an integer above 0", name);
    return good;
}

bool http_take_plan(struct http_request *r, struct admin_call *call)
{
    if (!query_count(r, "capacity", &call->capacity))
        return false;
    SCOPED(scope_free) char *text = http_query(r, "error_rate");
    double *to = &call->error_rate;
    bool good = text == NULL || (number_double(text, strlen(text), to) && *to > 0 && *to < 1);
    if (good)
        call->nodes = http_query(r, "nodes");
    else
        http_error(r, ERR_RANGE, "the parameter 'error_rate' is not a number above 0 and below 1");
    return good;
}

/* The page begins behind the name in the cursor. */
bool http_take_page(struct http_request *r, struct admin_call *call)
{
    SCOPED(buffer_fini) struct buffer name = {0};
    call->count = PAGE_DEFAULT;
    if (!query_count(r, "limit", &call->count))
        return false;
    if (call->count > PAGE_MAX) {
        http_error(r, ERR_RANGE, "the parameter 'limit' is larger than %d", PAGE_MAX);
        return false;
    }
    SCOPED(scope_free) char *text = http_query(r, "cursor");
    bool good = text == NULL || job_id_take_name(&name, text, strlen(text));
    if (!good)
        http_error(r, ERR_RANGE, "the parameter 'cursor' is not the 'next' of a page");
    return good && (text == NULL || name_filter(r, call, buffer_text(&name), name.length));
}

bool http_take_count(struct http_request *r, struct admin_call *call)
{
    return query_count(r, "count", &call->count);
}

bool http_take_creation(struct http_request *r, struct admin_call *call)
{
    const struct http_body *b = &r->body;
    const char *name = b->bytes.data + b->name.offset;
    call->creation = (struct creation){.allowed = true,
                                       .capacity = b->capacity,
                                       .error_rate = b->error_rate,
                                       .expansion = (uint32_t)b->expansion,
                                       .non_scaling = b->nonscaling};
    return http_authorise(r, r->route->role, name, b->name.length) &&
           name_filter(r, call, name, b->name.length);
}

bool http_take_job(struct http_request *r, struct admin_call *call)
{
    const struct http_body *b = &r->body;
    call->capacity = b->capacity;
    call->error_rate = b->error_rate;
    call->hold = b->hold;
    call->dry_run = b->dry_run;
    call->verify_full = b->verify_full;
    call->rows_per_second = b->rows_per_second;
    if (b->nodes.length == 0 || (call->nodes = strdup(b->bytes.data + b->nodes.offset)) != NULL)
        return true;
    http_no_memory(r);
    return false;
}
