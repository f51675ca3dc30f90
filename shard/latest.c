/* SPDX-License-Identifier: MIT */
#include "shard/latest.h"

#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/number.h"
#include "shard/script.h"

/* --- decisions --- */

struct view_stamp view_stamp_of(const struct view *v)
{
    return (struct view_stamp){.incarnation = v->incarnation, .epoch = v->epoch, .trusted_ms = v->trusted_ms};
}

static bool was_trusted_before(const struct view_stamp *one, const struct view_stamp *other)
{
    return one->trusted_ms != 0 && one->trusted_ms < other->trusted_ms;
}

bool view_stamp_is_older(const struct view_stamp *one, const struct view_stamp *latest)
{
    if (latest->incarnation == 0)
        return false;
    bool same = one->incarnation == latest->incarnation;
    return (same && one->epoch < latest->epoch) || was_trusted_before(one, latest);
}

bool view_stamp_is_replaced(const struct view_stamp *one, const struct view_stamp *latest)
{
    return one->incarnation != latest->incarnation && view_stamp_is_older(one, latest);
}

void view_stamp_learn(struct view_stamp *latest, const struct view_stamp *seen)
{
    if (view_stamp_is_replaced(seen, latest))
        return;
    if (seen->incarnation != latest->incarnation) {
        *latest = *seen;
        return;
    }
    if (seen->epoch > latest->epoch)
        latest->epoch = seen->epoch;
    if (seen->trusted_ms > latest->trusted_ms)
        latest->trusted_ms = seen->trusted_ms;
}

bool view_stamp_parse(struct view_stamp *out, const char *text, size_t length)
{
    const char *first = memchr(text, ':', length);
    const char *second = first == NULL ? NULL : memchr(first + 1, ':', length - (size_t)(first + 1 - text));
    return second != NULL && number_hex64(text, (size_t)(first - text), &out->incarnation) &&
           out->incarnation != 0 && number_u64(first + 1, (size_t)(second - first - 1), &out->epoch) &&
           number_u64(second + 1, length - (size_t)(second + 1 - text), &out->trusted_ms);
}

/* --- the masters --- */

static void latest_key(const char *prefix, struct key_name *out)
{
    out->length = (size_t)snprintf(out->text, sizeof(out->text), "%s:latest", prefix);
}

static bool learn(const redisReply *text, struct view_stamp *latest)
{
    struct view_stamp noted;
    if (text->type != REDIS_REPLY_STRING || !view_stamp_parse(&noted, text->str, (size_t)text->len))
        return false;
    view_stamp_learn(latest, &noted);
    return true;
}

static enum err note_on(struct fence *f, unsigned where, const struct view *v, struct view_stamp *latest,
                        struct error *e)
{
    struct key_name name;
    redisReply *reply;
    latest_key(f->names.prefix, &name);
    script_begin(&f->call, embedded_latest);
    script_key(&f->call, &name);
    script_bytes(&f->call, f->names.filter, f->names.filter_length);
    script_incarnation(&f->call, v->incarnation);
    script_number(&f->call, v->epoch);
    script_number(&f->call, v->trusted_ms);
    enum err code = script_send(&f->call, f->link, where, e);
    if (code == ERR_OK)
        code = link_reply(f->link, where, &reply, e);
    if (code != ERR_OK)
        return code;
    if (!learn(reply, latest))
        code = reply->type == REDIS_REPLY_ERROR ? link_refusal(f->link, where, reply, e)
                                                : error_set(e, ERR_REFUSED, "unexpected reply to a script");
    freeReplyObject(reply);
    return code;
}

/* There is one list of masters, and it has not changed since the link was made. */
static unsigned masters(struct link *l)
{
    return link_nodes(l)->cluster != NULL ? 0 : link_nodes(l)->count;
}

void latest_note(struct fence *f, const struct view *v, const bool *answers, struct view_stamp *latest)
{
    struct error e = {""};
    for (unsigned i = 0; i < masters(f->link); i++) {
        enum err code = answers[i] ? note_on(f, i, v, latest, &e) : ERR_OK;
        if (code != ERR_OK)
            log_warn("epoch_not_recorded", "filter=%s node=%s code=%s error=%s", log_quote(f->names.filter),
                     log_quote(link_name(f->link, i)), error_name(code), log_quote(e.text));
    }
}

void latest_forget(struct fence *f)
{
    struct key_name name;
    redisReply *reply;
    struct error ignored;
    latest_key(f->names.prefix, &name);
    for (unsigned i = 0; i < masters(f->link); i++)
        if (link_command(f->link, i, &reply, &ignored, "HDEL %b %b", name.text, name.length, f->names.filter,
                         f->names.filter_length) == ERR_OK)
            freeReplyObject(reply);
}

void latest_read(struct link *l, const char *prefix, latest_fn *fn, void *arg)
{
    struct key_name name;
    latest_key(prefix, &name);
    for (unsigned i = 0; i < masters(l); i++) {
        redisReply *reply;
        struct error ignored;
        if (link_command(l, i, &reply, &ignored, "HGETALL %b", name.text, name.length) != ERR_OK)
            continue;
        for (size_t j = 0; j + 1 < reply->elements; j += 2) {
            const redisReply *filter = reply->element[j], *text = reply->element[j + 1];
            struct view_stamp stamp;
            if (view_stamp_parse(&stamp, text->str, (size_t)text->len))
                fn(arg, filter->str, (size_t)filter->len, &stamp);
        }
        freeReplyObject(reply);
    }
}
