/* SPDX-License-Identifier: MIT */
#include "service/cli/common/cli_client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/number.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/wire/replies.h"
#include "shard/redis/wire/tls_context.h"
#include "shard/redis/wire/transport.h"

struct client {
    struct nodes nodes; /* one: the service */
    struct transport *transport;
    struct replies replies;
    struct buffer out;
    size_t sent; /* bytes sent of the request */
    unsigned timeout_ms;
    bool refused;   /* the last call got an error reply */
    char name[300]; /* host:port or path, for error texts */
};

/* --- address --- */

static enum err parse_host(struct client_address *a, const char *text, size_t length, struct error *e)
{
    const char *host = text;
    const char *end = text + length;
    const char *after = length == 0 ? NULL : memchr(text, ':', length);
    if (length != 0 && text[0] == '[') {
        host = text + 1;
        end = memchr(host, ']', length - 1);
        if (end == NULL)
            return error_set(e, ERR_PARSE, "URL: the [ of the host is not closed");
        after = end + 1 < text + length ? end + 1 : NULL;
    } else if (after != NULL) {
        end = after;
    }
    if (end == host || (size_t)(end - host) >= sizeof(a->host))
        return error_set(e, ERR_PARSE, "URL: the host is empty or too long");
    if (after != NULL) {
        uint64_t port;
        size_t digits = (size_t)(text + length - after) - 1;
        if (*after != ':' || !number_u64(after + 1, digits, &port) || port == 0 || port > UINT16_MAX)
            return error_set(e, ERR_PARSE, "URL: the port must be a number from 1 to 65535");
        a->port = (uint16_t)port;
    }
    memcpy(a->host, host, (size_t)(end - host));
    a->host[end - host] = '\0';
    return ERR_OK;
}

/* Parse "user:password@" at the beginning of *@rest, if present; @at points to the '@'. */
static enum err parse_login(struct client_address *a, const char **rest, const char *at, struct error *e)
{
    if (at == NULL)
        return ERR_OK;
    const char *colon = memchr(*rest, ':', (size_t)(at - *rest));
    if (colon == NULL)
        return error_set(e, ERR_PARSE, "URL: expected user:password before the @");
    if (!number_unpercent(*rest, (size_t)(colon - *rest), a->user, sizeof(a->user)) ||
        !number_unpercent(colon + 1, (size_t)(at - colon) - 1, a->password, sizeof(a->password)))
        return error_set(e, ERR_PARSE, "URL: user or password is too long or has a %% that is not %%XX");
    *rest = at + 1;
    return ERR_OK;
}

static enum err parse_path(struct client_address *a, const char *rest, struct error *e)
{
    const char *slash = strchr(rest, '/');
    const char *at = slash == NULL ? NULL : memrchr(rest, '@', (size_t)(slash - rest));
    enum err rc = parse_login(a, &rest, at, e);
    if (rc != ERR_OK)
        return rc;
    if (*rest != '/' || !number_unpercent(rest, strlen(rest), a->path, sizeof(a->path)))
        return error_set(e, ERR_PARSE, "URL: expected unix:///path, of at most %zu bytes",
                         sizeof(a->path) - 1);
    return ERR_OK;
}

static enum err parse_network(struct client_address *a, const char *rest, struct error *e)
{
    enum err rc = parse_login(a, &rest, strrchr(rest, '@'), e);
    if (rc != ERR_OK)
        return rc;
    size_t length = strcspn(rest, "/");
    if (rest[length] != '\0' && strcmp(rest + length, "/") != 0 && strcmp(rest + length, "/0") != 0)
        return error_set(e, ERR_PARSE, "URL: database 0 is the only one");
    a->path[0] = '\0';
    return parse_host(a, rest, length, e);
}

enum err client_parse_url(struct client_address *out, const char *url, struct error *e)
{
    static const struct {
        const char *text;
        bool tls, path;
    } schemes[] = {{"redis://", false, false}, {"rediss://", true, false}, {"unix://", false, true}};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t length = strlen(schemes[i].text);
        if (strncmp(url, schemes[i].text, length) != 0)
            continue;
        struct client_address a = *out;
        a.tls = schemes[i].tls;
        enum err rc = (schemes[i].path ? parse_path : parse_network)(&a, url + length, e);
        if (rc == ERR_OK)
            *out = a;
        return rc;
    }
    return error_set(e, ERR_PARSE,
                     "URL: expected redis://[user:password@]host:port, rediss:// or unix:///path");
}

/* --- connection --- */

/* Block SIGPIPE while OpenSSL writes: the signal may end a command only when nobody reads its output. */
static void hold_pipe(const struct client *c, bool hold)
{
    sigset_t pipe;
    if (c->nodes.tls == NULL)
        return;
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    if (!hold)
        (void)sigtimedwait(&pipe, NULL, &(struct timespec){0});
    (void)pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &pipe, NULL);
}

static enum err load_files(SSL_CTX *x, const struct client_address *a, struct error *e)
{
    const char *file = NULL, *key = a->key != NULL ? a->key : a->cert;
    if (a->ca != NULL && SSL_CTX_load_verify_locations(x, a->ca, NULL) != 1)
        file = a->ca;
    else if (a->ca == NULL && SSL_CTX_set_default_verify_paths(x) != 1)
        file = "the system's authorities";
    else if (a->cert != NULL && SSL_CTX_use_certificate_chain_file(x, a->cert) != 1)
        file = a->cert;
    else if (a->cert != NULL && (SSL_CTX_use_PrivateKey_file(x, key, SSL_FILETYPE_PEM) != 1 ||
                                 SSL_CTX_check_private_key(x) != 1))
        file = key;
    if (file == NULL)
        return ERR_OK;
    const char *why = tls_context_reason();
    return error_set(e, ERR_CONFIG, "%s: %s", file, why != NULL ? why : "not usable");
}

static enum err set_up_tls(struct client *c, const struct client_address *a, struct error *e)
{
    SSL_CTX *context = tls_context_new(TLS_client_method());
    c->nodes.tls = tls_new();
    if (context == NULL || c->nodes.tls == NULL) {
        SSL_CTX_free(context);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    tls_replace(c->nodes.tls, context);
    return load_files(context, a, e);
}

/* False: the deadline has passed. */
static bool wait_for(int fd, short events, uint64_t deadline_us)
{
    struct pollfd p = {.fd = fd, .events = events};
    int ready;
    do {
        uint64_t now = clock_mono_us();
        ready = now >= deadline_us ? 0 : poll(&p, 1, (int)((deadline_us - now) / 1000 + 1));
    } while (ready < 0 && errno == EINTR);
    return ready != 0;
}

static enum err connect_to(struct client *c, uint64_t deadline_us, struct error *e)
{
    enum transport_state state;
    while ((state = transport_connect(c->transport, e)) == TRANSPORT_WAITS)
        if (!wait_for(transport_fd(c->transport), transport_events(c->transport), deadline_us)) {
            if (strstr(transport_waits_for(c->transport), "TLS") != NULL)
                return error_set(e, ERR_TIMEOUT, "the TLS handshake did not end in time (--timeout)");
            return error_set(e, ERR_UNREACHABLE, "%s", strerror(ETIMEDOUT));
        }
    if (state == TRANSPORT_OPEN)
        return ERR_OK;
    return ERR_UNREACHABLE;
}

/* Whoever names a file for TLS wants it. */
static bool wants_tls(const struct client_address *a)
{
    return a->tls || a->ca != NULL || a->cert != NULL || a->key != NULL;
}

static enum err reach(struct client *c, const struct client_address *a, struct error *e)
{
    struct node *n = &c->nodes.node[0];
    size_t host = strlen(a->host), path = strlen(a->path);
    enum err code = ERR_OK;
    c->nodes.count = 1;
    n->port = a->port;
    n->tls = wants_tls(a) && a->path[0] == '\0';
    if (host >= sizeof(n->host) || path >= sizeof(n->path))
        return error_set(e, ERR_CONFIG, "a host or path has at most %zu bytes", sizeof(n->host) - 1);
    memcpy(n->host, a->host, host);
    memcpy(n->path, a->path, path);
    if (n->tls)
        code = set_up_tls(c, a, e);
    if (code != ERR_OK)
        return code;
    c->transport = transport_new(&c->nodes, n);
    if (c->transport == NULL || !replies_init(&c->replies))
        return error_set(e, ERR_NOMEM, "out of memory");
    hold_pipe(c, true);
    code = connect_to(c, clock_mono_us() + (uint64_t)c->timeout_ms * 1000, e);
    hold_pipe(c, false);
    return code;
}

static enum err login(struct client *c, const struct client_address *a, struct error *e)
{
    const char *argv[3] = {"AUTH", a->user, a->password};
    if (a->password[0] == '\0' && a->user[0] != '\0' && !wants_tls(a))
        return error_set(e, ERR_REFUSED, "user %s: the password is missing; set TWINBLOOM_PASSWORD", a->user);
    if (a->password[0] == '\0')
        return ERR_OK;
    if (a->user[0] == '\0')
        argv[1] = a->password;
    SCOPED(scope_reply) redisReply *reply = NULL;
    return client_call(c, &reply, a->user[0] == '\0' ? 2 : 3, argv, NULL, e);
}

enum err client_open(struct client **out, const struct client_address *address, unsigned timeout_ms,
                     struct error *e)
{
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    c->timeout_ms = timeout_ms;
    bool v6 = strchr(address->host, ':') != NULL;
    if (address->path[0] != '\0')
        (void)snprintf(c->name, sizeof(c->name), "%s", address->path);
    else
        (void)snprintf(c->name, sizeof(c->name), "%s%s%s:%u", v6 ? "[" : "", address->host, v6 ? "]" : "",
                       (unsigned)address->port);
    enum err rc = reach(c, address, e);
    if (rc != ERR_OK)
        rc = error_prefix(e, rc, "cannot reach twinbloomd at %s (TWINBLOOM_URL or --url names another)",
                          c->name);
    else
        rc = login(c, address, e);
    if (rc != ERR_OK) {
        client_close(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

void client_close(struct client *c)
{
    if (c == NULL)
        return;
    hold_pipe(c, true);
    transport_free(c->transport);
    hold_pipe(c, false);
    replies_fini(&c->replies);
    buffer_fini(&c->out);
    tls_free(c->nodes.tls);
    free(c);
}

/* Send as much as the connection takes. False: it takes no more. *@events: what to wait for. */
static bool send_some(struct client *c, short *events, struct error *why)
{
    ssize_t n = 1;
    while (c->sent < c->out.length && n > 0) {
        n = transport_write(c->transport, c->out.data + c->sent, c->out.length - c->sent, why);
        if (n == 0)
            *events |= transport_events(c->transport);
        c->sent += n > 0 ? (size_t)n : 0;
    }
    if (c->sent == c->out.length) {
        buffer_clear(&c->out);
        c->sent = 0;
    }
    return n >= 0;
}

/* The next reply; *@out is NULL if it has not come, and *@events says what to wait for. */
static enum err take(struct client *c, redisReply **out, short *events, struct error *e)
{
    struct error why = {""};
    for (;;) {
        if (replies_next(&c->replies, out, &why) != ERR_OK)
            return error_set(e, ERR_UNREACHABLE,
                             "%s does not speak the Redis protocol (%s): is it twinbloomd?", c->name,
                             why.text);
        if (*out != NULL)
            return ERR_OK;
        *events = 0;
        bool sends = send_some(c, events, &why);
        /* If writing failed, the server may have sent the reason. */
        ssize_t n = transport_read(c->transport, replies_room(&c->replies), REPLIES_CHUNK, &why);
        if (n < 0 || (n == 0 && !sends))
            return error_set(e, ERR_UNREACHABLE, "the connection to %s failed: %s", c->name, why.text);
        *events |= transport_events(c->transport);
        if (n == 0)
            return ERR_OK;
        replies_filled(&c->replies, (size_t)n);
    }
}

enum err client_call(struct client *c, redisReply **out, size_t argc, const char **argv,
                     const size_t *lengths, struct error *e)
{
    redisReply *reply = NULL;
    c->refused = false;
    enum err rc = client_append(c, argc, argv, lengths, e);
    if (rc == ERR_OK)
        rc = client_receive(c, &reply, e);
    if (reply == NULL)
        return rc;
    if (reply->type == REDIS_REPLY_ERROR) {
        bool locked = strncmp(reply->str, "NOAUTH", 6) == 0;
        bool foreign = strncmp(reply->str, "ERR unknown command", 19) == 0;
        c->refused = true;
        rc = error_set(e, error_of_reply(reply->str, reply->len), "%s%s%s%s", reply->str,
                       locked ? " Set TWINBLOOM_PASSWORD, or use -a." : "",
                       foreign ? "; is it twinbloomd at " : "", foreign ? c->name : "");
        freeReplyObject(reply);
        return rc;
    }
    *out = reply;
    return ERR_OK;
}

bool client_refused(const struct client *c)
{
    return c->refused;
}

enum err client_append(struct client *c, size_t argc, const char **argv, const size_t *lengths,
                       struct error *e)
{
    buffer_command(&c->out, argc, argv, lengths);
    return buffer_failed(&c->out) ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
}

void client_flush(struct client *c)
{
    struct error ignored; /* client_receive() meets the same error */
    short events = 0;
    hold_pipe(c, true);
    (void)send_some(c, &events, &ignored);
    hold_pipe(c, false);
}

enum err client_send(struct client *c, size_t argc, const char **argv, const size_t *lengths, struct error *e)
{
    enum err code = client_append(c, argc, argv, lengths, e);
    if (code == ERR_OK)
        client_flush(c);
    return code;
}

enum err client_receive(struct client *c, redisReply **out, struct error *e)
{
    /* The deadline is that of the whole reply, so a server that sends single bytes cannot extend it. */
    uint64_t deadline_us = clock_mono_us() + (uint64_t)c->timeout_ms * 1000;
    short events = 0;
    enum err code;
    *out = NULL;
    hold_pipe(c, true);
    while ((code = take(c, out, &events, e)) == ERR_OK && *out == NULL)
        if (!wait_for(transport_fd(c->transport), events, deadline_us)) {
            code = error_set(e, ERR_TIMEOUT, "no answer from %s within %g seconds (--timeout)", c->name,
                             c->timeout_ms / 1000.0);
            break;
        }
    hold_pipe(c, false);
    return code;
}

enum err client_take(struct client *c, redisReply **out, struct error *e)
{
    short ignored;
    hold_pipe(c, true);
    enum err code = take(c, out, &ignored, e);
    hold_pipe(c, false);
    return code;
}

int client_fd(const struct client *c)
{
    return transport_fd(c->transport);
}
