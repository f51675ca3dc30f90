/* SPDX-License-Identifier: MIT */
/* The query of a request: "name=value&...". Each name may come once. */
#include <string.h>
#include "service/http/http_internal.h"

enum { PARAMETERS_MAX = 32 };

static bool decode(struct buffer *out, const char *text, size_t length)
{
    SCOPED(buffer_fini) struct buffer plain = {0};
    buffer_append(&plain, text, length);
    for (size_t i = 0; i < plain.length; i++)
        plain.data[i] = plain.data[i] == '+' ? ' ' : plain.data[i];
    return http_percent_decode(out, plain.data, plain.length) && !buffer_failed(&plain) &&
           !buffer_failed(out) && (out->length == 0 || memchr(out->data, '\0', out->length) == NULL);
}

/* Decode the parameter at *@at, and move *@at to the next one. False: the encoding is invalid. */
static bool next_parameter(const char **at, struct buffer *name, struct buffer *value)
{
    size_t length = strcspn(*at, "&"), split = strcspn(*at, "&=");
    const char *behind = *at + split + (split < length);
    buffer_clear(name);
    buffer_clear(value);
    bool good = decode(name, *at, split) && decode(value, behind, (size_t)(*at + length - behind));
    *at += length + ((*at)[length] == '&');
    return good;
}

/* How often @name is in the query. If @first is not NULL, it gets the first value. */
static size_t count_parameters(const char *query, const char *name, char **first)
{
    SCOPED(buffer_fini) struct buffer other = {0}, value = {0};
    size_t count = 0;
    for (const char *at = query; at != NULL && *at != '\0';)
        if (next_parameter(&at, &other, &value) && strcmp(buffer_text(&other), name) == 0 && count++ == 0 &&
            first != NULL)
            *first = strdup(buffer_text(&value));
    return count;
}

bool http_query_is_sound(struct http_request *r)
{
    const char *query = r->connection->parser.query;
    SCOPED(buffer_fini) struct buffer name = {0}, value = {0};
    const char *fault = NULL;
    size_t count = 0;
    for (const char *at = query; at != NULL && *at != '\0' && fault == NULL;)
        if (++count > PARAMETERS_MAX)
            fault = "the query has more than 32 parameters";
        else if (!next_parameter(&at, &name, &value))
            fault = "the query has a NUL, or a % without two hexadecimal digits behind it";
        else if (count_parameters(query, buffer_text(&name), NULL) > 1)
            fault = "the query has a parameter twice";
    if (fault != NULL)
        http_problem(r, HTTP_BAD_REQUEST, "%s", fault);
    return fault == NULL;
}

char *http_query(const struct http_request *r, const char *name)
{
    char *value = NULL;
    (void)count_parameters(r->connection->parser.query, name, &value);
    return value;
}
