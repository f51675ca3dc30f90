/* SPDX-License-Identifier: MIT */
#include "shard/view/fold.h"

#include <inttypes.h>
#include <stdio.h>
#include "base/random.h"
#include "shard/view/log_view.h"

extern const char embedded_fold_adopt[], embedded_fold_draw[], embedded_fold_store[], embedded_fold_write[];

enum { HEADER_SUM_BYTES = 8 };

void fold_init(struct fold *f, struct link *l, const struct names *names, uint64_t generation)
{
    *f = (struct fold){
        .link = l, .names = names, .slot = (unsigned)(generation % 2), .generation = generation};
}

void fold_fini(struct fold *f)
{
    script_fini(&f->call);
}

static void filter_key(struct fold *f, const char *what)
{
    struct key_name key;
    names_filter_key(f->names, what, &key);
    script_key(&f->call, &key);
}

enum err fold_draw(struct fold *f, uint64_t at_least, struct error *e)
{
    char random[17];
    long long number = 0;
    uint64_t part = random_u64();
    (void)snprintf(random, sizeof(random), "%016" PRIx64, part);
    script_begin(&f->call, embedded_fold_draw);
    filter_key(f, "view");
    filter_key(f, "token");
    script_incarnation(&f->call, f->names->incarnation);
    script_number(&f->call, f->slot);
    script_number(&f->call, f->generation);
    script_number(&f->call, at_least);
    script_text(&f->call, random);
    enum err code = script_run(&f->call, f->link, link_home(f->link, f->names), &number, e);
    if (code == ERR_OK && number <= 0)
        code = error_set(e, ERR_NOT_FOUND, "the view has no generation %" PRIu64 " any more", f->generation);
    if (code == ERR_OK)
        f->token = (struct writer_token){.number = (uint64_t)number, .random = part};
    return code;
}

/* The header of the shard as this writer's. */
static void header_of(const struct fold *f, const struct header *h, uint8_t *out)
{
    struct header mine = *h;
    mine.writer = f->token;
    header_encode(&mine, out);
}

static void shard_key(struct fold *f, const struct header *h, struct key_name *out)
{
    names_log_shard(f->names, (struct shard_id){h->generation, h->layer, h->shard}, out);
}

enum err fold_adopt(struct fold *f, unsigned where, const struct header *h, uint64_t *later, struct error *e)
{
    uint8_t header[BLOCK_BITS_MAX / 8];
    struct key_name key;
    long long result = 0;
    *later = 0;
    header_of(f, h, header);
    shard_key(f, h, &key);
    script_begin(&f->call, embedded_fold_adopt);
    script_key(&f->call, &key);
    script_bytes(&f->call, header, HEADER_BYTES);
    script_number(&f->call, HEADER_WRITER_AT);
    script_number(&f->call, HEADER_WRITER_BYTES);
    script_number(&f->call, HEADER_BYTES - HEADER_SUM_BYTES);
    enum err code = script_run(&f->call, f->link, where, &result, e);
    if (code != ERR_OK || result == -1)
        return code;
    if (result == -2)
        return error_set(e, ERR_LOST, "%.*s: the shard does not exist", (int)key.length, key.text);
    if (result < 0)
        return error_set(e, ERR_LOST, "%.*s is no shard of this generation", (int)key.length, key.text);
    *later = (uint64_t)result;
    return error_set(e, ERR_FENCED, "%.*s: token %lld is later than %" PRIu64, (int)key.length, key.text,
                     result, f->token.number);
}

void fold_begin(struct fold *f, const struct header *h)
{
    uint8_t header[BLOCK_BITS_MAX / 8];
    struct key_name key;
    header_of(f, h, header);
    shard_key(f, h, &key);
    script_begin(&f->call, embedded_fold_write);
    script_key(&f->call, &key);
    script_bytes(&f->call, header, HEADER_BYTES);
}

void fold_piece(struct fold *f, uint64_t offset, const void *bytes, size_t length)
{
    script_number(&f->call, offset);
    script_bytes(&f->call, bytes, length);
}

enum err fold_send(struct fold *f, unsigned where, struct error *e)
{
    return script_send(&f->call, f->link, where, e);
}

enum err fold_reply(struct fold *f, unsigned where, struct error *e)
{
    long long written = 0;
    enum err code = script_reply(f->link, where, &written, e);
    if (code == ERR_OK && written != 1)
        code = error_set(e, ERR_FENCED, "a shard of generation %" PRIu64 " has another writer by now",
                         f->generation);
    return code;
}

/* The answer to fold_store: an id, nothing, or 0. */
static enum err take_bound(struct fold *f, const redisReply *r, unsigned where, bool *some,
                           struct log_id *trim, struct error *e)
{
    if (r->type == REDIS_REPLY_ERROR)
        return link_refusal(f->link, where, r, e);
    if (r->type == REDIS_REPLY_INTEGER)
        return error_set(e, ERR_FENCED,
                         "generation %" PRIu64 " has another writer, or its lane or era was replaced",
                         f->generation);
    *some = r->type == REDIS_REPLY_STRING && r->len > 0;
    if (*some && !log_id_parse(trim, r->str, r->len))
        return error_set(e, ERR_PARSE, "\"%.60s\" is no id of an entry", r->str);
    return ERR_OK;
}

enum err fold_store(struct fold *f, unsigned lane, uint64_t lane_number, uint64_t era,
                    const struct log_position *p, bool *some, struct log_id *trim, struct error *e)
{
    char token[LOG_TOKEN_TEXT_MAX], id[LOG_ID_TEXT_MAX];
    struct buffer position = {0};
    redisReply *reply;
    unsigned home = link_home(f->link, f->names);
    *some = false;
    log_token_text(&f->token, token);
    (void)log_id_format(p->id, id);
    log_position_format(p, &position);
    script_begin(&f->call, embedded_fold_store);
    filter_key(f, "view");
    script_number(&f->call, f->slot);
    script_text(&f->call, token);
    script_number(&f->call, lane);
    script_number(&f->call, lane_number);
    script_text(&f->call, id);
    script_bytes(&f->call, position.data, position.length);
    script_incarnation(&f->call, era); /* 16 digits, as the view has them */
    enum err code = buffer_failed(&position) ? error_set(e, ERR_NOMEM, "no memory for a position")
                                             : script_send(&f->call, f->link, home, e);
    buffer_fini(&position);
    if (code == ERR_OK)
        code = link_reply(f->link, home, &reply, e);
    if (code != ERR_OK)
        return code;
    code = take_bound(f, reply, home, some, trim, e);
    freeReplyObject(reply);
    return code;
}
