/* SPDX-License-Identifier: MIT */
/* HTTP requests: the parser must find the same in one piece and in many pieces, within its bounds. The first
 * byte of the input selects the length of the pieces. */
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "service/http/message/http_parse.h"
#include "tests/fuzz/fuzz.h"

enum { BODY_MAX = 4096 };

static void note_head(const struct http_parser *p, struct buffer *out)
{
    fuzz_check(p->header_count <= HTTP_HEADERS_MAX && (p->path[0] == '/' || strcmp(p->path, "*") == 0));
    fuzz_check(p->minor == 0 || p->host != NULL);
    buffer_printf(out, "%s %s %s %s %d %d %d\n", p->method, p->path, p->query == NULL ? "-" : p->query,
                  p->host == NULL ? "-" : p->host, p->minor, p->keep_alive, p->expects);
    for (size_t i = 0; i < p->header_count; i++)
        buffer_printf(out, "%s: %s\n", p->headers[i].name, p->headers[i].value);
}

static void transcribe(struct buffer *out, const uint8_t *bytes, size_t length, size_t piece)
{
    struct http_parser p;
    size_t at = 0;
    enum http_step step = HTTP_MORE;
    http_parser_init(&p, BODY_MAX);
    while (step != HTTP_REFUSED && (at < length || step == HTTP_HEAD || http_parser_is_whole(&p))) {
        size_t used, n = length - at < piece ? length - at : piece;
        fuzz_check(n < SIZE_MAX);
        char *copy = malloc(n + 1); /* exact size, with one byte in front */
        if (copy == NULL)
            abort();
        if (n > 0)
            memcpy(copy + 1, bytes + at, n);
        step = http_parse(&p, copy + 1, n, &used);
        free(copy);
        fuzz_check(used <= n && (step != HTTP_MORE || used == n) && p.body.length <= BODY_MAX);
        at += used;
        if (step == HTTP_HEAD)
            note_head(&p, out);
        if (step == HTTP_WHOLE) {
            buffer_append(out, p.body.data, p.body.length);
            http_parser_reset(&p);
        }
        if (step == HTTP_HEAD && n == 0 && !http_parser_is_whole(&p))
            break;
    }
    if (step == HTTP_REFUSED) {
        fuzz_check(p.status >= 400 && p.why != NULL);
        buffer_printf(out, "%d %s\n", p.status, p.why);
    }
    http_parser_reset(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct buffer whole = {0}, pieces = {0};
    transcribe(&whole, data + 1, size - 1, SIZE_MAX);
    transcribe(&pieces, data + 1, size - 1, data[0] % 16 + 1u);
    fuzz_check(whole.length == pieces.length &&
               (whole.length == 0 || memcmp(whole.data, pieces.data, whole.length) == 0));
    buffer_fini(&whole);
    buffer_fini(&pieces);
    return 0;
}
