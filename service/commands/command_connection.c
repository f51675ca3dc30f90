/* SPDX-License-Identifier: MIT */
/* Connection commands: those that clients send when they connect, and transactions. */
#include <string.h>
#include "base/number.h"
#include "service/commands/command.h"
#include "service/resp/worker.h"

void command_ping(struct client *c, const struct argument *a, size_t count)
{
    struct reply r = client_reply_begin(c);
    if (count == 2)
        reply_bulk(&r, a[1].bytes, a[1].length);
    else
        reply_simple(&r, "PONG");
    client_reply_end(c);
}

void command_echo(struct client *c, const struct argument *a, size_t count UNUSED)
{
    struct reply r = client_reply_begin(c);
    reply_bulk(&r, a[1].bytes, a[1].length);
    client_reply_end(c);
}

void command_quit(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    command_ok(c);
    client_close_after_reply(c);
}

static void welcome_auth(struct client *c UNUSED, const struct greeting *g UNUSED, struct reply *r)
{
    reply_simple(r, "OK");
}

void command_auth(struct client *c, const struct argument *a, size_t count)
{
    worker_sync(c->worker);
    if (count > 3)
        client_error(c, "ERR syntax error");
    else if (count == 2 && c->worker->config->password[0] == '\0')
        client_error(
            c, "ERR AUTH <password> called without any password configured for the default user. Are you "
               "sure your configuration is correct?");
    else
        session_log_in(c, count == 3 ? &a[1] : NULL, &a[count - 1], &(struct greeting){0}, welcome_auth);
}

void command_acl_whoami(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    struct reply r = client_reply_begin(c);
    reply_text(&r, c->session.user);
    client_reply_end(c);
}

/* Write the reply, already in the new protocol. */
static void welcome_hello(struct client *c, const struct greeting *g, struct reply *r)
{
    if (g->named)
        memcpy(c->name, g->name, sizeof(c->name));
    c->protocol = r->protocol = g->protocol;
    reply_map(r, 7);
    reply_pair(r, "server", "redis");
    reply_pair(r, "version", COMMAND_REDIS_VERSION);
    reply_text(r, "proto");
    reply_integer(r, c->protocol);
    reply_text(r, "id");
    reply_integer(r, (int64_t)c->id);
    reply_pair(r, "mode", "standalone");
    reply_pair(r, "role", "master");
    reply_text(r, "modules");
    reply_array(r, 0);
}

/* Read the options behind the version. False: one is invalid, and the error was sent. */
static bool hello_options(struct client *c, const struct argument *a, size_t count, struct greeting *g,
                          const struct argument **user)
{
    for (size_t i = 2; i < count;) {
        if (argument_is(&a[i], "AUTH") && i + 2 < count) {
            *user = &a[i + 1];
            i += 3;
        } else if (argument_is(&a[i], "SETNAME") && i + 1 < count) {
            if (!command_read_name(c, g->name, sizeof(g->name), &a[i + 1]))
                return false;
            g->named = true;
            i += 2;
        } else {
            client_error(c, "ERR Syntax error in HELLO option '%.*s'",
                         (int)(a[i].length < 64 ? a[i].length : 64), a[i].bytes);
            return false;
        }
    }
    return true;
}

void command_hello(struct client *c, const struct argument *a, size_t count)
{
    int64_t version = c->protocol;
    const struct argument *user = NULL; /* the password is the next argument */
    if (count > 1 && !number_i64(a[1].bytes, a[1].length, &version)) {
        client_error(c, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version != 2 && version != 3) {
        client_error(c, "NOPROTO unsupported protocol version");
        return;
    }
    struct greeting g = {.protocol = (int)version};
    if (!hello_options(c, a, count, &g, &user))
        return;
    if (user != NULL) {
        session_log_in(c, user, user + 1, &g, welcome_hello);
        return;
    }
    if (client_needs_login(c)) {
        client_error(
            c,
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> "
            "AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol "
            "version at the same time");
        return;
    }
    struct reply r = client_reply_begin(c);
    welcome_hello(c, &g, &r);
    client_reply_end(c);
}

void command_select(struct client *c, const struct argument *a, size_t count UNUSED)
{
    int64_t index;
    if (!number_i64(a[1].bytes, a[1].length, &index))
        client_error(c, "ERR value is not an integer or out of range");
    else if (index != 0)
        client_error(c, "ERR DB index is out of range");
    else
        command_ok(c);
}

void command_reset(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    client_drop_transaction(c);
    c->protocol = 2;
    c->name[0] = '\0';
    session_reset(c);
    struct reply r = client_reply_begin(c);
    reply_simple(&r, "RESET");
    client_reply_end(c);
}

/* --- transactions: in order on one connection; commands of other clients may run in between --- */

void command_multi(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    if (c->in_transaction) {
        client_error(c, "ERR MULTI calls can not be nested");
        return;
    }
    c->in_transaction = true;
    command_ok(c);
}

void command_discard(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    if (!c->in_transaction) {
        client_error(c, "ERR DISCARD without MULTI");
        return;
    }
    client_drop_transaction(c);
    command_ok(c);
}

/* WATCH promises that EXEC fails if a filter has changed. That cannot be guaranteed here, so WATCH is
 * refused. */
void command_watch(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    client_error(c, c->in_transaction ? "ERR WATCH inside MULTI is not allowed"
                                      : "ERR WATCH is not offered: filters cannot be watched for changes");
}

void command_unwatch(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    command_ok(c);
}

void command_exec(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    if (!c->in_transaction) {
        client_error(c, "ERR EXEC without MULTI");
        return;
    }
    if (c->transaction_failed) {
        client_drop_transaction(c);
        client_error(c, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    struct reply r = client_reply_begin(c);
    reply_array(&r, c->transaction_count);
    client_reply_end(c);
    STAILQ_CONCAT(&c->replay, &c->transaction); /* each command gives one element, in order */
    c->replay_bytes += c->transaction_bytes;
    client_drop_transaction(c);
}
