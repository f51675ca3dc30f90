/* SPDX-License-Identifier: MIT */
#include "shard/members/lost.h"

#include <stdlib.h>
#include <string.h>
#include "shard/filter/block.h"
#include "shard/resident/dirty.h"

extern const char embedded_shard_make[];

enum {
    LOOKS = 64, /* shards, or blocks, that are asked for at a time */
    WINDOW = 8  /* scripts under way */
};

/* --- shards in Redis --- */

enum found {
    IS_THERE,
    IS_MISSING, /* missing, cut, or blank */
    IS_FOREIGN  /* something else has its name, and is kept */
};

static enum found judge(enum err *code)
{
    enum found found = *code == ERR_LOST ? IS_MISSING : fold_is_lost(*code) ? IS_FOREIGN : IS_THERE;
    if (fold_is_lost(*code))
        *code = ERR_OK;
    return found;
}

/* Check the last block of each of @count shards from @first: shards are written from the first block to the
 * last. */
static enum err look_at_ends(struct lost_work *w, unsigned layer, uint32_t first, uint32_t count,
                             enum found *found, struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8];
    enum err code = ERR_OK;
    uint32_t last = w->fold->shape->layers[layer].geometry.blocks - 1;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        code = fold_get(w->fold, layer, first + i, last, e);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        code = fold_got(w->fold, layer, first + i, last, block, e);
        found[i] = judge(&code);
    }
    return code;
}

/* Enter the token into the header, and check every block. */
static enum err look_at_all(struct lost_work *w, unsigned layer, uint32_t shard, enum found *found,
                            struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8];
    uint32_t blocks = w->fold->shape->layers[layer].geometry.blocks;
    uint64_t later;
    enum err code = fold_adopt(w->fold, layer, shard, &later, e);
    for (uint32_t first = 0, end; first < blocks && code == ERR_OK; first = end) {
        enum err got;
        end = blocks - first < LOOKS ? blocks : first + LOOKS;
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = fold_get(w->fold, layer, shard, i, e);
        for (uint32_t i = first; i < end && (code == ERR_OK || fold_is_lost(code)); i++) /* all replies */
            if ((got = fold_got(w->fold, layer, shard, i, block, e)) != ERR_OK)
                code = got;
    }
    *found = judge(&code);
    return code;
}

enum err lost_are_taken(struct lost_work *w, const struct log_lost *shard, unsigned count, bool *taken,
                        struct error *e)
{
    enum err code = ERR_OK;
    *taken = count > 0;
    for (unsigned i = 0; i < count && code == ERR_OK; i++) {
        enum found found = IS_THERE;
        code = look_at_ends(w, shard[i].layer, shard[i].shard, 1, &found, e);
        *taken &= found == IS_FOREIGN;
    }
    return code;
}

static enum err look(struct lost_work *w, unsigned layer, uint32_t first, uint32_t count, enum found *found,
                     struct error *e)
{
    const struct log_lost *n = w->named;
    enum err code = look_at_ends(w, layer, first, count, found, e);
    if (code == ERR_OK && n != NULL && n->layer == layer && n->shard >= first && n->shard - first < count)
        code = look_at_all(w, layer, n->shard, &found[n->shard - first], e);
    return code;
}

/* --- making --- */

/* A shard to write: one that is missing and whole in memory, with its stamp; or one that must be loaded
 * again. */
struct again {
    unsigned layer;
    uint32_t shard, stamp;
    bool was_there;
};

/* Make a shard with our token in its header, and with blocks without tags, in place of one with an earlier
 * token. *@found: IS_FOREIGN: it is no shard of this filter, and was left as it is. */
static enum err make_blank(struct lost_work *w, unsigned layer, uint32_t shard, enum found *found,
                           struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8] = {0};
    struct script_call *c = &w->fold->call;
    struct header h = fold_header(w->fold, layer, shard);
    struct key_name key;
    long long made = 0;
    fold_key(w->fold, layer, shard, &key);
    script_begin(c, embedded_shard_make);
    script_key(c, &key);
    h.writer = w->fold->token;
    header_encode(&h, block);
    script_bytes(c, block, h.block_bits / 8U);
    memset(block, 0, sizeof(block));
    script_bytes(c, block, h.block_bits / 8U);
    script_number(c, h.blocks);
    script_number(c, HEADER_WRITER_AT);
    script_number(c, HEADER_WRITER_BYTES);
    enum err code = script_run(c, w->fold->redis, fold_where(w->fold, layer, shard), &made, e);
    if (code == ERR_OK && made == -2)
        *found = IS_FOREIGN;
    return code;
}

typedef bool next_fn(struct bitmap *b, uint32_t shard, uint32_t *page, struct dirty_batch *out);

/* Write all blocks from memory, in batches. After an error, the next take-over finds what was not written. */
static enum err write_all(struct lost_work *w, const struct again *a, next_fn *next, struct dirty_batch *b,
                          struct error *e)
{
    struct bitmap *bitmap = w->resident->layer[a->layer];
    unsigned under_way = 0;
    enum err code = ERR_OK;
    for (uint32_t page = 0; code == ERR_OK && next(bitmap, a->shard, &page, b);) {
        if (under_way == WINDOW) {
            code = fold_reply(w->fold, a->layer, a->shard, e);
            under_way--;
        }
        fold_batch(w->fold, a->layer, b);
        if (code == ERR_OK)
            code = fold_send(w->fold, a->layer, a->shard, e);
        under_way++;
    }
    for (; under_way > 0 && code == ERR_OK; under_way--)
        code = fold_reply(w->fold, a->layer, a->shard, e);
    return code;
}

/* Write all blocks, with their tags and without any bit. */
static enum err write_empty(struct lost_work *w, const struct again *a, struct error *e)
{
    const struct geometry *g = &w->fold->shape->layers[a->layer].geometry;
    uint32_t block = g->block_bits / 8, end = header_shard_bytes(g);
    const struct geometry piece = {
        .shards = 1, .blocks = FOLD_WRITE_BYTES / block, .block_bits = g->block_bits, .hashes = g->hashes};
    enum err code = ERR_OK;
    uint8_t *bytes = malloc(geometry_shard_bytes(&piece));
    if (bytes == NULL)
        return error_set(e, ERR_NOMEM, "no memory to make shards again");
    block_fill(&piece, w->fold->tag, bytes);
    for (uint32_t at = header_bytes(g), n; at < end && code == ERR_OK; at += n) {
        n = end - at < geometry_shard_bytes(&piece) ? end - at : geometry_shard_bytes(&piece);
        fold_begin(w->fold, a->layer, a->shard);
        fold_piece(w->fold, at, bytes, n);
        code = fold_send(w->fold, a->layer, a->shard, e);
        if (code == ERR_OK)
            code = fold_reply(w->fold, a->layer, a->shard, e);
    }
    free(bytes);
    return code;
}

/* --- all shards --- */

static enum err tend(const struct lost_work *w, struct error *e)
{
    return w->tend == NULL ? ERR_OK : w->tend(w->arg, e);
}

enum { UNSTAMPED = 1 /* not the stamp of a whole shard */ };

static bool is_to_load_again(const struct lost_work *w, unsigned layer, uint32_t shard)
{
    return w->join != NULL && bitmap_state(w->resident->layer[layer], shard) == BITMAP_RELOADING;
}

/* 0: the shard is not written. */
static uint32_t stamp_of(const struct lost_work *w, unsigned layer, uint32_t shard)
{
    if (w->resident == NULL || is_to_load_again(w, layer, shard))
        return UNSTAMPED;
    return bitmap_stamp(w->resident->layer[layer], shard);
}

/* Enter the token into shards that exist and must be loaded again: what others wrote before is read after
 * that. A shard that was made before its layer is as one that is missing. */
static enum err enter_some(struct lost_work *w, unsigned layer, uint32_t first, uint32_t count,
                           enum found *found, struct error *e)
{
    enum err code = ERR_OK;
    uint64_t later;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        if (found[i] == IS_THERE && is_to_load_again(w, layer, first + i))
            code = fold_enter(w->fold, layer, first + i, e);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        if (found[i] != IS_THERE || !is_to_load_again(w, layer, first + i))
            continue;
        code = fold_entered(w->fold, layer, first + i, &later, e);
        found[i] = judge(&code);
    }
    return code;
}

/* Check @count shards from @first, and make a blank one for each that is missing; *@n are to be written. */
static enum err blank_some(struct lost_work *w, unsigned layer, uint32_t first, uint32_t count,
                           struct again *again, uint64_t *n, struct error *e)
{
    enum found found[LOOKS] = {IS_THERE};
    enum err code = look(w, layer, first, count, found, e);
    if (code == ERR_OK)
        code = tend(w, e);
    if (code == ERR_OK)
        code = enter_some(w, layer, first, count, found, e);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        const struct again one = {.layer = layer,
                                  .shard = first + i,
                                  .stamp = stamp_of(w, layer, first + i),
                                  .was_there = found[i] == IS_THERE};
        if (found[i] == IS_MISSING && one.stamp != 0)
            code = make_blank(w, layer, first + i, &found[i], e);
        bool is_to_write = found[i] == IS_MISSING
                               ? one.stamp != 0
                               : found[i] == IS_THERE && is_to_load_again(w, layer, first + i);
        if (is_to_write) {
            again[(*n)++] = one;
        } else if (found[i] != IS_THERE && w->left_count < LOST_NAMED_MAX) {
            w->left[w->left_count++] =
                (struct log_lost){.generation = w->fold->shape->number, .layer = layer, .shard = first + i};
        }
        w->missing += found[i] != IS_THERE;
        w->lacks |= found[i] != IS_THERE && one.stamp == 0;
    }
    return code;
}

static enum err blank_all(struct lost_work *w, struct again *again, uint64_t *n, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < w->fold->shape->layer_count; layer++) {
        uint32_t shards = w->fold->shape->layers[layer].geometry.shards;
        for (uint32_t s = 0; s < shards && code == ERR_OK; s += LOOKS)
            code = blank_some(w, layer, s, shards - s < LOOKS ? shards - s : LOOKS, again, n, e);
    }
    return code;
}

/* Check that the view still names this token: so nobody drew a later one, and stored positions, before the
 * blank shards were there. */
static enum err check_token(struct lost_work *w, struct error *e)
{
    struct fold *f = w->fold;
    char token[LOG_TOKEN_TEXT_MAX];
    struct key_name key;
    SCOPED(scope_reply) redisReply *r = NULL;
    names_filter_key(f->names, "view", &key);
    log_token_text(&f->token, token);
    enum err code = sync_client_command(f->redis, sync_client_home(f->redis, f->names), &r, e,
                                        "HGET %s token%u", key.text, f->slot);
    if (code != ERR_OK)
        return code;
    return r->type == REDIS_REPLY_STRING && strcmp(r->str, token) == 0 ? ERR_OK : fold_fenced(f, "", e);
}

/* *@whole: the shard was written, and was whole in memory all the time. */
static enum err write_one(struct lost_work *w, const struct again *a, struct dirty_batch *b, bool *whole,
                          struct error *e)
{
    struct bitmap *bitmap = w->resident == NULL ? NULL : w->resident->layer[a->layer];
    bool stays = bitmap == NULL || a->stamp == UNSTAMPED; /* nobody changes its state meanwhile */
    enum err code;
    if (bitmap == NULL) {
        code = write_empty(w, a, e);
    } else if (stays) {
        code = write_all(w, a, dirty_copy, b, e);
    } else {
        dirty_mark_all(bitmap, a->shard);
        code = write_all(w, a, dirty_take_from, b, e);
    }
    *whole = code == ERR_OK && (stays || bitmap_stayed(bitmap, a->shard, a->stamp));
    return code;
}

/* Write either the shards that were there, or the others. */
static enum err write_those(struct lost_work *w, const struct again *again, uint64_t n, bool were_there,
                            struct dirty_batch *b, struct error *e)
{
    enum err code = ERR_OK;
    for (uint64_t i = 0; i < n && code == ERR_OK; i++) {
        bool whole;
        if (again[i].was_there != were_there)
            continue;
        code = write_one(w, &again[i], b, &whole, e);
        w->missing -= whole && !were_there;
        w->made += whole && !were_there;
        if (code == ERR_OK)
            code = tend(w, e);
    }
    return code;
}

static enum err write_again(struct lost_work *w, const struct again *again, uint64_t n, struct error *e)
{
    struct dirty_batch *b = malloc(sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "no memory to make shards again");
    enum err code = write_those(w, again, n, false, b, e);
    bool goes_on = w->join == NULL || w->left_count == 0; /* else not all shards can be read, nor written */
    if (code == ERR_OK && goes_on && w->join != NULL)
        code = w->join(w->arg, &w->fold->token, e);
    if (code == ERR_OK && goes_on)
        code = write_those(w, again, n, true, b, e);
    free(b);
    return code;
}

enum err lost_make(struct lost_work *w, struct error *e)
{
    uint64_t n = 0;
    struct again *again = calloc(generation_shards(w->fold->shape), sizeof(*again));
    if (again == NULL)
        return error_set(e, ERR_NOMEM, "no memory to make shards again");
    w->missing = w->made = 0;
    w->left_count = 0;
    w->lacks = false;
    enum err code = blank_all(w, again, &n, e);
    if (code == ERR_OK && n > 0)
        code = check_token(w, e);
    if (code == ERR_OK)
        code = write_again(w, again, n, e);
    free(again);
    if (code != ERR_OK)
        sync_client_forget(w->fold->redis);
    return code;
}
