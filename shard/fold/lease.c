/* SPDX-License-Identifier: MIT */
#include "shard/fold/lease.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"
#include "shard/redis/ahead.h"

extern const char embedded_lease_return[], embedded_lease_take[];

enum { RENEWALS = 3 /* before it expires */, PAST_END_US = 2000 /* Redis counts in whole milliseconds */ };

void lease_name(char out[LEASE_OWNER_MAX], const char *owner, const uint8_t writer[LOG_WRITER_BYTES])
{
    int length = snprintf(out, LEASE_OWNER_MAX, "%.80s/", owner);
    for (unsigned i = 0; i < LOG_WRITER_BYTES; i++)
        length += snprintf(out + length, LEASE_OWNER_MAX - (size_t)length, "%02x", writer[i]);
}

bool lease_is_of(const char *holder, const uint8_t writer[LOG_WRITER_BYTES])
{
    char name[LEASE_OWNER_MAX];
    const char *slash = strrchr(holder, '/');
    lease_name(name, "", writer);
    return slash != NULL && strcmp(slash, name) == 0;
}

void lease_init(struct lease *l, struct sync_client *redis, const struct names *names, const char *owner,
                unsigned ttl_ms)
{
    *l = (struct lease){.redis = redis, .names = names, .ttl_ms = ttl_ms};
    (void)snprintf(l->owner, sizeof(l->owner), "%s", owner);
}

void lease_fini(struct lease *l)
{
    script_fini(&l->call);
}

bool lease_is_held(const struct lease *l)
{
    return clock_mono_us() < l->until;
}

/* --- taking --- */

static void begin(struct lease *l, const char *script)
{
    script_begin(&l->call, script);
    script_filter_key(&l->call, l->names, "folder");
    script_text(&l->call, l->owner);
}

/* The error for an error reply. */
static enum err refused(struct sync_client *l, const struct names *names, const redisReply *r,
                        struct error *e)
{
    struct key_name key;
    names_filter_key(names, "folder", &key);
    if (strncmp(r->str, "WRONGTYPE", strlen("WRONGTYPE")) == 0)
        return error_set(e, ERR_WRONG_TYPE, "%s is not a hash: delete or rename the foreign key", key.text);
    return error_prefix(e, sync_client_refusal(l, sync_client_home(l, names), r, e), "%s", key.text);
}

static enum err take_reply(struct lease *l, const redisReply *r, uint64_t sent, struct error *e)
{
    uint64_t ttl_us = (uint64_t)l->ttl_ms * 1000;
    if (r->type == REDIS_REPLY_ERROR)
        return refused(l->redis, l->names, r, e);
    if (r->type == REDIS_REPLY_INTEGER && r->integer == 1) {
        l->until = sent + ttl_us;
        l->again = sent + ttl_us / RENEWALS;
        (void)snprintf(l->holder, sizeof(l->holder), "%s", l->owner);
        return ERR_OK;
    }
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 || r->element[0]->type != REDIS_REPLY_STRING ||
        r->element[1]->type != REDIS_REPLY_INTEGER)
        return error_set(e, ERR_REFUSED, "the folder's lease: unexpected reply to a script");
    l->until = 0;
    l->again = clock_mono_us() + (uint64_t)r->element[1]->integer * 1000 + PAST_END_US;
    (void)snprintf(l->holder, sizeof(l->holder), "%s", r->element[0]->str);
    return error_set(e, ERR_BUSY, "%s folds the filter, for at most %lld ms more", l->holder,
                     r->element[1]->integer);
}

enum err lease_take(struct lease *l, const struct lease_report *report, struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    uint64_t sent = clock_mono_us();
    unsigned home = sync_client_home(l->redis, l->names);
    l->again = sent + (uint64_t)l->ttl_ms * 1000 / RENEWALS;
    begin(l, embedded_lease_take);
    script_number(&l->call, l->ttl_ms);
    script_number_field(&l->call, "folds", report->folds);
    script_number_field(&l->call, "folded_ms", report->folded_ms);
    script_field(&l->call, "error", report->error);
    enum err code = script_ask(&l->call, l->redis, home, &r, e);
    return code == ERR_OK ? take_reply(l, r, sent, e) : code;
}

void lease_give_back(struct lease *l)
{
    long long answer;
    if (l->until != 0) {
        begin(l, embedded_lease_return);
        enum err code = script_run(&l->call, l->redis, sync_client_home(l->redis, l->names), &answer, NULL);
        (void)code; /* it expires */
    }
    l->until = l->again = 0;
    l->holder[0] = '\0';
}

/* --- looking --- */

static const char *text_of(const redisReply *r, size_t i)
{
    return i < r->elements && r->element[i]->type == REDIS_REPLY_STRING ? r->element[i]->str : "";
}

static const char look_command[] = "HMGET %s owner folds folded_ms error";

void lease_ask_ahead(struct sync_client *l, unsigned user, const struct names *names)
{
    struct key_name key;
    names_filter_key(names, "folder", &key);
    ahead_ask(l, user, sync_client_home(l, names), look_command, key.text);
}

enum err lease_look(struct sync_client *l, const struct names *names, struct lease_status *out,
                    struct error *e)
{
    struct key_name key;
    SCOPED(scope_reply) redisReply *r = NULL;
    *out = (struct lease_status){0};
    names_filter_key(names, "folder", &key);
    enum err code = sync_client_ask(l, sync_client_home(l, names), &r, e, look_command, key.text);
    if (code != ERR_OK)
        return code;
    if (r->type == REDIS_REPLY_ERROR)
        return refused(l, names, r, e);
    (void)snprintf(out->holder, sizeof(out->holder), "%s", text_of(r, 0));
    (void)number_u64(text_of(r, 1), strlen(text_of(r, 1)), &out->report.folds);
    (void)number_u64(text_of(r, 2), strlen(text_of(r, 2)), &out->report.folded_ms);
    (void)snprintf(out->report.error, sizeof(out->report.error), "%s", text_of(r, 3));
    return ERR_OK;
}
