/* SPDX-License-Identifier: MIT */
/* Connection commands: what clients send when they connect, and transactions. */
#include <string.h>
#include "base/number.h"
#include "service/command.h"
#include "service/worker.h"

void command_ping(struct client *c, const struct argument *a, size_t count)
{
    if (count > 2) {
        client_error(c, "ERR wrong number of arguments for 'ping' command");
        return;
    }
    struct reply r = client_reply_begin(c);
    if (count == 2)
        reply_bulk(&r, a[1].bytes, a[1].length);
    else
        reply_simple(&r, "PONG");
    client_reply_end(c);
}

void command_echo(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    struct reply r = client_reply_begin(c);
    reply_bulk(&r, a[1].bytes, a[1].length);
    client_reply_end(c);
}

static void reply_ok(struct client *c)
{
    struct reply r = client_reply_begin(c);
    reply_simple(&r, "OK");
    client_reply_end(c);
}

void command_quit(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    reply_ok(c);
    client_close_after_reply(c);
}

/* Compare in a time that does not depend on where they differ. */
static bool same_secret(const char *want, const struct argument *got)
{
    size_t length = strlen(want);
    unsigned differ = length != got->length;
    for (size_t i = 0; i < got->length; i++)
        differ |= (unsigned char)(got->bytes[i] ^ want[length == 0 ? 0 : i % length]);
    return differ == 0;
}

static bool log_in(struct client *c, const struct argument *user, const struct argument *password)
{
    /* The one in force, not this worker's: nobody gets in with the old password once CONFIG SET has answered.
     */
    const struct config *config = live_config_acquire(c->worker->service->config);
    bool known = user == NULL || argument_is(user, "default");
    /* Without a password the default user may log in with any, as in Redis. */
    bool welcome = known && (config->password[0] == '\0' || same_secret(config->password, password));
    config_release(config);
    if (!welcome) {
        client_error(c, "WRONGPASS invalid username-password pair or user is disabled.");
        return false;
    }
    c->authenticated = true;
    return true;
}

static bool has_password(struct client *c)
{
    const struct config *config = live_config_acquire(c->worker->service->config);
    bool has = config->password[0] != '\0';
    config_release(config);
    return has;
}

void command_auth(struct client *c, const struct argument *a, size_t count)
{
    if (count > 3)
        client_error(c, "ERR syntax error");
    else if (count == 2 && !has_password(c))
        client_error(
            c, "ERR AUTH <password> called without any password configured for the default user. Are you "
               "sure your configuration is correct?");
    else if (log_in(c, count == 3 ? &a[1] : NULL, &a[count - 1]))
        reply_ok(c);
}

static void hello_reply(struct client *c)
{
    struct reply r = client_reply_begin(c);
    reply_map(&r, 7);
    reply_text(&r, "server");
    reply_text(&r, "redis");
    reply_text(&r, "version");
    reply_text(&r, COMMAND_REDIS_VERSION);
    reply_text(&r, "proto");
    reply_integer(&r, c->protocol);
    reply_text(&r, "id");
    reply_integer(&r, (int64_t)c->id);
    reply_text(&r, "mode");
    reply_text(&r, "standalone");
    reply_text(&r, "role");
    reply_text(&r, "master");
    reply_text(&r, "modules");
    reply_array(&r, 0);
    client_reply_end(c);
}

void command_hello(struct client *c, const struct argument *a, size_t count)
{
    int64_t version = c->protocol;
    size_t i = 1;
    if (count > 1) {
        if (!number_i64(a[1].bytes, a[1].length, &version)) {
            client_error(c, "ERR Protocol version is not an integer or out of range");
            return;
        }
        if (version != 2 && version != 3) {
            client_error(c, "NOPROTO unsupported protocol version");
            return;
        }
        i = 2;
    }
    const struct argument *name = NULL;
    while (i < count) {
        if (argument_is(&a[i], "AUTH") && i + 2 < count) {
            if (!log_in(c, &a[i + 1], &a[i + 2]))
                return;
            i += 3;
        } else if (argument_is(&a[i], "SETNAME") && i + 1 < count) {
            name = &a[i + 1];
            i += 2;
        } else {
            client_error(c, "ERR Syntax error in HELLO option '%.*s'",
                         (int)(a[i].length < 64 ? a[i].length : 64), a[i].bytes);
            return;
        }
    }
    if (client_needs_login(c)) {
        client_error(
            c,
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> "
            "AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol "
            "version at the same time");
        return;
    }
    if (name != NULL && !command_set_name(c, name))
        return;
    c->protocol = (int)version;
    hello_reply(c);
}

void command_select(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    int64_t index;
    if (!number_i64(a[1].bytes, a[1].length, &index))
        client_error(c, "ERR value is not an integer or out of range");
    else if (index != 0)
        client_error(c, "ERR DB index is out of range");
    else
        reply_ok(c);
}

static void drop_transaction(struct client *c)
{
    client_clear_commands(&c->transaction);
    c->transaction_count = 0;
    c->in_transaction = c->transaction_failed = false;
}

void command_reset(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    drop_transaction(c);
    c->protocol = 2;
    c->name[0] = '\0';
    c->authenticated = false;
    struct reply r = client_reply_begin(c);
    reply_simple(&r, "RESET");
    client_reply_end(c);
}

/* --- transactions: in order on this connection; other clients' commands may come between --- */

void command_multi(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    if (c->in_transaction) {
        client_error(c, "ERR MULTI calls can not be nested");
        return;
    }
    c->in_transaction = true;
    reply_ok(c);
}

void command_discard(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    if (!c->in_transaction) {
        client_error(c, "ERR DISCARD without MULTI");
        return;
    }
    drop_transaction(c);
    reply_ok(c);
}

/* A promise that EXEC fails when a filter changed could not be kept; OK would make it. */
void command_watch(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    client_error(c, c->in_transaction ? "ERR WATCH inside MULTI is not allowed"
                                      : "ERR WATCH is not offered: filters cannot be watched for changes");
}

void command_unwatch(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    reply_ok(c);
}

void command_exec(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    if (!c->in_transaction) {
        client_error(c, "ERR EXEC without MULTI");
        return;
    }
    if (c->transaction_failed) {
        drop_transaction(c);
        client_error(c, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    struct reply r = client_reply_begin(c);
    reply_array(&r, c->transaction_count);
    client_reply_end(c);
    STAILQ_CONCAT(&c->replay, &c->transaction); /* each gives one element, in order */
    drop_transaction(c);
}
