/* SPDX-License-Identifier: MIT */
/* Folding on a real Redis: processes that apply the same entries fold one after the other, wake up late, or
 * lose a connection. Afterwards a new process loads the data of Redis. */
#include "tests/integration/folding.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/resident/dirty.h"

static void test_fold__brings_what_was_applied_to_redis(void **state)
{
    (void)state;
    folding_load(&folding_member[0]);
    folding_apply(&folding_member[0], 0, 5000);
    assert_true(folding_missing(0, 5000) > 4500);
    folding_folds(&folding_member[0], 5000);
    assert_int_equal(folding_missing(0, 5000), 0);
    assert_int_equal(folding_folded(), 5000);
    uint64_t before = folding_writes();
    folding_folds(&folding_member[0], 5000);
    assert_int_equal(folding_writes(), before); /* nothing is left to write */
    folding_apply(&folding_member[0], 5000, 5100);
    folding_folds(&folding_member[0], 5100);
    assert_true(folding_writes() - before <= ENTRY_KEYS);
    assert_int_equal(folding_missing(0, 5100), 0);
}

/* The memory of the process that takes over lacks what the one before has written. */
static void test_take_over__by_one_that_lags_loses_nothing(void **state)
{
    (void)state;
    folding_load(&folding_member[0]);
    folding_load(&folding_member[1]);
    folding_apply(&folding_member[0], 0, 3000);
    folding_folds(&folding_member[0], 3000);
    folding_apply(&folding_member[1], 0, 1000);
    folding_folds(&folding_member[1], 1000);
    assert_int_equal(folding_missing(0, 3000), 0);
    assert_int_equal(folding_folded(), 3000);
}

static void test_fold__of_one_that_was_taken_over_is_refused_and_kept(void **state)
{
    (void)state;
    struct error e = {""};
    folding_load(&folding_member[0]);
    folding_load(&folding_member[1]);
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    folding_apply(&folding_member[1], 0, 1000);
    folding_folds(&folding_member[1], 1000);
    folding_apply(&folding_member[0], 1000, 2000);
    gives(ERR_FENCED, folding_fold_to(&folding_member[0], 2000, &e), e);
    assert_int_equal(folding_folded(), 1000);
    assert_true(folding_missing(1000, 2000) > 900);
    folding_folds(&folding_member[0], 2000); /* takes over again */
    assert_int_equal(folding_missing(0, 2000), 0);
    gives(ERR_FENCED, folding_fold_to(&folding_member[1], 2000, &e), e);
}

struct counts {
    unsigned calls;
    uint64_t applied, era;
};

/* Imitates entries that arrive after the position that is noted. */
static bool count(void *arg, const struct folder *f, struct log_counted *at, unsigned lanes, uint64_t *keys)
{
    struct counts *c = arg;
    (void)f;
    assert_int_equal(lanes, 1);
    c->calls++;
    *at = (struct log_counted){{1, c->era}, {c->applied, 0}};
    *keys = c->applied;
    folding_apply(&folding_member[0], c->applied, c->applied + ENTRY_KEYS);
    c->applied += ENTRY_KEYS;
    return true;
}

/* A process that loads the pages cannot tell which of their keys are new. */
static void test_fold__stores_how_many_keys_there_are_before_their_pages(void **state)
{
    struct counts c = {.applied = 4000, .era = ERA + 1};
    struct error e = {""};
    struct folder *f = &folding_member[0].folder;
    char text[80];
    (void)state;
    folding_load(&folding_member[0]);
    folding_folds(&folding_member[0], 0); /* takes over */
    folding_apply(&folding_member[0], 0, 4000);
    uint64_t before = folding_writes();
    f->count = count;
    f->tend_arg = &c;
    gives(ERR_FENCED, folding_fold_to(&folding_member[0], 4000, &e),
          e); /* the view does not accept the counts */
    assert_int_equal(folding_writes(), before);
    c.era = ERA;
    folding_folds(&folding_member[0], c.applied);
    assert_int_equal(c.calls, 2);
    uint64_t counted = c.applied - ENTRY_KEYS;
    (void)snprintf(text, sizeof(text), "%d %llu 1:%016x %llu-0", GENERATION, (unsigned long long)counted, ERA,
                   (unsigned long long)counted);
    assert_string_equal(folding_field("keys0"), text);
    assert_true(folding_missing(counted, c.applied) > ENTRY_KEYS * 9 / 10);
    f->count = NULL; /* fewer keys than were counted */
    folding_folds(&folding_member[0], c.applied);
    assert_string_equal(folding_field("keys0"), text);
    assert_int_equal(folding_missing(0, c.applied), 0);
}

/* More keys than one request to Redis looks for; many of them repeat. */
static void test_count__of_many_keys_that_came_while_shards_were_loaded(void **state)
{
    enum { FOLDED = 2000, TOLD = 3000, MANY = 300000 };
    const struct log_id from[LOG_LANES_MAX] = {{TOLD, 0}}, to[LOG_LANES_MAX] = {{MANY, 0}};
    struct folding_member *whole = &folding_member[0], *loading = &folding_member[1];
    struct error e = {""};
    uint64_t keys;
    (void)state;
    folding_load(whole);
    folding_apply(whole, 0, TOLD);
    uint64_t told = resident_keys(whole->resident);
    folding_apply(whole, TOLD, MANY);
    folding_apply(loading, 0, FOLDED);
    folding_folds(loading, FOLDED); /* Redis has some of the keys */
    folding_apply(loading, FOLDED, MANY);
    must(folder_count(&loading->folder, from, to, &keys, &e), e);
    assert_true(keys > 1000);
    assert_int_equal(keys, resident_keys(whole->resident) - told);
}

/* Apply the entries of the keys [0, 1000) once, and count how many were new. */
struct late_entries {
    struct folding_member *member;
    unsigned calls, added;
};

static enum err apply_late(void *arg, struct error *e)
{
    struct late_entries *late = arg;
    enum err code = ERR_OK;
    late->calls++;
    for (uint64_t at = 0; at < 1000 && late->calls == 1 && code == ERR_OK; at += ENTRY_KEYS) {
        struct key_hash keys[ENTRY_KEYS];
        uint8_t added[ENTRY_KEYS];
        for (unsigned i = 0; i < ENTRY_KEYS; i++)
            keys[i] = folding_key(at + i);
        code = resident_apply(late->member->resident, 0, (struct log_id){at + ENTRY_KEYS, 0}, keys,
                              ENTRY_KEYS, added, e);
        for (unsigned i = 0; i < ENTRY_KEYS; i++)
            late->added += added[i] == RESIDENT_NEW;
    }
    return code;
}

/* Another process has folded entries that this one has not applied. Their keys are new in the order of the
 * log, though the pages that this one joins have their bits. */
static void test_take_over__of_what_was_not_applied_yet_keeps_it_new(void **state)
{
    (void)state;
    struct error e = {""};
    struct late_entries first = {.member = &folding_member[0]}, late = {.member = &folding_member[1]};
    folding_load(&folding_member[0]);
    folding_load(&folding_member[1]);
    must(apply_late(&first, &e), e);
    folding_folds(&folding_member[0], 1000);
    folding_member[1].folder.catch_up = apply_late;
    folding_member[1].folder.tend_arg = &late;
    folding_folds(&folding_member[1], 1000);
    assert_true(late.calls > 0); /* one call for all pieces that are read together */
    assert_true(first.added > 900);
    assert_int_equal(late.added, first.added);
}

struct limited {
    unsigned calls, most;
};

static enum err end_after(void *arg, struct error *e)
{
    struct limited *l = arg;
    return l->calls++ < l->most ? ERR_OK : error_set(e, ERR_BUSY, "another process has the lease");
}

/* Wherever the fold is ended, no position is stored, and the next command on the link gets its own reply. */
static void test_fold__ends_where_its_caller_says(void **state)
{
    (void)state;
    uint32_t shards = folding_g.layers[0].geometry.shards;
    folding_load(&folding_member[0]);
    folding_apply(&folding_member[0], 0, 1000);
    struct limited never = {.most = UINT32_MAX};
    folding_member[0].folder.tend = end_after;
    folding_member[0].folder.tend_arg = &never;
    folding_folds(&folding_member[0], 1000);
    assert_true(never.calls > 4 * shards);
    folding_apply(&folding_member[0], 1000, 2000);
    for (unsigned most = 0; most < never.calls; most++) {
        struct limited l = {.most = most};
        struct error e = {""};
        redisReply *r;
        folding_member[0].folder.tend_arg = &l;
        folding_member[0].folder.took_over = false;
        gives(ERR_BUSY, folding_fold_to(&folding_member[0], 2000, &e), e);
        must(sync_client_command(folding_member[0].link,
                                 sync_client_home(folding_member[0].link, &folding_names), &r, &e, "PING"),
             e);
        assert_true(r->type == REDIS_REPLY_STATUS && strcmp(r->str, "PONG") == 0);
        freeReplyObject(r);
        assert_int_equal(folding_folded(), 1000);
    }
    folding_member[0].folder.tend_arg = &never;
    folding_folds(&folding_member[0], 2000);
    assert_int_equal(folding_missing(0, 2000), 0);
}

/* A batch was taken and never arrived, so its marks are lost. */
static void lose_marks(void)
{
    struct dirty_batch *batch = malloc(sizeof(*batch));
    folding_load(&folding_member[0]);
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    folding_apply(&folding_member[0], 1000, 2000);
    for (uint32_t s = 0; s < folding_g.layers[0].geometry.shards; s++)
        for (uint32_t page = 0; dirty_take_from(folding_member[0].resident->layer[0], s, &page, batch);)
            ;
    free(batch);
    folding_member[0].folder.took_over = false;
}

static void test_take_over__writes_what_redis_lacks_whatever_the_marks_say(void **state)
{
    (void)state;
    lose_marks();
    folding_folds(&folding_member[0], 2000);
    assert_int_equal(folding_missing(0, 2000), 0);
}

static enum err fail_once(void *calls, struct error *e)
{
    return (*(unsigned *)calls)++ > 0 ? ERR_OK
                                      : error_set(e, ERR_TIMEOUT, "the lease was not renewed in time");
}

/* A shard that it passed over would keep what is known of it under the former token. */
static void test_take_over__passes_over_no_shard_where_its_caller_fails_once(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned calls = 0;
    lose_marks();
    folding_member[0].folder.tend = fail_once;
    folding_member[0].folder.tend_arg = &calls;
    gives(ERR_TIMEOUT, folding_fold_to(&folding_member[0], 2000, &e), e);
    assert_int_equal(folding_folded(), 1000);
    folding_folds(&folding_member[0], 2000);
    assert_int_equal(folding_missing(0, 2000), 0);
}

/* Requests that were sent before the connection broke may be executed later: their old token is refused. */
static void test_fold__draws_a_new_token_after_a_broken_connection(void **state)
{
    (void)state;
    struct error e = {""};
    folding_load(&folding_member[0]);
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    uint64_t token = folding_member[0].folder.fold.token.number;
    folding_apply(&folding_member[0], 1000, 2000);
    proxy_set(folding_proxy, folding_route, &(struct proxy_fault){.resets = 1});
    gives(ERR_UNREACHABLE, folding_fold_to(&folding_member[0], 2000, &e), e);
    proxy_lift(folding_proxy);
    assert_int_equal(folding_folded(), 1000);
    folding_folds(&folding_member[0], 2000);
    assert_true(folding_member[0].folder.fold.token.number > token);
    assert_int_equal(folding_missing(0, 2000), 0);
}

static void test_take_over__draws_above_what_headers_have(void **state)
{
    (void)state;
    struct key_name token;
    names_filter_key(&folding_names, "token", &token);
    const long long ahead = (long long)(clock_wall_us() / 1000) + 1000000; /* so that the time is no help */
    assert_string_equal(servers_text(&folding_servers, 0, "SET %b %lld", token.text, token.length, ahead),
                        "OK");
    folding_load(&folding_member[0]);
    folding_load(&folding_member[1]);
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    assert_int_equal(folding_member[0].folder.fold.token.number, ahead + 1);
    /* the metadata node went back */
    assert_string_equal(servers_text(&folding_servers, 0, "SET %b 1", token.text, token.length), "OK");
    folding_apply(&folding_member[1], 0, 1000);
    folding_folds(&folding_member[1], 1000);
    assert_true(folding_member[1].folder.fold.token.number > folding_member[0].folder.fold.token.number);
}

/* --- shards that are not whole in memory --- */

static void test_fold__writes_what_the_overlay_has_of_shards_that_are_not_there(void **state)
{
    (void)state;
    folding_apply(&folding_member[0], 0, 5000);
    assert_true(folding_missing(0, 5000) > 4500);
    folding_folds(&folding_member[0], 3000);
    assert_int_equal(folding_missing(0, 3000), 0);
    assert_true(folding_missing(3000, 5000) > 1500); /* only up to the position */
    assert_int_equal(folding_folded(), 3000);
    uint64_t written = folding_writes(), read = folding_calls("getrange");
    folding_folds(&folding_member[0], 3000);
    assert_int_equal(folding_writes(), written);
    assert_int_equal(folding_calls("getrange"), read); /* folded keys are not read again */
    folding_folds(&folding_member[0], 5000);
    assert_int_equal(folding_missing(0, 5000), 0);
    written = folding_writes();
    folding_apply(&folding_member[1], 0, 5000);
    folding_folds(&folding_member[1], 5000);
    assert_true(folding_writes() - written <=
                folding_g.layers[0].geometry.shards); /* only headers: Redis had all these bits */
}

/* A hundred keys in one block, in one batch or in several: no write overwrites another. */
static void test_fold__writes_many_keys_of_one_block(void **state)
{
    (void)state;
    folding_apply(&folding_member[0], 0, 20000); /* more than one batch, about fifty keys in each block */
    folding_folds(&folding_member[0], 20000);
    assert_int_equal(folding_missing(0, 20000), 0);
}

/* Some shards are in memory, some are not, one is loading; entries come before and in between. */
static void test_fold__writes_each_shard_in_its_way(void **state)
{
    (void)state;
    struct load l;
    folding_apply(&folding_member[0], 0, 1000);
    folding_load_some(&folding_member[0], &l, 0, 0, 1);
    assert_int_equal(load_end(&l), 1);
    folding_apply(&folding_member[0], 1000, 2000);
    folding_load_some(&folding_member[0], &l, 0, 1, 1);
    folding_apply(&folding_member[0], 2000, 3000);
    folding_folds(&folding_member[0], 3000);
    assert_int_equal(folding_missing(0, 3000), 0);
    folding_apply(&folding_member[0], 3000, 4000);
    assert_int_equal(load_end(&l), 1);
    folding_apply(&folding_member[0], 4000, 5000);
    folding_folds(&folding_member[0], 5000);
    assert_int_equal(folding_missing(0, 5000), 0);
    assert_int_equal(folding_folded(), 5000);
}

static void test_fold__writes_into_all_layers(void **state)
{
    (void)state;
    struct load l;
    folding_load_some(&folding_member[0], &l, 1, 1, 1);
    assert_int_equal(load_end(&l), 1);
    folding_apply(&folding_member[0], 0, 5000);
    folding_folds(&folding_member[0], 5000);
    assert_int_equal(folding_missing(0, 5000), 0);
}

/* Keys of a layer that the folder's view lacks are not written to Redis until the view has it. */
static void test_fold__needs_the_layers_that_memory_has(void **state)
{
    (void)state;
    struct error e = {""};
    folding_g.layer_count = 1; /* but Redis has shards of two layers */
    struct folding_member p;
    folding_begin(&p);
    folding_apply(&p, 0, 1000);
    folding_folds(&p, 1000);
    uint16_t tag = hash_tag(folding_names.incarnation, "f", 1, GENERATION);
    must(resident_add_layer(p.resident, &folding_g.layers[1].geometry, tag, &e), e);
    must(resident_begin_layer(p.resident, 0, (struct log_id){1000, 1}, 1, &e), e);
    folding_apply(&p, 1000, 2000);
    gives(ERR_CONFLICT, folding_fold_to(&p, 2000, &e), e);
    assert_non_null(strstr(e.text, "load the view again"));
    assert_int_equal(folding_folded(), 1000);
    folding_g.layer_count = 2;
    folding_folds(&p, 2000);
    assert_int_equal(folding_missing(0, 2000), 0);
    folding_end(&p);
}

/* The shard was read before another process wrote into it. Its pages are joined before the first of them is
 * written. */
static void test_take_over__while_a_shard_loads_reads_it_when_it_is_whole(void **state)
{
    (void)state;
    struct load l;
    uint32_t shards = folding_g.layers[0].geometry.shards;
    folding_load_some(&folding_member[0], &l, 0, 0, shards); /* all shards were read, and they were empty */
    folding_apply(&folding_member[1], 0, 3000);
    folding_folds(&folding_member[1], 3000);
    folding_apply(&folding_member[0], 0, 100);
    folding_folds(&folding_member[0], 100);
    assert_int_equal(load_end(&l), shards);
    folding_apply(&folding_member[0], 100, 200);
    folding_folds(&folding_member[0], 200);
    assert_int_equal(folding_missing(0, 3000), 0);
    assert_int_equal(folding_folded(), 3000);
}

/* One process has all shards in memory, the other has none; either lags at times. */
static void test_take_over__by_turns_loses_nothing(void **state)
{
    (void)state;
    static const unsigned reach[][2] = {{300, 100},   {400, 900},   {1200, 1100}, {1300, 2500},
                                        {2600, 2600}, {3000, 2700}, {3100, 4000}, {4100, 4100}};
    uint64_t most = 0, at[2] = {0};
    folding_load(&folding_member[0]);
    for (unsigned i = 0; i < sizeof(reach) / sizeof(reach[0]); i++)
        for (unsigned who = 0; who < 2; who++) {
            uint64_t to = reach[i][who];
            folding_apply(&folding_member[who], at[who], to);
            at[who] = to;
            folding_member[who].folder.took_over = false;
            folding_folds(&folding_member[who], to);
            most = to > most ? to : most;
            assert_int_equal(folding_folded(), most);
            assert_int_equal(folding_missing(0, most), 0);
        }
}

static void test_fold__by_keys_of_one_that_was_taken_over_is_refused(void **state)
{
    (void)state;
    struct error e = {""};
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    folding_apply(&folding_member[1], 0, 1000);
    folding_folds(&folding_member[1], 1000);
    folding_apply(&folding_member[0], 1000, 2000);
    uint64_t before = folding_writes();
    gives(ERR_FENCED, folding_fold_to(&folding_member[0], 2000, &e), e);
    assert_int_equal(folding_writes(), before);
    assert_int_equal(folding_folded(), 1000);
    folding_folds(&folding_member[0], 2000); /* takes over again */
    assert_int_equal(folding_missing(0, 2000), 0);
}

/* The fold changes no block; a process that was taken over may not store a position nevertheless. */
static void test_fold__of_nothing_new_by_one_that_was_taken_over_is_refused(void **state)
{
    (void)state;
    struct error e = {""};
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    folding_apply(&folding_member[1], 0, 2000);
    folding_folds(&folding_member[1], 1500);
    gives(ERR_FENCED, folding_fold_to(&folding_member[0], 1600, &e), e);
    assert_int_equal(folding_folded(), 1500);
}

/* How many blocks the keys lie in, each of which is read before anything is written. */
static unsigned blocks_of(uint64_t first, uint64_t last)
{
    static bool seen[64][4096];
    unsigned n = 0;
    memset(seen, 0, sizeof(seen));
    for (uint64_t i = first; i < last; i++) {
        struct key_place p;
        hash_place(&folding_g.layers[0].geometry, hash_mix(folding_key(i), folding_g.seed), &p);
        n += !seen[p.shard][p.block];
        seen[p.shard][p.block] = true;
    }
    return n;
}

/* Writes of blocks that were read before another process wrote into them arrive after those writes. */
static void test_fold__by_keys_that_is_executed_late_is_refused(void **state)
{
    (void)state;
    struct error e = {""};
    struct folding_member held;
    proxy_count_as_job(folding_proxy, "held");
    folding_begin_named(&held, "held", 500);
    folding_apply(&held, 0, 1000);
    folding_folds(&held, 1000);
    folding_apply(&held, 1000, 1100);
    proxy_count(folding_proxy, "", blocks_of(1000, 1100) + 1, PROXY_BEFORE);
    uint64_t before = folding_writes();
    gives(ERR_TIMEOUT, folding_fold_to(&held, 1100, &e), e);
    assert_true(proxy_is_held(folding_proxy));
    assert_int_equal(folding_writes(), before);
    folding_apply(&folding_member[1], 0, 2000);
    folding_folds(&folding_member[1], 2000);
    uint64_t scripts = folding_calls("eval");
    proxy_release(folding_proxy, true);
    for (unsigned i = 0; i < 200 && folding_calls("eval") == scripts; i++)
        clock_sleep_us(10 * 1000);
    assert_true(folding_calls("eval") > scripts); /* the late request was executed */
    clock_sleep_us(100 * 1000);
    assert_int_equal(folding_missing(0, 2000), 0);
    folding_apply(&held, 1100, 2100); /* goes on with a new token */
    folding_folds(&held, 2100);
    assert_int_equal(folding_missing(0, 2100), 0);
    folding_end(&held);
}

/* The connection breaks at each of the last requests, which write blocks and store the position; the withheld
 * request is executed late, or never. */
static void test_fold__by_keys_goes_on_after_a_broken_connection(void **state)
{
    (void)state;
    struct error e = {""};
    struct folding_member broken;
    unsigned failures = 0, scripts = folding_g.layers[0].geometry.shards + 1;
    proxy_count_as_job(folding_proxy, "broken");
    folding_begin_named(&broken, "broken", 300);
    uint64_t at = 0;
    folding_folds(&broken, 0);
    for (unsigned n = 0; n <= scripts; n++)
        for (unsigned way = 0; way < 3; way++, at += 100) {
            folding_apply(&broken, at, at + 100);
            proxy_count(folding_proxy, "", blocks_of(at, at + 100) + n,
                        way == 0 ? PROXY_AFTER : PROXY_BEFORE);
            enum err code = folding_fold_to(&broken, at + 100, &e);
            proxy_release(folding_proxy, way == 1);
            assert_true(code == ERR_OK || code == ERR_TIMEOUT || code == ERR_UNREACHABLE);
            failures += code != ERR_OK;
            folding_folds(&broken, at + 100);
            assert_int_equal(folding_missing(0, at + 100), 0);
        }
    assert_true(failures >= scripts);
    assert_in_range(broken.resident->folded_keys, at - at / 100, at); /* each key counts once */
    folding_end(&broken);
}

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, folding_setup, folding_teardown)

int main(void)
{
    const struct CMUnitTest all[] = {
        FOLDER_TEST(test_take_over__by_one_that_lags_loses_nothing),
        FOLDER_TEST(test_fold__of_one_that_was_taken_over_is_refused_and_kept),
        FOLDER_TEST(test_take_over__writes_what_redis_lacks_whatever_the_marks_say),
        FOLDER_TEST(test_take_over__passes_over_no_shard_where_its_caller_fails_once),
        FOLDER_TEST(test_take_over__of_what_was_not_applied_yet_keeps_it_new),
        FOLDER_TEST(test_fold__ends_where_its_caller_says),
        FOLDER_TEST(test_take_over__draws_above_what_headers_have),
        FOLDER_TEST(test_fold__writes_many_keys_of_one_block),
        FOLDER_TEST(test_fold__writes_each_shard_in_its_way),
        cmocka_unit_test_setup_teardown(test_fold__writes_into_all_layers, folding_setup_two_layers,
                                        folding_teardown),
        cmocka_unit_test_setup_teardown(test_fold__needs_the_layers_that_memory_has, folding_setup_two_layers,
                                        folding_teardown),
        FOLDER_TEST(test_take_over__while_a_shard_loads_reads_it_when_it_is_whole),
        FOLDER_TEST(test_take_over__by_turns_loses_nothing),
        FOLDER_TEST(test_fold__of_nothing_new_by_one_that_was_taken_over_is_refused),
    };
    const struct CMUnitTest single[] = {
        FOLDER_TEST(test_fold__stores_how_many_keys_there_are_before_their_pages),
        FOLDER_TEST(test_count__of_many_keys_that_came_while_shards_were_loaded),
        FOLDER_TEST(test_fold__brings_what_was_applied_to_redis),
        FOLDER_TEST(test_fold__draws_a_new_token_after_a_broken_connection),
        FOLDER_TEST(test_fold__writes_what_the_overlay_has_of_shards_that_are_not_there),
        FOLDER_TEST(test_fold__by_keys_of_one_that_was_taken_over_is_refused),
        FOLDER_TEST(test_fold__by_keys_that_is_executed_late_is_refused),
        FOLDER_TEST(test_fold__by_keys_goes_on_after_a_broken_connection),
    };
    int failed = cmocka_run_group_tests_name("folder", all, folding_start, folding_stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* one server, behind a proxy */
        failed += cmocka_run_group_tests_name("folder, one server", single, folding_start, folding_stop);
    return failed;
}
