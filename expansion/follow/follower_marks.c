/* SPDX-License-Identifier: MIT */
/* What a follower leaves for the next one: P:{F}:marks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "expansion/record/control.h"
#include "expansion/follow/follower_internal.h"

extern const char embedded_follower_lower[], embedded_follower_mark[];

enum err follower_text_to_id(const char *text, int64_t *out, struct error *e)
{
    return number_i64(text, strlen(text), out) ? ERR_OK
                                               : error_set(e, ERR_PARSE, "an id was \"%.40s\"", text);
}

static enum err read_mark(struct sync_client *l, const struct names *names, const char *field, char *out,
                          size_t size, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    struct key_name name;
    names_filter_key(names, "marks", &name);
    enum err code = sync_client_command(l, sync_client_home(l, names), &reply, e, "HGET %b %s", name.text,
                                        name.length, field);
    if (code != ERR_OK)
        return code;
    (void)snprintf(out, size, "%s", reply->type == REDIS_REPLY_STRING ? reply->str : "");
    return ERR_OK;
}

enum err follower_mark_read(struct follower *t, const char *field, char *out, size_t size, struct error *e)
{
    return read_mark(t->redis, &t->handle.names, field, out, size, e);
}

enum err follower_mark_write(struct follower *t, const char *field, const char *value, struct error *e)
{
    long long answer;
    script_begin(&t->call, embedded_follower_mark);
    script_filter_key(&t->call, &t->handle.names, "tail");
    script_filter_key(&t->call, &t->handle.names, "marks");
    if (t->held)
        script_number(&t->call, t->attempt);
    else
        script_text(&t->call, "");
    script_text(&t->call, field);
    if (value != NULL)
        script_text(&t->call, value);
    enum err code = script_run(&t->call, t->redis, handle_home(&t->handle), &answer, e);
    if (code != ERR_OK || answer == 1)
        return code;
    t->held = t->taken = false;
    return error_set(e, ERR_BUSY, "the lease of this follower has ended");
}

enum err follower_mark_write_id(struct follower *t, unsigned table, int64_t id, struct error *e)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, id);
    return follower_mark_write(t, source_table(t->source, table), text, e);
}

/* The record of the last job, and then the view: that has the job's generation, or later ones, unless it was
 * aborted. *@is_sound: a job has settled, and all of its record could be read. The caller calls
 * record_fini(). */
static enum err read_job(struct follower *t, struct record *r, bool *is_sound, struct error *e)
{
    char broken[RECORD_FIELD_MAX];
    *r = (struct record){0};
    *is_sound = false;
    enum err code = record_load(&t->handle, r, broken, e);
    if (code == ERR_OK)
        code = handle_load(&t->handle, &t->view, e);
    *is_sound = code == ERR_OK && broken[0] == '\0' && r->settled && r->generation != 0;
    return code;
}

/* The last job's low-water mark, if the job read our tables, and the view has its generation, or later ones:
 * a later generation has the rows of an earlier one. */
static enum err mark_of_job(struct follower *t, unsigned i, bool *found, int64_t *out, struct error *e)
{
    SCOPED(record_fini) struct record r;
    bool ours = false;
    enum err code = read_job(t, &r, &ours, e);
    ours = ours && (r.generation <= t->view.slot[0].number || r.generation <= t->view.slot[1].number) &&
           r.tables_hash == source_tables_hash(t->source);
    if (ours && i < r.marks_taken && r.marks[i].low_water[0] != '\0')
        *found = follower_text_to_id(r.marks[i].low_water, out, NULL) == ERR_OK;
    return code;
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
    if (!*found)
        code = mark_of_job(t, i, found, out, e);
    if (code != ERR_OK || *found || !t->has_more)
        return code;
    *found = true;
    return follower_mark_write_id(t, i, *out, e);
}

/* The generation that is read was built by our `key` and `where`. */
static enum err is_built_by_ours(struct follower *t, bool *out, struct error *e)
{
    SCOPED(record_fini) struct record r;
    enum err code = read_job(t, &r, out, e);
    *out =
        *out && r.generation <= view_current(&t->view)->number && r.keys_hash == source_keys_hash(t->source);
    return code;
}

enum err follower_same_keys(struct follower *t, struct error *e)
{
    char was[24], now[24];
    bool missed = false;
    (void)snprintf(now, sizeof(now), "%016" PRIx64, source_keys_hash(t->source));
    enum err code = follower_mark_read(t, "keys", was, sizeof(was), e);
    if (code != ERR_OK || !t->o->always || strcmp(was, now) == 0)
        return code;
    if (was[0] != '\0')
        code = is_built_by_ours(t, &missed, e);
    for (unsigned i = 0; missed && i < source_tables(t->source) && code == ERR_OK; i++)
        code = follower_read_all(t, i, e);
    return code == ERR_OK ? follower_mark_write(t, "keys", now, e) : code;
}

enum err follower_same_ids(struct follower *t, struct error *e)
{
    const char *now[SOURCE_ID_COLUMNS_MAX];
    char was[SOURCE_ID_MAX];
    if (!t->o->always || !source_id_is_integer(t->source))
        return ERR_OK;
    (void)source_id_columns(t->source, now);
    enum err code = follower_mark_read(t, "id", was, sizeof(was), e);
    if (code != ERR_OK || strcmp(was, now[0]) == 0)
        return code;
    for (unsigned i = 0; was[0] != '\0' && i < source_tables(t->source) && code == ERR_OK; i++)
        code = follower_mark_write_id(t, i, INT64_MIN, e);
    return code == ERR_OK ? follower_mark_write(t, "id", now[0], e) : code;
}

enum err follower_lower_mark(struct sync_client *l, const struct names *names, const char *table,
                             const char *upto, struct error *e)
{
    struct script_call c = {0};
    char was[24], text[24];
    int64_t mark, lower = INT64_MIN;
    long long answer = 0;
    enum err code = upto[0] == '\0' ? ERR_OK : follower_text_to_id(upto, &lower, e);
    (void)snprintf(text, sizeof(text), "%" PRId64, lower);
    while (code == ERR_OK && answer == 0) {
        code = read_mark(l, names, table, was, sizeof(was), e);
        if (code != ERR_OK || !number_i64(was, strlen(was), &mark) || mark <= lower)
            break;
        script_begin(&c, embedded_follower_lower);
        script_filter_key(&c, names, "marks");
        script_text(&c, table);
        script_text(&c, was);
        script_text(&c, text);
        code = script_run_once(&c, l, names, &answer, e);
    }
    return code;
}
