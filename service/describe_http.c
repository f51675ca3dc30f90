/* SPDX-License-Identifier: MIT */
/* HTTP: the routes, of the table that requests are matched with; their parameters and bodies, of
 * openapi.json. */
#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include "service/describe.h"
#include "service/http/http_route.h"

extern const char embedded_openapi[];

static const char about[] =
    "# HTTP\n\n"
    "`twinbloomd` serves HTTP at the address `http` of its configuration; `/` is the dashboard. Bodies and\n"
    "answers are JSON. Send a body with `Content-Type: application/json`, also an empty body of a POST.\n"
    "`{filter}` is the name of a filter, percent-encoded. Each `GET` route also takes `HEAD`. Log in with\n"
    "Basic (user and password) or with a Bearer token; the column *role* says what the user needs.\n"
    "[Use HTTP](../howto/use-http.md) shows the common requests with curl; `GET /v1/openapi.json` is this\n"
    "page for programs, with examples.\n\n"
    "A route that asks a job for something answers 202 with a `job_id`. The id stays the same when another\n"
    "coordinator takes the job over. `GET /v1/jobs/{job}` tells of a job for as long as the history has it\n"
    "(100 jobs of a filter). `GET /v1/filters` answers at most `limit` filters (100); pass `next` as\n"
    "`cursor` to get the next page.\n\n"
    "An answer that is not 2xx is a [Problem](#problem) (`application/problem+json`, RFC 9457): `code` is\n"
    "for programs, `detail` for people. [Errors](errors.md) lists the codes. An answer of 503 has\n"
    "`Retry-After`. After a 503 or 504 checks and adds may be repeated.\n\n";

static const char *const role_names[] = {
    [HTTP_ROLE_NONE] = "none",   [HTTP_ROLE_SCRAPE] = "read, all filters, or none: see `http_metrics`",
    [HTTP_ROLE_READ] = "read",   [HTTP_ROLE_READ_ALL] = "read, all filters",
    [HTTP_ROLE_WRITE] = "write", [HTTP_ROLE_ADMIN] = "admin"};

/* The operation of a route; NULL: openapi.json does not have it. */
static json_t *operation_of(json_t *api, const struct http_route *route)
{
    char method[8];
    size_t n = 0;
    for (; route->method[n] != '\0' && n + 1 < sizeof(method); n++)
        method[n] = (char)tolower((unsigned char)route->method[n]);
    method[n] = '\0';
    return json_object_get(json_object_get(json_object_get(api, "paths"), route->pattern), method);
}

/* "#/components/schemas/Keys": "Keys". */
static const char *last_of_reference(json_t *schema)
{
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    const char *slash = reference != NULL ? strrchr(reference, '/') : NULL;
    return slash != NULL ? slash + 1 : NULL;
}

static const char *body_of(json_t *operation)
{
    json_t *content = json_object_get(json_object_get(operation, "requestBody"), "content");
    return last_of_reference(json_object_get(json_object_get(content, "application/json"), "schema"));
}

static void write_query(FILE *to, json_t *operation)
{
    size_t i;
    json_t *parameter;
    const char *separator = "";
    json_array_foreach(json_object_get(operation, "parameters"), i, parameter)
    {
        (void)fprintf(to, "%s`%s`", separator, json_string_value(json_object_get(parameter, "name")));
        separator = ", ";
    }
    if (*separator == '\0')
        (void)fputc('-', to);
}

static void write_answers(FILE *to, json_t *operation)
{
    const char *status, *separator = "";
    json_t *answer;
    json_object_foreach(json_object_get(operation, "responses"), status, answer)
    {
        (void)fprintf(to, "%s%s", separator, status);
        separator = " ";
    }
}

static void write_route(FILE *to, json_t *api, const struct http_route *route)
{
    json_t *operation = operation_of(api, route);
    const char *body = body_of(operation);
    if (operation == NULL) /* a file of the dashboard */
        return;
    (void)fprintf(to, "| `%s %s` | %s | ", route->method, route->pattern, role_names[route->role]);
    describe_cell(to, route->summary);
    (void)fputs(" | ", to);
    write_query(to, operation);
    if (body != NULL && strcmp(body, "Nothing") != 0) {
        (void)fprintf(to, " | [%s](#", body);
        for (const char *p = body; *p != '\0'; p++)
            (void)fputc(tolower((unsigned char)*p), to);
        (void)fputs(")", to);
    } else
        (void)fprintf(to, " | %s", body != NULL ? "empty, or `{}`" : "-");
    (void)fputs(" | ", to);
    write_answers(to, operation);
    (void)fputs(" |\n", to);
}

static bool is_required(json_t *schema, const char *name)
{
    size_t i;
    json_t *required;
    json_array_foreach(json_object_get(schema, "required"), i, required)
    {
        if (strcmp(json_string_value(required), name) == 0)
            return true;
    }
    return false;
}

static void write_type(FILE *to, json_t *member)
{
    const char *reference = last_of_reference(member),
               *type = json_string_value(json_object_get(member, "type"));
    const char *of = json_string_value(json_object_get(json_object_get(member, "items"), "type"));
    (void)fputs(reference != NULL ? reference : type != NULL ? type : "any", to);
    if (of != NULL)
        (void)fprintf(to, " of %s", of);
    if (json_is_true(json_object_get(member, "nullable")))
        (void)fputs(" or null", to);
    size_t i;
    json_t *word;
    const char *separator = ": ";
    json_array_foreach(json_object_get(member, "enum"), i, word)
    {
        (void)fprintf(to, "%s`%s`", separator, json_string_value(word));
        separator = ", ";
    }
}

static void write_schema(FILE *to, const char *name, json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties"), *member;
    const char *key, *whole = json_string_value(json_object_get(schema, "description"));
    (void)fprintf(to, "\n### %s\n%s", name, whole != NULL ? "\n" : "");
    if (whole != NULL)
        (void)fprintf(to, "%s\n", whole);
    if (json_object_size(properties) == 0)
        return;
    (void)fputs("\n| member | type | |\n|---|---|---|\n", to);
    json_object_foreach(properties, key, member)
    {
        const char *text = json_string_value(json_object_get(member, "description"));
        (void)fprintf(to, "| `%s`%s | ", key, is_required(schema, key) ? " (required)" : "");
        write_type(to, member);
        (void)fputs(" | ", to);
        describe_cell(to, text != NULL ? text : "");
        (void)fputs(" |\n", to);
    }
}

void describe_http(FILE *to)
{
    json_t *api = json_loads(embedded_openapi, 0, NULL), *schema;
    const char *name;
    (void)fputs(about, to);
    (void)fputs("| route | role | | query | body | answers |\n|---|---|---|---|---|---|\n", to);
    for (size_t i = 0; i < http_route_count; i++)
        write_route(to, api, &http_routes[i]);
    (void)fputs("\n## Bodies and answers\n", to);
    json_object_foreach(json_object_get(json_object_get(api, "components"), "schemas"), name, schema)
    {
        if (strcmp(name, "Nothing") != 0)
            write_schema(to, name, schema);
    }
    json_decref(api);
}
