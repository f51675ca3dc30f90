/* SPDX-License-Identifier: MIT */
#include "shard/generations/leftover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "shard/log/lane_sync.h"
#include "shard/redis/script_call.h"
#include "shard/generations/grace.h"
#include "shard/view/view_load.h"

extern const char embedded_drop_begin[], embedded_drop_end[], embedded_sweep[];

enum { SWEEP_PASSES_MAX = 10, INCARNATION_DIGITS = 16 };

/* --- what a record names --- */

static enum err remove_lane(struct sync_client *l, const struct names *names, const struct log_view *v,
                            unsigned index, struct error *e)
{
    struct lane lane;
    enum err code = log_view_lane_at(v, names, sync_client_nodes(l), index, &lane, e);
    return code == ERR_OK ? lane_forget(l, &lane, e) : code;
}

static enum err run_with_record(struct sync_client *l, const struct names *names, const char *script,
                                long long *answer, struct error *e)
{
    struct script_call call = {0};
    script_begin(&call, script);
    script_filter_key(&call, names, "leftover");
    script_incarnation(&call, names->incarnation);
    return script_run_once(&call, l, names, answer, e);
}

static enum err sweep_strays(struct sync_client *l, const struct names *names, const struct work *w,
                             struct error *e);

enum err leftover_remove(struct sync_client *l, const struct names *names, const struct log_view *v,
                         const struct work *w, struct error *e)
{
    struct names own = *names;
    long long answer;
    enum err code = ERR_OK;
    own.incarnation = v->incarnation;
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++)
        code = remove_lane(l, &own, v, i, e);
    for (unsigned s = 0; s < 2; s++) {
        const struct log_generation *g = &v->slot[s];
        if (code == ERR_OK && g->shape.number != 0)
            code = shards_remove(l, &own, &g->shape, w, e);
        if (code == ERR_OK && g->next.number != 0)
            code = shards_remove(l, &own, &g->next, w, e);
    }
    if (code == ERR_OK)
        code = grace_delete(l, names, e);
    if (code == ERR_OK && (v->strays || v->slot[0].next.number != 0 || v->slot[1].next.number != 0))
        code = sweep_strays(l, &own, w, e);
    return code == ERR_OK ? run_with_record(l, &own, embedded_drop_end, &answer, e) : code;
}

/* Load into @v the record of @incarnation (0: of any), and make it say `deleting`. *@stopped: its
 * incarnation; 0: there is none. */
static enum err stop(struct sync_client *l, const struct names *names, uint64_t incarnation,
                     struct log_view *v, uint64_t *stopped, struct error *e)
{
    struct names own = *names;
    long long answer = 0;
    *stopped = 0;
    enum err code = log_view_load_leftover(l, names, v, e);
    if (code == ERR_OK && (incarnation == 0 || incarnation == v->incarnation)) {
        own.incarnation = v->incarnation;
        code = run_with_record(l, &own, embedded_drop_begin, &answer, e);
        *stopped = answer == 1 ? v->incarnation : 0;
    }
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

enum err leftover_stop(struct sync_client *l, const struct names *names, uint64_t *incarnation,
                       struct error *e)
{
    struct log_view *v = malloc(sizeof(*v));
    enum err code =
        v == NULL ? error_set(e, ERR_NOMEM, "no memory for a view") : stop(l, names, 0, v, incarnation, e);
    free(v);
    return code;
}

enum err leftover_clear(struct sync_client *l, const struct names *names, uint64_t incarnation, bool *was,
                        const struct work *w, struct error *e)
{
    uint64_t stopped = 0;
    struct log_view *v = malloc(sizeof(*v));
    enum err code = v == NULL ? error_set(e, ERR_NOMEM, "no memory for a view")
                              : stop(l, names, incarnation, v, &stopped, e);
    *was = stopped != 0;
    if (code == ERR_OK && *was)
        code = leftover_remove(l, names, v, w, e);
    free(v);
    return code;
}

/* --- what no record names --- */

/* Skip "<number><end>"; NULL: the text has another form. */
static const char *skip_number(const char *text, char end)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && text[digits] == end ? text + digits + 1 : NULL;
}

/* Judge a name by its part behind "P:{F.": that of a lane, "<l>}:<incarnation>.log<n>", closed or not, or of
 * a shard, "<g>.<layer>.<i>}:<incarnation>". Returns the type of such a key. NULL: it is neither, for example
 * a name of another filter, "F.<l>". */
static const char *judge_name(const char *text, uint64_t *incarnation)
{
    const char *lane = skip_number(text, '}');
    const char *at = lane;
    for (unsigned part = 0; lane == NULL && part < 3 && (part == 0 || at != NULL); part++)
        at = skip_number(part == 0 ? text : at, part < 2 ? '.' : '}');
    if (at == NULL || *at++ != ':' || strspn(at, "0123456789abcdef") != INCARNATION_DIGITS ||
        !number_hex64(at, INCARNATION_DIGITS, incarnation))
        return NULL;
    at += INCARNATION_DIGITS;
    if (lane == NULL)
        return *at == '\0' ? "string" : NULL;
    if (strncmp(at, ".log", 4) != 0)
        return NULL;
    at += 4;
    size_t digits = strspn(at, "0123456789");
    return digits > 0 && (at[digits] == '\0' || strcmp(at + digits, ".closed") == 0) ? "stream" : NULL;
}

struct sweep {
    struct sync_client *redis;
    const struct names *names;
    const char *record;           /* the name of the key whose incarnation must be ours */
    bool all;                     /* true: search keys of our own incarnation; false: keys of the others */
    struct leftover_streams *own; /* NULL: not wanted */
    struct script_call call;
    struct buffer pattern;
    uint64_t found; /* number of keys removed in this pass */
};

/* Check that the record or view is still ours. Then nobody can publish the incarnations that were found:
 * their makers have lost the record to us, or the view is ours. */
static enum err still_ours(struct sweep *s, struct error *e)
{
    char text[INCARNATION_DIGITS + 1];
    struct key_name key;
    SCOPED(scope_reply) redisReply *reply = NULL;
    names_filter_key(s->names, s->record, &key);
    enum err code =
        sync_client_filter_command(s->redis, s->names, s->record, "HGET %b incarnation", &reply, e);
    if (code != ERR_OK)
        return code;
    (void)snprintf(text, sizeof(text), "%016" PRIx64, s->names->incarnation);
    if (reply->type != REDIS_REPLY_STRING || strcmp(reply->str, text) != 0)
        code = error_set(e, ERR_CONFLICT,
                         "key %s belongs to another process by now, which makes or deletes this filter",
                         key.text);
    return code;
}

static enum err remove_found(struct sweep *s, unsigned found_on, const redisReply *name, const char *type,
                             struct error *e)
{
    const struct nodes *nodes = sync_client_nodes(s->redis);
    unsigned where = nodes->cluster == NULL ? found_on : nodes_key(nodes, name->str, name->len);
    long long removed = 0;
    script_begin(&s->call, embedded_sweep);
    script_bytes(&s->call, name->str, name->len);
    s->call.keys = 1;
    script_text(&s->call, type);
    enum err code = script_run(&s->call, s->redis, where, &removed, e);
    s->found += removed > 0;
    return code;
}

/* @text: the name of one of our lanes, behind "P:{F.". */
static void note_own(struct leftover_streams *own, const char *text)
{
    char *end;
    unsigned long long lane = strtoull(text, &end, 10);
    uint64_t number = strtoull(strstr(end, ".log") + 4, NULL, 10);
    bool is_known = lane != own->lane || own->count == LEFTOVER_STREAMS_MAX;
    for (unsigned i = 0; i < own->count && !is_known; i++)
        is_known = own->number[i] == number;
    if (!is_known)
        own->number[own->count++] = number;
}

static enum err sweep_page(struct sweep *s, unsigned where, const redisReply *page, struct error *e)
{
    size_t before = s->names->prefix_length + s->names->filter_length + 3;
    bool asked = false;
    enum err code = ERR_OK;
    for (size_t i = 0; i < page->elements && code == ERR_OK; i++) {
        const redisReply *name = page->element[i];
        uint64_t incarnation;
        const char *type = name->len > before && strlen(name->str) == name->len
                               ? judge_name(name->str + before, &incarnation)
                               : NULL;
        if (type == NULL)
            continue;
        bool is_ours = incarnation == s->names->incarnation;
        if (is_ours && s->own != NULL && strcmp(type, "stream") == 0)
            note_own(s->own, name->str + before);
        if (is_ours != s->all)
            continue;
        if (!asked)
            code = still_ours(s, e);
        asked = true;
        if (code == ERR_OK)
            code = remove_found(s, where, name, type, e);
    }
    return code;
}

static enum err sweep_node(struct sweep *s, unsigned where, const struct work *w, struct error *e)
{
    char cursor[SYNC_CLIENT_CURSOR] = "0";
    enum err code = ERR_OK;
    do {
        SCOPED(scope_reply) redisReply *reply = NULL;
        code = sync_client_scan(s->redis, where, cursor, &s->pattern, NULL, &reply, e);
        if (code == ERR_OK)
            code = sweep_page(s, where, reply->element[1], e);
        if (code == ERR_OK)
            code = work_ask(w, e);
    } while (code == ERR_OK && strcmp(cursor, "0") != 0);
    return code;
}

static enum err sweep_pass(struct sweep *s, const struct work *w, struct error *e)
{
    unsigned masters = 0;
    s->found = 0;
    enum err code = sync_client_masters(s->redis, &masters, e);
    for (unsigned i = 0; i < masters && code == ERR_OK; i++)
        code = sweep_node(s, sync_client_master(s->redis, i), w, e);
    return code;
}

/* In a cluster a key may move from a node that was not searched yet to one that was. So search until nothing
 * was found twice: a key would have to move there, back, and there again to be missed. */
static enum err sweep_all(struct sweep *s, const char *rest, const struct work *w, struct error *e)
{
    unsigned wanted = sync_client_nodes(s->redis)->cluster == NULL ? 1 : 2, clean = 0;
    enum err code = ERR_OK;
    names_literally(&s->pattern, s->names->prefix, s->names->prefix_length);
    buffer_puts(&s->pattern, ":{");
    names_literally(&s->pattern, s->names->filter, s->names->filter_length);
    buffer_printf(&s->pattern, ".*}:*%s", rest);
    if (buffer_failed(&s->pattern))
        code = error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned pass = 0; code == ERR_OK && clean < wanted; pass++) {
        code = sweep_pass(s, w, e);
        clean = s->found == 0 || wanted == 1 ? clean + 1 : 0;
        if (code == ERR_OK && pass == SWEEP_PASSES_MAX)
            code = error_set(e, ERR_CONFLICT, "lanes of another incarnation keep appearing");
    }
    script_fini(&s->call);
    buffer_fini(&s->pattern);
    return code;
}

enum err leftover_sweep(struct sync_client *l, const struct names *names, const struct work *w,
                        struct error *e)
{
    struct sweep s = {.redis = l, .names = names, .record = "leftover"};
    return sweep_all(&s, "", w, e);
}

/* Remove all lanes and shards of the incarnation of @names, whose record says that it is being deleted. */
static enum err sweep_strays(struct sync_client *l, const struct names *names, const struct work *w,
                             struct error *e)
{
    char incarnation[INCARNATION_DIGITS + 2];
    struct sweep s = {.redis = l, .names = names, .record = "leftover", .all = true};
    (void)snprintf(incarnation, sizeof(incarnation), "%016" PRIx64 "*", names->incarnation);
    return sweep_all(&s, incarnation, w, e);
}

enum err leftover_sweep_lanes(struct sync_client *l, const struct names *names, struct leftover_streams *own,
                              struct error *e)
{
    struct sweep s = {.redis = l, .names = names, .record = "view", .own = own};
    return sweep_all(&s, ".log*", NULL, e);
}
