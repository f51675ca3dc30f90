/* SPDX-License-Identifier: MIT */
#include "shard/resident/load.h"

#include <stdio.h>
#include <string.h>
#include "shard/slots.h"

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
    l->next = l->first;
    l->offset = 0;
    l->failures = 0;
    return resident_load_begin(l->resident, l->layer, l->first, l->count, e);
}

/* --- asking --- */

static void format(const struct load *l, const struct load_piece *piece, struct buffer *command)
{
    uint32_t header = header_bytes(&bitmap_of(l)->geometry);
    struct key_name name;
    char from[16], to[16];
    name_of(l, piece->shard, &name);
    int n = snprintf(from, sizeof(from), "%u", piece->offset == 0 ? 0 : header + piece->offset);
    int m = snprintf(to, sizeof(to), "%u", header + piece->offset + piece->length - 1);
    const char *const argv[] = {"GETRANGE", name.text, from, to};
    const size_t lengths[] = {8, name.length, (size_t)n, (size_t)m};
    buffer_command(command, 4, argv, lengths);
}

static void next_shard(struct load *l)
{
    l->next++;
    l->offset = 0;
}

bool load_next(struct load *l, struct load_piece *piece, struct buffer *command)
{
    const struct bitmap *b = bitmap_of(l);
    while (l->next < l->first + l->count && bitmap_state(b, l->next) != BITMAP_LOADING)
        next_shard(l); /* a piece of it has failed */
    if (l->next == l->first + l->count)
        return false;
    uint32_t left = b->shard_bytes - l->offset;
    *piece = (struct load_piece){.shard = l->next,
                                 .offset = l->offset,
                                 .length = left < l->piece_bytes ? left : l->piece_bytes,
                                 .where = placement_where(l->placement, l->layer, l->next)};
    format(l, piece, command);
    l->offset += piece->length;
    if (l->offset == b->shard_bytes)
        next_shard(l);
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
    return code == ERR_OK ? header_check(&found, &expected, name, e) : code;
}

static enum err take(struct load *l, const struct load_piece *piece, const redisReply *reply,
                     const char *name, struct error *e)
{
    struct bitmap *b = bitmap_of(l);
    if (reply == NULL)
        return error_set(e, ERR_UNREACHABLE, "shard %s: its node did not answer", name);
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE", 9) == 0)
        return error_set(e, ERR_WRONG_TYPE, "shard %s is no string: delete or rename the foreign key", name);
    if (reply->type == REDIS_REPLY_ERROR)
        return error_set(e, slots_error_passes(reply->str) ? ERR_UNREACHABLE : ERR_REFUSED, "shard %s: %s",
                         name, reply->str);
    if (reply->type != REDIS_REPLY_STRING)
        return error_set(e, ERR_REFUSED, "shard %s: GETRANGE gave no string", name);
    const uint8_t *bytes = (const uint8_t *)reply->str;
    uint32_t header = piece->offset == 0 ? header_bytes(&b->geometry) : 0;
    enum err code = ERR_OK;
    if (piece->offset == 0)
        code = check_header(l, piece->shard, bytes, reply->len, name, e);
    if (code == ERR_OK && reply->len != header + piece->length)
        code = error_set(e, ERR_LOST, "shard %s is cut: %zu bytes at %u, expected %u", name, reply->len,
                         piece->offset, header + piece->length);
    if (code == ERR_OK) {
        code = bitmap_or(b, piece->shard, piece->offset, bytes + header, piece->length, e);
        if (code != ERR_OK)
            code = error_prefix(e, code, "shard %s", name);
    }
    return code;
}

void load_take(struct load *l, const struct load_piece *piece, const redisReply *reply)
{
    struct key_name name;
    char text[KEY_NAME_MAX + 1];
    struct error e = {""};
    if (bitmap_state(bitmap_of(l), piece->shard) != BITMAP_LOADING)
        return; /* an earlier piece has failed */
    name_of(l, piece->shard, &name);
    (void)snprintf(text, sizeof(text), "%.*s", (int)name.length, name.text);
    enum err code = take(l, piece, reply, text, &e);
    if (code == ERR_OK)
        return;
    resident_load_cancel(l->resident, l->layer, piece->shard);
    l->failures++;
    if (l->failed != NULL)
        l->failed(l->arg, piece->shard, code, e.text);
}

/* --- the end --- */

uint32_t load_end(struct load *l)
{
    struct bitmap *b = bitmap_of(l);
    uint32_t ended = 0;
    for (uint32_t s = l->first; s < l->first + l->count; s++)
        if (bitmap_state(b, s) == BITMAP_LOADING && bitmap_is_loaded(b, s))
            ended += resident_load_end(l->resident, l->layer, s, NULL) == ERR_OK;
    return ended;
}

void load_cancel(struct load *l)
{
    for (uint32_t s = l->first; s < l->first + l->count; s++)
        resident_load_cancel(l->resident, l->layer, s);
}
