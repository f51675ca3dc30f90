/* SPDX-License-Identifier: MIT */
/* Who sends a request: a user is known by HTTP Basic with a password, by a Bearer token, or by a client
 * certificate. The password of the default user is also accepted as a Bearer token if it is configured as
 * plain text. This file also checks what that user may do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/log.h"
#include "service/protocol/base64.h"
#include "service/http/http_internal.h"
#include "service/core/login.h"
#include "service/core/tls.h"
#include "service/config/users.h"

static const struct config_user *user_of(const struct http_request *r)
{
    return users_find(r->http->config, r->user, strlen(r->user));
}

static void be(struct http_request *r, const struct config_user *u)
{
    (void)snprintf(r->user, sizeof(r->user), "%s", u != NULL ? u->name : "");
}

/* --- who --- */

/* Log the user that the request named, if there is such a user. Any other name may be a password in the wrong
 * place. */
static void log_refused(struct http_request *r, const char *user)
{
    bool known = users_find(r->http->config, user, strlen(user)) != NULL;
    log_info("login_refused", "client=%s id=%s user=%s via=http", r->connection->address, log_quote(r->id),
             known ? log_quote(user) : "unknown");
}

static void refuse(struct http_request *r)
{
    http_header(r, "WWW-Authenticate", "Basic realm=\"twinbloom\", charset=\"UTF-8\"");
    http_header(r, "WWW-Authenticate", "Bearer realm=\"twinbloom\"");
    http_problem(r, HTTP_LOGIN_NEEDED,
                 "%s: Authorization: Basic with user and password, or Bearer with a token",
                 http_asked(r, "Authorization") == NULL ? "log in" : "this login is wrong");
}

/* A password that is being verified. */
struct attempt {
    struct http_request *request; /* held */
    http_known_fn *go_on;
    atomic_bool gone; /* the request has ended */
    char user[USERS_NAME_MAX + 1];
};

/* Runs in the HTTP thread. */
static void on_outcome(void *arg, enum login_outcome outcome)
{
    struct attempt *a = arg;
    struct http_request *r = a->request;
    r->login_is_vain = NULL;
    if (r->connection == NULL) {
        /* already answered: its deadline has passed, or its connection is closed */
    } else if (outcome == LOGIN_BUSY || r->http->stopped) {
        http_problem(r, HTTP_OVERLOADED,
                     "too many logins at once, or too many failed ones; nothing was done");
    } else if (outcome != LOGIN_WELCOME) {
        log_refused(r, a->user);
        refuse(r);
    } else {
        be(r, users_find(r->http->config, a->user, strlen(a->user)));
        a->go_on(r);
    }
    free(a);
    http_request_release(r);
}

/* Verify @pair, which is user:password. */
static void ask(struct http_request *r, const struct buffer *pair, http_known_fn *go_on)
{
    struct http *h = r->http;
    const char *colon = pair->length > 0 ? memchr(pair->data, ':', pair->length) : NULL;
    size_t length = colon != NULL ? (size_t)(colon - pair->data) : 0;
    bool named = colon != NULL && length <= USERS_NAME_MAX && memchr(pair->data, '\0', length) == NULL;
    struct attempt *a = named ? calloc(1, sizeof(*a)) : NULL;
    if (buffer_failed(pair) || (named && a == NULL)) {
        http_no_memory(r);
        free(a);
        return;
    }
    if (a == NULL) {
        refuse(r);
        return;
    }
    memcpy(a->user, pair->data, length);
    a->request = http_request_hold(r);
    a->go_on = go_on;
    r->login_is_vain = &a->gone;
    const struct login_back back = {h->mailbox, on_outcome, a, &a->gone};
    char host[ADDRESS_TEXT_MAX];
    address_host(r->connection->address, host);
    enum login_outcome outcome = login_ask(h->service->login, &h->config, host, a->user, strlen(a->user),
                                           colon + 1, pair->length - length - 1, &back);
    if (outcome != LOGIN_PENDING)
        on_outcome(a, outcome);
}

/* Verify @token: a user's token, or the password of the default user if that is configured as plain text. */
static void ask_bearer(struct http_request *r, const char *token, http_known_fn *go_on)
{
    const struct config *c = r->http->config;
    SCOPED(buffer_fini) struct buffer pair = {0};
    be(r, users_by_token(c, token, strlen(token)));
    if (user_of(r) != NULL) {
        go_on(r);
    } else if (c->password[0] != '\0' && !users_is_hash(c->password)) {
        buffer_printf(&pair, USERS_DEFAULT ":%s", token);
        ask(r, &pair, go_on);
    } else {
        log_refused(r, "");
        refuse(r);
    }
}

/* True if the user was identified by the client's certificate. */
static bool has_certificate(struct http_request *r)
{
    return r->http->config->tls_client_user && tls_client_name(r->connection->io, r->user, sizeof(r->user)) &&
           users_by_certificate(r->http->config, r->user) != NULL;
}

void http_authenticate(struct http_request *r, http_known_fn *go_on)
{
    static const char basic[] = "Basic ", token[] = "Bearer ";
    struct http *h = r->http;
    const char *given = http_asked(r, "Authorization");
    SCOPED(buffer_fini) struct buffer pair = {0};
    http_sync(h); /* after CONFIG SET has answered, an old password must not be accepted */
    if (!users_login_required(h->config)) {
        be(r, users_find(h->config, USERS_DEFAULT, strlen(USERS_DEFAULT)));
        go_on(r);
    } else if (r->route->role == HTTP_ROLE_NONE || http_scrapes_freely(r) ||
               (given == NULL && has_certificate(r))) {
        go_on(r);
    } else if (given != NULL && strncasecmp(given, token, sizeof(token) - 1) == 0) {
        ask_bearer(r, given + sizeof(token) - 1, go_on);
    } else if (given != NULL && strncasecmp(given, basic, sizeof(basic) - 1) == 0 &&
               base64_decode(&pair, given + sizeof(basic) - 1, strlen(given + sizeof(basic) - 1))) {
        ask(r, &pair, go_on);
    } else {
        refuse(r);
    }
}

/* --- what the user may do --- */

bool http_authorise(struct http_request *r, enum http_role role, const char *filter, size_t length)
{
    if (role == HTTP_ROLE_NONE || http_scrapes_freely(r))
        return true;
    const struct config_user *u = user_of(r);
    if (u == NULL) {
        refuse(r);
        return false;
    }
    static const unsigned roles[] = {[HTTP_ROLE_NONE] = 0,           [HTTP_ROLE_SCRAPE] = ROLE_READ,
                                     [HTTP_ROLE_READ] = ROLE_READ,   [HTTP_ROLE_READ_ALL] = ROLE_READ,
                                     [HTTP_ROLE_WRITE] = ROLE_WRITE, [HTTP_ROLE_ADMIN] = ROLE_ADMIN};
    if ((u->roles & roles[role]) != roles[role])
        http_problem(r, HTTP_FORBIDDEN, "user %s does not have the role for this", u->name);
    else if ((role == HTTP_ROLE_SCRAPE || role == HTTP_ROLE_READ_ALL) && !user_may_all_filters(u))
        http_problem(r, HTTP_FORBIDDEN, "this shows all filters: user %s needs filters = *", u->name);
    else if (filter != NULL && !user_may_filter(u, filter, length))
        http_problem(r, HTTP_FORBIDDEN, "user %s may not use this filter: its filters do not match", u->name);
    else
        return true;
    return false;
}

bool http_limit(struct http_request *r, struct admin_call *call)
{
    const struct config_user *u = user_of(r);
    if (u != NULL)
        return admin_call_limit(call, u);
    call->visible = strdup(""); /* a user that no longer exists sees nothing */
    return call->visible != NULL;
}
