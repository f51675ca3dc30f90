/* SPDX-License-Identifier: MIT */
#include "service/http/message/http_problem.h"

#include <ctype.h>
#include <string.h>
#include "service/protocol/json.h"

static const struct http_code_row rows[HTTP_CODE_COUNT] = {
#define X(code, ...) [code] = {__VA_ARGS__},
    HTTP_CODES(X)
#undef X
};

const struct http_code_row *http_code_row(enum http_code code)
{
    return &rows[code];
}

enum http_code http_code_of_refusal(int status)
{
    for (enum http_code code = 0; code < HTTP_CODE_COUNT; code++)
        /* HTTP_FORBIDDEN is for users without the right. */
        if (rows[code].status == status && code != HTTP_FORBIDDEN)
            return code;
    return HTTP_INTERNAL;
}

/* --- statuses --- */

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
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
    const struct error_code *row = error_code_of(code);
    return code == ERR_OK ? 200 : row != NULL ? row->http_status : 500;
}

/* --- a problem --- */

void http_problem_body(struct buffer *out, int status, const char *code, const char *detail,
                       const char *instance)
{
    buffer_printf(out,
                  "{\"type\":\"/errors#%s\",\"code\":\"%s\",\"title\":\"%s\",\"status\":%d,\"detail\":", code,
                  code, http_reason(status), status);
    json_put_text(out, detail, strlen(detail));
    if (instance != NULL) {
        buffer_puts(out, ",\"instance\":");
        json_put_text(out, instance, strlen(instance));
    }
    buffer_puts(out, "}");
}

/* --- the page --- */

/* Write a sentence of the tables as HTML. Its `words` become code. */
static void put_text(struct buffer *out, const char *text)
{
    bool code = false;
    for (bool first = true; *text != '\0'; text++, first = false)
        if (*text == '`') {
            buffer_puts(out, code ? "</code>" : "<code>");
            code = !code;
        } else if (strchr("<>&", *text) != NULL) {
            buffer_printf(out, "&#%d;", *text);
        } else {
            const char c = first ? (char)toupper((unsigned char)*text) : *text;
            buffer_append(out, &c, 1);
        }
}

static void put_code(struct buffer *out, const char *name, int status, const char *meaning,
                     const char *remedy)
{
    buffer_printf(out, "<h2 id=\"%s\">%s <small>%d</small></h2>\n<p>", name, name, status);
    put_text(out, meaning);
    buffer_puts(out, ".</p>\n<p>");
    put_text(out, remedy);
    buffer_puts(out, "</p>\n");
}

void http_problem_page(struct buffer *out)
{
    size_t count;
    const struct error_code *errors = error_codes(&count);
    buffer_puts(
        out, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Twinbloom: errors</title>\n"
             "<h1>Errors</h1>\n<p>The <code>code</code> of a problem, its status over HTTP, what it means, "
             "and what to do.</p>\n");
    for (size_t i = 0; i < count; i++)
        put_code(out, errors[i].name, errors[i].http_status, errors[i].meaning, errors[i].remedy);
    for (const struct http_code_row *row = rows; row < rows + HTTP_CODE_COUNT; row++)
        put_code(out, row->name, row->status, row->meaning, row->remedy);
}
