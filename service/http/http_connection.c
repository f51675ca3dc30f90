/* SPDX-License-Identifier: MIT */
/* The happy path is: a connection is accepted and waits for a request; the head of the request is read
 * and given to http_request.c, which asks for the body or answers at once; the answer is written, and
 * the connection waits again. At most READ_AHEAD bytes are read before they are needed. Possible failure
 * modes are: there are too many connections (the one that has waited longest is closed, or no more are
 * accepted until one is closed), a request or the reading of an answer takes too long (the connection is
 * closed), all connections together hold too much memory (those that began last are closed), the bytes
 * are no valid request (answered with an error, then closed), the other side disconnects (a request that
 * is being served runs to its end, and its answer is dropped; a client that only shut down its sending
 * side gets its answer). */
#include "service/http/http_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/http/message/http_parse.h"
#include "service/core/tls.h"
#include "service/keys/loop.h"

enum { READ_AHEAD = 16 * 1024, SILENCE_SECONDS = 2 };

/* Move to the end of another list. Each list is ordered by since_us. */
static void move_to(struct http_connection *c, struct http_connection_list *list)
{
    TAILQ_REMOVE(c->list, c, link);
    c->list = list;
    c->since_us = clock_mono_us();
    TAILQ_INSERT_TAIL(list, c, link);
}

static bool is_gone(const struct http_connection *c)
{
    return c->list == &c->http->gone || c->list == &c->http->lingering;
}

static void look_soon(struct http *h)
{
    event_active(h->turn, EV_TIMEOUT, 0);
}

/* --- memory --- */

size_t http_connection_unread(const struct http_connection *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->io));
}

bool http_is_flooded(const struct http *h, size_t more)
{
    return h->held + more > HTTP_WORKING_FACTOR * h->config->http_body_max + HTTP_WORKING_MORE;
}

/* Count again how much memory the connection holds. */
static void account(struct http_connection *c)
{
    size_t held = sizeof(*c) + http_parser_memory(&c->parser) + http_connection_unread(c) +
                  evbuffer_get_length(bufferevent_get_input(c->io));
    c->http->held += held - c->held;
    c->held = held;
    if (http_is_flooded(c->http, 0))
        look_soon(c->http);
}

/* --- closing --- */

/* A request may be answered before all of it was read. Closing the socket would then reset the connection,
 * and the answer could be lost on its way. So a second handle of the socket is read, and the bytes are
 * dropped, until the other side has closed, or is silent, or http_timeout has passed. Such connections count
 * for http_max_clients. */

static void end_lingering(struct http_connection *c)
{
    (void)close(event_get_fd(c->rest));
    event_free(c->rest);
    c->http->lingering_count--;
    move_to(c, &c->http->gone);
    look_soon(c->http);
}

/* Of those that wait longest. */
static void keep_lingering(struct http *h, size_t most)
{
    while (h->lingering_count > most)
        end_lingering(TAILQ_FIRST(&h->lingering));
}

static void on_rest(evutil_socket_t fd, short events, void *arg)
{
    char nothing[READ_AHEAD];
    struct http_connection *c = arg;
    if ((events & EV_TIMEOUT) != 0 ||
        clock_mono_us() - c->since_us > c->http->config->http_timeout_ms * 1000 ||
        recv(fd, nothing, sizeof(nothing), 0) <= 0)
        end_lingering(c);
}

/* False: it cannot. */
static bool linger(struct http_connection *c)
{
    static const struct timeval patience = {SILENCE_SECONDS, 0};
    int fd = bufferevent_getfd(c->io), copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    c->rest = copy < 0 ? NULL : event_new(c->http->base, copy, EV_READ | EV_PERSIST, on_rest, c);
    if (c->rest != NULL && event_add(c->rest, &patience) == 0) {
        c->http->lingering_count++;
        return true;
    }
    loop_event_free(c->rest);
    if (copy >= 0)
        (void)close(copy);
    return false;
}

/* Close the connection. Its memory stays for this turn of the loop, as callers may still use it. */
void http_connection_drop(struct http_connection *c, const char *why)
{
    struct http *h = c->http;
    if (is_gone(c))
        return;
    log_debug("http_request_dropped", "reason=\"%s\"", why);
    if (c->request != NULL)
        http_request_end(c->request);
    h->connection_count--;
    h->held -= c->held;
    tls_farewell(c->io);
    move_to(c, c->last && !h->stopped && linger(c) ? &h->lingering : &h->gone);
    (void)shutdown(bufferevent_getfd(c->io), SHUT_WR);
    bufferevent_free(c->io);
    http_parser_reset(&c->parser);
    look_soon(h);
}

static void free_gone(struct http *h)
{
    struct http_connection *c;
    while ((c = TAILQ_FIRST(&h->gone)) != NULL) {
        TAILQ_REMOVE(&h->gone, c, link);
        free(c);
    }
}

/* --- reading --- */

static void on_whole(struct http_connection *c)
{
    if (c->reading == READING_REST) {
        http_parser_reset(&c->parser);
        c->reading = READING_HEAD;
        c->sending = false;
    } else {
        c->reading = READING_NOTHING;
        move_to(c, &c->http->busy);
        http_request_whole(c->request);
    }
}

static void on_refused(struct http_connection *c)
{
    c->reading = READING_NOTHING;
    if (c->request == NULL)
        http_request_begin(c->http, c);
    if (c->request != NULL) /* the request could be allocated */
        http_refusal(c->request, c->parser.status, c->parser.why);
    else if (!c->last)
        http_connection_drop(c, "out of memory");
}

/* Do one step of reading. True: there may be more to do. */
static bool advance_once(struct http_connection *c)
{
    struct evbuffer *input = bufferevent_get_input(c->io);
    size_t used, n = evbuffer_get_contiguous_space(input);
    if (c->last || c->reading == READING_NOTHING ||
        (c->reading == READING_HEAD && http_connection_unread(c) > 0) ||
        (n == 0 && !http_parser_is_whole(&c->parser)))
        return false;
    if (!c->sending) {
        c->sending = true;
        move_to(c, c->list);
    }
    enum http_step step =
        http_parse(&c->parser, n == 0 ? "" : (const char *)evbuffer_pullup(input, (ev_ssize_t)n), n, &used);
    (void)evbuffer_drain(input, used);
    switch (step) {
    case HTTP_MORE:
        break;
    case HTTP_HEAD:
        c->reading = READING_NOTHING;
        http_request_begin(c->http, c);
        break;
    case HTTP_WHOLE:
        on_whole(c);
        break;
    case HTTP_REFUSED:
        on_refused(c);
        break;
    }
    return !is_gone(c);
}

static void advance(struct http_connection *c)
{
    if (c->advancing || is_gone(c))
        return;
    c->advancing = true;
    while (advance_once(c))
        account(c);
    c->advancing = false;
    if (is_gone(c))
        return;
    account(c);
    if (c->ended && (c->on_taken != NULL || c->reading == READING_BODY ||
                     (c->request == NULL && http_connection_unread(c) == 0)))
        http_connection_drop(c, "the client closed the connection");
}

static void on_read(struct bufferevent *io UNUSED, void *arg)
{
    advance(arg);
}

/* Called when the output is empty. */
static void on_written(struct bufferevent *io UNUSED, void *arg)
{
    struct http_connection *c = arg;
    account(c);
    if (c->on_taken != NULL) {
        c->on_taken(c->on_taken_arg);
    } else if (c->request == NULL && c->last) {
        http_connection_drop(c, "the last answer was sent");
    } else if (c->request == NULL && c->list == &c->http->busy) {
        c->sending = false;
        move_to(c, &c->http->waiting);
        advance(c);
    }
}

static void on_event(struct bufferevent *io UNUSED, short events, void *arg)
{
    struct http_connection *c = arg;
    if ((events & BEV_EVENT_CONNECTED) != 0) {
        c->shaking_hands = false;
        return;
    }
    c->ended = true;
    if ((events & BEV_EVENT_EOF) != 0)
        advance(c);
    else
        http_connection_drop(c, "the connection failed");
}

/* --- accepting --- */

void http_connection_accept(struct evconnlistener *listener UNUSED, evutil_socket_t fd,
                            struct sockaddr *address, int length, void *arg)
{
    struct http *h = arg;
    bool tls = h->config->http_tls;
    struct bufferevent *io = tls ? tls_bufferevent(h->service->tls, h->base, fd)
                                 : bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
    struct http_connection *c = io == NULL ? NULL : calloc(1, sizeof(*c));
    if (c == NULL) {
        if (io != NULL)
            bufferevent_free(io);
        else
            (void)close(fd);
        return;
    }
    c->http = h;
    c->io = io;
    c->is_tls = c->shaking_hands = tls;
    c->since_us = clock_mono_us();
    http_parser_init(&c->parser, h->config->http_body_max);
    address_text(address, (socklen_t)length, c->address);
    c->list = &h->waiting;
    TAILQ_INSERT_TAIL(&h->waiting, c, link);
    h->connection_count++;
    atomic_fetch_add(&h->service->http_connections, 1);
    bufferevent_setcb(io, on_read, on_written, on_event, c);
    bufferevent_setwatermark(io, EV_READ, 0, READ_AHEAD);
    if (bufferevent_enable(io, EV_READ | EV_WRITE) != 0)
        http_connection_drop(c, "out of memory");
    else
        account(c);
    look_soon(h);
}

/* The next turn, within a second, ends the pause. */
void http_connection_not_accepted(struct evconnlistener *listener UNUSED, void *arg)
{
    struct http *h = arg;
    sockets_not_accepted(&h->sockets, "http");
}

/* --- limits --- */

static void drop_late(struct http *h, struct http_connection_list *list, const char *why)
{
    struct http_connection *c, *next;
    uint64_t now = clock_mono_us(), patience = h->config->http_timeout_ms * 1000;
    for (c = TAILQ_FIRST(list); c != NULL; c = next) {
        next = TAILQ_NEXT(c, link);
        if ((c->request == NULL && now - c->since_us > patience) ||
            (c->shaking_hands && now - c->since_us > TLS_HANDSHAKE_SECONDS * 1000000ull))
            http_connection_drop(c, why);
    }
}

/* Close connections, beginning with those that began last, until memory is below its limit. Connections whose
 * request is being served are kept. */
static void keep_to_memory(struct http *h, struct http_connection_list *list)
{
    struct http_connection *c, *previous;
    for (c = TAILQ_LAST(list, http_connection_list); c != NULL && http_is_flooded(h, 0); c = previous) {
        previous = TAILQ_PREV(c, http_connection_list, link);
        if ((c->request == NULL || c->reading == READING_BODY) && c->held > sizeof(*c))
            http_connection_drop(c, "connections use too much memory");
    }
}

static void keep_to_count(struct http *h)
{
    struct http_connection *c;
    uint64_t most = h->o.max_clients;
    keep_lingering(h, h->connection_count < most ? most - h->connection_count : 0);
    while (h->connection_count > most && (c = TAILQ_FIRST(&h->waiting)) != NULL &&
           TAILQ_NEXT(c, link) != NULL)
        http_connection_drop(c, "too many connections");
    bool full = h->connection_count > most;
    sockets_enable(&h->sockets, !full);
    if (full == h->full)
        return;
    h->full = full;
    if (full)
        log_warn("http_connections_full", "connections=%zu note=\"no more are accepted: http_max_clients\"",
                 h->connection_count);
    else
        log_info("http_connections_free", "connections=%zu", h->connection_count);
}

/* Runs when a connection has been accepted or closed, when too much memory is held, and every second. */
static void on_turn(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct http *h = arg;
    drop_late(h, &h->waiting, "no request came in time");
    drop_late(h, &h->busy, "the client does not read the answer");
    keep_to_memory(h, &h->busy); /* clients that do not take their answers */
    keep_to_memory(h, &h->waiting);
    keep_to_count(h);
    free_gone(h);
    if (h->draining && h->connection_count == 0)
        (void)event_base_loopbreak(h->base);
}

void http_connections_drain(struct http *h)
{
    struct http_connection *c, *next;
    for (c = TAILQ_FIRST(&h->waiting); c != NULL; c = next) {
        next = TAILQ_NEXT(c, link);
        if (!c->sending)
            http_connection_drop(c, "the coordinator is shutting down");
    }
    look_soon(h);
}

/* --- requests --- */

void http_connection_read_body(struct http_connection *c, bool wanted)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    c->parser.skip = !wanted;
    c->reading = READING_BODY;
    if (c->parser.expects && !http_parser_is_whole(&c->parser) &&
        evbuffer_get_length(bufferevent_get_input(c->io)) == 0 &&
        bufferevent_write(c->io, go_on, sizeof(go_on) - 1) != 0)
        http_connection_drop(c, "out of memory");
    else
        bufferevent_trigger(c->io, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

struct buffer http_connection_take_body(struct http_connection *c)
{
    struct buffer body = c->parser.body;
    c->parser.body = (struct buffer){0};
    account(c);
    return body;
}

bool http_connection_may_go_on(struct http_connection *c)
{
    return c->parser.status == 0 && c->parser.keep_alive && http_parser_skip(&c->parser);
}

bool http_connection_send(struct http_connection *c, const void *bytes, size_t length)
{
    bool sent = bufferevent_write(c->io, bytes, length) == 0;
    account(c);
    return sent;
}

/* Write the answer directly: nearly always the socket takes all of it. Only what is left over goes through
 * the loop; with TLS everything does. */
bool http_connection_answer(struct http_connection *c, const struct buffer *head, const struct buffer *body)
{
    struct iovec parts[] = {{head->data, head->length}, {body->data, body->length}};
    const struct msghdr whole = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n = c->is_tls || http_connection_unread(c) > 0
                    ? 0
                    : sendmsg(bufferevent_getfd(c->io), &whole, MSG_NOSIGNAL | MSG_DONTWAIT);
    size_t sent = n > 0 ? (size_t)n : 0;
    bool good = true;
    for (unsigned i = 0; i < 2 && good; i++) {
        size_t taken = sent < parts[i].iov_len ? sent : parts[i].iov_len, left = parts[i].iov_len - taken;
        sent -= taken;
        const char *rest = (char *)parts[i].iov_base + taken;
        good =
            left == 0 || (i == 1 && body->capacity == 0
                              ? evbuffer_add_reference(bufferevent_get_output(c->io), rest, left, NULL, NULL)
                              : bufferevent_write(c->io, rest, left)) == 0;
    }
    account(c);
    return good;
}

void http_connection_answered(struct http_connection *c, bool last)
{
    c->on_taken = NULL;
    c->last = last;
    c->reading = last ? READING_NOTHING : READING_REST;
    bool waits = http_connection_unread(c) == 0 && !last;
    c->sending &= !waits;
    move_to(c, waits ? &c->http->waiting : &c->http->busy);
    account(c);
    bufferevent_trigger(c->io, http_connection_unread(c) == 0 && last ? EV_READ | EV_WRITE : EV_READ,
                        BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

enum err http_connections_init(struct http *h, struct error *e)
{
    static const struct timeval second = {1, 0};
    TAILQ_INIT(&h->waiting);
    TAILQ_INIT(&h->busy);
    TAILQ_INIT(&h->gone);
    TAILQ_INIT(&h->lingering);
    h->turn = event_new(h->base, -1, 0, on_turn, h);
    /* A separate event, because event_active() on `turn` would restart its timer each time. */
    h->tick = event_new(h->base, -1, EV_PERSIST, on_turn, h);
    if (h->turn == NULL || h->tick == NULL || event_add(h->tick, &second) != 0)
        return error_set(e, ERR_NOMEM, "out of memory");
    return ERR_OK;
}

void http_connections_fini(struct http *h)
{
    struct http_connection *c;
    sockets_close(&h->sockets);
    while (h->turn != NULL && ((c = TAILQ_FIRST(&h->waiting)) != NULL || (c = TAILQ_FIRST(&h->busy)) != NULL))
        http_connection_drop(c, "the coordinator is shutting down");
    keep_lingering(h, 0);
    free_gone(h);
    loop_event_free(h->turn);
    loop_event_free(h->tick);
}
