/* SPDX-License-Identifier: MIT */
/* The happy path is: libevent has read a whole request, its row of the table is found, whoever asks may ask
 * it, its body is parsed, the handler answers now or later. Possible failure modes are: each of these steps
 * says no (a problem is the answer), the handler's work takes too long (504, and what comes afterwards is
 * dropped), the daemon ends (503). The connection cannot go away under a request: libevent does not read from
 * it until it is answered. */
#include "service/http/http_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/batch.h"
#include "service/http/http_json.h"

/* --- status codes --- */

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

int http_status_at(size_t i)
{
    return i < sizeof(reasons) / sizeof(reasons[0]) ? reasons[i].status : 0;
}

const char *http_reason(int status)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Error";
}

int http_status_of(enum err code)
{
    switch (code) {
    case ERR_OK:
        return 200;
    case ERR_PARSE:
        return 400;
    case ERR_RANGE:
        return 422;
    case ERR_NOT_FOUND:
        return 404;
    case ERR_EXISTS:
    case ERR_BUSY:
    case ERR_CONFLICT:
    case ERR_CONFIG:
    case ERR_MUTEX_LOST:
    case ERR_WRONG_TYPE:
    case ERR_FULL:
        return 409;
    case ERR_TIMEOUT:
        return 504;
    case ERR_NOMEM:
    case ERR_UNREACHABLE:
    case ERR_REFUSED:
    case ERR_LOST:
    case ERR_FENCED:
    case ERR_CANCELLED:
    case ERR_ASIDE:
    case ERR_FORMAT: /* another coordinator may know it */
        return 503;
    case ERR_IO:
        break;
    }
    return 500;
}

/* --- answers --- */

struct http_request *http_request_hold(struct http_request *r)
{
    r->references++;
    return r;
}

void http_request_release(struct http_request *r)
{
    if (--r->references > 0)
        return;
    if (r->deadline != NULL)
        event_free(r->deadline);
    batch_free(r->batch);
    buffer_fini(&r->filter);
    http_body_fini(&r->body);
    free(r);
}

void http_header(struct http_request *r, const char *name, const char *value)
{
    if (r->req != NULL)
        (void)evhttp_add_header(evhttp_request_get_output_headers(r->req), name, value);
}

static void send_as(struct http_request *r, int status, const char *type, struct buffer *body)
{
    char length[24];
    struct http *h = r->http;
    struct evhttp_request *req = r->req;
    struct evbuffer *out = evbuffer_new();
    bool good =
        out != NULL && !buffer_failed(body) && (r->head || evbuffer_add(out, body->data, body->length) == 0);
    (void)snprintf(length, sizeof(length), "%zu", good ? body->length : 0);
    http_header(r, "Content-Type", type);
    http_header(r, "Content-Length", length);
    if (evhttp_find_header(evhttp_request_get_output_headers(req), "Cache-Control") == NULL)
        http_header(r, "Cache-Control", "no-store");
    http_header(r, "X-Request-Id", r->id);
    http_header(r, "X-Content-Type-Options", "nosniff");
    if (r->close || h->draining)
        http_header(r, "Connection", "close");
    http_meter_count(r, good ? status : 503);
    r->req = NULL;
    h->working -= r->working;
    LIST_REMOVE(r, link);
    http_connection_answered(r->connection, req, r->close);
    h->answering = true;
    evhttp_send_reply(req, good ? status : 503, http_reason(good ? status : 503), good ? out : NULL);
    h->answering = false;
    if (out != NULL)
        evbuffer_free(out);
    http_request_release(r);
}

void http_answer_as(struct http_request *r, int status, const char *type, struct buffer *body)
{
    if (r->req != NULL)
        send_as(r, status, type, body);
    buffer_fini(body);
}

void http_answer(struct http_request *r, int status, struct buffer *json)
{
    http_answer_as(r, status, "application/json", json);
}

void http_problem_body(struct buffer *out, int status, const char *detail, const char *instance)
{
    buffer_printf(out,
                  "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":", http_reason(status),
                  status);
    http_json_text(out, detail, strlen(detail));
    if (instance != NULL) {
        buffer_puts(out, ",\"instance\":");
        http_json_text(out, instance, strlen(instance));
    }
    buffer_puts(out, "}");
}

static const char *path_of(const struct http_request *r)
{
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(r->req));
    return path == NULL || *path == '\0' ? "/" : path;
}

void http_problem(struct http_request *r, int status, const char *format, ...)
{
    char detail[1024];
    struct buffer body = {0};
    if (r->req == NULL)
        return;
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(detail, sizeof(detail), format, ap);
    va_end(ap);
    http_problem_body(&body, status, detail, path_of(r));
    if (status == 503) {
        char seconds[8];
        (void)snprintf(seconds, sizeof(seconds), "%d", HTTP_RETRY_AFTER);
        http_header(r, "Retry-After", seconds);
    }
    send_as(r, status, "application/problem+json", &body);
    buffer_fini(&body);
}

void http_failure(struct http_request *r, enum err code, const char *why)
{
    http_problem(r, http_status_of(code), "%s", code == ERR_NOT_FOUND ? "there is no such filter" : why);
}

static void on_deadline(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct http_request *r = arg;
    http_problem(r, 504, "no answer within %llu ms; what was begun goes on",
                 (unsigned long long)r->http->config->http_timeout_ms);
}

/* --- what a request is --- */

static const char *method_of(const struct evhttp_request *req)
{
    static const struct {
        enum evhttp_cmd_type type;
        const char *name;
    } methods[] = {{EVHTTP_REQ_GET, "GET"},         {EVHTTP_REQ_HEAD, "HEAD"},
                   {EVHTTP_REQ_POST, "POST"},       {EVHTTP_REQ_PUT, "PUT"},
                   {EVHTTP_REQ_DELETE, "DELETE"},   {EVHTTP_REQ_PATCH, "PATCH"},
                   {EVHTTP_REQ_OPTIONS, "OPTIONS"}, {EVHTTP_REQ_TRACE, "TRACE"}};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (methods[i].type == evhttp_request_get_command(req))
            return methods[i].name;
    return "?";
}

static bool is_token(const char *text)
{
    static const char separators[] = "()<>@,;:\\\"/[]?={} \t";
    bool good = *text != '\0';
    for (; *text != '\0'; text++)
        good = good && *text > 0x20 && *text < 0x7f && strchr(separators, *text) == NULL;
    return good;
}

/* Headers of which one decides how the request is read, or who asks: two of them are an attempt to be read
 * differently by somebody else. */
static const char *twofold(const struct evkeyvalq *headers)
{
    static const char *const single[] = {"Content-Length", "Transfer-Encoding", "Host", "Authorization",
                                         "Content-Type"};
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
        const struct evkeyval *h;
        size_t count = 0;
        TAILQ_FOREACH(h, headers, next)
        count += strcasecmp(h->key, single[i]) == 0;
        if (count > 1)
            return single[i];
    }
    return NULL;
}

/* libevent has found the end of this request by some of its headers: what could be understood in another way
 * is refused, and nothing more is read from that connection. */
static bool is_well_framed(struct http_request *r)
{
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(r->req);
    const struct evkeyval *h;
    const char *encoding = evhttp_find_header(headers, "Transfer-Encoding");
    const char *length = evhttp_find_header(headers, "Content-Length");
    const char *twice = twofold(headers);
    r->close = true;
    TAILQ_FOREACH(h, headers, next)
    if (!is_token(h->key)) {
        http_problem(r, 400, "a header's name is not a token");
        return false;
    }
    if (twice != NULL)
        http_problem(r, 400, "the header %s is there twice", twice);
    else if (encoding != NULL && length != NULL)
        http_problem(r, 400, "Transfer-Encoding and Content-Length exclude each other");
    else if (encoding != NULL && strcasecmp(encoding, "chunked") != 0)
        http_problem(r, 501, "the only Transfer-Encoding known here is chunked");
    else if (length != NULL && (length[strspn(length, "0123456789")] != '\0' || *length == '\0'))
        http_problem(r, 400, "Content-Length is not a number");
    else if (r->head && (encoding != NULL || (length != NULL && strtoull(length, NULL, 10) != 0)))
        http_problem(r, 400, "HEAD has no body");
    else
        r->close = false;
    return !r->close;
}

static bool find_route(struct http_request *r, const char *method)
{
    bool known;
    r->route = http_route_find(method, path_of(r), &r->filter, &known);
    if (r->route != NULL && !buffer_failed(&r->filter))
        return true;
    if (r->route != NULL) {
        http_problem(r, 503, "out of memory");
    } else if (!known) {
        http_problem(r, 404, "there is nothing at this path; see /v1/openapi.json");
    } else {
        struct buffer allow = {0};
        http_route_allow(path_of(r), &allow);
        bool allowed = strstr(buffer_text(&allow), method) != NULL;
        http_header(r, "Allow", buffer_text(&allow));
        if (allowed)
            http_problem(r, 400, "the path holds a %% that two hexadecimal digits do not follow");
        else
            http_problem(r, 405, "this path takes %s", buffer_text(&allow));
        buffer_fini(&allow);
    }
    return false;
}

/* application/json, with or without parameters. What a browser sends without asking first is something else:
 * this guards against requests forged by other sites. */
static bool is_json(const struct http_request *r)
{
    static const char wanted[] = "application/json";
    const char *type = evhttp_find_header(evhttp_request_get_input_headers(r->req), "Content-Type");
    if (type == NULL || strncasecmp(type, wanted, sizeof(wanted) - 1) != 0)
        return false;
    const char *behind = type + sizeof(wanted) - 1;
    behind += strspn(behind, " \t");
    return *behind == '\0' || *behind == ';';
}

static bool take_body(struct http_request *r)
{
    struct http *h = r->http;
    struct error e = {.text = ""};
    struct evbuffer *in = evhttp_request_get_input_buffer(r->req);
    size_t length = evbuffer_get_length(in);
    if (!is_json(r)) {
        http_problem(r, 415, "the Content-Type must be application/json, of an empty body, too");
        return false;
    }
    if (h->working > 0 && h->working + length > HTTP_WORKING_FACTOR * h->config->http_body_max) {
        http_problem(r, 503, "too much is being worked on; nothing was done");
        return false;
    }
    const char *text = length == 0 ? "" : (const char *)evbuffer_pullup(in, -1);
    enum err code = text == NULL ? error_set(&e, ERR_NOMEM, "out of memory")
                                 : http_body_parse(&r->body, r->route->body, text, length, &e);
    (void)evbuffer_drain(in, length);
    if (code != ERR_OK) {
        http_problem(r, http_status_of(code), "%s", e.text);
        return false;
    }
    r->working = length;
    h->working += length;
    return true;
}

static bool set_deadline(struct http_request *r)
{
    uint64_t ms = r->http->config->http_timeout_ms;
    const struct timeval patience = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
    r->deadline = evtimer_new(r->http->base, on_deadline, r);
    if (r->deadline != NULL && evtimer_add(r->deadline, &patience) == 0)
        return true;
    http_problem(r, 503, "out of memory");
    return false;
}

/* See README.md, "Other sites". Probes are for everybody. */
static bool is_asked_from_here(struct http_request *r)
{
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(r->req);
    const struct http *h = r->http;
    const char *given = evhttp_find_header(headers, "Authorization");
    const struct origin_facts facts = {.host = evhttp_find_header(headers, "Host"),
                                       .origin = evhttp_find_header(headers, "Origin"),
                                       .fetch_site = evhttp_find_header(headers, "Sec-Fetch-Site"),
                                       .language = evhttp_find_header(headers, "Accept-Language"),
                                       .token = evhttp_find_header(headers, "X-CSRF-Token"),
                                       .user = r->user,
                                       .changes = strcmp(r->route->method, "GET") != 0,
                                       .bearer = given != NULL && strncasecmp(given, "Bearer ", 7) == 0,
                                       .login = users_login_required(h->config) && !http_scrapes_freely(r)};
    int status;
    const char *fault = r->route->role == HTTP_ROLE_NONE
                            ? NULL
                            : origin_fault(&facts, h->csrf_key, h->host, h->config->http_hosts, &status);
    if (fault != NULL)
        http_problem(r, status, "%s", fault);
    return fault == NULL;
}

/* It is known who asks. */
static void serve_known(struct http_request *r)
{
    bool named = r->filter.length > 0;
    if (!is_asked_from_here(r) ||
        !http_authorise(r, r->route->role, named ? r->filter.data : NULL, r->filter.length))
        return;
    if (r->route->body == 0 || take_body(r))
        r->route->run(r);
}

static void serve(struct http_request *r, const char *method)
{
    if (is_well_framed(r) && find_route(r, method) && set_deadline(r))
        http_authenticate(r, serve_known);
}

void http_on_request(struct evhttp_request *req, void *http)
{
    struct http *h = http;
    const char *method = method_of(req);
    struct http_connection *connection = http_connection_busy(h, req);
    struct http_request *r = connection == NULL ? NULL : calloc(1, sizeof(*r));
    if (r == NULL) {
        (void)evhttp_add_header(evhttp_request_get_output_headers(req), "Connection", "close");
        evhttp_send_error(req, 503, http_reason(503));
        return;
    }
    r->http = h;
    r->req = req;
    r->connection = connection;
    r->began_us = clock_mono_us();
    r->references = 1; /* of the one who answers */
    http_id_take(r);
    r->head = strcmp(method, "HEAD") == 0;
    LIST_INSERT_HEAD(&h->requests, r, link);
    http_connection_serves(connection, r);
    atomic_fetch_add_explicit(&h->service->commands, 1, memory_order_relaxed);
    (void)http_request_hold(r);
    serve(r, method);
    http_request_release(r);
}

char *http_query(const struct http_request *r, const char *name)
{
    struct evkeyvalq pairs;
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(r->req));
    if (query == NULL || evhttp_parse_query_str(query, &pairs) != 0)
        return NULL;
    const char *value = evhttp_find_header(&pairs, name);
    char *copy = value == NULL ? NULL : strdup(value);
    evhttp_clear_headers(&pairs);
    return copy;
}
