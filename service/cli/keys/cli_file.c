/* SPDX-License-Identifier: MIT */
#include "service/cli/keys/cli_file.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { VERSION = 1, START_BYTES = 16, HEAD_BYTES = 16, SUM_BYTES = 8, MAGIC_BYTES = 8 };

static const char magic[MAGIC_BYTES] = {'T', 'W', 'B', 'L', 'F', 'I', 'L', 'E'};

static void put_u64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof(value));
}

static uint64_t get_u64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return le64toh(value);
}

static uint64_t piece_sum(const uint8_t *head, const void *bytes, size_t length)
{
    return XXH3_64bits_withSeed(bytes, length, XXH3_64bits(head, HEAD_BYTES));
}

/* --- writing --- */

static enum err put(struct dump_file *f, const void *bytes, size_t length, struct error *e)
{
    if (length > 0 && fwrite(bytes, 1, length, f->stream) != length)
        return error_set(e, ERR_IO, "the dump could not be written: %s", strerror(errno));
    f->bytes += length;
    return ERR_OK;
}

enum err dump_file_write_start(struct dump_file *f, struct error *e)
{
    uint8_t start[START_BYTES] = {0};
    memcpy(start, magic, MAGIC_BYTES);
    put_u64(start + MAGIC_BYTES, VERSION);
    return put(f, start, sizeof(start), e);
}

enum err dump_file_write(struct dump_file *f, uint64_t position, const void *bytes, size_t length,
                         struct error *e)
{
    uint8_t head[HEAD_BYTES] = {0}, sum[SUM_BYTES];
    put_u64(head, position);
    put_u64(head + 8, length);
    put_u64(sum, piece_sum(head, bytes, length));
    f->sum = XXH3_64bits_withSeed(sum, sizeof(sum), f->sum);
    f->count++;
    enum err code = put(f, head, sizeof(head), e);
    if (code == ERR_OK)
        code = put(f, bytes, length, e);
    return code == ERR_OK ? put(f, sum, sizeof(sum), e) : code;
}

enum err dump_file_write_end(struct dump_file *f, struct error *e)
{
    uint8_t end[HEAD_BYTES + 2 * SUM_BYTES] = {0};
    put_u64(end + HEAD_BYTES, f->count);
    put_u64(end + HEAD_BYTES + SUM_BYTES, f->sum);
    return put(f, end, sizeof(end), e);
}

/* --- reading --- */

static enum err get(struct dump_file *f, void *bytes, size_t length, struct error *e)
{
    size_t n = fread(bytes, 1, length, f->stream);
    if (n < length && ferror(f->stream) != 0)
        return error_set(e, ERR_IO, "the dump could not be read: %s", strerror(errno));
    if (n < length)
        return error_set(e, ERR_LOST, "the dump was cut after %llu pieces", (unsigned long long)f->count);
    f->bytes += length;
    return ERR_OK;
}

enum err dump_file_read_start(struct dump_file *f, struct error *e)
{
    uint8_t start[START_BYTES];
    enum err code = get(f, start, sizeof(start), e);
    if (code == ERR_IO)
        return code;
    if (code != ERR_OK || memcmp(start, magic, MAGIC_BYTES) != 0)
        return error_set(e, ERR_PARSE, "this is not a dump of a filter");
    uint32_t version = (uint32_t)get_u64(start + MAGIC_BYTES);
    if (version != VERSION)
        return error_set(e, ERR_PARSE, "the dump has version %u, not %d", version, VERSION);
    return ERR_OK;
}

static enum err damaged(const struct dump_file *f, struct error *e)
{
    return error_set(e, ERR_PARSE, "the dump is damaged after %llu pieces", (unsigned long long)f->count);
}

static enum err read_end(struct dump_file *f, struct error *e)
{
    uint8_t end[2 * SUM_BYTES];
    enum err code = get(f, end, sizeof(end), e);
    if (code != ERR_OK)
        return code;
    if (get_u64(end) != f->count || get_u64(end + SUM_BYTES) != f->sum)
        return damaged(f, e);
    if (fgetc(f->stream) != EOF)
        return error_set(e, ERR_PARSE, "there is data after the end of the dump");
    return ERR_OK;
}

enum err dump_file_read(struct dump_file *f, uint64_t *position, struct buffer *bytes, bool *end,
                        struct error *e)
{
    uint8_t head[HEAD_BYTES], sum[SUM_BYTES];
    *end = false;
    buffer_clear(bytes);
    enum err code = get(f, head, sizeof(head), e);
    if (code != ERR_OK)
        return code;
    *position = get_u64(head);
    uint64_t length = get_u64(head + 8); /* and the zero behind it */
    if (length > FILE_PIECE_MAX || (*position == 0) != (length == 0))
        return damaged(f, e);
    if (*position == 0) {
        *end = true;
        return read_end(f, e);
    }
    char *to = buffer_reserve(bytes, length);
    if (to == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    code = get(f, to, length, e);
    if (code == ERR_OK)
        code = get(f, sum, sizeof(sum), e);
    if (code != ERR_OK)
        return code;
    bytes->length = length;
    if (get_u64(sum) != piece_sum(head, to, length))
        return damaged(f, e);
    f->sum = XXH3_64bits_withSeed(sum, sizeof(sum), f->sum);
    f->count++;
    return ERR_OK;
}
