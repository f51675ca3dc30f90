/* SPDX-License-Identifier: MIT */
#include "service/cli/keys/cli_split.h"

#include <inttypes.h>
#include <string.h>

#include "base/number.h"

enum { AT_START, IN_FIELD, IN_QUOTES, BEHIND_QUOTE };

void split_init(struct split *s, enum split_kind kind, const char *column)
{
    uint64_t number;
    *s = (struct split){.kind = kind, .state = AT_START, .field = 1, .record = 1};
    if (kind != SPLIT_CSV)
        return;
    s->name = column;
    if (number_u64(column, strlen(column), &number) && number >= 1 && number < SIZE_MAX)
        s->column = (size_t)number;
    s->searching = s->column == 0;
}

void split_fini(struct split *s)
{
    buffer_fini(&s->key);
}

/* Hand out the gathered key. */
static enum err emit(struct split *s, const char *key, size_t length, split_fn *fn, void *arg)
{
    if (length == 0)
        s->empty++;
    else if (!fn(arg, key, length))
        return ERR_CANCELLED;
    return ERR_OK;
}

static enum err gather(struct split *s, const char *bytes, size_t length, struct error *e)
{
    if (length > SPLIT_KEY_MAX || s->key.length > SPLIT_KEY_MAX - length)
        return error_set(e, ERR_RANGE, "a key is longer than %d MiB%s", SPLIT_KEY_MAX >> 20,
                         s->state == IN_QUOTES ? "; perhaps a quote is not closed" : "");
    buffer_append(&s->key, bytes, length);
    return buffer_failed(&s->key) ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
}

/* --- one separator --- */

static enum err feed_separated(struct split *s, const char *bytes, size_t length, split_fn *fn, void *arg,
                               struct error *e)
{
    const char separator = s->kind == SPLIT_NULS ? '\0' : '\n';
    enum err code = ERR_OK;
    while (length > 0 && code == ERR_OK) {
        const char *end = memchr(bytes, separator, length);
        size_t n = end == NULL ? length : (size_t)(end - bytes);
        if (end != NULL && s->key.length == 0) { /* a complete key in the buffer needs no copy */
            code = emit(s, bytes, n, fn, arg);
        } else {
            code = gather(s, bytes, n, e);
            if (code == ERR_OK && end != NULL) {
                code = emit(s, s->key.data, s->key.length, fn, arg);
                buffer_clear(&s->key);
            }
        }
        n += end != NULL;
        bytes += n;
        length -= n;
    }
    return code;
}

/* --- CSV --- */

static bool is_wanted(const struct split *s)
{
    return s->searching || s->field == s->column;
}

/* Compare a field of the first record with the wanted column's name. */
static void compare_name(struct split *s)
{
    if (s->column == 0 && s->key.length == strlen(s->name) &&
        (s->key.length == 0 || memcmp(s->key.data, s->name, s->key.length) == 0))
        s->column = s->field;
    buffer_clear(&s->key);
}

static void end_field(struct split *s)
{
    if (s->searching)
        compare_name(s);
    s->field++;
    s->state = AT_START;
}

static enum err end_record(struct split *s, split_fn *fn, void *arg, struct error *e)
{
    enum err code = ERR_OK;
    bool blank = s->field == 1 && s->state == AT_START;
    if (s->state == IN_FIELD && is_wanted(s) && s->key.length > 0 &&
        s->key.data[s->key.length - 1] == '\r') { /* part of CR LF */
        s->key.length--;
        blank = s->field == 1 && s->key.length == 0;
    }
    if (s->searching) {
        compare_name(s);
        s->searching = false;
        if (s->column == 0)
            code = error_set(e, ERR_PARSE, "the first record has no column \"%.100s\"", s->name);
    } else if (blank) {
        s->empty++;
    } else if (s->bad || s->field < s->column) {
        if (s->malformed++ == 0)
            s->first_malformed = s->record;
    } else {
        code = emit(s, s->key.data, s->key.length, fn, arg);
    }
    buffer_clear(&s->key);
    s->bad = false;
    s->field = 1;
    s->record++;
    s->state = AT_START;
    return code;
}

static enum err take_quoted(struct split *s, char c, split_fn *fn, void *arg, struct error *e)
{
    if (s->state == IN_QUOTES) {
        if (c != '"')
            return is_wanted(s) ? gather(s, &c, 1, e) : ERR_OK;
        s->state = BEHIND_QUOTE;
        return ERR_OK;
    }
    if (c == '"') { /* a doubled quote is one quote */
        s->state = IN_QUOTES;
        return is_wanted(s) ? gather(s, &c, 1, e) : ERR_OK;
    }
    if (c == '\n')
        return end_record(s, fn, arg, e);
    if (c == ',')
        end_field(s);
    else
        s->bad |= c != '\r';
    return ERR_OK;
}

static enum err take(struct split *s, char c, split_fn *fn, void *arg, struct error *e)
{
    if (s->state == IN_QUOTES || s->state == BEHIND_QUOTE)
        return take_quoted(s, c, fn, arg, e);
    if (c == '\n')
        return end_record(s, fn, arg, e);
    if (c == ',') {
        end_field(s);
        return ERR_OK;
    }
    if (c == '"' && s->state == AT_START) {
        s->state = IN_QUOTES;
        s->quote_record = s->record;
        return ERR_OK;
    }
    s->state = IN_FIELD;
    return is_wanted(s) ? gather(s, &c, 1, e) : ERR_OK;
}

/* Skip the byte order mark that some programs write before UTF-8. True: @c may belong to it, and is not taken
 * as text yet. */
static bool is_mark(struct split *s, char c, split_fn *fn, void *arg, enum err *code, struct error *e)
{
    static const char mark[] = "\xef\xbb\xbf";
    enum { MARK_BYTES = sizeof(mark) - 1 };
    if (s->mark >= MARK_BYTES)
        return false;
    if (c == mark[s->mark]) {
        s->mark++;
        return true;
    }
    for (unsigned i = 0; i < s->mark && *code == ERR_OK; i++) /* it was not a byte order mark */
        *code = take(s, mark[i], fn, arg, e);
    s->mark = MARK_BYTES;
    return false;
}

/* --- both formats --- */

enum err split_feed(struct split *s, const char *bytes, size_t length, split_fn *fn, void *arg,
                    struct error *e)
{
    if (s->kind != SPLIT_CSV)
        return feed_separated(s, bytes, length, fn, arg, e);
    enum err code = ERR_OK;
    for (size_t i = 0; i < length && code == ERR_OK; i++)
        if (!is_mark(s, bytes[i], fn, arg, &code, e) && code == ERR_OK)
            code = take(s, bytes[i], fn, arg, e);
    return code;
}

enum err split_end(struct split *s, split_fn *fn, void *arg, struct error *e)
{
    if (s->kind != SPLIT_CSV)
        return s->key.length > 0 ? emit(s, s->key.data, s->key.length, fn, arg) : ERR_OK;
    if (s->state == IN_QUOTES)
        return error_set(e, ERR_PARSE, "the quote that opens in record %" PRIu64 " is not closed",
                         s->quote_record);
    bool nothing = s->field == 1 && s->state == AT_START;
    return nothing ? ERR_OK : end_record(s, fn, arg, e);
}
