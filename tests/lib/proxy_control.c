/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy_internal.h"

enum { LATE_MS = 1000 };

/* --- faults --- */

static unsigned reset_locked(struct proxy *p, const struct route *r, const char *user, bool jobs_only)
{
    unsigned count = 0;
    for (struct connection *c = p->connections; c < p->connections + CONNECTIONS_MAX; c++)
        if (c->route == r && (user == NULL || strcmp(user, c->user) == 0) && (c->job || !jobs_only)) {
            proxy_forget(c, true);
            count++;
        }
    return count;
}

void proxy_set(struct proxy *p, unsigned route, const struct proxy_fault *fault)
{
    (void)pthread_mutex_lock(&p->lock);
    struct route *r = &p->routes[route];
    r->fault = *fault;
    if (fault->user != NULL) {
        (void)snprintf(r->user, sizeof(r->user), "%s", fault->user);
        r->fault.user = r->user;
    }
    if (fault->refuse)
        (void)reset_locked(p, r, r->fault.user, false);
    (void)pthread_mutex_unlock(&p->lock);
    proxy_wake(p);
}

void proxy_lead(struct proxy *p, unsigned route, uint16_t target)
{
    (void)pthread_mutex_lock(&p->lock);
    p->routes[route].target = target;
    (void)pthread_mutex_unlock(&p->lock);
}

void proxy_aim(struct proxy *p, unsigned route, uint16_t target)
{
    (void)pthread_mutex_lock(&p->lock);
    p->routes[route].target = target;
    (void)reset_locked(p, &p->routes[route], NULL, false);
    (void)pthread_mutex_unlock(&p->lock);
    proxy_wake(p);
}

void proxy_divert(struct proxy *p, unsigned route, const char *application, uint16_t target)
{
    (void)pthread_mutex_lock(&p->lock);
    struct route *r = &p->routes[route];
    (void)snprintf(r->diverted, sizeof(r->diverted), "%s", application == NULL ? "" : application);
    r->diversion = target;
    (void)pthread_mutex_unlock(&p->lock);
}

void proxy_lift(struct proxy *p)
{
    for (unsigned i = 0; i < p->route_count; i++)
        proxy_set(p, i, &(struct proxy_fault){0});
}

unsigned proxy_reset(struct proxy *p, unsigned route, const char *user, bool jobs_only)
{
    (void)pthread_mutex_lock(&p->lock);
    unsigned count = reset_locked(p, &p->routes[route], user, jobs_only);
    (void)pthread_mutex_unlock(&p->lock);
    proxy_wake(p);
    return count;
}

/* --- counting --- */

void proxy_count_as_job(struct proxy *p, const char *name)
{
    (void)pthread_mutex_lock(&p->lock);
    (void)snprintf(p->job_name, sizeof(p->job_name), "%s", name);
    (void)pthread_mutex_unlock(&p->lock);
}

void proxy_count_only(struct proxy *p, const char *text)
{
    (void)pthread_mutex_lock(&p->lock);
    (void)snprintf(p->job_text, sizeof(p->job_text), "%s", text);
    (void)pthread_mutex_unlock(&p->lock);
}

void proxy_count(struct proxy *p, const char *user, uint64_t n, enum proxy_moment moment)
{
    (void)pthread_mutex_lock(&p->lock);
    (void)snprintf(p->job_user, sizeof(p->job_user), "%s", user);
    p->counting = true;
    p->holding = p->is_held = false;
    p->counted = 0;
    p->hold_at = n;
    p->moment = moment;
    (void)pthread_mutex_unlock(&p->lock);
}

uint64_t proxy_counted(struct proxy *p)
{
    (void)pthread_mutex_lock(&p->lock);
    uint64_t n = p->counted;
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

bool proxy_is_held(struct proxy *p)
{
    (void)pthread_mutex_lock(&p->lock);
    bool held = p->is_held;
    (void)pthread_mutex_unlock(&p->lock);
    return held;
}

bool proxy_await_held(struct proxy *p, unsigned ms)
{
    uint64_t until = clock_mono_us() + ms * UINT64_C(1000);
    while (!proxy_is_held(p) && clock_mono_us() < until)
        clock_sleep_us(1000);
    return proxy_is_held(p);
}

static bool is_any_late(struct proxy *p)
{
    bool any = false;
    (void)pthread_mutex_lock(&p->lock);
    for (const struct connection *c = p->connections; c < p->connections + CONNECTIONS_MAX; c++)
        any = any || (c->route != NULL && !c->opaque && c->answered < c->late);
    (void)pthread_mutex_unlock(&p->lock);
    return any;
}

void proxy_release(struct proxy *p, bool deliver)
{
    (void)pthread_mutex_lock(&p->lock);
    p->counting = p->holding = p->is_held = false;
    for (struct connection *c = p->connections; c < p->connections + CONNECTIONS_MAX; c++) {
        if (c->route == NULL || !c->held)
            continue;
        c->held = c->silenced = false;
        c->awaited = 0;
        if (deliver) {
            proxy_take_requests(p, c);
            c->late = c->asked;
        } else {
            proxy_forget(c, true);
        }
    }
    (void)pthread_mutex_unlock(&p->lock);
    proxy_wake(p);
    for (unsigned ms = 0; ms < LATE_MS && is_any_late(p); ms++)
        clock_sleep_us(1000);
}

void proxy_hang_up(struct proxy *p, const char *user)
{
    (void)pthread_mutex_lock(&p->lock);
    p->counting = p->holding = p->is_held = false;
    for (struct connection *c = p->connections; c < p->connections + CONNECTIONS_MAX; c++) {
        if (c->route == NULL || strcmp(user, c->user) != 0)
            continue;
        if (c->held)
            proxy_close_client(c);
        else
            proxy_forget(c, true);
    }
    (void)pthread_mutex_unlock(&p->lock);
    proxy_wake(p);
}
