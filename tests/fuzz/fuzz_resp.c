/* SPDX-License-Identifier: MIT */
/* The parser of requests must find the same in all bytes at once and in two pieces, with and without
 * resp_again(). The first byte of the input selects where the pieces meet. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "service/protocol/resp.h"
#include "tests/fuzz/fuzz.h"

static const struct resp_limits limits = {
    .request_max = 65536, .bulk_max = 4096, .arguments_max = 64, .inline_max = 256};

static void note_number(struct buffer *out, size_t n)
{
    buffer_append(out, &n, sizeof(n));
}

static void note_argument(struct buffer *out, const char *bytes, size_t length)
{
    note_number(out, length);
    buffer_append(out, bytes, length);
}

/* Note the commands after the one at @shown that differ from it only in their last argument. Returns their
 * length in bytes. */
static size_t feed_again(const struct resp_parser *p, struct buffer *out, const char *shown, size_t length)
{
    enum { MOST = 4 };
    size_t count = p->argument_count, used = 0;
    struct argument last[MOST];
    if (count < 2 || shown[0] != '*')
        return 0;
    const struct argument *before = &p->arguments[count - 2];
    size_t others = resp_again(p, shown, before->offset + before->length + 2, shown + p->consumed,
                               length - p->consumed, MOST, last, &used);
    fuzz_check(others <= MOST && used <= length - p->consumed);
    for (size_t i = 0; i < others; i++) {
        note_number(out, count);
        for (size_t a = 0; a + 1 < count; a++)
            note_argument(out, shown + p->arguments[a].offset, p->arguments[a].length);
        note_argument(out, last[i].bytes, last[i].length);
    }
    return used;
}

/* Parse bytes[*start, end), and append a transcript of the commands and errors to @out. */
static enum resp_result feed(struct resp_parser *p, struct buffer *out, const uint8_t *bytes, size_t *start,
                             size_t end, bool again)
{
    enum resp_result result;
    do {
        size_t length = end - *start;
        char *copy = malloc(length + 1); /* exact size, with one byte in front */
        if (copy == NULL)
            abort();
        char *shown = copy + 1;
        if (length > 0)
            memcpy(shown, bytes + *start, length);
        result = resp_parse(p, shown, length);
        if (result == RESP_ERROR)
            buffer_puts(out, p->error);
        fuzz_check(result != RESP_MORE || p->need > length);
        if (result == RESP_COMMAND) {
            fuzz_check(p->consumed > 0 && p->consumed <= length);
            note_number(out, p->argument_count);
            for (size_t i = 0; i < p->argument_count; i++) {
                struct argument a = p->arguments[i];
                fuzz_check(a.offset <= p->consumed && a.length <= p->consumed - a.offset);
                note_argument(out, shown + a.offset, a.length);
            }
            *start += p->consumed + (again ? feed_again(p, out, shown, length) : 0);
        }
        free(copy);
    } while (result == RESP_COMMAND);
    return result;
}

static void transcribe(struct buffer *out, const uint8_t *bytes, size_t cut, size_t length, bool again)
{
    struct resp_parser p;
    resp_init(&p, &limits);
    size_t start = 0;
    enum resp_result result = RESP_MORE;
    if (cut < length)
        result = feed(&p, out, bytes, &start, cut, again);
    if (result == RESP_MORE)
        result = feed(&p, out, bytes, &start, length, again);
    note_number(out, result == RESP_MORE ? start : SIZE_MAX);
    resp_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t length = size - 1, cut = (size_t)data[0] * length / 256;
    struct buffer whole = {0}, pieces = {0}, again = {0};
    transcribe(&whole, data + 1, length, length, false);
    transcribe(&pieces, data + 1, cut, length, false);
    transcribe(&again, data + 1, cut, length, true);
    fuzz_check(whole.length == pieces.length && memcmp(whole.data, pieces.data, whole.length) == 0);
    fuzz_check(whole.length == again.length && memcmp(whole.data, again.data, whole.length) == 0);
    buffer_fini(&again);
    buffer_fini(&whole);
    buffer_fini(&pieces);
    return 0;
}
