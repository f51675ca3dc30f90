/* SPDX-License-Identifier: MIT */
/* The happy path is: connect, shake hands, carry bytes both ways until hiredis closes its end. Possible
 * failure modes are: the server cannot be reached or shows a certificate that is not its own (an error before
 * hiredis knows of anything), the connection breaks later (hiredis sees its end, cli_tls_fault() says why).
 */
#include "service/cli/cli_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/clock.h"

enum { CHUNK = 16384 };

struct pipe {
    char bytes[CHUNK];
    size_t from, to;
};

struct cli_tls {
    SSL_CTX *context;
    SSL *ssl;
    int socket, plain; /* the server's, and our end of the pair */
    pthread_t thread;
    bool runs;
    struct pipe up, down;
    bool faulty;       /* `fault` says why the thread ends */
    atomic_bool ended; /* then both stay as they are */
    char fault[160];
};

static const char *reason(void)
{
    unsigned long code = ERR_peek_error(); /* the first one; what follows says where it led */
    const char *text =
        ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
    return text != NULL ? text : "the connection was closed";
}

/* --- connecting --- */

/* Wait for @events, or for the deadline. */
static bool wait_for(int fd, short events, uint64_t deadline_us)
{
    struct pollfd p = {.fd = fd, .events = events};
    int ready = 0;
    do {
        uint64_t now = clock_mono_us();
        ready = now >= deadline_us ? 0 : poll(&p, 1, (int)((deadline_us - now) / 1000 + 1));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static int connect_one(const struct addrinfo *to, uint64_t deadline_us)
{
    int fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->ai_protocol);
    if (fd < 0)
        return -1;
    int failed = connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno, on = 1;
    if (failed == EINPROGRESS) {
        socklen_t size = sizeof(failed);
        if (!wait_for(fd, POLLOUT, deadline_us))
            failed = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0)
            failed = errno;
    }
    if (failed != 0) {
        (void)close(fd);
        errno = failed;
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static enum err connect_to(struct cli_tls *t, const struct client_address *a, uint64_t deadline_us,
                           struct error *e)
{
    char port[8];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    (void)snprintf(port, sizeof(port), "%u", a->port);
    int failed = getaddrinfo(a->host, port, &hints, &found);
    if (failed != 0)
        return error_set(e, ERR_UNREACHABLE, "%s", gai_strerror(failed));
    for (const struct addrinfo *to = found; to != NULL && t->socket < 0; to = to->ai_next)
        t->socket = connect_one(to, deadline_us);
    int why = errno;
    freeaddrinfo(found);
    return t->socket >= 0 ? ERR_OK : error_set(e, ERR_UNREACHABLE, "%s", strerror(why));
}

static enum err load_files(SSL_CTX *x, const struct client_address *a, struct error *e)
{
    const char *file = NULL;
    if (a->ca != NULL && SSL_CTX_load_verify_locations(x, a->ca, NULL) != 1)
        file = a->ca;
    else if (a->ca == NULL && SSL_CTX_set_default_verify_paths(x) != 1)
        file = "the system's authorities";
    else if (a->cert != NULL && SSL_CTX_use_certificate_chain_file(x, a->cert) != 1)
        file = a->cert;
    else if (a->cert != NULL &&
             (SSL_CTX_use_PrivateKey_file(x, a->key != NULL ? a->key : a->cert, SSL_FILETYPE_PEM) != 1 ||
              SSL_CTX_check_private_key(x) != 1))
        file = a->key != NULL ? a->key : a->cert;
    return file == NULL ? ERR_OK : error_set(e, ERR_CONFIG, "%s: %s", file, reason());
}

static bool name_host(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static enum err shake_hands(struct cli_tls *t, uint64_t deadline_us, struct error *e)
{
    for (;;) {
        ERR_clear_error();
        int done = SSL_connect(t->ssl);
        if (done == 1)
            return ERR_OK;
        int want = SSL_get_error(t->ssl, done);
        if (want != SSL_ERROR_WANT_READ && want != SSL_ERROR_WANT_WRITE)
            break;
        if (!wait_for(t->socket, want == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline_us))
            return error_set(e, ERR_TIMEOUT, "the TLS handshake did not end in time (--timeout)");
    }
    long verdict = SSL_get_verify_result(t->ssl);
    return error_set(e, ERR_REFUSED, "TLS: %s%s",
                     verdict == X509_V_OK ? "" : "its certificate is not accepted: ",
                     verdict == X509_V_OK ? reason() : X509_verify_cert_error_string(verdict));
}

static enum err begin(struct cli_tls *t, const struct client_address *a, uint64_t deadline_us,
                      struct error *e)
{
    t->context = SSL_CTX_new(TLS_client_method());
    if (t->context == NULL || SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION) != 1)
        return error_set(e, ERR_NOMEM, "out of memory");
    SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(t->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    enum err code = load_files(t->context, a, e);
    if (code == ERR_OK)
        code = connect_to(t, a, deadline_us, e);
    if (code != ERR_OK)
        return code;
    t->ssl = SSL_new(t->context);
    if (t->ssl == NULL || SSL_set_fd(t->ssl, t->socket) != 1 || !name_host(t->ssl, a->host))
        return error_set(e, ERR_NOMEM, "out of memory");
    return shake_hands(t, deadline_us, e);
}

/* --- carrying --- */

enum step { STEP_NOTHING, STEP_PROGRESS, STEP_END };

static void note_fault(struct cli_tls *t, const char *why)
{
    (void)snprintf(t->fault, sizeof(t->fault), "%s", why);
    t->faulty = true;
}

/* What a call of OpenSSL that moved nothing means. */
static enum step judge(struct cli_tls *t, int result, bool *wants_write)
{
    int why = SSL_get_error(t->ssl, result);
    if (why == SSL_ERROR_WANT_READ)
        return STEP_NOTHING;
    if (why == SSL_ERROR_WANT_WRITE) {
        *wants_write = true;
        return STEP_NOTHING;
    }
    if (why != SSL_ERROR_ZERO_RETURN)
        note_fault(t, reason());
    return STEP_END;
}

static enum step carry_up(struct cli_tls *t, bool *wants_write)
{
    struct pipe *p = &t->up;
    if (p->from == p->to) {
        ssize_t n = recv(t->plain, p->bytes, sizeof(p->bytes), MSG_DONTWAIT);
        if (n <= 0)
            return n == 0 ? STEP_END : STEP_NOTHING;
        p->from = 0;
        p->to = (size_t)n;
    }
    ERR_clear_error();
    int n = SSL_write(t->ssl, p->bytes + p->from, (int)(p->to - p->from));
    if (n <= 0)
        return judge(t, n, wants_write);
    p->from += (size_t)n;
    return STEP_PROGRESS;
}

static enum step carry_down(struct cli_tls *t, bool *wants_write)
{
    struct pipe *p = &t->down;
    if (p->from == p->to) {
        ERR_clear_error();
        int n = SSL_read(t->ssl, p->bytes, sizeof(p->bytes));
        if (n <= 0)
            return judge(t, n, wants_write);
        p->from = 0;
        p->to = (size_t)n;
    }
    ssize_t n = send(t->plain, p->bytes + p->from, p->to - p->from, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? STEP_NOTHING : STEP_END;
    p->from += (size_t)n;
    return STEP_PROGRESS;
}

/* False: hiredis has closed its end. */
static bool rest(struct cli_tls *t, bool wants_write)
{
    bool up_full = t->up.from < t->up.to, down_full = t->down.from < t->down.to;
    struct pollfd p[2] = {
        {.fd = t->socket, .events = (short)((down_full ? 0 : POLLIN) | (wants_write ? POLLOUT : 0))},
        {.fd = t->plain, .events = (short)((up_full ? 0 : POLLIN) | (down_full ? POLLOUT : 0))}};
    (void)poll(p, 2, -1);
    return (p[1].revents & (POLLHUP | POLLERR)) == 0;
}

static void *carry(void *arg)
{
    struct cli_tls *t = arg;
    for (;;) {
        bool wants_write = false;
        enum step up = carry_up(t, &wants_write);
        /* Where writing has failed the server may have said why. */
        enum step down = up != STEP_END || t->faulty ? carry_down(t, &wants_write) : STEP_END;
        if (up == STEP_END || down == STEP_END)
            break;
        if (up == STEP_NOTHING && down == STEP_NOTHING && !rest(t, wants_write))
            break;
    }
    if (!t->faulty)
        (void)SSL_shutdown(t->ssl);
    atomic_store(&t->ended, true);
    /* Our end stays open for reading, or what hiredis writes would be a SIGPIPE. */
    (void)shutdown(t->plain, SHUT_WR);
    return NULL;
}

enum err cli_tls_open(struct cli_tls **out, int *fd, const struct client_address *a, unsigned timeout_ms,
                      struct error *e)
{
    int pair[2];
    struct cli_tls *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    t->socket = t->plain = -1;
    enum err code = begin(t, a, clock_mono_us() + (uint64_t)timeout_ms * 1000, e);
    if (code == ERR_OK && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        code = error_set(e, ERR_IO, "%s", strerror(errno));
    if (code == ERR_OK) {
        t->plain = pair[0];
        *fd = pair[1];
        t->runs = pthread_create(&t->thread, NULL, carry, t) == 0;
        if (!t->runs) {
            (void)close(pair[1]);
            code = error_set(e, ERR_NOMEM, "a thread could not be started");
        }
    }
    if (code != ERR_OK) {
        cli_tls_close(t);
        return code;
    }
    *out = t;
    return ERR_OK;
}

void cli_tls_close(struct cli_tls *t)
{
    if (t == NULL)
        return;
    if (t->runs)
        (void)pthread_join(t->thread, NULL);
    SSL_free(t->ssl);
    SSL_CTX_free(t->context);
    if (t->socket >= 0)
        (void)close(t->socket);
    if (t->plain >= 0)
        (void)close(t->plain);
    free(t);
}

const char *cli_tls_fault(const struct cli_tls *t)
{
    return t != NULL && atomic_load(&t->ended) && t->faulty ? t->fault : NULL;
}
