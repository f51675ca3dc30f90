/* SPDX-License-Identifier: MIT */
/* Folding on a real Redis while shards are lost; without memory; and with a lane that is trimmed. */
#include "tests/integration/folding.h"
#include "tests/integration/lane_append.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/log/lane_sync.h"
#include "shard/fold/retain.h"

/* --- shards that are lost --- */

static void says_that_shard_1_is_lost(struct folding_member *p, uint64_t position)
{
    struct error e = {""};
    char text[KEY_NAME_MAX + 1];
    struct key_name name = folding_shard_name(0, 1);
    (void)snprintf(text, sizeof(text), "%.*s", (int)name.length, name.text);
    gives(ERR_LOST, folding_fold_to(p, position, &e), e);
    assert_non_null(strstr(e.text, text));
    assert_int_equal(servers_integer(&folding_servers, 0, "EXISTS %b", name.text, name.length), 0);
}

/* How many keys below @last are missing, without those in shard 1. */
static uint64_t missing_elsewhere(uint64_t last)
{
    uint64_t n = 0;
    struct folding_member late;
    struct load l;
    uint32_t shards = folding_g.layers[0].geometry.shards;
    folding_begin(&late);
    folding_load_some(&late, &l, 0, 0, shards);
    assert_int_equal(load_end(&l), shards - 1);
    for (uint64_t i = 0; i < last; i++) {
        struct key_hash h = folding_key(i);
        struct key_place p;
        uint8_t answer;
        hash_place(&folding_g.layers[0].geometry, hash_mix(h, folding_g.seed), &p);
        resident_look(late.resident, &h, 1, &answer);
        n += p.shard != 1 && answer != RESIDENT_PRESENT;
    }
    folding_end(&late);
    return n;
}

static void lose_a_shard(struct folding_member *p, bool takes_over)
{
    struct key_name name = folding_shard_name(0, 1);
    folding_apply(p, 0, 1000);
    folding_folds(p, 1000);
    folding_apply(p, 1000, 2000);
    assert_int_equal(servers_integer(&folding_servers, 0, "DEL %b", name.text, name.length), 1);
    says_that_shard_1_is_lost(p, 2000);
    assert_int_equal(missing_elsewhere(2000), 0); /* the other shards are folded */
    assert_int_equal(folding_folded(), 1000);
    folding_apply(p, 2000, 3000);
    says_that_shard_1_is_lost(p, 3000); /* each fold reports it again */
    p->folder.took_over = !takes_over;
    says_that_shard_1_is_lost(p, 3000);
    assert_int_equal(missing_elsewhere(3000), 0);
    folding_make_shard(0, 1); /* another process has made the shard again */
    folding_folds(p, 3000);
    assert_int_equal(folding_missing(0, 3000), 0);
    assert_int_equal(folding_folded(), 3000);
}

static void test_fold__says_that_a_shard_is_lost_and_folds_the_others(void **state)
{
    (void)state;
    folding_load(&folding_member[0]);
    lose_a_shard(&folding_member[0], true);
}

static void test_fold__by_keys_says_that_a_shard_is_lost_and_folds_the_others(void **state)
{
    (void)state;
    lose_a_shard(&folding_member[0], false);
}

/* The header is as it was, so a write would be executed, with what was read last in place of the block. */
static void test_fold__by_keys_leaves_a_block_that_has_not_its_tag(void **state)
{
    (void)state;
    struct error e = {""};
    struct folding_member *p = &folding_member[0];
    struct key_name name = folding_shard_name(0, 1);
    const struct geometry *g = &folding_g.layers[0].geometry;
    folding_apply(p, 0, 1000);
    folding_folds(p, 1000);
    for (unsigned b = 1; b <= g->blocks; b++)
        assert_int_equal(servers_integer(&folding_servers, 0, "SETRANGE %b %u %b", name.text, name.length,
                                         b * (g->block_bits / 8), "\0\0", (size_t)2),
                         header_shard_bytes(g));
    redisReply *before = servers_command(&folding_servers, 0, "GET %b", name.text, name.length);
    folding_apply(p, 1000, 2000);
    gives(ERR_LOST, folding_fold_to(p, 2000, &e), e);
    assert_in_range(p->resident->folded_keys, 1000, 2000);
    uint64_t counted = p->resident->folded_keys;
    gives(ERR_LOST, folding_fold_to(p, 2000, &e), e);
    assert_int_equal(p->resident->folded_keys, counted); /* keys that are not written are not counted */
    redisReply *after = servers_command(&folding_servers, 0, "GET %b", name.text, name.length);
    assert_int_equal(after->len, before->len);
    assert_memory_equal(after->str, before->str, before->len);
    freeReplyObject(before);
    freeReplyObject(after);
}

/* A take-over goes through the shards twice; then each header has the token, and joining begins. At that
 * moment shard 1 becomes a set. */
static enum err replace_by_a_set(void *arg, struct error *e)
{
    struct key_name name = folding_shard_name(0, 1);
    unsigned *calls = arg;
    (void)e;
    if ((*calls)++ == 2 * folding_g.layers[0].geometry.shards) {
        assert_int_equal(servers_integer(&folding_servers, 0, "DEL %b", name.text, name.length), 1);
        assert_int_equal(servers_integer(&folding_servers, 0, "SADD %b one", name.text, name.length), 1);
    }
    return ERR_OK;
}

/* An error reply does not mean that the shard is missing, so the view must not say so. */
static void test_fold__whose_read_of_a_shard_is_refused_does_not_say_that_it_is_lost(void **state)
{
    struct folder *f = &folding_member[0].folder;
    unsigned calls = 0;
    struct error e = {""};
    (void)state;
    folding_load(&folding_member[0]);
    folding_apply(&folding_member[0], 0, 1000);
    f->tend = replace_by_a_set;
    f->tend_arg = &calls;
    gives(ERR_WRONG_TYPE, folding_fold_to(&folding_member[0], 1000, &e), e);
    assert_true(calls > 2 * folding_g.layers[0].geometry.shards);
    assert_int_equal(f->lost_shard.generation, 0);
}

/* --- no memory in Redis --- */

static void test_fold__goes_on_at_maxmemory(void **state)
{
    (void)state;
    struct error e = {""};
    struct load l;
    folding_load_some(&folding_member[0], &l, 0, 0, 1); /* one shard in memory, the other not */
    assert_int_equal(load_end(&l), 1);
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    folding_apply(&folding_member[0], 1000, 2000);
    folding_apply(&folding_member[1], 0, 3000);
    assert_string_equal(servers_text(&folding_servers, 0, "CONFIG SET maxmemory 1"), "OK");
    redisReply *refused = servers_command(&folding_servers, 0, "SET x y");
    assert_int_equal(refused->type, REDIS_REPLY_ERROR);
    freeReplyObject(refused);
    enum err code = folding_fold_to(&folding_member[0], 2000, &e);
    if (code == ERR_OK)
        code = folding_fold_to(&folding_member[1], 3000, &e);
    assert_string_equal(servers_text(&folding_servers, 0, "CONFIG SET maxmemory 0"), "OK");
    must(code, e);
    assert_int_equal(folding_missing(0, 3000), 0);
}

/* --- with a lane: fold, then trim --- */

static enum err apply_record(void *arg, const struct tail_record *record, struct error *e)
{
    struct folding_member *p = arg;
    struct key_hash keys[LOG_KEYS_MAX];
    uint8_t added[LOG_KEYS_MAX];
    for (unsigned i = 0; i < record->entry.count; i++)
        keys[i] = log_entry_hash(&record->entry, i);
    return resident_apply(p->resident, 0, record->id, keys, record->entry.count, added, e);
}

/* Make a lane that the view names. */
static void make_lane(struct lane *lane, struct log_position *anchor)
{
    struct error e = {""};
    char text[40];
    uint8_t writer[LOG_WRITER_BYTES] = {7};
    *lane = (struct lane){0};
    lane_key(&lane->key, &folding_names, 0, 1);
    lane->where = sync_client_home(folding_member[0].link, &folding_names);
    must(lane_make(folding_member[0].link, lane, writer, 1, anchor, &e), e);
    (void)snprintf(text, sizeof(text), "1:%016" PRIx64, lane->era);
    folding_put_field(NULL, "lanes", text);
}

/* Append entries of the keys [first, last) to the lane, and apply all its entries. */
static void add(struct folding_member *p, const struct lane *lane, struct log_position *at, uint64_t first,
                uint64_t last)
{
    struct error e = {""};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {7};
    struct key_hash keys[ENTRY_KEYS];
    enum tail_state state = TAIL_MORE;
    for (uint64_t i = first; i < last; i += ENTRY_KEYS) {
        for (unsigned k = 0; k < ENTRY_KEYS; k++)
            keys[k] = folding_key(i + k);
        size_t length = log_entry_encode(bytes, writer, 2 + i, keys, ENTRY_KEYS);
        must(lane_append(p->link, lane, at, bytes, length, apply_record, p, &state, &e), e);
        assert_true(state == TAIL_COMPLETE);
    }
}

static void fold_lane(struct folding_member *p, const struct lane *lane, const struct log_position *at,
                      struct fold_bound *needed)
{
    struct error e = {""};
    struct folder_lane *l = calloc(1, sizeof(*l));
    l->number = 1;
    l->era = lane->era;
    l->layers = p->resident->begun[0];
    l->position = *at;
    enum err code = folder_fold(&p->folder, l, 1, &e);
    *needed = l->needed;
    free(l);
    must(code, e);
}

static enum tail_state read_from(struct folding_member *p, const struct lane *lane, struct log_position at)
{
    struct error e = {""};
    enum tail_state state = TAIL_MORE;
    while (state == TAIL_MORE)
        must(lane_read(p->link, lane, &at, apply_record, p, &state, &e), e);
    return state;
}

/* Each fold is a second after the one before; entries older than ten seconds are trimmed. A process that
 * loads the shards finds the keys that they lack in the lane, and a process that lags by less than ten
 * seconds finds its position. */
static void test_trim__follows_what_is_folded(void **state)
{
    (void)state;
    enum { ROUNDS = 40, KEPT_S = 10, ROUND_KEYS = 600 };
    struct error e = {""};
    struct lane lane;
    static struct log_position at, anchor, of_round[ROUNDS];
    struct retain r;
    struct fold_bound needed;
    struct lane_trimmed trimmed = {0};
    uint64_t bytes = 0, removed = 0;
    make_lane(&lane, &anchor);
    at = anchor;
    retain_init(&r, UINT64_C(1000) * 1000 * KEPT_S, 1 << 20, 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t now = UINT64_C(1000) * 1000 * (100 + i);
        add(&folding_member[0], &lane, &at, (uint64_t)i * ROUND_KEYS, (uint64_t)(i + 1) * ROUND_KEYS);
        bytes += ROUND_KEYS * LOG_HASH_BYTES;
        fold_lane(&folding_member[0], &lane, &at, &needed);
        assert_true(needed.some && log_id_compare(needed.id, at.id) == 0);
        of_round[i] = at;
        retain_note(&r, now, bytes, &at);
        const struct log_mark *keep = retain_bound(&r, now, bytes, &needed);
        assert_true((keep != NULL) == (i >= KEPT_S));
        if (keep == NULL)
            continue;
        assert_int_equal(log_id_compare(keep->id, of_round[i - KEPT_S].id), 0);
        must(lane_trim(folding_member[0].link, &lane, keep, &trimmed, &e), e);
        assert_true(trimmed.met);
        retain_trimmed(&r, keep);
        removed += trimmed.removed;
    }
    assert_true(removed > 0 && trimmed.bytes > 0);
    assert_int_equal(read_from(&folding_member[1], &lane, anchor), TAIL_GAP);
    assert_int_equal(read_from(&folding_member[1], &lane, of_round[ROUNDS - 1 - KEPT_S]), TAIL_COMPLETE);
    add(&folding_member[0], &lane, &at, ROUNDS * ROUND_KEYS, (ROUNDS + 1) * ROUND_KEYS); /* not folded */
    folding_load(&folding_member[2]);
    assert_int_equal(read_from(&folding_member[2], &lane, of_round[ROUNDS - 1]), TAIL_COMPLETE);
    for (uint64_t i = 0; i < (ROUNDS + 1) * ROUND_KEYS; i++) {
        struct key_hash h = folding_key(i);
        uint8_t answer;
        resident_look(folding_member[2].resident, &h, 1, &answer);
        assert_int_equal(answer, RESIDENT_PRESENT);
    }
}

/* --- errors that are about no shard --- */

static enum err lose_in_writing(void *calls, struct error *e)
{
    enum { PASSES = 3 }; /* over all shards, before pages are taken */
    unsigned before = PASSES * folding_g.layers[0].geometry.shards + 1;
    return (*(unsigned *)calls)++ == before ? error_set(e, ERR_LOST, "a lane was lost") : ERR_OK;
}

/* Only what is found in place of a shard is about that shard alone, and leaves the others as they are known.
 */
static void test_fold__that_its_caller_ends_is_repeated_whatever_the_error(void **state)
{
    (void)state;
    struct error e = {""};
    folding_load(&folding_member[0]);
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    for (unsigned shards_lost = 0; shards_lost < 2; shards_lost++) {
        unsigned calls = 0;
        uint64_t folded = folding_folded(), to = folded + 1000;
        struct key_name last = folding_shard_name(0, folding_g.layers[0].geometry.shards - 1);
        if (shards_lost > 0) {
            must(client_ok(&folding_servers.client[0], &e, "RENAME %s away", last.text), e);
            folding_apply(&folding_member[0], folded, to);
            gives(ERR_LOST, folding_fold_to(&folding_member[0], to, &e), e);
            to += 1000;
        }
        folding_apply(&folding_member[0], to - 1000, to);
        folding_member[0].folder.tend = lose_in_writing;
        folding_member[0].folder.tend_arg = &calls;
        gives(ERR_LOST, folding_fold_to(&folding_member[0], to, &e), e);
        folding_member[0].folder.tend = NULL;
        assert_int_equal(folding_folded(), folded);
        if (shards_lost > 0)
            must(client_ok(&folding_servers.client[0], &e, "RENAME away %s", last.text), e);
        folding_folds(&folding_member[0], to);
        assert_int_equal(folding_missing(0, to), 0);
    }
}

/* What follows over the same client, in the same turn of a control, must not take the replies that are left.
 */
static void test_count__that_fails_leaves_no_reply_to_others(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_id from = {0}, to = {1000, 0};
    uint64_t keys;
    redisReply *r = NULL;
    struct client *node = &folding_servers.client[0];
    folding_apply(&folding_member[0], 0, 1000);
    must(client_ok(node, &e, "ACL SETUSER default resetkeys ~*.1}:* ~*.2}:* ~*.3}:* ~*.4}:*"), e);
    enum err code = folder_count(&folding_member[0].folder, &from, &to, &keys, &e);
    must(client_ok(node, &e, "ACL SETUSER default ~*"), e);
    gives(ERR_REFUSED, code, e);
    must(sync_client_command(folding_member[0].link, 0, &r, &e, "PING"), e);
    assert_string_equal(r->str, "PONG");
    freeReplyObject(r);
}

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, folding_setup, folding_teardown)

int main(void)
{
    const struct CMUnitTest all[] = {
        FOLDER_TEST(test_fold__says_that_a_shard_is_lost_and_folds_the_others),
        FOLDER_TEST(test_fold__by_keys_says_that_a_shard_is_lost_and_folds_the_others),
        FOLDER_TEST(test_fold__by_keys_leaves_a_block_that_has_not_its_tag),
        FOLDER_TEST(test_fold__whose_read_of_a_shard_is_refused_does_not_say_that_it_is_lost),
        FOLDER_TEST(test_trim__follows_what_is_folded),
    };
    const struct CMUnitTest single[] = {
        FOLDER_TEST(test_fold__goes_on_at_maxmemory),
        FOLDER_TEST(test_fold__that_its_caller_ends_is_repeated_whatever_the_error),
        FOLDER_TEST(test_count__that_fails_leaves_no_reply_to_others),
    };
    int failed = cmocka_run_group_tests_name("folder, shards", all, folding_start, folding_stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* one server, behind a proxy */
        failed +=
            cmocka_run_group_tests_name("folder, shards, one server", single, folding_start, folding_stop);
    return failed;
}
