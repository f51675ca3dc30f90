/* SPDX-License-Identifier: MIT */
/* The happy path is: bytes come, commands are parsed and started, replies are written in the order of the
 * commands (request.c). Possible failure modes are: the client goes away while operations run (they end by
 * themselves), bytes that are no protocol (answered, then closed), a reader that is slower than its questions
 * (no more is parsed until it has read; one that does not read at all is cut), more in flight than the worker
 * may have (the client is held until there is room). A callback may destroy its own client: the memory stays
 * until the last reference is given back. */
#include "service/resp/client.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <event2/buffer.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/resp/command.h"
#include "service/core/tls.h"
#include "service/core/worker.h"

enum {
    OUTPUT_LOW = 64 * 1024,
    OUTPUT_HIGH_STRANGER = 1024, /* unread bytes of a client that has to log in, as in Redis */
    INPUT_KEPT = 64 * 1024,      /* of an empty input buffer, and of what is read ahead */
    INPUT_KEPT_STRANGER = 4 * 1024,
    SCRATCH_KEPT = 16 * 1024,
    OUT_KEPT = 1024,
    CLOSING_SECONDS = 10
};

static void pump(struct client *c);
static void begin_closing(struct client *c);
static void account(struct client *c);

void client_unref(struct client *c)
{
    if (--c->references == 0 && c->destroyed)
        worker_free_later(c->worker, c);
}

/* Of that, what io has. */
static size_t left_in_io(const struct client *c)
{
    return c->is_tls || c->writes ? evbuffer_get_length(bufferevent_get_output(c->io)) : 0;
}

size_t client_unread(const struct client *c)
{
    return c->out.length + left_in_io(c);
}

void client_cut(struct client *c, const char *why)
{
    log_warn("client_disconnected", "client=%s id=%llu unread=%zu reason=\"%s\"", c->address,
             (unsigned long long)c->id, client_unread(c), why);
    client_destroy(c);
}

static void close_if_written(struct client *c)
{
    if (!c->destroyed && c->closing && STAILQ_EMPTY(&c->requests) && client_unread(c) == 0)
        client_destroy(c);
}

void client_advance(struct client *c)
{
    if (c->destroyed)
        return;
    c->references++;
    client_write_done(c);
    if (!c->pumping)
        pump(c);
    close_if_written(c);
    client_unref(c);
}

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

void client_close_after_reply(struct client *c)
{
    begin_closing(c);
}

/* --- what a command lies in --- */

void command_memory_fini(struct command_memory *m)
{
    buffer_fini(&m->bytes);
    free(m->arguments);
    free(m->queued);
    *m = (struct command_memory){0};
}

/* The present command is at the front of `input`, or lies in the connection's own buffer: the smaller of it
 * and of what comes behind it is copied. True: @out has the very bytes. */
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

/* True: it was begun. False: it waits until what is before it is answered. */
static bool run_command(struct client *c, const struct argument *arguments, size_t count)
{
    const struct command *command = command_find(arguments[0].bytes, arguments[0].length);
    if (command_runs_alone(command) && !STAILQ_EMPTY(&c->requests) && !c->in_transaction) {
        c->stalled = true;
        return false;
    }
    c->put_off = false;
    command_run(c, command, arguments, count);
    if (c->put_off)
        return false;
    atomic_fetch_add_explicit(&c->worker->service->commands, 1 + c->present.others, memory_order_relaxed);
    return true;
}

/* Unread bytes before nothing more is begun. */
static size_t output_high(const struct client *c)
{
    return c->session.rights != NULL ? (size_t)OUTPUT_HIGH : (size_t)OUTPUT_HIGH_STRANGER;
}

static bool may_go_on(struct client *c)
{
    if (c->destroyed || c->closing || c->blocked || c->stalled || c->held ||
        c->request_count >= REQUESTS_MAX || client_unread(c) > output_high(c))
        return false;
    worker_hold_if_full(c->worker, c);
    return !c->held;
}

static void pump_replay(struct client *c)
{
    struct queued_command *q;
    while ((q = STAILQ_FIRST(&c->replay)) != NULL && may_go_on(c)) {
        c->present = (struct present){.queued = q};
        c->counted.came_us = c->waiting_us;
        if (!run_command(c, q->arguments, q->count))
            return;
        STAILQ_REMOVE_HEAD(&c->replay, link);
        if (!c->present.taken)
            free(q);
    }
}

/* One command from the bytes shown. False: no whole one, or it has to wait. */
static bool pump_one(struct client *c, char *bytes, size_t length, size_t *used)
{
    enum resp_result result = resp_parse(&c->parser, bytes, length);
    if (result == RESP_MORE)
        return false;
    c->counted = (struct counted){.row = command_count, .came_us = c->arrived_us};
    if (result == RESP_ERROR) {
        client_error(c, "ERR Protocol error: %s", c->parser.error);
        begin_closing(c);
        *used += length;
        return false;
    }
    bool begun = true;
    size_t count = c->parser.argument_count;
    c->present = (struct present){.bytes = bytes, .length = length};
    if (count > 0) {
        resp_locate(&c->parser, bytes);
        begun = run_command(c, c->parser.arguments, count);
        c->waiting_us = c->arrived_us; /* also of a transaction that it has begun to run */
        /* It waits: keep it, the parser has passed it. */
        size_t copied = begun ? 0 : client_queue_command(&c->replay, c->parser.arguments, count);
        c->replay_bytes += copied;
        if (!begun && copied == 0)
            c->closing = true;
    }
    *used += c->parser.consumed + c->present.more;
    return begun;
}

/* What came in several pieces is put together in `input`; what came in one stays in `fresh`, and what is left
 * of it there is kept behind the turn. */
static void keep_fresh(struct client *c)
{
    buffer_append(&c->input, c->fresh.bytes, c->fresh.length);
    if (buffer_failed(&c->input))
        c->closing = true;
    c->input.failed = false;
    c->fresh.length = 0;
}

/* The bytes in `input` before @from are used. */
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
    if (c->destroyed)
        return;
    if (!gathered)
        c->fresh = (struct fresh){.bytes = bytes + used, .length = length - used};
    else if (!c->present.took_input)
        drop_input(c, from + used);
}

/* Nothing more is read for now; @have bytes of `input` are not used. */
static bool have_enough(const struct client *c, size_t have)
{
    bool waits = c->blocked || c->stalled || c->held || c->request_count >= REQUESTS_MAX;
    size_t kept = c->session.rights != NULL ? (size_t)INPUT_KEPT : (size_t)INPUT_KEPT_STRANGER;
    return c->closing || client_unread(c) > output_high(c) || (waits && have > kept);
}

/* Count all that it holds, once more. */
static void account(struct client *c)
{
    size_t now = 0;
    if (!c->destroyed)
        now = sizeof(*c) + left_in_io(c) + c->input.length + c->scratch.capacity + c->out.capacity +
              resp_memory(&c->parser) + c->transaction_bytes + c->replay_bytes + c->request_bytes;
    worker_count_memory(c->worker, c->memory, now);
    c->memory = now;
}

/* Between two commands nothing large is kept. */
static void trim(struct client *c)
{
    if (c->scratch.capacity > SCRATCH_KEPT)
        buffer_fini(&c->scratch);
    resp_trim(&c->parser);
    if (STAILQ_EMPTY(&c->replay))
        c->replay_bytes = 0;
}

static void read_on(struct client *c, bool more)
{
    if (more == c->reads)
        return;
    c->reads = more;
    int failed = c->is_tls ? (more ? bufferevent_enable(c->io, EV_READ) : bufferevent_disable(c->io, EV_READ))
                           : (more ? event_add(c->readable, NULL) : event_del(c->readable));
    c->closing |= failed != 0; /* nothing would come any more */
}

/* Start what may be started: first what waits of a transaction, then new bytes. */
static void pump(struct client *c)
{
    c->pumping = true;
    c->references++;
    if (c->stalled && STAILQ_EMPTY(&c->requests))
        c->stalled = false;
    pump_replay(c);
    if (!c->destroyed && STAILQ_EMPTY(&c->replay))
        pump_bytes(c);
    if (!c->destroyed) {
        bool full = have_enough(c, c->input.length - c->input_from + c->fresh.length);
        if (client_unread(c) > OUTPUT_HIGH && c->unread_since_us == 0)
            c->unread_since_us = clock_mono_us();
        read_on(c, !full);
        trim(c);
        account(c);
    }
    c->pumping = false;
    client_unref(c);
}

/* --- events --- */

/* @length bytes have come, into the worker's memory. */
static void take_bytes_read(struct client *c, char *bytes, size_t length)
{
    c->active_us = c->arrived_us = worker_now_exactly(c->worker);
    c->fresh = (struct fresh){.bytes = bytes, .length = length};
    if (c->input.length > 0)
        keep_fresh(c);
    client_advance(c);
    if (c->fresh.length == 0 || c->destroyed)
        return;
    keep_fresh(c);
    account(c);
    if (c->closing)
        client_advance(c);
}

static void on_bytes(evutil_socket_t fd, short events, void *arg)
{
    struct client *c = arg;
    (void)events;
    ssize_t n = recv(fd, c->worker->read, WORKER_READ, MSG_DONTWAIT);
    if (n > 0)
        take_bytes_read(c, c->worker->read, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        client_destroy(c); /* closed, reset or failed: all the same to us */
}

/* Of TLS. */
static void on_read(struct bufferevent *io, void *arg)
{
    struct client *c = arg;
    struct evbuffer *arrived = bufferevent_get_input(io);
    while (!c->destroyed && evbuffer_get_length(arrived) > 0) {
        int n = evbuffer_remove(arrived, c->worker->read, WORKER_READ);
        take_bytes_read(c, c->worker->read, (size_t)n);
    }
}

void client_answered(struct client *c)
{
    c->answered = true;
    worker_due(c->worker, c);
}

/* The loop is not asked whether the socket takes more: nearly always it does, and asking takes two calls of
 * the system more than writing. It is asked about what is left then, and by TLS about all. */
bool client_put(struct client *c, const void *bytes, size_t length)
{
    bool put = true;
    if (c->is_tls) {
        put = bufferevent_write(c->io, bytes, length) == 0;
    } else {
        buffer_append(&c->out, bytes, length);
        put = !buffer_failed(&c->out);
        c->out.failed = false;
    }
    if (put)
        worker_due(c->worker, c);
    return put;
}

/* How many bytes of `out` the socket has taken. That it is broken the loop tells. */
static size_t send_out(struct client *c)
{
    if (c->writes)
        return 0;
    ssize_t n = send(bufferevent_getfd(c->io), c->out.data, c->out.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0;
}

/* The rest leaves when the loop says that the socket takes more. */
static void leave_to_io(struct client *c, size_t from)
{
    if (bufferevent_write(c->io, c->out.data + from, c->out.length - from) != 0)
        c->mute = c->closing = true;
    c->writes = true;
    (void)bufferevent_enable(c->io, EV_WRITE);
}

static void write_out(struct client *c)
{
    bool waits = c->closing || c->stalled || !STAILQ_EMPTY(&c->replay) || client_unread(c) > output_high(c);
    if (c->out.length == 0)
        return;
    size_t sent = send_out(c);
    bool all = sent == c->out.length;
    if (!all)
        leave_to_io(c, sent);
    buffer_clear(&c->out);
    if (c->out.capacity > OUT_KEPT)
        buffer_fini(&c->out);
    if (!all)
        return;
    c->unread_since_us = 0;
    c->active_us = worker_now(c->worker);
    if (waits)
        client_advance(c);
}

void client_turn_ends(struct client *c)
{
    c->references++;
    if (c->answered) {
        c->answered = false;
        client_advance(c);
    }
    if (!c->destroyed && !c->answered) {
        worker_not_due(c->worker, c);
        write_out(c);
    }
    client_unref(c);
}

static void on_written(struct bufferevent *io, void *arg)
{
    struct client *c = arg;
    if (!c->is_tls && left_in_io(c) == 0) {
        c->writes = false;
        (void)bufferevent_disable(io, EV_WRITE);
    }
    c->unread_since_us = 0; /* no more than OUTPUT_LOW */
    c->active_us = clock_mono_us();
    client_advance(c);
}

static void on_event(struct bufferevent *io, short events, void *arg)
{
    struct client *c = arg;
    if ((events & BEV_EVENT_CONNECTED) != 0)
        session_handshake_done(c, io);
    else /* closed, reset or failed: all the same to us */
        client_destroy(c);
}

/* It could not be made: its socket is the caller's. */
static void give_up(struct client *c)
{
    if (c->readable != NULL)
        event_free(c->readable);
    if (c->io != NULL) {
        (void)bufferevent_setfd(c->io, -1);
        bufferevent_free(c->io);
    }
    free(c);
}

struct client *client_new(struct worker *w, int fd, const char *address, bool tls)
{
    static atomic_uint_fast64_t ids;
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->worker = w;
    c->io = tls ? tls_bufferevent(w->service->tls, w->base, fd)
                : bufferevent_socket_new(w->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (c->io != NULL && !tls)
        c->readable = event_new(w->base, fd, EV_READ | EV_PERSIST, on_bytes, c);
    bool reads = c->io != NULL && (tls || (c->readable != NULL && event_add(c->readable, NULL) == 0));
    if (!reads) {
        give_up(c);
        return NULL;
    }
    STAILQ_INIT(&c->requests);
    STAILQ_INIT(&c->transaction);
    STAILQ_INIT(&c->replay);
    resp_init(&c->parser, &resp_default_limits);
    client_reconfigure(c);
    c->session.shaking_hands = c->is_tls = tls;
    c->reads = true;
    c->protocol = 2;
    c->id = atomic_fetch_add(&ids, 1) + 1;
    c->connected_us = c->active_us = clock_mono_us();
    (void)snprintf(c->address, sizeof(c->address), "%s", address);
    LIST_INSERT_HEAD(&w->clients, c, link);
    bufferevent_setcb(c->io, on_read, on_written, on_event, c);
    bufferevent_setwatermark(c->io, EV_WRITE, OUTPUT_LOW, 0);
    if (tls)
        (void)bufferevent_enable(c->io, EV_READ | EV_WRITE);
    else
        (void)bufferevent_disable(c->io, EV_READ | EV_WRITE);
    return c;
}

void client_reconfigure(struct client *c)
{
    c->parser.limits.request_max = c->worker->config->request_max;
    session_resolve(c);
}

void client_tick(struct client *c, uint64_t now_us)
{
    const struct config *config = c->worker->config;
    bool idle = STAILQ_EMPTY(&c->requests) && config->idle_timeout_ms != 0 &&
                now_us - c->active_us > config->idle_timeout_ms * 1000;
    if (c->unread_since_us != 0 && now_us - c->unread_since_us > config->output_timeout_ms * 1000)
        client_cut(c, "does not read its replies");
    else if (session_is_late(c, now_us))
        client_cut(c, "did not log in");
    else if (idle)
        client_destroy(c);
}

/* Nothing more is read; what is written must be taken within a while. */
static void begin_closing(struct client *c)
{
    static const struct timeval patience = {CLOSING_SECONDS, 0};
    c->closing = true;
    bufferevent_set_timeouts(c->io, NULL, &patience);
}

void client_close_when_idle(struct client *c)
{
    begin_closing(c);
    c->references++;
    read_on(c, false);
    bufferevent_setwatermark(c->io, EV_WRITE, 0, 0);
    close_if_written(c);
    client_unref(c);
}

void client_destroy(struct client *c)
{
    if (c->destroyed)
        return;
    c->destroyed = true;
    account(c);
    worker_unhold(c->worker, c);
    worker_not_due(c->worker, c);
    worker_not_late(c->worker, c);
    client_drop_requests(c);
    client_clear_commands(&c->transaction);
    client_clear_commands(&c->replay);
    LIST_REMOVE(c, link);
    if (c->readable != NULL)
        event_free(c->readable);
    tls_farewell(c->io);
    bufferevent_free(c->io);
    resp_fini(&c->parser);
    buffer_fini(&c->scratch);
    buffer_fini(&c->out);
    buffer_fini(&c->input);
    worker_client_gone(c->worker);
    if (c->references == 0)
        worker_free_later(c->worker, c);
}
