/* SPDX-License-Identifier: MIT */
/* The happy path is: SLICES slices of the keys are under way at any time, each an operation of its own with a
 * deadline of its own; when all are back the reply is written part by part. Possible failure modes are: the
 * first slice fails as a whole (so does the command), a later one does (its keys are error elements), a
 * deadline passes (the slices that follow get little time, or a node that is away would hold up each of them
 * for the whole of it), a full filter refuses a key (the array ends there), the client goes away (what is
 * under way ends by itself). */
#include "service/batch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "service/worker.h"

enum {
    SLICES = 2,
    SLICE_KEYS = 128,
    POLITE_KEYS = 64, /* of a slice while others are served */
    SLICE_BYTES = 64 * 1024,
    HASTY_MS = 50,      /* deadline of a slice after one has failed */
    PAUSE_US = 1000,    /* between two slices while others are served */
    WRITE_KEYS = 4096,  /* of a reply, in one go */
    ERRORS_MAX = 8,     /* different texts that are kept */
    ERROR_FIRST = 0x80, /* results from here on are errors: the text's number is added */
};

struct slice {
    struct asking asking; /* first: a slice is what is asked */
    struct batch *batch;
    bool busy;
    size_t first, count;
};

struct batch {
    struct client *client;
    struct command_memory memory;
    struct question question;
    size_t next;    /* key that starts the next slice */
    size_t end;     /* elements of the reply */
    size_t written; /* of these */
    bool begun;     /* the array's header is written */
    bool first_is_done;
    bool hasty;
    bool failed; /* as a whole: errors[0] is the reply */
    bool polite; /* others are served, too: one slice at a time, with pauses */
    bool paused;
    struct event *pause;
    uint64_t commands; /* of the service, when the last slice was started */
    unsigned busy;
    struct slice slices[SLICES];
    unsigned error_count;
    char *errors[ERRORS_MAX]; /* whole lines, without CRLF */
    uint8_t results[];        /* enum answer, or ERROR_FIRST + */
};

/* --- others first --- */

/* This client runs none meanwhile. */
static uint64_t commands_of_others(const struct batch *b)
{
    return atomic_load_explicit(&b->client->worker->service->commands, memory_order_relaxed);
}

static void on_pause_over(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct batch *b = arg;
    b->paused = false;
    batch_advance(b);
}

/* Where somebody else was served since the last slice, slices go one by one with pauses: Redis and this
 * thread would else have one ahead of every other request. */
static void pause_for_others(struct batch *b)
{
    static const struct timeval pause = {.tv_usec = PAUSE_US};
    uint64_t commands = commands_of_others(b);
    b->polite = commands != b->commands;
    b->paused = b->polite && b->busy == 0 && event_add(b->pause, &pause) == 0;
    b->commands = commands;
}

struct batch *batch_new(struct client *c, const struct question *q)
{
    struct batch *b = calloc(1, sizeof(*b) + q->count);
    if (b == NULL)
        return NULL;
    b->client = c;
    b->question = *q;
    b->end = q->count;
    b->commands = commands_of_others(b);
    b->pause = evtimer_new(c->worker->base, on_pause_over, b);
    if (b->pause == NULL || !client_take_command(c, &b->memory)) {
        if (b->pause != NULL)
            event_free(b->pause);
        free(b);
        return NULL;
    }
    catalog_use(q->filter); /* between two slices nothing else may name it */
    return b;
}

void batch_free(struct batch *b)
{
    if (b == NULL)
        return;
    for (unsigned i = 0; i < SLICES; i++)
        asking_fini(&b->slices[i].asking);
    if (b->pause != NULL)
        event_free(b->pause);
    for (unsigned i = 0; i < b->error_count; i++)
        free(b->errors[i]);
    catalog_unuse(b->question.filter);
    command_memory_fini(&b->memory);
    free(b);
}

/* --- results --- */

/* The number of that text; the last one where there are too many different ones, 0 where there is no memory.
 */
static unsigned keep_error(struct batch *b, const char *line)
{
    for (unsigned i = 0; i < b->error_count; i++)
        if (strcmp(b->errors[i], line) == 0)
            return i;
    char *copy = b->error_count < ERRORS_MAX ? strdup(line) : NULL;
    if (copy != NULL)
        b->errors[b->error_count++] = copy;
    return b->error_count == 0 ? 0 : b->error_count - 1;
}

static unsigned slice_error(struct batch *b, const struct asking *a)
{
    struct buffer line = {0};
    struct reply r = {.out = &line, .protocol = 2};
    asking_error(a, &r);
    if (line.length >= 3)
        line.length -= 2;
    const char *text = buffer_text(&line);
    unsigned number = keep_error(b, text[0] == '-' ? text + 1 : "ERR out of memory");
    buffer_fini(&line);
    return number;
}

static void take_results(struct batch *b, const struct slice *s)
{
    const struct asking *a = &s->asking;
    bool whole = asking_failed(a);
    b->hasty |=
        a->refusal == NULL && operation_status(a->op) != ERR_OK && operation_status(a->op) != ERR_NOT_FOUND;
    if (whole && s->first == 0) {
        (void)slice_error(b, a);
        b->failed = true;
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        enum answer answer = whole ? ANSWER_ERROR : asking_answer(a, i);
        b->results[s->first + i] =
            (uint8_t)(answer == ANSWER_ERROR ? ERROR_FIRST + slice_error(b, a) : answer);
        if (answer == ANSWER_FULL && s->first + i < b->end)
            b->end = s->first + i + 1;
    }
}

/* --- slices --- */

static void on_slice(struct asking *a)
{
    struct slice *s = (struct slice *)a;
    struct batch *b = s->batch;
    take_results(b, s);
    asking_fini(a);
    s->busy = false;
    b->busy--;
    b->first_is_done = true;
    pause_for_others(b);
    client_advance(b->client);
}

static bool start_slice(struct batch *b, struct slice *s)
{
    const struct question *q = &b->question;
    size_t bytes = 0, count = 0, most = b->polite ? POLITE_KEYS : SLICE_KEYS;
    while (count < most && bytes < SLICE_BYTES && b->next + count < q->count)
        bytes += q->keys[b->next + count++].length;
    struct operation *op = operation_new(b->client->worker->catalog, q->kind, count, bytes);
    if (op == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        operation_key(op, q->keys[b->next + i].bytes, q->keys[b->next + i].length);
    if (b->hasty)
        operation_set_timeout(op, HASTY_MS);
    *s = (struct slice){
        .asking = {.client = b->client, .filter = q->filter, .creation = q->creation, .on_done = on_slice},
        .batch = b,
        .busy = true,
        .first = b->next,
        .count = count};
    b->next += count;
    b->busy++;
    asking_start(&s->asking, op);
    return true;
}

/* The first slice goes alone: it makes the filter, or tells that the whole command fails. */
static bool may_start(const struct batch *b)
{
    unsigned most = b->first_is_done && !b->polite ? SLICES : 1;
    return !b->paused && !b->failed && b->next < b->end && b->busy < most;
}

void batch_advance(struct batch *b)
{
    for (unsigned i = 0; i < SLICES && may_start(b); i++) {
        if (b->slices[i].busy || start_slice(b, &b->slices[i]))
            continue;
        (void)keep_error(b, "OOM out of memory");
        b->failed = true;
    }
}

/* --- the reply --- */

static const char *error_of(const struct batch *b, uint8_t result)
{
    return result < ERROR_FIRST || result - ERROR_FIRST >= (int)b->error_count
               ? "ERR out of memory"
               : b->errors[result - ERROR_FIRST];
}

static enum answer answer_of(uint8_t result)
{
    return result >= ERROR_FIRST ? ANSWER_ERROR : (enum answer)result;
}

static void write_count(const struct batch *b, struct reply *out)
{
    struct tally t = {0};
    for (size_t i = 0; i < b->end; i++)
        tally_add(&t, answer_of(b->results[i]), error_of(b, b->results[i]));
    t.keys = b->question.count; /* those behind a refused one were not asked */
    tally_reply(&t, out, b->question.filter->name);
}

static void write_some(struct batch *b, struct reply *out)
{
    size_t end = b->end - b->written < WRITE_KEYS ? b->end : b->written + WRITE_KEYS;
    if (!b->begun)
        reply_array(out, b->end);
    b->begun = true;
    for (; b->written < end; b->written++)
        answer_reply(out, answer_of(b->results[b->written]), b->question.filter->name,
                     error_of(b, b->results[b->written]));
}

bool batch_is_answered(const struct batch *b)
{
    return b->busy == 0 && (b->failed || b->next >= b->end);
}

bool batch_write(struct batch *b, struct reply *out)
{
    if (b->failed)
        reply_error(out, "%s", error_of(b, ERROR_FIRST));
    else if (b->question.shape == REPLY_COUNT)
        write_count(b, out);
    else
        write_some(b, out);
    return b->failed || b->question.shape == REPLY_COUNT || b->written == b->end;
}
