/* SPDX-License-Identifier: MIT */
/* What a follower leaves for the next one: P:{F}:marks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "expansion/record/checkpoint.h"
#include "expansion/follow/follower_internal.h"

enum err follower_text_to_id(const char *text, int64_t *out, struct error *e)
{
    return number_i64(text, strlen(text), out) ? ERR_OK
                                               : error_set(e, ERR_PARSE, "an id was \"%.40s\"", text);
}

/* Run @command, which has the key P:{F}:marks as %b, then @field and maybe @value as %s. */
static enum err run(struct follower *t, const char *command, const char *field, const char *value,
                    redisReply **reply, struct error *e)
{
    struct key_name name;
    names_filter_key(&t->handle.names, "marks", &name);
    return sync_client_command(t->redis, handle_home(&t->handle), reply, e, command, name.text, name.length,
                               field, value);
}

enum err follower_mark_read(struct follower *t, const char *field, char *out, size_t size, struct error *e)
{
    redisReply *reply;
    enum err code = run(t, "HGET %b %s", field, "", &reply, e);
    if (code != ERR_OK)
        return code;
    (void)snprintf(out, size, "%s", reply->type == REDIS_REPLY_STRING ? reply->str : "");
    freeReplyObject(reply);
    return ERR_OK;
}

enum err follower_mark_write(struct follower *t, const char *field, const char *value, struct error *e)
{
    return run(t, "HSET %b %s %s", field, value, NULL, e);
}

enum err follower_mark_write_id(struct follower *t, unsigned table, int64_t id, struct error *e)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, id);
    return follower_mark_write(t, source_table(t->source, table), text, e);
}

enum err follower_mark_forget(struct follower *t, const char *field, struct error *e)
{
    return run(t, "HDEL %b %s", field, "", NULL, e);
}

/* The last job's low-water mark, if the job read our tables and its generation is in the view. */
static enum err mark_of_job(struct follower *t, unsigned i, bool *found, int64_t *out, struct error *e)
{
    redisReply *reply;
    struct record r = {0};
    enum err code = sync_client_filter_command(t->redis, &t->handle.names, "job", "HGETALL %b", &reply, e);
    if (code != ERR_OK)
        return code;
    bool sound = true;
    for (size_t f = 0; f + 1 < reply->elements; f += 2)
        sound = checkpoint_take(&r, reply->element[f]->str, reply->element[f]->len,
                                reply->element[f + 1]->str, reply->element[f + 1]->len) &&
                sound;
    freeReplyObject(reply);
    bool ours = sound && checkpoint_is_sound(&r) && r.settled && r.generation != 0 &&
                (r.generation == t->view.slot[0].number || r.generation == t->view.slot[1].number) &&
                r.tables_hash == source_tables_hash(t->source);
    if (ours && i < r.marks_taken && r.marks[i].low_water[0] != '\0')
        *found = follower_text_to_id(r.marks[i].low_water, out, NULL) == ERR_OK;
    record_fini(&r);
    return ERR_OK;
}

enum err follower_mark_of_table(struct follower *t, unsigned i, bool *found, int64_t *out, struct error *e)
{
    char text[64];
    *found = false;
    *out = INT64_MIN;
    enum err code = follower_mark_read(t, source_table(t->source, i), text, sizeof(text), e);
    if (code != ERR_OK)
        return code;
    *found = text[0] != '\0' && follower_text_to_id(text, out, NULL) == ERR_OK;
    return *found ? ERR_OK : mark_of_job(t, i, found, out, e);
}

enum err follower_lower_mark(struct sync_client *l, const struct names *names, const char *table,
                             const char *upto, struct error *e)
{
    struct key_name key;
    redisReply *reply;
    int64_t mark, lower = INT64_MIN;
    char text[24];
    names_filter_key(names, "marks", &key);
    unsigned home = nodes_key(sync_client_nodes(l), key.text, key.length);
    enum err code = upto[0] == '\0' ? ERR_OK : follower_text_to_id(upto, &lower, e);
    if (code == ERR_OK)
        code = sync_client_command(l, home, &reply, e, "HGET %b %s", key.text, key.length, table);
    if (code != ERR_OK)
        return code;
    bool higher =
        reply->type == REDIS_REPLY_STRING && number_i64(reply->str, reply->len, &mark) && mark > lower;
    freeReplyObject(reply);
    (void)snprintf(text, sizeof(text), "%" PRId64, lower);
    return higher ? sync_client_command(l, home, NULL, e, "HSET %b %s %s", key.text, key.length, table, text)
                  : ERR_OK;
}
