/* SPDX-License-Identifier: MIT */
/* The lanes of a build: those of S0, where they ended then, and the entries after that. */
#include "shard/generations/build_internal.h"

#include <string.h>

enum err builder_take_lanes(struct builder *b, struct error *e)
{
    const struct log_view *v = &b->view;
    enum err code = ERR_OK;
    buffer_clear(&b->lanes_text);
    buffer_clear(&b->eras_text);
    log_lanes_text(v->lane, v->lane_count, &b->lanes_text);
    log_eras_text(&v->eras, &b->eras_text);
    b->lane_count = v->lane_count;
    memcpy(b->lane, v->lane, sizeof(b->lane));
    b->eras = v->eras;
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++)
        code = log_view_lane_at(v, b->fold.names, sync_client_nodes(b->fold.redis), i, &b->stream[i], e);
    if (code != ERR_OK)
        return code;
    return buffer_failed(&b->lanes_text) || buffer_failed(&b->eras_text)
               ? error_set(e, ERR_NOMEM, "no memory for a view")
               : ERR_OK;
}

static enum err read_on(struct builder *b, unsigned i, lane_apply_fn *apply, void *arg, struct error *e)
{
    const struct lane *lane = &b->stream[i];
    enum tail_state state = TAIL_MORE;
    enum err code = ERR_OK;
    while (code == ERR_OK && state == TAIL_MORE)
        code = lane_read(b->fold.redis, lane, &b->at[i], apply, arg, &state, e);
    if (code != ERR_OK || state == TAIL_COMPLETE)
        return code;
    b->anew = true;
    return error_set(e, ERR_LOST, "lane %s: %s: the build must begin anew", lane->key.text,
                     tail_state_name(state));
}

/* Read the last entry of a lane: any entry will do as a first position, and the tail read from it proves the
 * rest. */
static enum err find_last(struct builder *b, unsigned i, struct error *e)
{
    const struct lane *lane = &b->stream[i];
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code =
        sync_client_command(b->fold.redis, lane->where, &r, e, "XREVRANGE %s + - COUNT 1", lane->key.text);
    if (code != ERR_OK)
        return error_prefix(e, code, "lane %s", lane->key.text);
    const redisReply *entry = r->type == REDIS_REPLY_ARRAY && r->elements == 1 ? r->element[0] : NULL;
    const redisReply *fields = entry != NULL && entry->elements == 2 ? entry->element[1] : NULL;
    struct log_id id;
    if (entry == NULL)
        code = error_set(e, ERR_LOST, "lane %s is missing or empty", lane->key.text);
    else if (fields == NULL || fields->elements != 2 || fields->element[1]->len > LOG_ENTRY_BYTES_MAX ||
             !log_id_parse(&id, entry->element[0]->str, entry->element[0]->len))
        code = error_set(e, ERR_PARSE, "lane %s: its last entry is not an entry of this log", lane->key.text);
    else
        log_position_set(&b->at[i], id, fields->element[1]->str, fields->element[1]->len);
    return code;
}

enum err builder_find_end(struct builder *b, unsigned i, struct error *e)
{
    enum err code = find_last(b, i, e);
    return code == ERR_OK ? read_on(b, i, NULL, NULL, e) : code;
}

enum err builder_follow(struct builder *b, lane_apply_fn *apply, void *arg, struct error *e)
{
    enum err code = builder_check_not_recreated(b, e);
    for (unsigned i = 0; i < b->lane_count && code == ERR_OK; i++)
        code = read_on(b, i, apply, arg, e);
    return code;
}
