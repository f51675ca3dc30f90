/* SPDX-License-Identifier: MIT */
/* The happy path is: SLICES slices of the keys are under way at any time, each an operation of its own with a
 * deadline of its own; when all have ended, on_done is called. Possible failure modes are: the first slice
 * fails as a whole (so does the batch), a later slice fails (its keys are errors), a deadline passes (the
 * following slices get a short deadline, as an unreachable node would otherwise hold up each of them for the
 * full time), a full filter refuses a key (the batch may end there), the owner frees the batch (operations
 * under way run to their end). */
#include "service/keys/batch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "service/admin/admin.h"
#include "service/keys/loop.h"

enum {
    SLICES = 2,
    SLICE_KEYS = 128,
    YIELDING_KEYS = 64, /* keys in a slice while other clients are served */
    SLICE_BYTES = 64 * 1024,
    UNREACHABLE_MS = 50, /* deadline of each slice after one has timed out */
    PAUSE_US = 1000,     /* pause between two slices while other clients are served */
    FAILURES_MAX = 8,    /* different failures that are stored */
    ERROR_FIRST = 0x80,  /* results from here on are errors: ERROR_FIRST + the index of the failure */
};

struct slice {
    struct key_operation *op;
    struct batch *batch;
    bool busy;
    size_t first, count;
};

struct batch {
    struct batch_options options;
    size_t next; /* index of the first key of the next slice */
    size_t end;  /* number of keys that will have a result */
    bool first_is_done;
    bool unreachable; /* a slice met an unreachable server; the following slices get a shorter deadline */
    bool failed;      /* the batch failed as a whole; failures[0] says why */
    bool yielding;    /* other clients are served, too: one slice at a time, with pauses */
    bool paused;
    struct event *pause; /* NULL until the first pause */
    uint64_t commands;   /* the service's count of commands when the last slice was started */
    unsigned busy;
    struct slice slices[SLICES];
    unsigned failure_count;
    struct failure failures[FAILURES_MAX]; /* own copies of their texts */
    uint8_t results[];                     /* each is an enum answer, or ERROR_FIRST + index */
};

_Static_assert(ANSWER_NO == 0 && ANSWER_YES == 1, "results are what key_operation_plain() says");

static const struct failure no_memory = {.code = ERR_NOMEM, .text = "out of memory"};

/* Continue. If the last slice has ended, on_done is called, and the batch may be freed afterwards. */
static void go_on(struct batch *b)
{
    batch_start(b);
    if (!batch_is_answered(b))
        return;
    if (b->pause != NULL)
        (void)event_del(b->pause);
    b->options.on_done(b->options.owner);
}

/* --- yielding to other clients --- */

/* The number of commands of other clients. The client that owns the batch starts none meanwhile. */
static uint64_t commands_of_others(const struct batch *b)
{
    return atomic_load_explicit(&b->options.asked.admin->service->commands, memory_order_relaxed);
}

static void on_pause_over(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct batch *b = arg;
    b->paused = false;
    go_on(b);
}

/* Start the next slice after @us. Without memory for the timer the slice starts at once. */
static void pause_slices(struct batch *b, suseconds_t us)
{
    const struct timeval pause = {.tv_usec = us};
    if (b->pause == NULL)
        b->pause = evtimer_new(b->options.base, on_pause_over, b);
    b->paused = b->pause != NULL && event_add(b->pause, &pause) == 0;
}

struct batch *batch_new(const struct batch_options *o)
{
    struct batch *b = calloc(1, sizeof(*b) + o->count);
    if (b == NULL)
        return NULL;
    b->options = *o;
    b->end = o->count;
    b->commands = commands_of_others(b);
    key_filter_use(o->asked.filter); /* keeps the filter's entry between two slices */
    return b;
}

void batch_free(struct batch *b)
{
    if (b == NULL)
        return;
    for (unsigned i = 0; i < SLICES; i++)
        key_operation_release(b->slices[i].op);
    loop_event_free(b->pause);
    for (unsigned i = 0; i < b->failure_count; i++)
        free((char *)(uintptr_t)b->failures[i].text);
    key_filter_unuse(b->options.asked.filter);
    free(b);
}

/* --- results --- */

/* Store the failure and return its result value. If there are too many different failures, the last stored
 * one is used. */
static uint8_t keep_failure(struct batch *b, const struct failure *f)
{
    unsigned i = 0;
    for (; i < b->failure_count; i++) {
        const struct failure *known = &b->failures[i];
        if (known->code == f->code && known->unmade == f->unmade && strcmp(known->text, f->text) == 0)
            break;
    }
    char *text = i == b->failure_count && i < FAILURES_MAX ? strdup(f->text) : NULL;
    if (text != NULL)
        b->failures[b->failure_count++] =
            (struct failure){.code = f->code, .unmade = f->unmade, .text = text};
    else if (i == b->failure_count && i > 0)
        i--;
    return (uint8_t)(ERROR_FIRST + i);
}

static const struct failure *kept_failure(const struct batch *b, uint8_t result)
{
    unsigned i = (unsigned)result - ERROR_FIRST;
    return i < b->failure_count ? &b->failures[i] : &no_memory;
}

/* Set the failure as the result of all keys of the slice. */
static void fail_slice(struct batch *b, const struct slice *s, const struct failure *f)
{
    b->failed |= s->first == 0;
    memset(b->results + s->first, keep_failure(b, f), s->count);
}

static void take_results(struct batch *b, const struct slice *s)
{
    struct failure f = key_operation_failure(s->op);
    b->unreachable |= !f.unmade && f.code != ERR_OK && f.code != ERR_NOT_FOUND;
    if (key_operation_failed(s->op)) {
        fail_slice(b, s, &f);
        return;
    }
    size_t plain = key_operation_plain(s->op, 0, s->count, b->results + s->first);
    for (size_t i = plain; i < s->count; i++) {
        enum answer answer = key_operation_answer(s->op, i);
        b->results[s->first + i] = answer == ANSWER_ERROR ? keep_failure(b, &f) : (uint8_t)answer;
        if (answer == ANSWER_FULL && b->options.ends_when_full && s->first + i < b->end)
            b->end = s->first + i + 1;
    }
}

/* --- slices --- */

static void end_slice(struct slice *s)
{
    struct batch *b = s->batch;
    take_results(b, s);
    key_operation_release(s->op);
    s->op = NULL;
    s->busy = false;
    b->busy--;
    b->first_is_done = true;
}

static void on_slice(struct key_operation *op UNUSED, void *arg)
{
    struct slice *s = arg;
    struct batch *b = s->batch;
    end_slice(s);
    /* If another client was served since the last slice, slices run one by one with pauses. Otherwise Redis
     * and this thread would always have a slice ahead of every other request. */
    uint64_t commands = commands_of_others(b);
    b->yielding = commands != b->commands;
    b->commands = commands;
    if (b->yielding && b->busy == 0 && !batch_is_answered(b))
        pause_slices(b, PAUSE_US);
    go_on(b);
}

static void start_slice(struct batch *b, struct slice *s)
{
    const struct batch_options *o = &b->options;
    size_t bytes = 0, count = 0, most = b->yielding ? YIELDING_KEYS : SLICE_KEYS;
    while (count < most && bytes < SLICE_BYTES && b->next + count < o->count)
        bytes += o->key(o->owner, b->next + count++).length;
    struct key_operation *op = key_operation_new(&o->asked, count, bytes);
    *s = (struct slice){.op = op, .batch = b, .busy = op != NULL, .first = b->next, .count = count};
    b->next += count;
    if (op == NULL) {
        fail_slice(b, s, &no_memory);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct batch_key key = o->key(o->owner, s->first + i);
        key_operation_name(op, key_operation_copy(op, key.bytes, key.length), key.length);
    }
    if (b->unreachable)
        key_operation_set_timeout(op, UNREACHABLE_MS);
    b->busy++;
    if (!key_operation_start(op, on_slice, s))
        return;
    end_slice(s);
    if (!batch_is_answered(b))
        pause_slices(b, 0); /* the slice was answered from memory at once: serve others first */
}

/* The first slice runs alone: it creates the filter, or shows that the whole batch fails. */
static bool may_start(const struct batch *b)
{
    unsigned most = b->first_is_done && !b->yielding ? SLICES : 1;
    return !b->paused && !b->failed && b->next < b->end && b->busy < most;
}

void batch_start(struct batch *b)
{
    while (may_start(b)) {
        struct slice *s = b->slices;
        while (s->busy)
            s++;
        start_slice(b, s);
    }
}

/* --- the answers --- */

bool batch_is_answered(const struct batch *b)
{
    return b->busy == 0 && (b->failed || b->next >= b->end);
}

const struct failure *batch_failure(const struct batch *b)
{
    return b->failed ? kept_failure(b, ERROR_FIRST) : NULL;
}

const struct key_query *batch_query(const struct batch *b)
{
    return &b->options.asked;
}

size_t batch_end(const struct batch *b)
{
    return b->end;
}

enum answer batch_answer(const struct batch *b, size_t i, const struct failure **why)
{
    bool error = b->results[i] >= ERROR_FIRST;
    *why = error ? kept_failure(b, b->results[i]) : NULL;
    return error ? ANSWER_ERROR : (enum answer)b->results[i];
}
