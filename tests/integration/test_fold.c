/* SPDX-License-Identifier: MIT */
/* Which process may write the shards of a filter that is a log, on a real Redis: tokens in headers and in the
 * view, writes that the tokens fence, positions that never go back, and the bounds that they give for
 * trimming. */
#include "tests/integration/filters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/filter/block.h"
#include "shard/fold/fold.h"
#include "shard/fold/full.h"
#include "shard/view/log_view.h"

enum { GENERATION = 3, KEYS = 1000, ERA = 0xabcd };

static struct servers servers;
static struct sync_client *l;
static struct names names;
static struct generation g;
static struct header header;
static struct fold one, other;
static bool is_long; /* the lane is too long for builds */

static int start(void **state)
{
    (void)state;
    if (servers_start(&servers, 1) != 0)
        return -1;
    l = sync_client_new(&servers.nodes, SYNC_CLIENT_MS, NULL);
    return l == NULL ? -1 : 0;
}

static int stop(void **state)
{
    (void)state;
    sync_client_free(l);
    return servers_stop(&servers);
}

static void view_field(const char *name, const char *value)
{
    struct error e = {""};
    redisReply *r = NULL;
    struct key_name key;
    names_filter_key(&names, "view", &key);
    must(sync_client_command(l, 0, &r, &e, "HSET %b %s %s", key.text, key.length, name, value), e);
    freeReplyObject(r);
}

static void put_field(void *arg, const char *name, const char *value)
{
    (void)arg;
    view_field(name, value);
}

/* Make a shard whose header says that @token wrote it. */
static void make_shard(struct writer_token token)
{
    struct error e = {""};
    redisReply *r = NULL;
    struct key_name key;
    uint32_t first = header_bytes(&g.layers[0].geometry), length = header_shard_bytes(&g.layers[0].geometry);
    uint8_t *bytes = calloc(1, length);
    struct header h = header;
    h.writer = token;
    header_encode(&h, bytes);
    block_fill(&g.layers[0].geometry, header.tag, bytes + first);
    names_log_shard(&names, (struct shard_id){GENERATION, 0, 0}, &key);
    must(sync_client_command(l, 0, &r, &e, "SET %b %b", key.text, key.length, bytes, (size_t)length), e);
    freeReplyObject(r);
    free(bytes);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    servers_flush(&servers);
    must(names_init(&names, PREFIX, "f", 1, &e), e);
    names.incarnation = 0xabcdef;
    g = (struct generation){.number = GENERATION,
                            .seed = 5,
                            .built = true,
                            .capacity = KEYS,
                            .error_rate = 0.01,
                            .layer_count = 1};
    nodes_pin(&servers.nodes, &g);
    g.layers[0] = (struct layer){.capacity = KEYS, .error_rate = 0.01};
    must(geometry_plan(&g.layers[0].geometry, KEYS, 0.01, SHARD_BYTES_DEFAULT, &e), e);
    header = (struct header){.tag = hash_tag(names.incarnation, "f", 1, GENERATION),
                             .incarnation = names.incarnation,
                             .generation = GENERATION,
                             .blocks = g.layers[0].geometry.blocks,
                             .block_bits = (uint16_t)g.layers[0].geometry.block_bits,
                             .hashes = (uint16_t)g.layers[0].geometry.hashes};
    struct log_view *v = calloc(1, sizeof(*v));
    *v = (struct log_view){.incarnation = names.incarnation,
                           .version = 1,
                           .seed = 9,
                           .last_generation = GENERATION,
                           .current = 1,
                           .lane_count = 2,
                           .lane = {{1, ERA}, {1, ERA}},
                           .eras = {.count = 2, .id = {ERA + 1, ERA}}};
    v->slot[1].shape = g;
    log_view_format(v, put_field, NULL);
    free(v);
    make_shard((struct writer_token){0});
    fold_init(&one, l, &names, GENERATION);
    fold_init(&other, l, &names, GENERATION);
    must(fold_place(&one, &g, &e), e);
    must(fold_place(&other, &g, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fold_fini(&one);
    fold_fini(&other);
    return 0;
}

static void draw(struct fold *f, uint64_t at_least)
{
    struct error e = {""};
    must(fold_draw(f, at_least, &e), e);
}

static enum err adopt(struct fold *f, uint64_t *later)
{
    struct error e = {""};
    return fold_adopt(f, 0, 0, later, &e);
}

static void adopts(struct fold *f)
{
    uint64_t later;
    assert_int_equal(adopt(f, &later), ERR_OK);
}

static enum err write_at(struct fold *f, uint64_t offset, const char *bytes)
{
    struct error e = {""};
    fold_begin(f, 0, 0);
    fold_piece(f, offset, bytes, strlen(bytes));
    enum err code = fold_send(f, 0, 0, &e);
    return code == ERR_OK ? fold_reply(f, 0, 0, &e) : code;
}

static void shard_has(uint64_t offset, const char *bytes)
{
    struct error e = {""};
    redisReply *r = NULL;
    struct key_name key;
    names_log_shard(&names, (struct shard_id){GENERATION, 0, 0}, &key);
    must(sync_client_command(l, 0, &r, &e, "GETRANGE %b %d %d", key.text, key.length, (int)offset,
                             (int)(offset + strlen(bytes) - 1)),
         e);
    assert_string_equal(r->str, bytes);
    freeReplyObject(r);
}

static uint64_t exists(void)
{
    struct error e = {""};
    redisReply *r = NULL;
    struct key_name key;
    names_log_shard(&names, (struct shard_id){GENERATION, 0, 0}, &key);
    must(sync_client_command(l, 0, &r, &e, "EXISTS %b", key.text, key.length), e);
    uint64_t n = (uint64_t)r->integer;
    freeReplyObject(r);
    return n;
}

static void plain(const char *command)
{
    struct error e = {""};
    redisReply *r = NULL;
    must(sync_client_command(l, 0, &r, &e, command), e);
    freeReplyObject(r);
}

/* Store a position. Positions are entries without keys here, and need not lie in a lane. */
static enum err store_in(struct fold *f, unsigned lane, uint64_t lane_number, uint64_t ms, unsigned layers,
                         uint64_t *trim, uint64_t *over)
{
    struct error e = {""};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {7};
    struct log_position *p = calloc(1, sizeof(*p));
    struct fold_bound needed, over_hold;
    log_position_set(p, (struct log_id){ms, 0}, bytes, log_entry_encode(bytes, writer, ms, NULL, 0));
    enum err code = fold_store(f, lane, lane_number, ERA, p, layers, is_long, &needed, &over_hold, &e);
    *trim = needed.some ? needed.id.ms : 0;
    *over = over_hold.some ? over_hold.id.ms : 0;
    free(p);
    return code;
}

static enum err store_both(struct fold *f, unsigned lane, uint64_t lane_number, uint64_t ms, uint64_t *trim,
                           uint64_t *over)
{
    return store_in(f, lane, lane_number, ms, 1, trim, over);
}

static enum err store(struct fold *f, unsigned lane, uint64_t lane_number, uint64_t ms, uint64_t *trim)
{
    uint64_t over;
    return store_both(f, lane, lane_number, ms, trim, &over);
}

static void stores(struct fold *f, uint64_t ms, uint64_t expected)
{
    uint64_t trim;
    assert_int_equal(store(f, 0, 1, ms, &trim), ERR_OK);
    assert_int_equal(trim, expected);
}

/* --- tokens --- */

static void test_draw__goes_up_and_is_in_the_view(void **state)
{
    (void)state;
    struct error e = {""};
    char token[LOG_TOKEN_TEXT_MAX];
    redisReply *r = NULL;
    struct key_name key;
    draw(&one, 0);
    uint64_t first = one.token.number;
    draw(&other, 0);
    assert_true(other.token.number > first);
    assert_true(other.token.random != one.token.random);
    uint64_t far = first + 3600 * 1000; /* an hour: numbers are times */
    draw(&one, far);
    assert_int_equal(one.token.number, far);
    draw(&other, 0);
    assert_int_equal(other.token.number, far + 1);
    gives(ERR_FENCED, fold_draw_next(&one, 0, &e), e); /* the view names another writer */
    assert_int_equal(one.token.number, far);
    names_filter_key(&names, "view", &key);
    must(sync_client_command(l, 0, &r, &e, "HMGET %b token1 version", key.text, key.length), e);
    log_token_text(&other.token, token);
    assert_string_equal(r->element[0]->str, token);
    assert_string_equal(r->element[1]->str, "5");
    freeReplyObject(r);
}

static void test_draw__needs_the_generation_in_the_view(void **state)
{
    (void)state;
    struct error e = {""};
    struct fold gone;
    fold_init(&gone, l, &names, GENERATION + 2);
    assert_int_equal(fold_draw(&gone, 0, &e), ERR_NOT_FOUND);
    names.incarnation++;
    assert_int_equal(fold_draw(&one, 0, &e), ERR_NOT_FOUND);
    names.incarnation--;
    view_field("generation1", "");
    assert_int_equal(fold_draw(&one, 0, &e), ERR_NOT_FOUND);
    fold_fini(&gone);
}

/* --- headers --- */

static void test_adopt__fences_who_wrote_before(void **state)
{
    (void)state;
    draw(&one, 0);
    adopts(&one);
    adopts(&one);
    assert_int_equal(write_at(&one, 200, "first"), ERR_OK);
    draw(&other, 0);
    assert_int_equal(write_at(&other, 200, "never"), ERR_FENCED); /* its token is not in the header yet */
    adopts(&other);
    assert_int_equal(write_at(&one, 200, "zombie"), ERR_FENCED);
    shard_has(200, "first");
    assert_int_equal(write_at(&other, 200, "later"), ERR_OK);
    shard_has(200, "later");
}

static void test_adopt__does_not_go_back(void **state)
{
    (void)state;
    uint64_t later;
    draw(&one, 0);
    draw(&other, 0);
    adopts(&other);
    assert_int_equal(adopt(&one, &later), ERR_FENCED);
    assert_int_equal(later, other.token.number);
    assert_int_equal(write_at(&other, 200, "still"), ERR_OK);
    draw(&one, later + 1);
    adopts(&one);
    assert_int_equal(write_at(&other, 200, "zombie"), ERR_FENCED);
}

/* A metadata node that came back with older data gives a number twice. Then the random part decides, so that
 * only one of the two can write. */
static void test_adopt__of_two_with_one_number_lets_one_write(void **state)
{
    (void)state;
    uint64_t later;
    draw(&one, 0);
    other.token = (struct writer_token){.number = one.token.number, .random = one.token.random + 1};
    adopts(&one);
    adopts(&other);
    assert_int_equal(adopt(&one, &later), ERR_FENCED);
    assert_int_equal(later, one.token.number);
    assert_int_equal(write_at(&one, 200, "x"), ERR_FENCED);
    assert_int_equal(write_at(&other, 200, "y"), ERR_OK);
}

/* The error must name the shard's key. */
static void names_it(enum err code, uint32_t shard, const struct error *e)
{
    char name[KEY_NAME_MAX + 1];
    struct key_name key;
    names_log_shard(&names, (struct shard_id){GENERATION, 0, shard}, &key);
    (void)snprintf(name, sizeof(name), "%.*s", (int)key.length, key.text);
    assert_true(fold_is_lost(code));
    assert_non_null(strstr(e->text, name));
}

/* Neither way of writing may create or change a key that is no such shard. */
static void is_left_alone(enum err expected, uint32_t shard)
{
    uint64_t later;
    struct error e = {""};
    uint8_t block[BLOCK_BITS_MAX / 8];
    gives(expected, fold_adopt(&one, 0, shard, &later, &e), e);
    names_it(expected, shard, &e);
    fold_begin(&one, 0, shard);
    fold_piece(&one, 200, "x", 1);
    must(fold_send(&one, 0, shard, &e), e);
    must(fold_get(&one, 0, shard, 3, &e), e);
    gives(expected, fold_reply(&one, 0, shard, &e), e);
    names_it(expected, shard, &e);
    enum err got = fold_got(&one, 0, shard, 3, block, &e);
    names_it(got, shard, &e);
}

static void test_adopt__leaves_what_is_no_such_shard(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *r = NULL;
    struct key_name key;
    uint64_t later;
    draw(&one, 0);
    is_left_alone(ERR_LOST, 1); /* a name without a key */
    one.tag ^= 1;               /* the key has another content */
    is_left_alone(ERR_LOST, 0);
    one.tag ^= 1;
    g.layers[0].token = 1; /* the key is from before its layer was made */
    gives(ERR_LOST, fold_adopt(&one, 0, 0, &later, &e), e);
    names_it(ERR_LOST, 0, &e);
    g.layers[0].token = 0;
    shard_has(200, "");
    names_log_shard(&names, (struct shard_id){GENERATION, 0, 0}, &key);
    must(sync_client_command(l, 0, &r, &e, "SET %b something", key.text, key.length), e);
    freeReplyObject(r);
    is_left_alone(ERR_LOST, 0);
    shard_has(0, "something");
    servers_flush(&servers);
    is_left_alone(ERR_LOST, 0);
    assert_int_equal(exists(), 0);
    must(sync_client_command(l, 0, &r, &e, "LPUSH %b x", key.text, key.length), e);
    freeReplyObject(r);
    is_left_alone(ERR_WRONG_TYPE, 0);
}

static void test_got__is_a_block_with_its_tag(void **state)
{
    (void)state;
    struct error e = {""};
    uint8_t block[BLOCK_BITS_MAX / 8], expected[BLOCK_BITS_MAX / 8] = {0};
    draw(&one, 0);
    adopts(&one);
    uint32_t bytes = header.block_bits / 8;
    expected[0] = (uint8_t)(header.tag >> 8);
    expected[1] = (uint8_t)header.tag;
    memcpy(expected + 2, "bits", sizeof("bits"));
    assert_int_equal(write_at(&one, (uint64_t)bytes * 4 + 2, "bits"),
                     ERR_OK); /* after the header and 3 blocks */
    must(fold_get(&one, 0, 0, 3, &e), e);
    must(fold_get(&one, 0, 0, header.blocks, &e), e);
    must(fold_got(&one, 0, 0, 3, block, &e), e);
    assert_memory_equal(block, expected, bytes);
    gives(ERR_LOST, fold_got(&one, 0, 0, header.blocks, block, &e), e); /* there is no such block */
    assert_int_equal(write_at(&one, (uint64_t)bytes * 4, "??"), ERR_OK);
    must(fold_get(&one, 0, 0, 3, &e), e);
    gives(ERR_LOST, fold_got(&one, 0, 0, 3, block, &e), e);
    assert_non_null(strstr(e.text, "block 3"));
}

/* A lane that cannot be folded can never be trimmed, so folding goes on when Redis refuses other writes. */
static void test_write__goes_on_at_maxmemory(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *r = NULL;
    draw(&one, 0);
    plain("CONFIG SET maxmemory 1");
    enum err set = sync_client_command(l, 0, &r, &e, "SET x y");
    uint64_t later;
    enum err adopted = adopt(&one, &later), written = write_at(&one, 200, "full");
    enum err drawn = fold_draw(&other, 0, &e);
    uint64_t trim;
    enum err stored = store(&other, 0, 1, 5, &trim);
    plain("CONFIG SET maxmemory 0");
    assert_int_equal(set, ERR_REFUSED);
    assert_int_equal(adopted, ERR_OK);
    assert_int_equal(written, ERR_OK);
    shard_has(200, "full");
    assert_int_equal(drawn, ERR_OK);
    assert_int_equal(stored, ERR_OK);
    assert_int_equal(trim, 5);
}

static void test_write__takes_many_pieces(void **state)
{
    (void)state;
    struct error e = {""};
    draw(&one, 0);
    adopts(&one);
    fold_begin(&one, 0, 0);
    fold_piece(&one, 128, "aaaa", 4);
    fold_piece(&one, 256, "bbbb", 4);
    must(fold_send(&one, 0, 0, &e), e);
    fold_begin(&one, 0, 0);
    fold_piece(&one, 384, "cccc", 4);
    must(fold_send(&one, 0, 0, &e), e);
    must(fold_reply(&one, 0, 0, &e), e);
    must(fold_reply(&one, 0, 0, &e), e);
    shard_has(128, "aaaa");
    shard_has(256, "bbbb");
    shard_has(384, "cccc");
}

/* --- positions --- */

static void test_store__only_goes_up(void **state)
{
    (void)state;
    draw(&one, 0);
    stores(&one, 9, 9);
    stores(&one, 10, 10); /* compared as numbers, not as text */
    stores(&one, 9, 10);
    stores(&one, 100, 100);
}

static void test_store__is_for_the_writer_alone(void **state)
{
    (void)state;
    uint64_t trim;
    draw(&one, 0);
    stores(&one, 5, 5);
    draw(&other, 0);
    assert_int_equal(store(&one, 0, 1, 6, &trim), ERR_FENCED);
    stores(&other, 5, 5);
}

static void test_store__is_for_the_lane_that_the_view_has(void **state)
{
    (void)state;
    uint64_t trim;
    draw(&one, 0);
    stores(&one, 50, 50);
    assert_int_equal(store(&one, 1, 1, 7, &trim), ERR_OK);
    assert_int_equal(trim, 7);
    assert_int_equal(store(&one, 2, 1, 7, &trim), ERR_FENCED);
    view_field("lanes", "2:000000000000abcd,1:000000000000abcd"); /* the lane was replaced: its stream and the
                                                                     positions begin again */
    assert_int_equal(store(&one, 0, 1, 60, &trim), ERR_FENCED);
    assert_int_equal(store(&one, 0, 2, 8, &trim), ERR_OK);
    assert_int_equal(trim, 8);
}

/* The entry may be lost with the era, so that no reader would find it in the lane. */
static void test_store__is_for_an_era_that_the_view_has(void **state)
{
    (void)state;
    uint64_t trim;
    draw(&one, 0);
    stores(&one, 50, 50);
    view_field("lanes", "1:000000000000abce,1:000000000000abcd");
    assert_int_equal(store(&one, 0, 1, 60, &trim), ERR_FENCED);
    view_field("lanes", "1:000000000000abcd,1:000000000000abcd");
    stores(&one, 50, 50); /* the refused position was not stored */
}

/* The view went back to before a layer: with such a position nobody could parse it. */
static void test_store__is_for_layers_that_the_view_has(void **state)
{
    (void)state;
    uint64_t trim, over;
    draw(&one, 0);
    assert_int_equal(store_in(&one, 0, 1, 50, 2, &trim, &over), ERR_FENCED);
    stores(&one, 40, 40); /* the refused position was not stored */
}

static void test_store__keeps_what_a_build_holds(void **state)
{
    (void)state;
    draw(&one, 0);
    view_field("hold.0", "1 30-0");
    stores(&one, 50, 30);
    view_field("hold.0", "1 200-0"); /* after the position */
    stores(&one, 60, 60);
    view_field("hold.0", "2 30-0"); /* the hold is of another stream */
    stores(&one, 70, 70);
}

static void marks(uint64_t ms, const char *expected)
{
    struct error e = {""};
    redisReply *r = NULL;
    struct key_name key;
    must(full_store(&one, 0, (struct log_lane){1, ERA}, (struct log_id){ms, 0}, &e), e);
    names_filter_key(&names, "view", &key);
    must(sync_client_command(l, 0, &r, &e, "HGET %b full1.0", key.text, key.length), e);
    assert_string_equal(r->str, expected);
    freeReplyObject(r);
}

/* The first mark of a lane counts, in the era in which it was met. */
static void test_full__is_the_first_mark_of_a_lane(void **state)
{
    (void)state;
    struct error e = {""};
    draw(&one, 0);
    marks(5, "3 1:000000000000abcd 5-0");
    marks(7, "3 1:000000000000abcd 5-0");
    marks(3, "3 1:000000000000abcd 3-0");
    gives(ERR_FENCED, full_store(&one, 0, (struct log_lane){2, ERA}, (struct log_id){1, 0}, &e), e);
    gives(ERR_FENCED, full_store(&one, 0, (struct log_lane){1, ERA + 1}, (struct log_id){1, 0}, &e), e);
    view_field("full1.0", "3 1:000000000000abcc 1-0"); /* that of an earlier era may be lost */
    marks(3, "3 1:000000000000abcd 3-0");
}

static bool is_near(void)
{
    struct error e = {""};
    redisReply *r = NULL;
    struct key_name key;
    names_filter_key(&names, "view", &key);
    must(sync_client_command(l, 0, &r, &e, "HEXISTS %b near", key.text, key.length), e);
    bool is = r->integer == 1;
    freeReplyObject(r);
    return is;
}

/* The generation under construction has a hold, and no position before its cutover. */
static void test_store__says_what_may_go_over_the_hold_of_a_build(void **state)
{
    (void)state;
    char text[GENERATION_TEXT_MAX];
    uint64_t trim, over;
    draw(&one, 0);
    g.number = GENERATION + 1;
    g.built = false;
    (void)generation_text(&g, text);
    view_field("generation0", text);
    assert_int_equal(store_both(&one, 0, 1, 20, &trim, &over), ERR_OK);
    assert_int_equal(trim, 20); /* nothing reads the lane before there is a hold */
    assert_int_equal(over, 20);
    view_field("hold.0", "1 15-0");
    view_field("near", "4");
    assert_int_equal(store_both(&one, 0, 1, 30, &trim, &over), ERR_OK);
    assert_int_equal(trim, 15);
    assert_int_equal(over, 30);
    assert_true(is_near());
    is_long = true;
    assert_int_equal(store_both(&one, 0, 1, 31, &trim, &over), ERR_OK);
    is_long = false;
    assert_false(is_near()); /* a build that the lane is not kept for reads it once more before its cutover */
    view_field("bloom_filter_current_index", "0"); /* it is current now: nothing may go over what it needs */
    view_field("hold.0", "1 15-0");
    assert_int_equal(store_both(&one, 0, 1, 32, &trim, &over), ERR_OK);
    assert_int_equal(trim, 0);
    assert_int_equal(over, 0);
}

static void test_store__keeps_what_another_generation_needs(void **state)
{
    (void)state;
    char text[GENERATION_TEXT_MAX];
    uint64_t trim;
    struct fold build;
    draw(&one, 0);
    stores(&one, 20, 20);
    g.number = GENERATION + 1;
    (void)generation_text(&g, text);
    view_field("generation0", text);
    stores(&one, 30, 0); /* the generation has no position, so it needs all entries */
    fold_init(&build, l, &names, GENERATION + 1);
    draw(&build, 0);
    assert_int_equal(store(&build, 0, 1, 25, &trim), ERR_OK);
    assert_int_equal(trim, 25);
    stores(&one, 40, 25);
    assert_int_equal(store(&build, 0, 1, 90, &trim), ERR_OK);
    assert_int_equal(trim, 40);
    view_field("generation1", "");
    assert_int_equal(store(&build, 0, 1, 91, &trim), ERR_OK);
    assert_int_equal(trim, 91);
    fold_fini(&build);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_draw__goes_up_and_is_in_the_view, setup, teardown),
        cmocka_unit_test_setup_teardown(test_draw__needs_the_generation_in_the_view, setup, teardown),
        cmocka_unit_test_setup_teardown(test_adopt__fences_who_wrote_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_adopt__does_not_go_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_adopt__of_two_with_one_number_lets_one_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_adopt__leaves_what_is_no_such_shard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_got__is_a_block_with_its_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write__goes_on_at_maxmemory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write__takes_many_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_store__only_goes_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_store__is_for_the_writer_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_store__is_for_the_lane_that_the_view_has, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full__is_the_first_mark_of_a_lane, setup, teardown),
        cmocka_unit_test_setup_teardown(test_store__is_for_layers_that_the_view_has, setup, teardown),
        cmocka_unit_test_setup_teardown(test_store__keeps_what_a_build_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_store__says_what_may_go_over_the_hold_of_a_build, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_store__is_for_an_era_that_the_view_has, setup, teardown),
        cmocka_unit_test_setup_teardown(test_store__keeps_what_another_generation_needs, setup, teardown),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
