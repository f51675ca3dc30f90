/* SPDX-License-Identifier: MIT */
#include "service/resp/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "service/resp/client.h"
#include "service/core/sockets.h"
#include "service/core/login.h"
#include "service/core/tls.h"
#include "service/resp/worker.h"

/* A login under way. */
struct attempt {
    struct client *client;
    struct request *request;
    session_welcome_fn *welcome;
    atomic_bool gone; /* the client has disconnected */
    struct greeting greeting;
    size_t user_length;
    char user[USERS_NAME_MAX + 1];
};

bool client_needs_login(struct client *c)
{
    return c->session.rights == NULL;
}

void session_resolve(struct client *c)
{
    struct session *s = &c->session;
    const struct config *config = c->worker->config;
    bool was_known = s->rights != NULL;
    if (s->user[0] == '\0' && !users_login_required(config))
        memcpy(s->user, USERS_DEFAULT, sizeof(USERS_DEFAULT));
    s->rights = s->user[0] != '\0' ? users_find(config, s->user, strlen(s->user)) : NULL;
    c->parser.stranger = s->rights == NULL;
    if (s->rights == NULL) /* a stranger's commands are not kept */
        client_drop_transaction(c);
    if (s->rights == NULL && (was_known || s->stranger_since_us == 0))
        s->stranger_since_us = clock_mono_us();
}

void session_reset(struct client *c)
{
    c->session.user[0] = '\0';
    session_resolve(c);
    if (c->is_tls)
        session_handshake_done(c, c->io);
}

void session_end(struct client *c)
{
    if (c->session.login_is_vain != NULL)
        atomic_store(c->session.login_is_vain, true);
}

bool session_is_late(const struct client *c, uint64_t now_us)
{
    const struct session *s = &c->session;
    uint64_t patience_us = c->worker->config->login_timeout_ms * 1000;
    if (s->shaking_hands)
        return now_us > c->connected_us + TLS_HANDSHAKE_SECONDS * 1000000ull;
    return s->rights == NULL && now_us > s->stranger_since_us + patience_us;
}

static void become(struct client *c, const char *user)
{
    (void)snprintf(c->session.user, sizeof(c->session.user), "%s", user);
    session_resolve(c);
}

void session_handshake_done(struct client *c, struct bufferevent *io)
{
    char user[USERS_NAME_MAX + 1];
    c->session.shaking_hands = false;
    if (c->worker->config->tls_client_user && tls_client_name(io, user, sizeof(user)) &&
        users_by_certificate(c->worker->config, user) != NULL)
        become(c, user);
}

static void refuse(const struct attempt *a, enum login_outcome outcome, struct reply *r)
{
    const struct client *c = a->client;
    if (outcome == LOGIN_BUSY) {
        reply_error(r, "ERR too many logins at once, or too many that failed; try again later");
        return;
    }
    /* An unknown name is not logged, because it may be a password in the wrong place. */
    bool known = users_find(c->worker->config, a->user, a->user_length) != NULL;
    log_info("login_refused", "client=%s id=%llu user=%s", c->address, (unsigned long long)c->id,
             known ? a->user : "unknown");
    reply_error(r, "WRONGPASS invalid username-password pair or user is disabled.");
}

/* Runs in the worker's thread. */
static void on_outcome(void *arg, enum login_outcome outcome)
{
    struct attempt *a = arg;
    struct client *c = a->client;
    c->session.login_is_vain = NULL;
    SCOPED(buffer_fini) struct buffer text = {0};
    struct reply r = {.out = &text, .protocol = c->protocol};
    if (c->state != CLIENT_GONE && outcome == LOGIN_WELCOME) {
        become(c, a->user);
        a->welcome(c, &a->greeting, &r);
    } else if (c->state != CLIENT_GONE) {
        refuse(a, outcome, &r);
    }
    client_answer(c, a->request, &text);
    free(a);
}

static struct attempt *attempt_new(struct client *c, const struct argument *user, const struct greeting *g,
                                   session_welcome_fn *welcome)
{
    static const struct argument standard = {.bytes = USERS_DEFAULT, .length = sizeof(USERS_DEFAULT) - 1};
    struct attempt *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return NULL;
    if (user == NULL)
        user = &standard;
    a->client = c;
    a->welcome = welcome;
    a->greeting = *g;
    /* A name that is too long belongs to no user. Nor does its truncated form, as that holds a blank. */
    bool fits = user->length <= USERS_NAME_MAX && memchr(user->bytes, '\0', user->length) == NULL;
    a->user_length = fits ? user->length : 1;
    memcpy(a->user, fits ? user->bytes : " ", a->user_length);
    return a;
}

void session_log_in(struct client *c, const struct argument *user, const struct argument *password,
                    const struct greeting *g, session_welcome_fn *welcome)
{
    worker_sync(c->worker); /* after CONFIG SET has answered, an old password must not be accepted */
    struct attempt *a = attempt_new(c, user, g, welcome);
    struct request *r = a != NULL ? client_await(c) : NULL;
    if (r == NULL) {
        free(a);
        client_error(c, "OOM out of memory");
        return;
    }
    a->request = r;
    char host[ADDRESS_TEXT_MAX];
    address_host(c->address, host);
    c->session.login_is_vain = &a->gone;
    const struct login_back back = {c->worker->mailbox, on_outcome, a, &a->gone};
    enum login_outcome outcome = login_ask(c->worker->service->login, &c->worker->config, host, a->user,
                                           a->user_length, password->bytes, password->length, &back);
    if (outcome != LOGIN_PENDING)
        on_outcome(a, outcome);
}
