/* SPDX-License-Identifier: MIT */
#include "tests/integration/wired.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/lib/certificates.h"
#include "tests/lib/client.h"

enum { ACCEPT_MS = 10000 };

const char *wired_file(const struct wired *w, const char *name)
{
    static char path[8][PATH_MAX + 64];
    static unsigned next;
    char *p = path[next++ % 8];
    (void)snprintf(p, sizeof(path[0]), "%s/%s", w->directory, name);
    return p;
}

void wired_start(struct wired *w, const char *certificate, const char *clients)
{
    static char cert[PATH_MAX + 64], key[PATH_MAX + 64], ca[PATH_MAX + 64], port[8],
        socket_path[PATH_MAX + 16];
    struct error e = {""};
    *w = (struct wired){0};
    must(process_make_directory(w->directory, "wired", &e), e);
    must(certificates_make(w->directory, &e), e);
    w->tls_port = process_free_port();
    (void)snprintf(w->socket, sizeof(w->socket), "%s/redis.sock", w->directory);
    (void)snprintf(socket_path, sizeof(socket_path), "%s", w->socket);
    (void)snprintf(port, sizeof(port), "%u", w->tls_port);
    (void)snprintf(cert, sizeof(cert), "%s/%s.crt", w->directory, certificate);
    (void)snprintf(key, sizeof(key), "%s/%s.key", w->directory, certificate);
    (void)snprintf(ca, sizeof(ca), "%s/ours.crt", w->directory);
    const char *const extra[] = {"--tls-port",
                                 port,
                                 "--tls-cert-file",
                                 cert,
                                 "--tls-key-file",
                                 key,
                                 "--tls-ca-cert-file",
                                 ca,
                                 "--tls-auth-clients",
                                 clients,
                                 "--unixsocket",
                                 socket_path,
                                 NULL};
    must(temp_redis_start(&w->redis, extra, &e), e);
}

void wired_stop(struct wired *w)
{
    tls_free(w->nodes.tls);
    node_health_free(w->nodes.health);
    temp_redis_fini(&w->redis);
    process_remove_directory(w->directory);
    *w = (struct wired){0};
}

void wired_use(struct wired *w, const struct node_tls_options *o, const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    va_end(ap);
    struct error e = {""};
    const struct node_tls_options ours = {.ca_file = wired_file(w, "ours.crt"),
                                          .ca_dir = "",
                                          .cert_file = "",
                                          .key_file = "",
                                          .server_name = "",
                                          .verify = true};
    tls_free(w->nodes.tls);
    node_health_free(w->nodes.health);
    must(nodes_parse(&w->nodes, text, &e), e);
    SSL_CTX *context = NULL;
    w->nodes.tls = tls_new();
    w->nodes.health = node_health_new();
    assert_non_null(w->nodes.tls);
    assert_non_null(w->nodes.health);
    must(node_tls_load(&context, o != NULL ? o : &ours, &e), e);
    tls_replace(w->nodes.tls, context);
}

void wired_use_way(struct wired *w, enum way way)
{
    switch (way) {
    case WAY_TCP:
        wired_use(w, NULL, "redis://127.0.0.1:%u", w->redis.port);
        break;
    case WAY_UNIX:
        wired_use(w, NULL, "unix://%s", w->socket);
        break;
    case WAY_TLS:
        wired_use(w, NULL, "rediss://127.0.0.1:%u", w->tls_port);
        break;
    case WAYS:
        break;
    }
}

const char *wired_ask(struct wired *w, const char *format, ...)
{
    static char text[65536];
    struct error e = {""};
    struct client c = {0};
    must(client_open(&c, w->redis.port, 10000, &e), e);
    va_list ap;
    va_start(ap, format);
    redisReply *reply = redisvCommand(c.redis, format, ap);
    va_end(ap);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_INTEGER)
        (void)snprintf(text, sizeof(text), "%lld", reply->integer);
    else
        (void)snprintf(text, sizeof(text), "%s", reply->str != NULL ? reply->str : "");
    freeReplyObject(reply);
    client_close(&c);
    return text;
}

/* --- connections --- */

enum err wired_try(struct wired *w, struct sync_connection **c, unsigned ms, struct error *e)
{
    return sync_connection_open(c, &w->nodes, &w->nodes.node[0], "twinbloom-test", ms, ms, e);
}

struct sync_connection *wired_open(struct wired *w)
{
    struct error e = {""};
    struct sync_connection *c = NULL;
    must(wired_try(w, &c, WIRED_REPLY_MS, &e), e);
    return c;
}

void wired_refused(struct wired *w, enum err code, const char *wanted)
{
    struct error e = {""};
    struct sync_connection *c = NULL;
    gives(code, wired_try(w, &c, WIRED_MS, &e), e);
    assert_null(c);
    if (strstr(e.text, wanted) == NULL || strstr(e.text, w->nodes.node[0].name) == NULL)
        fail_msg("%s (wanted: %s)", e.text, wanted);
    assert_null(strstr(e.text, "hunter2"));
}

void wired_append(struct sync_connection *c, size_t argc, const char *const *argv)
{
    struct error e = {""};
    struct buffer b = {0};
    size_t lengths[8];
    for (size_t i = 0; i < argc; i++)
        lengths[i] = strlen(argv[i]);
    buffer_command(&b, argc, argv, lengths);
    must(sync_connection_append(c, b.data, b.length, &e), e);
    buffer_fini(&b);
}

redisReply *wired_reply(struct sync_connection *c)
{
    struct error e = {""};
    redisReply *r = NULL;
    must(sync_connection_reply(c, &r, &e), e);
    return r;
}

const char *wired_words(struct sync_connection *c, size_t argc, const char *const *argv)
{
    static char text[4096];
    wired_append(c, argc, argv);
    redisReply *r = wired_reply(c);
    (void)snprintf(text, sizeof(text), "%s", r->str != NULL ? r->str : "");
    freeReplyObject(r);
    return text;
}

/* --- a server that echoes --- */

static struct {
    SSL_CTX *context;
    int listener;
    pthread_t thread;
} echo;

/* The client's greeting ends with the request for the replication id; the client sends nothing more until it
 * has the reply. */
static bool echo_greeting(SSL *ssl)
{
    static const char question[] = "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";
    static const char answer[] = WIRED_REPLICATION;
    const int length = sizeof(question) - 1, wanted = sizeof(answer) - 1;
    char bytes[1024];
    int n = 0, got = 1;
    while (n < (int)sizeof(bytes) &&
           (n < length || memcmp(bytes + n - length, question, (size_t)length) != 0) &&
           (got = SSL_read(ssl, bytes + n, (int)sizeof(bytes) - n)) > 0)
        n += got;
    n -= length;
    return got > 0 && (n == 0 || SSL_write(ssl, bytes, n) == n) && SSL_write(ssl, answer, wanted) == wanted;
}

static void *echo_run(void *arg)
{
    (void)arg;
    static char bytes[16384];
    int fd = accept(echo.listener, NULL, NULL), n;
    SSL *ssl = SSL_new(echo.context);
    if (ssl != NULL && SSL_set_fd(ssl, fd) == 1 && SSL_accept(ssl) == 1 && echo_greeting(ssl))
        while ((n = SSL_read(ssl, bytes, sizeof(bytes))) > 0 && SSL_write(ssl, bytes, n) == n)
            ;
    SSL_free(ssl);
    (void)close(fd);
    return NULL;
}

void wired_echo_start(struct wired *w)
{
    uint16_t port;
    struct error e = {""};
    echo.context = tls_context_new(TLS_server_method());
    assert_non_null(echo.context);
    SSL_CTX_clear_mode(echo.context, SSL_MODE_ENABLE_PARTIAL_WRITE);
    must(tls_context_identify(echo.context, "cert", wired_file(w, "redis.crt"), "key",
                              wired_file(w, "redis.key"), &e),
         e);
    echo.listener = wired_listen(&port);
    wired_use(w, NULL, "rediss://127.0.0.1:%u", port);
    assert_int_equal(pthread_create(&echo.thread, NULL, echo_run, NULL), 0);
}

void wired_echo_end(void)
{
    assert_int_equal(pthread_join(echo.thread, NULL), 0);
    (void)close(echo.listener);
    SSL_CTX_free(echo.context);
}

/* --- hosts --- */

atomic_uint wired_slow_lookups;

/* Replaces the library's function, whose parameters have reserved names.
 * NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (host == NULL || (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0))
        return real(host, port, hints, out);
    if (strcmp(host, "slow.test") == 0) {
        (void)atomic_fetch_add(&wired_slow_lookups, 1);
        clock_sleep_us(WIRED_SLOW_MS * 1000);
        return EAI_AGAIN;
    }
    if (strcmp(host, "none.test") == 0)
        return EAI_NONAME;
    if (strcmp(host, "two.test") == 0) {
        int code = real(WIRED_ELSEWHERE, port, hints, out);
        return code != 0 ? code : real("127.0.0.1", port, hints, &(*out)->ai_next);
    }
    return real(strcmp(host, "here.test") == 0 ? "127.0.0.1" : host, port, hints, out);
}

int wired_listen(uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

int wired_accept(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, ACCEPT_MS), 1);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}
