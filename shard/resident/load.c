/* SPDX-License-Identifier: MIT */
#include "shard/resident/load.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/info.h"

enum { REDIRECTIONS_MAX = 16 };

static struct bitmap *bitmap_of(const struct load *l)
{
    return l->resident->layer[l->layer];
}

static void name_of(const struct load *l, uint32_t shard, struct key_name *name)
{
    const struct shard_id id = {.generation = l->generation, .layer = l->layer, .shard = shard};
    names_log_shard(l->names, id, name);
}

enum err load_begin(struct load *l, struct error *e)
{
    assert(l->eras != NULL);
    l->next = l->first;
    l->offset = 0;
    l->failures = 0;
    return resident_load_begin(l->resident, l->layer, l->first, l->count, e);
}

/* --- asking --- */

void load_batch_fini(struct load_batch *b)
{
    buffer_fini(&b->commands);
}

static void put(struct load_batch *b, size_t argc, const char *const *argv, const size_t *lengths)
{
    buffer_command(&b->commands, argc, argv, lengths);
    b->end[b->count++] = b->commands.length;
}

static void put_piece(const struct load *l, struct load_batch *b, const struct load_piece *piece)
{
    uint32_t header = header_bytes(&bitmap_of(l)->geometry);
    struct key_name name;
    char from[16], to[16];
    name_of(l, piece->shard, &name);
    int n = snprintf(from, sizeof(from), "%u", piece->offset == 0 ? 0 : header + piece->offset);
    int m = snprintf(to, sizeof(to), "%u", header + piece->offset + piece->length - 1);
    const char *const argv[] = {"GETRANGE", name.text, from, to};
    const size_t lengths[] = {8, name.length, (size_t)n, (size_t)m};
    if (b->asking)
        put(b, 1, (const char *const[]){"ASKING"}, (const size_t[]){6});
    put(b, 4, argv, lengths);
}

static void format(const struct load *l, struct load_batch *b)
{
    buffer_clear(&b->commands);
    b->count = 0;
    b->taken = 0;
    b->asking = b->redirect.port != 0 && b->redirect.ask;
    for (unsigned i = 0; i < b->pieces; i++)
        put_piece(l, b, &b->piece[i]);
    put(b, 2, (const char *const[]){"INFO", "replication"}, (const size_t[]){4, 11});
}

/* The next piece of the current shard. */
static struct load_piece next_piece(struct load *l)
{
    uint32_t bytes = bitmap_of(l)->shard_bytes, left = bytes - l->offset;
    struct load_piece piece = {
        .shard = l->next, .offset = l->offset, .length = left < l->piece_bytes ? left : l->piece_bytes};
    l->offset += piece.length;
    if (l->offset == bytes) {
        l->next++;
        l->offset = 0;
    }
    return piece;
}

/* False: there is no shard left. */
static bool find_shard(struct load *l)
{
    while (l->next < l->first + l->count && !bitmap_is_loading(bitmap_of(l), l->next)) {
        l->next++; /* a piece of it has failed */
        l->offset = 0;
    }
    return l->next < l->first + l->count;
}

bool load_next(struct load *l, unsigned most, struct load_batch *b)
{
    b->pieces = 0;
    b->redirections = 0;
    b->redirect = (struct slot_redirect){0};
    while (b->pieces < most && b->pieces < LOAD_BATCH && find_shard(l)) {
        unsigned where = placement_where(l->placement, l->layer, l->next);
        if (b->pieces > 0 && where != b->where)
            break;
        b->where = where;
        b->piece[b->pieces++] = next_piece(l);
    }
    format(l, b);
    return b->pieces > 0;
}

/* --- taking --- */

static enum err check_header(const struct load *l, uint32_t shard, const uint8_t *bytes, size_t length,
                             const char *name, struct error *e)
{
    const struct bitmap *b = bitmap_of(l);
    const struct header expected = {.tag = b->tag,
                                    .incarnation = l->names->incarnation,
                                    .generation = l->generation,
                                    .writer = l->writer,
                                    .layer = l->layer,
                                    .shard = shard,
                                    .blocks = b->geometry.blocks,
                                    .block_bits = (uint16_t)b->geometry.block_bits,
                                    .hashes = (uint16_t)b->geometry.hashes};
    struct header found;
    enum err code = header_decode(&found, bytes, length, name, e);
    if (code == ERR_OK)
        code = header_check(&found, &expected, name, e);
    return code == ERR_OK ? header_check_made(&found, l->made, name, e) : code;
}

/* The error of a reply that is no string. */
static enum err refusal(const redisReply *reply, const char *name, struct error *e)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return error_set(e, ERR_REFUSED, "shard %s: GETRANGE gave no string", name);
    if (strncmp(reply->str, "WRONGTYPE", 9) == 0)
        return error_set(e, ERR_WRONG_TYPE, "shard %s is no string: delete or rename the foreign key", name);
    return error_set(e, slots_error_passes(reply->str) ? ERR_UNREACHABLE : ERR_REFUSED, "shard %s: %s", name,
                     reply->str);
}

static enum err take(struct load *l, const struct load_piece *piece, const redisReply *reply,
                     const char *name, struct error *e)
{
    struct bitmap *b = bitmap_of(l);
    if (reply == NULL)
        return error_set(e, ERR_UNREACHABLE, "shard %s: its node did not answer", name);
    if (reply->type != REDIS_REPLY_STRING)
        return refusal(reply, name, e);
    const uint8_t *bytes = (const uint8_t *)reply->str;
    uint32_t header = piece->offset == 0 ? header_bytes(&b->geometry) : 0;
    enum err code = ERR_OK;
    if (piece->offset == 0)
        code = check_header(l, piece->shard, bytes, reply->len, name, e);
    if (code == ERR_OK && reply->len != header + piece->length)
        code = error_set(e, ERR_LOST, "shard %s is cut: %zu bytes at %u, expected %u", name, reply->len,
                         piece->offset, header + piece->length);
    if (code == ERR_OK) {
        code = resident_load_piece(l->resident, l->layer, piece->shard, piece->offset, bytes + header,
                                   piece->length, e);
        if (code != ERR_OK)
            code = error_prefix(e, code, "shard %s", name);
    }
    return code;
}

static bool is_loading(const struct load *l, uint32_t shard)
{
    return bitmap_is_loading(bitmap_of(l), shard); /* false: an earlier piece has failed */
}

static void text_of(const struct load *l, uint32_t shard, char text[KEY_NAME_MAX + 1])
{
    struct key_name name;
    name_of(l, shard, &name);
    (void)snprintf(text, KEY_NAME_MAX + 1, "%.*s", (int)name.length, name.text);
}

static bool is_redirection(const struct load_batch *b, const redisReply *reply)
{
    return b->redirect.port != 0 && reply != NULL && reply->type == REDIS_REPLY_ERROR &&
           (strncmp(reply->str, "MOVED ", 6) == 0 || strncmp(reply->str, "ASK ", 4) == 0);
}

/* Judge a piece's reply. The result is kept until INFO shows whether it counts. */
static void take_piece(struct load *l, const struct load_batch *b, struct load_piece *piece,
                       const redisReply *reply)
{
    char name[KEY_NAME_MAX + 1];
    piece->code = ERR_OK;
    piece->redirected = is_redirection(b, reply);
    if (piece->redirected || !is_loading(l, piece->shard))
        return;
    text_of(l, piece->shard, name);
    piece->code = take(l, piece, reply, name, &piece->why);
}

/* Judge whether the node's replies before this one count. */
static enum err check_info(const struct load *l, const redisReply *reply, struct error *e)
{
    if (reply == NULL)
        return error_set(e, ERR_UNREACHABLE, "its node did not answer");
    if (reply->type == REDIS_REPLY_ERROR)
        return error_set(e, slots_error_passes(reply->str) ? ERR_UNREACHABLE : ERR_REFUSED,
                         "INFO replication: %s", reply->str);
    if (reply->type != REDIS_REPLY_STRING)
        return error_set(e, ERR_REFUSED, "INFO replication gave no string");
    if (!info_is(reply->str, reply->len, "role", "master"))
        return error_set(e, ERR_FENCED, "its node is no master");
    uint64_t era = info_id(reply->str, reply->len, "master_replid");
    if (era == 0 || !trusted_contains(l->eras, era))
        return error_set(e, ERR_FENCED, "its node has a replication id that the view does not accept");
    return ERR_OK;
}

static void fail(struct load *l, uint32_t shard, enum err code, const char *why)
{
    if (!is_loading(l, shard))
        return;
    resident_load_cancel(l->resident, l->layer, shard);
    l->failures++;
    if (l->failed != NULL)
        l->failed(l->arg, shard, code, why);
}

static void take_info(struct load *l, struct load_batch *b, const redisReply *reply)
{
    char name[KEY_NAME_MAX + 1];
    struct error e = {""};
    enum err code = check_info(l, reply, &e);
    for (unsigned i = 0; i < b->pieces; i++) {
        const struct load_piece *piece = &b->piece[i];
        struct error why = {""};
        text_of(l, piece->shard, name);
        if (piece->redirected)
            continue; /* the reply of the other node decides */
        if (code != ERR_OK)
            fail(l, piece->shard, error_set(&why, code, "shard %s: %s", name, e.text), why.text);
        else if (piece->code != ERR_OK)
            fail(l, piece->shard, piece->code, piece->why.text);
    }
}

void load_take(struct load *l, struct load_batch *b, const redisReply *reply)
{
    unsigned i = b->taken++;
    if (i == b->count - 1)
        take_info(l, b, reply);
    else if (!b->asking)
        take_piece(l, b, &b->piece[i], reply);
    else if (i % 2 == 1) /* the reply before it was that to ASKING */
        take_piece(l, b, &b->piece[i / 2], reply);
}

static void fail_moving(struct load *l, const struct load_batch *b)
{
    for (unsigned i = 0; i < b->pieces; i++) {
        char name[KEY_NAME_MAX + 1];
        struct error why = {""};
        text_of(l, b->piece[i].shard, name);
        fail(l, b->piece[i].shard, error_set(&why, ERR_UNREACHABLE, "shard %s: its slot moves", name),
             why.text);
    }
}

bool load_again(struct load *l, struct load_batch *b)
{
    unsigned left = 0;
    for (unsigned i = 0; i < b->pieces; i++)
        if (b->piece[i].redirected && is_loading(l, b->piece[i].shard))
            b->piece[left++] = b->piece[i];
    b->pieces = left;
    if (left > 0 && b->redirections++ == REDIRECTIONS_MAX) {
        fail_moving(l, b);
        return false;
    }
    format(l, b);
    return left > 0;
}

/* --- the end --- */

uint32_t load_end(struct load *l)
{
    struct bitmap *b = bitmap_of(l);
    uint32_t ended = 0;
    for (uint32_t s = l->first; s < l->first + l->count; s++)
        if (bitmap_is_loading(b, s) && bitmap_is_loaded(b, s))
            ended += resident_load_end(l->resident, l->layer, s, NULL) == ERR_OK;
    return ended;
}

void load_cancel(struct load *l)
{
    for (uint32_t s = l->first; s < l->first + l->count; s++)
        resident_load_cancel(l->resident, l->layer, s);
}
