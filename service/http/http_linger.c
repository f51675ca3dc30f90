/* SPDX-License-Identifier: MIT */
/* The end of a connection whose request was answered before all of it was read. Closing the socket would
 * reset the connection, and the answer could be lost on its way. So a second handle of the socket is read,
 * and the bytes are dropped, until the other side has closed, or for a limited time. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <fcntl.h>
#include "service/http/http_internal.h"

enum { LINGER_SECONDS = 2, READS_MAX = 4096, CHUNK = 16384 };

struct lingering {
    LIST_ENTRY(lingering) link;
    struct http *http;
    struct event *readable;
    int fd;
    unsigned reads;
};

static void end(struct lingering *l)
{
    event_free(l->readable);
    (void)close(l->fd);
    l->http->lingering_count--;
    LIST_REMOVE(l, link);
    free(l);
}

static void on_readable(evutil_socket_t fd, short events, void *arg)
{
    char nothing[CHUNK];
    struct lingering *l = arg;
    bool more = (events & EV_TIMEOUT) == 0 && recv(fd, nothing, sizeof(nothing), 0) > 0;
    if (!more || ++l->reads > READS_MAX)
        end(l);
}

void http_linger(struct http *h, int fd)
{
    static const struct timeval patience = {LINGER_SECONDS, 0};
    struct lingering *l = h->lingering_count < h->config->http_max_clients ? calloc(1, sizeof(*l)) : NULL;
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
    LIST_INSERT_HEAD(&h->lingering, l, link);
    h->lingering_count++;
}

void http_linger_fini(struct http *h)
{
    struct lingering *l, *next;
    for (l = LIST_FIRST(&h->lingering); l != NULL; l = next) {
        next = LIST_NEXT(l, link);
        end(l);
    }
}
