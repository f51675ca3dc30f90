/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_PROXY_H
#define TESTS_LIB_PROXY_H
/* A proxy in front of the servers of a test, in a thread of its own: it delays, cuts, resets or swallows what
 * goes through, and stops a coordinator's job at its n-th request. It knows a connection's user (AUTH, or
 * Postgres' user) and what it is for (CLIENT SETNAME, application_name). All functions may be called from any
 * thread. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "tests/lib/wire.h"

enum { PROXY_ROUTES_MAX = 8 };

struct proxy;

MUST_CHECK enum err proxy_start(struct proxy **out, struct error *e);
/* Resets every connection. NULL is fine. */
void proxy_stop(struct proxy *p);

/* Listen on a free loopback port for the server at @target, which need not run yet. *@route names it in the
 * calls below. */
MUST_CHECK enum err proxy_add(struct proxy *p, enum wire_protocol protocol, uint16_t target, unsigned *route,
                              uint16_t *port, struct error *e);

/* Whom a fault hits. NULL: everybody. */
struct proxy_fault {
    const char *user;          /* copied */
    unsigned request_delay_ms; /* a request arrives that much later, even if its sender gave up or died */
    unsigned reply_delay_ms;
    bool swallow;    /* nothing goes through until it is lifted; it arrives then */
    bool refuse;     /* connections are reset at once, those that are there too */
    unsigned cuts;   /* so many replies are cut in the middle, and their connections reset */
    unsigned resets; /* so many requests are executed, and the connection reset instead of the reply */
};

/* From now on, instead of what was set before. */
void proxy_set(struct proxy *p, unsigned route, const struct proxy_fault *fault);

/* New connections go to the server at @target, and all that are there are reset: the address has moved. */
void proxy_aim(struct proxy *p, unsigned route, uint16_t target);

/* Everything goes through again. */
void proxy_lift(struct proxy *p);

/* Reset connections of @user (NULL: of everybody), all of them or a job's only; returns how many. */
unsigned proxy_reset(struct proxy *p, unsigned route, const char *user, bool jobs_only);

/* --- a job's requests, on all routes together --- */

enum proxy_moment {
    PROXY_BEFORE, /* the request is withheld from the server */
    PROXY_AFTER   /* the server has executed it; the reply is withheld */
};

/* Count the requests of @user's job from zero. At the @n-th (from 1; 0: never) the job is held: its later
 * requests are withheld, too. Connections named twinbloom-job, twinbloom-mutex and "twinbloom job" are a
 * job's; naming itself does not count. */
void proxy_count(struct proxy *p, const char *user, uint64_t n, enum proxy_moment moment);
/* Connections that call themselves @name from now on are a job's, too; "*": all are, whatever they call
 * themselves. */
void proxy_count_as_job(struct proxy *p, const char *name);
uint64_t proxy_counted(struct proxy *p);

/* True once the job is held as asked for. */
bool proxy_is_held(struct proxy *p);

/* Let go, and count no more. The requests withheld reach their servers now, even where their sender is dead
 * (@deliver), or never: their connections are reset. */
void proxy_release(struct proxy *p, bool deliver);
#endif
