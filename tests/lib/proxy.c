/* SPDX-License-Identifier: MIT */
/* The happy path is forward(): complete messages go from one socket to the other. Faults are decided in
 * three places: take_request() (counting, holding), may_pass() (delays, swallowing) and send_reply()
 * (cuts, resets). Either end may disconnect at any time. What a client has sent is still delivered, as
 * on a network. */
#include "tests/lib/proxy_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/process.h"

enum { STREAM_MAX = 8 << 20, CHUNK = 64 << 10, IDLE_MS = 1000 };

void proxy_wake(struct proxy *p)
{
    uint64_t one = 1;
    if (write(p->wake, &one, sizeof(one)) < 0)
        return; /* the counter of `wake` is full, so the loop will wake up anyway */
}

/* --- connections --- */

static void close_fd(int *fd, bool reset)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (*fd < 0)
        return;
    if (reset)
        (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    (void)close(*fd);
    *fd = -1;
}

void proxy_forget(struct connection *c, bool reset)
{
    close_fd(&c->client, reset);
    close_fd(&c->server, reset);
    buffer_fini(&c->up.bytes);
    buffer_fini(&c->down.bytes);
    *c = (struct connection){.client = -1, .server = -1};
}

void proxy_close_client(struct connection *c)
{
    close_fd(&c->client, true);
}

static void make_quick(int fd)
{
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* On loopback a connection is made or refused at once, except if the server is stopped and its queue is
 * full. */
static int connect_to(uint16_t port)
{
    const struct timeval soon = {.tv_usec = 20000}, never = {0};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)); /* limits connect(), too */
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
        close_fd(&fd, false);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &never, sizeof(never));
        make_quick(fd);
    }
    return fd;
}

static void welcome(struct proxy *p, struct route *r)
{
    int client = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    struct connection *c = p->connections;
    while (c < p->connections + CONNECTIONS_MAX && c->route != NULL)
        c++;
    bool everybody = r->fault.refuse && r->fault.user == NULL;
    int server = everybody || c == p->connections + CONNECTIONS_MAX ? -1 : connect_to(r->target);
    if (server < 0) {
        close_fd(&client, true);
        return;
    }
    make_quick(client);
    *c = (struct connection){.route = r, .client = client, .server = server};
}

static bool is_hit(const struct connection *c)
{
    const char *user = c->route->fault.user;
    return user == NULL || strcmp(user, c->user) == 0;
}

static void consume(struct stream *s, size_t n)
{
    if (n == 0)
        return;
    memmove(s->bytes.data, s->bytes.data + n, s->bytes.length - n);
    s->bytes.length -= n;
    s->ready -= n;
}

/* --- requests --- */

static bool is_job(const struct proxy *p, const char *name)
{
    return strcmp(name, "twinbloom-job") == 0 || strcmp(name, "twinbloom-mutex") == 0 ||
           strcmp(name, "twinbloom job") == 0 || strcmp(name, p->job_name) == 0;
}

static void learn(const struct proxy *p, struct connection *c, const struct wire_request *r)
{
    if (r->user[0] != '\0')
        (void)snprintf(c->user, sizeof(c->user), "%s", r->user);
    if (r->name[0] != '\0')
        c->job = is_job(p, r->name);
    if (r->kind == WIRE_STARTUP) {
        c->started = true;
        if (r->name[0] != '\0' && strcmp(r->name, c->route->diverted) == 0) { /* nothing was sent yet */
            close_fd(&c->server, false);
            c->server = connect_to(c->route->diversion);
        }
    }
    if (c->route->fault.refuse && is_hit(c))
        c->broken = true;
}

/* Count a request. False: it is withheld. */
static bool count_request(struct proxy *p, struct connection *c, const char *bytes, size_t length)
{
    bool is_counted = c->job || strcmp(p->job_name, "*") == 0;
    if (!p->counting || !is_counted || strcmp(c->user, p->job_user) != 0 ||
        memmem(bytes, length, p->job_text, strlen(p->job_text)) == NULL)
        return true;
    p->counted++;
    bool last = p->hold_at != 0 && p->counted == p->hold_at;
    if (p->hold_at == 0 || p->counted < p->hold_at)
        return true;
    p->holding = true;
    c->held = true;
    if (last && p->moment == PROXY_AFTER) {
        c->silenced = true;
        c->awaited = c->asked + 1;
        return true;
    }
    p->is_held |= last;
    return false;
}

/* Handle one complete message of @length bytes. False: it must wait. */
static bool take_request(struct proxy *p, struct connection *c, const struct wire_request *r, size_t length)
{
    struct stream *up = &c->up;
    bool naming = r->kind == WIRE_STARTUP || r->name[0] != '\0';
    learn(p, c, r);
    if (r->kind == WIRE_ENCRYPT) { /* answer "no": the connection continues unencrypted */
        memmove(up->bytes.data + up->ready, up->bytes.data + up->ready + length,
                up->bytes.length - up->ready - length);
        up->bytes.length -= length;
        c->broken |= send(c->client, "N", 1, MSG_NOSIGNAL) != 1;
        return true;
    }
    if (r->kind == WIRE_REQUEST && !naming && !count_request(p, c, up->bytes.data + up->ready, length))
        return false;
    up->ready += length;
    c->asked += r->kind == WIRE_REQUEST || r->kind == WIRE_STARTUP;
    return !c->held;
}

void proxy_take_requests(struct proxy *p, struct connection *c)
{
    struct stream *up = &c->up;
    struct wire_request r;
    while (!c->held && !c->opaque && up->ready < up->bytes.length) {
        ssize_t n = wire_request(c->route->protocol, c->started, up->bytes.data + up->ready,
                                 up->bytes.length - up->ready, &r);
        if (n < 0)
            c->opaque = true;
        if (n <= 0 || !take_request(p, c, &r, (size_t)n))
            break;
    }
    if (c->opaque)
        up->ready = up->bytes.length;
}

/* --- replies --- */

static void take_replies(struct proxy *p, struct connection *c)
{
    struct stream *down = &c->down;
    bool ends;
    while (!c->opaque && down->ready < down->bytes.length) {
        ssize_t n = wire_reply(c->route->protocol, down->bytes.data + down->ready,
                               down->bytes.length - down->ready, &ends);
        if (n < 0)
            c->opaque = true;
        if (n <= 0)
            break;
        down->ready += (size_t)n;
        c->answered += ends;
    }
    if (c->opaque)
        down->ready = down->bytes.length;
    if (c->awaited != 0 && c->answered >= c->awaited)
        p->is_held = true;
}

/* --- bytes --- */

/* Read from @fd. False: the peer has disconnected. */
static bool receive(int fd, struct stream *s, unsigned delay_ms)
{
    char *room = buffer_reserve(&s->bytes, CHUNK);
    if (room == NULL)
        abort();
    ssize_t n = recv(fd, room, CHUNK, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (s->bytes.length == 0)
        s->due = clock_mono_us() + delay_ms * 1000ull;
    s->bytes.length += (size_t)n;
    return n > 0;
}

static void send_some(int fd, struct stream *s, size_t n)
{
    ssize_t sent = send(fd, s->bytes.data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
        consume(s, (size_t)sent);
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
        consume(s, s->ready); /* a later read will report that the peer has disconnected */
}

static void send_reply(struct connection *c)
{
    struct proxy_fault *f = &c->route->fault;
    size_t n = c->down.ready;
    if (is_hit(c) && (f->cuts > 0 || f->resets > 0)) {
        n = f->cuts > 0 ? n / 2 : 0;
        *(f->cuts > 0 ? &f->cuts : &f->resets) -= 1;
        c->broken = true;
    }
    if (n > 0)
        send_some(c->client, &c->down, n);
}

static bool may_pass(const struct connection *c, const struct stream *s, uint64_t now)
{
    return s->ready > 0 && now >= s->due && !(c->route->fault.swallow && is_hit(c));
}

static void forward(struct proxy *p, struct connection *c, short from_client, short from_server)
{
    const struct proxy_fault *f = &c->route->fault;
    uint64_t now = clock_mono_us();
    if (from_client != 0 && !receive(c->client, &c->up, is_hit(c) ? f->request_delay_ms : 0))
        close_fd(&c->client, false);
    if (from_server != 0 && !receive(c->server, &c->down, is_hit(c) ? f->reply_delay_ms : 0))
        close_fd(&c->server, false);
    proxy_take_requests(p, c);
    take_replies(p, c);
    if (c->server >= 0 && may_pass(c, &c->up, now))
        send_some(c->server, &c->up, c->up.ready);
    if (c->client >= 0 && !c->silenced && may_pass(c, &c->down, now))
        send_reply(c);
    if (c->client < 0)
        consume(&c->down, c->down.ready);
    if (c->server < 0 && c->awaited != 0)
        p->is_held = true;
    bool over = (c->client < 0 && c->up.ready == 0 && !c->held) ||
                (c->server < 0 && (c->down.ready == 0 || c->silenced));
    if (over || c->broken)
        proxy_forget(c, c->broken);
}

/* --- the loop --- */

struct watched {
    struct pollfd fds[1 + PROXY_ROUTES_MAX + 2 * CONNECTIONS_MAX];
    struct connection *owner[1 + PROXY_ROUTES_MAX + 2 * CONNECTIONS_MAX];
    nfds_t count;
    int timeout_ms;
};

static void watch(struct watched *w, int fd, bool in, bool out, struct connection *owner)
{
    w->owner[w->count] = owner;
    w->fds[w->count++] =
        (struct pollfd){.fd = fd, .events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0))};
}

static void wait_until_due(struct watched *w, const struct stream *s, uint64_t now)
{
    if (s->ready > 0 && s->due > now && (s->due - now) / 1000 < (uint64_t)w->timeout_ms)
        w->timeout_ms = (int)((s->due - now) / 1000) + 1;
}

/* List the descriptors in the order that dispatch() expects: `wake`, the routes, two of each connection. */
static void gather(struct proxy *p, struct watched *w)
{
    uint64_t now = clock_mono_us();
    w->count = 0;
    w->timeout_ms = IDLE_MS;
    watch(w, p->wake, true, false, NULL);
    for (unsigned i = 0; i < p->route_count; i++)
        watch(w, p->routes[i].listener, true, false, NULL);
    for (struct connection *c = p->connections; c < p->connections + CONNECTIONS_MAX; c++) {
        if (c->route == NULL)
            continue;
        wait_until_due(w, &c->up, now);
        wait_until_due(w, &c->down, now);
        watch(w, c->client, c->up.bytes.length < STREAM_MAX, !c->silenced && may_pass(c, &c->down, now), c);
        watch(w, c->server, c->down.bytes.length < STREAM_MAX, may_pass(c, &c->up, now), c);
    }
}

static void dispatch(struct proxy *p, const struct watched *w)
{
    uint64_t wakes;
    if (w->fds[0].revents != 0 && read(p->wake, &wakes, sizeof(wakes)) < 0)
        abort();
    nfds_t at = 1;
    for (unsigned i = 0; at < w->count && w->owner[at] == NULL; i++, at++)
        if (w->fds[at].revents != 0)
            welcome(p, &p->routes[i]);
    for (; at + 1 < w->count; at += 2) {
        struct connection *c = w->owner[at];
        const short in = POLLIN | POLLHUP | POLLERR;
        /* the connection may have been reset meanwhile, and its place reused */
        if (c->route != NULL && c->client == w->fds[at].fd && c->server == w->fds[at + 1].fd)
            forward(p, c, w->fds[at].revents & in, w->fds[at + 1].revents & in);
    }
}

static void *run(void *arg)
{
    struct proxy *p = arg;
    struct watched *w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    (void)pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        gather(p, w);
        (void)pthread_mutex_unlock(&p->lock);
        int n = poll(w->fds, w->count, w->timeout_ms);
        (void)pthread_mutex_lock(&p->lock);
        if (n >= 0)
            dispatch(p, w);
    }
    (void)pthread_mutex_unlock(&p->lock);
    free(w);
    return NULL;
}

enum err proxy_start(struct proxy **out, struct error *e)
{
    struct proxy *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    (void)pthread_mutex_init(&p->lock, NULL);
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        p->connections[i].client = p->connections[i].server = -1;
    p->wake = eventfd(0, EFD_CLOEXEC);
    if (p->wake < 0 || pthread_create(&p->thread, NULL, run, p) != 0) {
        close_fd(&p->wake, false);
        free(p);
        return error_set(e, ERR_IO, "proxy: %s", strerror(errno));
    }
    *out = p;
    return ERR_OK;
}

void proxy_stop(struct proxy *p)
{
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    (void)pthread_mutex_unlock(&p->lock);
    proxy_wake(p);
    (void)pthread_join(p->thread, NULL);
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        proxy_forget(&p->connections[i], true);
    for (unsigned i = 0; i < p->route_count; i++)
        close_fd(&p->routes[i].listener, false);
    close_fd(&p->wake, false);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 128) != 0))
        close_fd(&fd, false);
    return fd;
}

enum err proxy_add(struct proxy *p, enum wire_protocol protocol, uint16_t target, unsigned *route,
                   uint16_t *port, struct error *e)
{
    *port = process_free_port();
    int listener = *port == 0 ? -1 : listen_on(*port);
    (void)pthread_mutex_lock(&p->lock);
    bool room = p->route_count < PROXY_ROUTES_MAX && listener >= 0;
    if (room) {
        *route = p->route_count++;
        p->routes[*route] = (struct route){.protocol = protocol, .target = target, .listener = listener};
    }
    (void)pthread_mutex_unlock(&p->lock);
    proxy_wake(p);
    return room ? ERR_OK : error_set(e, ERR_IO, "proxy: no port, or too many routes");
}
