/* SPDX-License-Identifier: MIT */
#include "service/core/sockets.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/config/config.h"

enum { BACKLOG = 511, QUIET_US = 10 * 1000 * 1000 /* without a failure: the next one is logged */ };
#define FLAGS (LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC)

/* Returns errno; 0: it listens. */
static int keep(struct sockets *s, struct evconnlistener *listener)
{
    if (listener == NULL)
        return errno;
    evconnlistener_set_error_cb(listener, s->on_error);
    s->at[s->count++] = listener;
    return 0;
}

static enum err is_full(struct error *e)
{
    return error_set(e, ERR_CONFIG, "more than %d sockets", SOCKETS_MAX);
}

/* The machine does not have this address, or no IPv6 at all. */
static bool is_elsewhere(int why)
{
    return why == EADDRNOTAVAIL || why == EAFNOSUPPORT;
}

static enum err bind_each(struct sockets *s, const struct addrinfo *found, evconnlistener_cb on_accept,
                          void *arg, struct error *e)
{
    size_t before = s->count;
    int why = 0;
    for (const struct addrinfo *a = found; a != NULL && (why == 0 || is_elsewhere(why)); a = a->ai_next) {
        /* With clients of IPv4 on a socket of IPv6, both could not have one port. */
        unsigned flags = FLAGS | (a->ai_family == AF_INET6 ? LEV_OPT_BIND_IPV6ONLY : 0);
        if (s->count == SOCKETS_MAX)
            return is_full(e);
        why = keep(s, evconnlistener_new_bind(s->base, on_accept, arg, flags, BACKLOG, a->ai_addr,
                                              (int)a->ai_addrlen));
    }
    if (why == 0 || (is_elsewhere(why) && s->count > before))
        return ERR_OK;
    return error_set(e, ERR_IO, "%s%s", strerror(why), why == EADDRINUSE ? "; choose another address" : "");
}

enum err sockets_listen(struct sockets *s, const char *key, const char *address, evconnlistener_cb on_accept,
                        void *arg, struct error *e)
{
    char host[256], port_text[8];
    uint16_t port;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE},
                    *found;
    enum err code = config_split_address(address, host, sizeof(host), &port, e);
    if (code != ERR_OK)
        return code;
    (void)snprintf(port_text, sizeof(port_text), "%u", port);
    int failed = getaddrinfo(host[0] == '\0' ? NULL : host, port_text, &hints, &found);
    if (failed != 0)
        return error_set(e, ERR_CONFIG, "%s = %s: %s", key, address, gai_strerror(failed));
    code = bind_each(s, found, on_accept, arg, e);
    freeaddrinfo(found);
    return code == ERR_OK ? ERR_OK : error_prefix(e, code, "%s = %s", key, address);
}

enum err sockets_add(struct sockets *s, int fd, evconnlistener_cb on_accept, void *arg, struct error *e)
{
    if (s->count == SOCKETS_MAX)
        return is_full(e);
    int why = keep(s, evconnlistener_new(s->base, on_accept, arg, FLAGS, BACKLOG, fd));
    return why == 0 ? ERR_OK : error_set(e, ERR_IO, "%s", strerror(why));
}

void sockets_not_accepted(struct sockets *s, const char *via)
{
    uint64_t now = clock_mono_us();
    if (s->failed_us == 0 || now - s->failed_us > QUIET_US)
        log_warn("accept_failed", "error=%s via=%s note=\"new connections wait until one can be accepted\"",
                 log_quote(strerror(errno)), via);
    s->failed_us = now;
    sockets_enable(s, false);
}

void sockets_enable(struct sockets *s, bool on)
{
    for (size_t i = 0; i < s->count; i++)
        (void)(on ? evconnlistener_enable : evconnlistener_disable)(s->at[i]);
}

void sockets_close(struct sockets *s)
{
    while (s->count > 0)
        evconnlistener_free(s->at[--s->count]);
}

void address_text(const struct sockaddr *address, socklen_t length, char out[ADDRESS_TEXT_MAX])
{
    char host[48] = "", port[8] = "";
    out[0] = '\0';
    if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
        port[0] != '\0') /* that of a unix socket is empty */
        (void)snprintf(out, ADDRESS_TEXT_MAX, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

void address_host(const char *text, char out[ADDRESS_TEXT_MAX])
{
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    bool bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    (void)snprintf(out, ADDRESS_TEXT_MAX, "%.*s", (int)(bracketed ? length - 2 : length), text + bracketed);
}
