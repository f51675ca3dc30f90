/* SPDX-License-Identifier: MIT */
/* The happy path is: bytes arrive, commands are parsed and started (client_input.c), replies are written in
 * the order of the commands (request.c), and all replies of a loop turn are sent together (client_output.c).
 * Possible failure modes are: the client disconnects while operations run (they run to their end), the bytes
 * are not valid RESP (the client gets an error, then the connection is closed), the client reads more slowly
 * than it sends (nothing more is parsed until it has read; a client that does not read at all is cut), the
 * worker has too much in flight (the client is held until there is room). A callback may destroy its own
 * client: the memory stays until the last reference is given back. */
#include "service/resp/client.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/core/tls.h"
#include "service/resp/worker.h"
#include "service/keys/loop.h"

enum { CLOSING_SECONDS = 10 };

/* --- states --- */

#define TO(state) (1U << (state))

/* edges[s] is the set of states that may follow state s. */
static const unsigned edges[] = {
    [CLIENT_READY] =
        TO(CLIENT_STALLED) | TO(CLIENT_BLOCKED) | TO(CLIENT_HELD) | TO(CLIENT_CLOSING) | TO(CLIENT_GONE),
    [CLIENT_STALLED] = TO(CLIENT_READY) | TO(CLIENT_CLOSING) | TO(CLIENT_GONE),
    [CLIENT_BLOCKED] = TO(CLIENT_READY) | TO(CLIENT_CLOSING) | TO(CLIENT_GONE),
    [CLIENT_HELD] = TO(CLIENT_READY) | TO(CLIENT_CLOSING) | TO(CLIENT_GONE),
    [CLIENT_CLOSING] = TO(CLIENT_GONE),
    [CLIENT_GONE] = 0,
};

void client_enter(struct client *c, enum client_state to)
{
    assert((edges[c->state] & TO(to)) != 0);
    (void)edges; /* unused in a build without assertions */
    if (c->state == CLIENT_HELD)
        TAILQ_REMOVE(&c->worker->held, c, held_link);
    c->state = to;
    if (to == CLIENT_HELD)
        TAILQ_INSERT_TAIL(&c->worker->held, c, held_link);
}

void client_leave(struct client *c, enum client_state from)
{
    if (c->state == from)
        client_enter(c, CLIENT_READY);
}

void client_end(struct client *c)
{
    if (c->state < CLIENT_CLOSING)
        client_enter(c, CLIENT_CLOSING);
}

/* --- life --- */

void client_unref(struct client *c)
{
    if (--c->references == 0 && c->state == CLIENT_GONE)
        worker_free_later(c->worker, c);
}

void client_cut(struct client *c, const char *why)
{
    log_warn("client_disconnected", "client=%s id=%llu unread=%zu reason=\"%s\"", c->address,
             (unsigned long long)c->id, client_unread(c), why);
    client_destroy(c);
}

static void close_if_written(struct client *c)
{
    bool ends = c->state == CLIENT_CLOSING ||
                (c->ended && !c->pumping && c->state == CLIENT_READY && STAILQ_EMPTY(&c->replay));
    if (ends && STAILQ_EMPTY(&c->requests) && client_unread(c) == 0)
        client_destroy(c);
}

void client_advance(struct client *c)
{
    if (c->state == CLIENT_GONE)
        return;
    c->references++;
    client_write_done(c);
    if (!c->pumping)
        client_pump(c);
    close_if_written(c);
    client_unref(c);
}

/* Count again how much memory the client holds, and report the difference to the worker. */
void client_account(struct client *c)
{
    size_t now = 0;
    if (c->state != CLIENT_GONE)
        now = sizeof(*c) + client_unread(c) + c->input.length + c->out.capacity - c->out.length +
              resp_memory(&c->parser) + c->transaction_bytes + c->replay_bytes + c->request_bytes;
    worker_count_memory(c->worker, c->memory, now);
    c->memory = now;
}

static void on_event(struct bufferevent *io, short events, void *arg)
{
    struct client *c = arg;
    if ((events & BEV_EVENT_CONNECTED) != 0)
        session_handshake_done(c, io);
    else /* closed, reset or failed: all three end the client */
        client_destroy(c);
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
        c->readable = event_new(w->base, fd, EV_READ | EV_PERSIST, client_on_bytes, c);
    bool reads = c->io != NULL && (tls || (c->readable != NULL && event_add(c->readable, NULL) == 0));
    if (!reads) {
        loop_event_free(c->readable);
        if (c->io != NULL) {
            (void)bufferevent_setfd(c->io, -1); /* the socket stays with the caller */
            bufferevent_free(c->io);
        }
        free(c);
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
    bufferevent_setcb(c->io, client_on_read, client_on_written, on_event, c);
    bufferevent_setwatermark(c->io, EV_WRITE, CLIENT_OUTPUT_LOW, 0);
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

void client_tick(struct client *c, uint64_t now_us, bool crowded)
{
    const struct config *config = c->worker->config;
    bool idle = STAILQ_EMPTY(&c->requests) && config->idle_timeout_ms != 0 &&
                now_us - c->active_us > config->idle_timeout_ms * 1000;
    if (c->unread_since_us != 0 && now_us - c->unread_since_us > config->output_timeout_ms * 1000)
        client_cut(c, "does not read its replies");
    else if (session_is_late(c, now_us))
        client_cut(c, "did not log in");
    else if (idle || (crowded && c->ended)) /* it may only be waiting, but most that have ended are gone */
        client_destroy(c);
}

/* The client must take what is written within this time. */
static const struct timeval patience = {CLOSING_SECONDS, 0};

/* Read nothing more. */
void client_close_after_reply(struct client *c)
{
    client_end(c);
    bufferevent_set_timeouts(c->io, NULL, &patience);
}

/* As from Redis, the client gets the replies to all that it has sent. One that has to log in goes at once:
 * the password that it has sent need not be verified. */
void client_has_ended(struct client *c)
{
    if (c->session.rights == NULL) {
        client_destroy(c);
        return;
    }
    c->ended = true;
    client_read_on(c, false);
    bufferevent_set_timeouts(c->io, NULL, &patience);
    bufferevent_setwatermark(c->io, EV_WRITE, 0, 0);
    client_advance(c);
}

void client_close_when_idle(struct client *c)
{
    client_close_after_reply(c);
    c->references++;
    client_read_on(c, false);
    bufferevent_setwatermark(c->io, EV_WRITE, 0, 0);
    close_if_written(c);
    client_unref(c);
}

void client_destroy(struct client *c)
{
    if (c->state == CLIENT_GONE)
        return;
    client_enter(c, CLIENT_GONE);
    session_end(c);
    client_account(c);
    worker_not_due(c->worker, c);
    worker_not_late(c->worker, c);
    client_drop_requests(c);
    client_clear_commands(&c->transaction);
    client_clear_commands(&c->replay);
    LIST_REMOVE(c, link);
    loop_event_free(c->readable);
    tls_farewell(c->io);
    bufferevent_free(c->io);
    resp_fini(&c->parser);
    buffer_fini(&c->out);
    buffer_fini(&c->input);
    worker_client_gone(c->worker);
    if (c->references == 0)
        worker_free_later(c->worker, c);
}
