/* SPDX-License-Identifier: MIT */
/* Folding on a real Redis while shards leave memory, are loaded and are lost; without memory; and with a lane
 * that is trimmed. */
#include "tests/integration/folding.h"
#include "tests/integration/lane_append.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/log/lane_sync.h"
#include "shard/resident/dirty.h"
#include "shard/fold/retain.h"

/* --- shards leave --- */

/* Keys that only memory has are folded before the shard has left; later keys are in the overlay. */
static void test_fold__of_a_shard_that_leaves(void **state)
{
    (void)state;
    struct resident *r = folding_member[0].resident;
    folding_load(&folding_member[0]);
    folding_apply(&folding_member[0], 0, 1000);
    folding_folds(&folding_member[0], 1000);
    folding_apply(&folding_member[0], 1000, 2000);
    resident_leave_begin(r, 0, 1);
    folding_apply(&folding_member[0], 2000, 3000);
    assert_false(resident_leave_end(r, 0, 1));
    folding_folds(&folding_member[0], 3000);
    assert_int_equal(folding_missing(0, 3000), 0);
    overlay_folded(r->overlay, &(struct log_id){3000, 0});
    folding_apply(&folding_member[0], 3000, 4000);
    assert_true(resident_leave_end(r, 0, 1));
    folding_apply(&folding_member[0], 4000, 5000);
    folding_folds(&folding_member[0], 5000);
    assert_int_equal(folding_missing(0, 5000), 0);
    assert_int_equal(folding_folded(), 5000);
}

struct folding {
    struct folding_member *p;
    uint64_t position;
    enum err code;
    struct error e;
};

static void *fold_beside(void *arg)
{
    struct folding *f = arg;
    f->code = folding_fold_to(f->p, f->position, &f->e);
    return NULL;
}

/* The fold has begun and waits for replies when the shard leaves, before the shard's turn. */
static void test_fold__of_a_shard_that_has_left_when_its_turn_comes(void **state)
{
    (void)state;
    unsigned layer = folding_g.layer_count - 1;
    uint32_t last = folding_g.layers[layer].geometry.shards - 1;
    struct folding_member p;
    pthread_t thread;
    assert_true(folding_g.layers[0].geometry.shards + last >
                8); /* more scripts under way than come before the shard's own */
    proxy_count_as_job(folding_proxy, "folds");
    folding_begin_named(&p, "folds", 20 * 1000);
    struct folding f = {.p = &p, .position = 3000};
    folding_load(&p);
    folding_apply(&p, 0, 2000);
    resident_leave_begin(p.resident, layer, last);
    folding_folds(&p, 2000);
    folding_apply(&p, 2000, 3000);
    for (unsigned l = 0; l <= layer; l++)
        for (uint32_t s = 0; s < folding_g.layers[l].geometry.shards; s++)
            dirty_mark_all(p.resident->layer[l], s);
    proxy_count(folding_proxy, "", 1, PROXY_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, fold_beside, &f), 0);
    for (unsigned i = 0; i < 1000 && !proxy_is_held(folding_proxy); i++)
        clock_sleep_us(10 * 1000);
    assert_true(proxy_is_held(folding_proxy));
    clock_sleep_us(50 * 1000);
    overlay_folded(p.resident->overlay, &(struct log_id){2000, 0});
    assert_true(resident_leave_end(p.resident, layer, last));
    proxy_release(folding_proxy, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    must(f.code, f.e);
    assert_int_equal(folding_missing(0, 3000), 0);
    assert_int_equal(folding_folded(), 3000);
    folding_end(&p);
}

/* Shards come and go all the time while entries are applied: no fold may fail for that. */
static struct {
    struct folding_member *p;
    struct sync_client *link;
    _Atomic uint64_t applied;
    _Atomic bool ended;
    _Atomic unsigned moved, failed;
} busy;

static void *move_shards(void *arg)
{
    (void)arg;
    struct load l;
    struct folding_member reader = *busy.p;
    reader.link = busy.link;
    for (uint32_t s = 0; !busy.ended; s = (s + 1) % folding_g.layers[0].geometry.shards) {
        resident_leave_begin(reader.resident, 0, s);
        while (!resident_leave_end(reader.resident, 0, s) && !busy.ended)
            clock_sleep_us(100);
        if (busy.ended)
            break;
        l = (struct load){.resident = reader.resident,
                          .names = &folding_names,
                          .placement = &busy.p->folder.fold.placement,
                          .generation = GENERATION,
                          .writer = {.number = UINT64_MAX},
                          .eras = &folding_any_era,
                          .piece_bytes = 4096,
                          .first = s,
                          .count = 1};
        if (load_begin(&l, NULL) != ERR_OK)
            busy.failed++;
        load_and_wait(&l, reader.link);
        busy.failed += load_end(&l) != 1;
        busy.moved++;
    }
    return NULL;
}

/* Apply keys slowly, and so few that most bits stay unset. */
static void *apply_keys(void *arg)
{
    enum { AT_ONCE = 5 };
    (void)arg;
    struct key_hash keys[AT_ONCE];
    uint8_t added[AT_ONCE];
    for (uint64_t at = 0; !busy.ended; at += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            keys[i] = folding_key(at + i);
        if (resident_apply(busy.p->resident, 0, (struct log_id){at + AT_ONCE, 0}, keys, AT_ONCE, added,
                           NULL) != ERR_OK)
            busy.failed++;
        busy.applied = at + AT_ONCE;
        clock_sleep_us(at < CAPACITY ? 500 : 20 * 1000);
    }
    return NULL;
}

static void test_fold__goes_on_while_shards_come_and_go(void **state)
{
    (void)state;
    struct error e = {""};
    pthread_t mover, applier;
    memset(&busy, 0, sizeof(busy));
    busy.p = &folding_member[0];
    busy.link = sync_client_new(&folding_nodes, SYNC_CLIENT_MS, NULL);
    folding_load(&folding_member[0]);
    assert_int_equal(pthread_create(&mover, NULL, move_shards, NULL), 0);
    assert_int_equal(pthread_create(&applier, NULL, apply_keys, NULL), 0);
    unsigned folds_made = 0, taken_over = 0;
    enum err code = ERR_OK;
    uint64_t deadline = clock_mono_us() + UINT64_C(60) * 1000 * 1000;
    while (code == ERR_OK && (folds_made < 200 || busy.moved < 20) && clock_mono_us() < deadline) {
        uint64_t to = busy.applied;
        if (to == 0)
            continue;
        if (++folds_made % 16 == 7) {
            folding_member[0].folder.took_over = false;
            taken_over++;
        }
        code = folding_fold_to(&folding_member[0], to, &e);
        if (code == ERR_OK)
            overlay_folded(folding_member[0].resident->overlay, &(struct log_id){to, 0});
    }
    busy.ended = true;
    assert_int_equal(pthread_join(mover, NULL), 0);
    assert_int_equal(pthread_join(applier, NULL), 0);
    must(code, e);
    folding_folds(&folding_member[0], busy.applied);
    print_message("folds %u, take-overs %u, shards moved %u, keys %llu\n", folds_made, taken_over, busy.moved,
                  (unsigned long long)busy.applied);
    assert_int_equal(busy.failed, 0);
    assert_true(busy.moved >= 20);
    assert_int_equal(folding_missing(0, busy.applied), 0);
    sync_client_free(busy.link);
}

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

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, folding_setup, folding_teardown)

int main(void)
{
    const struct CMUnitTest all[] = {
        FOLDER_TEST(test_fold__of_a_shard_that_leaves),
        FOLDER_TEST(test_fold__goes_on_while_shards_come_and_go),
        FOLDER_TEST(test_fold__says_that_a_shard_is_lost_and_folds_the_others),
        FOLDER_TEST(test_fold__by_keys_says_that_a_shard_is_lost_and_folds_the_others),
        FOLDER_TEST(test_fold__whose_read_of_a_shard_is_refused_does_not_say_that_it_is_lost),
        FOLDER_TEST(test_trim__follows_what_is_folded),
    };
    const struct CMUnitTest single[] = {
        cmocka_unit_test_setup_teardown(test_fold__of_a_shard_that_has_left_when_its_turn_comes,
                                        folding_setup_two_layers, folding_teardown),
        FOLDER_TEST(test_fold__goes_on_at_maxmemory),
    };
    int failed = cmocka_run_group_tests_name("folder, shards", all, folding_start, folding_stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* one server, behind a proxy */
        failed +=
            cmocka_run_group_tests_name("folder, shards, one server", single, folding_start, folding_stop);
    return failed;
}
