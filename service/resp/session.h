/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_SESSION_H
#define SERVICE_RESP_SESSION_H
/* Which user a client is, and how it logs in: by AUTH, HELLO AUTH, or its certificate. Rights are those in
 * the worker's configuration. When that changes, the rights change at once. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <event2/bufferevent.h>
#include "service/protocol/resp.h"
#include "service/protocol/reply.h"
#include "service/config/users.h"

struct client;

struct session {
    char user[USERS_NAME_MAX + 1]; /* "": no user */
    /* The user's rights in the worker's configuration; NULL: the client has to log in. */
    const struct config_user *rights;
    uint64_t stranger_since_us; /* valid while `rights` is NULL */
    bool shaking_hands;         /* the TLS handshake has not ended yet */
    atomic_bool *login_is_vain; /* NULL: no password is being verified; set to true when the client goes */
};

/* What HELLO asks for besides the login. Protocol 0: the command was AUTH. */
struct greeting {
    int protocol;
    bool named;
    char name[256]; /* as `name` in struct client */
};

/* Apply the greeting and write the reply. */
typedef void session_welcome_fn(struct client *c, const struct greeting *g, struct reply *r);

/* Log in as @user (NULL: the default user). The reply is written now or later, and no other reply before
 * it. */
void session_log_in(struct client *c, const struct argument *user, const struct argument *password,
                    const struct greeting *g, session_welcome_fn *welcome);
/* The TLS handshake has ended. If the configuration says so and such a user exists, the client becomes the
 * user that its certificate names. */
void session_handshake_done(struct client *c, struct bufferevent *io);
/* Make the session as it was when the connection began. */
void session_reset(struct client *c);
/* Look up the rights in the worker's configuration, for a new client or after a change. */
void session_resolve(struct client *c);
/* The client goes: the password that it has sent need not be verified any more. */
void session_end(struct client *c);
/* True if the client has to log in, or to end its handshake, and has taken too long. */
bool session_is_late(const struct client *c, uint64_t now_us);
#endif
