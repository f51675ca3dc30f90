/* SPDX-License-Identifier: MIT */
#include "service/admin/statuses.h"

#include <stdlib.h>
#include <string.h>
#include "base/span.h"

static void status_fini(struct status *one)
{
    free(one->name);
    buffer_fini(&one->reply);
}

void statuses_fini(struct statuses *s)
{
    for (size_t i = 0; i < s->count; i++)
        status_fini(&s->of[i]);
    free(s->of);
    *s = (struct statuses){.cursor = s->cursor};
}

/* Move @one to the end. NULL: no memory, and it is freed. */
static struct status *add(struct statuses *s, struct status one)
{
    if (s->count == s->room) {
        size_t room = s->room * 2 + 16;
        struct status *more = realloc(s->of, room * sizeof(*more));
        if (more == NULL) {
            status_fini(&one);
            return NULL;
        }
        s->of = more;
        s->room = room;
    }
    s->of[s->count] = one;
    return &s->of[s->count++];
}

struct status *statuses_add(struct statuses *s, enum status_of of, const char *name, size_t length)
{
    char *copy = buffer_copy(name, length);
    return copy == NULL ? NULL : add(s, (struct status){.of = of, .name = copy, .length = length});
}

struct status *statuses_next(const struct statuses *s, size_t n)
{
    return &s->of[(s->cursor + n) % s->count];
}

void statuses_end(struct statuses *s, size_t asked, bool answered)
{
    for (size_t n = asked; n < s->count && !answered; n++)
        statuses_next(s, n)->is = STATUS_UNREACHABLE;
    s->cursor = s->count == 0 ? 0 : (s->cursor + asked) % s->count;
}

/* --- from round to round --- */

static int by_name(const void *a, const void *b)
{
    const struct status *l = a, *r = b;
    if (l->of != r->of)
        return l->of < r->of ? -1 : 1;
    return span_order(&(struct span){l->name, l->length}, &(struct span){r->name, r->length});
}

int statuses_by_version(const void *a, const void *b)
{
    const struct status *l = a, *r = b;
    return (l->version > r->version) - (l->version < r->version);
}

static bool is_same(const struct status *a, const struct status *b)
{
    return a->is == b->is && a->reply.length == b->reply.length &&
           (a->reply.length == 0 || memcmp(a->reply.data, b->reply.data, a->reply.length) == 0);
}

void statuses_take(struct statuses *s, struct statuses *now, enum statuses_unnamed unnamed)
{
    const size_t named = now->count;
    now->version = s->version;
    if (named > 0)
        qsort(now->of, named, sizeof(*now->of), by_name);
    for (size_t i = 0; i < s->count; i++) {
        struct status was = s->of[i];
        struct status *one = named == 0 ? NULL : bsearch(&was, now->of, named, sizeof(was), by_name);
        if (one != NULL && one->is == STATUS_UNKNOWN) {
            s->of[i] = *one;
            *one = was;
        } else if (one != NULL && is_same(one, &was)) {
            one->version = was.version;
        } else if (one != NULL && (one->is != STATUS_GONE || was.version != 0)) {
            one->version = ++now->version;
        } else if (one == NULL && was.version != 0 && unnamed != UNNAMED_DROP) {
            s->of[i] = (struct status){.is = STATUS_UNKNOWN};
            if (unnamed == UNNAMED_GONE && was.of == STATUS_OF_FILTER && was.is != STATUS_GONE) {
                buffer_fini(&was.reply);
                was.is = STATUS_GONE;
                was.version = ++now->version;
            }
            (void)add(now, was);
        }
    }
    for (size_t i = 0; i < named; i++)
        if (now->of[i].version == 0 && now->of[i].is == STATUS_SAID)
            now->of[i].version = ++now->version;
    statuses_fini(s);
    *s = *now;
    *now = (struct statuses){.cursor = s->cursor};
}

void statuses_forget_gone(struct statuses *s, uint64_t version)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->of[i].is == STATUS_GONE && s->of[i].version <= version)
            status_fini(&s->of[i]);
        else
            s->of[kept++] = s->of[i];
    s->count = kept;
}
