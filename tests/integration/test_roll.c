/* SPDX-License-Identifier: MIT */
/* The register of writers, and the roll call, on real servers. A lagging replica replaces a lane's master,
 * writers append the missing entries again, and the view accepts the era. */
#include "tests/integration/roll_case.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/members/remove.h"

/* --- the register --- */

static void test_a_writer__registers_once_and_leaves(void **state)
{
    struct error e = {""};
    char name[LOG_WRITER_NAME_MAX];
    (void)state;
    uint64_t before = roll_case_version();
    log_writer_name(w.writer[0].id, name);
    must(roll_leave(&w.writer[0].roll, &e), e);
    assert_string_equal(roll_case_field(name), "(nil)");
    assert_int_equal(roll_case_version(), before + 1);
    must(roll_leave(&w.writer[0].roll, &e), e);
    uint64_t first = w.writer[0].roll.registration;
    must(roll_register(&w.writer[0].roll, &e), e);
    assert_true(w.writer[0].roll.registration > first);
    assert_true(strtoull(roll_case_field(name), NULL, 10) == w.writer[0].roll.registration);
    assert_int_equal(roll_case_version(), before + 2);
    roll_case_put_field(NULL, name, "1900000000000000 0.1:00000000000000e1");
    must(roll_register(&w.writer[0].roll, &e), e); /* the stored answer stays */
    assert_true(w.writer[0].roll.registration == 1900000000000000);
    assert_string_equal(roll_case_field(name), "1900000000000000 0.1:00000000000000e1");
    roll_case_put_field(NULL, name, "1900000000000000? 0.1:00000000000000e1");
    must(roll_register(&w.writer[0].roll, &e), e);
    assert_string_equal(roll_case_field(name), "1900000000000001 0.1:00000000000000e1");
    w.writer[0].roll.registration = 1900000000000005; /* at least this number */
    must(roll_register(&w.writer[0].roll, &e), e);
    assert_string_equal(roll_case_field(name), "1900000000000005 0.1:00000000000000e1");
    assert_int_equal(roll_case_version(), before + 2);
    roll_case_load_view();
    assert_int_equal(w.view->writer_count, ROLL_CASE_WRITERS);
}

static void test_register__is_refused_where_nobody_may_add(void **state)
{
    struct error e = {""};
    char name[LOG_WRITER_NAME_MAX];
    (void)state;
    uint8_t id[LOG_WRITER_BYTES] = "somebody else...";
    struct roll *r = &w.writer[0].roll;
    memcpy(r->writer, id, sizeof(id));
    roll_case_put_field(NULL, "deleting", "1");
    gives(ERR_CONFLICT, roll_register(r, &e), e);
    assert_non_null(strstr(e.text, "tb:{f}:view: the filter is being deleted"));
    roll_case_put_field(NULL, "deleting", "0");
    roll_case_put_field(NULL, "incarnation", "0000000000abcdee");
    gives(ERR_NOT_FOUND, roll_register(r, &e), e);
    roll_case_put_field(NULL, "incarnation", "0000000000abcdef");
    for (unsigned i = ROLL_CASE_WRITERS; i < LOG_WRITERS_MAX; i++) {
        id[3] = (uint8_t)i;
        log_writer_name(id, name);
        roll_case_put_field(NULL, name, "1");
    }
    id[3] = 1;
    memcpy(r->writer, id, sizeof(id));
    gives(ERR_RANGE, roll_register(r, &e), e);
    assert_non_null(strstr(e.text, "256"));
    log_writer_name(id, name);
    assert_string_equal(roll_case_field(name), "(nil)");
    must(client_ok(&w.home_client, &e, "FLUSHALL"), e);
    gives(ERR_NOT_FOUND, roll_register(r, &e), e);
    assert_int_equal(roll_case_keys_of(&w.home_client, "*"), 0);
}

/* --- the roll call --- */

static void test_the_first_replica__is_routine(void **state)
{
    (void)state;
    roll_case_add(&w.writer[0], 3);
    roll_case_add(&w.writer[1], 3);
    roll_case_replicate();
    roll_case_adds_as(&w.writer[0], TAIL_ERA);
    int64_t before = roll_case_length_of(&w.client, &w.writer[0].lane);
    roll_case_call();
    assert_int_equal(roll_case_length_of(&w.client, &w.writer[0].lane), before); /* nothing is missing */
    assert_int_equal(w.view->lane[0].number, 1);
    assert_true(w.view->lane[0].era == lanes_era(&w.client));
    assert_false(w.view->degraded);
    roll_case_add(&w.writer[0], 1);
}

static void test_what_a_failover_lost__is_in_the_lane_again(void **state)
{
    (void)state;
    roll_case_fail_over_with(5, 70); /* more than one batch */
    uint64_t before = roll_case_version();
    roll_case_adds_as(&w.writer[0], TAIL_ERA);
    w.writer[0].sequence--; /* the entry was not acknowledged */
    roll_case_call();
    assert_true(w.view->lane[0].era == lanes_era(&w.other_client));
    assert_int_equal(roll_case_version(), before + 1);
    assert_false(w.view->degraded);
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++) {
        roll_case_all_are_there(&w.writer[i]);
        assert_int_equal(roll_case_times(&w.writer[i], 1), 1); /* and existing entries are not repeated */
        assert_int_equal(roll_case_times(&w.writer[i], 75), 1);
    }
    roll_case_add(&w.writer[0], 3);
    roll_case_add(&w.writer[1], 3);
    roll_case_all_are_there(&w.writer[0]);
}

static void test_positions__go_back_to_the_first_entry(void **state)
{
    (void)state;
    char name[LOG_WRITER_NAME_MAX];
    roll_case_fail_over_with(5, 5);
    roll_case_store_folded(0, 0, 1, &w.writer[0].at); /* the position of an entry that the failover lost */
    roll_case_store_folded(1, 0, 7, &w.writer[0].at); /* a position in another stream */
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        roll_case_answers(&w.writer[i]);
    log_writer_name(w.writer[0].id, name);
    assert_true(strstr(roll_case_field(name), " 0.1:") != NULL);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    roll_case_load_view();
    const struct log_folded *folded = w.view->slot[0].folded;
    assert_true(log_position_is(&folded[0].position, w.anchor.id, w.anchor.bytes, w.anchor.length));
    assert_int_equal(w.view->slot[1].folded[0].lane_number, 7);
    for (unsigned slot = 0; slot < 2; slot++) /* no layer is taken for empty */
        assert_int_equal(w.view->slot[slot].filled, w.view->slot[slot].shape.layer_count);
    assert_true(log_position_is(&w.view->slot[1].folded[0].position, w.writer[0].at.id, w.writer[0].at.bytes,
                                w.writer[0].at.length));
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++) {
        log_writer_name(w.writer[i].id, name);
        assert_null(strchr(roll_case_field(name), ' ')); /* answers of the old era are removed */
    }
}

/* The address leads to the former server again, which lacks what was acknowledged at the next one. Whoever
 * slept since would go on there. */
static void test_an_era_that_was_left__is_not_taken_again(void **state)
{
    struct error e = {""};
    unsigned missing;
    enum err code = ERR_UNREACHABLE;
    (void)state;
    roll_case_fail_over_with(5, 5);
    roll_case_call();
    roll_case_add(&w.writer[0], 3);
    proxy_aim(w.proxy, w.route, w.one.port);
    for (unsigned i = 0; i < 100 && code == ERR_UNREACHABLE; i++) /* connections break first */
        code = roll_take_era(&w.writer[0].roll, w.view, 0, NULL, &missing, &e);
    gives(ERR_LOST, code, e);
}

static void test_a_history_that_goes_on__needs_no_answer(void **state)
{
    struct error e = {""};
    struct replications known = {0};
    unsigned missing;
    (void)state;
    if (temp_redis_is_before_7()) /* it does not report whether it has received anything */
        return;
    roll_case_add(&w.writer[0], 3);
    roll_case_store_folded(0, 0, 1, &w.writer[0].at);
    roll_case_load_view();
    must(sync_client_replications(w.writer[0].link, NULL, &known, &e), e);
    struct replication was = *replications_of_id(&known, w.view->lane[0].era);
    replications_fini(&known);
    must(client_ok(&w.client, &e, "DEBUG CHANGE-REPL-ID"), e);
    was.id ^= 1; /* it was watched under another era than the view's */
    must(roll_take_era(&w.writer[0].roll, w.view, 0, &was, &missing, &e), e);
    assert_int_equal(missing, ROLL_CASE_WRITERS);
    was.id ^= 1;
    must(roll_take_era(&w.writer[0].roll, w.view, 0, &was, &missing, &e), e);
    assert_int_equal(missing, 0);
    roll_case_load_view();
    assert_true(w.view->lane[0].era == lanes_era(&w.client));
    assert_int_equal(log_id_compare(w.view->slot[0].folded[0].position.id, w.writer[0].at.id), 0);
    assert_int_equal(w.view->slot[0].filled, 0);
}

/* A position before the lane's first entry is invalid, as entries in between may not be in the shards. */
static void test_positions__never_go_up(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    (void)state;
    roll_case_add(&w.writer[0], 500);
    struct log_mark mark = log_mark_of(&w.writer[0].at);
    must(lane_trim(w.writer[0].link, &w.writer[0].lane, &mark, &trimmed, &e), e);
    assert_true(trimmed.removed > 100);
    roll_case_renew_era(&w.client);
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        roll_case_answers(&w.writer[i]);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    roll_case_load_view();
    assert_true(
        log_position_is(&w.view->slot[0].folded[0].position, w.anchor.id, w.anchor.bytes, w.anchor.length));
}

/* As above, where the view went back, so that a writer was restored, and no era of the lane is accepted. */
static void test_positions__do_not_go_up_where_no_era_is_accepted(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    char name[LOG_WRITER_NAME_MAX];
    unsigned entered = 0;
    (void)state;
    roll_case_add(&w.writer[0], 500);
    struct log_mark mark = log_mark_of(&w.writer[0].at);
    must(lane_trim(w.writer[0].link, &w.writer[0].lane, &mark, &trimmed, &e), e);
    assert_true(trimmed.removed > 100);
    roll_case_load_view();
    struct log_lane had[LOG_LANES_MAX];
    memcpy(had, w.view->lane, sizeof(had));
    had[0].era ^= 1;
    struct log_writer gone = *log_view_writer(w.view, w.writer[1].id);
    log_writer_name(gone.id, name);
    struct key_name key = roll_case_view_key();
    must(client_integer(&w.home_client, &(int64_t){0}, &e, "HDEL %b %s", key.text, key.length, name), e);
    must(remove_undo(&w.writer[0].roll, had, w.view->lane_count, &gone, 1, &entered, &e), e);
    assert_int_equal(entered, 1);
    roll_case_load_view();
    assert_int_equal(w.view->lane[0].era, 0);
    for (unsigned i = 0; i < ROLL_CASE_WRITERS; i++)
        roll_case_answers(&w.writer[i]);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    roll_case_load_view();
    assert_true(w.view->lane[0].era != 0);
    assert_true(
        log_position_is(&w.view->slot[0].folded[0].position, w.anchor.id, w.anchor.bytes, w.anchor.length));
}

/* The view went back to one with other writers. One that has no room there may keep what the lane lost:
 * nobody could read a view with more. */
static void test_a_writer_without_room__degrades_the_filter(void **state)
{
    struct error e = {""};
    char name[LOG_WRITER_NAME_MAX];
    unsigned entered = 0;
    struct log_writer gone[2] = {{.registration = 7}, {.registration = 8}};
    (void)state;
    memset(gone[0].id, 7, LOG_WRITER_BYTES);
    memset(gone[1].id, 8, LOG_WRITER_BYTES);
    uint8_t id[LOG_WRITER_BYTES] = "somebody else...";
    for (unsigned i = ROLL_CASE_WRITERS; i + 1 < LOG_WRITERS_MAX; i++) {
        id[3] = (uint8_t)i;
        log_writer_name(id, name);
        roll_case_put_field(NULL, name, "1");
    }
    must(remove_undo(&w.writer[0].roll, w.view->lane, w.view->lane_count, gone, 1, &entered, &e), e);
    assert_int_equal(entered, 1);
    roll_case_load_view();
    assert_int_equal(w.view->writer_count, LOG_WRITERS_MAX);
    assert_false(w.view->degraded);
    must(remove_undo(&w.writer[0].roll, w.view->lane, w.view->lane_count, gone, 2, &entered, &e), e);
    assert_int_equal(entered, 1);
    roll_case_load_view();
    assert_int_equal(w.view->writer_count, LOG_WRITERS_MAX);
    assert_true(w.view->degraded);
}

static void test_a_writer_that_sleeps__is_waited_for(void **state)
{
    (void)state;
    roll_case_fail_over_with(2, 2);
    char *lanes = roll_case_field("lanes");
    assert_int_equal(roll_case_taking(&w.writer[0]), 2);
    roll_case_answers(&w.writer[0]);
    roll_case_answers(&w.writer[0]);
    assert_int_equal(roll_case_taking(&w.writer[0]), 1);
    assert_string_equal(roll_case_field("lanes"), lanes);
    roll_case_adds_as(&w.writer[0], TAIL_ERA);
    roll_case_answers(&w.writer[1]);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    assert_string_not_equal(roll_case_field("lanes"), lanes);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0); /* the view has the era already */
    w.writer[0].sequence--;
    roll_case_all_are_there(&w.writer[0]);
    roll_case_all_are_there(&w.writer[1]);
}

static void test_a_page_of_entries__is_not_all(void **state)
{
    (void)state;
    roll_case_add(&w.writer[0], LANE_RANGE_COUNT + 50);
    roll_case_renew_era(&w.client);
    int64_t before = roll_case_length_of(&w.client, &w.writer[0].lane);
    roll_case_call();
    assert_int_equal(roll_case_length_of(&w.client, &w.writer[0].lane), before); /* all entries were found */
    assert_true(w.view->lane[0].era == lanes_era(&w.client));
}

/* An answer for one era does not count for the next one. */
static void test_an_era_that_changes_again__is_answered_again(void **state)
{
    (void)state;
    roll_case_fail_over_with(2, 2);
    roll_case_answers(&w.writer[0]);
    roll_case_answers(&w.writer[1]);
    roll_case_renew_era(&w.other_client);
    assert_int_equal(roll_case_taking(&w.writer[0]), 2);
    roll_case_answers(&w.writer[1]);
    assert_int_equal(roll_case_taking(&w.writer[0]), 1);
    roll_case_answers(&w.writer[0]);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    roll_case_all_are_there(&w.writer[0]);
    roll_case_all_are_there(&w.writer[1]);
}

/* It is executed late, or comes from who has read an earlier view. With each look all would answer again. */
static void test_an_answer__does_not_stay_where_the_view_has_the_era(void **state)
{
    struct error e = {""};
    uint64_t era;
    (void)state;
    roll_case_fail_over_with(2, 2);
    roll_case_answers(&w.writer[0]);
    roll_case_answers(&w.writer[1]);
    struct log_view *before = malloc(sizeof(*before));
    *before = *w.view;
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    gives(ERR_FENCED, roll_answer(&w.writer[1].roll, before, 0, w.writer[1].own, &era, &e), e);
    free(before);
    roll_case_load_view();
    assert_int_equal(log_view_writer(w.view, w.writer[1].roll.writer)->said_count, 0);
    roll_case_all_are_there(&w.writer[1]);
}

/* Entries that are met after their process has entered the next era are not acknowledged. */
static void test_what_is_met_under_an_era_that_was_left__is_not_acknowledged(void **state)
{
    struct error e = {""};
    enum tail_state got;
    (void)state;
    struct lane next = w.writer[0].lane;
    next.era++;
    own_enter(w.writer[0].own, &next);
    gives(ERR_FENCED, roll_case_try_add(&w.writer[0], &got, &e), e);
    assert_int_equal(own_count(w.writer[0].own), 0);
}

/* The new master's clock is behind, so that a repeated entry gets an id before its earlier one. */
static void test_a_clock_that_is_behind__does_not_hide_what_was_appended(void **state)
{
    struct error e = {""};
    (void)state;
    struct roll_case_writer *o = &w.writer[0];
    roll_case_replicate();
    roll_case_call();
    roll_case_lag();
    redisReply *r = client_command(&w.client, "XADD %b 9999999999999-0 e %b", o->lane.key.text,
                                   o->lane.key.length, w.anchor.bytes, (size_t)w.anchor.length);
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    freeReplyObject(r);
    roll_case_add(o, 3); /* their ids follow that one */
    roll_case_fail_over();
    uint64_t era;
    must(roll_answer(&o->roll, w.view, 0, o->own, &era, &e), e);
    assert_int_equal(roll_case_length_of(&w.other_client, &o->lane), 1 + 3);
    roll_case_answers(&w.writer[1]);
    assert_int_equal(roll_case_taking(o), 0);
    roll_case_all_are_there(o);
}

/* The reply is lost: the entries are in the lane, and are found there or appended again. */
static void test_a_broken_connection__only_has_it_repeated(void **state)
{
    struct error e = {""};
    uint64_t era;
    unsigned failed = 0;
    (void)state;
    roll_case_fail_over_with(2, 5);
    for (unsigned resets = 1; resets <= 3; resets++) {
        proxy_set(w.proxy, w.route, &(struct proxy_fault){.resets = resets});
        roll_case_load_view();
        enum err code = roll_answer(&w.writer[0].roll, w.view, 0, w.writer[0].own, &era, &e);
        failed += code == ERR_UNREACHABLE;
        assert_true(code == ERR_OK || code == ERR_UNREACHABLE);
    }
    assert_true(failed > 0);
    proxy_lift(w.proxy);
    roll_case_call();
    roll_case_all_are_there(&w.writer[0]);
}

/* The command may be executed late, after the writer's next registration. */
static void test_to_leave__ends_one_registration_only(void **state)
{
    struct error e = {""};
    char name[LOG_WRITER_NAME_MAX];
    (void)state;
    struct roll *r = &w.writer[0].roll;
    log_writer_name(w.writer[0].id, name);
    r->left = r->registration; /* as if the command was sent, and not executed yet */
    struct roll late = *r;
    late.call = (struct script_call){.text = NULL};
    must(roll_register(r, &e), e);
    assert_true(r->registration > late.registration);
    must(roll_leave(&late, &e), e);
    roll_fini(&late);
    assert_true(strtoull(roll_case_field(name), NULL, 10) == r->registration);
    roll_case_all_are_there(&w.writer[0]);
}

static void test_a_view__says_of_all_writers_that_they_have_left(void **state)
{
    struct error e = {""};
    (void)state;
    roll_case_load_view();
    struct log_view *before = malloc(sizeof(*before));
    assert_non_null(before);
    *before = *w.view;
    assert_true(before->writer_count >= 2);
    for (unsigned again = 0; again < 2; again++) {
        for (unsigned i = 0; i < before->writer_count; i++) {
            must(roll_register(&w.writer[i].roll, &e), e);
            must(roll_leave(&w.writer[i].roll, &e), e);
        }
        roll_case_load_view();
        assert_int_equal(w.view->left_count, before->writer_count);
        for (unsigned i = 0; i < before->writer_count; i++)
            assert_false(log_view_lacks(w.view, &before->writer[i]));
    }
    for (unsigned i = 0; i < before->writer_count; i++)
        must(roll_register(&w.writer[i].roll, &e), e);
    free(before);
}

static void test_who_is_not_registered__cannot_answer(void **state)
{
    struct error e = {""};
    uint64_t era;
    (void)state;
    roll_case_fail_over_with(2, 2);
    roll_case_load_view();
    must(roll_leave(&w.writer[0].roll, &e), e);
    gives(ERR_NOT_FOUND, roll_answer(&w.writer[0].roll, w.view, 0, w.writer[0].own, &era, &e), e);
    roll_case_load_view();
    gives(ERR_NOT_FOUND, roll_answer(&w.writer[0].roll, w.view, 0, w.writer[0].own, &era, &e), e);
    must(roll_register(&w.writer[0].roll, &e), e);
    roll_case_call();
    roll_case_all_are_there(&w.writer[0]);
}

static void test_a_node_that_is_no_master__is_waited_for(void **state)
{
    struct error e = {""};
    uint64_t era;
    unsigned missing;
    (void)state;
    roll_case_add(&w.writer[0], 1);
    must(client_ok(&w.client, &e, "REPLICAOF 127.0.0.1 1"), e); /* the connection survives this */
    gives(ERR_UNREACHABLE, roll_answer(&w.writer[0].roll, w.view, 0, w.writer[0].own, &era, &e), e);
    gives(ERR_UNREACHABLE, roll_take_era(&w.writer[0].roll, w.view, 0, NULL, &missing, &e), e);
    if (strstr(e.text, "no master") == NULL)
        fail_msg("%s", e.text);
}

static void test_scripts__run_at_maxmemory(void **state)
{
    struct error e = {""};
    (void)state;
    roll_case_fail_over_with(0, 0);
    must(roll_leave(&w.writer[1].roll, &e), e);
    must(client_ok(&w.home_client, &e, "CONFIG SET maxmemory 1"), e);
    must(roll_register(&w.writer[1].roll, &e), e);
    roll_case_call();
    roll_case_load_view();
    must(roll_replace_lane(&w.writer[0].roll, w.view, 0, &e), e);
    roll_case_answers(&w.writer[0]);
    roll_case_load_view();
    must(remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    must(client_ok(&w.home_client, &e, "CONFIG SET maxmemory 0"), e);
}

static void test_a_roll_call_of_two__takes_milliseconds(void **state)
{
    (void)state;
    roll_case_fail_over_with(100, 20);
    uint64_t began = clock_mono_us();
    roll_case_call();
    uint64_t took = clock_mono_us() - began;
    print_message("a roll call of two writers, each with 20 of 120 entries missing: %" PRIu64 " us\n", took);
    assert_true(took < 1000000); /* with sanitizers, on a busy machine */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROLL_TEST(test_a_writer__registers_once_and_leaves),
        ROLL_TEST(test_register__is_refused_where_nobody_may_add),
        ROLL_TEST(test_the_first_replica__is_routine),
        ROLL_TEST(test_what_a_failover_lost__is_in_the_lane_again),
        ROLL_TEST(test_positions__go_back_to_the_first_entry),
        ROLL_TEST(test_an_era_that_was_left__is_not_taken_again),
        ROLL_TEST(test_a_history_that_goes_on__needs_no_answer),
        ROLL_TEST(test_positions__never_go_up),
        ROLL_TEST(test_positions__do_not_go_up_where_no_era_is_accepted),
        ROLL_TEST(test_a_writer_without_room__degrades_the_filter),
        ROLL_TEST(test_a_writer_that_sleeps__is_waited_for),
        ROLL_TEST(test_a_page_of_entries__is_not_all),
        ROLL_TEST(test_an_era_that_changes_again__is_answered_again),
        ROLL_TEST(test_an_answer__does_not_stay_where_the_view_has_the_era),
        ROLL_TEST(test_what_is_met_under_an_era_that_was_left__is_not_acknowledged),
        ROLL_TEST(test_a_clock_that_is_behind__does_not_hide_what_was_appended),
        ROLL_TEST(test_a_broken_connection__only_has_it_repeated),
        ROLL_TEST(test_to_leave__ends_one_registration_only),
        ROLL_TEST(test_a_view__says_of_all_writers_that_they_have_left),
        ROLL_TEST(test_who_is_not_registered__cannot_answer),
        ROLL_TEST(test_a_node_that_is_no_master__is_waited_for),
        ROLL_TEST(test_scripts__run_at_maxmemory),
        ROLL_TEST(test_a_roll_call_of_two__takes_milliseconds),
    };
    return cmocka_run_group_tests(tests, roll_case_start, roll_case_stop);
}
