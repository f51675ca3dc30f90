/* SPDX-License-Identifier: MIT */
#include "service/metrics/statuses.h"

#include <stdlib.h>
#include <string.h>
#include "base/span.h"

void statuses_fini(struct statuses *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->of[i].name);
        buffer_fini(&s->of[i].reply);
    }
    free(s->of);
    *s = (struct statuses){0};
}

bool statuses_add(struct statuses *s, const char *name, size_t length)
{
    if (s->count == s->room) {
        size_t room = s->room * 2 + 16;
        struct status *more = realloc(s->of, room * sizeof(*more));
        if (more == NULL)
            return false;
        s->of = more;
        s->room = room;
    }
    char *copy = buffer_copy(name, length);
    if (copy == NULL)
        return false;
    s->of[s->count++] = (struct status){.name = copy, .length = length};
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct status *l = a, *r = b;
    return span_order(&(struct span){l->name, l->length}, &(struct span){r->name, r->length});
}

/* Move the previous status. */
static void keep(struct status *to, struct statuses *before)
{
    struct status *was =
        before->count == 0 ? NULL : bsearch(to, before->of, before->count, sizeof(*before->of), by_name);
    if (was == NULL)
        return;
    to->is = was->is;
    to->reply = was->reply;
    was->is = STATUS_UNKNOWN;
    was->reply = (struct buffer){0};
}

struct status *statuses_next(struct statuses *s, const struct statuses *before, size_t n)
{
    return &s->of[(before->cursor + n) % s->count];
}

void statuses_end(struct statuses *s, struct statuses *before, size_t asked, bool answered)
{
    if (before->count > 0)
        qsort(before->of, before->count, sizeof(*before->of), by_name);
    for (size_t n = asked; n < s->count; n++) {
        struct status *one = statuses_next(s, before, n);
        if (answered)
            keep(one, before);
        else
            one->is = STATUS_UNREACHABLE;
    }
    s->cursor = s->count == 0 ? 0 : (before->cursor + asked) % s->count;
    statuses_fini(before);
}
