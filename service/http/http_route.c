/* SPDX-License-Identifier: MIT */
#include "service/http/http_route.h"

#include <ctype.h>
#include <string.h>
#include "base/number.h"

#define ONE "/v1/filters/{filter}"
#define READ HTTP_ROLE_READ
#define WRITE HTTP_ROLE_WRITE
#define ADMIN HTTP_ROLE_ADMIN

/* clang-format off */
const struct http_route http_routes[] = {
    {"GET", "/", http_dashboard, "The dashboard", READ, 0, NULL, 0},
    {"GET", "/dashboard/{file}", http_dashboard, "A program of the dashboard", HTTP_ROLE_NONE, 0, NULL, 0},
    {"GET", "/docs/{page}", http_dashboard, "A page of the documentation, as Markdown", HTTP_ROLE_NONE, 0, NULL, 0},
    {"GET", "/errors", http_errors, "The codes of errors, what they mean and what to do, as a page", HTTP_ROLE_NONE,
     0, NULL, 0},
    {"GET", "/livez", http_livez, "Whether the process answers", HTTP_ROLE_NONE, 0, NULL, 0},
    {"GET", "/readyz", http_readyz, "Whether the coordinator can serve requests", HTTP_ROLE_NONE, 0, NULL, 0},
    {"GET", "/metrics", http_metrics, "Metrics for Prometheus", HTTP_ROLE_SCRAPE, 0, NULL, 0},
    {"GET", "/v1/openapi.json", http_openapi, "This interface as OpenAPI", READ, 0, NULL, 0},
    {"GET", "/v1/session", http_session,
     "The user of this request, and the token that a page needs to change something", READ, 0, NULL, 0},
    {"GET", "/v1/events", http_events, "The state of all filters, sent whenever it changes", READ, 0, NULL, 0},
    {"GET", "/v1/coordinators", http_coordinators, "All coordinators, and the epoch of a filter that each serves",
     READ, 0, admin_coordinators, 0},
    {"GET", "/v1/nodes", http_nodes, "The Redis nodes: their state and memory, as this coordinator sees them",
     HTTP_ROLE_READ_ALL, 0, admin_nodes, 0},
    {"GET", "/v1/jobs/{job}", http_job, "A job, while it runs and afterwards", READ, 0, admin_job, 0},
    {"GET", "/v1/filters", http_list, "Filters with their status, a page at a time", READ, 0, admin_page, 0},
    {"POST", "/v1/filters", http_create, "Creates an empty filter", WRITE, HTTP_BODY_CREATE, admin_reserve, 0},
    {"PUT", "/v1/filters", http_create, "Creates an empty filter", WRITE, HTTP_BODY_CREATE, admin_reserve, 0},
    {"GET", ONE, http_status, "Status of a filter", READ, 0, admin_status, 0},
    {"DELETE", ONE, http_delete, "Deletes a filter", WRITE, 0, admin_delete, 0},
    {"GET", ONE "/history", http_history, "The last jobs of a filter", READ, 0, admin_history, 0},
    {"GET", ONE "/samples", http_samples, "Fill of a filter, and its checks and adds, in the last day", READ, 0,
     admin_samples, 0},
    {"GET", ONE "/shards", http_shards, "Fill of the shards of a filter, and which shards are lost", READ, 0,
     admin_shards, 0},
    {"GET", ONE "/plan", http_plan, "What a rebuild would make, and the memory and time that it needs", READ, 0,
     admin_plan, 0},
    {"POST", ONE "/check", http_check, "Checks keys: maybe present, or certainly absent", READ,
     HTTP_BODY_KEYS, NULL, 0},
    {"POST", ONE "/add", http_add, "Adds keys, and tells which are new", WRITE, HTTP_BODY_KEYS, NULL, 0},
    {"POST", ONE "/rebuild", http_control, "Starts a rebuild", ADMIN, HTTP_BODY_REBUILD, admin_rebuild, 0},
    {"POST", ONE "/verify", http_control, "Starts a verification: looks up keys of the source in the filter", ADMIN,
     HTTP_BODY_VERIFY, admin_verify, 0},
    {"POST", ONE "/cutover", http_control, "Ends the hold of a rebuild: it switches to the new generation", ADMIN,
     HTTP_BODY_NONE, admin_control, WISH_CUTOVER},
    {"POST", ONE "/rollback", http_control, "Switches back to the former generation, within the grace time", ADMIN,
     HTTP_BODY_NONE, admin_control, WISH_ROLLBACK},
    {"POST", ONE "/finish", http_control, "Ends the grace time", ADMIN, HTTP_BODY_NONE, admin_control, WISH_FINISH},
    {"POST", ONE "/abort", http_control, "Aborts the running job, before the cutover", ADMIN, HTTP_BODY_NONE,
     admin_control, WISH_ABORT},
    {"POST", ONE "/trust", http_control, "Accepts what Redis has lost of the filter",
     ADMIN, HTTP_BODY_NONE, admin_accept, 0},
    {"POST", ONE "/pause", http_control, "Pauses the running rebuild", ADMIN, HTTP_BODY_NONE, admin_control,
     WISH_PAUSE},
    {"POST", ONE "/resume", http_control, "Continues a paused rebuild", ADMIN, HTTP_BODY_NONE, admin_control,
     WISH_RESUME},
    {"POST", ONE "/throttle", http_control, "Limits the rows that the running job reads each second", ADMIN,
     HTTP_BODY_THROTTLE, admin_control, WISH_THROTTLE},
};
/* clang-format on */
const size_t http_route_count = sizeof(http_routes) / sizeof(http_routes[0]);

/* --- percent-encoding --- */

bool http_percent_decode(struct buffer *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char byte = text[i];
        if (byte == '%') {
            uint64_t value;
            if (length - i < 3 || !number_hex64(text + i + 1, 2, &value))
                return false;
            byte = (char)value;
            i += 2;
        }
        buffer_append(out, &byte, 1);
    }
    return true;
}

void http_percent_encode(struct buffer *out, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (isalnum(c) || strchr("-._~", c == '\0' ? '%' : c) != NULL)
            buffer_append(out, &bytes[i], 1);
        else
            buffer_printf(out, "%%%02X", c);
    }
}

/* --- matching --- */

/* True if @path matches @pattern. The bytes of {...} are appended to @segment, if that is not NULL. */
static bool matches(const char *pattern, const char *path, struct buffer *segment)
{
    size_t before = strcspn(pattern, "{");
    if (pattern[before] == '\0')
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, before) != 0)
        return false;
    const char *name = path + before, *behind = strchr(pattern, '}') + 1;
    size_t length = strcspn(name, "/");
    if (length == 0 || strcmp(name + length, behind) != 0)
        return false;
    return segment == NULL || http_percent_decode(segment, name, length);
}

const struct http_route *http_route_find(const char *method, const char *path, struct buffer *segment,
                                         bool *known)
{
    const char *as = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *known = false;
    for (size_t i = 0; i < http_route_count; i++) {
        if (!matches(http_routes[i].pattern, path, NULL))
            continue;
        *known = true;
        if (strcmp(http_routes[i].method, as) == 0)
            return matches(http_routes[i].pattern, path, segment) ? &http_routes[i] : NULL;
    }
    return NULL;
}

void http_route_allow(const char *path, struct buffer *out)
{
    for (size_t i = 0; i < http_route_count; i++) {
        const struct http_route *route = &http_routes[i];
        if (!matches(route->pattern, path, NULL))
            continue;
        buffer_printf(out, "%s%s", out->length > 0 ? ", " : "", route->method);
        if (strcmp(route->method, "GET") == 0)
            buffer_puts(out, ", HEAD");
    }
}
