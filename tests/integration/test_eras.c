/* SPDX-License-Identifier: MIT */
/* Shards' nodes in another era, on a real Redis: which process may have the view accept it, and when. */
#include "tests/integration/eras_case.h"
#include "tests/integration/cut_over.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/request/log_filter_state.h"
#include "shard/generations/build.h"
#include "shard/members/eras.h"
#include "shard/generations/grace.h"
#include "shard/fold/lease.h"
#include "shard/members/remove.h"
#include "shard/members/roll.h"
#include "shard/view/view_load.h"

/* Give the same server, with all its data, another replication id. */
static void renew(void)
{
    struct error e = {""};
    uint64_t before = lanes_era(&on.client);
    must(client_ok(&on.client, &e, "DEBUG CHANGE-REPL-ID"), e);
    assert_true(lanes_era(&on.client) != before);
}

static unsigned take(enum eras_action action)
{
    struct error e = {""};
    unsigned missing;
    must(eras_take(&eras_case_watch, on.link, &on.names, on.view, action, &missing, &e), e);
    eras_case_load();
    return missing;
}

/* Report what writer @i has written. It knows of all writers that left when it read the view. */
static enum err say(unsigned i, bool all, struct error *e)
{
    const struct eras_written what = {.all = all, .knows_left = all};
    return eras_say(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[i], &what, e);
}

/* Ask the server, of which @known tells other things than it does. True: these were believed. */
static bool believes(const struct replications *known)
{
    struct error e = {""};
    struct replications found = {0};
    must(sync_client_replications(on.link, known, &found, &e), e);
    assert_int_equal(found.count, 1);
    bool believed = found.one[0].run == 1;
    assert_true(found.one[0].run != 0 && believed == (found.one[0].received == 2));
    replications_fini(&found);
    return believed;
}

static void test_what_a_server_has_under_one_id__is_asked_once(void **state)
{
    struct error e = {""};
    struct replications known = {0};
    (void)state;
    must(sync_client_replications(on.link, NULL, &known, &e), e);
    known.one[0].run = 1;
    known.one[0].received = 2;
    assert_true(believes(&known));
    assert_false(believes(NULL));
    renew();
    assert_false(believes(&known));
    known.one[0].id = lanes_era(&on.client);
    assert_true(believes(&known));
    (void)snprintf(known.one[0].node, sizeof(known.one[0].node), "another");
    assert_false(believes(&known));
    replications_fini(&known);
}

static void test_an_era_that_was_watched__is_taken_at_once(void **state)
{
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    assert_int_equal(eras_case_look(), ERAS_KEEP);
    renew();
    if (temp_redis_is_before_7()) { /* it does not report whether it has received anything */
        assert_int_equal(eras_case_look(), ERAS_WRITE);
        return;
    }
    assert_int_equal(eras_case_look(), ERAS_TAKE);
    uint64_t version = on.view->version;
    struct lane lane;
    lane_key(&lane.key, &on.names, 0, on.view->lane[0].number);
    int64_t entries = lanes_number(&on.client, "XLEN", &lane);
    assert_int_equal(take(ERAS_TAKE), 0);
    assert_int_equal(on.view->version, version + 1);
    assert_int_equal(lanes_number(&on.client, "XLEN", &lane), entries + 1); /* one more entry: a notice */
    assert_true(on.view->eras.count == 1 && on.view->eras.id[0] == lanes_era(&on.client));
    assert_false(on.view->degraded);
    assert_int_equal(eras_case_look(), ERAS_KEEP);
}

/* Shards of nodes of a list do not move. */
static void test_the_id_of_a_node_without_shards__may_stay(void **state)
{
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    on.view->eras.id[on.view->eras.count++] = 42;
    assert_int_equal(eras_case_look(), ERAS_KEEP);
    renew();
    assert_int_not_equal(eras_case_look(), ERAS_KEEP);
}

/* The node was a replica meanwhile, and may have lost data. */
static void test_a_node_that_was_promoted__has_its_era_taken_by_all_writers(void **state)
{
    struct error e = {""};
    enum eras_action action;
    bool was_accepted;
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    assert_int_equal(eras_case_look(), ERAS_KEEP);
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    gives(ERR_UNREACHABLE, eras_look(&eras_case_watch, on.link, &on.names, on.view, &action, &e), e);
    gives(ERR_UNREACHABLE, eras_doubt_home(&eras_case_watch, on.link, &on.names, on.view, &was_accepted, &e),
          e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 1);
}

static void test_an_era_that_nobody_watched__waits_for_all_writers(void **state)
{
    struct error e = {""};
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    eras_case_registers(eras_case_writer[1]);
    renew(); /* no process had looked before */
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 2);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 1);
    must(say(0, true, &e), e); /* a repeated report counts as one */
    assert_int_equal(take(ERAS_WRITE), 1);
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    must(say(1, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_false(on.view->degraded);
    assert_int_equal(eras_case_look(), ERAS_KEEP);
    renew(); /* reports of the last id do not hold for this one */
    eras_fini(&eras_case_watch);
    eras_case_watch = (struct eras){.seen = {0}};
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 2);
}

/* Other nodes have nothing to do with that. What was said of its id before does not count. */
static void test_home_that_went_back__is_accepted_no_more(void **state)
{
    struct error e = {""};
    struct key_name key;
    char both[40];
    bool was_accepted = false;
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    names_filter_key(&on.names, "view", &key);
    (void)snprintf(both, sizeof(both), "%016x %016llx", 42U, (unsigned long long)lanes_era(&on.client));
    freeReplyObject(client_command(&on.client, "HSET %b eras %s", key.text, key.length, both));
    eras_case_load();
    assert_int_equal(eras_case_look(), ERAS_KEEP);
    must(say(0, true, &e), e);
    must(eras_doubt_home(&eras_case_watch, on.link, &on.names, on.view, &was_accepted, &e), e);
    assert_true(was_accepted);
    gives(ERR_FENCED, eras_doubt_home(&eras_case_watch, on.link, &on.names, on.view, &was_accepted, &e), e);
    eras_case_load();
    assert_true(on.view->eras.count == 1 && on.view->eras.id[0] == 42);
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    must(eras_doubt_home(&eras_case_watch, on.link, &on.names, on.view, &was_accepted, &e), e);
    assert_false(was_accepted);
    assert_int_equal(take(ERAS_WRITE), 1);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_int_equal(eras_case_look(), ERAS_KEEP);
    assert_false(on.view->degraded);
}

static void test_a_writer_without_memory__degrades_the_filter(void **state)
{
    struct error e = {""};
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    must(say(0, false, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_true(on.view->degraded);
}

/* Folded keys may be lost, and the writer that added them has left. */
static void test_an_era_that_no_writer_answers__degrades_the_filter(void **state)
{
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    eras_case_leaves(eras_case_writer[0]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_true(on.view->degraded);
}

/* The remaining writer has all shards in memory, but may not have read the last keys of the one that left. */
static void test_a_writer_that_does_not_know_of_one_that_left__degrades_the_filter(void **state)
{
    struct error e = {""};
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    eras_case_registers(eras_case_writer[1]);
    eras_case_leaves(eras_case_writer[1]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_true(on.view->degraded);
}

static void test_a_writer_that_knows_of_one_that_left__degrades_nothing(void **state)
{
    struct error e = {""};
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    eras_case_registers(eras_case_writer[1]);
    eras_case_leaves(eras_case_writer[1]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    const struct eras_written what = {.all = true, .knows_left = true, .left = on.view->left[0]};
    must(eras_say(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &what, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_false(on.view->degraded);
}

/* Another process had watched the node, so nothing is lost. */
static void test_a_writer_without_memory__degrades_nothing_where_nothing_was_lost(void **state)
{
    struct error e = {""};
    struct eras other = {.seen = {0}};
    enum eras_action action;
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    eras_case_registers(eras_case_writer[1]);
    assert_int_equal(eras_case_look(), ERAS_KEEP);
    renew();
    must(eras_look(&other, on.link, &on.names, on.view, &action, &e), e);
    assert_int_equal(action, ERAS_WRITE);
    const struct eras_written partly = {.all = false};
    must(eras_say(&other, on.link, &on.names, on.view, eras_case_writer[1], &partly, &e), e);
    eras_fini(&other);
    if (temp_redis_is_before_7()) {
        assert_int_equal(eras_case_look(), ERAS_WRITE);
        return;
    }
    assert_int_equal(eras_case_look(), ERAS_TAKE);
    assert_int_equal(take(ERAS_TAKE), 0);
    assert_false(on.view->degraded);
}

static void test_an_era_that_changes_again__is_not_what_was_written_under(void **state)
{
    struct error e = {""};
    unsigned missing;
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    renew();
    assert_int_equal(say(0, true, &e), ERR_FENCED);
    assert_int_equal(eras_take(&eras_case_watch, on.link, &on.names, on.view, ERAS_WRITE, &missing, &e),
                     ERR_FENCED);
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    assert_int_equal(take(ERAS_WRITE), 1);
}

static void test_a_writer_that_is_not_registered__says_nothing(void **state)
{
    struct error e = {""};
    (void)state;
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    assert_int_equal(say(0, true, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, "writer."));
}

static void test_another_view__is_read_again(void **state)
{
    struct error e = {""};
    unsigned missing;
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    struct trusted *now = trusted_copy(eras_case_watch.now);
    assert_int_equal(take(ERAS_TAKE), 0);
    on.view->eras.id[0] ^= 1; /* as in the view of a process that sleeps */
    free(eras_case_watch.now);
    eras_case_watch.now = now;
    assert_int_equal(eras_take(&eras_case_watch, on.link, &on.names, on.view, ERAS_TAKE, &missing, &e),
                     ERR_FENCED);
    on.names.incarnation ^= 1;
    assert_int_equal(say(0, true, &e), ERR_FENCED);
}

/* Build another generation. Returns the number of the one that was current before. */
static uint64_t builds_another(void)
{
    struct error e = {""};
    struct builder *b;
    eras_case_load();
    uint64_t before = on.view->slot[on.view->current].shape.number;
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[on.view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(cut_over(b, false, &e), e);
    builder_free(b);
    eras_case_load();
    return before;
}

/* The shards of the generation before were not written, and may lack keys that were folded into them. */
static void test_a_generation_that_was_not_written__is_not_read_again(void **state)
{
    struct error e = {""};
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    uint64_t before = builds_another();
    assert_true(on.view->slot[before % 2].shape.built && on.view->current != before % 2);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    eras_case_load();
    assert_true(!on.view->slot[before % 2].shape.built && on.view->slot[on.view->current].shape.built &&
                !on.view->degraded);
    gives(ERR_CONFLICT, log_switch(on.link, &on.names, before, &e), e);
}

/* A writer must report again when it knows of writers that have left since. */
static void test_a_writer_that_knows_more__has_not_said_it(void **state)
{
    struct error e = {""};
    struct eras_written what = {.all = true};
    bool said;
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    eras_case_registers(eras_case_writer[1]);
    eras_case_leaves(eras_case_writer[1]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    must(eras_say(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &what, &e), e);
    const struct eras_written knows = {.all = true, .knows_left = true, .left = on.view->left[0]},
                              partly = {.all = false};
    must(eras_has_said(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &what, &said, &e),
         e);
    assert_true(said);
    must(
        eras_has_said(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &partly, &said, &e),
        e);
    assert_true(said);
    must(eras_has_said(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &knows, &said, &e),
         e);
    assert_false(said);
    must(eras_say(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &knows, &e), e);
    must(eras_has_said(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &knows, &said, &e),
         e);
    assert_true(said);
    must(eras_has_said(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &what, &said, &e),
         e);
    assert_true(said);
}

/* Writers have written one generation, and another one is current when the view accepts the era. */
static void test_what_was_written_of_another_generation__says_nothing(void **state)
{
    struct error e = {""};
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    uint64_t before = builds_another();
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    must(say(0, true, &e), e);
    must(log_switch(on.link, &on.names, before, &e), e);
    assert_int_equal(say(0, true, &e), ERR_FENCED); /* the writer has not read that view */
    assert_int_equal(take(ERAS_WRITE), 1);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_false(on.view->degraded);
}

/* The filter gets degraded in any case. */
static void test_a_writer_in_doubt__is_not_waited_for_where_one_lacks_memory(void **state)
{
    struct error e = {""};
    struct roll r;
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    eras_case_registers(eras_case_writer[1]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    roll_init(&r, on.link, &on.names, eras_case_writer[0]);
    must(remove_doubt(&r, log_view_writer(on.view, eras_case_writer[1]), &e), e);
    roll_fini(&r);
    must(say(0, true, &e), e);
    assert_int_equal(take(ERAS_WRITE), 1);
    must(say(0, false, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_true(on.view->degraded);
}

/* It may be the only one that knows all keys of the writers that left. */
static void test_a_writer_in_doubt__is_waited_for_where_it_may_know(void **state)
{
    struct error e = {""};
    struct roll r;
    (void)state;
    eras_case_registers(eras_case_writer[0]);
    eras_case_registers(eras_case_writer[1]);
    eras_case_registers(eras_case_writer[2]);
    eras_case_leaves(eras_case_writer[2]);
    renew();
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    roll_init(&r, on.link, &on.names, eras_case_writer[0]);
    must(remove_doubt(&r, log_view_writer(on.view, eras_case_writer[1]), &e), e);
    roll_fini(&r);
    const struct eras_written all = {.all = true},
                              knows = {.all = true, .knows_left = true, .left = on.view->left[0]};
    must(eras_say(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[0], &all, &e), e);
    assert_int_equal(take(ERAS_WRITE), 1);
    must(eras_say(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[1], &knows, &e), e);
    assert_int_equal(take(ERAS_WRITE), 0);
    assert_false(on.view->degraded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ERAS_TEST(test_what_a_server_has_under_one_id__is_asked_once),
        ERAS_TEST(test_an_era_that_was_watched__is_taken_at_once),
        ERAS_TEST(test_the_id_of_a_node_without_shards__may_stay),
        ERAS_TEST(test_a_node_that_was_promoted__has_its_era_taken_by_all_writers),
        ERAS_TEST(test_an_era_that_nobody_watched__waits_for_all_writers),
        ERAS_TEST(test_home_that_went_back__is_accepted_no_more),
        ERAS_TEST(test_a_writer_without_memory__degrades_the_filter),
        ERAS_TEST(test_an_era_that_no_writer_answers__degrades_the_filter),
        ERAS_TEST(test_a_writer_that_does_not_know_of_one_that_left__degrades_the_filter),
        ERAS_TEST(test_a_writer_that_knows_of_one_that_left__degrades_nothing),
        ERAS_TEST(test_a_writer_without_memory__degrades_nothing_where_nothing_was_lost),
        ERAS_TEST(test_an_era_that_changes_again__is_not_what_was_written_under),
        ERAS_TEST(test_a_writer_that_is_not_registered__says_nothing),
        ERAS_TEST(test_another_view__is_read_again),
        ERAS_TEST(test_a_generation_that_was_not_written__is_not_read_again),
        ERAS_TEST(test_a_writer_that_knows_more__has_not_said_it),
        ERAS_TEST(test_a_writer_in_doubt__is_waited_for_where_it_may_know),
        ERAS_TEST(test_what_was_written_of_another_generation__says_nothing),
        ERAS_TEST(test_a_writer_in_doubt__is_not_waited_for_where_one_lacks_memory),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
