/* SPDX-License-Identifier: MIT */
#include "sql/sql.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define STATEMENT(name) extern const char embedded_##name[];
#include "statements.inc"
#undef STATEMENT

static const struct {
    const char *name;
    const char *text;
} statements[] = {
#define STATEMENT(name) {#name, embedded_##name},
#include "statements.inc"
#undef STATEMENT
};

const char *sql_text(const char *name)
{
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
        if (strcmp(statements[i].name, name) == 0)
            return statements[i].text;
    return NULL;
}

struct renderer {
    const char *statement;
    const char *at;
    const struct sql_binding *bindings;
    struct sql_values *values;                          /* NULL: values are put into the text */
    const struct sql_binding *numbered[SQL_VALUES_MAX]; /* those of the values */
    struct buffer *out;
    struct error *e;
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* @p points to a quote. Returns what follows the closing quote, or the end of the text. A doubled quote is
 * treated as two quoted pieces in a row: the end is the same. */
static const char *skip_quoted(const char *p, bool backslash_escapes)
{
    char quote = *p++;
    while (*p != '\0' && *p != quote)
        p += backslash_escapes && p[0] == '\\' && p[1] != '\0' ? 2 : 1;
    return *p == '\0' ? p : p + 1;
}

/* Returns what follows $tag$ ... $tag$, or @p itself if no dollar quote begins there. */
static const char *skip_dollar_quoted(const char *p)
{
    const char *tag_end = p + 1;
    while (is_name(*tag_end))
        tag_end++;
    if (*tag_end != '$' || isdigit((unsigned char)p[1]))
        return p;
    size_t tag = (size_t)(tag_end + 1 - p);
    for (const char *q = tag_end + 1; (q = strchr(q, '$')) != NULL; q++)
        if (strncmp(q, p, tag) == 0)
            return q + tag;
    return p + strlen(p);
}

/* Block comments nest, as in Postgres. */
static const char *skip_comment(const char *p)
{
    if (p[0] == '-')
        return p + strcspn(p, "\n");
    unsigned depth = 0;
    do {
        if (p[0] == '/' && p[1] == '*') {
            depth++;
            p += 2;
        } else if (p[0] == '*' && p[1] == '/') {
            depth--;
            p += 2;
        } else {
            p++;
        }
    } while (depth > 0 && *p != '\0');
    return p;
}

static enum err unbound(struct renderer *r, const char *name, size_t length, const char *what)
{
    return error_set(r->e, ERR_CONFIG, "statement %s: variable \"%.*s\" has no %s", r->statement, (int)length,
                     name, what);
}

static const struct sql_binding *find(const struct renderer *r, const char *name, size_t length)
{
    for (const struct sql_binding *b = r->bindings; b != NULL && b->name != NULL; b++)
        if (strlen(b->name) == length && memcmp(b->name, name, length) == 0)
            return b;
    return NULL;
}

/* A value that comes again has the same number. */
static enum err put_value(struct renderer *r, const char *name, size_t length)
{
    const struct sql_binding *b = find(r, name, length);
    size_t i = 0;
    if (b != NULL && r->values == NULL) {
        buffer_puts(r->out, b->text);
        return ERR_OK;
    }
    while (b != NULL && i < r->values->count && r->numbered[i] != b)
        i++;
    if (b == NULL || i == SQL_VALUES_MAX)
        return unbound(r, name, length, "parameter");
    if (i == r->values->count) {
        r->numbered[i] = b;
        r->values->text[r->values->count++] = b->text;
    }
    buffer_printf(r->out, "$%zu", i + 1);
    return ERR_OK;
}

static enum err put_bound(struct renderer *r, const char *name, size_t length, bool identifier)
{
    const struct sql_binding *b = find(r, name, length);
    if (b == NULL)
        return unbound(r, name, length, "binding");
    buffer_puts(r->out, identifier ? "\"" : "");
    for (const char *c = b->text; *c != '\0'; c++)
        buffer_append(r->out, identifier && *c == '"' ? "\"\"" : c, identifier && *c == '"' ? 2 : 1);
    buffer_puts(r->out, identifier ? "\"" : "");
    return ERR_OK;
}

/* r->at points to a colon. A colon that begins no variable is copied. */
static enum err put_variable(struct renderer *r)
{
    const char *p = r->at + 1;
    char quote = *p == '\'' || *p == '"' ? *p++ : '\0';
    size_t length = 0;
    while (is_name(p[length]))
        length++;
    if (length == 0 || (quote != '\0' && p[length] != quote)) {
        size_t colons = r->at[1] == ':' ? 2 : 1;
        buffer_append(r->out, r->at, colons);
        r->at += colons;
        return ERR_OK;
    }
    r->at = p + length + (quote == '\0' ? 0 : 1);
    return quote == '\'' ? put_value(r, p, length) : put_bound(r, p, length, quote == '"');
}

/* Render one comment, quoted piece, variable, word or character. */
static enum err render_piece(struct renderer *r)
{
    const char *from = r->at;
    if ((from[0] == '-' && from[1] == '-') || (from[0] == '/' && from[1] == '*')) {
        r->at = skip_comment(from);
        buffer_puts(r->out, " "); /* a comment separates words */
        return ERR_OK;
    }
    if (*from == ':')
        return put_variable(r);
    if (*from == '\'' || *from == '"')
        r->at = skip_quoted(from, false);
    else if ((*from == 'e' || *from == 'E') && from[1] == '\'')
        r->at = skip_quoted(from + 1, true);
    else if (*from == '$' && skip_dollar_quoted(from) != from)
        r->at = skip_dollar_quoted(from);
    else if (is_name(*from))
        while (is_name(*r->at) || *r->at == '$')
            r->at++;
    else
        r->at++;
    buffer_append(r->out, from, (size_t)(r->at - from));
    return ERR_OK;
}

/* Remove trailing blanks and the final semicolon from the rendered text. */
static void trim_end(struct buffer *out, size_t start)
{
    while (out->length > start &&
           (isspace((unsigned char)out->data[out->length - 1]) || out->data[out->length - 1] == ';'))
        out->length--;
}

static enum err render(struct renderer *r)
{
    if (r->at == NULL)
        return error_set(r->e, ERR_NOT_FOUND, "no SQL statement is named \"%s\"", r->statement);
    struct buffer *out = r->out;
    size_t start = out->length;
    while (*r->at != '\0') {
        enum err err =
            out->length == start && isspace((unsigned char)*r->at) ? (r->at++, ERR_OK) : render_piece(r);
        if (err != ERR_OK)
            return err;
        if (out->length == start + 1 && out->data[start] == ' ')
            out->length = start; /* drop the blank of a comment in front of the statement */
    }
    trim_end(out, start);
    return buffer_failed(out) ? error_set(r->e, ERR_NOMEM, "statement %s: out of memory", r->statement)
                              : ERR_OK;
}

enum err sql_render(const char *name, const struct sql_binding *bindings, struct sql_values *values,
                    struct buffer *out, struct error *e)
{
    struct renderer r = {
        .statement = name, .at = sql_text(name), .bindings = bindings, .values = values, .out = out, .e = e};
    if (values != NULL)
        values->count = 0;
    return render(&r);
}
