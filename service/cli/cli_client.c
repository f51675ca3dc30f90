/* SPDX-License-Identifier: MIT */
#include "service/cli/cli_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "service/cli/cli_tls.h"

struct client {
    redisContext *context;
    unsigned timeout_ms;
    bool refused;        /* the last call was answered by an error */
    struct cli_tls *tls; /* NULL: none */
    char name[300];      /* host:port or the path, for errors */
};

/* --- address --- */

static bool unhex(char c, unsigned *out)
{
    uint64_t value;
    if (!number_hex64(&c, 1, &value))
        return false;
    *out = (unsigned)value;
    return true;
}

static bool decode(char *out, size_t size, const char *text, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++, n++) {
        unsigned high;
        unsigned low;
        if (n + 1 >= size)
            return false;
        out[n] = text[i];
        if (text[i] != '%')
            continue;
        if (length - i < 3 || !unhex(text[i + 1], &high) || !unhex(text[i + 2], &low) || (high | low) == 0)
            return false;
        out[n] = (char)(high << 4 | low);
        i += 2;
    }
    out[n] = '\0';
    return true;
}

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

/* "user:password@" in front of *@rest, if it is there. */
static enum err parse_login(struct client_address *a, const char **rest, const char *at, struct error *e)
{
    if (at == NULL)
        return ERR_OK;
    const char *colon = memchr(*rest, ':', (size_t)(at - *rest));
    if (colon == NULL)
        return error_set(e, ERR_PARSE, "URL: expected user:password before the @");
    if (!decode(a->user, sizeof(a->user), *rest, (size_t)(colon - *rest)) ||
        !decode(a->password, sizeof(a->password), colon + 1, (size_t)(at - colon) - 1))
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
    if (*rest != '/' || !decode(a->path, sizeof(a->path), rest, strlen(rest)))
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

static struct timeval to_timeval(unsigned ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
}

static enum err login(struct client *c, const struct client_address *a, struct error *e)
{
    const char *argv[3] = {"AUTH", a->user, a->password};
    if (a->password[0] == '\0' && a->user[0] != '\0' && !a->tls)
        return error_set(e, ERR_REFUSED, "user %s: the password is missing; set TWINBLOOM_PASSWORD", a->user);
    if (a->password[0] == '\0')
        return ERR_OK;
    if (a->user[0] == '\0')
        argv[1] = a->password;
    redisReply *reply = NULL;
    enum err rc = client_call(c, &reply, a->user[0] == '\0' ? 2 : 3, argv, NULL, e);
    freeReplyObject(reply);
    return rc;
}

static void name_peer(struct client *c, const struct client_address *a)
{
    bool v6 = strchr(a->host, ':') != NULL;
    if (a->path[0] != '\0')
        (void)snprintf(c->name, sizeof(c->name), "%s", a->path);
    else
        (void)snprintf(c->name, sizeof(c->name), "%s%s%s:%u", v6 ? "[" : "", a->host, v6 ? "]" : "",
                       (unsigned)a->port);
}

static enum err reach(struct client *c, const struct client_address *a, struct error *e)
{
    struct timeval patience = to_timeval(c->timeout_ms);
    if (a->path[0] != '\0') {
        c->context = redisConnectUnixWithTimeout(a->path, patience);
    } else if (a->tls) {
        int fd = -1;
        enum err rc = cli_tls_open(&c->tls, &fd, a, c->timeout_ms, e);
        if (rc != ERR_OK)
            return error_prefix(e, rc, "cannot reach twinbloomd at %s", c->name);
        c->context = redisConnectFd(fd);
        if (c->context == NULL)
            (void)close(fd);
    } else {
        c->context = redisConnectWithTimeout(a->host, a->port, patience);
    }
    if (c->context != NULL && c->context->err == 0)
        return ERR_OK;
    return error_set(e, ERR_UNREACHABLE, "cannot reach twinbloomd at %s: %s", c->name,
                     c->context == NULL ? "out of memory" : c->context->errstr);
}

enum err client_open(struct client **out, const struct client_address *address, unsigned timeout_ms,
                     struct error *e)
{
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    c->timeout_ms = timeout_ms;
    name_peer(c, address);
    enum err rc = reach(c, address, e);
    if (rc == ERR_OK && redisSetTimeout(c->context, to_timeval(timeout_ms)) != REDIS_OK)
        rc = error_set(e, ERR_IO, "cannot set a timeout on the connection to %s", c->name);
    if (rc == ERR_OK)
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
    if (c->context != NULL)
        redisFree(c->context);
    cli_tls_close(c->tls);
    free(c);
}

static enum err connection_failed(const struct client *c, struct error *e)
{
    const redisContext *x = c->context;
    const char *fault = cli_tls_fault(c->tls);
    if (fault == NULL)
        fault = x->err == 0 ? strerror(errno) : x->errstr;
    return error_set(e, ERR_UNREACHABLE, "the connection to %s failed: %s", c->name, fault);
}

static enum err send_all(struct client *c, struct error *e)
{
    int done = 0;
    while (!done)
        if (redisBufferWrite(c->context, &done) != REDIS_OK)
            return connection_failed(c, e);
    return ERR_OK;
}

/* hiredis's own timeout is one of each read; a server that drips bytes would hold it off for ever. */
static enum err receive(struct client *c, redisReply **out, uint64_t deadline_us, struct error *e)
{
    void *reply = NULL;
    for (;;) {
        if (redisGetReplyFromReader(c->context, &reply) != REDIS_OK)
            return connection_failed(c, e);
        if (reply != NULL)
            break;
        uint64_t now = clock_mono_us();
        struct pollfd fd = {.fd = c->context->fd, .events = POLLIN};
        int ready = now >= deadline_us ? 0 : poll(&fd, 1, (int)((deadline_us - now) / 1000 + 1));
        if (ready == 0)
            return error_set(e, ERR_TIMEOUT, "no answer from %s within %g seconds (--timeout)", c->name,
                             c->timeout_ms / 1000.0);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0 || redisBufferRead(c->context) != REDIS_OK)
            return connection_failed(c, e);
    }
    *out = reply;
    return ERR_OK;
}

enum err client_call(struct client *c, redisReply **out, size_t argc, const char **argv,
                     const size_t *lengths, struct error *e)
{
    uint64_t deadline_us = clock_mono_us() + (uint64_t)c->timeout_ms * 1000;
    c->refused = false;
    if (redisAppendCommandArgv(c->context, (int)argc, argv, lengths) != REDIS_OK)
        return connection_failed(c, e);
    redisReply *reply = NULL;
    enum err rc = send_all(c, e);
    if (rc == ERR_OK)
        rc = receive(c, &reply, deadline_us, e);
    if (reply == NULL)
        return rc;
    if (reply->type == REDIS_REPLY_ERROR) {
        bool locked = strncmp(reply->str, "NOAUTH", 6) == 0;
        c->refused = true;
        rc = error_set(e, error_of_reply(reply->str, reply->len), "%s%s", reply->str,
                       locked ? " Set TWINBLOOM_PASSWORD, or use -a." : "");
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
    return redisAppendCommandArgv(c->context, (int)argc, argv, lengths) == REDIS_OK ? ERR_OK
                                                                                    : connection_failed(c, e);
}

enum err client_flush(struct client *c, struct error *e)
{
    return send_all(c, e);
}

enum err client_send(struct client *c, size_t argc, const char **argv, const size_t *lengths, struct error *e)
{
    enum err code = client_append(c, argc, argv, lengths, e);
    return code == ERR_OK ? client_flush(c, e) : code;
}

enum err client_receive(struct client *c, redisReply **out, struct error *e)
{
    *out = NULL;
    return receive(c, out, clock_mono_us() + (uint64_t)c->timeout_ms * 1000, e);
}

/* --- values --- */

const redisReply *client_field(const redisReply *list, const char *name)
{
    if (list->type != REDIS_REPLY_ARRAY)
        return NULL;
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const redisReply *key = list->element[i];
        if ((key->type == REDIS_REPLY_STRING || key->type == REDIS_REPLY_STATUS) &&
            strcmp(key->str, name) == 0)
            return list->element[i + 1];
    }
    return NULL;
}

bool client_text(const redisReply *list, const char *name, char *out, size_t size)
{
    const redisReply *value = client_field(list, name);
    if (value == NULL)
        return false;
    if (value->type == REDIS_REPLY_INTEGER)
        (void)snprintf(out, size, "%lld", value->integer);
    else if (value->type == REDIS_REPLY_STRING || value->type == REDIS_REPLY_STATUS)
        (void)snprintf(out, size, "%s", value->str);
    else
        return false;
    return out[0] != '\0';
}

bool client_count(const redisReply *list, const char *name, uint64_t *out)
{
    char text[64];
    return client_text(list, name, text, sizeof(text)) && number_u64(text, strlen(text), out);
}

bool client_time(const redisReply *list, const char *name, uint64_t *ms)
{
    double seconds;
    if (!client_decimal(list, name, &seconds) || !(seconds > 0 && seconds < 1e12))
        return false;
    *ms = (uint64_t)(seconds * 1000 + 0.5);
    return true;
}

bool client_decimal(const redisReply *list, const char *name, double *out)
{
    char text[64];
    return client_text(list, name, text, sizeof(text)) && number_double(text, strlen(text), out);
}
