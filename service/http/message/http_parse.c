/* SPDX-License-Identifier: MIT */
#include "service/http/message/http_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/number.h"

enum state {
    STATE_HEAD,
    STATE_LENGTH, /* in a body of known length */
    STATE_SIZE,   /* in the size line before a chunk */
    STATE_CHUNK,
    STATE_BEHIND, /* in the line end behind a chunk */
    STATE_TRAILER,
    STATE_WHOLE,
    STATE_REFUSED
};

enum { CHUNK_LINE_MAX = 1024, CHUNK_DIGITS_MAX = 15 };

void http_parser_init(struct http_parser *p, size_t body_max)
{
    *p = (struct http_parser){.body_max = body_max, .state = STATE_HEAD};
}

void http_parser_reset(struct http_parser *p)
{
    free(p->headers);
    buffer_fini(&p->head);
    buffer_fini(&p->body);
    http_parser_init(p, p->body_max);
}

static enum http_step refuse(struct http_parser *p, int status, const char *why)
{
    p->state = STATE_REFUSED;
    p->status = status;
    p->why = why;
    return HTTP_REFUSED;
}

/* --- the head, once all its lines are there --- */

static bool is_token(const char *text)
{
    static const char separators[] = "()<>@,;:\\\"/[]?={} \t";
    bool good = *text != '\0';
    for (; *text != '\0'; text++)
        good = good && *text > 0x20 && *text < 0x7f && strchr(separators, *text) == NULL;
    return good;
}

static bool is_known_method(const char *method)
{
    static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(method, known[i]) == 0)
            return true;
    return false;
}

/* Split "http://host/path" into host and path. The host is moved to the left, so that there is room for a NUL
 * behind it. */
static bool take_authority(struct http_parser *p, char *target)
{
    static const char scheme[] = "http";
    size_t skip = sizeof(scheme) - 1;
    if (strncasecmp(target, scheme, skip) != 0)
        return false;
    skip += tolower((unsigned char)target[skip]) == 's';
    if (strncmp(target + skip, "://", 3) != 0)
        return false;
    char *authority = target + skip + 3;
    size_t length = strcspn(authority, "/?");
    if (length == 0 || authority[length] != '/' || memchr(authority, '@', length) != NULL)
        return false;
    memmove(target, authority, length);
    target[length] = '\0';
    p->host = target;
    p->path = authority + length;
    return true;
}

static bool take_target(struct http_parser *p, char *target)
{
    for (const char *at = target; *at != '\0'; at++)
        /* Char may be signed: bytes above 0x7f are negative then. */
        if (*at <= 0x20 || *at >= 0x7f || *at == '#')
            return false;
    p->path = target;
    if (*target != '/' && strcmp(target, "*") != 0 && !take_authority(p, target))
        return false;
    char *query = target + (p->path - target) + strcspn(p->path, "?");
    if (*query != '\0') {
        *query = '\0';
        p->query = query + 1;
    }
    return true;
}

static enum http_step take_request_line(struct http_parser *p, char *line)
{
    static const char version[] = "HTTP/1.";
    enum { VERSION = sizeof(version) - 1 };
    char *target = strchr(line, ' ');
    char *end = target == NULL ? NULL : strchr(target + 1, ' ');
    if (end == NULL || strncmp(end + 1, version, VERSION) != 0 || !isdigit((unsigned char)end[1 + VERSION]) ||
        end[2 + VERSION] != '\0')
        return refuse(p, 400, "the request line is not that of HTTP/1.0 or HTTP/1.1");
    *target++ = *end = '\0';
    p->minor = end[1 + VERSION] - '0';
    p->method = line;
    if (!is_token(p->method))
        return refuse(p, 400, "the request line is not that of HTTP/1.0 or HTTP/1.1");
    if (!is_known_method(p->method))
        return refuse(p, 501, "the method is not supported");
    return take_target(p, target) ? HTTP_MORE : refuse(p, 400, "the target of the request is not a path");
}

static enum http_step take_header(struct http_parser *p, char *line)
{
    char *colon = strchr(line, ':');
    if (colon == NULL)
        return refuse(p, 400, "a header line has no colon");
    *colon = '\0';
    if (!is_token(line))
        return refuse(p, 400, "the name of a header has a character that is not allowed");
    char *value = colon + 1 + strspn(colon + 1, " \t"), *end = value + strlen(value);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    p->headers[p->header_count++] = (struct http_header){.name = line, .value = value};
    return HTTP_MORE;
}

static const char *header_after(const struct http_parser *p, const char *name, size_t *at)
{
    for (; *at < p->header_count; ++*at) /* the first letter tells most names apart */
        if (((p->headers[*at].name[0] ^ name[0]) & ~0x20) == 0 && strcasecmp(p->headers[*at].name, name) == 0)
            return p->headers[(*at)++].value;
    return NULL;
}

const char *http_parser_header(const struct http_parser *p, const char *name)
{
    size_t at = 0;
    return header_after(p, name, &at);
}

bool http_list_has(const char *list, const char *word)
{
    while (*list != '\0') {
        list += strspn(list, ", \t");
        size_t n = strcspn(list, ", \t");
        if (n > 0 && n == strlen(word) && strncasecmp(list, word, n) == 0)
            return true;
        list += n;
    }
    return false;
}

static bool has_word(const struct http_parser *p, const char *name, const char *word)
{
    size_t at = 0;
    const char *value;
    while ((value = header_after(p, name, &at)) != NULL)
        if (http_list_has(value, word))
            return true;
    return false;
}

/* Refuse a second header of a kind that decides how the request is read, or who the user is. With two of them
 * another program could read the request differently. */
static enum http_step refuse_twofold(struct http_parser *p)
{
    static const struct {
        const char *name, *why;
    } single[] = {{"Content-Length", "the header Content-Length is given twice"},
                  {"Transfer-Encoding", "the header Transfer-Encoding is given twice"},
                  {"Host", "the header Host is given twice"},
                  {"Authorization", "the header Authorization is given twice"},
                  {"Content-Type", "the header Content-Type is given twice"},
                  {"Content-Encoding", "the header Content-Encoding is given twice"},
                  {"Expect", "the header Expect is given twice"}};
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
        size_t at = 0;
        (void)header_after(p, single[i].name, &at);
        if (header_after(p, single[i].name, &at) != NULL)
            return refuse(p, 400, single[i].why);
    }
    return HTTP_MORE;
}

static bool has_no_body(const char *method)
{
    return strcmp(method, "HEAD") == 0 || strcmp(method, "TRACE") == 0;
}

static enum http_step take_length(struct http_parser *p, const char *text)
{
    uint64_t length = 0;
    if (*text == '\0' || text[strspn(text, "0123456789")] != '\0')
        return refuse(p, 400, "Content-Length is not a number");
    for (; *text != '\0' && length <= p->body_max; text++)
        length = length * 10 + (uint64_t)(*text - '0');
    if (length > 0 && has_no_body(p->method))
        return refuse(p, 400, "a HEAD or TRACE request cannot have a body");
    if (length > p->body_max)
        return refuse(p, 413, "the body is larger than [service] http_body_max");
    p->left = length;
    p->state = length > 0 ? STATE_LENGTH : STATE_WHOLE;
    return HTTP_HEAD;
}

/* Find out where the request ends. */
static enum http_step take_framing(struct http_parser *p)
{
    const char *encoding = http_parser_header(p, "Transfer-Encoding");
    const char *length = http_parser_header(p, "Content-Length");
    if (encoding == NULL)
        return take_length(p, length == NULL ? "0" : length);
    if (length != NULL)
        return refuse(p, 400, "Transfer-Encoding and Content-Length are both given");
    if (p->minor == 0)
        return refuse(p, 400, "an HTTP/1.0 request cannot have Transfer-Encoding");
    if (strcasecmp(encoding, "chunked") != 0)
        return refuse(p, 501, "the only Transfer-Encoding that is supported is chunked");
    if (has_no_body(p->method))
        return refuse(p, 400, "a HEAD or TRACE request cannot have a body");
    p->state = STATE_SIZE;
    return HTTP_HEAD;
}

static enum http_step understand(struct http_parser *p)
{
    enum http_step step = refuse_twofold(p);
    const char *expected = http_parser_header(p, "Expect");
    if (step != HTTP_MORE)
        return step;
    const char *host = http_parser_header(p, "Host");
    if (host == NULL && p->minor > 0)
        return refuse(p, 400, "the header Host is missing");
    if (p->host == NULL)
        p->host = host;
    if (expected != NULL && p->minor > 0 && strcasecmp(expected, "100-continue") != 0)
        return refuse(p, 417, "the only expectation that is supported is 100-continue");
    p->expects = expected != NULL && p->minor > 0;
    p->keep_alive =
        p->minor > 0 ? !has_word(p, "Connection", "close") : has_word(p, "Connection", "keep-alive");
    return take_framing(p);
}

/* Parse the lines in p->head. Each ends with CRLF, and the last one is empty. */
static enum http_step take_head(struct http_parser *p)
{
    size_t lines = 0;
    (void)buffer_text(&p->head);
    if (buffer_failed(&p->head))
        return refuse(p, 503, "out of memory");
    for (const char *at = p->head.data; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    if (lines > HTTP_HEADERS_MAX + 2)
        return refuse(p, 400, "the request has more than 100 headers");
    p->headers = calloc(lines + 1, sizeof(*p->headers));
    if (p->headers == NULL)
        return refuse(p, 503, "out of memory");
    char *line = p->head.data;
    enum http_step step = HTTP_MORE;
    for (size_t i = 0; i + 1 < lines && step == HTTP_MORE; i++) {
        char *end = strchr(line, '\r'), *next = end + 2;
        *end = '\0';
        step = i == 0 ? take_request_line(p, line) : take_header(p, line);
        line = next;
    }
    return step == HTTP_MORE ? understand(p) : step;
}

/* --- bytes --- */

/* Take @c, the next byte of a line that ends in CRLF. HTTP_WHOLE: the line is complete. */
static enum http_step line_byte(struct http_parser *p, char c)
{
    unsigned char byte = (unsigned char)c;
    if (p->cr && c != '\n')
        return refuse(p, 400, "a carriage return has no line feed behind it");
    if (c == '\n') {
        if (!p->cr)
            return refuse(p, 400, "a line feed has no carriage return before it");
        p->cr = false;
        return HTTP_WHOLE;
    }
    p->cr = c == '\r';
    if (!p->cr && ((byte < 0x20 && c != '\t') || byte == 0x7f))
        return refuse(p, 400, "the head has a control character");
    p->line += !p->cr;
    return HTTP_MORE;
}

static enum http_step read_head(struct http_parser *p, const char *bytes, size_t length, size_t *used)
{
    enum http_step step = HTTP_MORE;
    size_t i = 0, from = 0;
    bool over = false;
    while (i < length && !over) {
        if (p->head.length + i - from >= HTTP_HEAD_MAX)
            return refuse(p, 400, "the head is larger than 16 KiB");
        step = line_byte(p, bytes[i++]);
        if (step == HTTP_REFUSED)
            return step;
        if (step != HTTP_WHOLE)
            continue;
        bool empty = p->line == 0, first = p->head.length + i - from == 2;
        p->line = 0;
        if (empty && first && p->blank)
            return refuse(p, 400, "the request line is not that of HTTP/1.0 or HTTP/1.1");
        if (empty && first) { /* one empty line before the request is allowed */
            p->blank = true;
            buffer_clear(&p->head);
            from = i;
        }
        /* Check the request line at once: a client with another protocol gets its answer early. */
        if (!first && !p->begun) {
            buffer_append(&p->head, bytes + from, i - from);
            from = i;
            p->begun = true;
            if (buffer_failed(&p->head))
                return refuse(p, 503, "out of memory");
            if (memmem(p->head.data, p->head.length, " HTTP/", 6) == NULL)
                return refuse(p, 400, "the request line is not that of HTTP/1.0 or HTTP/1.1");
        }
        over = empty && !first;
    }
    buffer_append(&p->head, bytes + from, i - from);
    *used = i;
    return over ? take_head(p) : HTTP_MORE;
}

/* Take a byte of a chunk's size line, such as "1f;extension\r\n". */
static enum http_step size_byte(struct http_parser *p, char c)
{
    enum http_step step = line_byte(p, c);
    if (step == HTTP_REFUSED || c == '\r')
        return step;
    if (step == HTTP_WHOLE) {
        if (p->digits == 0)
            return refuse(p, 400, "a chunk has no size");
        p->state = p->left == 0 ? STATE_TRAILER : STATE_CHUNK;
        p->line = p->digits = 0;
        p->extended = false;
        return p->left > p->body_max - p->body.length
                   ? refuse(p, 413, "the body is larger than [service] http_body_max")
                   : HTTP_MORE;
    }
    if (p->line > CHUNK_LINE_MAX)
        return refuse(p, 400, "the line of a chunk's size is too long");
    if (p->extended)
        return HTTP_MORE;
    if (c == ';' && p->digits > 0) {
        p->extended = true;
        return HTTP_MORE;
    }
    uint64_t value;
    if (!number_hex64(&c, 1, &value))
        return refuse(p, 400, "the size of a chunk is not a hexadecimal number");
    if (++p->digits > CHUNK_DIGITS_MAX)
        return refuse(p, 413, "the body is larger than [service] http_body_max");
    p->left = p->left << 4 | value;
    return HTTP_MORE;
}

static enum http_step frame_byte(struct http_parser *p, char c)
{
    enum http_step step;
    switch (p->state) {
    case STATE_SIZE:
        return size_byte(p, c);
    case STATE_BEHIND:
        step = line_byte(p, c);
        if (step == HTTP_MORE && c != '\r')
            return refuse(p, 400, "a chunk is longer than its size");
        if (step == HTTP_WHOLE)
            p->state = STATE_SIZE;
        return step == HTTP_REFUSED ? step : HTTP_MORE;
    default: /* STATE_TRAILER: trailers are ignored */
        step = line_byte(p, c);
        if (step == HTTP_MORE && ++p->extra > HTTP_HEAD_MAX)
            return refuse(p, 400, "the trailers are larger than 16 KiB");
        if (step == HTTP_WHOLE && p->line == 0)
            p->state = STATE_WHOLE;
        if (step == HTTP_WHOLE)
            p->line = 0;
        return step == HTTP_REFUSED ? step : HTTP_MORE;
    }
}

static enum http_step read_data(struct http_parser *p, const char *bytes, size_t length, size_t *used)
{
    size_t n = length < p->left ? length : (size_t)p->left;
    if (!p->skip)
        buffer_append(&p->body, bytes, n);
    *used += n;
    p->left -= n;
    if (buffer_failed(&p->body))
        return refuse(p, 503, "out of memory");
    if (p->left == 0)
        p->state = p->state == STATE_LENGTH ? STATE_WHOLE : STATE_BEHIND;
    return HTTP_MORE;
}

enum http_step http_parse(struct http_parser *p, const char *bytes, size_t length, size_t *used)
{
    enum http_step step = HTTP_MORE;
    *used = 0;
    if (p->state == STATE_HEAD)
        return read_head(p, bytes, length, used);
    while (*used < length && p->state != STATE_WHOLE && p->state != STATE_REFUSED && step == HTTP_MORE)
        step = p->state == STATE_LENGTH || p->state == STATE_CHUNK
                   ? read_data(p, bytes + *used, length - *used, used)
                   : frame_byte(p, bytes[(*used)++]);
    return p->state == STATE_WHOLE ? HTTP_WHOLE : p->state == STATE_REFUSED ? HTTP_REFUSED : HTTP_MORE;
}

bool http_parser_is_whole(const struct http_parser *p)
{
    return p->state == STATE_WHOLE;
}

bool http_parser_skip(struct http_parser *p)
{
    p->skip = true;
    return p->state == STATE_WHOLE || (p->state == STATE_LENGTH && !p->expects && p->left <= HTTP_SKIP_MAX);
}

size_t http_parser_memory(const struct http_parser *p)
{
    size_t headers = p->headers == NULL ? 0 : (p->header_count + 2) * sizeof(*p->headers);
    return p->head.capacity + p->body.capacity + headers;
}
