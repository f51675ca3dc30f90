/* SPDX-License-Identifier: MIT */
/* The happy path is: read the names of all filters, and each one's status as TB.STATUS does. Possible failure
 * modes are: Redis is away (no names, and statuses only of configured filters), or is so slow that the time
 * runs out (the remaining filters come next time). */
#include "service/admin/admin_watching.h"

#include "base/clock.h"
#include "shard/redis/ahead.h"

/* --- a round --- */

struct round {
    struct admin *a;
    struct statuses *of;
    admin_look_fn *look;
    uint64_t deadline_us;
    size_t asked;
    bool answered;
};

static void ask_for(void *arg, size_t n, unsigned user)
{
    const struct round *r = arg;
    const struct status *one = statuses_next(r->of, n);
    admin_status_ask_ahead(r->a, user, one->name, one->length);
}

static bool look_at(void *arg, size_t n)
{
    struct round *r = arg;
    struct status *one = statuses_next(r->of, n);
    if (n > 0 && (clock_mono_us() >= r->deadline_us || atomic_load(&r->a->service->stop)))
        return false;
    one->is = r->look(r->a, one);
    r->answered |= one->is != STATUS_UNREACHABLE;
    r->asked++;
    return true;
}

enum err admin_look_at_all(struct admin *a, struct statuses *s, admin_look_fn *look, size_t most,
                           uint64_t deadline_us, struct error *e)
{
    struct round r = {.a = a, .of = s, .look = look, .deadline_us = deadline_us};
    SCOPED(admin_names_free) struct filter_names all;
    enum err code = admin_names(a, &all, e);
    for (size_t i = 0; i < all.count && i < most; i++)
        if (statuses_add(s, STATUS_OF_FILTER, all.name[i].at, all.name[i].length) == NULL)
            code = error_set(e, ERR_NOMEM, "out of memory");
    s->omitted = all.count - s->count;
    ahead_each(a->redis, s->count, ask_for, look_at, &r);
    statuses_end(s, r.asked, r.answered);
    return code;
}

/* --- for watchers --- */

/* An error leaves it unknown. */
static enum status_is status_of(const struct status *one, enum err code)
{
    return code == ERR_OK && !buffer_failed(&one->reply) ? STATUS_SAID : STATUS_UNKNOWN;
}

static enum status_is look(struct admin *a, struct status *one)
{
    struct error ignored;
    struct reply r = {.out = &one->reply, .protocol = REPLY_JSON};
    enum err code = admin_status_one(a, &r, one->name, one->length, &ignored);
    return code == ERR_OK ? status_of(one, code) : STATUS_GONE;
}

static void take_list(struct admin *a, struct statuses *s, enum status_of of, admin_fn *fn)
{
    char nothing[] = "";
    struct admin_call call = {.visible = of == STATUS_OF_ALL_COORDINATORS ? nothing : NULL};
    struct status *one = statuses_add(s, of, "", 0);
    struct error ignored;
    if (one == NULL)
        return;
    struct reply r = {.out = &one->reply, .protocol = REPLY_JSON};
    one->is = status_of(one, fn(a, &call, &r, &ignored));
}

enum err admin_watching(struct admin *a, struct admin_call *call, struct reply *r UNUSED, struct error *e)
{
    struct statuses *s = call->subject;
    uint64_t deadline_us = clock_mono_us() + (uint64_t)WATCHING_BUDGET_MS * 1000;
    enum err code = admin_look_at_all(a, s, look, SIZE_MAX, deadline_us, e);
    take_list(a, s, STATUS_OF_NODES, admin_nodes);
    if (code == ERR_OK)
        take_list(a, s, STATUS_OF_COORDINATORS, admin_coordinators);
    if (code == ERR_OK && (call->flags & WATCHING_RESTRICTED) != 0)
        take_list(a, s, STATUS_OF_ALL_COORDINATORS, admin_coordinators);
    return code;
}
