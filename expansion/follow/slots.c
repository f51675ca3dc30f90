/* SPDX-License-Identifier: MIT */
/* The happy path is: read P:slots, ask the server for the state of each slot that lies there, record the time
 * for those that are needed. Possible failure modes are: Redis or Postgres is away (retried at the next
 * look); another coordinator drops the slot at the same time (harmless), or names it at the same time (so the
 * note is read again just before the drop, and a later note stays; a stream whose slot is gone makes it
 * again, and reads the gap by ids). */
#include "expansion/follow/slots.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/number.h"
#include "expansion/follow/follower.h"
#include "migrate/source/connection.h"
#include "shard/filter/names.h"
#include "shard/members/members.h"
#include "shard/redis/script_call.h"

extern const char embedded_slot_forget[];

enum {
    QUIET_MS = 2 * 60 * 1000, /* time in which coordinators that restart name their slots */
    FIELD_MAX = STREAM_PLACE_MAX + 1 + FOLLOWER_SLOT_MAX
};

struct slots {
    const struct slots_options *o;
    struct sync_client *redis;
    struct key_name key;
    unsigned home;
    struct connection *server;
    char place[STREAM_PLACE_MAX];
    uint64_t now_ms; /* Redis' clock, which all coordinators share */
};

enum slot_fate slots_judge(const struct stream_slot *slot, const struct slots_use *use, uint64_t grace_ms,
                           uint64_t slot_wal_max)
{
    uint64_t quiet_ms = grace_ms < QUIET_MS ? grace_ms : QUIET_MS;
    if (slot->exists && !slot->is_ours)
        return SLOT_FORGET;
    if (use->named || (slot->exists && slot->active))
        return SLOT_NEEDED;
    if (use->watched_ms < quiet_ms)
        return SLOT_UNUSED;
    if (!slot->exists) /* it may be about to be made */
        return use->unnamed_ms > grace_ms ? SLOT_FORGET : SLOT_UNUSED;
    bool fills = slot->retained > slot_wal_max && use->unnamed_ms > quiet_ms;
    return fills || use->unnamed_ms > grace_ms ? SLOT_DROP : SLOT_UNUSED;
}

/* --- notes --- */

static unsigned key_of(const struct sync_client *l, const char *prefix, struct key_name *out)
{
    out->length = (size_t)snprintf(out->text, sizeof(out->text), "%s:slots", prefix);
    return nodes_key(sync_client_nodes(l), out->text, out->length);
}

static enum err write_note(struct sync_client *l, unsigned home, const struct key_name *key,
                           const char *field, uint64_t ms, const char *filter, struct error *e)
{
    return sync_client_command(l, home, NULL, e, "HSET %b %s %llu:%s", key->text, key->length, field,
                               (unsigned long long)ms, filter);
}

enum err slots_note(struct sync_client *l, const char *prefix, const char *place, const char *slot,
                    const char *filter, struct error *e)
{
    struct key_name key;
    char field[FIELD_MAX];
    uint64_t now = 0;
    unsigned home = key_of(l, prefix, &key);
    (void)snprintf(field, sizeof(field), "%s/%s", place, slot);
    enum err code = members_clock(l, prefix, &now, e);
    return code == ERR_OK ? write_note(l, home, &key, field, now, filter, e) : code;
}

/* Parse "1700000000000:filter"; *@filter points into @value. */
static bool parse_note(const char *value, uint64_t *ms, const char **filter)
{
    const char *colon = strchr(value, ':');
    *filter = colon == NULL ? "" : colon + 1;
    return colon != NULL && number_u64(value, (size_t)(colon - value), ms);
}

/* --- one slot --- */

static bool is_named(const struct slots_options *o, const char *slot)
{
    for (size_t i = 0; i < o->named_count; i++)
        if (strcmp(o->named[i], slot) == 0)
            return true;
    return false;
}

/* *@still: no coordinator has named the slot since @value was read. */
static enum err still_unnamed(struct slots *s, const char *field, const char *value, bool *still,
                              struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code =
        sync_client_command(s->redis, s->home, &r, e, "HGET %b %s", s->key.text, s->key.length, field);
    if (code != ERR_OK)
        return code;
    *still = r->type == REDIS_REPLY_STRING && strcmp(r->str, value) == 0;
    return ERR_OK;
}

static enum err forget(struct slots *s, const char *field, const char *value, struct error *e)
{
    SCOPED(script_fini) struct script_call call = {0};
    long long unused;
    script_begin(&call, embedded_slot_forget);
    script_key(&call, &s->key);
    script_text(&call, field);
    script_text(&call, value);
    return script_run(&call, s->redis, s->home, &unused, e);
}

static enum err drop(struct slots *s, const char *field, const char *value, const char *slot,
                     const char *filter, const struct stream_slot *state, struct error *e)
{
    bool still = false;
    enum err code = still_unnamed(s, field, value, &still, e);
    if (code != ERR_OK || !still)
        return code;
    code = stream_slot_drop(s->server, slot, e);
    if (code == ERR_BUSY)
        return ERR_OK;
    if (code == ERR_OK)
        log_warn("slot_dropped",
                 "slot=%s filter=%s retained_bytes=%" PRIu64 " reason=\"no configuration names it\"", slot,
                 log_quote(filter), state->retained);
    return code == ERR_OK ? forget(s, field, value, e) : code;
}

/* Log less and less often. */
static void warn(const char *slot, const char *filter, uint64_t unnamed_ms, const char *why,
                 uint64_t retained)
{
    uint64_t minutes = unnamed_ms / 60000;
    if ((minutes & (minutes - 1)) == 0)
        log_warn("slot_unused",
                 "slot=%s filter=%s retained_bytes=%" PRIu64 " unnamed_seconds=%" PRIu64 " reason=%s", slot,
                 log_quote(filter), retained, unnamed_ms / 1000, log_quote(why));
}

static enum err look_at(struct slots *s, const char *field, const char *value, struct error *e)
{
    const char *slot = strrchr(field, '/'), *filter;
    uint64_t ms = 0;
    if (slot == NULL || !parse_note(value, &ms, &filter))
        return forget(s, field, value, e); /* malformed: not written by a coordinator */
    size_t place = (size_t)(slot++ - field);
    uint64_t unnamed = s->now_ms > ms ? s->now_ms - ms : 0;
    if (s->server == NULL || strlen(s->place) != place || memcmp(s->place, field, place) != 0) {
        warn(slot, filter, unnamed, "it lies in a database that this coordinator's dsn does not lead to", 0);
        return ERR_OK;
    }
    struct stream_slot state;
    const struct slots_use use = {is_named(s->o, slot), unnamed, s->o->watched_ms};
    enum err code = stream_slot_state(s->server, slot, &state, e);
    if (code != ERR_OK)
        return code;
    switch (slots_judge(&state, &use, s->o->grace_ms, s->o->slot_wal_max)) {
    case SLOT_NEEDED:
        return write_note(s->redis, s->home, &s->key, field, s->now_ms, filter, e);
    case SLOT_UNUSED:
        if (state.exists)
            warn(slot, filter, unnamed, "no configuration names it; it is dropped after slot_grace",
                 state.retained);
        return ERR_OK;
    case SLOT_DROP:
        return drop(s, field, value, slot, filter, &state, e);
    case SLOT_FORGET:
        return forget(s, field, value, e);
    }
    return ERR_OK;
}

/* --- all slots --- */

/* Record that this coordinator names its own slots, even if Postgres is away. */
static enum err name_it(struct slots *s, const char *field, const char *value, struct error *e)
{
    const char *slot = strrchr(field, '/'), *filter;
    uint64_t ms = 0;
    return slot != NULL && is_named(s->o, slot + 1) && parse_note(value, &ms, &filter)
               ? write_note(s->redis, s->home, &s->key, field, s->now_ms, filter, e)
               : ERR_OK;
}

static enum err each(struct slots *s,
                     enum err (*fn)(struct slots *s, const char *field, const char *value, struct error *e),
                     size_t *count, struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code = sync_client_command(s->redis, s->home, &r, e, "HGETALL %b", s->key.text, s->key.length);
    if (code != ERR_OK)
        return code;
    *count = r->elements / 2;
    for (size_t i = 0; i + 1 < r->elements && code == ERR_OK && !atomic_load(s->o->stop); i += 2)
        code = fn(s, r->element[i]->str, r->element[i + 1]->str, e);
    return code;
}

static enum err watch(void *arg, struct error *e)
{
    const struct slots_options *o = arg;
    return atomic_load(o->stop) ? error_set(e, ERR_CANCELLED, "the coordinator stops") : ERR_OK;
}

static enum err reconcile(struct slots *s, struct error *e)
{
    const struct slots_options *o = s->o;
    size_t count = 0;
    enum err code = members_clock(s->redis, o->prefix, &s->now_ms, e);
    if (code == ERR_OK)
        code = each(s, name_it, &count, e);
    if (code != ERR_OK || count == 0)
        return code; /* no slot, so do not connect to Postgres */
    if (o->dsn[0] != '\0') {
        code = connection_open(&s->server, CONNECTION_SQL, o->dsn, "twinbloom slots", o->postgres_timeout_ms,
                               (struct source_watch){watch, (void *)(uintptr_t)o}, e);
        if (code == ERR_OK)
            code = stream_slot_place(s->server, s->place, e);
    }
    return code == ERR_OK ? each(s, look_at, &count, e) : code;
}

enum err slots_reconcile(const struct slots_options *o, struct error *e)
{
    struct slots s = {.o = o, .redis = sync_client_new(o->nodes, o->redis_timeout_ms, "twinbloom-slots")};
    if (s.redis == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s.home = key_of(s.redis, o->prefix, &s.key);
    enum err code = reconcile(&s, e);
    connection_close(s.server);
    sync_client_free(s.redis);
    return code;
}
