/* SPDX-License-Identifier: MIT */
#include "shard/members/lost.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/filter/block.h"
#include "shard/filter/hash.h"
#include "shard/resident/dirty.h"
#include "shard/view/notify.h"
#include "shard/view/shards.h"
#include "shard/view/view_load.h"

extern const char embedded_lost_say[], embedded_lost_lack[], embedded_lost_end[], embedded_lost_accept[],
    embedded_shard_make[];

enum {
    LOOKS = 64,       /* shards, or blocks, that are asked for at a time */
    WINDOW = 8,       /* scripts under way */
    ACCEPT_TRIES = 20 /* attempts while others take over */
};

/* --- the remedy --- */

enum lost_remedy lost_remedy(const struct log_view *v)
{
    const struct log_generation *g = &v->slot[v->current];
    if (v->degraded)
        return v->sourced ? LOST_HEALED_BY_BUILD : LOST_HEALED_BY_OPERATOR;
    return g->shape.number != 0 && g->lost.generation == g->shape.number ? LOST_HEALED_BY_MEMORY
                                                                         : LOST_NOTHING;
}

const char *lost_remedy_text(enum lost_remedy remedy)
{
    static const char *const texts[] = {
        [LOST_NOTHING] = "",
        [LOST_HEALED_BY_MEMORY] = "a process that has the shards in memory makes them again",
        [LOST_HEALED_BY_BUILD] = "acknowledged keys may be missing: rebuild the filter from its source",
        [LOST_HEALED_BY_OPERATOR] = ("acknowledged keys may be missing, and there is no source: accept the "
                                     "loss, or delete the filter and "
                                     "add its keys again")};
    return texts[remedy];
}

/* --- shards in Redis --- */

static struct header header_of(const struct lost_work *w, unsigned layer, uint32_t shard)
{
    const struct names *names = w->fold->names;
    uint16_t tag = hash_tag(names->incarnation, names->filter, names->filter_length, w->shape->number);
    return header_of_shard(w->shape, names->incarnation, tag, layer, shard);
}

static unsigned where_of(const struct lost_work *w, unsigned layer, uint32_t shard)
{
    return placement_where(w->placement, layer, shard);
}

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
    uint32_t last = w->shape->layers[layer].geometry.blocks - 1;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        struct header h = header_of(w, layer, first + i);
        code = fold_get(w->fold, where_of(w, layer, first + i), &h, last, e);
    }
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        struct header h = header_of(w, layer, first + i);
        code = fold_got(w->fold, where_of(w, layer, first + i), &h, last, block, e);
        found[i] = judge(&code);
    }
    return code;
}

/* Enter the token into the header, and check every block. */
static enum err look_at_all(struct lost_work *w, unsigned layer, uint32_t shard, enum found *found,
                            struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8];
    struct header h = header_of(w, layer, shard);
    unsigned where = where_of(w, layer, shard);
    uint64_t later;
    enum err code = fold_adopt(w->fold, where, &h, &later, e);
    for (uint32_t first = 0, end; first < h.blocks && code == ERR_OK; first = end) {
        enum err got;
        end = h.blocks - first < LOOKS ? h.blocks : first + LOOKS;
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = fold_get(w->fold, where, &h, i, e);
        for (uint32_t i = first; i < end && (code == ERR_OK || fold_is_lost(code)); i++) /* all replies */
            if ((got = fold_got(w->fold, where, &h, i, block, e)) != ERR_OK)
                code = got;
    }
    *found = judge(&code);
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

/* Make a shard with our token in its header, and with blocks without tags, in place of one with an earlier
 * token. *@found: IS_FOREIGN: it is no shard of this filter, and was left as it is. */
static enum err make_blank(struct lost_work *w, const struct header *h, enum found *found, struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8] = {0};
    struct script_call *c = &w->fold->call;
    unsigned where = where_of(w, h->layer, h->shard);
    struct header mine = *h;
    struct key_name key;
    long long made = 0;
    names_log_shard(w->fold->names, (struct shard_id){h->generation, h->layer, h->shard}, &key);
    script_begin(c, embedded_shard_make);
    script_key(c, &key);
    mine.writer = w->fold->token;
    header_encode(&mine, block);
    script_bytes(c, block, h->block_bits / 8U);
    memset(block, 0, sizeof(block));
    script_bytes(c, block, h->block_bits / 8U);
    script_number(c, h->blocks);
    script_number(c, HEADER_WRITER_AT);
    script_number(c, HEADER_WRITER_BYTES);
    enum err code = script_run(c, w->fold->redis, where, &made, e);
    if (code == ERR_OK && made == -2)
        *found = IS_FOREIGN;
    return code;
}

static enum err send_batch(struct lost_work *w, const struct header *h, const struct dirty_batch *b,
                           struct error *e)
{
    fold_batch(w->fold, h, b);
    return fold_send(w->fold, where_of(w, h->layer, h->shard), e);
}

typedef bool next_fn(struct bitmap *b, uint32_t shard, uint32_t *page, struct dirty_batch *out);

/* Write all blocks from memory, in batches. After an error, the next take-over finds what was not written. */
static enum err write_all(struct lost_work *w, const struct header *h, next_fn *next, struct dirty_batch *b,
                          struct error *e)
{
    struct bitmap *bitmap = w->resident->layer[h->layer];
    unsigned where = where_of(w, h->layer, h->shard), under_way = 0;
    enum err code = ERR_OK;
    for (uint32_t page = 0; code == ERR_OK && next(bitmap, h->shard, &page, b);) {
        if (under_way == WINDOW) {
            code = fold_reply(w->fold, where, h, e);
            under_way--;
        }
        if (code == ERR_OK)
            code = send_batch(w, h, b, e);
        under_way++;
    }
    for (; under_way > 0 && code == ERR_OK; under_way--)
        code = fold_reply(w->fold, where, h, e);
    return code;
}

/* Write all blocks, with their tags and without any bit. */
static enum err write_empty(struct lost_work *w, const struct header *h, struct error *e)
{
    const struct geometry *g = &w->shape->layers[h->layer].geometry;
    uint32_t block = g->block_bits / 8, end = header_shard_bytes(g);
    const struct geometry piece = {
        .shards = 1, .blocks = FOLD_WRITE_BYTES / block, .block_bits = g->block_bits, .hashes = g->hashes};
    unsigned where = where_of(w, h->layer, h->shard);
    enum err code = ERR_OK;
    uint8_t *bytes = malloc(geometry_shard_bytes(&piece));
    if (bytes == NULL)
        return error_set(e, ERR_NOMEM, "no memory to make shards again");
    block_fill(&piece, h->tag, bytes);
    for (uint32_t at = header_bytes(g), n; at < end && code == ERR_OK; at += n) {
        n = end - at < geometry_shard_bytes(&piece) ? end - at : geometry_shard_bytes(&piece);
        fold_begin(w->fold, h);
        fold_piece(w->fold, at, bytes, n);
        code = fold_send(w->fold, where, e);
        if (code == ERR_OK)
            code = fold_reply(w->fold, where, h, e);
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

/* A shard to write: one that is missing and whole in memory, with its stamp; or one that must be loaded
 * again. */
struct again {
    unsigned layer;
    uint32_t shard, stamp;
    bool was_there;
};

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
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        struct header h = header_of(w, layer, first + i);
        if (found[i] == IS_THERE && is_to_load_again(w, layer, first + i))
            code = fold_enter(w->fold, where_of(w, layer, first + i), &h, e);
    }
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        struct header h = header_of(w, layer, first + i);
        if (found[i] != IS_THERE || !is_to_load_again(w, layer, first + i))
            continue;
        code = fold_entered(w->fold, where_of(w, layer, first + i), &h, &later, e);
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
        struct header h = header_of(w, layer, first + i);
        const struct again one = {.layer = layer,
                                  .shard = first + i,
                                  .stamp = stamp_of(w, layer, first + i),
                                  .was_there = found[i] == IS_THERE};
        if (found[i] == IS_MISSING && one.stamp != 0)
            code = make_blank(w, &h, &found[i], e);
        bool is_to_write = found[i] == IS_MISSING
                               ? one.stamp != 0
                               : found[i] == IS_THERE && is_to_load_again(w, layer, first + i);
        if (is_to_write) {
            again[(*n)++] = one;
        } else if (found[i] != IS_THERE && w->left_count < LOST_NAMED_MAX) {
            w->left[w->left_count++] =
                (struct log_lost){.generation = w->shape->number, .layer = layer, .shard = first + i};
        }
        w->missing += found[i] != IS_THERE;
    }
    return code;
}

static enum err blank_all(struct lost_work *w, struct again *again, uint64_t *n, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < w->shape->layer_count; layer++) {
        uint32_t shards = w->shape->layers[layer].geometry.shards;
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
    redisReply *r;
    names_filter_key(f->names, "view", &key);
    log_token_text(&f->token, token);
    enum err code = sync_client_command(f->redis, sync_client_home(f->redis, f->names), &r, e,
                                        "HGET %s token%u", key.text, f->slot);
    if (code != ERR_OK)
        return code;
    if (r->type != REDIS_REPLY_STRING || strcmp(r->str, token) != 0)
        code = fold_fenced(f, "", e);
    freeReplyObject(r);
    return code;
}

/* *@whole: the shard was written, and was whole in memory all the time. */
static enum err write_one(struct lost_work *w, const struct again *a, struct dirty_batch *b, bool *whole,
                          struct error *e)
{
    struct header h = header_of(w, a->layer, a->shard);
    struct bitmap *bitmap = w->resident == NULL ? NULL : w->resident->layer[a->layer];
    bool stays = bitmap == NULL || a->stamp == UNSTAMPED; /* nobody changes its state meanwhile */
    enum err code;
    if (bitmap == NULL) {
        code = write_empty(w, &h, e);
    } else if (stays) {
        code = write_all(w, &h, dirty_copy, b, e);
    } else {
        dirty_mark_all(bitmap, h.shard);
        code = write_all(w, &h, dirty_take_from, b, e);
    }
    *whole = code == ERR_OK && (stays || bitmap_stayed(bitmap, h.shard, a->stamp));
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
    struct again *again = calloc(generation_shards(w->shape), sizeof(*again));
    if (again == NULL)
        return error_set(e, ERR_NOMEM, "no memory to make shards again");
    w->missing = w->made = 0;
    w->left_count = 0;
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

/* --- the view --- */

/* Begin a script on the view. */
static struct script_call begin(const char *text, const struct names *names, uint64_t generation)
{
    struct script_call c = {0};
    script_begin_view(&c, text, names);
    script_incarnation(&c, names->incarnation);
    script_number(&c, generation % 2);
    return c;
}

static enum err run(struct script_call *c, struct sync_client *l, const struct names *names, long long least,
                    long long *result, struct error *e)
{
    enum err code = script_run_once(c, l, names, result, e);
    return code == ERR_OK && *result < least ? log_view_another(names, e) : code;
}

enum err lost_say(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                  struct error *e)
{
    struct script_call c = begin(embedded_lost_say, names, lost->generation);
    long long result = 0;
    script_number(&c, lost->generation);
    buffer_printf(script_argument(&c), "%u.%" PRIu32, lost->layer, lost->shard);
    return run(&c, l, names, 1, &result, e);
}

enum err lost_lack(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                   const uint8_t writer[LOG_WRITER_BYTES], unsigned *others, struct error *e)
{
    char text[LOG_LOST_TEXT_MAX], name[LOG_WRITER_NAME_MAX], lacks[LOG_WRITER_NAME_MAX];
    struct script_call c = begin(embedded_lost_lack, names, lost->generation);
    long long result = 0;
    log_lost_text(lost, text);
    log_writer_name(writer, name);
    (void)snprintf(lacks, sizeof(lacks), "lacks.%.32s", strchr(name, '.') + 1);
    script_text(&c, text);
    script_text(&c, name);
    script_text(&c, lacks);
    enum err code = run(&c, l, names, 0, &result, e);
    *others = code == ERR_OK ? (unsigned)result : 0;
    return code;
}

enum err lost_end(struct fold *f, const struct log_lost *lost, struct error *e)
{
    char text[LOG_LOST_TEXT_MAX];
    struct script_call c = begin(embedded_lost_end, f->names, lost->generation);
    long long result = 0;
    log_lost_text(lost, text);
    script_text(&c, text);
    fold_add_token(f, &c);
    return run(&c, f->redis, f->names, 1, &result, e);
}

/* --- accepting --- */

/* Check that each lane, and each node with shards, has the era that the view accepts: if not, a repair of
 * existing keys is under way. */
static enum err check_eras(struct sync_client *l, const struct names *names, const struct log_view *v,
                           struct error *e)
{
    struct trusted now = {.known = true};
    bool known = true;
    enum err code = shards_eras(l, names, &v->slot[v->current].shape, &now, e);
    for (unsigned i = 0; i < now.count; i++)
        known &= trusted_contains(&v->eras, now.id[i]);
    for (unsigned i = 0; i < v->lane_count; i++)
        known &= v->lane[i].era != 0;
    return code == ERR_OK && !known
               ? error_set(e, ERR_BUSY,
                           "nodes of filter \"%.*s\" have other replication ids than its view accepts: "
                           "wait until its processes have settled that",
                           (int)names->filter_length, names->filter)
               : code;
}

/* *@nothing: there is nothing to accept. */
static enum err check_view(struct sync_client *l, const struct names *names, const struct log_view *v,
                           bool *nothing, struct error *e)
{
    int length = (int)names->filter_length;
    enum lost_remedy remedy = lost_remedy(v);
    *nothing = false;
    if (v->deleting)
        return error_set(e, ERR_NOT_FOUND, "filter \"%.*s\" is being deleted", length, names->filter);
    switch (remedy) {
    case LOST_NOTHING:
        *nothing = true;
        return ERR_OK;
    case LOST_HEALED_BY_MEMORY:
        return error_set(e, ERR_BUSY, "filter \"%.*s\": a process may have the lost shards in memory", length,
                         names->filter);
    case LOST_HEALED_BY_BUILD:
        return error_set(e, ERR_CONFLICT, "filter \"%.*s\" has a source: rebuild it", length, names->filter);
    case LOST_HEALED_BY_OPERATOR:
        break;
    }
    return check_eras(l, names, v, e);
}

/* No shard is missing: say so in the view. */
static enum err say_accepted(struct fold *f, const struct log_lost *lost, struct error *e)
{
    char text[LOG_LOST_TEXT_MAX] = "";
    struct script_call c = begin(embedded_lost_accept, f->names, f->generation);
    long long result = 0;
    if (lost != NULL)
        log_lost_text(lost, text);
    script_text(&c, text);
    fold_add_token(f, &c);
    return run(&c, f->redis, f->names, 1, &result, e);
}

/* Called after the draw: a process that accepted before the draw has ended the loss, and none can accept
 * after it. */
static enum err check_again(const struct fold *f, struct log_view *v, struct error *e)
{
    enum err code = log_view_load(f->redis, f->names, v, e);
    bool same = code == ERR_OK && v->incarnation == f->names->incarnation && v->current == f->slot &&
                v->slot[f->slot].shape.number == f->generation && v->degraded;
    return code == ERR_OK && !same ? log_view_another(f->names, e) : code;
}

static enum err make_empty(struct lost_work *w, struct log_view *v, uint64_t *made, struct error *e)
{
    struct key_name key;
    /* the next one, so nobody else has made the shard meanwhile, and lost it again */
    enum err code = fold_draw_next(w->fold, generation_next_token(w->shape), e);
    if (code == ERR_OK)
        code = check_again(w->fold, v, e);
    if (code == ERR_OK)
        code = lost_make(w, e);
    *made += w->made;
    if (code != ERR_OK || w->missing == 0)
        return code;
    names_log_shard(w->fold->names,
                    (struct shard_id){w->left[0].generation, w->left[0].layer, w->left[0].shard}, &key);
    return error_set(e, ERR_CONFLICT,
                     "%s is no shard of this filter, or a later version wrote it: delete or rename that key",
                     key.text);
}

static enum err accept_once(struct sync_client *l, const struct names *names, struct log_view *v,
                            uint64_t *made, struct error *e)
{
    struct names own = *names;
    struct placement placement;
    struct fold fold;
    bool nothing = false;
    enum err code = log_view_load(l, names, v, e);
    if (code != ERR_OK)
        return code;
    own.incarnation = v->incarnation;
    const struct log_generation *g = &v->slot[v->current];
    const struct log_lost *named = g->lost.generation == g->shape.number ? &g->lost : NULL;
    code = check_view(l, &own, v, &nothing, e);
    if (code == ERR_OK && !nothing)
        code = placement_resolve(&placement, &own, &g->shape, sync_client_nodes(l), e);
    if (code != ERR_OK || nothing)
        return code;
    fold_init(&fold, l, &own, g->shape.number);
    fold.token = g->writer;
    struct lost_work w = {.fold = &fold, .shape = &g->shape, .placement = &placement, .named = named};
    code = make_empty(&w, v, made, e);
    if (code == ERR_OK)
        code = say_accepted(&fold, named, e);
    fold_fini(&fold);
    if (code == ERR_OK)
        log_view_notify(l, &own);
    return code;
}

/* Model: operator of lost_shard.pml. */
enum err lost_accept(struct sync_client *l, const struct names *names, uint64_t *made, struct error *e)
{
    enum err code = ERR_FENCED;
    struct log_view *v = malloc(sizeof(*v));
    *made = 0;
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a view");
    for (unsigned i = 0; i < ACCEPT_TRIES && code == ERR_FENCED; i++)
        code = accept_once(l, names, v, made, e);
    free(v);
    return code;
}
