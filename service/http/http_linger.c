/* SPDX-License-Identifier: MIT */
/* The end of a connection whose request was answered before all of it was read. Closing the socket would
 * reset the connection, and the answer could be lost on its way. So a second handle of the socket is read,
 * and the bytes are dropped, until the other side has closed, or is silent, or http_timeout has passed. Such
 * connections count for http_max_clients. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <fcntl.h>
#include "base/clock.h"
#include "service/http/http_internal.h"

enum { SILENCE_SECONDS = 2, CHUNK = 16384 };

struct lingering {
    TAILQ_ENTRY(lingering) link;
    struct http *http;
    struct event *readable;
    int fd;
    uint64_t until_us;
};

static void end(struct lingering *l)
{
    event_free(l->readable);
    (void)close(l->fd);
    l->http->lingering_count--;
    TAILQ_REMOVE(&l->http->lingering, l, link);
    free(l);
}

static void on_readable(evutil_socket_t fd, short events, void *arg)
{
    char nothing[CHUNK];
    struct lingering *l = arg;
    if ((events & EV_TIMEOUT) != 0 || clock_mono_us() > l->until_us ||
        recv(fd, nothing, sizeof(nothing), 0) <= 0)
        end(l);
}

void http_linger(struct http *h, int fd)
{
    static const struct timeval patience = {SILENCE_SECONDS, 0};
    struct lingering *l = calloc(1, sizeof(*l));
    int copy = l == NULL || fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0)
        l->readable = event_new(h->base, copy, EV_READ | EV_PERSIST, on_readable, l);
    if (copy < 0 || l->readable == NULL || event_add(l->readable, &patience) != 0) {
        if (copy >= 0)
            (void)close(copy);
        if (l != NULL && l->readable != NULL)
            event_free(l->readable);
        free(l);
        return;
    }
    l->http = h;
    l->fd = copy;
    l->until_us = clock_mono_us() + h->config->http_timeout_ms * 1000;
    TAILQ_INSERT_TAIL(&h->lingering, l, link);
    h->lingering_count++;
}

void http_linger_keep(struct http *h, size_t most)
{
    struct lingering *l, *next;
    for (l = TAILQ_FIRST(&h->lingering); l != NULL && h->lingering_count > most; l = next) {
        next = TAILQ_NEXT(l, link);
        end(l);
    }
}
