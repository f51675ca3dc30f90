/* SPDX-License-Identifier: MIT */
/* import. The happy path is: read bytes, split them into keys, gather keys into batches, send several batches
 * before the first reply. Possible failure modes are: Redis is away for some time (the batch is sent again);
 * keys are refused for good, the connection breaks, or Ctrl-C (the import ends, and prints the --skip with
 * which the next run continues: all keys before it are in). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "service/cli/keys/cli_keys.h"
#include "service/cli/common/cli_progress.h"
#include "service/cli/keys/cli_split.h"

enum {
    BATCH_KEYS = 1000,
    BATCH_BYTES = 1 << 20,
    BATCHES = 16, /* sent before the first reply */
    PREFIX_WORDS = 9,
    READ_BYTES = 1 << 18,
    RETRY_US = 30000000, /* how long a batch is retried */
    PAUSE_US = 100000
};

struct batch {
    size_t count;
    redisReply *reply; /* read before its turn; otherwise NULL */
    struct buffer keys;
    size_t offset[BATCH_KEYS + 1];
};

struct import {
    struct cli *cli;
    int input;
    struct split split;
    struct progress progress;
    uint64_t bytes; /* bytes read */
    uint64_t seen;  /* keys read, including skipped ones */
    uint64_t skip;
    uint64_t settled; /* keys that are in, without a gap from the beginning */
    uint64_t added, present, refused;
    bool ended; /* by a reply: what is behind it does not count */
    bool carriage_return;
    struct error error; /* why the import ended */
    enum err status;
    size_t first, in_flight;
    struct batch batch[BATCHES + 1]; /* a ring; the last one is being filled */
    size_t prefix_count;             /* words before the keys: BF.MADD F, or BF.INSERT F ... ITEMS */
    char capacity[24];
    const char *argv[PREFIX_WORDS + BATCH_KEYS];
    size_t lengths[PREFIX_WORDS + BATCH_KEYS];
};

/* --- replies --- */

static bool end_by(struct import *im, enum err status)
{
    im->ended = true;
    im->status = status;
    return false;
}

/* Take each key's reply. False: a key was refused, or the reply has another form; im->error says why. An
 * error is never that of one key alone, and the keys behind it may be in or not: they are sent again by the
 * next run. */
static bool take_reply(struct import *im, const struct batch *b, const redisReply *r)
{
    if (r->type == REDIS_REPLY_ERROR) {
        enum err code = error_set(&im->error, error_of_reply(r->str, r->len), "%s", r->str);
        return end_by(im, cli_name_filter(im->cli, code, &im->error));
    }
    size_t answers = r->type == REDIS_REPLY_ARRAY ? r->elements : 0;
    for (size_t i = 0; i < b->count; i++, im->settled++) {
        const redisReply *answer = i < answers ? r->element[i] : NULL;
        if (answer == NULL)
            return end_by(im, error_set(&im->error, ERR_IO, "the service's reply has an unexpected form"));
        if (answer->type == REDIS_REPLY_ERROR) {
            for (; i < answers; i++)
                im->refused += r->element[i]->type == REDIS_REPLY_ERROR;
            return end_by(im,
                          error_set(&im->error, error_of_reply(answer->str, answer->len), "%s", answer->str));
        }
        if (answer->integer != 0)
            im->added++;
        else
            im->present++;
    }
    return true;
}

static bool may_pass_error(const redisReply *r)
{
    if (r->type != REDIS_REPLY_ERROR)
        return false;
    enum err code = error_of_reply(r->str, r->len);
    return code == ERR_UNREACHABLE || code == ERR_TIMEOUT;
}

/* True if Redis was away for some time: the batch can be sent again. Keys that were added the first time are
 * then counted as present. */
static bool may_pass(const redisReply *r)
{
    for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i < r->elements; i++)
        if (may_pass_error(r->element[i]))
            return true;
    return may_pass_error(r);
}

static bool send_keys(struct import *im, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        im->argv[im->prefix_count + i] = b->keys.data + b->offset[i];
        im->lengths[im->prefix_count + i] = b->offset[i + 1] - b->offset[i];
    }
    im->status = client_send(im->cli->client, im->prefix_count + b->count, im->argv, im->lengths, &im->error);
    return im->status == ERR_OK;
}

static bool read_reply(struct import *im, struct batch *b)
{
    if (b->reply == NULL)
        im->status = client_receive(im->cli->client, &b->reply, &im->error);
    return im->status == ERR_OK;
}

/* Send the first batch again, after the replies to those behind it. */
static bool try_again(struct import *im, struct batch *b)
{
    uint64_t until = clock_mono_us() + RETRY_US;
    for (size_t i = 1; i < im->in_flight; i++)
        if (!read_reply(im, &im->batch[(im->first + i) % (BATCHES + 1)]))
            return false;
    while (may_pass(b->reply) && clock_mono_us() < until && !progress_interrupted()) {
        freeReplyObject(b->reply);
        b->reply = NULL;
        clock_sleep_us(PAUSE_US);
        if (!send_keys(im, b) || !read_reply(im, b))
            return false;
    }
    return true;
}

static bool take_batch(struct import *im)
{
    struct batch *b = &im->batch[im->first];
    if (!read_reply(im, b) || (may_pass(b->reply) && !try_again(im, b)))
        return false;
    im->first = (im->first + 1) % (BATCHES + 1);
    im->in_flight--;
    bool good = take_reply(im, b, b->reply);
    freeReplyObject(b->reply);
    b->reply = NULL;
    progress_show(&im->progress, im->bytes, im->settled - im->skip);
    return good;
}

/* --- batches --- */

static struct batch *filling(struct import *im)
{
    return &im->batch[(im->first + im->in_flight) % (BATCHES + 1)];
}

static bool send_batch(struct import *im)
{
    struct batch *b = filling(im);
    if (b->count == 0)
        return true;
    if (buffer_failed(&b->keys)) {
        im->status = error_set(&im->error, ERR_NOMEM, "out of memory");
        return false;
    }
    if (!send_keys(im, b))
        return false;
    im->in_flight++;
    if (im->in_flight == BATCHES && !take_batch(im))
        return false;
    b = filling(im);
    b->count = 0;
    buffer_clear(&b->keys);
    return true;
}

static bool on_key(void *arg, const char *key, size_t length)
{
    struct import *im = arg;
    im->carriage_return |= im->seen == 0 && im->split.kind == SPLIT_LINES && key[length - 1] == '\r';
    if (im->seen++ < im->skip)
        return true;
    struct batch *b = filling(im);
    b->offset[b->count] = b->keys.length;
    buffer_append(&b->keys, key, length);
    b->offset[++b->count] = b->keys.length;
    return b->count < BATCH_KEYS && b->keys.length < BATCH_BYTES ? true : send_batch(im);
}

/* --- the import --- */

static void read_keys(struct import *im)
{
    static char bytes[READ_BYTES];
    ssize_t n = 1;
    enum err code = ERR_OK;
    while (code == ERR_OK && n != 0 && !progress_interrupted()) {
        n = read(im->input, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            im->status = error_set(&im->error, ERR_IO, "the keys could not be read: %s", strerror(errno));
            return;
        }
        im->bytes += (uint64_t)n;
        code = n > 0 ? split_feed(&im->split, bytes, (size_t)n, on_key, im, &im->error)
                     : split_end(&im->split, on_key, im, &im->error);
    }
    if (code != ERR_OK && code != ERR_CANCELLED)
        im->status = code;
}

/* Send what was read before the interruption. */
static void finish(struct import *im)
{
    struct error first = im->error;
    enum err status = im->status;
    bool usable = status == ERR_OK || status == ERR_PARSE || status == ERR_RANGE || status == ERR_IO;
    if (usable && !im->ended && (progress_interrupted() || send_batch(im)))
        while (im->in_flight > 0 && take_batch(im))
            ;
    if (status != ERR_OK) {
        im->status = status;
        im->error = first;
    }
}

static void print_json(const struct import *im, double seconds)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    struct json j = {.out = &b};
    const char *filter = im->cli->arguments[0];
    json_open(&j, '{');
    json_text(&j, "filter", filter);
    json_count(&j, "key_count", im->settled);
    json_count(&j, "skipped_count", im->settled < im->skip ? im->settled : im->skip);
    json_count(&j, "added_count", im->added);
    json_count(&j, "present_count", im->present);
    json_count(&j, "refused_count", im->refused);
    json_count(&j, "empty_count", im->split.empty);
    json_count(&j, "malformed_count", im->split.malformed);
    json_count(&j, "duration_ms", (uint64_t)(seconds * 1000));
    if (im->status != ERR_OK)
        cli_put_error(&j, error_name(im->status), im->error.text);
    json_close(&j, '}');
    (void)puts(buffer_text(&b));
}

static void print_text(const struct import *im, double seconds)
{
    char a[OUTPUT_TEXT_SIZE], b[OUTPUT_TEXT_SIZE], c[OUTPUT_TEXT_SIZE];
    uint64_t keys = im->added + im->present;
    if (keys > 0 || im->status == ERR_OK) {
        (void)printf("%s keys are in %s: %s added, %s may have been present before", number_grouped(keys, a),
                     im->cli->arguments[0], number_grouped(im->added, b), number_grouped(im->present, c));
        if (seconds > 0.05)
            (void)printf("; %s keys/s", number_grouped((uint64_t)((double)keys / seconds), a));
        (void)puts(".");
    }
    if (im->refused > 0)
        (void)printf("%s keys were refused.\n", number_grouped(im->refused, a));
    if (im->split.malformed > 0)
        (void)printf("%s records lack the column or are malformed; the first is record %s.\n",
                     number_grouped(im->split.malformed, a), number_grouped(im->split.first_malformed, b));
    if (im->split.empty > 0)
        (void)printf("%s empty keys were skipped.\n", number_grouped(im->split.empty, a));
    if (im->carriage_return)
        (void)puts("The lines end in CR LF: the CR was added as part of each key.");
}

static int judge(const struct import *im)
{
    bool interrupted = progress_interrupted();
    enum cli_exit why = im->status == ERR_OK      ? CLI_INTERRUPTED
                        : im->status == ERR_PARSE ? CLI_FAILED /* the file is wrong, not the command */
                                                  : cli_exit_of(im->status);
    if (im->status != ERR_OK || interrupted) {
        char skip[96] = "";
        if (im->settled > 0)
            (void)snprintf(skip, sizeof(skip),
                           "; to continue after the keys that were added, give --skip %" PRIu64, im->settled);
        return cli_fail_as(why, im->status != ERR_OK ? error_name(im->status) : "interrupted", "%s%s",
                           im->status != ERR_OK ? im->error.text : "interrupted", skip);
    }
    return im->split.malformed > 0 ? CLI_FAILED : CLI_OK;
}

static void choose_command(struct import *im)
{
    const struct cli *cli = im->cli;
    size_t n = 0;
    bool plain = !cli->no_create && cli->capacity == 0 && cli->error_rate == NULL;
    im->argv[n++] = plain ? "BF.MADD" : "BF.INSERT";
    im->argv[n++] = cli->arguments[0];
    if (cli->no_create)
        im->argv[n++] = "NOCREATE";
    if (cli->capacity != 0) {
        (void)snprintf(im->capacity, sizeof(im->capacity), "%" PRIu64, cli->capacity);
        im->argv[n++] = "CAPACITY";
        im->argv[n++] = im->capacity;
    }
    if (cli->error_rate != NULL) {
        im->argv[n++] = "ERROR";
        im->argv[n++] = cli->error_rate;
    }
    if (!plain)
        im->argv[n++] = "ITEMS";
    im->prefix_count = n;
    for (size_t i = 0; i < n; i++)
        im->lengths[i] = strlen(im->argv[i]);
}

static int run_import(struct import *im)
{
    struct stat about;
    bool regular = fstat(im->input, &about) == 0 && S_ISREG(about.st_mode);
    enum split_kind kind = im->cli->csv != NULL ? SPLIT_CSV : im->cli->null ? SPLIT_NULS : SPLIT_LINES;
    split_init(&im->split, kind, im->cli->csv);
    choose_command(im);
    progress_catch_interrupt(false);
    progress_begin(&im->progress, "keys", regular ? (uint64_t)about.st_size : 0, 0);
    im->skip = im->settled = im->cli->skip;
    read_keys(im);
    finish(im);
    progress_end(&im->progress);
    if (im->seen < im->skip)
        im->settled = im->seen;
    double seconds = progress_seconds(&im->progress);
    if (im->cli->json)
        print_json(im, seconds);
    else
        print_text(im, seconds);
    split_fini(&im->split);
    return judge(im);
}

int cli_import(struct cli *cli)
{
    if (cli->null && cli->csv != NULL)
        return cli_fail(CLI_USAGE, "--null and --csv do not go together");
    int input = cli->input == NULL ? STDIN_FILENO : open(cli->input, O_RDONLY | O_CLOEXEC);
    if (input < 0)
        return cli_fail(CLI_USAGE, "%s: %s", cli->input, strerror(errno));
    struct import im = {.cli = cli, .input = input};
    int code = run_import(&im);
    for (size_t i = 0; i <= BATCHES; i++) {
        buffer_fini(&im.batch[i].keys);
        freeReplyObject(im.batch[i].reply);
    }
    if (cli->input != NULL)
        (void)close(input);
    return code;
}
