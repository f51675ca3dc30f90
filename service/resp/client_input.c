/* SPDX-License-Identifier: MIT */
/* From bytes to commands. A command that came in one piece is parsed where it was read. A command that came
 * in several pieces is put together first. Commands that must wait are copied. */
#include "service/resp/client.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <event2/buffer.h>
#include "base/clock.h"
#include "service/resp/worker.h"

enum {
    INPUT_KEPT = 64 * 1024, /* capacity that an empty input buffer keeps, and bytes that are read ahead */
    INPUT_KEPT_STRANGER = 4 * 1024,
    SCRATCH_KEPT = 16 * 1024
};

/* --- commands that wait --- */

size_t client_queue_command(struct command_list *list, const struct argument *arguments, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += arguments[i].length;
    bytes += sizeof(struct queued_command) + count * sizeof(struct argument);
    struct queued_command *q = malloc(bytes);
    if (q == NULL)
        return 0;
    q->count = count;
    q->arguments = (struct argument *)(q + 1);
    char *to = (char *)(q->arguments + count);
    for (size_t i = 0; i < count; i++) {
        q->arguments[i] = (struct argument){.bytes = to, .length = arguments[i].length};
        if (arguments[i].length > 0)
            memcpy(to, arguments[i].bytes, arguments[i].length);
        to += arguments[i].length;
    }
    STAILQ_INSERT_TAIL(list, q, link);
    return bytes;
}

void client_clear_commands(struct command_list *list)
{
    struct queued_command *q;
    while ((q = STAILQ_FIRST(list)) != NULL) {
        STAILQ_REMOVE_HEAD(list, link);
        free(q);
    }
}

void client_drop_transaction(struct client *c)
{
    client_clear_commands(&c->transaction);
    c->transaction_count = c->transaction_bytes = 0;
    c->in_transaction = c->transaction_failed = false;
}

/* --- the memory of a command --- */

void command_memory_fini(struct command_memory *m)
{
    buffer_fini(&m->bytes);
    free(m->arguments);
    free(m->queued);
    *m = (struct command_memory){0};
}

/* The present command lies at the front of `input`, or in the connection's own buffer. Of the command and the
 * bytes behind it, the smaller part is copied. True: @out has the original bytes. */
static bool take_input(struct client *c, struct buffer *out)
{
    size_t end = c->input_from + c->parser.consumed;
    struct buffer rest = {0};
    if (c->input.length == 0 || c->input.length - end > c->parser.consumed)
        return false;
    buffer_append(&rest, c->input.data + end, c->input.length - end);
    if (buffer_failed(&rest))
        return false;
    *out = c->input;
    c->input = rest;
    c->input_from = 0;
    return true;
}

static bool take_bytes(struct client *c, struct buffer *out)
{
    c->present.took_input = take_input(c, out);
    if (c->present.took_input)
        return true;
    buffer_append(out, c->present.bytes, c->parser.consumed);
    if (buffer_failed(out)) {
        buffer_fini(out);
        return false;
    }
    resp_move(&c->parser, c->present.bytes, out->data);
    return true;
}

bool client_take_command(struct client *c, struct command_memory *out)
{
    struct present *p = &c->present;
    *out = (struct command_memory){.queued = p->queued};
    if (p->queued == NULL) {
        if (!take_bytes(c, &out->bytes))
            return false;
        out->arguments = resp_take(&c->parser);
    }
    p->taken = true;
    return true;
}

/* --- commands from bytes --- */

/* True: the command was started. False: it waits until the commands before it are answered. */
static bool run_command(struct client *c, const struct argument *arguments, size_t count)
{
    const struct command_set *commands = c->worker->commands;
    const struct command *command = commands->find(arguments[0].bytes, arguments[0].length);
    worker_sync(c->worker); /* rights that were withdrawn must have no effect any more */
    if (!STAILQ_EMPTY(&c->requests) && commands->runs_alone(c, command)) {
        client_enter(c, CLIENT_STALLED);
        return false;
    }
    commands->run(c, command, arguments, count);
    if (c->present.put_off)
        return false;
    c->worker->begun += 1 + c->present.others;
    return true;
}

static bool may_go_on(struct client *c)
{
    if (c->state != CLIENT_READY || c->request_count >= REQUESTS_MAX || client_reads_slowly(c))
        return false;
    if (worker_is_full(c->worker))
        client_enter(c, CLIENT_HELD);
    return c->state == CLIENT_READY;
}

static void pump_replay(struct client *c)
{
    struct queued_command *q;
    while ((q = STAILQ_FIRST(&c->replay)) != NULL && may_go_on(c)) {
        c->present = (struct present){.queued = q};
        c->counted.came_us = c->waiting_us;
        bool begun = run_command(c, q->arguments, q->count);
        if (!begun || c->state == CLIENT_GONE) /* with the client, its commands are freed */
            return;
        STAILQ_REMOVE_HEAD(&c->replay, link);
        if (!c->present.taken)
            free(q);
    }
}

/* Parse and start one command from the bytes. False: no complete command is there, or it has to wait. */
static bool pump_one(struct client *c, char *bytes, size_t length, size_t *used)
{
    enum resp_result result = resp_parse(&c->parser, bytes, length);
    if (result == RESP_MORE)
        return false;
    c->counted = (struct counted){.row = c->worker->commands->meter->rows - 1, .came_us = c->arrived_us};
    if (result == RESP_ERROR) {
        client_error(c, "ERR Protocol error: %s", c->parser.error);
        client_close_after_reply(c);
        *used += length;
        return false;
    }
    bool begun = true;
    size_t count = c->parser.argument_count;
    c->present = (struct present){.bytes = bytes, .length = length};
    if (count > 0) {
        resp_locate(&c->parser, bytes);
        begun = run_command(c, c->parser.arguments, count);
        c->waiting_us = c->arrived_us; /* also for a transaction that this command has started */
        /* The command waits. The parser has passed it, so it is copied. */
        size_t copied = begun ? 0 : client_queue_command(&c->replay, c->parser.arguments, count);
        c->replay_bytes += copied;
        if (!begun && copied == 0)
            client_end(c);
    }
    *used += c->parser.consumed + c->present.more;
    return begun;
}

/* A command that came in several pieces is put together in `input`. Bytes that came in one piece stay in
 * `fresh`. What is unused at the end of the turn is moved to `input`. */
static void keep_fresh(struct client *c)
{
    buffer_append(&c->input, c->fresh.bytes, c->fresh.length);
    if (buffer_failed(&c->input))
        client_end(c);
    c->input.failed = false;
    c->fresh.length = 0;
}

/* The bytes of `input` before @from are used: drop them. */
static void drop_input(struct client *c, size_t from)
{
    struct buffer *b = &c->input;
    c->input_from = from;
    if (from < b->length && from < b->length / 2)
        return;
    if (from < b->length)
        memmove(b->data, b->data + from, b->length - from);
    b->length -= from;
    c->input_from = 0;
    if (b->length == 0 && b->capacity > INPUT_KEPT)
        buffer_fini(b);
}

static void pump_bytes(struct client *c)
{
    bool gathered = c->input.length > 0;
    char *bytes = gathered ? c->input.data + c->input_from : c->fresh.bytes;
    size_t length = gathered ? c->input.length - c->input_from : c->fresh.length;
    size_t used = 0, from = c->input_from;
    if (length < c->parser.need || !may_go_on(c))
        return;
    c->present = (struct present){0};
    while (used < length && !c->present.took_input && may_go_on(c) && STAILQ_EMPTY(&c->replay) &&
           pump_one(c, bytes + used, length - used, &used)) {
        if (gathered && !c->present.took_input)
            c->input_from = from + used;
    }
    if (c->state == CLIENT_GONE)
        return;
    if (!gathered)
        c->fresh = (struct fresh){.bytes = bytes + used, .length = length - used};
    else if (!c->present.took_input)
        drop_input(c, from + used);
}

/* True if no more bytes should be read for now. @have is the number of unused bytes. */
static bool have_enough(const struct client *c, size_t have)
{
    bool waits = c->state != CLIENT_READY || c->request_count >= REQUESTS_MAX;
    size_t kept = c->session.rights != NULL ? (size_t)INPUT_KEPT : (size_t)INPUT_KEPT_STRANGER;
    return c->ended || c->state == CLIENT_CLOSING || client_reads_slowly(c) || (waits && have > kept);
}

/* Free large buffers between two commands. */
static void trim(struct client *c)
{
    if (c->worker->scratch.capacity > SCRATCH_KEPT)
        buffer_fini(&c->worker->scratch);
    resp_return(&c->parser, &c->worker->arguments);
    if (STAILQ_EMPTY(&c->replay))
        c->replay_bytes = 0;
}

void client_read_on(struct client *c, bool more)
{
    if (more == c->reads)
        return;
    c->reads = more;
    int failed = c->is_tls ? (more ? bufferevent_enable(c->io, EV_READ) : bufferevent_disable(c->io, EV_READ))
                           : (more ? event_add(c->readable, NULL) : event_del(c->readable));
    if (failed != 0) /* without the event no more bytes would arrive */
        client_end(c);
}

/* True if no command waits and incoming bytes are read. */
static bool is_idle(const struct client *c)
{
    return c->state == CLIENT_READY && c->reads && c->fresh.length == 0 && c->input.length == 0 &&
           STAILQ_EMPTY(&c->replay) && !client_reads_slowly(c);
}

/* Start the commands that may be started: first those that wait in `replay`, then those in new bytes. */
void client_pump(struct client *c)
{
    if (is_idle(c)) {
        trim(c);
        client_account(c);
        return;
    }
    c->pumping = true;
    c->references++;
    resp_borrow(&c->parser, &c->worker->arguments);
    if (STAILQ_EMPTY(&c->requests))
        client_leave(c, CLIENT_STALLED);
    pump_replay(c);
    if (c->state != CLIENT_GONE && STAILQ_EMPTY(&c->replay))
        pump_bytes(c);
    if (c->state != CLIENT_GONE) {
        bool full = have_enough(c, c->input.length - c->input_from + c->fresh.length);
        if (client_unread(c) > OUTPUT_HIGH && c->unread_since_us == 0)
            c->unread_since_us = clock_mono_us();
        client_read_on(c, !full);
        trim(c);
        client_account(c);
    }
    if (c->worker->begun > 0)
        atomic_fetch_add_explicit(&c->worker->service->commands, c->worker->begun, memory_order_relaxed);
    c->worker->begun = 0;
    c->pumping = false;
    client_unref(c);
}

/* --- bytes --- */

/* @length bytes have been read into the worker's memory. */
static void take_bytes_read(struct client *c, char *bytes, size_t length)
{
    c->active_us = c->arrived_us = clock_mono_us();
    c->fresh = (struct fresh){.bytes = bytes, .length = length};
    if (c->input.length > 0)
        keep_fresh(c);
    client_advance(c);
    if (c->fresh.length == 0 || c->state == CLIENT_GONE)
        return;
    keep_fresh(c);
    client_account(c);
    if (c->state == CLIENT_CLOSING)
        client_advance(c);
}

void client_on_bytes(evutil_socket_t fd, short events UNUSED, void *arg)
{
    struct client *c = arg;
    ssize_t n = recv(fd, c->worker->read, WORKER_READ, MSG_DONTWAIT);
    if (n > 0)
        take_bytes_read(c, c->worker->read, (size_t)n);
    else if (n == 0)
        client_has_ended(c);
    else if (errno != EAGAIN && errno != EINTR)
        client_destroy(c); /* reset or failed */
}

/* Used with TLS. */
void client_on_read(struct bufferevent *io, void *arg)
{
    struct client *c = arg;
    struct evbuffer *arrived = bufferevent_get_input(io);
    while (c->state != CLIENT_GONE && evbuffer_get_length(arrived) > 0) {
        int n = evbuffer_remove(arrived, c->worker->read, WORKER_READ);
        take_bytes_read(c, c->worker->read, (size_t)n);
    }
}

/* --- runs --- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t client_run_take(struct client *c, const struct key_command *k, const struct argument *filter,
                       struct argument *keys)
{
    struct present *p = &c->present;
    const struct worker *w = c->worker;
    /* The number of commands that could be started one by one. */
    size_t in_flight = w->config->in_flight_max > w->in_flight ? w->config->in_flight_max - w->in_flight : 1;
    size_t requests = REQUESTS_MAX > c->request_count ? REQUESTS_MAX - c->request_count : 1;
    size_t count = 1, end = least(CLIENT_RUN_KEYS, least(in_flight, requests));
    keys[0] = k->keys[0];
    if (p->bytes == NULL || p->bytes[0] != '*')
        return count;
    size_t same = (size_t)(filter->bytes + filter->length + 2 - p->bytes);
    const char *at = p->bytes + c->parser.consumed;
    size_t length = least(p->length - c->parser.consumed, CLIENT_RUN_BYTES);
    count += resp_again(&c->parser, p->bytes, same, at, length, end - 1, keys + 1, &p->more);
    p->others = (unsigned)(count - 1);
    return count;
}
