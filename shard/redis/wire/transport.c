/* SPDX-License-Identifier: MIT */
/* The happy path is: find the addresses (at once, unless the host is a name), connect, with TLS the
 * handshake, then reads and writes. Possible failure modes are: the name is unknown, or its name server does
 * not answer; an address refuses the connection (the next one is tried) or does not answer (the next attempt
 * begins behind it); one side rejects the other's certificate; the connection breaks. The caller has the
 * deadlines: it frees what takes too long. */
#include "shard/redis/wire/transport.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <openssl/err.h>
#include "shard/redis/wire/node_tls.h"
#include "shard/redis/nodes/sentinels.h"

/* --- the addresses of a host --- */

/* The most threads at one time. If name servers do not answer, each thread lasts for some seconds, and
 * connections try again more often than that. */
enum { THREADS_MAX = 64, STACK_BYTES = 256 * 1024 };

static atomic_uint threads;

/* The addresses of a host, looked up in a separate thread: a name server that does not answer delays nobody
 * else, and the caller need not wait. */
struct lookup {
    atomic_uint holders; /* the thread, and the caller */
    int fd;              /* readable once the lookup has ended */
    int code;
    struct addrinfo *found;
    char port[8];
    char host[];
};

/* Give up the lookup, ended or not. @l may be NULL. */
static void lookup_free(struct lookup *l)
{
    if (l == NULL || atomic_fetch_sub(&l->holders, 1) != 1)
        return;
    if (l->found != NULL)
        freeaddrinfo(l->found);
    (void)close(l->fd);
    free(l);
}

static void *run(void *arg)
{
    struct lookup *l = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    l->code = getaddrinfo(l->host, l->port, &hints, &l->found);
    if (l->code != 0)
        l->found = NULL;
    (void)eventfd_write(l->fd, 1);
    lookup_free(l);
    (void)atomic_fetch_sub(&threads, 1);
    return NULL;
}

/* The thread blocks all signals: the main thread takes them. */
static bool start(struct lookup *l)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, run, l) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return started;
}

/* Begin. NULL: no memory, no thread, or too many lookups are under way. */
static struct lookup *lookup_new(const char *host, uint16_t port)
{
    size_t size = strlen(host) + 1;
    struct lookup *l = calloc(1, sizeof(*l) + size);
    if (l == NULL)
        return NULL;
    memcpy(l->host, host, size);
    (void)snprintf(l->port, sizeof(l->port), "%u", port);
    atomic_init(&l->holders, 2);
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool counted = atomic_fetch_add(&threads, 1) < THREADS_MAX;
    if (l->fd >= 0 && counted && start(l))
        return l;
    (void)atomic_fetch_sub(&threads, 1);
    if (l->fd >= 0)
        (void)close(l->fd);
    free(l);
    return NULL;
}

/* Take the result, once. False: the lookup has not ended. *@code is getaddrinfo()'s. The caller owns *@out
 * (freeaddrinfo()), which is NULL unless *@code is 0. */
static bool lookup_take(struct lookup *l, struct addrinfo **out, int *code)
{
    eventfd_t ended = 0;
    *out = NULL;
    *code = 0;
    if (eventfd_read(l->fd, &ended) != 0 || ended == 0)
        return false;
    *code = l->code;
    *out = l->found;
    l->found = NULL;
    return true;
}

/* --- the transport --- */

enum stage {
    STAGE_BEGIN,
    STAGE_LOOKUP,
    STAGE_ADDRESS,
    STAGE_CONNECT,
    STAGE_CONNECTED,
    STAGE_HANDSHAKE,
    STAGE_OPEN
};

struct transport {
    const struct nodes *nodes;
    const struct node *node;
    enum stage stage;
    short events;
    int fd; /* -1: none */
    struct lookup *lookup;
    struct addrinfo *found;
    unsigned count, tried, next; /* of the addresses: all, those that were tried, the next one's number */
    SSL *ssl;
    unsigned version; /* of the address that the sentinels told; 0: none yet */
};

/* By a hash of the node's name: the number of the address to begin with, behind one that did not answer,
 * which would hide the others for ever. */
static atomic_uint first[64];

static atomic_uint *first_of(const struct node *n)
{
    unsigned hash = 0;
    for (const char *p = n->name; *p != '\0'; p++)
        hash = hash * 31 + (unsigned char)*p;
    return &first[hash % (sizeof(first) / sizeof(first[0]))];
}

struct transport *transport_new(const struct nodes *nodes, const struct node *n)
{
    struct transport *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    *t = (struct transport){.nodes = nodes, .node = n, .fd = -1};
    return t;
}

void transport_free(struct transport *t)
{
    if (t == NULL)
        return;
    if (t->stage == STAGE_CONNECT && t->tried < t->count)
        atomic_store(first_of(t->node), t->next);
    lookup_free(t->lookup);
    if (t->found != NULL)
        freeaddrinfo(t->found);
    if (t->ssl != NULL && t->stage == STAGE_OPEN) {
        (void)SSL_shutdown(t->ssl); /* sends what the socket takes at once */
        ERR_clear_error();
    }
    SSL_free(t->ssl);
    if (t->fd >= 0)
        (void)close(t->fd);
    free(t);
}

int transport_fd(const struct transport *t)
{
    return t->stage == STAGE_LOOKUP ? t->lookup->fd : t->fd;
}

short transport_events(const struct transport *t)
{
    return t->events;
}

const char *transport_waits_for(const struct transport *t)
{
    switch (t->stage) {
    case STAGE_BEGIN:
    case STAGE_LOOKUP:
        return "the address of the host";
    case STAGE_ADDRESS:
    case STAGE_CONNECT:
        return "a connection";
    case STAGE_CONNECTED:
    case STAGE_HANDSHAKE:
        return "a TLS handshake";
    case STAGE_OPEN:
        break;
    }
    return "an answer to the login";
}

/* --- connecting: a step returns TRANSPORT_OPEN if the next step may begin --- */

static enum transport_state failed(struct error *e, const char *why)
{
    (void)error_set(e, ERR_UNREACHABLE, "%s", why);
    return TRANSPORT_FAILED;
}

static enum transport_state waits(struct transport *t, short events)
{
    t->events = events;
    return TRANSPORT_WAITS;
}

static enum transport_state next(struct transport *t, enum stage stage)
{
    t->stage = stage;
    return TRANSPORT_OPEN;
}

static int open_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static enum transport_state connect_unix(struct transport *t, struct error *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    _Static_assert(sizeof(a.sun_path) >= NODE_NAME_MAX, "a node's path fits into an address");
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", t->node->path);
    t->fd = open_socket(AF_UNIX);
    if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&a, sizeof(a)) != 0)
        return failed(e, strerror(errno));
    return next(t, STAGE_CONNECTED);
}

static enum transport_state take_addresses(struct transport *t, struct addrinfo *found, int code,
                                           struct error *e)
{
    if (code != 0)
        return failed(e, code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    t->found = found;
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next)
        t->count++;
    t->next = atomic_load(first_of(t->node)) % t->count;
    return next(t, STAGE_ADDRESS);
}

static bool find_host(struct transport *t, char host[NODE_NAME_MAX], uint16_t *port)
{
    const struct node *n = t->node;
    if (n->sentinel)
        return t->nodes->sentinels != NULL &&
               sentinels_address(t->nodes->sentinels, n, host, port, &t->version);
    memcpy(host, n->host, NODE_NAME_MAX);
    *port = n->port;
    return true;
}

bool transport_is_past(const struct transport *t)
{
    return t->version != 0 && sentinels_moved(t->nodes->sentinels, t->node, t->version);
}

static enum transport_state begin(struct transport *t, struct error *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[8], host[NODE_NAME_MAX];
    uint16_t number;
    if (t->node->path[0] != '\0')
        return connect_unix(t, e);
    if (!find_host(t, host, &number))
        return failed(e, "no sentinel has told yet where this master is");
    (void)snprintf(port, sizeof(port), "%u", number);
    if (getaddrinfo(host, port, &hints, &found) == 0)
        return take_addresses(t, found, 0, e);
    t->lookup = lookup_new(host, number);
    if (t->lookup == NULL)
        return failed(e,
                      "the host cannot be looked up now: out of memory, or the name servers do not answer");
    return next(t, STAGE_LOOKUP);
}

static enum transport_state look_up(struct transport *t, struct error *e)
{
    struct addrinfo *found;
    int code;
    if (!lookup_take(t->lookup, &found, &code))
        return waits(t, POLLIN);
    lookup_free(t->lookup);
    t->lookup = NULL;
    return take_addresses(t, found, code, e);
}

/* Close this address's socket, and try the next address. */
static enum transport_state give_up_address(struct transport *t, int why, struct error *e)
{
    if (t->fd >= 0)
        (void)close(t->fd);
    t->fd = -1;
    return t->tried < t->count ? next(t, STAGE_ADDRESS) : failed(e, strerror(why));
}

static enum transport_state connect_address(struct transport *t, struct error *e)
{
    const struct addrinfo *a = t->found;
    for (unsigned i = 0; i < t->next; i++)
        a = a->ai_next;
    t->next = (t->next + 1) % t->count;
    t->tried++;
    t->fd = open_socket(a->ai_family);
    if (t->fd < 0)
        return give_up_address(t, errno, e);
    if (connect(t->fd, a->ai_addr, a->ai_addrlen) == 0)
        return next(t, STAGE_CONNECTED);
    if (errno != EINPROGRESS)
        return give_up_address(t, errno, e);
    t->stage = STAGE_CONNECT;
    return waits(t, POLLOUT);
}

static enum transport_state finish_connect(struct transport *t, struct error *e)
{
    struct pollfd ready = {.fd = t->fd, .events = POLLOUT};
    int why = 0;
    socklen_t size = sizeof(why);
    if (poll(&ready, 1, 0) == 0)
        return waits(t, POLLOUT);
    if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
        why = errno;
    return why != 0 ? give_up_address(t, why, e) : next(t, STAGE_CONNECTED);
}

static enum transport_state connected(struct transport *t, struct error *e)
{
    int on = 1;
    if (t->node->path[0] == '\0')
        (void)setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!t->node->tls) {
        t->events = POLLIN;
        return next(t, STAGE_OPEN);
    }
    if (t->nodes->tls == NULL)
        return failed(e, "TLS: it is not set up");
    t->ssl = node_tls_session(t->nodes->tls, t->node, t->fd);
    return t->ssl == NULL ? failed(e, "TLS: out of memory") : next(t, STAGE_HANDSHAKE);
}

static enum transport_state shake_hands(struct transport *t, struct error *e)
{
    ERR_clear_error();
    errno = 0;
    int done = SSL_connect(t->ssl);
    if (done == 1) {
        t->events = POLLIN;
        return next(t, STAGE_OPEN);
    }
    switch (node_tls_judge(t->ssl, done, e)) {
    case NODE_TLS_READ:
        return waits(t, POLLIN);
    case NODE_TLS_WRITE:
        return waits(t, POLLOUT);
    case NODE_TLS_END:
        return failed(e, "TLS: closed by the server within the handshake");
    case NODE_TLS_FAULT:
        break;
    }
    return TRANSPORT_FAILED;
}

enum transport_state transport_connect(struct transport *t, struct error *e)
{
    static enum transport_state (*const steps[])(struct transport * t, struct error * e) = {
        [STAGE_BEGIN] = begin,
        [STAGE_LOOKUP] = look_up,
        [STAGE_ADDRESS] = connect_address,
        [STAGE_CONNECT] = finish_connect,
        [STAGE_CONNECTED] = connected,
        [STAGE_HANDSHAKE] = shake_hands,
    };
    enum transport_state state = TRANSPORT_OPEN;
    while (state == TRANSPORT_OPEN && t->stage != STAGE_OPEN)
        state = steps[t->stage](t, e);
    return state;
}

/* --- bytes --- */

static ssize_t over(struct error *e, const char *why)
{
    (void)error_set(e, ERR_UNREACHABLE, "%s", why);
    return -1;
}

/* Judge a call on the socket that moved no byte. */
static ssize_t judge(struct transport *t, short events, struct error *e)
{
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return over(e, strerror(errno));
    t->events = events;
    return 0;
}

static ssize_t judge_tls(struct transport *t, int result, struct error *e)
{
    switch (node_tls_judge(t->ssl, result, e)) {
    case NODE_TLS_READ:
        t->events = POLLIN;
        return 0;
    case NODE_TLS_WRITE:
        t->events = POLLOUT;
        return 0;
    case NODE_TLS_END:
        return over(e, "closed by the server");
    case NODE_TLS_FAULT:
        break;
    }
    return -1;
}

ssize_t transport_read(struct transport *t, void *to, size_t size, struct error *e)
{
    if (t->ssl == NULL) {
        ssize_t n = recv(t->fd, to, size, 0);
        return n > 0 ? n : n == 0 ? over(e, "closed by the server") : judge(t, POLLIN, e);
    }
    ERR_clear_error();
    errno = 0;
    int n = SSL_read(t->ssl, to, size < INT_MAX ? (int)size : INT_MAX);
    return n > 0 ? n : judge_tls(t, n, e);
}

ssize_t transport_write(struct transport *t, const void *from, size_t size, struct error *e)
{
    if (t->ssl == NULL) {
        ssize_t n = send(t->fd, from, size, MSG_NOSIGNAL);
        return n > 0 ? n : judge(t, POLLOUT, e);
    }
    ERR_clear_error();
    errno = 0;
    int n = SSL_write(t->ssl, from, size < INT_MAX ? (int)size : INT_MAX);
    return n > 0 ? n : judge_tls(t, n, e);
}
