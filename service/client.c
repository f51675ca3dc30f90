/* SPDX-License-Identifier: MIT */
/* The happy path is: bytes come, commands are parsed and started, operations end in any order, replies are
 * written in the order of the commands. Possible failure modes are: the client goes away while operations run
 * (they end by themselves), bytes that are no protocol (answered, then closed), a reader that is slower than
 * its questions (no more is parsed until it has read). A callback may destroy its own client: the memory
 * stays until the last reference is given back. */
#include "service/client.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/admin.h"
#include "service/command.h"
#include "service/worker.h"

enum {
    REQUESTS_MAX = 8192,      /* in flight on one connection before its bytes wait */
    OUTPUT_MAX = 1024 * 1024, /* unread replies before its bytes wait, bytes */
    OUTPUT_LOW = 64 * 1024,
    CLOSING_SECONDS = 10
};

static void pump(struct client *c);
static void begin_closing(struct client *c);
static void write_done(struct client *c);

static void client_release(struct client *c)
{
    if (--c->references == 0 && c->destroyed)
        worker_bury(c->worker, c);
}

bool client_needs_login(struct client *c)
{
    if (c->authenticated)
        return false;
    const struct config *config = live_config_acquire(c->worker->service->config);
    c->authenticated = config->password[0] == '\0';
    config_release(config);
    return !c->authenticated;
}

/* --- replies --- */

static void request_free(struct request *r)
{
    if (r->op != NULL)
        operation_release(r->op);
    buffer_fini(&r->ready);
    free(r);
}

static struct request *request_new(struct client *c)
{
    struct request *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    r->client = c;
    STAILQ_INSERT_TAIL(&c->requests, r, link);
    c->request_count++;
    return r;
}

struct reply client_reply_begin(struct client *c)
{
    buffer_clear(&c->scratch);
    return (struct reply){.out = &c->scratch, .protocol = c->protocol};
}

void client_reply_end(struct client *c)
{
    if (STAILQ_EMPTY(&c->requests)) {
        (void)bufferevent_write(c->io, c->scratch.data, c->scratch.length);
        return;
    }
    struct request *r = request_new(c);
    if (r == NULL) {
        c->closing = true;
        return;
    }
    buffer_append(&r->ready, c->scratch.data, c->scratch.length);
    r->done = true;
}

void client_error(struct client *c, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    struct reply r = client_reply_begin(c);
    reply_error(&r, "%s", text);
    client_reply_end(c);
}

static void key_reply(struct reply *out, const struct request *r, size_t i)
{
    enum key_result result = operation_result(r->op, i);
    if (result == KEY_FULL)
        reply_error(out, "ERR non scaling filter is full");
    else if (result == KEY_LOST)
        reply_error(out, "ERR filter '%s' is degraded: the data of this key's shard is lost",
                    r->filter->name);
    else
        reply_boolean(out, result == KEY_YES);
}

static const char *error_class(enum err status)
{
    return status == ERR_UNREACHABLE ? "CLUSTERDOWN" : "ERR";
}

/* An array of adds ends with the first that a full filter refused. */
static size_t replies(const struct operation *op)
{
    size_t count = 0;
    while (count < operation_keys(op) && operation_result(op, count) != KEY_FULL)
        count++;
    return count < operation_keys(op) ? count + 1 : count;
}

static void write_operation(struct client *c, struct request *r)
{
    struct reply out = client_reply_begin(c);
    enum err status = operation_status(r->op);
    if (status == ERR_NOT_FOUND &&
        operation_kind(r->op) == OPERATION_CHECK) { /* never made: nothing is in it */
        if (r->array)
            reply_array(&out, operation_keys(r->op));
        for (size_t i = 0; i < operation_keys(r->op); i++)
            reply_boolean(&out, false);
    } else if (status == ERR_NOT_FOUND) {
        reply_error(&out, "ERR not found");
    } else if (status != ERR_OK) {
        reply_error(&out, "%s %s", error_class(status), operation_error(r->op));
    } else {
        size_t count = replies(r->op);
        if (r->array)
            reply_array(&out, count);
        for (size_t i = 0; i < count; i++)
            key_reply(&out, r, i);
    }
    (void)bufferevent_write(c->io, c->scratch.data, c->scratch.length);
}

static void on_operation(struct operation *op, void *arg);

/* A "no" that was found before an earlier add of the same connection was done again: ask once more, so that a
 * client sees its own writes in the order in which it sent them. */
static bool ask_again(struct request *r)
{
    if (!r->overtaken || r->op == NULL || operation_kind(r->op) != OPERATION_CHECK)
        return false;
    enum err status = operation_status(r->op);
    if (status != ERR_NOT_FOUND && (status != ERR_OK || !operation_any_no(r->op)))
        return false;
    r->overtaken = r->done = false;
    operation_rewind(r->op);
    operation_start(r->op, r->filter, on_operation, r);
    return true;
}

static void write_done(struct client *c)
{
    struct request *r;
    while ((r = STAILQ_FIRST(&c->requests)) != NULL && r->done && !ask_again(r)) {
        if (r->op != NULL)
            write_operation(c, r);
        else
            (void)bufferevent_write(c->io, r->ready.data, r->ready.length);
        STAILQ_REMOVE_HEAD(&c->requests, link);
        c->request_count--;
        request_free(r);
    }
}

static void close_if_written(struct client *c)
{
    if (!c->destroyed && c->closing && STAILQ_EMPTY(&c->requests) &&
        evbuffer_get_length(bufferevent_get_output(c->io)) == 0)
        client_destroy(c);
}

/* Replies may be written; whatever waited for that goes on. */
static void advance(struct client *c)
{
    if (c->destroyed)
        return;
    c->references++;
    write_done(c);
    if (!c->pumping)
        pump(c);
    close_if_written(c);
    client_release(c);
}

/* --- operations --- */

static void on_created(struct admin_call *call, void *asker, void *arg)
{
    struct client *c = asker;
    struct request *r = arg;
    if (call->status == ERR_OK || call->status == ERR_EXISTS) {
        operation_start(r->op, r->filter, on_operation, r);
        return;
    }
    operation_release(r->op);
    r->op = NULL;
    struct reply out = {.out = &r->ready, .protocol = c->protocol};
    reply_error(&out, "ERR could not %s filter: %s", call->fn == admin_create ? "create" : "grow",
                call->error.text);
    r->done = true;
    advance(c);
}

static void on_admin_done(void *arg)
{
    struct admin_call *call = arg;
    struct client *c = call->asker;
    if (!c->destroyed)
        call->on_done(call, c, call->done_arg);
    client_release(c);
    admin_call_free(call);
}

static void post_admin(struct client *c, struct admin_call *call)
{
    call->asker = c;
    c->references++;
    admin_post(c->worker->service, call, c->worker->mailbox, on_admin_done);
}

/* An add that finds no filter, or no room in it, waits until there is one. */
static bool make_room_first(struct client *c, struct request *r)
{
    enum err status = operation_status(r->op);
    bool create = status == ERR_NOT_FOUND && r->creation.allowed;
    if (!create && status != ERR_FULL)
        return false;
    if (create)
        r->creation.allowed = false; /* once */
    struct admin_call *call =
        admin_call_new(create ? admin_create : admin_grow, r->filter->name, r->filter->name_length);
    if (call == NULL)
        return false;
    call->creation = r->creation;
    call->on_done = on_created;
    call->done_arg = r;
    post_admin(c, call);
    return true;
}

static void on_operation(struct operation *op, void *arg)
{
    struct request *r = arg;
    struct client *c = r->client;
    if (make_room_first(c, r))
        return;
    if (operation_kind(op) == OPERATION_ADD && operation_was_retried(op))
        for (struct request *later = STAILQ_NEXT(r, link); later != NULL; later = STAILQ_NEXT(later, link))
            later->overtaken = true;
    r->done = true;
    if (r == STAILQ_FIRST(&c->requests))
        advance(c);
}

void client_operate(struct client *c, enum operation_kind kind, const struct argument *filter,
                    const struct argument *keys, size_t count, bool array, const struct creation *creation)
{
    struct error e;
    struct catalog_filter *f;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += keys[i].length;
    if (catalog_find(c->worker->catalog, filter->bytes, filter->length, &f, &e) != ERR_OK) {
        client_error(c, "ERR %s", e.text);
        return;
    }
    struct operation *op = operation_new(c->worker->catalog, kind, count, bytes);
    struct request *r = op == NULL ? NULL : request_new(c);
    if (r == NULL) {
        if (op != NULL)
            operation_release(op);
        client_error(c, "OOM out of memory");
        return;
    }
    for (size_t i = 0; i < count; i++)
        operation_key(op, keys[i].bytes, keys[i].length);
    r->op = op;
    r->filter = f;
    r->array = array;
    if (creation != NULL)
        r->creation = *creation;
    operation_start(op, f, on_operation, r);
}

/* --- the admin thread --- */

static void on_admin_reply(struct admin_call *call, void *asker, void *arg)
{
    struct client *c = asker;
    struct request *r = arg;
    buffer_append(&r->ready, call->reply.data, call->reply.length);
    r->done = true;
    c->blocked = false;
    advance(c);
}

/* The counts of this worker are in Redis: now the admin thread may ask for them. */
static void on_flushed(void *arg)
{
    struct admin_call *call = arg;
    struct client *c = call->asker;
    if (c->destroyed)
        admin_call_free(call);
    else
        post_admin(c, call);
    client_release(c);
}

void client_call_admin(struct client *c, struct admin_call *call)
{
    struct request *r = request_new(c);
    if (r == NULL) {
        admin_call_free(call);
        client_error(c, "OOM out of memory");
        return;
    }
    c->blocked = true;
    c->references++;
    call->asker = c;
    call->protocol = c->protocol;
    call->on_done = on_admin_reply;
    call->done_arg = r;
    /* Its own adds are counted before it asks for counts. */
    catalog_flush(c->worker->catalog, on_flushed, call);
}

/* --- commands from bytes --- */

bool client_queue_command(struct command_list *list, const struct argument *arguments, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += arguments[i].length;
    struct queued_command *q = malloc(sizeof(*q) + count * sizeof(struct argument) + bytes);
    if (q == NULL)
        return false;
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
    return true;
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

/* True: it was begun. False: it waits until what is before it is answered. */
static bool run_command(struct client *c, const struct argument *arguments, size_t count)
{
    if (command_runs_alone(arguments, count) && !STAILQ_EMPTY(&c->requests) && !c->in_transaction) {
        c->stalled = true;
        return false;
    }
    atomic_fetch_add_explicit(&c->worker->service->commands, 1, memory_order_relaxed);
    command_run(c, arguments, count);
    return true;
}

static bool may_go_on(const struct client *c)
{
    return !c->destroyed && !c->closing && !c->blocked && !c->stalled && c->request_count < REQUESTS_MAX;
}

static void pump_replay(struct client *c)
{
    struct queued_command *q;
    while (may_go_on(c) && (q = STAILQ_FIRST(&c->replay)) != NULL) {
        if (!run_command(c, q->arguments, q->count))
            return;
        STAILQ_REMOVE_HEAD(&c->replay, link);
        free(q);
    }
}

/* One command from the bytes shown. False: no whole one, or it has to wait. */
static bool pump_one(struct client *c, char *bytes, size_t length, size_t *used)
{
    struct argument few[16];
    enum resp_result result = resp_parse(&c->parser, bytes, length);
    if (result == RESP_MORE)
        return false;
    if (result == RESP_ERROR) {
        client_error(c, "ERR Protocol error: %s", c->parser.error);
        begin_closing(c);
        *used += length;
        return false;
    }
    size_t count = c->parser.argument_count;
    struct argument *arguments =
        count <= sizeof(few) / sizeof(few[0]) ? few : malloc(count * sizeof(*arguments));
    bool begun = true;
    if (arguments == NULL) {
        client_error(c, "OOM out of memory");
    } else if (count > 0) {
        for (size_t i = 0; i < count; i++)
            arguments[i] = (struct argument){.bytes = bytes + c->parser.arguments[i].offset,
                                             .length = c->parser.arguments[i].length};
        begun = run_command(c, arguments, count);
        /* It waits: keep it, the parser has passed it. */
        if (!begun && !client_queue_command(&c->replay, arguments, count))
            c->closing = true;
    }
    if (arguments != few)
        free(arguments);
    *used += c->parser.consumed;
    return begun;
}

static void pump_bytes(struct client *c)
{
    struct evbuffer *input = bufferevent_get_input(c->io);
    size_t length = evbuffer_get_length(input);
    if (length == 0 || length < c->parser.need || !may_go_on(c) || !STAILQ_EMPTY(&c->replay))
        return;
    char *bytes = (char *)evbuffer_pullup(input, -1);
    size_t used = 0;
    while (used < length && may_go_on(c) && STAILQ_EMPTY(&c->replay) &&
           pump_one(c, bytes + used, length - used, &used))
        ;
    if (!c->destroyed)
        (void)evbuffer_drain(input, used);
}

/* Start what may be started: first what waits of a transaction, then new bytes. */
static void pump(struct client *c)
{
    c->pumping = true;
    c->references++;
    if (c->stalled && STAILQ_EMPTY(&c->requests))
        c->stalled = false;
    bool slow = evbuffer_get_length(bufferevent_get_output(c->io)) > OUTPUT_MAX;
    if (!slow) {
        pump_replay(c);
        pump_bytes(c);
    }
    if (!c->destroyed) {
        bool full = slow || c->request_count >= REQUESTS_MAX || c->closing;
        if (full)
            (void)bufferevent_disable(c->io, EV_READ);
        else
            (void)bufferevent_enable(c->io, EV_READ);
        /* No callback until the argument that is awaited is whole. */
        bufferevent_setwatermark(c->io, EV_READ, c->parser.need, 0);
    }
    c->pumping = false;
    client_release(c);
}

/* --- events --- */

static void on_read(struct bufferevent *io, void *arg)
{
    (void)io;
    advance(arg);
}

static void on_written(struct bufferevent *io, void *arg)
{
    (void)io;
    advance(arg);
}

static void on_event(struct bufferevent *io, short events, void *arg)
{
    (void)io;
    (void)events; /* closed, reset or failed: all the same to us */
    client_destroy(arg);
}

struct client *client_new(struct worker *w, int fd, const char *address)
{
    static atomic_uint_fast64_t ids;
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->worker = w;
    c->io = bufferevent_socket_new(w->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (c->io == NULL) {
        free(c);
        return NULL;
    }
    STAILQ_INIT(&c->requests);
    STAILQ_INIT(&c->transaction);
    STAILQ_INIT(&c->replay);
    resp_init(&c->parser, &resp_default_limits);
    c->protocol = 2;
    c->id = atomic_fetch_add(&ids, 1) + 1;
    c->connected_us = clock_mono_us();
    (void)snprintf(c->address, sizeof(c->address), "%s", address);
    LIST_INSERT_HEAD(&w->clients, c, link);
    bufferevent_setcb(c->io, on_read, on_written, on_event, c);
    bufferevent_setwatermark(c->io, EV_WRITE, OUTPUT_LOW, 0);
    (void)bufferevent_enable(c->io, EV_READ | EV_WRITE);
    return c;
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
    (void)bufferevent_disable(c->io, EV_READ);
    bufferevent_setwatermark(c->io, EV_WRITE, 0, 0);
    close_if_written(c);
    client_release(c);
}

void client_destroy(struct client *c)
{
    if (c->destroyed)
        return;
    c->destroyed = true;
    struct request *r;
    while ((r = STAILQ_FIRST(&c->requests)) != NULL) {
        STAILQ_REMOVE_HEAD(&c->requests, link);
        request_free(r);
    }
    client_clear_commands(&c->transaction);
    client_clear_commands(&c->replay);
    LIST_REMOVE(c, link);
    bufferevent_free(c->io);
    resp_fini(&c->parser);
    buffer_fini(&c->scratch);
    worker_client_gone(c->worker);
    if (c->references == 0)
        worker_bury(c->worker, c);
}
