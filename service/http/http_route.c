/* SPDX-License-Identifier: MIT */
#include "service/http/http_route.h"

#include <string.h>
#include "base/number.h"
#include "service/keys/key_operation.h"

#define ONE "/v1/filters/{filter}"
#define READ HTTP_ROLE_READ
#define WRITE HTTP_ROLE_WRITE
#define ADMIN HTTP_ROLE_ADMIN

/* clang-format off */
const struct http_route http_routes[] = {
    {"GET", "/", "The dashboard", READ, 0, .run = http_dashboard},
    {"GET", "/dashboard/{file}", "A program of the dashboard", HTTP_ROLE_NONE, 0, .run = http_dashboard},
    {"GET", "/docs/{page}", "A page of the documentation, as Markdown", HTTP_ROLE_NONE, 0, .run = http_dashboard},
    {"GET", "/errors", "The codes of errors, what they mean and what to do, as a page", HTTP_ROLE_NONE, 0,
     .run = http_errors},
    {"GET", "/livez", "Whether the process answers", HTTP_ROLE_NONE, 0, .run = http_livez},
    {"GET", "/readyz", "Whether the coordinator can serve requests", HTTP_ROLE_NONE, 0, .run = http_readyz},
    {"GET", "/metrics", "Metrics for Prometheus", HTTP_ROLE_SCRAPE, 0, .run = http_metrics},
    {"GET", "/v1/openapi.json", "This interface as OpenAPI", READ, 0, .run = http_openapi},
    {"GET", "/v1/session", "The user of this request, and the token that a page needs to change something", READ, 0,
     .run = http_session},
    {"GET", "/v1/events", "The state of all filters, sent whenever it changes", READ, 0, .run = http_events},
    {"GET", "/v1/coordinators", "All coordinators, and the epoch of a filter that each serves", READ, 0,
     .fn = admin_coordinators, .take = http_take_filter, .member = "coordinators"},
    {"GET", "/v1/nodes", "The Redis nodes: their state and memory, as this coordinator sees them", HTTP_ROLE_READ_ALL,
     0, .fn = admin_nodes, .member = "nodes"},
    {"GET", "/v1/jobs/{job}", "A job, while it runs and afterwards", READ, 0, .fn = admin_job},
    {"GET", "/v1/filters", "Filters with their status, a page at a time", READ, 0, .fn = admin_page,
     .take = http_take_page},
    {"POST", "/v1/filters", "Creates an empty filter", WRITE, HTTP_BODY_CREATE, .fn = admin_reserve,
     .take = http_take_creation},
    {"PUT", "/v1/filters", "Creates an empty filter", WRITE, HTTP_BODY_CREATE, .fn = admin_reserve,
     .take = http_take_creation},
    {"GET", ONE, "Status of a filter", READ, 0, .fn = admin_status},
    {"DELETE", ONE, "Deletes a filter", WRITE, 0, .fn = admin_delete},
    {"GET", ONE "/history", "The last jobs of a filter", READ, 0, .fn = admin_history, .take = http_take_count,
     .member = "history"},
    {"GET", ONE "/samples", "Fill of a filter, and its checks and adds, in the last day", READ, 0, .fn = admin_samples,
     .take = http_take_count},
    {"GET", ONE "/shards", "Fill of the shards of a filter, and which shards are lost", READ, 0, .fn = admin_shards},
    {"GET", ONE "/plan", "What a rebuild would make, and the memory and time that it needs", READ, 0, .fn = admin_plan,
     .take = http_take_plan},
    {"POST", ONE "/check", "Checks keys: maybe present, or certainly absent", READ, HTTP_BODY_KEYS, .run = http_keys,
     .value = OPERATION_CHECK},
    {"POST", ONE "/add", "Adds keys, and tells which are new", WRITE, HTTP_BODY_KEYS, .run = http_keys,
     .value = OPERATION_ADD},
    {"POST", ONE "/rebuild", "Starts a rebuild", ADMIN, HTTP_BODY_REBUILD, .fn = admin_rebuild, .take = http_take_job},
    {"POST", ONE "/verify", "Starts a verification: looks up keys of the source in the filter", ADMIN,
     HTTP_BODY_VERIFY, .fn = admin_verify, .take = http_take_job},
    {"POST", ONE "/cutover", "Ends the hold of a rebuild: it switches to the new generation", ADMIN, HTTP_BODY_NONE,
     .fn = admin_control, .value = WISH_CUTOVER},
    {"POST", ONE "/rollback", "Switches back to the former generation, within the grace time", ADMIN, HTTP_BODY_NONE,
     .fn = admin_control, .value = WISH_ROLLBACK},
    {"POST", ONE "/finish", "Ends the grace time", ADMIN, HTTP_BODY_NONE, .fn = admin_control, .value = WISH_FINISH},
    {"POST", ONE "/abort", "Aborts the running job, before the cutover", ADMIN, HTTP_BODY_NONE, .fn = admin_control,
     .value = WISH_ABORT},
    {"POST", ONE "/trust", "Accepts what Redis has lost of the filter", ADMIN, HTTP_BODY_NONE, .fn = admin_accept},
    {"POST", ONE "/pause", "Pauses the running rebuild", ADMIN, HTTP_BODY_NONE, .fn = admin_control,
     .value = WISH_PAUSE},
    {"POST", ONE "/resume", "Continues a paused rebuild", ADMIN, HTTP_BODY_NONE, .fn = admin_control,
     .value = WISH_RESUME},
    {"POST", ONE "/throttle", "Limits the rows that the running job reads each second", ADMIN, HTTP_BODY_THROTTLE,
     .fn = admin_control, .take = http_take_job, .value = WISH_THROTTLE},
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
