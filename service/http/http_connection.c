/* SPDX-License-Identifier: MIT */
/* What evhttp of libevent 2.1 does not do for its connections: count them, bound the time and the memory that
 * one takes until its request is whole, answer in JSON what it cannot parse.
 *
 * The happy path is: a connection arrives (evhttp asks for its bufferevent), is adopted before anything is
 * read from it, waits for a request, is busy with it until the answer is taken, waits again. Possible failure
 * modes are: there are too many (the one that has waited longest goes, or no more are taken until one goes),
 * its request or the reading of its answer takes too long (it goes), all together send more than is bearable
 * (those that began last go). None goes while its request is served. */
#include "service/http/http_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/tls.h"

enum { PAGE_MAX = 2048 };

enum place { PLACE_ARRIVING, PLACE_WAITING, PLACE_BUSY };

struct http_connection {
    TAILQ_ENTRY(http_connection) link;
    struct http *http;
    struct bufferevent *io;
    struct evhttp_connection *evcon; /* NULL until it is adopted */
    struct http_request *request;    /* that is served now */
    int fd;
    enum place place;
    uint64_t since_us; /* it waits, sends its request, or is sent its answer */
    size_t buffered;
    bool sending; /* part of a request is there */
    bool last;    /* nothing more is read after the answer that is in the output */
};

static struct http_connection_list *list_of(struct http_connection *c)
{
    switch (c->place) {
    case PLACE_ARRIVING:
        return &c->http->arriving;
    case PLACE_WAITING:
        return &c->http->waiting;
    case PLACE_BUSY:
        break;
    }
    return &c->http->busy;
}

/* To the end of the list: each is in the order of since_us. */
static void move_to(struct http_connection *c, enum place place)
{
    TAILQ_REMOVE(list_of(c), c, link);
    c->place = place;
    c->since_us = clock_mono_us();
    TAILQ_INSERT_TAIL(list_of(c), c, link);
}

static void look_soon(struct http *h)
{
    event_active(h->turn, EV_TIMEOUT, 0);
}

/* --- pages of libevent's own --- */

/* The status in the last status line of @text. */
static int status_in(const char *text)
{
    int status = 400;
    for (const char *at = strstr(text, "HTTP/1."); at != NULL; at = strstr(at + 1, "HTTP/1."))
        if (strlen(at) > 12)
            status = (int)strtol(at + 9, NULL, 10);
    return status;
}

static const char *detail_of(int status)
{
    return status == 413   ? "the body is larger than [service] http_body_max, or its chunks are malformed"
           : status == 417 ? "the only expectation known here is 100-continue"
           : status == 501 ? "this method is not known here"
           : status == 503 ? "out of memory"
                           : "this is no HTTP/1 request, or its head is too large";
}

/* Put a problem in the place of a page of HTML. */
static void replace_page(struct http_connection *c, struct evbuffer *output, const char *page)
{
    int status = status_in(page);
    struct buffer body = {0}, head = {0};
    http_problem_body(&body, status, detail_of(status), NULL);
    buffer_printf(&head,
                  "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
                  "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                  status, http_reason(status), body.length);
    c->last = true;
    c->http->answering = true; /* this callback is for others */
    (void)evbuffer_unfreeze(output, 1);
    (void)evbuffer_drain(output, evbuffer_get_length(output));
    if (!c->http->config->http_tls) /* TLS does not freeze what it sends */
        (void)evbuffer_freeze(output, 1);
    (void)evbuffer_add(output, head.data, head.length);
    (void)evbuffer_add(output, body.data, body.length);
    c->http->answering = false;
    buffer_fini(&body);
    buffer_fini(&head);
}

/* What cannot be parsed evhttp answers by itself, with HTML, and closes. No part of that has left yet when
 * its last piece comes here. */
static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *arg)
{
    static const char end[] = "</BODY></HTML>\n";
    struct http_connection *c = arg;
    char page[PAGE_MAX];
    size_t length = evbuffer_get_length(output);
    if (info->n_added == 0 || c->http->answering || length < sizeof(end) || length >= sizeof(page))
        return;
    if (evbuffer_copyout(output, page, length) != (ev_ssize_t)length)
        return;
    page[length] = '\0';
    if (memcmp(page + length - (sizeof(end) - 1), end, sizeof(end) - 1) == 0)
        replace_page(c, output, page);
}

/* --- what was read --- */

static bool is_flooded(const struct http *h)
{
    return h->buffered > HTTP_WORKING_FACTOR * h->config->http_body_max;
}

static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *arg)
{
    (void)input;
    struct http_connection *c = arg;
    struct http *h = c->http;
    c->buffered += info->n_added - info->n_deleted;
    h->buffered += info->n_added - info->n_deleted;
    if (info->n_added > 0 && c->place == PLACE_WAITING && !c->sending) {
        c->sending = true;
        move_to(c, PLACE_WAITING);
    }
    if (info->n_added > 0 && is_flooded(h))
        look_soon(h);
}

/* --- coming and going --- */

/* What was streamed when its client went libevent has let go of: it is ours to free. */
static void let_go(struct http_request *r)
{
    struct evhttp_request *req = r->req;
    r->req = NULL;
    if (req != NULL && evhttp_request_get_connection(req) == NULL)
        evhttp_request_free(req);
}

static void forget(struct http_connection *c)
{
    struct http *h = c->http;
    (void)evbuffer_remove_cb(bufferevent_get_input(c->io), on_input, c);
    (void)evbuffer_remove_cb(bufferevent_get_output(c->io), on_output, c);
    if (c->request != NULL)
        let_go(c->request);
    if (c->evcon != NULL)
        h->by_fd[c->fd] = NULL;
    TAILQ_REMOVE(list_of(c), c, link);
    h->connection_count--;
    h->buffered -= c->buffered;
    free(c);
    if (h->paused || h->draining)
        look_soon(h);
}

static void on_close(struct evhttp_connection *evcon, void *arg)
{
    (void)evcon;
    struct http_connection *c = arg;
    if (c->last && !c->http->stopped)
        http_linger(c->http, c->fd);
    forget(c);
}

static struct bufferevent *on_arrival(struct event_base *base, void *arg)
{
    struct http *h = arg;
    struct bufferevent *io = h->config->http_tls ? tls_bufferevent(h->service->tls, base, -1)
                                                 : bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    struct http_connection *c = io == NULL ? NULL : calloc(1, sizeof(*c));
    if (c == NULL)
        return io; /* its requests are answered with 503 */
    c->http = h;
    c->io = io;
    c->since_us = clock_mono_us();
    TAILQ_INSERT_TAIL(&h->arriving, c, link);
    h->connection_count++;
    atomic_fetch_add(&h->service->http_connections, 1);
    bufferevent_incref(io); /* until it is adopted */
    (void)evbuffer_add_cb(bufferevent_get_input(io), on_input, c);
    (void)evbuffer_add_cb(bufferevent_get_output(io), on_output, c);
    look_soon(h);
    return io;
}

static bool has_room(struct http *h, int fd)
{
    if (fd < 0 || (size_t)fd < h->by_fd_count)
        return fd >= 0;
    size_t count = (size_t)fd * 2 + 64;
    struct http_connection **more = realloc(h->by_fd, count * sizeof(struct http_connection *));
    if (more == NULL)
        return false;
    for (size_t i = h->by_fd_count; i < count; i++)
        more[i] = NULL;
    h->by_fd = more;
    h->by_fd_count = count;
    return true;
}

/* evhttp says whose connection it is only with a request; but it is the argument of the callbacks that it has
 * set. */
static void adopt(struct http_connection *c)
{
    struct http *h = c->http;
    struct bufferevent *io = c->io;
    void *evcon = NULL;
    bufferevent_getcb(io, NULL, NULL, NULL, &evcon);
    if (evcon == NULL) { /* it went at once */
        forget(c);
    } else if (has_room(h, bufferevent_getfd(io))) {
        c->evcon = evcon;
        c->fd = bufferevent_getfd(io);
        h->by_fd[c->fd] = c;
        evhttp_connection_set_closecb(c->evcon, on_close, c);
        move_to(c, PLACE_WAITING);
    } else {
        forget(c);
        evhttp_connection_free(evcon);
    }
    bufferevent_decref(io);
}

static void adopt_all(struct http *h)
{
    struct http_connection *c, *next;
    for (c = TAILQ_FIRST(&h->arriving); c != NULL; c = next) {
        next = TAILQ_NEXT(c, link);
        adopt(c);
    }
}

/* --- limits --- */

static void drop(struct http_connection *c, const char *why)
{
    log_debug("http_dropped", "why=\"%s\"", why);
    evhttp_connection_free(c->evcon); /* on_close() */
}

static void drop_late(struct http *h, struct http_connection_list *list, const char *why)
{
    struct http_connection *c, *next;
    uint64_t now = clock_mono_us(), patience = h->config->http_timeout_ms * 1000;
    for (c = TAILQ_FIRST(list); c != NULL; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->request != NULL)
            continue;
        if (c->last && evbuffer_get_length(bufferevent_get_output(c->io)) == 0)
            drop(c, "nothing more is read");
        else if (now - c->since_us > patience)
            drop(c, why);
    }
}

/* Those that began last go first. */
static void keep_to_memory(struct http *h, struct http_connection_list *list)
{
    struct http_connection *c, *previous;
    for (c = TAILQ_LAST(list, http_connection_list); c != NULL && is_flooded(h); c = previous) {
        previous = TAILQ_PREV(c, http_connection_list, link);
        if (c->request == NULL && c->buffered > 0)
            drop(c, "too much is sent");
    }
}

static void keep_to_count(struct http *h)
{
    struct http_connection *c;
    while (h->connection_count > h->config->http_max_clients && (c = TAILQ_FIRST(&h->waiting)) != NULL &&
           TAILQ_NEXT(c, link) != NULL)
        drop(c, "too many connections");
    bool full = h->connection_count > h->config->http_max_clients;
    if (h->listening == NULL || full == h->paused)
        return;
    struct evconnlistener *listener = evhttp_bound_socket_get_listener(h->listening);
    if (full)
        (void)evconnlistener_disable(listener);
    else
        (void)evconnlistener_enable(listener);
    h->paused = full;
    log_warn("http_connections", "count=%zu note=\"%s\"", h->connection_count,
             full ? "no more are taken: http_max_clients" : "taken again");
}

/* When a connection has come or must go, and every second. */
static void on_turn(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct http *h = arg;
    adopt_all(h);
    drop_late(h, &h->waiting, "no request");
    drop_late(h, &h->busy, "the answer is not taken");
    keep_to_memory(h, &h->busy); /* requests behind one that is answered */
    keep_to_memory(h, &h->waiting);
    keep_to_count(h);
    if (h->draining && h->connection_count == 0)
        (void)event_base_loopbreak(h->base);
}

void http_connections_drain(struct http *h)
{
    struct http_connection *c, *next;
    for (c = TAILQ_FIRST(&h->waiting); c != NULL; c = next) {
        next = TAILQ_NEXT(c, link);
        if (!c->sending)
            drop(c, "the daemon ends");
    }
    look_soon(h);
}

/* --- requests --- */

struct http_connection *http_connection_busy(struct http *h, struct evhttp_request *req)
{
    int fd = bufferevent_getfd(evhttp_connection_get_bufferevent(evhttp_request_get_connection(req)));
    struct http_connection *c = fd >= 0 && (size_t)fd < h->by_fd_count ? h->by_fd[fd] : NULL;
    if (c != NULL)
        move_to(c, PLACE_BUSY);
    return c;
}

void http_connection_serves(struct http_connection *c, struct http_request *r)
{
    c->request = r;
}

static void on_taken(struct evhttp_request *req, void *arg)
{
    (void)req;
    struct http_connection *c = arg;
    c->sending = c->buffered > 0;
    move_to(c, PLACE_WAITING);
}

void http_connection_answered(struct http_connection *c, struct evhttp_request *req, bool last)
{
    c->request = NULL;
    c->last = last;
    move_to(c, PLACE_BUSY);
    evhttp_request_set_on_complete_cb(req, on_taken, c);
}

enum err http_connections_init(struct http *h, struct error *e)
{
    static const struct timeval second = {1, 0};
    TAILQ_INIT(&h->arriving);
    TAILQ_INIT(&h->waiting);
    TAILQ_INIT(&h->busy);
    LIST_INIT(&h->lingering);
    h->turn = event_new(h->base, -1, 0, on_turn, h);
    h->tick = event_new(h->base, -1, EV_PERSIST, on_turn, h); /* each event_active() would put it off */
    if (h->turn == NULL || h->tick == NULL || event_add(h->tick, &second) != 0)
        return error_set(e, ERR_NOMEM, "out of memory");
    evhttp_set_bevcb(h->server, on_arrival, h);
    return ERR_OK;
}

void http_connections_fini(struct http *h)
{
    adopt_all(h);
    http_linger_fini(h);
    if (h->server != NULL)
        evhttp_free(h->server); /* on_close() of all */
    if (h->turn != NULL)
        event_free(h->turn);
    if (h->tick != NULL)
        event_free(h->tick);
    free(h->by_fd);
}
