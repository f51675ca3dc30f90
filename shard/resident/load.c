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

void load_piece_fini(struct load_piece *p)
{
    buffer_fini(&p->commands);
}

static void put(struct load_piece *p, size_t argc, const char *const *argv, const size_t *lengths)
{
    buffer_command(&p->commands, argc, argv, lengths);
    p->end[p->count++] = p->commands.length;
}

static void format(const struct load *l, struct load_piece *p)
{
    uint32_t header = header_bytes(&bitmap_of(l)->geometry);
    struct key_name name;
    char from[16], to[16];
    name_of(l, p->shard, &name);
    int n = snprintf(from, sizeof(from), "%u", p->offset == 0 ? 0 : header + p->offset);
    int m = snprintf(to, sizeof(to), "%u", header + p->offset + p->length - 1);
    const char *const argv[] = {"GETRANGE", name.text, from, to};
    const size_t lengths[] = {8, name.length, (size_t)n, (size_t)m};
    buffer_clear(&p->commands);
    p->count = p->taken = 0;
    p->asking = p->redirect.port != 0 && p->redirect.ask;
    if (p->asking)
        put(p, 1, (const char *const[]){"ASKING"}, NULL);
    put(p, 4, argv, lengths);
    put(p, 2, (const char *const[]){"INFO", "replication"}, NULL);
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

bool load_next(struct load *l, struct load_piece *p)
{
    if (!find_shard(l))
        return false;
    uint32_t left = bitmap_of(l)->shard_bytes - l->offset;
    p->where = placement_where(l->placement, l->layer, l->next);
    p->redirect = (struct slot_redirect){0};
    p->redirections = 0;
    p->shard = l->next;
    p->offset = l->offset;
    p->length = left < l->piece_bytes ? left : l->piece_bytes;
    l->offset += p->length;
    if (p->length == left) {
        l->next++;
        l->offset = 0;
    }
    format(l, p);
    return true;
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

static bool is_redirection(const struct load_piece *p, const redisReply *reply)
{
    return p->redirect.port != 0 && reply != NULL && reply->type == REDIS_REPLY_ERROR &&
           (strncmp(reply->str, "MOVED ", 6) == 0 || strncmp(reply->str, "ASK ", 4) == 0);
}

/* Judge the piece's reply. The result is kept until INFO shows whether it counts. */
static void take_bytes(struct load *l, struct load_piece *p, const redisReply *reply)
{
    char name[KEY_NAME_MAX + 1];
    p->code = ERR_OK;
    p->redirected = is_redirection(p, reply);
    if (p->redirected || !is_loading(l, p->shard))
        return;
    text_of(l, p->shard, name);
    p->code = take(l, p, reply, name, &p->why);
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

static void take_info(struct load *l, struct load_piece *p, const redisReply *reply)
{
    char name[KEY_NAME_MAX + 1];
    struct error e = {""}, why = {""};
    if (p->redirected)
        return; /* the reply of the other node decides */
    enum err code = check_info(l, reply, &e);
    text_of(l, p->shard, name);
    if (code != ERR_OK)
        fail(l, p->shard, error_set(&why, code, "shard %s: %s", name, e.text), why.text);
    else if (p->code != ERR_OK)
        fail(l, p->shard, p->code, p->why.text);
}

void load_take(struct load *l, struct load_piece *p, const redisReply *reply)
{
    unsigned i = p->taken++;
    if (i == p->count - 1)
        take_info(l, p, reply);
    else if (i == p->asking) /* the reply before it, if there is one, was that to ASKING */
        take_bytes(l, p, reply);
}

bool load_again(struct load *l, struct load_piece *p)
{
    char name[KEY_NAME_MAX + 1];
    struct error why = {""};
    if (!p->redirected || !is_loading(l, p->shard))
        return false;
    if (p->redirections++ == REDIRECTIONS_MAX) {
        text_of(l, p->shard, name);
        fail(l, p->shard, error_set(&why, ERR_UNREACHABLE, "shard %s: its slot moves", name), why.text);
        return false;
    }
    format(l, p);
    return true;
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
