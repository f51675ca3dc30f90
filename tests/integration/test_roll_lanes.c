/* SPDX-License-Identifier: MIT */
/* Lanes that are lost, on real servers, get another stream, and writers append their entries again. What a
 * writer keeps for that, and lanes that leave a node. */
#include "tests/integration/roll_case.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void replaces(struct roll_case_writer *o)
{
    struct error e = {""};
    uint64_t era;
    roll_case_load_view();
    gives(ERR_LOST, roll_answer(&o->roll, w.view, 0, o->own, &era, &e), e);
    must(roll_replace_lane(&o->roll, w.view, 0, &e), e);
    roll_case_load_view();
    assert_int_equal(w.view->lane[0].era, 0);
    assert_false(log_view_is_folded(w.view, &w.view->slot[0], 0) && w.view->lane[0].number == 1);
    assert_int_equal(w.view->slot[1].folded[0].position.id.ms, 0);
}

static void becomes_whole(void)
{
    uint64_t number = w.view->lane[0].number;
    assert_int_equal(roll_case_taking(&w.writer[0]), 2);
    roll_case_answers(&w.writer[0]);
    assert_int_equal(roll_case_taking(&w.writer[0]), 1);
    roll_case_call();
    assert_int_equal(w.view->lane[0].number, number);
    assert_true(w.view->lane[0].era == lanes_era(&w.client));
    assert_false(w.view->degraded);
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        roll_case_all_are_there(&w.writer[i]);
    assert_int_equal(w.view->slot[1].folded[0].lane_number, number);
    assert_true(w.view->slot[1].folded[0].position.id.ms > 0);
    assert_int_equal(roll_case_keys_of(&w.client, "*.log*"), 1); /* the closed lane is deleted */
    roll_case_add(&w.writer[0], 2);
    roll_case_add(&w.writer[1], 2);
}

static void test_a_lane_that_was_deleted__becomes_whole_in_another_stream(void **state)
{
    struct error e = {""};
    (void)state;
    roll_case_add(&w.writer[0], 5);
    roll_case_add(&w.writer[1], 600); /* more than a page */
    struct lane old = w.writer[0].lane;
    must(client_integer(&w.client, &(int64_t){0}, &e, "DEL %b", old.key.text, old.key.length), e);
    roll_case_adds_as(&w.writer[0], TAIL_LOST);
    w.writer[0].sequence--;
    replaces(&w.writer[0]);
    roll_case_adds_as(&w.writer[0], TAIL_LOST); /* under the former view: this does not make the lane again */
    w.writer[0].sequence--;
    becomes_whole();
}

/* A maker of the filter was about to publish it when another one did. Its lane must go: if the view were lost
 * once more, two lanes would be open. */
static void test_a_lane_that_is_replaced__leaves_no_lane_of_another_incarnation(void **state)
{
    struct error e = {""};
    (void)state;
    freeReplyObject(client_command(&w.client, "XADD tb:{f.0}:0000000000abcdee.log1 * e x"));
    freeReplyObject(client_command(&w.home_client, "XADD tb:{f.3}:0000000000abcdee.log1.closed * e x"));
    must(client_ok(&w.home_client, &e, "SET tb:{f.2.0.0}:0000000000abcdee x"), e); /* a shard */
    freeReplyObject(client_command(
        &w.home_client, "XADD tb:{f.x.0}:0000000000abcdee.log1 * e x")); /* belongs to filter f.x */
    roll_case_add(&w.writer[0], 1);
    struct lane old = w.writer[0].lane;
    must(client_integer(&w.client, &(int64_t){0}, &e, "DEL %b", old.key.text, old.key.length), e);
    assert_int_equal(roll_case_keys_of(&w.client, "*abcdee*"), 1);
    assert_int_equal(roll_case_keys_of(&w.home_client, "*abcdee*"), 3);
    replaces(&w.writer[0]);
    assert_int_equal(roll_case_keys_of(&w.client, "*abcdee*"), 0);
    assert_int_equal(roll_case_keys_of(&w.home_client, "*abcdee*"), 2);
    becomes_whole();
    roll_case_put_field(NULL, "incarnation", "0000000000abcdee"); /* the filter has another incarnation now */
    roll_case_load_view();
    w.view->incarnation = w.names.incarnation;
    gives(ERR_FENCED, roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    roll_case_put_field(NULL, "incarnation", "0000000000abcdef");
}

static void test_a_lane_that_was_flushed__becomes_whole_whoever_meets_it_first(void **state)
{
    struct error e = {""};
    (void)state;
    roll_case_add(&w.writer[0], 5);
    roll_case_add(&w.writer[1], 5);
    must(client_ok(&w.client, &e, "FLUSHALL"), e);
    replaces(&w.writer[1]);
    must(client_ok(&w.client, &e, "FLUSHALL"), e); /* the successor is lost before the view accepts its era */
    replaces(&w.writer[0]);
    becomes_whole();
}

/* E.g. if the last id is the highest possible: the writers keep their entries, so the lane may be closed. */
static void test_a_lane_that_is_not_lost__is_closed_first(void **state)
{
    struct error e = {""};
    (void)state;
    roll_case_add(&w.writer[0], 5);
    struct lane old = w.writer[0].lane;
    roll_case_load_view();
    must(roll_replace_lane(&w.writer[1].roll, w.view, 0, &e), e);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &old), 0);
    roll_case_adds_as(&w.writer[0], TAIL_LOST);
    w.writer[0].sequence--;
    roll_case_load_view();
    becomes_whole();
}

static void test_a_lane__is_closed_before_the_view_names_another(void **state)
{
    struct error e = {""};
    struct lane closed = w.writer[0].lane;
    (void)state;
    char *before = roll_case_field("lanes");
    memcpy(closed.key.text + closed.key.length, ".closed", 7);
    closed.key.length += 7;
    roll_case_load_view();
    must(client_ok(&w.home_client, &e, "ACL SETUSER default -hset"), e); /* the view cannot be changed */
    gives(ERR_REFUSED, roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    must(client_ok(&w.home_client, &e, "ACL SETUSER default +hset"), e);
    assert_string_equal(roll_case_field("lanes"), before);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &w.writer[0].lane), 0);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &closed), 1); /* as long as the view names it */
    replaces(&w.writer[0]);
    roll_case_call();
    roll_case_add(&w.writer[0], 1);
    assert_int_equal(lanes_number(&w.client, "EXISTS", &closed), 0);
}

/* During a build the other generation says which own entries may be forgotten; when the cutover is near, the
 * hold does, too. */
static void test_own_entries__are_kept_where_a_cutover_is_near(void **state)
{
    struct roll_case_writer *o = &w.writer[0];
    (void)state;
    roll_case_put_field(NULL, "generation1", "");
    roll_case_add(o, 5);
    struct log_id early = o->at.id;
    roll_case_add(o, 5);
    roll_case_store_folded(0, 0, 1, &o->at);
    roll_case_hold(0, early);
    roll_case_put_field(NULL, "near", "3");
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    roll_case_put_field(NULL, "hold.0", "2 0-0"); /* a position in another stream */
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 0);
    roll_case_add(o, 5);
    roll_case_store_folded(0, 0, 1, &o->at);
    roll_case_hold(0, early);
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    struct key_name key = roll_case_view_key();
    freeReplyObject(client_command(&w.home_client, "HDEL %b near", key.text, key.length));
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 0);
}

/* The writer forgets what every generation has; a generation without a position has nothing. */
static void test_own_entries__are_forgotten_when_all_generations_have_them(void **state)
{
    struct roll_case_writer *o = &w.writer[0];
    struct log_position early;
    char name[LOG_FOLDED_NAME_MAX];
    (void)state;
    roll_case_add(o, 5);
    early = o->at;
    roll_case_add(o, 5);
    roll_case_store_folded(0, 0, 1, &o->at);
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 10); /* the other one has its first entry only */
    roll_case_store_folded(1, 0, 1, &early);
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    roll_case_store_folded(1, 0, 2, &o->at); /* a position in another stream */
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    log_folded_name(1, 0, name);
    struct key_name key = roll_case_view_key();
    freeReplyObject(client_command(&w.home_client, "HDEL %b %s", key.text, key.length, name));
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 5);
    roll_case_put_field(NULL, "generation1", "");
    roll_case_load_view();
    roll_forget(&o->roll, w.view, 0, o->own);
    assert_int_equal(own_count(o->own), 0);
}

/* A generation that is being built lacks the earlier entries, so its position is not taken over. */
static void test_positions_of_a_build__stay_in_the_stream_that_was_lost(void **state)
{
    struct error e = {""};
    char text[GENERATION_TEXT_MAX];
    (void)state;
    struct generation g = w.view->slot[1].shape;
    g.built = false;
    (void)generation_text(&g, text);
    roll_case_put_field(NULL, "generation1", text);
    roll_case_load_view();
    must(roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    roll_case_call();
    assert_true(log_view_is_folded(w.view, &w.view->slot[0], 0));
    assert_false(log_view_is_folded(w.view, &w.view->slot[1], 0));
    assert_int_equal(w.view->slot[1].folded[0].lane_number, 1);
}

static void test_a_node_that_is_away__has_nothing_switched(void **state)
{
    struct error e = {""};
    (void)state;
    char *before = roll_case_field("lanes");
    roll_case_load_view();
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.refuse = true});
    gives(ERR_UNREACHABLE, roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    assert_string_equal(roll_case_field("lanes"), before);
    proxy_lift(w.proxy);
    roll_case_add(&w.writer[0], 1); /* the lane is unchanged */
}

/* The view is another one by now, or is deleted. The lane that was made for the view is deleted. */
/* By then another process has stored a position, or has had an era taken. */
static void test_an_older_view__closes_no_lane(void **state)
{
    struct error e = {""};
    (void)state;
    struct log_view *stale = malloc(sizeof(*stale));
    roll_case_load_view();
    *stale = *w.view;
    roll_case_add(&w.writer[0], 3);
    roll_case_store_folded(0, 0, 1, &w.writer[0].at);
    gives(ERR_FENCED, roll_give_up_lane(&w.writer[1].roll, stale, 0, &e), e);
    roll_case_load_view();
    assert_false(w.view->degraded);
    roll_case_renew_era(&w.client);
    roll_case_call();
    gives(ERR_FENCED, roll_replace_lane(&w.writer[1].roll, stale, 0, &e), e);
    roll_case_add(&w.writer[0], 1);
    free(stale);
}

static void test_a_view_that_has_changed__is_not_touched(void **state)
{
    struct error e = {""};
    uint64_t era;
    unsigned missing;
    (void)state;
    struct log_view *stale = malloc(sizeof(*stale));
    roll_case_load_view();
    *stale = *w.view;
    must(roll_replace_lane(&w.writer[0].roll, stale, 0, &e), e);
    char *lanes = roll_case_field("lanes");
    gives(ERR_FENCED, roll_replace_lane(&w.writer[1].roll, stale, 0, &e), e);
    gives(ERR_LOST, roll_answer(&w.writer[1].roll, stale, 0, w.writer[1].own, &era, &e), e);
    roll_case_load_view();
    *stale = *w.view;
    stale->lane[0].number++; /* with a lane that exists */
    struct lane there;
    struct log_position anchor;
    must(roll_lane(&w.writer[0].roll, stale, 0, &there, &e), e);
    must(lane_make(w.writer[0].link, &there, lanes_writer, 1, &anchor, &e), e);
    gives(ERR_FENCED, roll_answer(&w.writer[1].roll, stale, 0, w.writer[1].own, &era, &e), e);
    gives(ERR_FENCED, roll_take_era(&w.writer[1].roll, stale, 0, NULL, &missing, &e), e);
    roll_case_put_field(NULL, "deleting", "1");
    roll_case_load_view();
    gives(ERR_FENCED, roll_replace_lane(&w.writer[1].roll, w.view, 0, &e), e);
    gives(ERR_FENCED, roll_answer(&w.writer[1].roll, w.view, 0, w.writer[1].own, &era, &e), e);
    gives(ERR_FENCED, roll_take_era(&w.writer[1].roll, w.view, 0, NULL, &missing, &e), e);
    assert_string_equal(roll_case_field("lanes"), lanes);
    free(stale);
}

struct rival {
    pthread_t thread;
    pthread_barrier_t *barrier;
    struct roll_case_writer *writer;
    enum err code;
    struct error error;
};

static void *replace(void *arg)
{
    struct rival *o = arg;
    (void)pthread_barrier_wait(o->barrier);
    o->code = roll_replace_lane(&o->writer->roll, w.view, 0, &o->error);
    return NULL;
}

static void test_of_two_that_replace_a_lane__one_wins(void **state)
{
    enum { ROUNDS = 30 };
    unsigned late = 0;
    pthread_barrier_t barrier;
    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, ROLL_CASE_WRITERS), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct rival rival[ROLL_CASE_WRITERS];
        roll_case_add(&w.writer[0], 1);
        roll_case_load_view();
        uint64_t before = strtoull(roll_case_field("version"), NULL, 10);
        for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++) {
            rival[i] = (struct rival){.barrier = &barrier, .writer = &w.writer[i]};
            assert_int_equal(pthread_create(&rival[i].thread, NULL, replace, &rival[i]), 0);
        }
        for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
            (void)pthread_join(rival[i].thread, NULL);
        const struct rival *loser = &rival[rival[0].code == ERR_OK];
        assert_int_equal((rival[0].code == ERR_OK) + (rival[1].code == ERR_OK), 1);
        if (loser->code != ERR_FENCED)
            fail_msg("%s: %s", error_name(loser->code), loser->error.text);
        assert_int_equal(roll_case_version(), before + 1);
        struct key_name token;
        names_filter_key(&w.names, "token", &token);
        redisReply *r = client_command(&w.home_client, "GET %b", token.text, token.length);
        roll_case_load_view();
        late += strtoull(r->str, NULL, 10) != w.view->lane[0].number;
        freeReplyObject(r);
        assert_int_equal(roll_case_keys_of(&w.client, "*.log*"), 1);
        roll_case_call();
    }
    print_message("both drew a number in %u of %d rounds\n", late, ROUNDS);
    roll_case_all_are_there(&w.writer[0]);
    (void)pthread_barrier_destroy(&barrier);
}

/* --- a filter that leaves a node --- */

/* Place the lanes, and the current generation's shards, on nodes. */
static void lie_on(const char *lanes, bool at_home, bool on_lane_node)
{
    struct generation *g = &w.view->slot[w.view->current].shape;
    roll_case_load_view();
    g->node_count = 0;
    if (at_home)
        (void)snprintf(g->nodes[g->node_count++], NODE_NAME_MAX, "%s", w.nodes.node[NODE_HOME].name);
    if (on_lane_node)
        (void)snprintf(g->nodes[g->node_count++], NODE_NAME_MAX, "%s",
                       w.nodes.node[ROLL_CASE_LANE_NODE].name);
    log_view_format(w.view, roll_case_put_field, NULL);
    roll_case_put_field(NULL, "lane_nodes", lanes);
    roll_case_load_view();
}

static void test_lanes__leave_nodes_that_the_generation_has_left(void **state)
{
    struct error e = {""};
    char lanes[2 * NODE_NAME_MAX + 2];
    const char *home = w.nodes.node[NODE_HOME].name;
    (void)state;
    (void)snprintf(lanes, sizeof(lanes), "%s,%s", w.nodes.node[ROLL_CASE_LANE_NODE].name, home);
    roll_case_add(&w.writer[0], 3);
    roll_case_add(&w.writer[1], 2);
    lie_on(lanes, true, true);
    must(roll_move_lanes(&w.writer[0].roll, w.view, &e), e);
    roll_case_load_view();
    assert_int_equal(w.view->lane[0].number, 1); /* the filter has shards there */
    lie_on(lanes, true, false);
    must(roll_move_lanes(&w.writer[0].roll, w.view, &e), e);
    roll_case_load_view();
    assert_true(w.view->lane[0].number > 1);
    assert_int_equal(w.view->lane[0].era, 0);
    assert_string_equal(w.view->lane_node[0], home);
    assert_int_equal(w.view->lane[1].number, 1);
    assert_string_equal(w.view->lane_node[1], home);
    assert_int_equal(roll_case_keys_of(&w.client, "*"), 0);
    assert_int_equal(roll_case_taking(&w.writer[0]), 2);
    roll_case_call();
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++) {
        roll_case_all_are_there(&w.writer[i]);
        roll_case_add(&w.writer[i], 2);
    }
    uint64_t number = w.view->lane[0].number;
    must(roll_move_lanes(&w.writer[1].roll, w.view, &e), e);
    roll_case_load_view();
    assert_int_equal(w.view->lane[0].number, number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROLL_TEST(test_a_lane_that_was_deleted__becomes_whole_in_another_stream),
        ROLL_TEST(test_a_lane_that_is_replaced__leaves_no_lane_of_another_incarnation),
        ROLL_TEST(test_a_lane_that_was_flushed__becomes_whole_whoever_meets_it_first),
        ROLL_TEST(test_a_lane_that_is_not_lost__is_closed_first),
        ROLL_TEST(test_a_lane__is_closed_before_the_view_names_another),
        ROLL_TEST(test_own_entries__are_kept_where_a_cutover_is_near),
        ROLL_TEST(test_own_entries__are_forgotten_when_all_generations_have_them),
        ROLL_TEST(test_positions_of_a_build__stay_in_the_stream_that_was_lost),
        ROLL_TEST(test_a_node_that_is_away__has_nothing_switched),
        ROLL_TEST(test_an_older_view__closes_no_lane),
        ROLL_TEST(test_a_view_that_has_changed__is_not_touched),
        ROLL_TEST(test_of_two_that_replace_a_lane__one_wins),
        ROLL_TEST_TWO_LANES(test_lanes__leave_nodes_that_the_generation_has_left),
    };
    return cmocka_run_group_tests(tests, roll_case_start, roll_case_stop);
}
