/* SPDX-License-Identifier: MIT */
/* Shards' nodes in another era, on a real Redis: who may have the view take it, and when. */
#include "tests/integration/log_redis.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/view/build.h"
#include "shard/view/eras.h"
#include "shard/view/grace.h"
#include "shard/view/roll.h"
#include "shard/view/view_load.h"

enum { REPLY_MS = 5000, WRITERS = 2, GUARD_MS = 20000 };

static struct eras eras;
static uint8_t writer[WRITERS][LOG_WRITER_BYTES] = {"the first one", "the second one"};

static void load(void)
{
    struct error e = {""};
    must(log_view_load(on.link, &on.names, on.view, &e), e);
}

static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(log_member_make(on.link, &on.names, 1000, 1, 32768, &e), e);
    load();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    eras_fini(&eras);
    eras = (struct eras){.seen = {0}};
    return 0;
}

static void registers(const uint8_t id[LOG_WRITER_BYTES])
{
    struct error e = {""};
    struct roll r;
    roll_init(&r, on.link, &on.names, id);
    must(roll_register(&r, &e), e);
    roll_fini(&r);
    load();
}

/* The same process, with all its data, under another replication id. */
static void renew(void)
{
    struct error e = {""};
    uint64_t before = lanes_era(&on.client);
    must(client_ok(&on.client, &e, "DEBUG CHANGE-REPL-ID"), e);
    assert_true(lanes_era(&on.client) != before);
}

static enum eras_action look(void)
{
    struct error e = {""};
    enum eras_action action;
    must(eras_look(&eras, on.link, &on.names, on.view, &action, &e), e);
    return action;
}

static unsigned take(enum eras_action action)
{
    struct error e = {""};
    unsigned missing;
    must(eras_take(&eras, on.link, &on.names, on.view, action, &missing, &e), e);
    load();
    return missing;
}

/* Nobody had left when it read the view, as far as it knows. */
static enum err say(unsigned i, bool all, struct error *e)
{
    const struct eras_written what = {.all = all, .knows_left = all};
    return eras_say(&eras, on.link, &on.names, on.view, writer[i], &what, e);
}

static void test_an_era_that_was_watched__is_taken_at_once(void **state)
{
    (void)state;
    registers(writer[0]);
    assert_int_equal(look(), ERAS_KEEP);
    renew();
    if (temp_redis_is_before_7()) { /* it does not say whether it has received anything */
        assert_int_equal(look(), ERAS_WRITE);
        return;
    }
    assert_int_equal(look(), ERAS_TAKE);
    uint64_t version = on.view->version;
    struct lane lane;
    lane_key(&lane.key, &on.names, 0, on.view->lane[0].number);
    int64_t entries = lanes_number(&on.client, "XLEN", &lane);
    assert_int_equal(take(ERAS_TAKE), 0);
    assert_int_equal(on.view->version, version + 1);
    assert_int_equal(lanes_number(&on.client, "XLEN", &lane), entries + 1); /* a notice */
    assert_true(on.view->eras.count == 1 && on.view->eras.id[0] == lanes_era(&on.client));
    assert_false(on.view->degraded);
    assert_int_equal(look(), ERAS_KEEP);
}

/* It was somebody's replica meanwhile, and may have lost what it had. */
static void test_a_node_that_was_promoted__has_its_era_taken_by_all_writers(void **state)
{
    struct error e = {""};
    (void)state;
    registers(writer[0]);
    assert_int_equal(look(), ERAS_KEEP);
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
    assert_int_equal(look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 1);
}

static void test_an_era_that_nobody_watched__waits_for_all_writers(void **state)
{
    struct error e = {""};
    (void)state;
    registers(writer[0]);
    registers(writer[1]);
    renew(); /* nobody had looked before */
    assert_int_equal(look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 2);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 1);
    must(say(0, true, &e), e); /* again: it is one all the same */
    assert_int_equal(take(ERAS_WRITE), 1);
    assert_int_equal(look(), ERAS_WRITE);
    must(say(1, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_false(on.view->degraded);
    assert_int_equal(look(), ERAS_KEEP);
    renew(); /* what was said of the last one says nothing of this one */
    eras_fini(&eras);
    eras = (struct eras){.seen = {0}};
    assert_int_equal(look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 2);
}

static void test_a_writer_without_memory__degrades_the_filter(void **state)
{
    struct error e = {""};
    (void)state;
    registers(writer[0]);
    renew();
    assert_int_equal(look(), ERAS_WRITE);
    must(say(0, false, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_true(on.view->degraded);
}

static void leaves(const uint8_t id[LOG_WRITER_BYTES])
{
    struct error e = {""};
    struct roll r;
    roll_init(&r, on.link, &on.names, id);
    must(roll_leave(&r, &e), e);
    roll_fini(&r);
    load();
}

/* What was folded may be gone, and who had added it has left. */
static void test_an_era_that_no_writer_answers__degrades_the_filter(void **state)
{
    (void)state;
    registers(writer[0]);
    leaves(writer[0]);
    renew();
    assert_int_equal(look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_true(on.view->degraded);
}

/* The one that is there has all shards in memory, and may not have read what the other one added last. */
static void test_a_writer_that_does_not_know_of_one_that_left__degrades_the_filter(void **state)
{
    struct error e = {""};
    (void)state;
    registers(writer[0]);
    registers(writer[1]);
    leaves(writer[1]);
    renew();
    assert_int_equal(look(), ERAS_WRITE);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_true(on.view->degraded);
}

static void test_a_writer_that_knows_of_one_that_left__degrades_nothing(void **state)
{
    struct error e = {""};
    (void)state;
    registers(writer[0]);
    registers(writer[1]);
    leaves(writer[1]);
    renew();
    assert_int_equal(look(), ERAS_WRITE);
    const struct eras_written what = {.all = true, .knows_left = true, .left = on.view->left[0]};
    must(eras_say(&eras, on.link, &on.names, on.view, writer[0], &what, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_false(on.view->degraded);
}

/* Somebody else had watched. */
static void test_a_writer_without_memory__degrades_nothing_where_nothing_was_lost(void **state)
{
    struct error e = {""};
    struct eras other = {.seen = {0}};
    enum eras_action action;
    (void)state;
    registers(writer[0]);
    registers(writer[1]);
    assert_int_equal(look(), ERAS_KEEP);
    renew();
    must(eras_look(&other, on.link, &on.names, on.view, &action, &e), e);
    assert_int_equal(action, ERAS_WRITE);
    const struct eras_written partly = {.all = false};
    must(eras_say(&other, on.link, &on.names, on.view, writer[1], &partly, &e), e);
    eras_fini(&other);
    if (temp_redis_is_before_7()) {
        assert_int_equal(look(), ERAS_WRITE);
        return;
    }
    assert_int_equal(look(), ERAS_TAKE);
    assert_int_equal(take(ERAS_TAKE), 0);
    assert_false(on.view->degraded);
}

static void test_an_era_that_changes_again__is_not_what_was_written_under(void **state)
{
    struct error e = {""};
    unsigned missing;
    (void)state;
    registers(writer[0]);
    renew();
    assert_int_equal(look(), ERAS_WRITE);
    renew();
    assert_int_equal(say(0, true, &e), ERR_FENCED);
    assert_int_equal(eras_take(&eras, on.link, &on.names, on.view, ERAS_WRITE, &missing, &e), ERR_FENCED);
    assert_int_equal(look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 1);
}

static void test_a_writer_that_is_not_registered__says_nothing(void **state)
{
    struct error e = {""};
    (void)state;
    renew();
    assert_int_equal(look(), ERAS_WRITE);
    assert_int_equal(say(0, true, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, "writer."));
}

static void test_another_view__is_read_again(void **state)
{
    struct error e = {""};
    unsigned missing;
    (void)state;
    registers(writer[0]);
    renew();
    assert_int_equal(look(), ERAS_WRITE);
    struct trusted now = eras.now;
    assert_int_equal(take(ERAS_TAKE), 0);
    on.view->eras.id[0] ^= 1; /* as somebody has it who sleeps */
    eras.now = now;
    assert_int_equal(eras_take(&eras, on.link, &on.names, on.view, ERAS_TAKE, &missing, &e), ERR_FENCED);
    on.names.incarnation ^= 1;
    assert_int_equal(say(0, true, &e), ERR_FENCED);
}

#define ERAS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void cuts_over_and_heals(void)
{
    struct error e = {""};
    struct builder *b;
    struct key_name key;
    names_filter_key(&on.names, "view", &key);
    freeReplyObject(client_command(&on.client, "HSET %b degraded 1", key.text, key.length));
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[1].shape, &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(builder_cutover(b, true, &e), e);
    builder_free(b);
}

/* Another generation was built while a process slept: what that has in memory is not read any more, so it
 * writes none of it; and it has nothing of what is read. */
static void test_a_generation_that_is_read_no_more__is_not_written(void **state)
{
    struct error e = {""};
    struct log_member m;
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, 10), 10);
    log_member_pause(&m);
    load();
    uint64_t token = on.view->slot[1].writer.number;
    cuts_over_and_heals();
    load();
    assert_true(on.view->current == 0 && !on.view->degraded && !on.view->slot[1].shape.built);
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
    log_member_go_on(&m);
    uint64_t until = clock_mono_us() + GUARD_MS * UINT64_C(1000);
    while (!trusted_contains(&on.view->eras, lanes_era(&on.client)) && clock_mono_us() < until)
        load();
    assert_true(trusted_contains(&on.view->eras, lanes_era(&on.client)));
    assert_int_equal(on.view->slot[1].writer.number, token);
    assert_true(on.view->degraded);
    log_member_close(&m);
}

/* The shards of the generation before were not written, and may lack keys that were folded into them. */
static void test_a_generation_that_was_not_written__is_not_read_again(void **state)
{
    struct error e = {""};
    struct builder *b;
    (void)state;
    registers(writer[0]);
    load();
    uint64_t before = on.view->slot[on.view->current].shape.number;
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[on.view->current].shape, &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(builder_cutover(b, false, &e), e);
    builder_free(b);
    load();
    assert_true(on.view->slot[before % 2].shape.built && on.view->current != before % 2);
    renew();
    assert_int_equal(look(), ERAS_WRITE);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    load();
    assert_true(!on.view->slot[before % 2].shape.built && on.view->slot[on.view->current].shape.built &&
                !on.view->degraded);
    gives(ERR_CONFLICT, grace_switch(on.link, &on.names, before, &e), e);
}

/* --- a writer that adds, folds and leaves; its node then goes back to before that --- */

enum { KEYS = 20, SHARDS_MAX = 16 };

/* What the node had: its shards, and the end of its lane. */
struct past {
    redisReply *shard[SHARDS_MAX];
    uint32_t shards;
};

static void shard_key(uint32_t i, struct key_name *key)
{
    names_log_shard(&on.names, (struct shard_id){on.view->slot[1].shape.number, 0, i}, key);
}

static void note(struct past *p)
{
    load();
    p->shards = on.view->slot[1].shape.layers[0].geometry.shards;
    assert_true(p->shards <= SHARDS_MAX);
    for (uint32_t i = 0; i < p->shards; i++) {
        struct key_name key;
        shard_key(i, &key);
        p->shard[i] = client_command(&on.client, "GET %b", key.text, key.length);
    }
}

/* A failover to a replica that lags: shards as they were, a lane without the last entries, another id. */
static void go_back(struct past *p)
{
    struct error e = {""};
    struct lane lane;
    lane_key(&lane.key, &on.names, 0, 1);
    for (uint32_t i = 0; i < p->shards; i++) {
        struct key_name key;
        shard_key(i, &key);
        must(client_ok(&on.client, &e, "SET %b %b", key.text, key.length, p->shard[i]->str, p->shard[i]->len),
             e);
        freeReplyObject(p->shard[i]);
    }
    freeReplyObject(client_command(&on.client, "XTRIM %b MAXLEN 1", lane.key.text, lane.key.length));
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
}

static void adds_folds_and_leaves(void)
{
    struct log_member m;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    log_member_close(&m);
    load();
    assert_int_equal(on.view->writer_count, 0);
    assert_int_equal(on.view->left_count, 1);
}

static bool has_taken(void)
{
    uint64_t until = clock_mono_us() + GUARD_MS * UINT64_C(1000);
    bool has = false;
    for (; !has && clock_mono_us() < until; load())
        has = trusted_contains(&on.view->eras, lanes_era(&on.client));
    return has;
}

/* Nobody has what it added. */
static void test_keys_of_a_writer_that_left__are_not_absent_after_a_failover(void **state)
{
    struct past past;
    struct log_member m;
    (void)state;
    note(&past);
    adds_folds_and_leaves();
    go_back(&past);
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_count(&m, 0, KEYS, KEY_MAYBE), KEYS);
    assert_true(has_taken());
    assert_true(on.view->degraded);
    log_member_close(&m);
}

/* One that only checks reads by itself what was added, when the view says who left, and writes it. */
static void test_keys_of_a_writer_that_left__are_written_by_who_has_them(void **state)
{
    struct past past;
    struct log_member m, late;
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, false);
    assert_true(log_member_count(&m, KEYS, KEYS, KEY_ABSENT) > KEYS - 3);
    note(&past);
    adds_folds_and_leaves();
    uint64_t looks = 0, until = clock_mono_us() + GUARD_MS * UINT64_C(1000);
    for (struct log_status s; looks < 3 && clock_mono_us() < until; looks += s.version == on.view->version) {
        control_status(m.control, &s); /* it has read the view that says who left */
        clock_sleep_us(20 * 1000);
    }
    go_back(&past);
    assert_true(log_member_count(&m, KEYS, KEYS, KEY_ABSENT) > KEYS - 3);
    assert_true(has_taken());
    assert_false(on.view->degraded);
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_count(&late, 0, KEYS, KEY_PRESENT), KEYS);
    log_member_close(&late);
    log_member_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ERAS_TEST(test_keys_of_a_writer_that_left__are_not_absent_after_a_failover),
        ERAS_TEST(test_keys_of_a_writer_that_left__are_written_by_who_has_them),
        ERAS_TEST(test_an_era_that_was_watched__is_taken_at_once),
        ERAS_TEST(test_a_node_that_was_promoted__has_its_era_taken_by_all_writers),
        ERAS_TEST(test_an_era_that_nobody_watched__waits_for_all_writers),
        ERAS_TEST(test_a_writer_without_memory__degrades_the_filter),
        ERAS_TEST(test_an_era_that_no_writer_answers__degrades_the_filter),
        ERAS_TEST(test_a_writer_that_does_not_know_of_one_that_left__degrades_the_filter),
        ERAS_TEST(test_a_writer_that_knows_of_one_that_left__degrades_nothing),
        ERAS_TEST(test_a_writer_without_memory__degrades_nothing_where_nothing_was_lost),
        ERAS_TEST(test_an_era_that_changes_again__is_not_what_was_written_under),
        ERAS_TEST(test_a_writer_that_is_not_registered__says_nothing),
        ERAS_TEST(test_another_view__is_read_again),
        ERAS_TEST(test_a_generation_that_is_read_no_more__is_not_written),
        ERAS_TEST(test_a_generation_that_was_not_written__is_not_read_again),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
