/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_ROUTE_H
#define SERVICE_HTTP_ROUTE_H
/* What HTTP requests may ask for: one table, and how a request's path finds its row. Pure; no I/O. */
#include <stddef.h>
#include "base/buffer.h"
#include "service/admin/admin.h"
#include "service/http/message/http_body.h"

struct http_request;
typedef void http_handler(struct http_request *r);

/* READ_ALL: READ, of all filters. SCRAPE: the same, or nothing; see http_metrics. */
enum http_role {
    HTTP_ROLE_NONE,
    HTTP_ROLE_SCRAPE,
    HTTP_ROLE_READ,
    HTTP_ROLE_READ_ALL,
    HTTP_ROLE_WRITE,
    HTTP_ROLE_ADMIN
};

struct http_route {
    const char *method;  /* GET stands for HEAD, too */
    const char *pattern; /* {filter} or {job} is one segment, percent-encoded, of any bytes */
    http_handler *run;
    const char *summary;
    enum http_role role;      /* what whoever asks needs */
    enum http_body_kind body; /* 0: none is read */
    admin_fn *fn;             /* of handlers that ask the admin thread */
    enum control_wish wish;   /* of admin_control */
};

extern const struct http_route http_routes[];
extern const size_t http_route_count;

/* Find the row of @method and @path (as it came, without query). Where the pattern has {filter} or {job} its
 * bytes are appended to @segment. NULL: there is none; *@known tells whether there is one for another method.
 */
const struct http_route *http_route_find(const char *method, const char *path, struct buffer *segment,
                                         bool *known);

/* Append the methods of a path that is known, as in the header Allow. */
void http_route_allow(const char *path, struct buffer *out);

/* Append @text without its %XX. False: one of them is none. */
bool http_percent_decode(struct buffer *out, const char *text, size_t length);
/* Append @bytes as one segment of a path. */
void http_percent_encode(struct buffer *out, const char *bytes, size_t length);

/* --- handlers, by file --- */
http_handler http_livez, http_readyz, http_openapi, http_errors, http_metrics;
http_handler http_coordinators, http_list, http_status, http_history, http_plan, http_create, http_control,
    http_job;
http_handler http_check, http_add, http_delete, http_nodes, http_samples, http_shards;
http_handler http_dashboard, http_session, http_events;
#endif
