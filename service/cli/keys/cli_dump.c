/* SPDX-License-Identifier: MIT */
/* dump and restore. The happy path of a dump is: request pieces until there are no more, then write the
 * file's end. Of a restore: read the file to its end once to check it, then send the pieces that the service
 * lacks. Possible failure modes are: the connection breaks or the file is cut (the same command continues
 * where it stopped); the filter is rebuilt meanwhile (the dump begins again); the file is damaged (nothing is
 * sent; from a pipe all but the last piece is sent, so nothing becomes visible). */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "service/cli/keys/cli_keys.h"
#include "service/cli/common/cli_progress.h"

/* --- the file that "twinbloom dump" writes and "twinbloom restore" reads ---
 *   "TWBLFILE", u32 version, u32 0
 *   for each piece: u64 position, u32 length, u32 0, the bytes, u64 XXH3-64 of all that
 *   u64 0, u32 0, u32 0, u64 number of pieces, u64 the chain of their checksums: XXH3-64 of each, its seed
 *   being the one before it (0 for the first)
 * Numbers are little-endian. Only the service understands a piece. A file without its end was cut. */

enum {
    FILE_PIECE_MAX = 16 << 20,
    VERSION = 1,
    START_BYTES = 16,
    HEAD_BYTES = 16,
    SUM_BYTES = 8,
    MAGIC_BYTES = 8
};

static const char magic[MAGIC_BYTES] = {'T', 'W', 'B', 'L', 'F', 'I', 'L', 'E'};

struct dump_file {
    FILE *stream;   /* the caller's; all else is 0 before the first call */
    uint64_t bytes; /* bytes read or written so far */
    uint64_t count; /* pieces */
    uint64_t sum;   /* checksum over the pieces' checksums */
};

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

static enum err put(struct dump_file *f, const void *bytes, size_t length, struct error *e)
{
    if (length > 0 && fwrite(bytes, 1, length, f->stream) != length)
        return error_set(e, ERR_IO, "the dump could not be written: %s", strerror(errno));
    f->bytes += length;
    return ERR_OK;
}

static enum err dump_file_write_start(struct dump_file *f, struct error *e)
{
    uint8_t start[START_BYTES] = {0};
    memcpy(start, magic, MAGIC_BYTES);
    put_u64(start + MAGIC_BYTES, VERSION);
    return put(f, start, sizeof(start), e);
}

static enum err dump_file_write(struct dump_file *f, uint64_t position, const void *bytes, size_t length,
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

static enum err dump_file_write_end(struct dump_file *f, struct error *e)
{
    uint8_t end[HEAD_BYTES + 2 * SUM_BYTES] = {0};
    put_u64(end + HEAD_BYTES, f->count);
    put_u64(end + HEAD_BYTES + SUM_BYTES, f->sum);
    return put(f, end, sizeof(end), e);
}

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

/* ERR_PARSE: not such a file. ERR_LOST: the file is cut here. ERR_IO. */
static enum err dump_file_read_start(struct dump_file *f, struct error *e)
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

/* Read the next piece into @bytes, which is cleared first; *@end: there is none, the file is complete. */
static enum err dump_file_read(struct dump_file *f, uint64_t *position, struct buffer *bytes, bool *end,
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

/* --- dump --- */

struct dumping {
    struct cli *cli;
    struct dump_file file;
    struct progress progress;
    uint64_t position; /* next piece to request */
};

static int fail_with(enum err code, const struct error *e)
{
    /* The file is damaged; the command was valid. */
    return cli_fail_as(code == ERR_PARSE || code == ERR_LOST ? CLI_FAILED : cli_exit_of(code),
                       error_name(code), "%s", e->text);
}

/* Skip the existing pieces; leaves the stream behind the last complete one. */
static enum err skip_whole_pieces(struct dumping *d, bool *complete, struct error *e)
{
    SCOPED(buffer_fini) struct buffer bytes = {0};
    struct stat about;
    off_t whole = 0;
    if (fstat(fileno(d->file.stream), &about) == 0 && about.st_size == 0)
        return ERR_OK;
    enum err code = dump_file_read_start(&d->file, e);
    while (code == ERR_OK && !*complete) {
        whole = (off_t)d->file.bytes;
        uint64_t position;
        code = dump_file_read(&d->file, &position, &bytes, complete, e);
        if (code == ERR_OK && !*complete)
            d->position = position;
    }
    bool cut = whole > 0 && (code == ERR_LOST || code == ERR_PARSE);
    if (!cut)
        return code;
    *complete = false;
    d->file.bytes = (uint64_t)whole;
    if (fflush(d->file.stream) != 0 || ftruncate(fileno(d->file.stream), whole) != 0 ||
        fseeko(d->file.stream, whole, SEEK_SET) != 0)
        return error_set(e, ERR_IO, "%s: %s", d->cli->output, strerror(errno));
    clearerr(d->file.stream);
    return ERR_OK;
}

static bool is_piece(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements == 2 && r->element[0]->type == REDIS_REPLY_INTEGER &&
           r->element[1]->type == REDIS_REPLY_STRING && r->element[1]->len <= FILE_PIECE_MAX;
}

/* Request the piece at the present position. */
static enum err ask_piece(const struct dumping *d, redisReply **out, struct error *e)
{
    char position[24];
    (void)snprintf(position, sizeof(position), "%" PRIu64, d->position);
    const char *argv[] = {"BF.SCANDUMP", d->cli->arguments[0], position};
    enum err code = cli_call(d->cli, out, 3, argv, NULL, e);
    if (code != ERR_OK || is_piece(*out))
        return code;
    freeReplyObject(*out);
    *out = NULL;
    (void)error_set(e, ERR_IO, "the service's reply has an unexpected form");
    return ERR_IO;
}

static bool begins_again(enum err code, const struct error *e)
{
    return code != ERR_OK && strstr(e->text, "begin again") != NULL;
}

/* Write one piece to the file. *@end: there was none. */
static enum err next_piece(struct dumping *d, bool *end, struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code = ask_piece(d, &r, e);
    if (begins_again(code, e))
        return error_set(e, code, "%s was rebuilt during the dump: start the dump again",
                         d->cli->arguments[0]);
    if (code != ERR_OK)
        return code;
    d->position = (uint64_t)r->element[0]->integer;
    *end = d->position == 0;
    code = d->file.bytes == 0 ? dump_file_write_start(&d->file, e) : ERR_OK;
    if (code == ERR_OK)
        code = *end ? dump_file_write_end(&d->file, e)
                    : dump_file_write(&d->file, d->position, r->element[1]->str, r->element[1]->len, e);
    return code;
}

/* The file is complete. Is it a dump of this filter? */
static enum err check_whole(const struct dumping *d, struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code = ask_piece(d, &r, e);
    if (begins_again(code, e))
        return error_set(e, ERR_CONFLICT, "%s is a whole dump, but not of %s as it is now", d->cli->output,
                         d->cli->arguments[0]);
    return code;
}

static int interrupted_dump(struct dumping *d)
{
    const char *output = d->cli->output;
    if (output == NULL)
        return cli_fail(CLI_INTERRUPTED, "the dump is incomplete");
    return cli_fail(CLI_INTERRUPTED,
                    "the dump is incomplete; \"twinbloom dump %s --output %s --resume\" continues it",
                    d->cli->arguments[0], output);
}

static void print_dumped(const struct dumping *d, const char *what)
{
    char a[OUTPUT_TEXT_SIZE], b[OUTPUT_TEXT_SIZE];
    (void)fprintf(stderr, "%s %s: %s in %s\n", d->cli->arguments[0], what, output_bytes(d->file.bytes, a),
                  output_duration((uint64_t)progress_seconds(&d->progress), b));
}

static int run_dump(struct dumping *d)
{
    struct error e = {""};
    bool end = false;
    enum err code = d->cli->resume ? skip_whole_pieces(d, &end, &e) : ERR_OK;
    if (end && code == ERR_OK)
        code = check_whole(d, &e);
    progress_begin(&d->progress, "pieces", 0, d->file.bytes);
    if (end && code == ERR_OK) {
        print_dumped(d, "was dumped already");
        return CLI_OK;
    }
    while (code == ERR_OK && !end && !progress_interrupted()) {
        code = next_piece(d, &end, &e);
        progress_show(&d->progress, d->file.bytes, d->file.count);
    }
    if (code == ERR_OK && (fflush(d->file.stream) != 0 || ferror(d->file.stream) != 0))
        code = error_set(&e, ERR_IO, "the dump could not be written: %s", strerror(errno));
    if (code == ERR_OK && d->cli->output != NULL && fsync(fileno(d->file.stream)) != 0)
        code = error_set(&e, ERR_IO, "%s: %s", d->cli->output, strerror(errno));
    progress_end(&d->progress);
    if (code != ERR_OK)
        return fail_with(code, &e);
    if (!end)
        return interrupted_dump(d);
    print_dumped(d, "dumped");
    return CLI_OK;
}

/* Never overwrite a file: it may be a dump that somebody needs. Only the owner may read a new one: it
 * contains the seed of the hash. */
static FILE *open_output(const struct cli *cli)
{
    int fd = open(cli->output, O_RDWR | O_CLOEXEC | (cli->resume ? 0 : O_CREAT | O_EXCL), 0600);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r+b");
    if (stream == NULL && errno == EEXIST)
        (void)cli_fail(CLI_USAGE, "%s exists already; --resume continues a dump that was interrupted",
                       cli->output);
    else if (stream == NULL)
        (void)cli_fail(CLI_USAGE, "%s: %s", cli->output, strerror(errno));
    return stream;
}

int cli_dump(struct cli *cli)
{
    if (cli->resume && cli->output == NULL)
        return cli_fail(CLI_USAGE, "--resume needs --output FILE");
    if (cli->output == NULL && cli->terminal)
        return cli_fail(
            CLI_USAGE,
            "refusing to write binary data to a terminal: redirect standard output, or give --output FILE");
    FILE *stream = cli->output == NULL ? stdout : open_output(cli);
    if (stream == NULL)
        return CLI_USAGE;
    struct dumping d = {.cli = cli, .file = {.stream = stream}};
    progress_catch_interrupt(false);
    int code = run_dump(&d);
    if (cli->output != NULL && fclose(stream) != 0 && code == CLI_OK)
        code = cli_fail_with(ERR_IO, "%s: %s", cli->output, strerror(errno));
    if (code != CLI_OK && cli->output != NULL && d.file.bytes == 0 && !cli->resume)
        (void)unlink(cli->output); /* remove the empty file */
    return code;
}

/* --- restore --- */

enum { RANGES_MAX = 20002 };

struct restoring {
    struct cli *cli;
    FILE *stream;
    struct dump_file file;
    struct progress progress;
    uint64_t pieces, sent;
    bool loaded;        /* the service has all pieces */
    size_t range_count; /* ranges of positions that the service lacks */
    uint64_t range[RANGES_MAX];
};

/* Check the whole file, if it can be read twice. */
static enum err look_through(struct restoring *r, struct error *e)
{
    SCOPED(buffer_fini) struct buffer bytes = {0};
    bool end = false;
    uint64_t position;
    r->file = (struct dump_file){.stream = r->stream};
    enum err code = dump_file_read_start(&r->file, e);
    while (code == ERR_OK && !end)
        code = dump_file_read(&r->file, &position, &bytes, &end, e);
    if (code == ERR_OK && fseeko(r->stream, 0, SEEK_SET) != 0)
        code = error_set(e, ERR_IO, "the dump could not be read again: %s", strerror(errno));
    return code;
}

static enum err load(struct restoring *r, uint64_t position, const struct buffer *bytes, struct error *e)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%" PRIu64, position);
    const char *filter = r->cli->arguments[0];
    const char *argv[] = {"BF.LOADCHUNK", filter, text, bytes->data};
    const size_t lengths[] = {12, strlen(filter), (size_t)n, bytes->length};
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = client_call(r->cli->client, &reply, 4, argv, lengths, e);
    if (code == ERR_EXISTS && strcmp(e->text, "ERR item exists") == 0)
        return error_set(e, code, "the filter %s exists already: restore the dump under another name",
                         filter);
    r->sent += code == ERR_OK;
    return code;
}

/* Ask which pieces the service lacks; it has the header now. */
static enum err ask_missing(struct restoring *r, struct error *e)
{
    const char *argv[] = {"TB.LOAD", r->cli->arguments[0]};
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = client_call(r->cli->client, &reply, 2, argv, NULL, e);
    if (code != ERR_OK)
        return code;
    const redisReply *missing = list_field(reply, "missing");
    for (size_t i = 0;
         missing != NULL && missing->type == REDIS_REPLY_ARRAY && i < missing->elements && i < RANGES_MAX;
         i++)
        r->range[r->range_count++] = (uint64_t)missing->element[i]->integer;
    char state[16] = "";
    (void)list_text(reply, "state", state, sizeof(state));
    r->loaded = strcmp(state, "done") == 0;
    if (!r->loaded && missing == NULL)
        code = error_set(e, ERR_REFUSED, "the service has forgotten what it was sent: begin again");
    return code;
}

static bool is_missing(const struct restoring *r, uint64_t position)
{
    for (size_t i = 0; i + 1 < r->range_count; i += 2)
        if (position >= r->range[i] && position <= r->range[i + 1])
            return true;
    return false;
}

static enum err take_piece(struct restoring *r, uint64_t position, const struct buffer *bytes, bool last,
                           struct error *e)
{
    enum err code = ERR_OK;
    bool header = r->pieces++ == 0;
    /* If all pieces have come but the filter does not exist, the last piece sent again makes the service
     * complete it. */
    if (header || is_missing(r, position) || (last && r->range_count == 0 && !r->loaded))
        code = load(r, position, bytes, e);
    if (code == ERR_OK && header)
        code = ask_missing(r, e);
    return code;
}

/* Hold back each piece until the next piece or the end was read: the last piece of a cut file is not sent, so
 * what was sent stays invisible. */
static enum err send_pieces(struct restoring *r, struct error *e)
{
    SCOPED(buffer_fini) struct buffer held = {0}, next = {0};
    uint64_t held_position = 0, position = 0;
    bool end = false;
    r->file = (struct dump_file){.stream = r->stream};
    enum err code = dump_file_read_start(&r->file, e);
    while (code == ERR_OK && !end && !progress_interrupted()) {
        code = dump_file_read(&r->file, &position, &next, &end, e);
        if (code == ERR_OK && held_position != 0)
            code = take_piece(r, held_position, &held, end, e);
        held_position = position;
        struct buffer swap = held;
        held = next;
        next = swap;
        progress_show(&r->progress, r->file.bytes, r->pieces);
    }
    if (code == ERR_OK && !end)
        code = ERR_CANCELLED;
    if (code == ERR_OK && r->pieces == 0)
        code = error_set(e, ERR_PARSE, "the dump is empty");
    return code;
}

static void print_json(const struct restoring *r)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    struct json j = {.out = &b};
    json_open(&j, '{');
    json_text(&j, "filter", r->cli->arguments[0]);
    json_count(&j, "size_bytes", r->file.bytes);
    json_count(&j, "pieces", r->pieces);
    json_count(&j, "sent", r->sent);
    json_count(&j, "duration_ms", (uint64_t)(progress_seconds(&r->progress) * 1000));
    json_close(&j, '}');
    (void)puts(buffer_text(&b));
}

static int run_restore(struct restoring *r)
{
    struct error e = {""};
    struct stat about;
    char a[OUTPUT_TEXT_SIZE], b[OUTPUT_TEXT_SIZE];
    bool regular = fstat(fileno(r->stream), &about) == 0 && S_ISREG(about.st_mode);
    enum err code = regular ? look_through(r, &e) : ERR_OK;
    progress_begin(&r->progress, "pieces", regular ? (uint64_t)about.st_size : 0, 0);
    if (code == ERR_OK)
        code = send_pieces(r, &e);
    progress_end(&r->progress);
    if (code == ERR_CANCELLED)
        return cli_fail(CLI_INTERRUPTED, "%s cannot be used yet; run the same command again to continue",
                        r->cli->arguments[0]);
    if (code != ERR_OK)
        return fail_with(code, &e);
    if (r->cli->json)
        print_json(r);
    else
        (void)fprintf(stderr, "%s restored: %s in %s, %" PRIu64 " of %" PRIu64 " pieces sent\n",
                      r->cli->arguments[0], output_bytes(r->file.bytes, a),
                      output_duration((uint64_t)progress_seconds(&r->progress), b), r->sent, r->pieces);
    return CLI_OK;
}

int cli_restore(struct cli *cli)
{
    FILE *stream = cli->input == NULL ? stdin : fopen(cli->input, "rbe");
    if (stream == NULL)
        return cli_fail(CLI_USAGE, "%s: %s", cli->input, strerror(errno));
    struct restoring r = {.cli = cli, .stream = stream};
    progress_catch_interrupt(false);
    int code = run_restore(&r);
    if (cli->input != NULL)
        (void)fclose(stream);
    return code;
}
