/* SPDX-License-Identifier: MIT */
/* The happy path is: connect, greet, then send commands and read replies, both ways at once. Possible failure
 * modes are: no connection within the deadline, a login that is refused, a connection that breaks, a server
 * that is stopped (no byte goes either way until the deadline). A server may stop reading until somebody
 * reads its replies: so this side also reads while it still has commands to send. */
#include "shard/redis/sync_connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "shard/redis/wire/greeting.h"
#include "shard/redis/nodes/health.h"
#include "shard/redis/wire/replies.h"
#include "shard/redis/wire/transport.h"

/* A buffer that has grown larger is freed. */
enum { KEPT_BYTES = 1 << 20 };

struct sync_connection {
    const struct nodes *nodes;
    const struct node *node;
    struct transport *transport;
    unsigned timeout_ms;
    bool greeted;
    uint64_t heard_at;
    struct buffer out;
    size_t sent;                     /* bytes of @out */
    short write_events, read_events; /* what the transport waits for, in poll()'s terms */
    struct replies replies;
};

void sync_connection_close(struct sync_connection *c)
{
    if (c == NULL)
        return;
    if (c->greeted)
        node_health_closed(c->nodes, c->node);
    transport_free(c->transport);
    replies_fini(&c->replies);
    buffer_fini(&c->out);
    free(c);
}

/* Note the failure in the node's health, and tell it with the node's name. */
static enum err fail(const struct sync_connection *c, enum err code, const struct error *why, struct error *e)
{
    node_health_failed(c->nodes, c->node, why->text);
    return error_set(e, code, "Redis node %s: %s", c->node->name, why->text);
}

/* --- one step, without waiting --- */

/* *@moved: true if a byte was sent. */
static enum err send_some(struct sync_connection *c, bool *moved, struct error *e)
{
    while (c->sent < c->out.length) {
        ssize_t n = transport_write(c->transport, c->out.data + c->sent, c->out.length - c->sent, e);
        c->write_events = transport_events(c->transport);
        if (n < 0)
            return ERR_UNREACHABLE;
        if (n == 0)
            return ERR_OK;
        c->sent += (size_t)n;
        *moved = true;
    }
    if (c->out.capacity > KEPT_BYTES)
        buffer_fini(&c->out);
    buffer_clear(&c->out);
    c->sent = 0;
    c->write_events = 0;
    return ERR_OK;
}

static enum err read_some(struct sync_connection *c, bool *moved, struct error *e)
{
    ssize_t n = transport_read(c->transport, replies_room(&c->replies), REPLIES_CHUNK, e);
    c->read_events = transport_events(c->transport);
    if (n < 0)
        return ERR_UNREACHABLE;
    replies_filled(&c->replies, (size_t)n);
    if (n > 0) {
        c->heard_at = clock_mono_us();
        *moved = true;
    }
    return ERR_OK;
}

/* The next reply, if it is complete or becomes so with the bytes that can be read now. */
static enum err go_on(struct sync_connection *c, redisReply **out, bool *moved, struct error *e)
{
    enum err code = replies_next(&c->replies, out, e);
    bool read = true;
    while (code == ERR_OK && *out == NULL && read) {
        read = false;
        code = send_some(c, moved, e);
        if (code == ERR_OK)
            code = read_some(c, &read, e);
        if (code == ERR_OK && read)
            code = replies_next(&c->replies, out, e);
        *moved |= read;
    }
    return code == ERR_PARSE ? ERR_UNREACHABLE : code;
}

/* --- waiting --- */

static enum err wait_for(int fd, short events, uint64_t deadline, struct error *e)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        uint64_t now = clock_mono_us();
        int ready = now >= deadline ? 0 : poll(&p, 1, (int)((deadline - now) / 1000 + 1));
        if (ready > 0)
            return ERR_OK;
        if (ready == 0)
            return error_set(e, ERR_TIMEOUT, "no reply within the deadline");
        if (errno != EINTR)
            return error_set(e, ERR_IO, "%s", strerror(errno));
    }
}

/* @deadline: clock_mono_us(); 0: timeout_ms after the last byte that went either way. */
static enum err next_reply(struct sync_connection *c, uint64_t deadline, redisReply **out, struct error *e)
{
    uint64_t until = deadline != 0 ? deadline : clock_mono_us() + (uint64_t)c->timeout_ms * 1000;
    for (;;) {
        bool moved = false;
        enum err code = go_on(c, out, &moved, e);
        if (code != ERR_OK || *out != NULL)
            return code;
        if (moved && deadline == 0)
            until = clock_mono_us() + (uint64_t)c->timeout_ms * 1000;
        code = wait_for(sync_connection_fd(c), sync_connection_events(c), until, e);
        if (code != ERR_OK)
            return code;
    }
}

/* --- from outside --- */

static enum err connect_and_greet(struct sync_connection *c, const char *name, unsigned connect_ms,
                                  struct error *e)
{
    uint64_t deadline = clock_mono_us() + (uint64_t)connect_ms * 1000;
    enum transport_state state;
    enum err code = ERR_OK;
    while ((state = transport_connect(c->transport, e)) == TRANSPORT_WAITS) {
        code = wait_for(transport_fd(c->transport), transport_events(c->transport), deadline, e);
        if (code != ERR_OK)
            return code;
    }
    if (state == TRANSPORT_FAILED)
        return ERR_UNREACHABLE;
    struct greeting g = greeting_write(&c->out, c->nodes, c->node, name);
    if (buffer_failed(&c->out))
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < g.count && code == ERR_OK; i++) {
        SCOPED(scope_reply) redisReply *reply = NULL;
        code = next_reply(c, deadline, &reply, e);
        if (code == ERR_OK)
            code = greeting_judge(&g, i, reply, e);
    }
    return code;
}

enum err sync_connection_open(struct sync_connection **out, const struct nodes *nodes, const struct node *n,
                              const char *name, unsigned connect_ms, unsigned timeout_ms, struct error *e)
{
    struct error text = {""};
    struct sync_connection *c = calloc(1, sizeof(*c));
    *out = NULL;
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "Redis node %s: out of memory", n->name);
    c->nodes = nodes;
    c->node = n;
    c->timeout_ms = timeout_ms;
    c->read_events = POLLIN;
    c->transport = transport_new(nodes, n);
    enum err code = ERR_OK;
    if (c->transport == NULL || !replies_init(&c->replies))
        code = error_set(&text, ERR_NOMEM, "out of memory");
    if (code == ERR_OK)
        code = connect_and_greet(c, name, connect_ms, &text);
    if (code != ERR_OK) {
        if (code == ERR_TIMEOUT)
            (void)error_set(&text, code, "no connection within the deadline: still waiting for %s",
                            transport_waits_for(c->transport));
        (void)fail(c, code, &text, e);
        sync_connection_close(c);
        return code;
    }
    c->greeted = true;
    c->heard_at = clock_mono_us();
    node_health_opened(nodes, n);
    *out = c;
    return ERR_OK;
}

static enum err queued(struct sync_connection *c, struct error *e)
{
    if (c->write_events == 0)
        c->write_events = POLLOUT; /* nobody has tried to write yet */
    return buffer_failed(&c->out) ? error_set(e, ERR_NOMEM, "Redis node %s: out of memory", c->node->name)
                                  : ERR_OK;
}

enum err sync_connection_append(struct sync_connection *c, const char *command, size_t length,
                                struct error *e)
{
    buffer_append(&c->out, command, length);
    return queued(c, e);
}

enum err sync_connection_append_words(struct sync_connection *c, size_t count, const char *const *words,
                                      struct error *e)
{
    buffer_command(&c->out, count, words, NULL);
    return queued(c, e);
}

enum err sync_connection_reply(struct sync_connection *c, redisReply **out, struct error *e)
{
    struct error text = {""};
    *out = NULL;
    enum err code = next_reply(c, 0, out, &text);
    return code == ERR_OK ? ERR_OK : fail(c, code, &text, e);
}

enum err sync_connection_poll(struct sync_connection *c, redisReply **out, struct error *e)
{
    struct error text = {""};
    bool moved = false;
    *out = NULL;
    enum err code = go_on(c, out, &moved, &text);
    if (code == ERR_OK && *out == NULL && transport_is_past(c->transport))
        code = error_set(&text, ERR_UNREACHABLE, "the sentinels name another master");
    return code == ERR_OK ? ERR_OK : fail(c, code, &text, e);
}

bool sync_connection_is_stale(struct sync_connection *c)
{
    struct error e;
    bool moved = false;
    return transport_is_past(c->transport) || read_some(c, &moved, &e) != ERR_OK || moved;
}

int sync_connection_fd(const struct sync_connection *c)
{
    return transport_fd(c->transport);
}

short sync_connection_events(const struct sync_connection *c)
{
    return (short)(c->read_events | c->write_events);
}

uint64_t sync_connection_heard_us(const struct sync_connection *c)
{
    return c->heard_at;
}
