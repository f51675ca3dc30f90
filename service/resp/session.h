/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_SESSION_H
#define SERVICE_RESP_SESSION_H
/* Who a client is, and how it becomes that: AUTH, HELLO AUTH, or its certificate. Rights are those of the
 * worker's configuration: they change with it, at once. */
#include <stdbool.h>
#include <stdint.h>
#include <event2/bufferevent.h>
#include "service/protocol/resp.h"
#include "service/protocol/reply.h"
#include "service/config/users.h"

struct client;

struct session {
    char user[USERS_NAME_MAX + 1];    /* "": nobody */
    const struct config_user *rights; /* of that user, in the worker's configuration; NULL: has to log in */
    uint64_t stranger_since_us;       /* while `rights` is NULL */
    bool shaking_hands;               /* TLS has not begun yet */
};

/* What HELLO asks for besides the login; protocol 0: it was AUTH. */
struct greeting {
    int protocol;
    bool named;
    char name[256]; /* as in struct client */
};

/* Do what the greeting asks for and write the reply. */
typedef void session_welcome_fn(struct client *c, const struct greeting *g, struct reply *r);

/* Log in as @user (NULL: the default user); the reply comes now or later, and nothing else before it. */
void session_log_in(struct client *c, const struct argument *user, const struct argument *password,
                    const struct greeting *g, session_welcome_fn *welcome);
/* TLS has begun: where that is wanted, and there is such a user, the client is whom its certificate names. */
void session_handshake_done(struct client *c, struct bufferevent *io);
/* As the connection was when it began. */
void session_reset(struct client *c);
/* Look up the rights in the worker's configuration, which is new, or the client is. */
void session_resolve(struct client *c);
/* It had to log in, or to shake hands, and has not for too long. */
bool session_is_late(const struct client *c, uint64_t now_us);
#endif
