/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_PROXY_H
#define TESTS_LIB_PROXY_H
/* A proxy in front of a test's servers, in its own thread. It delays, cuts, resets or swallows messages, and
 * holds a coordinator's job at its n-th request. It knows the user of a connection (AUTH, or the user in
 * Postgres) and its purpose (CLIENT SETNAME, application_name). Any thread. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "tests/lib/wire.h"

enum { PROXY_ROUTES_MAX = 8 };

struct proxy;

MUST_CHECK enum err proxy_start(struct proxy **out, struct error *e);
/* Reset every connection and stop. NULL is fine. */
void proxy_stop(struct proxy *p);

/* Listen on a free loopback port for the server at @target, which need not run yet. *@route identifies it in
 * the calls below. */
MUST_CHECK enum err proxy_add(struct proxy *p, enum wire_protocol protocol, uint16_t target, unsigned *route,
                              uint16_t *port, struct error *e);

/* A fault, and the user whose connections it affects. NULL: all users. */
struct proxy_fault {
    const char *user; /* copied */
    /* Delay of each request; a request arrives even if its sender gave up or died meanwhile. */
    unsigned request_delay_ms;
    unsigned reply_delay_ms;
    bool swallow;    /* nothing passes until the fault is lifted; then it arrives */
    bool refuse;     /* new and existing connections are reset at once */
    unsigned cuts;   /* so many replies are cut in the middle, and their connections reset */
    unsigned resets; /* so many requests are executed, but their connections are reset instead of the reply */
};

/* Set the fault of a route; it replaces the one before. */
void proxy_set(struct proxy *p, unsigned route, const struct proxy_fault *fault);

/* Send new connections to the server at @target, and reset the existing ones, as if the address had moved. */
void proxy_aim(struct proxy *p, unsigned route, uint16_t target);
/* Send new connections to the server at @target. The existing ones stay, as if a name had got another
 * address. */
void proxy_lead(struct proxy *p, unsigned route, uint16_t target);

/* Send new connections of Postgres that name themselves @application to the server at @target, as if an
 * address led to several servers. NULL: none any more. */
void proxy_divert(struct proxy *p, unsigned route, const char *application, uint16_t target);

/* Lift all faults. */
void proxy_lift(struct proxy *p);

/* Reset connections of @user (NULL: of all users), or only those of a job. Returns their number. */
unsigned proxy_reset(struct proxy *p, unsigned route, const char *user, bool jobs_only);

/* --- a job's requests, on all routes together --- */

enum proxy_moment {
    PROXY_BEFORE, /* the request is withheld from the server */
    PROXY_AFTER   /* the server has executed it; the reply is withheld */
};

/* Count the requests of @user's job from zero, and hold the job at the @n-th (from 1; 0: never): its later
 * requests are withheld, too. Connections named twinbloom-job, twinbloom-mutex and "twinbloom job" belong to
 * a job. The command that sets the name does not count. */
void proxy_count(struct proxy *p, const char *user, uint64_t n, enum proxy_moment moment);
/* Connections that name themselves @name from now on also count as a job's. "*": all connections do, whatever
 * their name. */
void proxy_count_as_job(struct proxy *p, const char *name);
/* From now on only requests that contain @text count. "": all do. */
void proxy_count_only(struct proxy *p, const char *text);
uint64_t proxy_counted(struct proxy *p);

/* True once the job is held at the request that proxy_count() set. */
bool proxy_is_held(struct proxy *p);
/* Wait for that. False: it was not within @ms. */
bool proxy_await_held(struct proxy *p, unsigned ms);

/* Release the job and stop counting. @deliver: the withheld requests reach their servers now, even if their
 * sender is dead, and this waits for the replies, a second at most. Otherwise they never do: their
 * connections are reset. */
void proxy_release(struct proxy *p, bool deliver);

/* Stop counting, and reset all connections of @user, who connects again. Requests that are withheld stay so
 * until proxy_release(): as if they had been sent before, and were still on their way. */
void proxy_hang_up(struct proxy *p, const char *user);
#endif
