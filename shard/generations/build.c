/* SPDX-License-Identifier: MIT */
#include "shard/generations/build_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/info.h"
#include "base/random.h"
#include "shard/view/history.h"
#include "shard/view/shards.h"
#include "shard/view/view_load.h"

extern const char embedded_build_begin[], embedded_build_cutover[], embedded_build_hold[];

enum { TAKE_OVERS_MAX = 8 /* the most tokens to draw until one is the latest */, LOOKS_MAX = 4 };

enum err builder_new(struct builder **out, struct sync_client *l, const struct names *names, struct error *e)
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

/* --- scripts on the metadata node --- */

void builder_script(struct builder *b, const char *text)
{
    script_begin_view(&b->fold.call, text, b->fold.names);
    script_filter_key(&b->fold.call, b->fold.names, "build");
}

enum err builder_run(struct builder *b, long long *result, struct error *e)
{
    return script_run(&b->fold.call, b->fold.redis, sync_client_home(b->fold.redis, b->fold.names), result,
                      e);
}

enum err builder_fenced(const struct builder *b, struct error *e)
{
    return error_set(e, ERR_FENCED,
                     "another process builds generation %" PRIu64 ", or its build was given up",
                     b->shape.number);
}

enum err builder_check_not_recreated(const struct builder *b, struct error *e)
{
    return b->anew ? error_set(e, ERR_LOST, "the build of generation %" PRIu64 " must begin anew",
                               b->shape.number)
                   : ERR_OK;
}

enum err builder_load_view(struct builder *b, struct error *e)
{
    enum err code = log_view_load(b->fold.redis, b->fold.names, &b->view, e);
    if (code == ERR_OK && b->view.incarnation != b->fold.names->incarnation)
        code = error_set(e, ERR_NOT_FOUND, "the filter has another incarnation by now");
    return code;
}

enum err builder_note_home(struct builder *b, struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    unsigned home = sync_client_home(b->fold.redis, b->fold.names);
    enum err code = sync_client_command(b->fold.redis, home, &r, e, "INFO replication");
    if (code != ERR_OK)
        return code;
    b->home = r->str == NULL ? 0 : info_id(r->str, r->len, "master_replid");
    return b->home != 0 ? ERR_OK
                        : error_set(e, ERR_REFUSED, "Redis node %s: INFO replication has no master_replid",
                                    sync_client_name(b->fold.redis, home));
}

/* --- shards --- */

/* Enter the token into the headers of all shards. */
static enum err adopt_shards(struct builder *b, uint64_t *later, struct error *e)
{
    enum err code = ERR_OK;
    *later = 0;
    for (unsigned layer = 0; layer < b->shape.layer_count; layer++)
        for (uint32_t s = 0; s < b->shape.layers[layer].geometry.shards && code == ERR_OK; s++)
            code = fold_adopt(&b->fold, layer, s, later, e);
    return code;
}

static enum err make_shards(struct builder *b, uint64_t *later, struct error *e)
{
    enum err code = ERR_OK;
    *later = 0;
    for (unsigned layer = 0; layer < b->shape.layer_count && code == ERR_OK; layer++)
        code = shards_make(b->fold.redis, b->fold.names, &b->shape, layer, b->fold.token, later, NULL, e);
    return code;
}

/* Check that all nodes of the shards are in an era that the view had at S0: so they have all that was
 * acknowledged. And their addresses may lead to other servers for a while: what is written there meanwhile is
 * lost when they lead back, and would be met if they led there again. */
static enum err check_nodes(struct builder *b, struct error *e)
{
    struct trusted now;
    enum err code = shards_eras(b->fold.redis, b->fold.names, &b->shape, &now, e);
    for (unsigned i = 0; i < now.count && code == ERR_OK; i++)
        if (!trusted_contains(&b->eras, now.id[i]))
            code = error_set(e, ERR_LOST,
                             "a node of the shards is in another era than the view when the build began");
    if (code == ERR_OK && now.count < b->shape.node_count)
        code = error_set(e, ERR_LOST, "the addresses of two nodes of the shards lead to one server");
    return code;
}

static enum err check_eras(struct builder *b, struct error *e)
{
    bool are = true, is_cluster = sync_client_nodes(b->fold.redis)->cluster != NULL;
    enum err code = is_cluster ? shards_masters_are(b->fold.redis, &b->eras, &are, e) : check_nodes(b, e);
    if (code == ERR_OK && !are)
        code = error_set(e, ERR_LOST, "the cluster has other masters than the view when the build began");
    b->anew |= code == ERR_LOST;
    return code;
}

/* Do not make shards while there is a record: if this process ended after that, the next builder would
 * believe that an empty shard has all that the record says. */
enum err builder_take_over(struct builder *b, struct error *e)
{
    uint64_t later = 0;
    enum err code = ERR_FENCED;
    sync_client_forget(b->fold.redis); /* earlier replies belong to nobody */
    b->took_over = b->near = false;
    for (unsigned i = 0; i < TAKE_OVERS_MAX && code == ERR_FENCED; i++) {
        code = fold_draw(&b->fold, later + 1, e);
        if (code == ERR_OK)
            code = adopt_shards(b, &later, e);
    }
    if (code == ERR_OK)
        code = check_eras(b, e);
    b->took_over = code == ERR_OK;
    b->anew |= fold_is_lost(code);
    return code;
}

enum err builder_prepare(struct builder *b, struct error *e)
{
    if (!b->took_over)
        return builder_take_over(b, e);
    enum err code = check_eras(b, e);
    b->took_over = code == ERR_OK;
    return code;
}

enum err builder_wrote(struct builder *b, struct error *e)
{
    enum err code = check_eras(b, e);
    if (code == ERR_OK)
        memcpy(b->written, b->noted, sizeof(b->written));
    return code;
}

/* --- a place in the view --- */

enum err builder_settle_shape(struct builder *b, struct error *e)
{
    const struct names *names = b->fold.names;
    struct sync_client *l = b->fold.redis;
    b->seed = b->view.seed;
    b->anew = true;
    b->took_over = false;
    fold_fini(&b->fold);
    fold_init(&b->fold, l, names, b->shape.number);
    return fold_place(&b->fold, &b->shape, e);
}

/* The least number above all former ones whose slot is not the current one. */
static uint64_t next_number(const struct log_view *v)
{
    uint64_t next = v->last_generation + 1;
    return next % 2 == v->current ? next + 1 : next;
}

static enum err choose_shape(struct builder *b, const struct generation *shape, struct error *e)
{
    enum err code = builder_load_view(b, e);
    if (code != ERR_OK)
        return code;
    b->shape = *shape;
    b->shape.number = next_number(&b->view);
    b->shape.seed = random_u64() | 1; /* 0 would mix nothing */
    b->shape.built = false;
    return builder_settle_shape(b, e);
}

enum err builder_begin(struct builder *b, const struct generation *shape, const char *mutex, struct error *e)
{
    char text[GENERATION_TEXT_MAX];
    long long result = 0;
    enum err code = choose_shape(b, shape, e);
    if (code != ERR_OK)
        return code;
    script_begin_view(&b->fold.call, embedded_build_begin, b->fold.names);
    script_filter_key(&b->fold.call, b->fold.names, "expansion_flag");
    script_filter_key(&b->fold.call, b->fold.names, "build");
    script_incarnation(&b->fold.call, b->fold.names->incarnation);
    script_number(&b->fold.call, b->fold.slot);
    script_number(&b->fold.call, b->shape.number);
    script_text(&b->fold.call, mutex);
    script_bytes(&b->fold.call, text, generation_text(&b->shape, text));
    code = builder_run(b, &result, e);
    if (code == ERR_OK && result == 0)
        code = error_set(e, ERR_NOT_FOUND, "the filter has no such view any more, or is being deleted");
    if (code == ERR_OK && result == -3)
        code = error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    if (code == ERR_OK && result < 0)
        code = error_set(e, ERR_CONFLICT,
                         "the filter has two generations: one is being built, or its grace is not over");
    return code == ERR_OK ? fold_draw(&b->fold, 1, e) : code;
}

/* --- S0 --- */

/* Delete the record, keep the lanes, and make the view name the token under which the shards are made. */
static enum err hold_lanes(struct builder *b, struct error *e)
{
    long long result = 0;
    char text[GENERATION_TEXT_MAX];
    for (unsigned layer = 0; layer < b->shape.layer_count; layer++)
        b->shape.layers[layer].token = b->fold.token.number;
    builder_script(b, embedded_build_hold);
    script_number(&b->fold.call, b->fold.slot);
    fold_add_token(&b->fold, &b->fold.call);
    script_bytes(&b->fold.call, text, generation_text(&b->shape, text));
    enum err code = builder_run(b, &result, e);
    return code == ERR_OK && result != 1 ? builder_fenced(b, e) : code;
}

/* Make all shards under a new token: that drops what an earlier attempt wrote, and refuses what it sends
 * late. */
static enum err hold_and_make(struct builder *b, struct error *e)
{
    uint64_t later = 0;
    enum err code = ERR_FENCED;
    if (b->fold.token.number ==
        0) /* no token was drawn: it would equal the empty token of a view that nobody builds */
        return builder_fenced(b, e);
    sync_client_forget(b->fold.redis);
    b->took_over = b->near = false;
    for (unsigned i = 0; i < TAKE_OVERS_MAX && code == ERR_FENCED; i++) {
        code = fold_draw_next(&b->fold, later + 1, e);
        if (code == ERR_OK)
            code = hold_lanes(b, e);
        if (code != ERR_OK)
            return code == ERR_NOT_FOUND ? builder_fenced(b, e) : code;
        code = make_shards(b, &later, e);
    }
    b->took_over = code == ERR_OK;
    return code;
}

/* Load the view, and check that it still names this builder. If it does not have the generation, or is gone,
 * the shards that were just made belong to nobody: delete them. */
static enum err check_named(struct builder *b, struct error *e)
{
    enum err code = builder_load_view(b, e);
    if (code != ERR_OK && code != ERR_NOT_FOUND)
        return code;
    const struct log_generation *g = code == ERR_OK ? &b->view.slot[b->fold.slot] : NULL;
    bool is_there = g != NULL && g->shape.number == b->shape.number;
    if (is_there && writer_compare(&g->writer, &b->fold.token) == 0)
        return ERR_OK;
    if (!is_there)
        code = shards_remove(b->fold.redis, b->fold.names, &b->shape, NULL, e);
    return code == ERR_OK ? builder_fenced(b, e) : code;
}

/* Check that the view is no older one. Otherwise the generation may have been read since, and whoever slept
 * reads it still, block by block: blocks of a shard that is made again are empty. Model: remade.pml. */
static enum err check_history(struct builder *b, struct registry_said *said, struct error *e)
{
    enum err code = builder_load_view(b, e);
    if (code != ERR_OK)
        return code;
    code = registry_look(b->fold.redis, b->fold.names, said, e);
    if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT) /* by those masters that answered */
        code = ERR_OK;
    if (code == ERR_OK && history_judge(&b->view, said) == HISTORY_MISSED)
        code = error_set(e, ERR_LOST, "the view is older than what other masters have noted of it");
    return code;
}

/* Have all masters name this home before shards are made: if its address leads back to another one, a build
 * there, or its record, does not know of that. Model: near.pml. */
static enum err name_home(struct builder *b, struct error *e)
{
    const struct history_seen nothing = {.count = 0};
    struct registry_said said;
    bool again = true;
    enum err code = ERR_OK;
    for (unsigned i = 0; i < LOOKS_MAX && code == ERR_OK && again; i++) {
        code = check_history(b, &said, e);
        if (code == ERR_OK)
            code = history_enter(b->fold.redis, b->fold.names, &b->view, b->home, &again, e);
        if (code == ERR_OK && !again)
            code = history_follow(b->fold.redis, b->fold.names, &b->view, &said, &nothing, &again, e);
    }
    return code == ERR_OK && again ? error_set(e, ERR_LOST, "the view changes all the time") : code;
}

/* A notice precedes S0 in each lane: whoever has not met it is before S0, and whoever has met it loads the
 * view, and appends from then on also keys that are there. Model: builder of there.pml. */
enum err builder_start(struct builder *b, struct error *e)
{
    b->anew = true;
    b->keys = 0;
    enum err code = builder_note_home(b, e);
    if (code == ERR_OK)
        code = name_home(b, e);
    if (code == ERR_OK)
        code = hold_and_make(b, e);
    if (code == ERR_OK)
        code = check_named(b, e);
    if (code == ERR_OK)
        code = builder_take_lanes(b, e);
    if (code == ERR_OK)
        code = check_eras(b, e);
    uint8_t writer[LOG_WRITER_BYTES];
    random_id(writer); /* of no process */
    for (unsigned i = 0; i < b->lane_count && code == ERR_OK; i++) {
        code = lane_notice(b->fold.redis, &b->stream[i], writer, e);
        if (code == ERR_OK)
            code = builder_find_end(b, i, e);
    }
    memcpy(b->written, b->at, sizeof(b->written));
    b->anew = code != ERR_OK;
    return code;
}

/* --- the cutover --- */

static enum err run_cutover(struct builder *b, bool heals, long long *result, struct error *e)
{
    builder_script(b, embedded_build_cutover);
    script_incarnation(&b->fold.call, b->fold.names->incarnation);
    script_number(&b->fold.call, b->fold.slot);
    fold_add_token(&b->fold, &b->fold.call);
    script_number(&b->fold.call, b->shape.number);
    script_buffer(&b->fold.call, &b->lanes_text);
    script_buffer(&b->fold.call, &b->eras_text);
    script_number(&b->fold.call, generation_shards(&b->shape));
    script_number(&b->fold.call, heals);
    script_number(&b->fold.call, b->keys);
    script_number(&b->fold.call, b->near);
    script_incarnation(&b->fold.call, b->home);
    for (unsigned i = 0; i < b->lane_count; i++) {
        struct buffer *text = script_argument(&b->fold.call);
        buffer_printf(text, "%" PRIu64 " ", b->lane[i].number);
        log_position_format(&b->noted[i], text);
        buffer_printf(text, " %u", b->shape.layer_count);
    }
    return builder_run(b, result, e);
}

enum err builder_cutover(struct builder *b, bool heals, bool *read, struct error *e)
{
    long long result = 0;
    enum err code = builder_check_not_recreated(b, e);
    *read = false;
    if (code == ERR_OK)
        code = check_eras(b, e);
    if (code == ERR_OK)
        code = run_cutover(b, heals, &result, e);
    b->near = result == 2;
    b->took_over &= code == ERR_OK; /* without a reply the script may be executed later: do not let that
                                     * happen under another token */
    if (code == ERR_OK && result == 0)
        return builder_fenced(b, e);
    if (code == ERR_OK && result < 0) {
        b->anew = true;
        return error_set(e, ERR_LOST,
                         result == -1
                             ? "a lane was replaced, or an era changed: the build must begin anew"
                             : "the metadata node was started again, or is another one, and its view "
                               "may be older: the build must begin anew");
    }
    *read = code == ERR_OK && result == 1;
    if (*read)
        log_view_notify(b->fold.redis, b->fold.names);
    return code;
}
