/* SPDX-License-Identifier: MIT */
/* The happy path is: connect, greet; then the commands of a turn of the loop leave at its end, and callbacks
 * get replies in order. Possible failure modes are: no connection, a login that is refused, a connection that
 * breaks, a server that speaks another protocol. Each ends the connection: `closed` is called, then every
 * pending callback gets NULL. A callback may close the connection that calls it; the connection is freed when
 * the callback returns. */
#include "shard/redis/async_connection.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "shard/redis/wire/greeting.h"
#include "shard/redis/nodes/health.h"
#include "shard/redis/wire/replies.h"
#include "shard/redis/wire/transport.h"

enum {
    PENDING_FIRST = 64,      /* a power of two, like all sizes of the ring */
    COMPACT_BYTES = 65536,   /* once so many bytes were written, the rest is moved to the front */
    KEPT_BYTES = 1024 * 1024 /* a buffer that has grown larger is freed */
};

struct pending {
    async_connection_reply_fn *fn;
    void *arg;
};

struct async_connection {
    struct event_base *base;
    const struct nodes *nodes;
    const struct node *node;
    const char *name;
    struct async_connection_events events;
    struct transport *transport;
    struct event *connecting;
    struct event *reading, *writing; /* NULL until the transport is open */
    bool ready, closed;
    bool inside; /* in an event of its own: the end of the event frees a closed connection */
    struct greeting greeting;
    unsigned greeted; /* the number of replies to the greeting so far */
    uint64_t since;   /* when it became ready, clock_mono_us() */
    bool asking_replication;
    struct replies replies;
    struct pending *pending; /* a ring of @room */
    size_t first, count, room;
    struct buffer early; /* commands that were sent before the connection was ready */
    struct buffer out;
    size_t written; /* bytes of @out */
    bool flushing;  /* @writing is pending or active */
    bool stuck;     /* TLS must write something of its own before it can read */
};

/* --- its end --- */

static void async_connection_free(struct async_connection *c)
{
    struct event *const all[] = {c->connecting, c->reading, c->writing};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] != NULL)
            event_free(all[i]);
    transport_free(c->transport);
    replies_fini(&c->replies);
    buffer_fini(&c->early);
    buffer_fini(&c->out);
    free(c->pending);
    free(c);
}

static struct pending take_pending(struct async_connection *c)
{
    struct pending p = c->pending[c->first];
    c->first = (c->first + 1) & (c->room - 1);
    c->count--;
    return p;
}

/* Stop all events. */
static void shut(struct async_connection *c)
{
    c->closed = true;
    (void)event_del(c->connecting);
    if (c->reading != NULL)
        (void)event_del(c->reading);
    if (c->writing != NULL)
        (void)event_del(c->writing);
    if (c->ready)
        node_health_closed(c->nodes, c->node);
    c->ready = false;
}

static void tell_pending(struct async_connection *c)
{
    while (c->count > 0) {
        struct pending p = take_pending(c);
        if (p.fn != NULL)
            p.fn(p.arg, NULL);
    }
}

void async_connection_close(struct async_connection *c)
{
    if (c == NULL || c->closed)
        return;
    shut(c);
    tell_pending(c);
    if (!c->inside)
        async_connection_free(c);
}

/* End the connection by itself, in an event of its own. */
static void end(struct async_connection *c, enum err code, const char *why)
{
    shut(c);
    node_health_failed(c->nodes, c->node, why);
    c->events.closed(c->events.arg, code, why);
    tell_pending(c);
}

static void leave(struct async_connection *c)
{
    c->inside = false;
    if (c->closed)
        async_connection_free(c);
}

/* --- writing --- */

static void wait_to_write(struct async_connection *c, bool at_once)
{
    if (c->flushing)
        return;
    c->flushing = true;
    if (at_once)
        event_active(c->writing, EV_WRITE, 0); /* runs behind the events that the loop has already found in
                                                * this turn */
    else
        (void)event_add(c->writing, NULL);
}

static void forget_written(struct async_connection *c)
{
    struct buffer *b = &c->out;
    if (c->written == b->length) {
        if (b->capacity > KEPT_BYTES)
            buffer_fini(b);
        buffer_clear(b);
        c->written = 0;
    } else if (c->written >= COMPACT_BYTES && c->written > b->length / 2) {
        memmove(b->data, b->data + c->written, b->length - c->written);
        b->length -= c->written;
        c->written = 0;
    }
}

static void flush(struct async_connection *c)
{
    struct error e = {""};
    ssize_t n = 1;
    while (n > 0 && c->written < c->out.length) {
        n = transport_write(c->transport, c->out.data + c->written, c->out.length - c->written, &e);
        if (n > 0)
            c->written += (size_t)n;
    }
    if (n < 0) {
        end(c, ERR_UNREACHABLE, e.text);
        return;
    }
    forget_written(c);
    if (n == 0 && (transport_events(c->transport) & POLLOUT) != 0)
        wait_to_write(c, false);
}

/* --- reading --- */

static void become_ready(struct async_connection *c)
{
    c->ready = true;
    c->since = clock_mono_us();
    node_health_opened(c->nodes, c->node);
    buffer_append(&c->out, c->early.data, c->early.length);
    bool whole = !buffer_failed(&c->out);
    buffer_fini(&c->early);
    if (!whole)
        end(c, ERR_NOMEM, "out of memory");
    else if (c->out.length > 0)
        wait_to_write(c, true);
    if (whole && c->events.ready != NULL)
        c->events.ready(c->events.arg);
}

static void take_greeting(struct async_connection *c, const redisReply *reply)
{
    struct error e = {""};
    enum err code = greeting_judge(&c->greeting, c->greeted++, reply, &e);
    if (code != ERR_OK)
        end(c, code, e.text);
    else if (c->greeted == c->greeting.count)
        become_ready(c);
}

static void take_reply(struct async_connection *c, const redisReply *reply)
{
    if (c->greeted < c->greeting.count) {
        take_greeting(c, reply);
    } else if (c->count == 0) {
        end(c, ERR_UNREACHABLE, "it answers what nobody has asked");
    } else {
        struct pending p = take_pending(c);
        *c->events.replying_since = c->since;
        if (p.fn != NULL)
            p.fn(p.arg, reply);
        if (reply->type == REDIS_REPLY_ERROR && !c->closed &&
            strncmp(reply->str, "READONLY", strlen("READONLY")) == 0)
            end(c, ERR_UNREACHABLE, "it is a replica now");
    }
}

static void take_replies(struct async_connection *c)
{
    struct error e = {""};
    redisReply *reply = NULL;
    do {
        enum err code = replies_next(&c->replies, &reply, &e);
        if (code != ERR_OK)
            end(c, ERR_UNREACHABLE, e.text);
        else if (reply != NULL)
            take_reply(c, reply);
        freeReplyObject(reply);
    } while (reply != NULL && !c->closed);
}

/* Read all that there is: with TLS the socket does not show bytes that were decrypted already. */
static void read_all(struct async_connection *c)
{
    struct error e = {""};
    ssize_t n = REPLIES_CHUNK;
    while (!c->closed && n > 0 && (n == REPLIES_CHUNK || c->node->tls)) {
        n = transport_read(c->transport, replies_room(&c->replies), REPLIES_CHUNK, &e);
        if (n > 0) {
            replies_filled(&c->replies, (size_t)n);
            take_replies(c);
        }
    }
    if (n < 0 && !c->closed)
        end(c, ERR_UNREACHABLE, e.text);
    c->stuck = n == 0 && !c->closed && (transport_events(c->transport) & POLLOUT) != 0;
    if (c->stuck)
        wait_to_write(c, false);
}

/* --- events --- */

static void on_readable(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct async_connection *c = arg;
    c->inside = true;
    read_all(c);
    if (!c->closed && c->written < c->out.length) /* TLS may have had to read before it can write */
        wait_to_write(c, true);
    leave(c);
}

static void on_writable(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct async_connection *c = arg;
    c->inside = true;
    c->flushing = false;
    flush(c);
    if (!c->closed && c->stuck)
        read_all(c);
    leave(c);
}

static bool open_now(struct async_connection *c)
{
    int fd = transport_fd(c->transport);
    c->reading = event_new(c->base, fd, EV_READ | EV_PERSIST, on_readable, c);
    c->writing = event_new(c->base, fd, EV_WRITE, on_writable, c);
    if (c->reading == NULL || c->writing == NULL || event_add(c->reading, NULL) != 0)
        return false;
    c->greeting = greeting_write(&c->out, c->nodes, c->node, c->name);
    if (buffer_failed(&c->out))
        return false;
    wait_to_write(c, true);
    return true;
}

static bool wait_to_connect(struct async_connection *c);

static void on_connecting(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct async_connection *c = arg;
    struct error e = {""};
    bool good = true;
    c->inside = true;
    switch (transport_connect(c->transport, &e)) {
    case TRANSPORT_WAITS:
        good = wait_to_connect(c);
        break;
    case TRANSPORT_OPEN:
        good = open_now(c);
        break;
    case TRANSPORT_FAILED:
        end(c, ERR_UNREACHABLE, e.text);
        break;
    }
    if (!good)
        end(c, ERR_NOMEM, "out of memory");
    leave(c);
}

/* Wait for the transport's current descriptor, which may have changed. The event is not pending. */
static bool wait_to_connect(struct async_connection *c)
{
    short wanted = transport_events(c->transport);
    short events = (short)((wanted & POLLIN ? EV_READ : 0) | (wanted & POLLOUT ? EV_WRITE : 0));
    return event_assign(c->connecting, c->base, transport_fd(c->transport), events, on_connecting, c) == 0 &&
           event_add(c->connecting, NULL) == 0;
}

/* --- from outside --- */

struct async_connection *async_connection_open(struct event_base *base, const struct nodes *nodes,
                                               const struct node *n, const char *name,
                                               const struct async_connection_events *events)
{
    struct async_connection *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    *c = (struct async_connection){.base = base, .nodes = nodes, .node = n, .name = name, .events = *events};
    c->room = PENDING_FIRST;
    c->pending = malloc(c->room * sizeof(*c->pending));
    c->transport = transport_new(nodes, n);
    c->connecting = event_new(base, -1, 0, on_connecting, c);
    if (c->pending == NULL || c->transport == NULL || c->connecting == NULL || !replies_init(&c->replies)) {
        async_connection_free(c);
        return NULL;
    }
    event_active(c->connecting, EV_TIMEOUT, 0);
    return c;
}

static bool grow(struct async_connection *c)
{
    struct pending *larger = malloc(2 * c->room * sizeof(*larger));
    if (larger == NULL)
        return false;
    size_t tail = c->room - c->first; /* the ring is full: the oldest are at its end, the newest at its
                                       * beginning */
    memcpy(larger, c->pending + c->first, tail * sizeof(*larger));
    memcpy(larger + tail, c->pending, c->first * sizeof(*larger));
    free(c->pending);
    c->pending = larger;
    c->first = 0;
    c->room *= 2;
    return true;
}

bool async_connection_send(struct async_connection *c, const char *command, size_t length,
                           async_connection_reply_fn *fn, void *arg)
{
    struct buffer *to = c->ready ? &c->out : &c->early;
    if (c->closed || (c->count == c->room && !grow(c)))
        return false;
    buffer_append(to, command, length);
    if (buffer_failed(to)) {
        to->failed = false; /* the buffer's content is whole: perhaps only this command is too large */
        return false;
    }
    c->pending[(c->first + c->count) & (c->room - 1)] = (struct pending){fn, arg};
    c->count++;
    if (c->ready)
        wait_to_write(c, true);
    return true;
}

const char *async_connection_waits_for(const struct async_connection *c)
{
    return transport_waits_for(c->transport);
}

bool async_connection_is_ready(const struct async_connection *c)
{
    return c->ready;
}

bool async_connection_is_past(const struct async_connection *c)
{
    return transport_is_past(c->transport);
}

size_t async_connection_pending(const struct async_connection *c)
{
    return c->count;
}

static void on_replication(void *arg, const redisReply *reply)
{
    struct async_connection *c = arg;
    struct error e = {""};
    if (reply == NULL)
        return;
    c->asking_replication = false;
    uint64_t id = 0;
    enum err code = greeting_judge_replication(c->nodes->cluster != NULL, reply, &id, &e);
    if (code != ERR_OK)
        end(c, code, e.text);
}

void async_connection_ask_replication(struct async_connection *c)
{
    if (!c->ready || c->asking_replication)
        return;
    c->asking_replication = async_connection_send(c, greeting_ask_replication,
                                                  strlen(greeting_ask_replication), on_replication, c);
}
