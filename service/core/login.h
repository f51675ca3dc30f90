/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_LOGIN_H
#define SERVICE_CORE_LOGIN_H
/* Verifies passwords in a thread of its own: computing a hash takes tens of milliseconds on purpose, and must
 * not hold up anything else. A password that was verified is remembered, as a keyed hash, until the
 * configuration changes, so that a client that reconnects is let in at once. Addresses take turns, and
 * repeated failures delay the next try more each time (service/core/login_delay.h), so guessing is slow and
 * holds up nobody else. Any thread. */
#include <stdatomic.h>
#include <stddef.h>
#include "base/error.h"
#include "base/mailbox.h"
#include "service/config/config.h"

struct login;

enum login_outcome {
    LOGIN_WELCOME,
    LOGIN_REFUSED,
    LOGIN_BUSY,   /* too many logins from this address with this name already wait, or the process ends */
    LOGIN_PENDING /* the outcome is sent to the mailbox */
};

typedef void login_fn(void *arg, enum login_outcome outcome);

/* Where the outcome goes: @fn(@arg, outcome) is called in the thread that owns the mailbox. */
struct login_back {
    struct mailbox *mailbox;
    login_fn *fn;
    void *arg;
    /* Set by the caller once its client has disconnected: no hash is computed for it any more, and the
     * outcome is LOGIN_BUSY. Must live until @fn is called. */
    const atomic_bool *gone;
};

MUST_CHECK enum err login_start(struct login **out, struct error *e);
/* Logins that still wait get LOGIN_BUSY. The mailboxes must outlive this call. NULL is fine. */
void login_stop(struct login *l);

/* Verify the password of a user in the configuration *@held, which the thread of @back holds. A password that
 * is no longer valid there when the outcome comes is refused. @address is the client's, without a port. Any
 * outcome but LOGIN_PENDING is returned at once, and @back.fn is not called. Only @held is used after the
 * call. An unknown name takes as long to refuse as a wrong password. */
enum login_outcome login_ask(struct login *l, const struct config *const *held, const char *address,
                             const char *name, size_t name_length, const char *password,
                             size_t password_length, const struct login_back *back);

/* Forget the passwords that were verified. */
void login_forget(struct login *l);
#endif
