/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_ROUTE_H
#define SERVICE_HTTP_ROUTE_H
/* The routes of the HTTP interface: one table, and how the path of a request finds its row. Pure; no I/O. */
#include <stddef.h>
#include "base/buffer.h"
#include "service/admin/admin.h"
#include "service/http/message/http_body.h"

struct http_request;
typedef void http_handler(struct http_request *r);

/* READ_ALL: READ on all filters. SCRAPE: as READ_ALL, or no role at all, depending on http_metrics of the
 * configuration. */
enum http_role {
    HTTP_ROLE_NONE,
    HTTP_ROLE_SCRAPE,
    HTTP_ROLE_READ,
    HTTP_ROLE_READ_ALL,
    HTTP_ROLE_WRITE,
    HTTP_ROLE_ADMIN
};

/* Read the query or the body of @r into @call. False: the request was answered. */
typedef bool http_take_fn(struct http_request *r, struct admin_call *call);

struct http_route {
    const char *method;  /* GET also allows HEAD */
    const char *pattern; /* {filter} or {job} is one segment of any bytes, percent-encoded */
    const char *summary;
    enum http_role role;      /* the role that the user needs */
    enum http_body_kind body; /* 0: no body is read */
    http_handler *run;        /* NULL: the admin thread runs @fn */
    admin_fn *fn;
    http_take_fn *take; /* NULL: @fn needs no more than the path has */
    unsigned value;     /* the call's flags; of http_keys, the enum operation_kind */
    const char
        *member; /* the answer is an object with this member, which is the reply; NULL: it is the reply */
};

extern const struct http_route http_routes[];
extern const size_t http_route_count;

/* Find the row for @method and @path (percent-encoded, without query). If the pattern has {filter} or {job},
 * its bytes are appended to @segment. NULL: there is no such row; *@known tells whether the path has a row
 * for another method. */
const struct http_route *http_route_find(const char *method, const char *path, struct buffer *segment,
                                         bool *known);

/* Append the methods of a known path, as in the header Allow. */
void http_route_allow(const char *path, struct buffer *out);

/* Append @text with each %XX decoded. False: one of them is invalid. */
bool http_percent_decode(struct buffer *out, const char *text, size_t length);

/* --- handlers, by file --- */
http_handler http_livez, http_readyz, http_openapi, http_errors, http_metrics;
http_handler http_keys, http_dashboard, http_session, http_events;
http_take_fn http_take_filter, http_take_page, http_take_count, http_take_plan, http_take_creation,
    http_take_job;
#endif
