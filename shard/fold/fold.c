/* SPDX-License-Identifier: MIT */
#include "shard/fold/fold.h"

#include <inttypes.h>
#include <string.h>
#include "base/random.h"
#include "shard/view/log_view.h"

extern const char embedded_fold_adopt[], embedded_fold_count[], embedded_fold_draw[], embedded_fold_store[],
    embedded_fold_write[];

enum { HEADER_SUM_BYTES = 8 };

void fold_init(struct fold *f, struct sync_client *l, const struct names *names, uint64_t generation)
{
    *f = (struct fold){
        .redis = l, .names = names, .slot = (unsigned)(generation % 2), .generation = generation};
}

void fold_fini(struct fold *f)
{
    script_fini(&f->call);
}

enum err fold_place(struct fold *f, const struct generation *shape, struct error *e)
{
    const struct names *n = f->names;
    f->shape = shape;
    f->tag = names_tag(n, shape->number);
    return placement_resolve(&f->placement, n, shape, sync_client_nodes(f->redis), e);
}

struct header fold_header(const struct fold *f, unsigned layer, uint32_t shard)
{
    return header_of_shard(f->shape, f->names->incarnation, f->tag, layer, shard);
}

enum err fold_fenced(const struct fold *f, const char *more, struct error *e)
{
    return error_set(e, ERR_FENCED, "another process has taken over the shards of generation %" PRIu64 "%s",
                     f->generation, more);
}

/* @was: the token that the view must have; "": any. */
static enum err draw(struct fold *f, uint64_t at_least, const char *was, struct error *e)
{
    long long number = 0;
    uint64_t part = random_u64();
    script_begin_view(&f->call, embedded_fold_draw, f->names);
    script_filter_key(&f->call, f->names, "token");
    script_incarnation(&f->call, f->names->incarnation);
    script_number(&f->call, f->slot);
    script_number(&f->call, f->generation);
    script_number(&f->call, at_least);
    script_incarnation(&f->call, part); /* 16 digits */
    script_text(&f->call, was);
    enum err code = script_run(&f->call, f->redis, sync_client_home(f->redis, f->names), &number, e);
    if (code == ERR_OK && number < 0)
        code = fold_fenced(f, "", e);
    else if (code == ERR_OK && number == 0)
        code = error_set(e, ERR_NOT_FOUND, "the view has no generation %" PRIu64 " any more", f->generation);
    if (code == ERR_OK)
        f->token = (struct writer_token){.number = (uint64_t)number, .random = part};
    return code;
}

enum err fold_draw(struct fold *f, uint64_t at_least, struct error *e)
{
    return draw(f, at_least, "", e);
}

enum err fold_draw_next(struct fold *f, uint64_t at_least, struct error *e)
{
    char was[LOG_TOKEN_TEXT_MAX];
    log_token_text(&f->token, was);
    return draw(f, at_least, was, e);
}

void fold_add_token(const struct fold *f, struct script_call *c)
{
    char token[LOG_TOKEN_TEXT_MAX];
    log_token_text(&f->token, token);
    script_text(c, token);
}

/* The header of the shard with this writer's token. */
static struct header own_header(const struct fold *f, unsigned layer, uint32_t shard)
{
    struct header h = fold_header(f, layer, shard);
    h.writer = f->token;
    return h;
}

void fold_key(const struct fold *f, unsigned layer, uint32_t shard, struct key_name *out)
{
    names_log_shard(f->names, (struct shard_id){f->generation, layer, shard}, out);
}

static uint32_t block_bytes(const struct fold *f, unsigned layer)
{
    return f->shape->layers[layer].geometry.block_bits / 8;
}

/* Begin a script whose key is the shard, and whose first argument is its header. */
static void begin(struct fold *f, const char *script, unsigned layer, uint32_t shard)
{
    uint8_t header[BLOCK_BITS_MAX / 8];
    struct key_name key;
    const struct header own = own_header(f, layer, shard);
    header_encode(&own, header);
    fold_key(f, layer, shard, &key);
    script_begin(&f->call, script);
    script_key(&f->call, &key);
    script_bytes(&f->call, header, HEADER_BYTES);
}

bool fold_is_lost(enum err code)
{
    return code == ERR_LOST || code == ERR_WRONG_TYPE || code == ERR_FORMAT;
}

enum err fold_refused(struct fold *f, unsigned layer, uint32_t shard, const redisReply *r, struct error *e)
{
    struct key_name key;
    fold_key(f, layer, shard, &key);
    if (strncmp(r->str, "WRONGTYPE", strlen("WRONGTYPE")) == 0)
        return header_refused(key.text, r->str, e);
    return error_prefix(e, sync_client_refusal(f->redis, fold_where(f, layer, shard), r, e), "shard %s",
                        key.text);
}

/* Judge what was found instead of the shard. */
static enum err judge(struct fold *f, unsigned layer, uint32_t shard, const redisReply *r, struct error *e)
{
    struct key_name key;
    struct header found;
    const struct header own = own_header(f, layer, shard);
    fold_key(f, layer, shard, &key);
    enum err code = header_judge(&found, (const uint8_t *)r->str, r->len, &own, f->shape->layers[layer].token,
                                 key.text, e);
    if (code == ERR_OK) /* its token is an older one: the shard went back */
        code = error_set(e, ERR_FENCED, "shard %s has token %" PRIu64 ", not %" PRIu64, key.text,
                         found.writer.number, f->token.number);
    return code;
}

enum err fold_enter(struct fold *f, unsigned layer, uint32_t shard, struct error *e)
{
    begin(f, embedded_fold_adopt, layer, shard);
    script_number(&f->call, HEADER_WRITER_AT);
    script_number(&f->call, HEADER_WRITER_BYTES);
    script_number(&f->call, HEADER_BYTES - HEADER_SUM_BYTES);
    script_number(&f->call, f->shape->layers[layer].token);
    return fold_send(f, layer, shard, e);
}

enum err fold_entered(struct fold *f, unsigned layer, uint32_t shard, uint64_t *later, struct error *e)
{
    struct key_name key;
    SCOPED(scope_reply) redisReply *r = NULL;
    *later = 0;
    enum err code = sync_client_reply(f->redis, fold_where(f, layer, shard), &r, e);
    if (code != ERR_OK)
        return code;
    fold_key(f, layer, shard, &key);
    if (r->type == REDIS_REPLY_ERROR)
        code = fold_refused(f, layer, shard, r, e);
    else if (r->type == REDIS_REPLY_STRING)
        code = judge(f, layer, shard, r, e);
    else if (r->type != REDIS_REPLY_INTEGER)
        code = error_set(e, ERR_REFUSED, "shard %s: unexpected reply to a script", key.text);
    else if (r->integer != -1) {
        *later = (uint64_t)r->integer;
        code = error_set(e, ERR_FENCED, "shard %s: token %lld is later than %" PRIu64, key.text, r->integer,
                         f->token.number);
    }
    return code;
}

enum err fold_adopt(struct fold *f, unsigned layer, uint32_t shard, uint64_t *later, struct error *e)
{
    enum err code = fold_enter(f, layer, shard, e);
    return code == ERR_OK ? fold_entered(f, layer, shard, later, e) : code;
}

enum err fold_read(struct fold *f, unsigned layer, uint32_t shard, uint64_t offset, uint32_t length,
                   struct error *e)
{
    struct key_name key;
    fold_key(f, layer, shard, &key);
    return sync_client_send(f->redis, fold_where(f, layer, shard), e, "GETRANGE %s %" PRIu64 " %" PRIu64,
                            key.text, offset, offset + length - 1);
}

void fold_begin(struct fold *f, unsigned layer, uint32_t shard)
{
    begin(f, embedded_fold_write, layer, shard);
}

void fold_piece(struct fold *f, uint64_t offset, const void *bytes, size_t length)
{
    script_number(&f->call, offset);
    script_bytes(&f->call, bytes, length);
}

void fold_batch(struct fold *f, unsigned layer, const struct dirty_batch *b)
{
    const uint8_t *bytes = b->bytes;
    fold_begin(f, layer, b->shard);
    for (unsigned p = 0; p < b->count; p++) {
        fold_piece(f, (uint64_t)block_bytes(f, layer) + b->piece[p].offset, bytes, b->piece[p].length);
        bytes += b->piece[p].length;
    }
}

enum err fold_send(struct fold *f, unsigned layer, uint32_t shard, struct error *e)
{
    return script_send(&f->call, f->redis, fold_where(f, layer, shard), e);
}

enum err fold_reply(struct fold *f, unsigned layer, uint32_t shard, struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code = sync_client_reply(f->redis, fold_where(f, layer, shard), &r, e);
    if (code != ERR_OK)
        return code;
    if (r->type == REDIS_REPLY_ERROR)
        return fold_refused(f, layer, shard, r, e);
    return r->type == REDIS_REPLY_STRING ? judge(f, layer, shard, r, e) : ERR_OK;
}

enum err fold_get(struct fold *f, unsigned layer, uint32_t shard, uint32_t block, struct error *e)
{
    uint32_t bytes = block_bytes(f, layer);
    return fold_read(f, layer, shard, (block + UINT64_C(1)) * bytes, bytes, e); /* behind the header */
}

enum err fold_got(struct fold *f, unsigned layer, uint32_t shard, uint32_t block, uint8_t *out,
                  struct error *e)
{
    struct key_name key;
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code = sync_client_reply(f->redis, fold_where(f, layer, shard), &r, e);
    if (code != ERR_OK)
        return code;
    fold_key(f, layer, shard, &key);
    const uint8_t *bytes = (const uint8_t *)r->str;
    if (r->type == REDIS_REPLY_ERROR)
        code = fold_refused(f, layer, shard, r, e);
    else if (r->type != REDIS_REPLY_STRING || r->len != block_bytes(f, layer) ||
             (bytes[0] << 8 | bytes[1]) != f->tag)
        code = error_set(e, ERR_LOST, "shard %s: its block %" PRIu32 " is missing, or has not its tag",
                         key.text, block);
    else
        memcpy(out, bytes, r->len);
    return code;
}

enum err fold_count(struct fold *f, const struct log_counted *at, unsigned lanes, uint64_t keys,
                    struct error *e)
{
    char id[LOG_ID_TEXT_MAX];
    long long stored = 0;
    script_begin_view(&f->call, embedded_fold_count, f->names);
    script_number(&f->call, f->slot);
    fold_add_token(f, &f->call);
    script_number(&f->call, f->generation);
    script_number(&f->call, keys);
    for (unsigned i = 0; i < lanes; i++) {
        log_lane_text(at[i].lane, script_argument(&f->call));
        script_bytes(&f->call, id, log_id_format(at[i].id, id));
    }
    enum err code = script_run(&f->call, f->redis, sync_client_home(f->redis, f->names), &stored, e);
    return code == ERR_OK && stored != 1 ? fold_fenced(f, ", or the era of a lane has changed", e) : code;
}

/* Take one of the ids that fold_store.lua returns. */
static enum err take_bound(const redisReply *r, struct fold_bound *out, struct error *e)
{
    out->some = r->len > 0;
    if (r->type != REDIS_REPLY_STRING || (out->some && !log_id_parse(&out->id, r->str, r->len)))
        return error_set(e, ERR_PARSE, "not the id of an entry: \"%.60s\"", r->str);
    return ERR_OK;
}

static enum err take_bounds(struct fold *f, const redisReply *r, unsigned where, struct fold_bound *needed,
                            struct fold_bound *over_hold, struct error *e)
{
    if (r->type == REDIS_REPLY_ERROR)
        return sync_client_refusal(f->redis, where, r, e);
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2)
        return fold_fenced(f, ", or the lane or its era was replaced", e);
    enum err code = take_bound(r->element[0], needed, e);
    return code == ERR_OK ? take_bound(r->element[1], over_hold, e) : code;
}

enum err fold_store(struct fold *f, unsigned lane, uint64_t lane_number, uint64_t era,
                    const struct log_position *p, unsigned layers, bool is_long, struct fold_bound *needed,
                    struct fold_bound *over_hold, struct error *e)
{
    char id[LOG_ID_TEXT_MAX];
    SCOPED(scope_reply) redisReply *reply = NULL;
    unsigned home = sync_client_home(f->redis, f->names);
    *needed = *over_hold = (struct fold_bound){0};
    script_begin_view(&f->call, embedded_fold_store, f->names);
    script_number(&f->call, f->slot);
    fold_add_token(f, &f->call);
    script_number(&f->call, lane);
    script_number(&f->call, lane_number);
    script_bytes(&f->call, id, log_id_format(p->id, id));
    struct buffer *position = script_argument(&f->call);
    log_position_format(p, position);
    buffer_printf(position, " %u", layers);
    script_incarnation(&f->call, era); /* 16 digits, as the view has them */
    script_number(&f->call, is_long);
    enum err code = script_ask(&f->call, f->redis, home, &reply, e);
    return code == ERR_OK ? take_bounds(f, reply, home, needed, over_hold, e) : code;
}
