/* SPDX-License-Identifier: MIT */
/* The record of a build: what the shards have, and the positions from which its builder needs the lanes. */
#include "shard/generations/build_internal.h"

#include <string.h>
#include "base/number.h"

extern const char embedded_build_record[];

void builder_note(struct builder *b)
{
    memcpy(b->noted, b->at, sizeof(b->noted));
}

void builder_go_back(struct builder *b)
{
    memcpy(b->at, b->written, sizeof(b->at));
}

enum err builder_record(struct builder *b, const void *rows, size_t length, struct error *e)
{
    long long result = 0;
    enum err code = builder_check_not_recreated(b, e);
    if (code != ERR_OK)
        return code;
    builder_script(b, embedded_build_record);
    script_number(&b->fold.call, b->fold.slot);
    fold_add_token(&b->fold, &b->fold.call);
    script_number(&b->fold.call, b->shape.number);
    script_bytes(&b->fold.call, rows, length);
    script_buffer(&b->fold.call, &b->lanes_text);
    script_buffer(&b->fold.call, &b->eras_text);
    script_incarnation(&b->fold.call, b->home);
    script_number(&b->fold.call, b->keys);
    for (unsigned i = 0; i < b->lane_count; i++) {
        char id[LOG_ID_TEXT_MAX];
        script_number(&b->fold.call, b->lane[i].number);
        script_bytes(&b->fold.call, id, log_id_format(b->noted[i].id, id));
        log_position_format(&b->noted[i], script_argument(&b->fold.call));
    }
    code = builder_run(b, &result, e);
    return code == ERR_OK && result != 1 ? builder_fenced(b, e) : code;
}

static bool is_text(const redisReply *value, const struct buffer *text)
{
    return value->len == text->length && memcmp(value->str, text->data, text->length) == 0;
}

/* A field of the record; NULL: the record does not have it. */
static const redisReply *field(const redisReply *record, const char *name)
{
    for (size_t i = 0; i + 1 < record->elements; i += 2)
        if (strcmp(record->element[i]->str, name) == 0)
            return record->element[i + 1];
    return NULL;
}

static enum err take_position(struct builder *b, const redisReply *record, unsigned lane, struct error *e)
{
    char name[16] = "at.";
    uint64_t number;
    *number_write(name + 3, lane) = '\0';
    const redisReply *value = field(record, name);
    const char *blank = value == NULL ? NULL : memchr(value->str, ' ', value->len);
    if (blank == NULL || !number_u64(value->str, (size_t)(blank - value->str), &number) ||
        number != b->lane[lane].number)
        return error_set(e, ERR_PARSE, "field %s is not \"<lane number> <position>\"", name);
    return log_position_parse(&b->at[lane], blank + 1, value->len - (size_t)(blank + 1 - value->str), e);
}

/* The metadata node is the one that the record was made at, in the same history: what others have done since
 * it would say. Or its slot has moved to another master, which the view accepts. */
static bool is_of_this_home(const struct builder *b, const redisReply *home)
{
    uint64_t id = 0;
    return home != NULL && number_hex64(home->str, home->len, &id) &&
           (id == b->home || trusted_contains(&b->eras, b->home));
}

/* @b has lanes and eras of the view. If the record has others, or the view went back, the build begins again:
 * nothing tells what another builder has done with the shards meanwhile (RECORD_OF_ANY_HOME of near.pml). */
static enum err take_record(struct builder *b, const redisReply *record, struct buffer *rows, struct error *e)
{
    const redisReply *number = field(record, "generation"), *lanes = field(record, "lanes"),
                     *eras = field(record, "eras"), *added = field(record, "rows"),
                     *keys = field(record, "keys"), *home = field(record, "home");
    uint64_t generation = 0;
    enum err code = ERR_OK;
    if (number == NULL || lanes == NULL || eras == NULL || added == NULL ||
        !number_u64(number->str, number->len, &generation))
        return error_set(e, ERR_PARSE, "generation, lanes, eras or rows is missing");
    if (generation != b->shape.number || !is_text(lanes, &b->lanes_text) || !is_text(eras, &b->eras_text) ||
        !is_of_this_home(b, home))
        return ERR_OK;
    for (unsigned i = 0; i < b->lane_count && code == ERR_OK; i++)
        code = take_position(b, record, i, e);
    if (code == ERR_OK && (keys == NULL || !number_u64(keys->str, keys->len, &b->keys)))
        code = error_set(e, ERR_PARSE, "keys is missing, or no number");
    if (code != ERR_OK)
        return code;
    buffer_append(rows, added->str, added->len);
    memcpy(b->written, b->at, sizeof(b->written));
    b->anew = false;
    return buffer_failed(rows) ? error_set(e, ERR_NOMEM, "no memory for a record") : ERR_OK;
}

static enum err load_record(struct builder *b, struct buffer *rows, struct error *e)
{
    struct key_name key;
    SCOPED(scope_reply) redisReply *r = NULL;
    names_filter_key(b->fold.names, "build", &key);
    enum err code = sync_client_filter_command(b->fold.redis, b->fold.names, "build", "HGETALL %b", &r, e);
    if (code != ERR_OK)
        return code;
    if (r->type != REDIS_REPLY_ARRAY)
        code = error_set(e, ERR_PARSE, "the reply is not a hash");
    else if (r->elements > 0)
        code = take_record(b, r, rows, e);
    return code == ERR_PARSE ? error_prefix(e, code, "%s", key.text) : code;
}

static enum err find_build(struct builder *b, struct error *e)
{
    const struct log_view *v = &b->view;
    const struct generation *g = &v->slot[1 - v->current].shape;
    if (g->number == 0 || g->built || g->number < v->slot[v->current].shape.number)
        return error_set(e, ERR_NOT_FOUND, "no generation is being built");
    b->shape = *g;
    enum err code = builder_take_lanes(b, e);
    return code == ERR_OK ? builder_settle_shape(b, e) : code;
}

/* Read the record after the take-over: then the former builder records nothing any more. */
enum err builder_resume(struct builder *b, struct buffer *rows, struct error *e)
{
    enum err code = builder_note_home(b, e);
    if (code == ERR_OK)
        code = builder_load_view(b, e);
    if (code == ERR_OK)
        code = find_build(b, e);
    if (code != ERR_OK)
        return code;
    code = builder_take_over(b, e);
    if (fold_is_lost(code))
        return ERR_OK;
    return code == ERR_OK ? load_record(b, rows, e) : code;
}
