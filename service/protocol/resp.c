/* SPDX-License-Identifier: MIT */
#include "service/protocol/resp.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/number.h"

enum {
    ARGUMENTS_FIRST = 8,
    STRANGER_ARGUMENTS = 10,
    STRANGER_BULK = 16384,
    STRANGER_REQUEST = STRANGER_BULK + 1024, /* bytes of a whole request; its buffer doubles as it grows */
    DIGITS_MAX = 5,                          /* of an argument's length in the common case */
    USUAL_HEADER_MAX = DIGITS_MAX + 3,
    ARGUMENTS_KEPT = 1024 /* a larger array of arguments is freed after its command */
};
#define RESP_NO_BULK SIZE_MAX

const struct resp_limits resp_default_limits = {
    .request_max = 1u << 30, .bulk_max = 512u << 20, .arguments_max = 1u << 20, .inline_max = 64u << 10};

void resp_init(struct resp_parser *p, const struct resp_limits *limits)
{
    *p = (struct resp_parser){.limits = limits != NULL ? *limits : resp_default_limits, .need = 1};
}

void resp_fini(struct resp_parser *p)
{
    free(p->arguments);
    *p = (struct resp_parser){0};
}

static enum resp_result fail(struct resp_parser *p, const char *text)
{
    p->error = text;
    p->argument_count = 0;
    return RESP_ERROR;
}

static enum resp_result more(struct resp_parser *p, size_t need)
{
    p->need = need;
    return RESP_MORE;
}

static enum resp_result finish(struct resp_parser *p, size_t consumed)
{
    p->consumed = consumed;
    p->begun = false;
    p->need = 1;
    return RESP_COMMAND;
}

static bool add(struct resp_parser *p, size_t offset, size_t length)
{
    /* The array grows with the arguments that have arrived, never with the announced number: "*1048576" is
     * ten bytes long and must not cost 16 MiB. */
    if (p->argument_count == p->capacity) {
        size_t capacity = p->capacity == 0 ? ARGUMENTS_FIRST : p->capacity * 2;
        struct argument *arguments = realloc(p->arguments, capacity * sizeof(*arguments));
        if (arguments == NULL)
            return false;
        p->arguments = arguments;
        p->capacity = capacity;
    }
    p->arguments[p->argument_count++] = (struct argument){.offset = offset, .length = length};
    return true;
}

/* Parse as Redis's string2ll() does: no leading zeros, no "-0", no '+'. */
static bool parse_integer(const char *text, size_t length, int64_t *out)
{
    bool negative = length > 0 && text[0] == '-';
    size_t digits = length - negative;
    text += negative;
    if (digits == 0 || digits > 18 || (text[0] == '0' && length > 1))
        return false; /* 18 digits exceed every limit and cannot overflow */
    int64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
    }
    *out = negative ? -value : value;
    return true;
}

/* The most bytes of an inline line or of one header. */
static size_t line_max(const struct resp_parser *p)
{
    return p->stranger && p->limits.inline_max > STRANGER_BULK ? (size_t)STRANGER_BULK : p->limits.inline_max;
}

/* Read a header of one or two digits, which most have. False: the header is longer, incomplete or invalid. */
static bool read_short_header(struct resp_parser *p, const char *bytes, size_t length, int64_t *number)
{
    const char *at = bytes + p->position;
    if (length - p->position < 5 || line_max(p) < 3)
        return false;
    unsigned high = (unsigned char)at[1] - (unsigned)'0', low = (unsigned char)at[2] - (unsigned)'0';
    bool two = high > 0 && low <= 9;
    if (high > 9 || at[2 + two] != '\r')
        return false;
    *number = two ? high * 10 + low : high;
    p->position = p->scanned = p->position + 4 + two;
    return true;
}

/* Read the header ("*3\r\n", "$6\r\n") at p->position. RESP_COMMAND: *number and *valid are set, and
 * p->position is behind the header. As in Redis, any byte after the '\r' is taken for the '\n'. */
static enum resp_result read_header(struct resp_parser *p, const char *bytes, size_t length,
                                    const char *too_big, int64_t *number, bool *valid)
{
    *valid = true;
    if (read_short_header(p, bytes, length, number))
        return RESP_COMMAND;
    const char *end = memchr(bytes + p->scanned, '\r', length - p->scanned);
    size_t at = end != NULL ? (size_t)(end - bytes) : length;
    if (at - p->position > line_max(p))
        return fail(p, too_big);
    p->scanned = at;
    if (end == NULL)
        return more(p, length + 1);
    if (length - at < 2)
        return more(p, at + 2);
    *valid = parse_integer(bytes + p->position + 1, at - p->position - 1, number);
    p->position = p->scanned = at + 2;
    return RESP_COMMAND;
}

static enum resp_result read_bulk_header(struct resp_parser *p, const char *bytes, size_t length)
{
    if (p->position >= length)
        return more(p, p->position + 1);
    if (bytes[p->position] != '$') {
        unsigned char c = (unsigned char)bytes[p->position];
        (void)snprintf(p->error_text, sizeof(p->error_text), "expected '$', got '%c'", iscntrl(c) ? ' ' : c);
        return fail(p, p->error_text);
    }
    int64_t number = 0;
    bool valid = false;
    enum resp_result result = read_header(p, bytes, length, "too big bulk count string", &number, &valid);
    if (result != RESP_COMMAND)
        return result;
    if (!valid || number < 0 || (uint64_t)number > p->limits.bulk_max)
        return fail(p, "invalid bulk length");
    if (p->stranger && number > STRANGER_BULK)
        return fail(p, "unauthenticated bulk length");
    size_t most = p->stranger ? (size_t)STRANGER_REQUEST : p->limits.request_max;
    if ((uint64_t)number > most || p->position > most - (size_t)number)
        return fail(p, "too big request");
    p->bulk = (size_t)number;
    return RESP_COMMAND;
}

/* Read a header such as "$5\r\n" with at most five digits. Returns the address behind it; NULL: the header is
 * incomplete or has another form. */
static const char *read_usual_header(const char *at, const char *end, size_t *number)
{
    const char *first = at + 1;
    size_t n = 0;
    unsigned digit;
    if (end - at < USUAL_HEADER_MAX || *at != '$') /* resp_parse() handles a shorter rest */
        return NULL;
    unsigned high = (unsigned char)first[0] - (unsigned)'0', low = (unsigned char)first[1] - (unsigned)'0';
    if (high > 0 && high <= 9 && low <= 9 && first[2] == '\r') { /* two digits, as most headers have */
        *number = high * 10 + low;
        return first + 4;
    }
    for (at = first; (digit = (unsigned char)*at - (unsigned)'0') <= 9 && at - first < DIGITS_MAX; at++)
        n = n * 10 + digit;
    if (at == first || *at != '\r' || (*first == '0' && at - first > 1))
        return NULL;
    *number = n;
    return at + 2;
}

/* Read complete arguments with short headers, as nearly all are. */
static void read_usual(struct resp_parser *p, const char *bytes, size_t length)
{
    size_t end = p->expected < p->capacity ? p->expected : p->capacity, position = p->position, number;
    const struct resp_limits *most = &p->limits;
    if (p->stranger || line_max(p) < USUAL_HEADER_MAX || position > length)
        return;
    while (p->argument_count < end) {
        const char *body = read_usual_header(bytes + position, bytes + length, &number);
        size_t at = (size_t)(body - bytes);
        if (body == NULL || length - at < number + 2 || number > most->bulk_max || at > most->request_max ||
            number > most->request_max - at)
            break;
        p->arguments[p->argument_count++] = (struct argument){.offset = at, .length = number};
        position = at + number + 2;
    }
    p->position = p->scanned = position;
}

static enum resp_result read_array(struct resp_parser *p, const char *bytes, size_t length)
{
    if (!p->inside) {
        int64_t number = 0;
        bool valid = false;
        enum resp_result result =
            read_header(p, bytes, length, "too big mbulk count string", &number, &valid);
        if (result != RESP_COMMAND)
            return result;
        if (!valid || (number > 0 && (uint64_t)number > p->limits.arguments_max))
            return fail(p, "invalid multibulk length");
        if (p->stranger && number > STRANGER_ARGUMENTS)
            return fail(p, "unauthenticated multibulk length");
        p->expected = number > 0 ? (size_t)number : 0;
        p->inside = true;
    }
    while (p->argument_count < p->expected) {
        if (p->bulk == RESP_NO_BULK) {
            read_usual(p, bytes, length);
            if (p->argument_count == p->expected)
                break;
            enum resp_result result = read_bulk_header(p, bytes, length);
            if (result != RESP_COMMAND)
                return result;
        }
        if (length - p->position < 2 || length - p->position - 2 < p->bulk)
            return more(p, p->position + p->bulk + 2);
        if (!add(p, p->position, p->bulk))
            return fail(p, "out of memory");
        p->position = p->scanned = p->position + p->bulk + 2;
        p->bulk = RESP_NO_BULK;
    }
    return finish(p, p->position);
}

/* An inline line that is being split. It is read at @at and written at @to <= @at, so it is unescaped in
 * place. */
struct line {
    char *bytes;
    size_t at, to, end;
};

static char escaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c;
    }
}

/* Read one escape sequence. l->at points to the backslash, and another byte follows it. */
static void unescape(struct line *l)
{
    const char *b = l->bytes + l->at;
    uint64_t byte;
    if (b[1] == 'x' && l->end - l->at >= 4 && number_hex64(b + 2, 2, &byte)) {
        l->bytes[l->to++] = (char)byte;
        l->at += 4;
    } else {
        l->bytes[l->to++] = escaped(b[1]);
        l->at += 2;
    }
}

/* Read the rest of a quoted part; l->at is behind the opening @quote. False: the closing quote is missing, or
 * something other than a blank follows it. */
static bool read_quoted(struct line *l, char quote)
{
    while (l->at < l->end) {
        char c = l->bytes[l->at];
        if (c == quote) {
            l->at++;
            return l->at == l->end || isspace((unsigned char)l->bytes[l->at]);
        }
        bool pair = c == '\\' && l->end - l->at >= 2;
        if (pair && quote == '"') {
            unescape(l);
        } else {
            if (pair && l->bytes[l->at + 1] == '\'')
                l->at++; /* the only escape sequence between single quotes */
            l->bytes[l->to++] = l->bytes[l->at++];
        }
    }
    return false;
}

static bool ends_word(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool read_word(struct line *l)
{
    while (l->at < l->end && !ends_word(l->bytes[l->at])) {
        char c = l->bytes[l->at];
        if (c == '"' || c == '\'') {
            l->at++;
            return read_quoted(l, c);
        }
        l->bytes[l->to++] = c;
        l->at++;
    }
    return true;
}

static enum resp_result split_line(struct resp_parser *p, char *bytes, size_t end)
{
    struct line l = {.bytes = bytes, .end = end};
    for (;;) {
        while (l.at < l.end && isspace((unsigned char)bytes[l.at]))
            l.at++;
        if (l.at == l.end)
            return RESP_COMMAND;
        size_t start = l.to = l.at;
        if (!read_word(&l))
            return fail(p, "unbalanced quotes in request");
        if (p->argument_count == (p->stranger ? (size_t)STRANGER_ARGUMENTS : p->limits.arguments_max))
            return fail(p, "too big inline request");
        if (!add(p, start, l.to - start))
            return fail(p, "out of memory");
    }
}

static enum resp_result read_inline(struct resp_parser *p, char *bytes, size_t length)
{
    const char *newline = memchr(bytes + p->scanned, '\n', length - p->scanned);
    size_t end = newline != NULL ? (size_t)(newline - bytes) : length;
    if (end > line_max(p))
        return fail(p, "too big inline request");
    p->scanned = end;
    if (newline == NULL)
        return more(p, length + 1);
    enum resp_result result = split_line(p, bytes, end > 0 && bytes[end - 1] == '\r' ? end - 1 : end);
    return result == RESP_COMMAND ? finish(p, end + 1) : result;
}

enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t length)
{
    if (p->error != NULL)
        return RESP_ERROR;
    if (!p->begun) {
        p->argument_count = p->consumed = p->expected = p->position = p->scanned = 0;
        p->bulk = RESP_NO_BULK;
        p->inside = false;
        p->begun = true;
    }
    if (length < p->need)
        return RESP_MORE;
    return bytes[0] == '*' ? read_array(p, bytes, length) : read_inline(p, bytes, length);
}

size_t resp_again(const struct resp_parser *p, const char *same, size_t same_length, const char *bytes,
                  size_t length, size_t most, struct argument *last, size_t *used)
{
    const char *at = bytes, *end = bytes + length;
    size_t count = 0, number;
    if (p->stranger || line_max(p) < USUAL_HEADER_MAX)
        most = 0;
    while (count < most && (size_t)(end - at) > same_length && memcmp(at, same, same_length) == 0) {
        const char *key = read_usual_header(at + same_length, end, &number);
        if (key == NULL || (size_t)(end - key) < number + 2 || number > p->limits.bulk_max ||
            (size_t)(key - at) + number + 2 > p->limits.request_max)
            break;
        last[count++] = (struct argument){.bytes = key, .length = number};
        at = key + number + 2;
    }
    *used = (size_t)(at - bytes);
    return count;
}

void resp_locate(struct resp_parser *p, const char *bytes)
{
    for (size_t i = 0; i < p->argument_count; i++)
        p->arguments[i].bytes = bytes + p->arguments[i].offset;
}

void resp_move(struct resp_parser *p, const char *from, const char *to)
{
    for (size_t i = 0; i < p->argument_count; i++)
        p->arguments[i].bytes = to + (p->arguments[i].bytes - from);
}

void resp_borrow(struct resp_parser *p, struct resp_spare *spare)
{
    if (p->arguments != NULL)
        return;
    p->arguments = spare->arguments;
    p->capacity = spare->capacity;
    *spare = (struct resp_spare){0};
}

void resp_return(struct resp_parser *p, struct resp_spare *spare)
{
    if (p->begun || p->arguments == NULL)
        return;
    size_t capacity = p->capacity;
    struct argument *arguments = resp_take(p);
    if (spare->arguments != NULL || capacity > ARGUMENTS_KEPT)
        free(arguments);
    else
        *spare = (struct resp_spare){.arguments = arguments, .capacity = capacity};
}

size_t resp_memory(const struct resp_parser *p)
{
    return p->capacity * sizeof(*p->arguments);
}

struct argument *resp_take(struct resp_parser *p)
{
    struct argument *arguments = p->arguments;
    p->arguments = NULL;
    p->capacity = 0;
    return arguments;
}

bool argument_is(const struct argument *a, const char *word)
{
    return a->length == strlen(word) && strncasecmp(a->bytes, word, a->length) == 0;
}
