/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_PROBLEM_H
#define SERVICE_HTTP_MESSAGE_HTTP_PROBLEM_H
/* Problems (RFC 9457): the codes that only HTTP has, in addition to those of base/error.h. Pure; no I/O. */
#include "base/buffer.h"
#include "base/error.h"

/* One row for each code: its name, its status, what it means, and what the client should do. */
#define HTTP_CODES(X)                                                                                        \
    X(HTTP_BAD_REQUEST, "bad-request", 400, "the request is not valid HTTP/1.1, or has a parameter twice",   \
      "Correct the request as the text says.")                                                               \
    X(HTTP_LOGIN_NEEDED, "login-needed", 401, "the password or the token is missing or wrong",               \
      "Send `Authorization: Basic` with user and password, or `Authorization: Bearer` with a token.")        \
    X(HTTP_FORBIDDEN, "forbidden", 403,                                                                      \
      "this user does not have the role or the filters that the route needs",                                \
      "Ask as another user, or change `roles` or `filters` of this one.")                                    \
    X(HTTP_OTHER_SITE, "other-site", 403, "a page of another site may have sent the request",                \
      "From a page of this site send `X-CSRF-Token`, see `GET /v1/session`. Programs send no `Origin`.")     \
    X(HTTP_NO_SUCH_PATH, "no-such-path", 404, "no route has this path", "Look at `GET /v1/openapi.json`.")   \
    X(HTTP_METHOD_NOT_ALLOWED, "method-not-allowed", 405, "the path does not take this method",              \
      "Use a method that the header `Allow` names.")                                                         \
    X(HTTP_BODY_TOO_LARGE, "body-too-large", 413, "the body is larger than `http_body_max`",                 \
      "Send the keys in several requests, or raise `http_body_max`.")                                        \
    X(HTTP_WRONG_TYPE, "wrong-content-type", 415, "the body is not plain `application/json`",                \
      "Send `Content-Type: application/json`, also with an empty body, and no `Content-Encoding`.")          \
    X(HTTP_WRONG_EXPECTATION, "wrong-expectation", 417, "the header `Expect` asks for something unknown",    \
      "Send no `Expect`, or `100-continue`.")                                                                \
    X(HTTP_UNKNOWN_HOST, "unknown-host", 421,                                                                \
      "a browser used a host name that others could have made point here, and no login is needed",           \
      "Name the host in `http_hosts`, use the address, or set a password.")                                  \
    X(HTTP_INTERNAL, "internal", 500, "the coordinator could not write its own answer",                      \
      "Report it with the log: it is an error of the program.")                                              \
    X(HTTP_NOT_IMPLEMENTED, "not-implemented", 501, "the method or the transfer encoding is unknown",        \
      "Use a method of the route, and `chunked` or `Content-Length`.")                                       \
    X(HTTP_OVERLOADED, "overloaded", 503, "too much waits already; nothing was done",                        \
      "Repeat it after `Retry-After`, and less at once.")                                                    \
    X(HTTP_NOT_READY, "not-ready", 503, "the coordinator cannot serve requests now",                         \
      "Wait, or ask another coordinator; the log says why.")

enum http_code {
#define X(code, ...) code,
    HTTP_CODES(X)
#undef X
        HTTP_CODE_COUNT
};

struct http_code_row {
    const char *name;
    int status;
    const char *meaning, *remedy;
};

const struct http_code_row *http_code_row(enum http_code code);
/* The code for a request that http_parse.c or http_origin.c refused with @status. 503 has NOMEM of
 * base/error.h. */
enum http_code http_code_of_refusal(int status);

/* The i-th of the statuses that answers may have; 0: there are no more. */
int http_status_at(size_t i);
/* The reason phrase of a status; "Error" if it has none here. */
const char *http_reason(int status);
/* The status for an error of base/error.h. */
int http_status_of(enum err code);

/* Append a problem. Its type is a link to @code on the page of codes. */
void http_problem_body(struct buffer *out, int status, const char *code, const char *detail,
                       const char *instance);
#endif
