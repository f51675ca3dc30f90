/* SPDX-License-Identifier: MIT */
#include "service/http/message/http_problem.h"

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
