/* SPDX-License-Identifier: MIT */
/* The happy path is: the head of a request arrives, its row in the table of routes is found, the user is
 * known and has the right, the body is read and parsed, and the handler answers now or later. Possible
 * failure modes are: one of these steps refuses the request (the answer is a problem; the body of a user
 * without the right is not kept), the handler takes too long (504, and its later answer is dropped), the
 * connection is closed (the request ends; who holds it finds `connection` NULL), the daemon ends (503). */
#include "service/http/http_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <event2/util.h>
#include "base/clock.h"
#include "service/keys/batch.h"
#include "service/protocol/job_id.h"
#include "service/keys/loop.h"
#include "shard/filter/hash.h"

enum { HEAD_BYTES = 512 /* enough for nearly all answers */ };

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
    loop_event_free(r->deadline);
    batch_free(r->batch);
    buffer_fini(&r->filter);
    buffer_fini(&r->headers);
    http_body_fini(&r->body);
    free(r);
}

void http_request_end(struct http_request *r)
{
    r->connection->request = NULL;
    r->connection = NULL;
    if (r->login_is_vain != NULL)
        atomic_store(r->login_is_vain, true);
    r->http->held -= r->working;
    LIST_REMOVE(r, link);
    http_request_release(r);
}

void http_header(struct http_request *r, const char *name, const char *value)
{
    buffer_printf(&r->headers, "%s: %s\r\n", name, value);
}

/* Write the head of an answer, up to the headers that were added for it. */
static void begin_head(struct http_request *r, struct buffer *out, int status, bool last)
{
    struct http *h = r->http;
    time_t now = time(NULL);
    if (now != h->dated)
        (void)evutil_date_rfc1123(h->date, sizeof(h->date), NULL);
    h->dated = now;
    (void)buffer_reserve(out, HEAD_BYTES);
    buffer_printf(out,
                  "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Request-Id: %s\r\nX-Content-Type-Options: nosniff\r\n",
                  status, http_reason(status), h->date, r->id);
    static const char cache[] = "Cache-Control: ";
    if (r->headers.length == 0 || memmem(r->headers.data, r->headers.length, cache, strlen(cache)) == NULL)
        buffer_puts(out, "Cache-Control: no-store\r\n");
    if (last)
        buffer_puts(out, "Connection: close\r\n");
    else if (r->connection->parser.minor == 0)
        buffer_puts(out, "Connection: keep-alive\r\n");
    buffer_append(out, r->headers.data, r->headers.length);
}

static void send_as(struct http_request *r, int status, const char *type, struct buffer *body)
{
    SCOPED(buffer_fini) struct buffer head = {0};
    struct http_connection *c = r->connection;
    bool last = !http_connection_may_go_on(c) || r->http->draining;
    if (buffer_failed(body) || buffer_failed(&r->headers)) {
        status = 503;
        buffer_clear(body);
    }
    begin_head(r, &head, status, last);
    if (status != 204 && status != 304) /* the length and type would be those of the 200 */
        buffer_printf(&head, "Content-Type: %s\r\nContent-Length: %zu\r\n", type, body->length);
    buffer_puts(&head, "\r\n");
    http_meter_count(r, status);
    if (r->head)
        buffer_clear(body);
    bool sent = !buffer_failed(&head) && http_connection_answer(c, &head, body);
    http_request_end(r);
    if (sent)
        http_connection_answered(c, last);
    else
        http_connection_drop(c, "out of memory");
}

bool http_stream_begin(struct http_request *r)
{
    SCOPED(buffer_fini) struct buffer head = {0};
    begin_head(r, &head, 200, true);
    buffer_puts(&head, r->connection->parser.minor > 0 ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    http_meter_count(r, 200);
    return !buffer_failed(&head) && http_connection_send(r->connection, head.data, head.length);
}

bool http_stream_send(struct http_request *r, const struct buffer *bytes)
{
    SCOPED(buffer_fini) struct buffer chunk = {0};
    bool framed = r->connection->parser.minor > 0;
    if (framed)
        buffer_printf(&chunk, "%zx\r\n", bytes->length);
    buffer_append(&chunk, bytes->data, bytes->length);
    if (framed)
        buffer_puts(&chunk, "\r\n");
    return !buffer_failed(bytes) && !buffer_failed(&chunk) &&
           http_connection_send(r->connection, chunk.data, chunk.length);
}

void http_stream_end(struct http_request *r)
{
    struct http_connection *c = r->connection;
    bool sent = c->parser.minor == 0 || http_connection_send(c, "0\r\n\r\n", 5);
    http_request_end(r);
    if (sent)
        http_connection_answered(c, true);
    else
        http_connection_drop(c, "out of memory");
}

void http_answer_as(struct http_request *r, int status, const char *type, struct buffer *body)
{
    if (r->connection != NULL)
        send_as(r, status, type, body);
    buffer_fini(body);
}

void http_answer_builtin(struct http_request *r, int status, const char *type, const void *bytes,
                         size_t length)
{
    /* Without a capacity the connection does not copy it. */
    struct buffer body = {.data = (char *)bytes, .length = length};
    if (r->connection != NULL)
        send_as(r, status, type, &body);
}

void http_answer(struct http_request *r, int status, struct buffer *json)
{
    http_answer_as(r, status, "application/json", json);
}

static const char *path_of(const struct http_request *r)
{
    return r->connection->parser.path;
}

static void send_problem(struct http_request *r, int status, const char *code, const char *format, va_list ap)
{
    char detail[1024];
    SCOPED(buffer_fini) struct buffer body = {0};
    if (r->connection == NULL)
        return;
    (void)vsnprintf(detail, sizeof(detail), format, ap);
    http_problem_body(&body, status, code, detail, path_of(r));
    if (status == 503) {
        char seconds[8];
        (void)snprintf(seconds, sizeof(seconds), "%d", HTTP_RETRY_AFTER);
        http_header(r, "Retry-After", seconds);
    }
    send_as(r, status, "application/problem+json", &body);
}

void http_problem(struct http_request *r, enum http_code code, const char *format, ...)
{
    const struct http_code_row *row = http_code_row(code);
    va_list ap;
    va_start(ap, format);
    send_problem(r, row->status, row->name, format, ap);
    va_end(ap);
}

void http_error(struct http_request *r, enum err code, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    send_problem(r, http_status_of(code), error_name(code), format, ap);
    va_end(ap);
}

void http_failure(struct http_request *r, enum err code, const char *why)
{
    http_error(r, code, "%s",
               code == ERR_NOT_FOUND ? "the filter does not exist; GET /v1/filters lists the filters" : why);
}

void http_refusal(struct http_request *r, int status, const char *why)
{
    if (status == 503)
        http_no_memory(r);
    else
        http_problem(r, http_code_of_refusal(status), "%s", why);
}

void http_no_memory(struct http_request *r)
{
    http_error(r, ERR_NOMEM, "out of memory");
}

static void on_deadline(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct http_request *r = arg;
    if (r->late != NULL)
        r->late(r->late_arg);
    else if (r->connection != NULL && r->connection->reading == READING_BODY)
        http_connection_drop(r->connection, "no request came in time"); /* frees @r, too */
    else
        http_error(r, ERR_TIMEOUT, "no answer within http_timeout (%llu ms); the operation continues",
                   (unsigned long long)r->http->config->http_timeout_ms);
}

/* --- what a request asks for --- */

const char *http_asked(const struct http_request *r, const char *header)
{
    return http_parser_header(&r->connection->parser, header);
}

/* Find the filter of the job that the path names. */
static bool find_job(struct http_request *r)
{
    SCOPED(buffer_fini) struct buffer id = r->filter;
    r->filter = (struct buffer){0};
    bool is = job_id_take(&r->filter, &r->job, id.length == 0 ? "" : id.data, id.length);
    if (!is)
        http_error(r, ERR_NOT_FOUND,
                   "this is not the id of a job: an id ends in a dot and 16 hexadecimal digits");
    else if (buffer_failed(&r->filter))
        http_no_memory(r);
    else
        return true;
    return false;
}

static bool find_route(struct http_request *r, const char *method)
{
    bool known;
    r->route = http_route_find(method, path_of(r), &r->filter, &known);
    if (r->route != NULL && !buffer_failed(&r->filter))
        return r->route->fn != admin_job || find_job(r);
    if (r->route != NULL) {
        http_no_memory(r);
    } else if (!known) {
        http_problem(r, HTTP_NO_SUCH_PATH, "no route has this path; GET /v1/openapi.json lists the routes");
    } else {
        SCOPED(buffer_fini) struct buffer allow = {0};
        http_route_allow(path_of(r), &allow);
        bool allowed = strstr(buffer_text(&allow), method) != NULL;
        http_header(r, "Allow", buffer_text(&allow));
        if (allowed)
            http_problem(r, HTTP_BAD_REQUEST, "the path has a %% without two hexadecimal digits behind it");
        else
            http_problem(r, HTTP_METHOD_NOT_ALLOWED, "this path takes %s, not %s", buffer_text(&allow),
                         method);
    }
    return false;
}

/* True for application/json, with or without parameters. A browser sends any other type to another site
 * without asking that site first, so this check guards against requests that another site forged. */
static bool is_json(const struct http_request *r)
{
    static const char wanted[] = "application/json";
    const char *type = http_asked(r, "Content-Type");
    if (type == NULL || strncasecmp(type, wanted, sizeof(wanted) - 1) != 0)
        return false;
    const char *behind = type + sizeof(wanted) - 1;
    behind += strspn(behind, " \t");
    return *behind == '\0' || *behind == ';';
}

/* Check what the headers say about the body before it is read. */
static bool wants_body(struct http_request *r)
{
    const char *encoding = http_asked(r, "Content-Encoding");
    if (!is_json(r)) {
        http_problem(r, HTTP_WRONG_TYPE, "Content-Type must be application/json, also with an empty body");
        return false;
    }
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        http_header(r, "Accept-Encoding", "identity");
        http_problem(r, HTTP_WRONG_TYPE,
                     "Content-Encoding '%.40s' is not supported: send the body without it", encoding);
        return false;
    }
    return true;
}

static bool take_body(struct http_request *r)
{
    struct http *h = r->http;
    struct error e = {.text = ""};
    SCOPED(buffer_fini) struct buffer text = http_connection_take_body(r->connection);
    size_t length = text.length;
    bool flooded = http_is_flooded(h, length);
    enum err code = flooded ? ERR_BUSY : http_body_parse(&r->body, r->route->body, text.data, length, &e);
    if (flooded)
        http_problem(r, HTTP_OVERLOADED, "the requests under way use too much memory; nothing was done");
    else if (code != ERR_OK)
        http_error(r, code, "%s", e.text);
    if (code != ERR_OK)
        return false;
    r->working = r->body.bytes.capacity + r->body.key_count * sizeof(struct http_key);
    h->held += r->working;
    return true;
}

bool http_deadline(struct http_request *r, uint64_t ms, void (*late)(void *arg), void *arg)
{
    r->late = late;
    r->late_arg = arg;
    if (ms > r->http->config->http_timeout_ms)
        ms = r->http->config->http_timeout_ms;
    const struct timeval patience = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
    if (r->deadline == NULL)
        r->deadline = evtimer_new(r->http->base, on_deadline, r);
    if (r->deadline != NULL && evtimer_add(r->deadline, &patience) == 0)
        return true;
    http_no_memory(r);
    return false;
}

/* See README.md, "Other sites". Probes are always allowed. */
static bool is_asked_from_here(struct http_request *r)
{
    const struct http *h = r->http;
    const char *given = http_asked(r, "Authorization");
    const struct origin_facts facts = {.host = r->connection->parser.host,
                                       .origin = http_asked(r, "Origin"),
                                       .fetch_site = http_asked(r, "Sec-Fetch-Site"),
                                       .language = http_asked(r, "Accept-Language"),
                                       .token = http_asked(r, "X-CSRF-Token"),
                                       .user = r->user,
                                       .changes = strcmp(r->route->method, "GET") != 0,
                                       .bearer = given != NULL && strncasecmp(given, "Bearer ", 7) == 0,
                                       .login = users_login_required(h->config) && !http_scrapes_freely(r)};
    int status;
    const char *fault = r->route->role == HTTP_ROLE_NONE
                            ? NULL
                            : origin_fault(&facts, h->csrf_key, h->host, h->config->http_hosts, &status);
    if (fault != NULL)
        http_refusal(r, status, fault);
    return fault == NULL;
}

static bool may_serve(struct http_request *r)
{
    bool named = strchr(r->route->pattern, '{') != NULL; /* a job's filter may have the name "" */
    http_sync(r->http);
    return http_authorise(r, r->route->role, named ? buffer_text(&r->filter) : NULL, r->filter.length);
}

/* Serve the request, now that the user is known. */
static void serve_known(struct http_request *r)
{
    if (is_asked_from_here(r) && may_serve(r) && (r->route->body == 0 || wants_body(r)))
        http_connection_read_body(r->connection, r->route->body != 0);
}

void http_request_whole(struct http_request *r)
{
    (void)http_request_hold(r);
    /* Rights may have been withdrawn while the body was read. */
    if (http_deadline(r, UINT64_MAX, NULL, NULL) && may_serve(r) && (r->route->body == 0 || take_body(r)))
        (r->route->run != NULL ? r->route->run : http_ask)(r);
    http_request_release(r);
}

/* True if @id has 1 to HTTP_ID_MAX letters, digits and . _ : + / = @ - */
static bool is_sane(const char *id)
{
    size_t length = strlen(id);
    bool good = length > 0 && length <= HTTP_ID_MAX;
    for (size_t i = 0; i < length && good; i++)
        good = isalnum((unsigned char)id[i]) || strchr("._:+/=@-", id[i]) != NULL;
    return good;
}

void http_request_begin(struct http *h, struct http_connection *c)
{
    const struct http_parser *p = &c->parser;
    struct http_request *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        http_connection_drop(c, "out of memory");
        return;
    }
    r->http = h;
    r->connection = c;
    r->began_us = clock_mono_us();
    r->references = 1; /* held until the request is answered */
    const char *given = http_asked(r, "X-Request-Id");
    if (given != NULL && is_sane(given))
        (void)snprintf(r->id, sizeof(r->id), "%s", given);
    else
        (void)snprintf(r->id, sizeof(r->id), "%016" PRIx64, hash_scramble(h->next_id++));
    r->head = p->method != NULL && strcmp(p->method, "HEAD") == 0;
    LIST_INSERT_HEAD(&h->requests, r, link);
    c->request = r;
    atomic_fetch_add_explicit(&h->service->commands, 1, memory_order_relaxed);
    if (p->method == NULL || p->status != 0)
        return;
    (void)http_request_hold(r);
    if (find_route(r, p->method) && http_query_is_sound(r) && http_deadline(r, UINT64_MAX, NULL, NULL))
        http_authenticate(r, serve_known);
    http_request_release(r);
}
