/* SPDX-License-Identifier: MIT */
/* From replies to bytes: all replies of one turn of the loop are sent in one write. */
#include "service/resp/client.h"

#include <sys/socket.h>
#include <event2/buffer.h>
#include "base/clock.h"
#include "service/resp/worker.h"

enum {
    OUTPUT_HIGH_STRANGER = 1024, /* as OUTPUT_HIGH, for a client that has to log in; the limit of Redis */
    OUT_KEPT = 512
};

/* How many of the unread bytes `io` holds. */
static size_t left_in_io(const struct client *c)
{
    return c->is_tls || c->writes ? evbuffer_get_length(bufferevent_get_output(c->io)) : 0;
}

size_t client_unread(const struct client *c)
{
    return c->out.length + left_in_io(c);
}

bool client_reads_slowly(const struct client *c)
{
    /* With more unread bytes than this, no more commands are started. */
    return client_unread(c) >
           (c->session.rights != NULL ? (size_t)OUTPUT_HIGH : (size_t)OUTPUT_HIGH_STRANGER);
}

void client_mute(struct client *c)
{
    c->mute = true;
    client_end(c);
}

void client_answered(struct client *c)
{
    c->answered = true;
    worker_due(c->worker, c);
}

/* The loop is not asked first whether the socket is writable: it nearly always is, and asking takes two
 * system calls more than writing. The loop is asked only about bytes that are left over, and, with TLS, about
 * all bytes. */
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

static void write_out(struct client *c)
{
    bool waits = c->ended || c->state == CLIENT_CLOSING || c->state == CLIENT_STALLED ||
                 !STAILQ_EMPTY(&c->replay) || client_reads_slowly(c);
    if (c->out.length == 0)
        return;
    /* If the connection is broken, the loop reports it. */
    ssize_t n = c->writes
                    ? 0
                    : send(bufferevent_getfd(c->io), c->out.data, c->out.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    size_t sent = n > 0 ? (size_t)n : 0;
    bool all = sent == c->out.length;
    if (!all) { /* `io` sends the rest when the loop reports that the socket is writable */
        if (bufferevent_write(c->io, c->out.data + sent, c->out.length - sent) != 0)
            client_mute(c);
        c->writes = true;
        (void)bufferevent_enable(c->io, EV_WRITE);
    }
    buffer_clear(&c->out);
    if (c->out.capacity > OUT_KEPT)
        buffer_fini(&c->out);
    if (!all)
        return;
    c->unread_since_us = 0;
    c->active_us = clock_mono_us();
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
    if (c->state != CLIENT_GONE && !c->answered) {
        worker_not_due(c->worker, c);
        write_out(c);
    }
    client_unref(c);
}

void client_on_written(struct bufferevent *io, void *arg)
{
    struct client *c = arg;
    if (!c->is_tls && left_in_io(c) == 0) {
        c->writes = false;
        (void)bufferevent_disable(io, EV_WRITE);
    }
    c->unread_since_us = 0; /* at most OUTPUT_LOW bytes are unread */
    c->active_us = clock_mono_us();
    client_advance(c);
}
