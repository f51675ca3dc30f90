/* SPDX-License-Identifier: MIT */
#include "shard/generations/grace.h"

#include <inttypes.h>
#include <stdlib.h>
#include "base/number.h"
#include "base/random.h"
#include "shard/redis/script_call.h"
#include "shard/view/shards.h"
#include "shard/view/view_load.h"

extern const char embedded_grace_end[], embedded_grace_forget[], embedded_grace_switch[];

enum { DIGITS = 16 /* of an incarnation */ };

/* --- the current generation --- */

enum err grace_switch(struct sync_client *l, const struct names *names, const char *mutex, uint64_t version,
                      const struct generation *g, struct error *e)
{
    struct script_call call = {0};
    long long result = 0;
    script_begin_view(&call, embedded_grace_switch, names);
    script_filter_key(&call, names, "expansion_flag");
    script_incarnation(&call, names->incarnation);
    script_number(&call, g->number % 2);
    script_number(&call, g->number);
    script_text(&call, mutex);
    script_number(&call, generation_shards(g));
    script_number(&call, version);
    script_incarnation(&call, random_u64() | 1);
    enum err code = script_run_once(&call, l, names, &result, e);
    if (code == ERR_OK && result == 1)
        log_view_notify(l, names);
    if (code != ERR_OK || result == 1)
        return code;
    if (result == 0)
        return error_set(e, ERR_NOT_FOUND, "the view has no generation %" PRIu64 " any more", g->number);
    if (result == -3)
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    if (result == -4)
        return error_set(e, ERR_TIMEOUT, "the view has changed meanwhile");
    return error_set(e, ERR_CONFLICT, "generation %" PRIu64 " cannot be read: %s", g->number,
                     result == -1 ? "it was not built, or lacks keys that were acknowledged"
                                  : "it was not folded in each of the lanes");
}

enum err grace_forget(struct sync_client *l, const struct names *names, const char *mutex, uint64_t number,
                      struct error *e)
{
    struct script_call call = {0};
    long long result = 0;
    script_begin_view(&call, embedded_grace_forget, names);
    script_filter_key(&call, names, "expansion_flag");
    script_filter_key(&call, names, "forgotten");
    script_filter_key(&call, names, "build");
    script_incarnation(&call, names->incarnation);
    script_number(&call, number % 2);
    script_number(&call, number);
    script_text(&call, mutex);
    enum err code = script_run_once(&call, l, names, &result, e);
    if (code == ERR_OK && result == -1)
        return error_set(e, ERR_CONFLICT, "generation %" PRIu64 " is the one that is read", number);
    if (code == ERR_OK && result == -3)
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    if (code == ERR_OK)
        log_view_notify(l, names);
    return code;
}

enum err grace_end(struct sync_client *l, const struct names *names, const struct log_view *v, unsigned slot,
                   unsigned lane, struct error *e)
{
    const struct log_folded *f = &v->slot[slot].folded[lane];
    struct script_call call = {0};
    char id[LOG_ID_TEXT_MAX];
    long long result = 0;
    script_begin_view(&call, embedded_grace_end, names);
    script_filter_key(&call, names, "forgotten");
    script_incarnation(&call, names->incarnation);
    script_number(&call, slot);
    script_number(&call, v->slot[slot].shape.number);
    script_number(&call, lane);
    script_number(&call, f->lane_number);
    script_bytes(&call, id, log_id_format(f->position.id, id));
    enum err code = script_run_once(&call, l, names, &result, e);
    if (code == ERR_OK && result == 1)
        log_view_notify(l, names);
    return code;
}

/* --- deletion --- */

/* Delete the shards of one field of the hash, then the field. */
static enum err delete_one(struct sync_client *l, const struct names *names, const struct key_name *key,
                           const redisReply *name, const redisReply *text, struct error *e)
{
    struct names of = *names;
    struct generation *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a generation");
    enum err code = name->len > DIGITS && number_hex64(name->str, DIGITS, &of.incarnation)
                        ? generation_parse(g, text->str, text->len, e)
                        : error_set(e, ERR_PARSE, "\"%.40s\" is not an incarnation and a number", name->str);
    if (code == ERR_OK)
        code = shards_remove(l, &of, g, NULL, e);
    free(g);
    if (code == ERR_OK)
        code = sync_client_command(l, sync_client_home(l, names), NULL, e, "HDEL %b %b", key->text,
                                   key->length, name->str, name->len);
    return code;
}

enum err grace_delete(struct sync_client *l, const struct names *names, struct error *e)
{
    struct key_name key;
    SCOPED(scope_reply) redisReply *r = NULL;
    names_filter_key(names, "forgotten", &key);
    enum err code = sync_client_filter_command(l, names, "forgotten", "HGETALL %b", &r, e);
    if (code != ERR_OK)
        return code;
    if (r->type != REDIS_REPLY_ARRAY)
        code = error_set(e, ERR_PARSE, "the reply is not a hash");
    for (size_t i = 0; code == ERR_OK && i + 1 < r->elements; i += 2)
        code = delete_one(l, names, &key, r->element[i], r->element[i + 1], e);
    if (code != ERR_OK)
        sync_client_forget(l);
    return code == ERR_PARSE ? error_prefix(e, code, "%s", key.text) : code;
}
