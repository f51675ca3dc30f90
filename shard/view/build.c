/* SPDX-License-Identifier: MIT */
#include "shard/view/build.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/info.h"
#include "base/number.h"
#include "base/random.h"
#include "shard/view/grace.h"
#include "shard/view/shard_make.h"
#include "shard/view/view_load.h"

extern const char embedded_build_begin[], embedded_build_cutover[], embedded_build_hold[],
    embedded_build_record[];

enum {
    MAKE_WINDOW = 64,  /* shards under way */
    TAKE_OVERS_MAX = 8 /* tokens that are drawn until one is the latest */
};

enum err builder_new(struct builder **out, struct link *l, const struct names *names, struct error *e)
{
    struct builder *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a build");
    b->anew = true;
    fold_init(&b->fold, l, names, 0);
    *out = b;
    return ERR_OK;
}

void builder_free(struct builder *b)
{
    if (b == NULL)
        return;
    fold_fini(&b->fold);
    buffer_fini(&b->lanes_text);
    buffer_fini(&b->eras_text);
    free(b);
}

/* --- scripts at home --- */

static void begin_script(struct builder *b, const char *text, const char *const *keys, unsigned count)
{
    script_begin(&b->fold.call, text);
    for (unsigned i = 0; i < count; i++) {
        struct key_name key;
        names_filter_key(b->fold.names, keys[i], &key);
        script_key(&b->fold.call, &key);
    }
}

static void begin_build_script(struct builder *b, const char *text)
{
    begin_script(b, text, (const char *const[]){"view", "build"}, 2);
}

static void add_token(struct builder *b)
{
    char token[LOG_TOKEN_TEXT_MAX];
    log_token_text(&b->fold.token, token);
    script_text(&b->fold.call, token);
}

static void add_buffer(struct builder *b, const struct buffer *text)
{
    script_bytes(&b->fold.call, text->data, text->length);
}

static enum err run(struct builder *b, long long *result, struct error *e)
{
    return script_run(&b->fold.call, b->fold.link, link_home(b->fold.link, b->fold.names), result, e);
}

static enum err fenced(const struct builder *b, struct error *e)
{
    return error_set(e, ERR_FENCED,
                     "generation %" PRIu64 " is built by another one, or is not to be built any more",
                     b->shape.number);
}

static enum err check_not_anew(const struct builder *b, struct error *e)
{
    return b->anew ? error_set(e, ERR_LOST, "the build of generation %" PRIu64 " must begin anew",
                               b->shape.number)
                   : ERR_OK;
}

/* The view, on the heap. The caller frees *@out. */
static enum err load_view(struct builder *b, struct log_view **out, struct error *e)
{
    *out = malloc(sizeof(**out));
    if (*out == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a view");
    enum err code = log_view_load(b->fold.link, b->fold.names, *out, e);
    if (code == ERR_OK && (*out)->incarnation != b->fold.names->incarnation)
        code = error_set(e, ERR_NOT_FOUND, "the filter has another incarnation by now");
    return code;
}

/* --- shards --- */

struct header builder_header(const struct builder *b, unsigned layer, uint32_t shard)
{
    const struct geometry *g = &b->shape.layers[layer].geometry;
    return (struct header){.tag = b->tag,
                           .incarnation = b->fold.names->incarnation,
                           .generation = b->shape.number,
                           .layer = layer,
                           .shard = shard,
                           .blocks = g->blocks,
                           .block_bits = (uint16_t)g->block_bits,
                           .hashes = (uint16_t)g->hashes};
}

/* Make those of the shards [@first, @first + @count) that are missing. */
static enum err make_some(struct builder *b, unsigned layer, uint32_t first, unsigned count,
                          bool made[MAKE_WINDOW], struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < count && code == ERR_OK; i++) {
        struct header h = builder_header(b, layer, first + i);
        code = shard_make_send(&b->fold, placement_where(&b->placement, layer, first + i), &h, e);
    }
    for (unsigned i = 0; i < count && code == ERR_OK; i++)
        code = shard_make_reply(&b->fold, placement_where(&b->placement, layer, first + i), &made[i], e);
    return code;
}

/* Put the token into the headers of a layer's shards; @make: those that are missing are made. */
static enum err own_layer(struct builder *b, unsigned layer, bool make, uint64_t *later, struct error *e)
{
    uint32_t shards = b->shape.layers[layer].geometry.shards;
    enum err code = ERR_OK;
    for (uint32_t first = 0; first < shards && code == ERR_OK; first += MAKE_WINDOW) {
        bool made[MAKE_WINDOW] = {false};
        unsigned count = shards - first < MAKE_WINDOW ? shards - first : MAKE_WINDOW;
        if (make)
            code = make_some(b, layer, first, count, made, e);
        for (unsigned i = 0; i < count && code == ERR_OK; i++) {
            struct header h = builder_header(b, layer, first + i);
            if (!made[i])
                code = fold_adopt(&b->fold, placement_where(&b->placement, layer, first + i), &h, later, e);
        }
    }
    return code;
}

static enum err own_shards(struct builder *b, bool make, uint64_t *later, struct error *e)
{
    enum err code = ERR_OK;
    b->took_over = false;
    *later = 0;
    for (unsigned layer = 0; layer < b->shape.layer_count && code == ERR_OK; layer++)
        code = own_layer(b, layer, make, later, e);
    b->took_over = code == ERR_OK;
    return code;
}

/* No shard is made while there is a record: if this ended behind it, the next one would take an empty shard
 * for what the record says. */
enum err builder_take_over(struct builder *b, struct error *e)
{
    uint64_t later = 0;
    enum err code = ERR_FENCED;
    link_forget(b->fold.link); /* replies of before are nobody's */
    for (unsigned i = 0; i < TAKE_OVERS_MAX && code == ERR_FENCED; i++) {
        code = fold_draw(&b->fold, later + 1, e);
        if (code == ERR_OK)
            code = own_shards(b, false, &later, e);
    }
    b->anew |= code == ERR_LOST;
    return code;
}

/* --- a place in the view --- */

/* What follows from number and nodes of the shape. */
static enum err settle_shape(struct builder *b, uint64_t filter_seed, struct error *e)
{
    const struct names *names = b->fold.names;
    struct link *l = b->fold.link;
    b->seed = filter_seed;
    b->anew = true;
    b->took_over = false;
    b->tag = hash_tag(names->incarnation, names->filter, names->filter_length, b->shape.number);
    fold_fini(&b->fold);
    fold_init(&b->fold, l, names, b->shape.number);
    return placement_resolve(&b->placement, names, &b->shape, link_nodes(l), e);
}

/* The least number above all that were given whose slot is not the one that is read. */
static uint64_t next_number(const struct log_view *v)
{
    uint64_t next = v->last_generation + 1;
    return next % 2 == v->current ? next + 1 : next;
}

static enum err choose_shape(struct builder *b, const struct generation *shape, struct error *e)
{
    struct log_view *v;
    enum err code = load_view(b, &v, e);
    if (code == ERR_OK) {
        b->shape = *shape;
        b->shape.number = next_number(v);
        b->shape.seed = random_u64() | 1; /* 0 mixes nothing */
        b->shape.built = b->shape.opening = false;
        code = settle_shape(b, v->seed, e);
    }
    free(v);
    return code;
}

enum err builder_begin(struct builder *b, const struct generation *shape, struct error *e)
{
    struct buffer text = {0};
    long long result = 0;
    enum err code = choose_shape(b, shape, e);
    if (code != ERR_OK)
        return code;
    generation_format(&b->shape, &text);
    begin_build_script(b, embedded_build_begin);
    script_incarnation(&b->fold.call, b->fold.names->incarnation);
    script_number(&b->fold.call, b->fold.slot);
    script_number(&b->fold.call, b->shape.number);
    add_buffer(b, &text);
    code = buffer_failed(&text) ? error_set(e, ERR_NOMEM, "no memory for a generation") : run(b, &result, e);
    buffer_fini(&text);
    if (code == ERR_OK && result == 0)
        code = error_set(e, ERR_NOT_FOUND, "the filter has no such view any more, or is being deleted");
    if (code == ERR_OK && result < 0)
        code = error_set(e, ERR_CONFLICT,
                         "the filter has two generations: one is being built, or its grace is not over");
    return code == ERR_OK ? fold_draw(&b->fold, 1, e) : code;
}

/* --- S0 --- */

struct text_of {
    const char *name;
    struct buffer *out;
};

static void take_text(void *arg, const char *name, const char *value)
{
    const struct text_of *t = arg;
    if (strcmp(t->name, name) == 0)
        buffer_puts(t->out, value);
}

/* The lanes and eras of @v are those that the build relies on. */
static enum err take_lanes(struct builder *b, const struct log_view *v, struct error *e)
{
    buffer_clear(&b->lanes_text);
    buffer_clear(&b->eras_text);
    log_view_format(v, take_text, &(struct text_of){"lanes", &b->lanes_text});
    log_view_format(v, take_text, &(struct text_of){"eras", &b->eras_text});
    b->lane_count = v->lane_count;
    memcpy(b->lane, v->lane, sizeof(b->lane));
    b->eras = v->eras;
    for (unsigned i = 0; i < v->lane_count; i++) {
        enum err code = log_view_lane_at(v, b->fold.names, link_nodes(b->fold.link), i, &b->stream[i], e);
        if (code != ERR_OK)
            return code;
    }
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
        code = lane_read(b->fold.link, lane, &b->at[i], apply, arg, &state, e);
    if (code != ERR_OK || state == TAIL_COMPLETE)
        return code;
    b->anew = true;
    return error_set(e, ERR_LOST, "lane %.*s: %s: the build must begin anew", (int)lane->key.length,
                     lane->key.text, tail_state_name(state));
}

static enum err pass_over(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
}

/* The last entry of a lane: any entry will do as a first position, and the tail read from it proves the
 * rest. */
static enum err find_last(struct builder *b, unsigned i, struct error *e)
{
    const struct lane *lane = &b->stream[i];
    redisReply *r;
    enum err code = link_command(b->fold.link, lane->where, &r, e, "XREVRANGE %b + - COUNT 1", lane->key.text,
                                 lane->key.length);
    if (code != ERR_OK)
        return error_prefix(e, code, "lane %.*s", (int)lane->key.length, lane->key.text);
    const redisReply *entry = r->type == REDIS_REPLY_ARRAY && r->elements == 1 ? r->element[0] : NULL;
    const redisReply *fields = entry != NULL && entry->elements == 2 ? entry->element[1] : NULL;
    struct log_id id;
    if (entry == NULL)
        code = error_set(e, ERR_LOST, "lane %.*s is missing or empty", (int)lane->key.length, lane->key.text);
    else if (fields == NULL || fields->elements != 2 || fields->element[1]->len > LOG_ENTRY_BYTES_MAX ||
             !log_id_parse(&id, entry->element[0]->str, entry->element[0]->len))
        code = error_set(e, ERR_PARSE, "lane %.*s: its last entry is not an entry of this log",
                         (int)lane->key.length, lane->key.text);
    else
        log_position_set(&b->at[i], id, fields->element[1]->str, fields->element[1]->len);
    freeReplyObject(r);
    return code;
}

static enum err hold_lanes(struct builder *b, struct error *e)
{
    long long result = 0;
    if (b->fold.token.number == 0) /* as the view has it of one that nobody builds */
        return fenced(b, e);
    begin_build_script(b, embedded_build_hold);
    script_number(&b->fold.call, b->fold.slot);
    add_token(b);
    enum err code = run(b, &result, e);
    return code == ERR_OK && result != 1 ? fenced(b, e) : code;
}

/* The view names this builder, the lanes are kept, and there is no record: now shards may be made. Where it
 * is not known what becomes of the writes that were sent, they are refused under a new token. */
static enum err hold_and_make(struct builder *b, struct error *e)
{
    uint64_t later = 0;
    enum err code = ERR_FENCED;
    link_forget(b->fold.link);
    for (unsigned i = 0; i < TAKE_OVERS_MAX && code == ERR_FENCED; i++) {
        code = hold_lanes(b, e);
        if (code != ERR_OK)
            return code;
        if (!b->took_over)
            code = fold_draw(&b->fold, later + 1, e);
        if (code == ERR_OK)
            code = own_shards(b, true, &later, e);
    }
    return code;
}

/* The view still names this builder. If it has forgotten the generation, shards that were made behind that
 * are nobody's: they are deleted here. */
static enum err check_named(struct builder *b, const struct log_view *v, struct error *e)
{
    const struct log_generation *g = &v->slot[b->fold.slot];
    if (g->shape.number == b->shape.number && writer_compare(&g->writer, &b->fold.token) == 0)
        return ERR_OK;
    enum err code = g->shape.number == b->shape.number
                        ? ERR_OK
                        : grace_delete_shards(b->fold.link, b->fold.names, &b->shape, e);
    return code == ERR_OK ? fenced(b, e) : code;
}

enum err builder_start(struct builder *b, struct error *e)
{
    struct log_view *v = NULL;
    b->anew = true;
    enum err code = hold_and_make(b, e);
    if (code == ERR_OK)
        code = load_view(b, &v, e);
    if (code == ERR_OK)
        code = check_named(b, v, e);
    if (code == ERR_OK)
        code = take_lanes(b, v, e);
    free(v);
    for (unsigned i = 0; i < b->lane_count && code == ERR_OK; i++) {
        code = find_last(b, i, e);
        if (code == ERR_OK)
            code = read_on(b, i, pass_over, NULL, e);
    }
    b->anew = code != ERR_OK;
    return code;
}

enum err builder_follow(struct builder *b, lane_apply_fn *apply, void *arg, struct error *e)
{
    enum err code = check_not_anew(b, e);
    for (unsigned i = 0; i < b->lane_count && code == ERR_OK; i++)
        code = read_on(b, i, apply, arg, e);
    return code;
}

/* --- the record --- */

void builder_note(struct builder *b)
{
    memcpy(b->noted, b->at, sizeof(b->noted));
}

enum err builder_record(struct builder *b, const void *rows, size_t length, struct error *e)
{
    long long result = 0;
    struct buffer position = {0};
    enum err code = check_not_anew(b, e);
    if (code != ERR_OK)
        return code;
    begin_build_script(b, embedded_build_record);
    script_number(&b->fold.call, b->fold.slot);
    add_token(b);
    script_number(&b->fold.call, b->shape.number);
    script_bytes(&b->fold.call, rows, length);
    add_buffer(b, &b->lanes_text);
    add_buffer(b, &b->eras_text);
    for (unsigned i = 0; i < b->lane_count; i++) {
        char id[LOG_ID_TEXT_MAX];
        (void)log_id_format(b->noted[i].id, id);
        buffer_clear(&position);
        log_position_format(&b->noted[i], &position);
        script_number(&b->fold.call, b->lane[i].number);
        script_text(&b->fold.call, id);
        add_buffer(b, &position);
    }
    code =
        buffer_failed(&position) ? error_set(e, ERR_NOMEM, "no memory for a position") : run(b, &result, e);
    buffer_fini(&position);
    return code == ERR_OK && result != 1 ? fenced(b, e) : code;
}

static bool is_text(const redisReply *value, const struct buffer *text)
{
    return value->len == text->length && memcmp(value->str, text->data, text->length) == 0;
}

/* A field of the record; NULL: it has none. */
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

/* @b has lanes and eras of the view. Where the record has others the build begins anew. */
static enum err take_record(struct builder *b, const redisReply *record, struct buffer *rows, struct error *e)
{
    const redisReply *number = field(record, "generation"), *lanes = field(record, "lanes"),
                     *eras = field(record, "eras"), *added = field(record, "rows");
    uint64_t generation = 0;
    enum err code = ERR_OK;
    if (number == NULL || lanes == NULL || eras == NULL || added == NULL ||
        !number_u64(number->str, number->len, &generation))
        return error_set(e, ERR_PARSE, "generation, lanes, eras or rows is missing");
    if (generation != b->shape.number || !is_text(lanes, &b->lanes_text) || !is_text(eras, &b->eras_text))
        return ERR_OK;
    for (unsigned i = 0; i < b->lane_count && code == ERR_OK; i++)
        code = take_position(b, record, i, e);
    if (code != ERR_OK)
        return code;
    buffer_append(rows, added->str, added->len);
    b->anew = false;
    return buffer_failed(rows) ? error_set(e, ERR_NOMEM, "no memory for a record") : ERR_OK;
}

static enum err load_record(struct builder *b, struct buffer *rows, struct error *e)
{
    struct key_name key;
    redisReply *r;
    names_filter_key(b->fold.names, "build", &key);
    enum err code = link_command(b->fold.link, link_home(b->fold.link, b->fold.names), &r, e, "HGETALL %b",
                                 key.text, key.length);
    if (code != ERR_OK)
        return code;
    if (r->type != REDIS_REPLY_ARRAY)
        code = error_set(e, ERR_PARSE, "no hash was answered");
    else if (r->elements > 0)
        code = take_record(b, r, rows, e);
    freeReplyObject(r);
    return code == ERR_PARSE ? error_prefix(e, code, "%.*s", (int)key.length, key.text) : code;
}

static enum err find_build(struct builder *b, const struct log_view *v, struct error *e)
{
    const struct generation *g = &v->slot[1 - v->current].shape;
    if (g->number == 0 || g->built || g->number < v->slot[v->current].shape.number)
        return error_set(e, ERR_NOT_FOUND, "no generation is being built");
    b->shape = *g;
    enum err code = take_lanes(b, v, e);
    return code == ERR_OK ? settle_shape(b, v->seed, e) : code;
}

/* The record is read behind the take-over: the one before records nothing any more. */
enum err builder_resume(struct builder *b, struct buffer *rows, struct error *e)
{
    struct log_view *v;
    enum err code = load_view(b, &v, e);
    if (code == ERR_OK)
        code = find_build(b, v, e);
    free(v);
    if (code != ERR_OK)
        return code;
    code = builder_take_over(b, e);
    if (code == ERR_LOST)
        return ERR_OK;
    return code == ERR_OK ? load_record(b, rows, e) : code;
}

/* --- the end --- */

static enum err check_era(struct builder *b, unsigned where, struct error *e)
{
    redisReply *r;
    enum err code = link_command(b->fold.link, where, &r, e, "INFO replication");
    if (code != ERR_OK)
        return code;
    uint64_t era = r->type == REDIS_REPLY_STRING && info_is(r->str, r->len, "role", "master")
                       ? info_id(r->str, r->len, "master_replid")
                       : 0;
    freeReplyObject(r);
    if (era != 0 && trusted_contains(&b->eras, era))
        return ERR_OK;
    b->anew = true;
    return error_set(e, ERR_LOST, "%s is no master, or is in another era than when the build began",
                     link_name(b->fold.link, where));
}

/* All nodes of the shards still have what was acknowledged. */
static enum err check_eras(struct builder *b, struct error *e)
{
    unsigned count = b->placement.count;
    bool masters = count == 0;
    enum err code = masters ? link_masters(b->fold.link, &count, e) : ERR_OK;
    for (unsigned i = 0; i < count && code == ERR_OK; i++) {
        if (!masters)
            code = check_era(b, b->placement.node[i], e);
        else if (link_master_has_slots(b->fold.link, i))
            code = check_era(b, link_master(b->fold.link, i), e);
    }
    return code;
}

static enum err run_cutover(struct builder *b, bool heals, long long *result, struct error *e)
{
    struct buffer text = {0};
    begin_build_script(b, embedded_build_cutover);
    script_incarnation(&b->fold.call, b->fold.names->incarnation);
    script_number(&b->fold.call, b->fold.slot);
    add_token(b);
    script_number(&b->fold.call, b->shape.number);
    add_buffer(b, &b->lanes_text);
    add_buffer(b, &b->eras_text);
    script_number(&b->fold.call, generation_shards(&b->shape));
    script_number(&b->fold.call, heals);
    for (unsigned i = 0; i < b->lane_count; i++) {
        buffer_clear(&text);
        buffer_printf(&text, "%" PRIu64 " ", b->lane[i].number);
        log_position_format(&b->noted[i], &text);
        add_buffer(b, &text);
    }
    enum err code =
        buffer_failed(&text) ? error_set(e, ERR_NOMEM, "no memory for a position") : run(b, result, e);
    buffer_fini(&text);
    return code;
}

enum err builder_cutover(struct builder *b, bool heals, struct error *e)
{
    long long result = 0;
    enum err code = check_not_anew(b, e);
    if (code == ERR_OK)
        code = check_eras(b, e);
    if (code == ERR_OK)
        code = run_cutover(b, heals, &result, e);
    if (code == ERR_OK && result == 0)
        return fenced(b, e);
    if (code == ERR_OK && result < 0) {
        b->anew = true;
        return error_set(e, ERR_LOST, "a lane was replaced, or an era changed: the build must begin anew");
    }
    return code;
}

enum err builder_abort(struct builder *b, struct error *e)
{
    enum err code = grace_forget(b->fold.link, b->fold.names, b->shape.number, &b->fold.token, e);
    return code == ERR_OK ? grace_delete(b->fold.link, b->fold.names, e) : code;
}
