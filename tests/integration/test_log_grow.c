/* SPDX-License-Identifier: MIT */
/* Filters that are logs get layers on real servers, wherever a grower is killed or sleeps. Processes that
 * know the layer, and processes that do not, apply and fold the same entries. Filters that do not grow become
 * full. */
#include "tests/integration/lives.h"
#include "tests/integration/lane_append.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/log/lane_sync.h"
#include "shard/resident/load.h"
#include "shard/fold/folder.h"
#include "shard/fold/full.h"

enum { HALF = 1000, ALL = 2000, ENTRY_KEYS = 100 };

static struct life w;

static int start(void **state)
{
    (void)state;
    return life_start(&w);
}

static int stop(void **state)
{
    (void)state;
    return life_stop(&w);
}

static void begin(void)
{
    struct error e = {""};
    life_begin(&w, "f", 1);
    w.options.lanes = 1;
    must(life_make(&w, w.link, &e), e);
    life_is_whole(&w, 0);
}

static int set_up(void **state)
{
    (void)state;
    begin();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    life_end(&w);
    return 0;
}

static enum err grow_from(unsigned layers, struct sync_client *l, struct error *e)
{
    struct log_view *v = calloc(1, sizeof(*v));
    enum err code = log_grow(l, &w.names, 1, layers, v, e);
    if (code == ERR_OK)
        assert_true(v->slot[1].shape.layer_count > layers);
    free(v);
    return code;
}

static enum err grow(struct life *life, struct sync_client *l, struct error *e)
{
    (void)life;
    return grow_from(1, l, e);
}

static void grows(unsigned layers)
{
    struct error e = {""};
    must(grow_from(layers, w.link, &e), e);
}

static void has_layers(unsigned layers)
{
    life_is_whole(&w, 1); /* one more key: the tokens */
    assert_int_equal(w.view.slot[1].shape.layer_count, layers);
    assert_int_equal(w.view.slot[1].next.number, 0);
}

/* --- layers --- */

static void test_grow__adds_a_layer(void **state)
{
    (void)state;
    uint64_t version = w.view.version;
    grows(1);
    has_layers(2);
    assert_true(w.view.version > version);
    const struct generation *g = &w.view.slot[1].shape;
    assert_int_equal(g->layers[1].capacity, 2 * g->layers[0].capacity);
    assert_int_equal(g->capacity, 3 * g->layers[0].capacity);
    assert_true(g->layers[0].error_rate + g->layers[1].error_rate < g->error_rate);
    char text[24], shards[24];
    (void)snprintf(shards, sizeof(shards), "%" PRIu64, generation_shards(g));
    (void)snprintf(text, sizeof(text), "%s",
                   servers_text(&w.servers, 0, "HGET test:{f}:view bloom_filter_size"));
    assert_string_equal(text, shards);
    assert_int_equal(w.view.slot[1].filled, 0);
    assert_int_equal(w.view.shard_bytes, w.options.shard_bytes); /* whatever the grower's setting is */
    assert_true(g->layers[1].geometry.shards > 1);
    assert_in_range(header_shard_bytes(&g->layers[1].geometry), w.options.shard_bytes / 2,
                    w.options.shard_bytes);
    grows(1); /* the layer exists by now */
    has_layers(2);
    grows(2);
    has_layers(3);
}

static void test_grow__needs_the_filter(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_view *v = calloc(1, sizeof(*v));
    gives(ERR_NOT_FOUND, log_grow(w.link, &w.names, 2, 1, v, &e), e);
    free(v);
    assert_int_equal(servers_integer(&w.servers, 0, "HSET test:{f}:view deleting 1"), 0);
    gives(ERR_NOT_FOUND, grow_from(1, w.link, &e), e);
    must(life_drop(&w, w.link, &e), e);
    gives(ERR_NOT_FOUND, grow_from(1, w.link, &e), e);
    assert_int_equal(life_keys(&w), 0);
}

static void test_grow__waits_for_an_era(void **state)
{
    (void)state;
    struct error e = {""};
    assert_string_equal(servers_text(&w.servers, 1, "REPLICAOF 127.0.0.1 1"), "OK");
    assert_string_equal(servers_text(&w.servers, 1, "REPLICAOF NO ONE"), "OK");
    gives(ERR_CONFLICT, grow_from(1, w.link, &e), e);
    has_layers(1);
}

static void test_grow__without_memory_leaves_no_shard(void **state)
{
    (void)state;
    struct error e = {""};
    long long keys = life_keys(&w);
    assert_string_equal(servers_text(&w.servers, 1, "CONFIG SET maxmemory 1"), "OK");
    enum err code = grow_from(1, w.link, &e);
    assert_string_equal(servers_text(&w.servers, 1, "CONFIG SET maxmemory 0"), "OK");
    assert_int_equal(code, ERR_NOMEM);
    assert_int_equal(life_keys(&w), keys + 1);
    grows(1);
    has_layers(2);
}

/* --- killed, asleep --- */

static void kill_growers(enum proxy_moment moment, bool then_drop)
{
    struct error e = {""};
    uint64_t n = 1;
    for (bool killed = true; killed; n++) {
        begin();
        killed = life_kill(&w, grow, n, moment);
        if (then_drop) {
            must(life_drop(&w, w.link, &e), e);
            assert_int_equal(life_keys(&w), 0);
        } else {
            grows(1);
            has_layers(2);
        }
        life_end(&w);
    }
    assert_true(n > 8);
}

static void test_grow__again_after_a_grower_was_killed(void **state)
{
    (void)state;
    life_end(&w);
    kill_growers(PROXY_BEFORE, false);
    kill_growers(PROXY_AFTER, false);
    begin();
}

static void test_grow__half_done_leaves_nothing_when_deleted(void **state)
{
    (void)state;
    life_end(&w);
    kill_growers(PROXY_BEFORE, true);
    kill_growers(PROXY_AFTER, true);
    begin();
}

static void test_grow__by_one_that_wakes_takes_no_layer_away(void **state)
{
    (void)state;
    struct error e = {""};
    static struct life_sleeper s;
    life_end(&w);
    bool slept = true;
    for (uint64_t n = 1; slept; n++) {
        begin();
        slept = life_put_to_sleep(&s, &w, grow, n, n % 2 == 0 ? PROXY_BEFORE : PROXY_AFTER);
        grows(1);
        grows(2);
        enum err code = life_wake(&s);
        assert_true(code == ERR_OK || code == ERR_CONFLICT || code == ERR_FENCED);
        has_layers(3);
        must(life_drop(&w, w.link, &e), e);
        assert_int_equal(life_keys(&w), 0);
        life_end(&w);
    }
    begin();
}

/* Put a grower to sleep once the view has the layer that it makes. */
static void sleeps_while_it_grows(struct life_sleeper *s)
{
    struct error e = {""};
    life_end(&w);
    for (uint64_t n = 1;; n++) {
        begin();
        assert_true(life_put_to_sleep(s, &w, grow, n, PROXY_AFTER));
        must(log_view_load(w.link, &w.names, &w.view, &e), e);
        if (w.view.slot[1].next.number != 0)
            return;
        must(life_wake(s), s->e);
        life_end(&w);
    }
}

static void wakes_in_vain(struct life_sleeper *s)
{
    struct error e = {""};
    gives(ERR_CONFLICT, life_wake(s), s->e);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    assert_int_equal(w.view.slot[1].shape.layer_count, 1);
}

/* Another process makes the layer by now: it would take away the shards of a layer that the view has. */
static void test_grow__by_one_that_was_overtaken_adds_no_layer(void **state)
{
    (void)state;
    struct error e = {""};
    static struct life_sleeper s;
    char text[GENERATION_TEXT_MAX];
    struct key_name key;
    sleeps_while_it_grows(&s);
    names_filter_key(&w.names, "view", &key);
    struct generation next = w.view.slot[1].next;
    next.layers[next.layer_count - 1].token++;
    (void)generation_text(&next, text);
    must(sync_client_command(w.link, sync_client_home(w.link, &w.names), NULL, &e, "HSET %b next1 %s",
                             key.text, key.length, text),
         e);
    wakes_in_vain(&s);
}

/* The node may have lost some of the shards. */
static void test_grow__where_an_era_ends_meanwhile_adds_no_layer(void **state)
{
    (void)state;
    static struct life_sleeper s;
    sleeps_while_it_grows(&s);
    assert_string_equal(servers_text(&w.servers, 1, "DEBUG CHANGE-REPL-ID"), "OK");
    wakes_in_vain(&s);
}

/* --- processes with one view and another --- */

/* The parts of one process for the filter, by the view that it knows. */
struct member {
    struct budget budget;
    struct resident *resident;
    struct generation shape;
    struct folder folder;
};

static void load_layer(struct member *p, unsigned layer, uint32_t expected)
{
    struct error e = {""};
    struct load l = {.resident = p->resident,
                     .layer = layer,
                     .names = &w.names,
                     .placement = &p->folder.fold.placement,
                     .generation = 1,
                     .writer = {.number = UINT64_MAX},
                     .made = p->shape.layers[layer].token,
                     .eras = &w.view.eras,
                     .count = p->shape.layers[layer].geometry.shards};
    must(load_begin(&l, &e), e);
    load_and_wait(&l, w.link);
    assert_int_equal(load_end(&l), expected);
}

static void add_layer(struct member *p, unsigned layer)
{
    struct error e = {""};
    uint16_t tag = hash_tag(w.names.incarnation, w.names.filter, w.names.filter_length, 1);
    must(resident_add_layer(p->resident, &p->shape.layers[layer].geometry, tag, &e), e);
    load_layer(p, layer, p->shape.layers[layer].geometry.shards);
}

/* Join by the stored view. */
static void join(struct member *p)
{
    struct error e = {""};
    memset(p, 0, sizeof(*p));
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    p->shape = w.view.slot[1].shape;
    budget_init(&p->budget, UINT64_MAX);
    must(resident_new(&p->resident, p->shape.seed, 1, &p->budget, &e), e);
    must(folder_init(&p->folder, w.link, &w.names, &p->shape, p->resident, &e), e);
    for (unsigned layer = 0; layer < p->shape.layer_count; layer++)
        add_layer(p, layer);
}

static void leave(struct member *p)
{
    folder_fini(&p->folder);
    resident_free(p->resident);
}

static struct key_hash key(uint64_t i)
{
    return hash_key(w.view.seed, &i, sizeof(i));
}

static struct log_id id_at(uint64_t position)
{
    return (struct log_id){w.view.slot[1].folded[0].position.id.ms + position, 1};
}

static void apply(struct member *p, uint64_t first, uint64_t last)
{
    struct error e = {""};
    struct key_hash keys[ENTRY_KEYS];
    uint8_t added[ENTRY_KEYS];
    for (uint64_t at = first; at < last; at += ENTRY_KEYS) {
        for (unsigned i = 0; i < ENTRY_KEYS; i++)
            keys[i] = key(at + i);
        must(resident_apply(p->resident, 0, id_at(at + ENTRY_KEYS), keys, ENTRY_KEYS, added, &e), e);
    }
}

static void folds(struct member *p, uint64_t position)
{
    struct error e = {""};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {7};
    struct folder_lane *lane = calloc(1, sizeof(*lane));
    lane->number = 1;
    lane->era = w.view.lane[0].era;
    lane->layers = p->resident->begun[0];
    log_position_set(&lane->position, id_at(position), bytes,
                     log_entry_encode(bytes, writer, position, NULL, 0));
    enum err code = folder_fold(&p->folder, lane, 1, &e);
    if (code == ERR_FENCED) /* the grower was the writer in between */
        code = folder_fold(&p->folder, lane, 1, &e);
    free(lane);
    must(code, e);
}

static unsigned absent(struct member *p)
{
    unsigned n = 0;
    for (uint64_t i = 0; i < ALL; i++) {
        struct key_hash h = key(i);
        uint8_t answer;
        resident_look(p->resident, &h, 1, &answer);
        n += answer != RESIDENT_PRESENT;
    }
    return n;
}

/* A new process loads the data of Redis, by the stored view. Returns how many keys are absent. */
static unsigned absent_for_a_loader(void)
{
    struct member p;
    join(&p);
    unsigned n = absent(&p);
    leave(&p);
    return n;
}

/* The view has the layer, but no entry marks its beginning. */
static void test_layers__folded_before_the_new_one_begins(void **state)
{
    (void)state;
    struct member stale;
    join(&stale);
    apply(&stale, 0, HALF);
    folds(&stale, HALF);
    grows(1);
    apply(&stale, HALF, ALL);
    folds(&stale, ALL);
    assert_int_equal(absent_for_a_loader(), 0);
    leave(&stale);
}

static void test_layers__folded_by_one_that_gets_the_new_one(void **state)
{
    (void)state;
    struct member p;
    struct error e = {""};
    join(&p);
    apply(&p, 0, HALF);
    grows(1);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    p.shape = w.view.slot[1].shape;
    folder_fini(&p.folder);
    must(folder_init(&p.folder, w.link, &w.names, &p.shape, p.resident, &e), e);
    add_layer(&p, 1);
    struct log_id begins = id_at(HALF);
    begins.number++;
    must(resident_begin_layer(p.resident, 0, begins, 1, &e), e);
    apply(&p, HALF, ALL);
    folds(&p, ALL);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    assert_int_equal(w.view.slot[1].folded[0].layers, 2);
    assert_int_equal(absent_for_a_loader(), 0);
    leave(&p);
}

/* A shard's address and name. */
static unsigned where_of(unsigned layer, uint32_t shard, struct key_name *name)
{
    struct error e = {""};
    struct placement placement;
    names_log_shard(&w.names, (struct shard_id){1, layer, shard}, name);
    must(placement_resolve(&placement, &w.names, &w.view.slot[1].shape, sync_client_nodes(w.link), &e), e);
    return placement_where(&placement, layer, shard);
}

/* A shard without its header. */
static redisReply *blocks_of(unsigned layer, uint32_t shard)
{
    struct error e = {""};
    struct key_name name;
    redisReply *r = NULL;
    unsigned where = where_of(layer, shard, &name);
    must(sync_client_command(w.link, where, &r, &e, "GETRANGE %b %u -1", name.text, name.length,
                             header_bytes(&w.view.slot[1].shape.layers[layer].geometry)),
         e);
    return r;
}

/* The metadata node went back to before the layer, and a process that does not know the layer makes it again,
 * while others still read its shards. */
static void test_layers__keep_the_bits_that_are_there(void **state)
{
    (void)state;
    struct error e = {""};
    struct key_name name;
    char was[GENERATION_TEXT_MAX];
    redisReply *r = NULL;
    (void)snprintf(was, sizeof(was), "%s", servers_text(&w.servers, 0, "HGET test:{f}:view generation1"));
    grows(1);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    const struct generation *g = &w.view.slot[1].shape;
    uint64_t token = g->layers[1].token;
    unsigned where = where_of(1, 0, &name);
    must(sync_client_command(w.link, where, &r, &e, "SETRANGE %b %u keys", name.text, name.length,
                             header_bytes(&g->layers[1].geometry) + 8),
         e);
    freeReplyObject(r);
    redisReply *before = blocks_of(1, 0);
    must(sync_client_command(w.link, sync_client_home(w.link, &w.names), &r, &e,
                             "HSET test:{f}:view generation1 %s", was),
         e);
    freeReplyObject(r);
    grows(1);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    assert_int_equal(g->layer_count, 2);
    assert_true(g->layers[1].token > token);
    assert_int_equal(w.view.slot[1].filled, 2);
    r = blocks_of(1, 0);
    assert_int_equal(before->len, geometry_shard_bytes(&g->layers[1].geometry));
    assert_memory_equal(before->str + 8, "keys", 4);
    assert_true(r->len == before->len && memcmp(r->str, before->str, r->len) == 0);
    freeReplyObject(r);
    freeReplyObject(before);
}

/* Two shards of the layer are lost, and a grower that was given up makes them again, late and empty. */
static void test_layers__take_no_shard_that_came_late(void **state)
{
    (void)state;
    struct error e = {""};
    struct member p, late;
    struct key_name name;
    redisReply *r = NULL;
    struct fold f;
    uint64_t later;
    grows(1);
    join(&p);
    apply(&p, 0, ALL);
    folds(&p, ALL);
    for (uint32_t i = 0; i < 2; i++) {
        names_log_shard(&w.names, (struct shard_id){1, 1, i}, &name);
        must(sync_client_command(w.link, fold_where(&p.folder.fold, 1, i), &r, &e, "DEL %b", name.text,
                                 name.length),
             e);
        assert_int_equal(r->integer, 1);
        freeReplyObject(r);
    }
    struct generation g = p.shape;
    const struct writer_token earlier = {.number = g.layers[1].token - 1};
    g.layers[1].geometry.shards = 2;
    must(shards_make(w.link, &w.names, &g, 1, earlier, &later, NULL, &e), e);
    g.layers[1].geometry.shards = 3; /* the third shard exists and is not touched */
    gives(ERR_FENCED, shards_make(w.link, &w.names, &g, 1, earlier, &later, NULL, &e), e);
    assert_int_equal(later, earlier.number); /* the first shard has this token by now */

    memset(&late, 0, sizeof(late));
    late.shape = p.shape;
    budget_init(&late.budget, UINT64_MAX);
    must(resident_new(&late.resident, p.shape.seed, 1, &late.budget, &e), e);
    must(folder_init(&late.folder, w.link, &w.names, &late.shape, late.resident, &e), e);
    add_layer(&late, 0);
    uint16_t tag = hash_tag(w.names.incarnation, w.names.filter, w.names.filter_length, 1);
    must(resident_add_layer(late.resident, &late.shape.layers[1].geometry, tag, &e), e);
    load_layer(&late, 1, late.shape.layers[1].geometry.shards - 2);
    leave(&late);

    fold_init(&f, w.link, &w.names, 1);
    must(fold_draw(&f, 0, &e), e);
    must(fold_place(&f, &p.shape, &e), e);
    gives(ERR_LOST, fold_adopt(&f, 1, 1, &later, &e), e);
    fold_fini(&f);
    leave(&p);
}

/* --- full --- */

static void lane_is(struct lane *lane)
{
    struct error e = {""};
    must(log_view_lane_at(&w.view, &w.names, &w.nodes, 0, lane, &e), e);
}

struct met {
    struct log_full full;
    struct log_id mark;
    unsigned before, behind;
};

static enum err meet(void *arg, const struct tail_record *record, struct error *e)
{
    struct met *m = arg;
    (void)e;
    bool behind = log_full_meets(&m->full, record->id, &record->entry);
    if (record->entry.kind == LOG_FULL && m->mark.ms == 0)
        m->mark = record->id;
    m->before += !behind && record->entry.count > 0;
    m->behind += behind && record->entry.count > 0;
    return ERR_OK;
}

static void add_entries(unsigned count)
{
    struct error e = {""};
    static uint64_t sequence;
    const uint8_t writer[LOG_WRITER_BYTES] = {1};
    struct lane lane;
    lane_is(&lane);
    for (unsigned i = 0; i < count; i++) {
        struct met ignored = {.full = {.generation = 0}};
        struct log_position at = w.view.slot[1].folded[0].position;
        enum tail_state state = TAIL_LOST;
        const struct key_hash k = key(++sequence);
        uint8_t bytes[LOG_ENTRY_BYTES_MAX];
        must(lane_append(w.link, &lane, &at, bytes, log_entry_encode(bytes, writer, sequence, &k, 1), meet,
                         &ignored, &state, &e),
             e);
        assert_int_equal(state, TAIL_COMPLETE);
    }
}

/* Read from @from, by the stored view. */
static struct met reads_from(const struct log_position *from)
{
    struct error e = {""};
    struct met m = {.before = 0};
    struct log_position at = *from;
    struct lane lane;
    enum tail_state state = TAIL_LOST;
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    log_full_begin(&m.full, &w.view, &w.view.slot[1], 0);
    lane_is(&lane);
    must(lane_read(w.link, &lane, &at, meet, &m, &state, &e), e);
    assert_int_equal(state, TAIL_COMPLETE);
    return m;
}

static void test_full__is_the_same_for_all_by_the_log(void **state)
{
    (void)state;
    struct error e = {""};
    struct fold f;
    struct lane lane;
    struct fold_bound needed, over_hold;
    const struct log_position first = w.view.slot[1].folded[0].position;
    lane_is(&lane);
    add_entries(3);
    must(lane_mark_full(w.link, &lane, 2, &e), e); /* a mark for another generation */
    add_entries(1);
    must(lane_mark_full(w.link, &lane, 1, &e), e);
    add_entries(2);
    must(lane_mark_full(w.link, &lane, 1, &e), e); /* a second mark, by another counter */
    add_entries(5);
    struct met m = reads_from(&first);
    assert_int_equal(m.before, 4);
    assert_int_equal(m.behind, 7);

    /* The folder stores the mark, and a position far after it; a reader that begins there knows the mark. */
    fold_init(&f, w.link, &w.names, 1);
    must(fold_draw(&f, 0, &e), e);
    must(full_store(&f, 0, w.view.lane[0], m.full.mark, &e), e);
    struct log_id second = m.full.mark;
    second.ms += 1000;
    must(full_store(&f, 0, w.view.lane[0], second, &e), e); /* the first mark counts */
    struct log_position at = first;
    struct met ignored = {.full = {.generation = 0}};
    enum tail_state tail = TAIL_LOST;
    must(lane_read(w.link, &lane, &at, meet, &ignored, &tail, &e), e);
    const struct log_counted counted = {w.view.lane[0], at.id}, earlier = {w.view.lane[0], first.id};
    must(fold_count(&f, &counted, 1, 3000, &e), e);
    must(fold_count(&f, &earlier, 1, 2000, &e), e); /* counts never go down */
    must(fold_store(&f, 0, 1, w.view.lane[0].era, &at, 1, false, &needed, &over_hold, &e), e);
    add_entries(2);
    m = reads_from(&at);
    assert_int_equal(m.before, 0);
    assert_int_equal(m.behind, 2);
    assert_true(log_view_is_full(&w.view, &w.view.slot[1], 0));
    assert_int_equal(w.view.slot[1].keys, 3000);
    assert_int_equal(log_id_compare(log_view_counted(&w.view, &w.view.slot[1], 0), at.id), 0);
    m = reads_from(&first); /* a reader that begins before the mark meets it in its place */
    assert_int_equal(m.before, 4);
    assert_int_equal(m.behind, 9);

    /* In another lane or era the mark may be lost. */
    struct log_lane other = w.view.lane[0];
    other.era++;
    gives(ERR_FENCED, full_store(&f, 0, other, second, &e), e);
    gives(ERR_FENCED, fold_count(&f, &(struct log_counted){other, second}, 1, 4000, &e), e);
    w.view.lane[0].era++;
    assert_false(log_view_is_full(&w.view, &w.view.slot[1], 0));
    w.view.lane[0].era--;
    w.view.slot[1].shape.number = 3; /* a rebuild has the slot */
    assert_false(log_view_is_full(&w.view, &w.view.slot[1], 0));
    w.view.slot[1].shape.number = 1;

    /* A writer that was replaced stores nothing. */
    struct fold next;
    fold_init(&next, w.link, &w.names, 1);
    must(fold_draw(&next, 0, &e), e);
    gives(ERR_FENCED, full_store(&f, 0, w.view.lane[0], first.id, &e), e);
    gives(ERR_FENCED, fold_count(&f, &counted, 1, 4000, &e), e);
    fold_fini(&next);
    fold_fini(&f);
}

static void test_mark_full__makes_no_lane(void **state)
{
    (void)state;
    struct error e = {""};
    struct lane lane;
    redisReply *r = NULL;
    lane_is(&lane);
    must(sync_client_command(w.link, lane.where, &r, &e, "DEL %b", lane.key.text, lane.key.length), e);
    freeReplyObject(r);
    gives(ERR_LOST, lane_mark_full(w.link, &lane, 1, &e), e);
}

static long long length_of(const struct lane *lane)
{
    struct error e = {""};
    redisReply *r = NULL;
    must(sync_client_command(w.link, lane->where, &r, &e, "XLEN %b", lane->key.text, lane->key.length), e);
    long long n = r->integer;
    freeReplyObject(r);
    return n;
}

/* It may come late, and keys that were acknowledged before may be appended again behind it. */
static void test_mark_full__is_not_appended_in_another_era(void **state)
{
    (void)state;
    struct error e = {""};
    struct lane lane;
    redisReply *r = NULL;
    lane_is(&lane);
    must(lane_mark_full(w.link, &lane, 1, &e), e);
    long long length = length_of(&lane);
    must(sync_client_command(w.link, lane.where, &r, &e, "DEBUG CHANGE-REPL-ID"), e);
    freeReplyObject(r);
    gives(ERR_FENCED, lane_mark_full(w.link, &lane, 1, &e), e);
    assert_int_equal(length_of(&lane), length);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test_setup_teardown(test_grow__adds_a_layer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_grow__needs_the_filter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layers__folded_before_the_new_one_begins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layers__folded_by_one_that_gets_the_new_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layers__keep_the_bits_that_are_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layers__take_no_shard_that_came_late, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full__is_the_same_for_all_by_the_log, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mark_full__makes_no_lane, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mark_full__is_not_appended_in_another_era, set_up, tear_down),
    };
    const struct CMUnitTest listed[] = {
        cmocka_unit_test_setup_teardown(test_grow__waits_for_an_era, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_grow__without_memory_leaves_no_shard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_grow__again_after_a_grower_was_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_grow__half_done_leaves_nothing_when_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_grow__by_one_that_wakes_takes_no_layer_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_grow__by_one_that_was_overtaken_adds_no_layer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_grow__where_an_era_ends_meanwhile_adds_no_layer, set_up,
                                        tear_down),
    };
    int failed = cmocka_run_group_tests_name("grow", all, start, stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* a list of nodes, behind a proxy */
        failed += cmocka_run_group_tests_name("grow, two nodes", listed, start, stop);
    return failed;
}
