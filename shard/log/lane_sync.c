/* SPDX-License-Identifier: MIT */
/* The happy path is a round: the commands in one write, their replies, and what they prove. Possible failure
 * modes are: the connection breaks (what was sent may be executed later), the lane's slot has moved (the
 * round is made again at its new node, whose era is another one), the lane is missing, trimmed, forked, or no
 * lane at all. */
#include "shard/log/lane_sync.h"

#include <string.h>
#include "shard/redis/script_call.h"

enum {
    REDIRECTIONS_MAX = 16,
    TRIM_AT_ONCE = 10000 /* entries; XTRIM removes whole nodes, so a few less */
};

extern const char embedded_lane_mark[], embedded_lane_trim[];

struct round {
    struct sync_client *redis;
    const struct lane *lane;
    struct lane_commands commands;
    struct tail tail;
    const struct log_position *from; /* of a tail read: the entry at @begin; NULL: it is a look */
    struct log_id begin;
    unsigned limit;
    struct slot_redirect redirect;
};

static void round_fini(struct round *r)
{
    lane_commands_fini(&r->commands);
    tail_fini(&r->tail);
}

static enum err take(struct round *r, enum lane_command kind, const redisReply *reply, struct error *e)
{
    switch (kind) {
    case LANE_ADD: /* no round has one */
        return ERR_OK;
    case LANE_LENGTH:
        return tail_take_length(&r->tail, r->lane, reply, e);
    case LANE_RANGE:
        return tail_take_range(&r->tail, r->lane, r->from, reply, e);
    case LANE_INFO:
        return tail_take_info(&r->tail, r->lane, reply, e);
    }
    return ERR_OK;
}

/* Take all replies, also after an error. Returns the first error. */
static enum err take_all(struct round *r, struct error *e)
{
    enum err first = ERR_OK;
    for (unsigned i = 0; i < r->commands.count; i++) {
        SCOPED(scope_reply) redisReply *reply = NULL;
        struct error why = {""};
        enum err code = sync_client_reply(r->redis, r->lane->where, &reply, &why);
        if (code == ERR_OK)
            code = take(r, r->commands.kind[i], reply, &why);
        if (code != ERR_OK && first == ERR_OK)
            first = error_set(e, code, "%s", why.text);
    }
    return first;
}

/* One write and its replies. */
static enum err make_round(struct round *r, bool with_length, struct error *e)
{
    struct lane_commands *c = &r->commands;
    lane_commands_clear(c);
    tail_clear(&r->tail);
    lane_commands_range(c, r->lane, r->begin, r->limit, with_length);
    if (buffer_failed(&c->bytes))
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = sync_client_append_together(r->redis, r->lane->where, &r->redirect, c->count,
                                                c->bytes.data, c->end, NULL, e);
    return code == ERR_OK ? take_all(r, e) : code;
}

/* As make_round(), at the node that has the lane's slot. */
static enum err go_round(struct round *r, bool with_length, struct error *e)
{
    enum err code = ERR_OK;
    r->redirect = (struct slot_redirect){0};
    for (unsigned i = 0; i < REDIRECTIONS_MAX; i++) {
        code = make_round(r, with_length, e);
        if (r->redirect.port == 0)
            return code;
    }
    return code;
}

/* --- reading --- */

static enum err apply_all(struct round *r, struct log_position *at, lane_apply_fn *apply, void *arg,
                          struct error *e)
{
    struct tail_record record;
    while (tail_next(&r->tail, &record)) {
        enum err code = apply == NULL ? ERR_OK : apply(arg, &record, e);
        if (code != ERR_OK)
            return code;
        log_position_set(at, record.id, record.bytes, record.length);
    }
    return ERR_OK;
}

static enum err read_round(struct round *r, struct log_position *at, lane_apply_fn *apply, void *arg,
                           enum tail_state *state, struct error *e)
{
    enum err code = go_round(r, false, e);
    if (code == ERR_OK && tail_state(&r->tail, r->lane) == TAIL_EMPTY)
        code = go_round(r, true, e);
    if (tail_is_other_era(&r->tail, r->lane)) {
        *state = TAIL_ERA; /* errors of such a node, for example a former master's READONLY, do not count */
        return ERR_OK;
    }
    if (code != ERR_OK)
        return code;
    *state = tail_state(&r->tail, r->lane);
    return *state == TAIL_COMPLETE || *state == TAIL_MORE ? apply_all(r, at, apply, arg, e) : ERR_OK;
}

enum err lane_read(struct sync_client *l, const struct lane *lane, struct log_position *at,
                   lane_apply_fn *apply, void *arg, enum tail_state *state, struct error *e)
{
    struct log_position from = *at; /* @at moves while the entries are applied */
    SCOPED(round_fini)
    struct round r = {.redis = l, .lane = lane, .from = &from, .begin = from.id, .limit = LANE_RANGE_COUNT};
    return read_round(&r, at, apply, arg, state, e);
}

static enum err show_all(struct round *r, struct lane_page *page, lane_apply_fn *apply, void *arg,
                         struct error *e)
{
    struct tail_record record;
    enum err code = ERR_OK;
    while (code == ERR_OK && tail_next(&r->tail, &record)) {
        page->last = record.id;
        code = apply == NULL ? ERR_OK : apply(arg, &record, e);
    }
    return code;
}

enum err lane_look(struct sync_client *l, const struct lane *lane, struct log_id from, unsigned count,
                   lane_apply_fn *apply, void *arg, struct lane_page *page, struct error *e)
{
    SCOPED(round_fini) struct round r = {.redis = l, .lane = lane, .begin = from, .limit = count};
    enum err code = go_round(&r, true, e);
    *page = (struct lane_page){
        .era = r.tail.era, .length = r.tail.length, .more = r.tail.count == count, .last = from};
    bool counts = page->era != 0 && (lane->era == 0 || lane->era == page->era);
    if (r.tail.has_info && !counts)
        code = ERR_OK; /* errors of such a node do not count either */
    else if (code == ERR_OK)
        code = show_all(&r, page, apply, arg, e);
    return code;
}

/* --- appending --- */

static enum err take_put(const struct lane *lane, const redisReply *reply, struct log_id *id, struct error *e)
{
    return reply->type == REDIS_REPLY_NIL ? error_set(e, ERR_LOST, "lane %s is missing", lane->key.text)
                                          : lane_take_id(lane, reply, id, e);
}

static enum err put_reply(struct sync_client *l, const struct lane *lane, struct log_id *id, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_reply(l, lane->where, &reply, e);
    return code == ERR_OK ? take_put(lane, reply, id, e) : code;
}

enum err lane_put(struct sync_client *l, const struct lane *lane, struct lane_put *put, unsigned count,
                  struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < count && code == ERR_OK; i++) {
        put[i].id = (struct log_id){0};
        code = sync_client_send(l, lane->where, e, "XADD %s NOMKSTREAM * e %b", lane->key.text, put[i].bytes,
                                put[i].length);
    }
    for (unsigned i = 0; i < count && code == ERR_OK; i++)
        code = put_reply(l, lane, &put[i].id, e);
    if (code != ERR_OK)
        sync_client_forget(l); /* drop the replies that were not read */
    return code;
}

enum err lane_make(struct sync_client *l, struct lane *lane, const uint8_t writer[LOG_WRITER_BYTES],
                   uint64_t sequence, struct log_position *anchor, struct error *e)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    size_t length = log_entry_encode(bytes, writer, sequence, NULL, 0);
    SCOPED(round_fini) struct round r = {.redis = l, .lane = lane, .from = anchor, .limit = LANE_RANGE_COUNT};
    struct log_id id = {0};
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code =
        sync_client_ask(l, lane->where, &reply, e, "XADD %s * e %b", lane->key.text, bytes, length);
    if (code == ERR_OK)
        code = lane_take_id(lane, reply, &id, e);
    if (code == ERR_OK) {
        log_position_set(anchor, id, bytes, length);
        r.begin = id;
        code = go_round(&r, false, e);
    }
    if (code == ERR_OK)
        lane->era = r.tail.era;
    if (code == ERR_OK && (lane->era == 0 || !r.tail.is_anchored))
        code = error_set(e, ERR_UNREACHABLE, "lane %s: the node is no master, or lost the anchor at once",
                         lane->key.text);
    return code;
}

enum err lane_notice(struct sync_client *l, const struct lane *lane, const uint8_t writer[LOG_WRITER_BYTES],
                     struct error *e)
{
    struct lane_put put;
    put.length = log_entry_encode(put.bytes, writer, 0, NULL, 0);
    return lane_put(l, lane, &put, 1, e);
}

enum err lane_mark_full(struct sync_client *l, const struct lane *lane, uint64_t generation, struct error *e)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    SCOPED(script_fini) struct script_call call = {0};
    struct log_id id;
    SCOPED(scope_reply) redisReply *reply = NULL;
    script_begin(&call, embedded_lane_mark);
    script_key(&call, &lane->key);
    script_bytes(&call, bytes, log_entry_encode_full(bytes, generation));
    script_incarnation(&call, lane->era); /* 16 digits */
    enum err code = script_ask(&call, l, lane->where, &reply, e);
    if (code != ERR_OK)
        return code;
    return reply->type == REDIS_REPLY_INTEGER
               ? error_set(e, ERR_FENCED, "lane %s: its node is in another era", lane->key.text)
               : take_put(lane, reply, &id, e);
}

enum err lane_mark_layer(struct sync_client *l, const struct lane *lane, uint64_t generation, unsigned layer,
                         struct error *e)
{
    struct lane_put put;
    put.length = log_entry_encode_layer(put.bytes, generation, layer);
    return lane_put(l, lane, &put, 1, e);
}

static enum err take_trimmed(const struct lane *lane, const redisReply *r, int64_t *gone, uint64_t *bytes,
                             struct error *e)
{
    if (r->type == REDIS_REPLY_ERROR)
        return lane_refusal(lane, r, e);
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 || r->element[0]->type != REDIS_REPLY_INTEGER ||
        r->element[1]->type != REDIS_REPLY_INTEGER)
        return error_set(e, ERR_PARSE, "lane %s: unexpected reply to a script", lane->key.text);
    *gone = r->element[0]->integer;
    *bytes = (uint64_t)r->element[1]->integer;
    return ERR_OK;
}

static enum err trim_once(struct sync_client *l, struct script_call *call, const struct lane *lane,
                          const struct log_mark *keep, int64_t *gone, uint64_t *bytes, struct error *e)
{
    char id[LOG_ID_TEXT_MAX];
    SCOPED(scope_reply) redisReply *r = NULL;
    script_begin(call, embedded_lane_trim);
    script_key(call, &lane->key);
    if (keep != NULL) {
        (void)log_id_format(keep->id, id);
        script_text(call, id);
        script_bytes(call, keep->head, sizeof(keep->head));
        script_number(call, TRIM_AT_ONCE);
        script_incarnation(call, lane->era); /* 16 digits */
    }
    enum err code = script_ask(call, l, lane->where, &r, e);
    return code == ERR_OK ? take_trimmed(lane, r, gone, bytes, e) : code;
}

enum err lane_trim(struct sync_client *l, const struct lane *lane, const struct log_mark *keep,
                   struct lane_trimmed *out, struct error *e)
{
    SCOPED(script_fini) struct script_call call = {0};
    int64_t gone = 0;
    *out = (struct lane_trimmed){.met = true};
    enum err code;
    do {
        code = trim_once(l, &call, lane, keep, &gone, &out->bytes, e);
        out->met = code == ERR_OK && gone >= 0;
        out->removed += out->met ? (uint64_t)gone : 0;
    } while (out->met && gone >= TRIM_AT_ONCE / 2);
    return code;
}

enum err lane_close(struct sync_client *l, const struct lane *lane, struct error *e)
{
    static const char missing[] = "ERR no such key";
    const char *key = lane->key.text;
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_ask(l, lane->where, &reply, e, "RENAME %s %s.closed", key, key);
    if (code == ERR_OK && reply->type == REDIS_REPLY_ERROR &&
        strncmp(reply->str, missing, sizeof(missing) - 1) != 0)
        code = lane_refusal(lane, reply, e);
    return code;
}

enum err lane_forget(struct sync_client *l, const struct lane *lane, struct error *e)
{
    const char *key = lane->key.text;
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_ask(l, lane->where, &reply, e, "UNLINK %s %s.closed", key, key);
    if (code == ERR_OK && reply->type == REDIS_REPLY_ERROR)
        code = lane_refusal(lane, reply, e);
    return code;
}
