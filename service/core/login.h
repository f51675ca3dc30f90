/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_LOGIN_H
#define SERVICE_CORE_LOGIN_H
/* Passwords are verified in a thread of its own: a hash takes tens of milliseconds on purpose, and nobody
 * else shall wait for it. What was verified is remembered, as a keyed hash, until the configuration changes,
 * so that who connects again gets in at once. Addresses take turns, and who fails repeatedly waits longer
 * each time (service/login_delay), so that guesses are slow and hold up nobody else. Safe from any thread. */
#include <stddef.h>
#include "base/error.h"
#include "base/mailbox.h"
#include "service/config/config.h"

struct login;

enum login_outcome {
    LOGIN_WELCOME,
    LOGIN_REFUSED,
    LOGIN_BUSY,   /* too many from this address with this name wait already, or the process ends */
    LOGIN_PENDING /* the outcome comes by the mailbox */
};

/* In the thread of the mailbox's owner. */
typedef void login_fn(void *arg, enum login_outcome outcome);

MUST_CHECK enum err login_start(struct login **out, struct error *e);
/* Who still waits is told LOGIN_BUSY. The mailboxes must live on. Fine with NULL. */
void login_stop(struct login *l);

/* Is this the password of the user in @c? Asked by @address, without a port. Any other outcome than
 * LOGIN_PENDING is there at once, and @fn is not called. Nothing that is passed is needed after the call.
 * That a name is unknown takes as long to tell as that a password is wrong. */
enum login_outcome login_ask(struct login *l, const struct config *c, const char *address, const char *name,
                             size_t name_length, const char *password, size_t password_length,
                             struct mailbox *back, login_fn *fn, void *arg);

/* Forget what was verified. */
void login_forget(struct login *l);
#endif
