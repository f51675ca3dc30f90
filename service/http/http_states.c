/* SPDX-License-Identifier: MIT */
#include "service/http/http_states.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "service/protocol/json.h"

static int compare(const void *a, const void *b)
{
    const struct http_state *x = a, *y = b;
    if (x->kind != y->kind || x->length != y->length)
        return x->kind < y->kind || (x->kind == y->kind && x->length < y->length) ? -1 : 1;
    return memcmp(x->name, y->name, x->length);
}

static void forget(struct http_states *s, struct http_state *e)
{
    TAILQ_REMOVE(&s->list, e, link);
    (void)tdelete(e, &s->tree, compare);
    buffer_fini(&e->frame);
    free(e->name);
    free(e);
}

void http_states_init(struct http_states *s)
{
    *s = (struct http_states){0};
    TAILQ_INIT(&s->list);
}

void http_states_clear(struct http_states *s)
{
    while (!TAILQ_EMPTY(&s->list))
        forget(s, TAILQ_FIRST(&s->list));
    s->complete = false;
}

static struct http_state *make(struct http_states *s, const struct watching_record *w)
{
    struct http_state *e = calloc(1, sizeof(*e));
    if (e == NULL || (e->name = buffer_copy(w->name, w->name_length)) == NULL) {
        free(e);
        return NULL;
    }
    e->length = w->name_length;
    e->kind = w->kind;
    TAILQ_INSERT_TAIL(&s->list, e, link);
    if (tsearch(e, &s->tree, compare) != NULL)
        return e;
    forget(s, e);
    return NULL;
}

static void put_frame(struct http_states *s, struct http_state *e, struct buffer *frame)
{
    bool same = e->frame.length == frame->length &&
                (frame->length == 0 || memcmp(e->frame.data, frame->data, frame->length) == 0);
    if (same || buffer_failed(frame)) {
        buffer_fini(frame);
        return;
    }
    buffer_fini(&e->frame);
    e->frame = *frame;
    *frame = (struct buffer){0};
    e->version = ++s->version; /* the state has changed: it moves to the end of the list */
    TAILQ_REMOVE(&s->list, e, link);
    TAILQ_INSERT_TAIL(&s->list, e, link);
}

/* The beginning of the event that tells of a kind. */
static const char *const events[] = {
    [WATCHING_FILTER] = "event: filter\ndata: ",
    [WATCHING_NODES] = "event: nodes\ndata: ",
    [WATCHING_COORDINATORS] = "event: coordinators\ndata: ",
    [WATCHING_COORDINATORS_OF_ALL] = "event: coordinators\ndata: ",
};

static bool contains(const struct buffer *b, const char *text)
{
    return b->length > 0 && memmem(b->data, b->length, text, strlen(text)) != NULL;
}

static void take_record(struct http_states *s, const struct watching_record *w)
{
    const struct http_state key = {.kind = w->kind, .name = (char *)w->name, .length = w->name_length};
    struct http_state **found = tfind(&key, &s->tree, compare), *e = found == NULL ? NULL : *found;
    struct buffer frame = {0};
    bool filter = w->kind == WATCHING_FILTER;
    if (e != NULL)
        e->round = s->round;
    if (w->reply_length == 0 || (e == NULL && (e = make(s, w)) == NULL))
        return;
    e->round = s->round;
    e->gone = false;
    buffer_puts(&frame, events[w->kind]);
    buffer_append(&frame, w->reply, w->reply_length);
    buffer_puts(&frame, "\n\n");
    e->busy = filter && (contains(&frame, "\"job_state\":\"running\"") ||
                         contains(&frame, "\"job_state\":\"waiting\""));
    put_frame(s, e, &frame);
}

/* Mark a filter as gone if this round had no record of it. */
static void drop_absent(struct http_states *s)
{
    struct http_state *e, *next;
    for (e = TAILQ_FIRST(&s->list); e != NULL; e = next) {
        struct buffer frame = {0};
        /* An entry that is gone moves to the end of the list, and is skipped there. */
        next = TAILQ_NEXT(e, link);
        if (e->kind != WATCHING_FILTER || e->gone || e->round == s->round)
            continue;
        buffer_puts(&frame, "event: gone\ndata: {\"filter\":");
        json_put_bytes(&frame, e->name, e->length);
        buffer_puts(&frame, "}\n\n");
        e->gone = true;
        e->busy = false;
        put_frame(s, e, &frame);
    }
}

void http_states_take(struct http_states *s, const struct admin_call *call, bool since_empty)
{
    struct watching_record record;
    size_t at = 0;
    bool whole = call->status == ERR_OK && !buffer_failed(&call->reply);
    s->round++;
    while (watching_next(call, &at, &record))
        take_record(s, &record);
    if (whole)
        drop_absent(s);
    if (whole && since_empty && call->cursor == 0)
        s->complete = true;
}

void http_states_tick(const struct http_states *s, struct buffer *out)
{
    const char *redis = s->error.text[0] == '\0' ? "ok" : s->error.text;
    buffer_printf(out, "event: tick\ndata: {\"sent_at\":%.3f,\"redis\":", (double)clock_wall_us() / 1e6);
    json_put_text(out, redis, strlen(redis));
    buffer_printf(out, ",\"filters\":%s}\n\n", s->complete ? "true" : "false");
}

void http_states_told(struct http_states *s, uint64_t version)
{
    struct http_state *e, *next;
    for (e = TAILQ_FIRST(&s->list); e != NULL; e = next) {
        next = TAILQ_NEXT(e, link);
        if (!e->gone || e->version > version)
            continue;
        forget(s, e);
    }
}

bool http_state_may_be_seen(const struct http_state *e, const struct config_user *u)
{
    if (e->kind == WATCHING_FILTER)
        return user_may_filter(u, e->name, e->length);
    if (e->kind == WATCHING_NODES)
        return user_may_all_filters(u);
    return (e->kind == WATCHING_COORDINATORS) == user_may_all_filters(u);
}

bool http_states_busy(const struct http_states *s)
{
    const struct http_state *e;
    TAILQ_FOREACH(e, &s->list, link)
    if (e->busy)
        return true;
    return false;
}
