/* SPDX-License-Identifier: MIT */
/* The happy path is: a connection is accepted and handed to a worker. Possible failure modes are: there are
 * as many clients as may be (answered, closed), no file descriptor is left (listening pauses a while), a
 * socket's file is there already (replaced if nobody answers). */
#include "service/daemon/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/log.h"
#include "service/core/sockets.h"
#include "service/resp/worker.h"

enum { PAUSE_MS = 100, HTTP_SHARE = 4 };
enum kind { KIND_TCP, KIND_TLS, KIND_UNIX, KINDS };

struct entrance {
    struct listen *listen;
    enum kind kind;
};

struct listen {
    struct service *service;
    const struct workers *workers;
    struct sockets sockets;
    struct event *resume;
    unsigned next_worker;
    struct entrance entrances[KINDS];
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* of the file that is ours; "": none */
    struct stat file;
};

/* --- connections --- */

/* Files that are open besides connections of clients: each worker, job and other thread may have a connection
 * to every node. How many a cluster has is not known yet. */
static uint64_t other_files(const struct service *s)
{
    enum { OTHER_THREADS = 20, EACH = 4, ELSE = 128, CLUSTER = 16 };
    uint64_t nodes = s->nodes.cluster != NULL ? CLUSTER : s->nodes.count;
    return (s->threads + OTHER_THREADS) * (nodes + EACH) + ELSE;
}

/* Have the system allow @need open files, if it lets us. Returns how many it allows. */
static uint64_t allow_files(uint64_t need)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= need)
        return need;
    const struct rlimit as_root = {.rlim_cur = need,
                                   .rlim_max = need > files.rlim_max ? need : files.rlim_max};
    const struct rlimit as_may_be = {.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &as_root) == 0)
        return need;
    return setrlimit(RLIMIT_NOFILE, &as_may_be) == 0 ? files.rlim_max : files.rlim_cur;
}

struct listen_room listen_room(struct service *s)
{
    const struct config *c = live_config_acquire(s->config);
    struct listen_room room = {.clients = c->max_clients,
                               .http = c->http[0] == '\0' ? 0 : c->http_max_clients};
    config_release(c);
    uint64_t others = other_files(s), need = others + room.clients + room.http, files = allow_files(need);
    if (files < need && room.http > files / HTTP_SHARE)
        room.http = files / HTTP_SHARE;
    uint64_t left = files > others + room.http ? files - others - room.http : 0;
    room.clients = room.clients < left ? room.clients : left;
    return room;
}

/* The one that has the fewest clients; of several the next in turn. */
static struct worker *next_worker(struct listen *l)
{
    const struct workers *all = l->workers;
    struct worker *least = all->worker[l->next_worker % all->count];
    for (unsigned i = 1; i < all->count; i++) {
        struct worker *w = all->worker[(l->next_worker + i) % all->count];
        if (atomic_load_explicit(&w->client_count, memory_order_relaxed) <
            atomic_load_explicit(&least->client_count, memory_order_relaxed))
            least = w;
    }
    l->next_worker = least->index + 1;
    return least;
}

static void on_accept(struct evconnlistener *listener UNUSED, evutil_socket_t fd, struct sockaddr *address,
                      int length, void *arg)
{
    struct entrance *entrance = arg;
    struct listen *l = entrance->listen;
    struct service *s = l->service;
    bool tls = entrance->kind == KIND_TLS;
    char text[ADDRESS_TEXT_MAX];
    if (atomic_fetch_add(&s->clients, 1) >= listen_room(s).clients) {
        static const char refused[] = "-ERR max number of clients reached\r\n";
        ssize_t n = tls ? 0 : write(fd, refused, sizeof(refused) - 1);
        (void)n;
        (void)close(fd);
        atomic_fetch_sub(&s->clients, 1);
        atomic_fetch_add(&s->rejected, 1);
        return;
    }
    atomic_fetch_add(&s->connections, 1);
    if (entrance->kind == KIND_UNIX) /* "path:0", as Redis says it */
        (void)snprintf(text, sizeof(text), "%.*s:0", (int)sizeof(text) - 3, l->path);
    else
        address_text(address, (socklen_t)length, text);
    worker_accept(next_worker(l), fd, text, tls);
}

static void on_resume(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    sockets_enable(&((struct listen *)arg)->sockets, true);
}

static void on_accept_error(struct evconnlistener *listener UNUSED, void *arg)
{
    static const struct timeval pause = {0, PAUSE_MS * 1000};
    struct listen *l = ((struct entrance *)arg)->listen;
    sockets_not_accepted(&l->sockets, "redis");
    if (event_add(l->resume, &pause) != 0)
        sockets_enable(&l->sockets, true);
}

/* --- sockets --- */

static enum err open_list(struct listen *l, enum kind kind, const char *key, const char *list,
                          struct error *e)
{
    const char *at = *list != '\0' ? list : NULL, *item;
    char address[300];
    size_t length;
    enum err code = ERR_OK;
    while (code == ERR_OK && config_next_item(&at, &item, &length)) {
        (void)snprintf(address, sizeof(address), "%.*s", (int)length, item);
        code = sockets_listen(&l->sockets, key, address, on_accept, &l->entrances[kind], e);
    }
    return code;
}

/* A file that a process left behind when it was killed is removed. Any other one stays, and so does one on
 * which somebody listens. */
static enum err clear_path(const struct sockaddr_un *address, struct error *e)
{
    struct stat file;
    if (lstat(address->sun_path, &file) != 0)
        return errno == ENOENT ? ERR_OK : error_set(e, ERR_IO, "%s", strerror(errno));
    if (!S_ISSOCK(file.st_mode))
        return error_set(e, ERR_CONFIG,
                         "something else is at this path; move it away, or choose another path");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(e, ERR_IO, "%s", strerror(errno));
    bool deserted =
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;
    (void)close(fd);
    if (!deserted)
        return error_set(e, ERR_CONFIG, "another process listens there; stop it, or choose another path");
    return unlink(address->sun_path) == 0 ? ERR_OK : error_set(e, ERR_IO, "%s", strerror(errno));
}

/* The mode is set before the file can be seen, so that nobody gets in who may not; once more after it for the
 * bits that the umask took. */
static enum err bind_path(struct listen *l, int fd, const struct sockaddr_un *address, mode_t mode,
                          struct error *e)
{
    if (fchmod(fd, mode) != 0 || bind(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
        return error_set(e, ERR_IO, "%s", strerror(errno));
    (void)snprintf(l->path, sizeof(l->path), "%s", address->sun_path);
    if (lstat(l->path, &l->file) != 0 || chmod(l->path, mode) != 0)
        return error_set(e, ERR_IO, "%s", strerror(errno));
    return ERR_OK;
}

static enum err open_unix(struct listen *l, const struct config *config, struct error *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (config->unix_socket[0] == '\0')
        return ERR_OK;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", config->unix_socket);
    int fd = -1;
    enum err code = clear_path(&address, e);
    if (code == ERR_OK && (fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        code = error_set(e, ERR_IO, "%s", strerror(errno));
    if (code == ERR_OK)
        code = bind_path(l, fd, &address, (mode_t)config->unix_socket_mode, e);
    if (code == ERR_OK)
        code = sockets_add(&l->sockets, fd, on_accept, &l->entrances[KIND_UNIX], e);
    if (code == ERR_OK)
        return ERR_OK;
    if (fd >= 0)
        (void)close(fd);
    return error_prefix(e, code, "unix_socket = %s", config->unix_socket);
}

enum err listen_open(struct listen **out, struct service *s, const struct workers *workers,
                     struct event_base *base, const struct config *config, struct error *e)
{
    struct listen *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    l->service = s;
    l->workers = workers;
    l->sockets.base = base;
    l->sockets.on_error = on_accept_error;
    for (enum kind kind = 0; kind < KINDS; kind++)
        l->entrances[kind] = (struct entrance){l, kind};
    l->resume = evtimer_new(base, on_resume, l);
    enum err code = l->resume != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK)
        code = open_list(l, KIND_TCP, "listen", config->listen, e);
    if (code == ERR_OK)
        code = open_list(l, KIND_TLS, "listen_tls", config->listen_tls, e);
    if (code == ERR_OK)
        code = open_unix(l, config, e);
    if (code != ERR_OK) {
        listen_close(l);
        return code;
    }
    *out = l;
    return ERR_OK;
}

void listen_close(struct listen *l)
{
    struct stat now;
    if (l == NULL)
        return;
    if (l->path[0] != '\0' && lstat(l->path, &now) == 0 && now.st_ino == l->file.st_ino &&
        now.st_dev == l->file.st_dev)
        (void)unlink(l->path);
    sockets_close(&l->sockets);
    if (l->resume != NULL)
        event_free(l->resume);
    free(l);
}
