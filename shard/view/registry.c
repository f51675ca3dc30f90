/* SPDX-License-Identifier: MIT */
/* The happy path is: one script on each master names a new filter, and finds that nothing was named. Possible
 * failure modes are: the maker of a filter dies before it is published (the next maker finds it named, and
 * sweeps); the maker sleeps, and wakes after somebody else has made the filter (the other one's name stays:
 * 'new' changes nothing then, and 'later' replaces no later one); a master comes back empty (its registry is
 * not complete: all keys are searched once more), or with older data (its registry is as old, and its
 * replication id is not trusted). */
#include "shard/view/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/random.h"
#include "shard/redis/ahead.h"
#include "shard/view/handle.h"
#include "shard/filter/names.h"

extern const char embedded_complete[], embedded_enter[], embedded_enter_found[], embedded_leave[];

enum { COMPLETE_PASSES = 2 }; /* a shard may be renamed while SCAN passes by, so each search is made twice */

/* --- where registries are --- */

struct place {
    unsigned where;
    unsigned master; /* whose keys are searched; not set for a cluster's list */
    bool listed;     /* P:filters lies beside it */
    uint64_t search; /* the number of an incomplete registry (complete.lua) */
    const char *kind;
    struct key_name key;
};

struct places {
    unsigned count; /* the listed one is the last */
    struct place *one;
};

static void add_list(const struct handle *f, struct places *p)
{
    struct place *one = &p->one[p->count++];
    *one = (struct place){
        .where = nodes_filters(sync_client_nodes(f->redis), f->names.prefix), .listed = true, .kind = "list"};
    one->key.length = (size_t)snprintf(one->key.text, sizeof(one->key.text), "%s:{%s:filters}:incarnations",
                                       f->names.prefix, f->names.prefix);
}

static enum err find_places(struct handle *f, struct places *out, struct error *e)
{
    unsigned count;
    *out = (struct places){0};
    enum err code = sync_client_masters(f->redis, &count, e);
    if (code != ERR_OK)
        return code;
    out->one = calloc(count + 1, sizeof(*out->one));
    if (out->one == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    bool cluster = sync_client_nodes(f->redis)->cluster != NULL;
    for (unsigned i = count; i-- > 0;) { /* the metadata node is the first of a list */
        if (!sync_client_master_has_slots(f->redis, i))
            continue;
        struct place *one = &out->one[out->count++];
        one->where = sync_client_master_keys(f->redis, i);
        one->master = sync_client_master(f->redis, i);
        one->listed = !cluster && i == NODE_HOME;
        one->kind = !cluster && count == 1 ? "alone" : "one";
        names_on_master(f->names.prefix, sync_client_master_slot(f->redis, i), "incarnations", &one->key);
    }
    if (cluster)
        add_list(f, out);
    return ERR_OK;
}

enum err registry_refused(enum err code, const struct key_name *key, const char *list, struct error *e)
{
    char *at = code == ERR_REFUSED && e != NULL ? strstr(e->text, "WRONGTYPE") : NULL;
    if (at != NULL)
        (void)snprintf(at, sizeof(e->text) - (size_t)(at - e->text),
                       "%s is not a hash%s%s%s: delete or rename the foreign key", key->text,
                       list == NULL ? "" : ", or ", list == NULL ? "" : list,
                       list == NULL ? "" : ":filters is not a set");
    return code;
}

static enum err refused(enum err code, const struct handle *f, const struct place *at, struct error *e)
{
    return registry_refused(code, &at->key, at->listed ? f->names.prefix : NULL, e);
}

static enum err run(struct handle *f, const struct place *at, long long *answer, struct error *e)
{
    return refused(script_run(&f->call, f->redis, at->where, answer, e), f, at, e);
}

/* --- one filter --- */

static void put_call(struct handle *f, const char *script, const struct place *at, uint64_t incarnation)
{
    struct key_name list;
    char name[FILTER_NAME_MAX];
    size_t length = 0;
    script_begin(&f->call, script);
    script_key(&f->call, &at->key);
    if (at->listed) {
        list.length = (size_t)snprintf(list.text, sizeof(list.text), "%s:filters", f->names.prefix);
        script_key(&f->call, &list);
    }
    script_bytes(&f->call, f->names.filter, f->names.filter_length);
    script_incarnation(&f->call, incarnation);
    if (!names_unescape(f->names.filter, f->names.filter_length, name, &length))
        length = 0; /* cannot happen: names_init() has escaped it */
    script_bytes(&f->call, name, length);
}

static void put_enter(struct handle *f, const struct place *at, const char *how)
{
    put_call(f, embedded_enter, at, f->names.incarnation);
    script_text(&f->call, how);
    script_text(&f->call, at->kind);
}

/* *@least: the least of the replies. */
static enum err enter(struct handle *f, const struct places *p, const char *how, long long *least,
                      struct error *e)
{
    enum err code = ERR_OK;
    *least = 1;
    for (unsigned i = 0; i < p->count && code == ERR_OK; i++) {
        put_enter(f, &p->one[i], how);
        code = script_send(&f->call, f->redis, p->one[i].where, e);
    }
    for (unsigned i = 0; i < p->count && code == ERR_OK; i++) {
        long long answer = 0;
        code = refused(script_reply(f->redis, p->one[i].where, &answer, e), f, &p->one[i], e);
        *least = answer < *least ? answer : *least;
    }
    if (code != ERR_OK)
        sync_client_forget(f->redis);
    return code;
}

/* In order: the controller looks again at a filter that is listed, until it has left everywhere. */
static enum err leave(struct handle *f, const struct places *p, uint64_t incarnation, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < p->count && code == ERR_OK; i++) {
        long long answer;
        put_call(f, embedded_leave, &p->one[i], incarnation);
        code = run(f, &p->one[i], &answer, e);
    }
    return code;
}

/* *@least: as enter(); where it is below 1, nothing was entered. */
static enum err enter_new(struct handle *f, long long *least, struct error *e)
{
    struct places p;
    enum err code = find_places(f, &p, e);
    if (code == ERR_OK)
        code = enter(f, &p, "new", least, e);
    if (code == ERR_OK && *least < 1)
        code = leave(f, &p, f->names.incarnation, e);
    free(p.one);
    return code;
}

enum err registry_enter(struct handle *f, bool *named, struct error *e)
{
    long long least = 0;
    enum err code = enter_new(f, &least, e);
    if (code == ERR_OK && least < 1 && f->requests_wait)
        code = error_set(e, ERR_ASIDE, "keys of a lost view have to be looked for");
    if (code == ERR_OK && least < 0)
        code = registry_complete(f, e);
    if (code == ERR_OK && least < 0)
        code = enter_new(f, &least, e);
    *named = least < 1;
    return code;
}

enum err registry_succeed(struct handle *f, struct error *e)
{
    enum { LATER_IS_NAMED = -2 };
    struct places p;
    long long least = 0;
    enum err code = find_places(f, &p, e);
    if (code == ERR_OK)
        code = enter(f, &p, "later", &least, e);
    if (code == ERR_OK && least == LATER_IS_NAMED)
        code = error_set(e, ERR_CONFLICT, "a later incarnation is named already");
    free(p.one);
    return code;
}

/* In order: if the filter was deleted meanwhile, it is in the list behind all that names it, and a controller
 * takes the names away. */
enum err registry_keep(struct handle *f, struct error *e)
{
    struct places p;
    long long answer;
    enum err code = find_places(f, &p, e);
    for (unsigned i = 0; i < p.count && code == ERR_OK; i++) {
        put_enter(f, &p.one[i], "keep");
        code = run(f, &p.one[i], &answer, e);
    }
    free(p.one);
    return code;
}

enum err registry_leave(struct handle *f, uint64_t incarnation, struct error *e)
{
    struct places p;
    enum err code = find_places(f, &p, e);
    if (code == ERR_OK)
        code = leave(f, &p, incarnation, e);
    free(p.one);
    return code;
}

size_t registry_history_field(const struct names *names, char out[REGISTRY_HISTORY_FIELD_MAX])
{
    return (size_t)snprintf(out, REGISTRY_HISTORY_FIELD_MAX, "{history}%.*s", (int)names->filter_length,
                            names->filter);
}

static void take_history(const redisReply *reply, struct registry_said *out)
{
    enum { DIGITS = 16 };
    struct registry_history h = {0};
    if (reply->type == REDIS_REPLY_STRING && reply->len == 2 * DIGITS + 1 &&
        (!number_hex64(reply->str, DIGITS, &h.incarnation) ||
         !number_hex64(reply->str + DIGITS + 1, DIGITS, &h.id)))
        h = (struct registry_history){0};
    for (unsigned i = 0; i < out->history_count; i++)
        if (out->history[i].incarnation == h.incarnation && out->history[i].id == h.id)
            return;
    out->history[out->history_count++] = h; /* there is room for one of each master */
}

static void take_said(const redisReply *reply, struct registry_said *out)
{
    const redisReply *name = reply->elements == 2 ? reply->element[0] : NULL;
    if (name == NULL)
        return;
    take_history(reply->element[1], out);
    if (name->type != REDIS_REPLY_STRING)
        return;
    uint64_t incarnation = 0;
    if (name->len != 16 || !number_hex64(name->str, 16, &incarnation))
        incarnation = 0;
    if (out->named && incarnation != out->incarnation) {
        uint64_t less = incarnation < out->incarnation ? incarnation : out->incarnation;
        out->named_before = true;
        out->before = less > out->before ? less : out->before;
    }
    out->named = true;
    out->incarnation = incarnation > out->incarnation ? incarnation : out->incarnation;
}

static const char look_command[] = "HMGET %s %s %s";

static enum err look_at(struct sync_client *l, unsigned i, const struct names *names,
                        struct registry_said *out, struct error *e)
{
    struct key_name key;
    SCOPED(scope_reply) redisReply *reply = NULL;
    char history[REGISTRY_HISTORY_FIELD_MAX];
    (void)registry_history_field(names, history);
    names_on_master(names->prefix, sync_client_master_slot(l, i), "incarnations", &key);
    enum err code = sync_client_command(l, sync_client_master_keys(l, i), &reply, e, look_command, key.text,
                                        names->filter, history);
    if (code != ERR_OK)
        return registry_refused(code, &key, NULL, e);
    take_said(reply, out);
    return ERR_OK;
}

enum err registry_look(struct sync_client *l, const struct names *names, struct registry_said *out,
                       struct error *e)
{
    unsigned count;
    *out = (struct registry_said){0};
    enum err code = sync_client_masters(l, &count, e), failed = code;
    for (unsigned i = 0; i < count && code == ERR_OK; i++)
        if (sync_client_master_has_slots(l, i) &&
            (code = look_at(l, i, names, out, failed == ERR_OK ? e : NULL)) != ERR_OK) {
            failed = failed == ERR_OK ? code : failed;
            code = ERR_OK;
        }
    return failed;
}

void registry_ask_ahead(struct sync_client *l, unsigned user, const struct names *names)
{
    struct key_name key;
    char history[REGISTRY_HISTORY_FIELD_MAX];
    (void)registry_history_field(names, history);
    ahead_ask_masters(l, user);
    for (unsigned i = 0; i < ahead_masters(l); i++) {
        if (!sync_client_master_has_slots(l, i))
            continue;
        names_on_master(names->prefix, sync_client_master_slot(l, i), "incarnations", &key);
        ahead_ask(l, user, sync_client_master_keys(l, i), look_command, key.text, names->filter, history);
    }
}

enum err registry_look_deleted(struct sync_client *l, const struct names *names, uint64_t *out,
                               struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    *out = 0;
    enum err code = sync_client_filter_command(l, names, "deleted", "GET %b", &r, e);
    if (code != ERR_OK)
        return code;
    if (r->type != REDIS_REPLY_STRING || r->len != 16 || !number_hex64(r->str, 16, out))
        *out = 0;
    return ERR_OK;
}

/* Milliseconds of the metadata node's clock, with random bits below. */
enum err registry_draw(struct sync_client *l, const struct names *names, uint64_t latest, uint64_t *out,
                       struct error *e)
{
    enum { RANDOM_BITS = 22 };
    uint64_t s = 0, us = 0;
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code = sync_client_command(l, sync_client_home(l, names), &r, e, "TIME");
    if (code != ERR_OK)
        return code;
    if (r->elements != 2 || !number_u64(r->element[0]->str, r->element[0]->len, &s) ||
        !number_u64(r->element[1]->str, r->element[1]->len, &us))
        code = error_set(e, ERR_REFUSED, "unexpected reply to TIME");
    uint64_t drawn = (s * 1000 + us / 1000) << RANDOM_BITS | random_u64() >> (64 - RANDOM_BITS);
    *out = drawn > latest ? drawn : latest + 1;
    return code;
}

/* --- slots --- */

static bool has_slot(const struct registry_slots *s, uint16_t slot)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->slot[i] == slot)
            return true;
    return false;
}

static enum err remove_at(struct sync_client *l, const char *prefix, uint16_t slot, struct error *e)
{
    struct key_name key;
    names_on_master(prefix, slot, "incarnations", &key);
    return sync_client_command(l, (unsigned)WHERE_SLOT | slot, NULL, e, "UNLINK %s", key.text);
}

enum err registry_remove_left(struct sync_client *l, const char *prefix, struct registry_slots *seen,
                              struct error *e)
{
    unsigned count = 0;
    struct registry_slots now = {0};
    enum err code = sync_client_nodes(l)->cluster != NULL ? sync_client_masters(l, &count, e) : ERR_OK;
    for (unsigned i = 0; i < count && code == ERR_OK; i++)
        if (sync_client_master_has_slots(l, i) && now.count < SLOT_NODES_MAX)
            now.slot[now.count++] = (uint16_t)sync_client_master_slot(l, i);
    for (unsigned i = 0; i < seen->count && code == ERR_OK; i++)
        if (!has_slot(&now, seen->slot[i]))
            code = remove_at(l, prefix, seen->slot[i], e);
    if (code == ERR_OK)
        *seen = now;
    return code;
}

/* --- all filters of a master --- */

/* Where F ends in "P:{F.<generation>.<layer>.<shard>}:<incarnation>"; NULL: @name has another form. */
static const char *filter_end(const struct names *names, const char *name, size_t length)
{
    const char *first = name + names->prefix_length + 2;
    const char *brace = memchr(name, '}', length);
    size_t left = brace == NULL ? 0 : (size_t)(name + length - brace);
    if (left != 18 || strspn(brace + 2, "0123456789abcdef") != 16)
        return NULL;
    const char *at = brace;
    for (int parts = 0; parts < 3; parts++) {
        const char *end = at;
        while (at > first && at[-1] >= '0' && at[-1] <= '9')
            at--;
        if (at == end || at - 1 <= first || at[-1] != '.')
            return NULL;
        at--;
    }
    return at;
}

static enum err note_found(struct handle *f, const struct place *at, const redisReply *names, struct error *e)
{
    long long answer;
    const size_t before = f->names.prefix_length + 2;
    script_begin(&f->call, embedded_enter_found);
    script_key(&f->call, &at->key);
    for (size_t i = 0; i < names->elements; i++) {
        const redisReply *name = names->element[i];
        const char *end = filter_end(&f->names, name->str, (size_t)name->len);
        if (end == NULL)
            continue;
        script_bytes(&f->call, name->str + before, (size_t)(end - name->str) - before);
        script_bytes(&f->call, strchr(end, '}') + 2, 16);
    }
    return f->call.count == 1 ? ERR_OK : run(f, at, &answer, e);
}

static enum err look_through(struct handle *f, const struct place *at, struct error *e)
{
    SCOPED(buffer_fini) struct buffer pattern = {0};
    char cursor[SYNC_CLIENT_CURSOR] = "0";
    names_literally(&pattern, f->names.prefix, f->names.prefix_length);
    buffer_puts(&pattern, ":{*.*.*.*}:*");
    enum err code = buffer_failed(&pattern) ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
    for (bool more = true; code == ERR_OK && more; more = strcmp(cursor, "0") != 0) {
        SCOPED(scope_reply) redisReply *reply = NULL;
        code = sync_client_scan(f->redis, at->master, cursor, &pattern, "string", &reply, e);
        if (code == ERR_OK)
            code = note_found(f, at, reply->element[1], e);
    }
    return code;
}

/* Search all masters, even if others' registries are complete: those name what was there when they were
 * written, and slots of the incomplete one may have moved. */
static enum err look_everywhere(struct handle *f, const struct places *p, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned pass = 0; pass < COMPLETE_PASSES; pass++)
        for (unsigned i = 0; i < p->count && code == ERR_OK; i++)
            if (strcmp(p->one[i].kind, "list") != 0)
                code = look_through(f, &p->one[i], e);
    return code;
}

static enum err run_complete(struct handle *f, const struct place *at, uint64_t number, const char *when,
                             long long *answer, struct error *e)
{
    script_begin(&f->call, embedded_complete);
    script_key(&f->call, &at->key);
    script_number(&f->call, number);
    script_text(&f->call, when);
    return run(f, at, answer, e);
}

enum err registry_complete(struct handle *f, struct error *e)
{
    enum { RANDOM_BITS = 52 }; /* a number in Lua has 53 */
    struct places p;
    bool incomplete = false;
    long long answer = 0;
    enum err code = find_places(f, &p, e);
    for (unsigned i = 0; i < p.count && code == ERR_OK; i++) {
        struct place *at = &p.one[i];
        if (strcmp(at->kind, "list") == 0)
            continue;
        code = run_complete(f, at, 1 + (random_u64() >> (64 - RANDOM_BITS)), "begin", &answer, e);
        at->search = (uint64_t)answer;
        incomplete = incomplete || answer != 0;
    }
    if (code == ERR_OK && incomplete)
        code = look_everywhere(f, &p, e);
    for (unsigned i = 0; i < p.count && code == ERR_OK; i++)
        if (p.one[i].search != 0)
            code = run_complete(f, &p.one[i], p.one[i].search, "end", &answer, e);
    free(p.one);
    return code;
}
