/* SPDX-License-Identifier: MIT */
/* Writers that are gone, on real servers: they are removed from the view, and the filter is degraded unless
 * all that they have added is in the shards. */
#include "tests/integration/roll_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "shard/generations/build.h"
#include "shard/generations/grace.h"
#include "shard/members/remove.h"

static void test_a_writer_that_is_gone__is_removed_and_the_filter_degraded(void **state)
{
    struct error e = {""};
    (void)state;
    roll_case_load_view();
    gives(ERR_CONFLICT, remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    roll_case_fail_over_with(2, 2);
    roll_case_answers(&w.writer[0]);
    roll_case_load_view();
    gives(ERR_CONFLICT, remove_degraded(&w.writer[1].roll, w.view, w.writer[0].id, &e), e);
    assert_non_null(strstr(e.text, "no roll call waits for writer.0101"));
    assert_int_equal(roll_case_taking(&w.writer[0]), 1);
    assert_false(w.view->degraded);
    uint64_t before = roll_case_version();
    must(remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    gives(ERR_NOT_FOUND, remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    assert_int_equal(roll_case_version(), before + 1);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    roll_case_load_view();
    assert_true(w.view->degraded);
    assert_int_equal(w.view->writer_count, 1);
    /* The writer was only stopped: it acknowledges nothing, and registers before it goes on. */
    roll_case_adds_as(&w.writer[1], TAIL_ERA);
    uint64_t era;
    gives(ERR_NOT_FOUND, roll_answer(&w.writer[1].roll, w.view, 0, w.writer[1].own, &era, &e), e);
    must(roll_register(&w.writer[1].roll, &e), e);
    roll_case_load_view();
    must(roll_answer(&w.writer[1].roll, w.view, 0, w.writer[1].own, &era, &e), e); /* the view has the era */
    w.writer[1].sequence--;
    roll_case_all_are_there(&w.writer[1]);
}

/* A position with the id @id. */
static const struct log_position *at(struct log_id id)
{
    static struct log_position p;
    p = w.anchor;
    p.id = id;
    return &p;
}

static struct log_id just_before(struct log_id id)
{
    return (struct log_id){id.number == 0 ? id.ms - 1 : id.ms, id.number - 1};
}

static void test_a_writer_in_doubt__registers_again_or_is_removed(void **state)
{
    struct error e = {""};
    struct removal m;
    (void)state;
    roll_case_load_view();
    struct log_writer gone = *log_view_writer(w.view, w.writer[1].id);
    assert_true(roll_is_registered(&w.writer[1].roll, w.view));
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    roll_case_load_view();
    assert_false(roll_is_registered(&w.writer[1].roll, w.view));
    must(remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    must(roll_register(&w.writer[1].roll, &e), e);
    roll_case_load_view();
    assert_true(roll_is_registered(&w.writer[1].roll, w.view));
    assert_true(w.writer[1].roll.registration > gone.registration);
    gives(ERR_NOT_FOUND, remove_end(&w.writer[0].roll, &m, &e),
          e); /* this removal is of the registration before */
    gives(ERR_NOT_FOUND, remove_doubt(&w.writer[0].roll, &gone, &e), e);
    gone = *log_view_writer(w.view, w.writer[1].id);
    must(remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    roll_case_store_folded(0, 0, 1, at(m.notice[0]));
    roll_case_store_folded(1, 0, 1, at(m.notice[0]));
    gives(ERR_NOT_FOUND, remove_end(&w.writer[0].roll, &m, &e), e); /* the writer is not in doubt */
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    uint64_t before = roll_case_version();
    must(remove_end(&w.writer[0].roll, &m, &e), e);
    assert_int_equal(roll_case_version(), before + 1);
    roll_case_load_view();
    assert_null(log_view_writer(w.view, w.writer[1].id));
    assert_false(w.view->degraded);
}

/* The first writer doubts the second one, and begins to remove it. Returns that one. */
static struct log_writer doubts_and_begins(struct removal *m)
{
    struct error e = {""};
    roll_case_load_view();
    struct log_writer gone = *log_view_writer(w.view, w.writer[1].id);
    must(remove_doubt(&w.writer[0].roll, &gone, &e), e);
    must(remove_begin(&w.writer[0].roll, w.view, &gone, m, &e), e);
    return gone;
}

static void test_a_writer_in_doubt__stays_until_the_shards_of_both_generations_have_its_entries(void **state)
{
    struct error e = {""};
    struct removal m;
    (void)state;
    (void)doubts_and_begins(&m);
    for (unsigned i = 0; i < 4; i++) { /* generation slot and lane that is not completely folded yet */
        for (unsigned k = 0; k < 4; k++) {
            struct log_id there = m.notice[k % 2];
            roll_case_store_folded(k / 2, k % 2, 1, at(k == i ? just_before(there) : there));
        }
        gives(ERR_BUSY, remove_end(&w.writer[0].roll, &m, &e), e);
    }
    roll_case_store_folded(1, 1, 7, at(m.notice[1])); /* a position in another stream */
    gives(ERR_BUSY, remove_end(&w.writer[0].roll, &m, &e), e);
    roll_case_store_folded(1, 1, 1, at(m.notice[1]));
    roll_case_put_field(NULL, "near", "3"); /* a cutover to another generation is near */
    roll_case_hold(1, just_before(m.notice[1]));
    gives(ERR_BUSY, remove_end(&w.writer[0].roll, &m, &e), e);
    roll_case_hold(1, m.notice[1]);
    must(remove_end(&w.writer[0].roll, &m, &e), e);
}

/* The removals may be lost with the era, so that a writer that slept would not meet them. */
static void test_a_removal__counts_under_its_era_only(void **state)
{
    struct error e = {""};
    struct removal m;
    (void)state;
    struct log_writer gone = doubts_and_begins(&m);
    roll_case_renew_era(&w.client);
    gives(ERR_FENCED, remove_begin(&w.writer[0].roll, w.view, &gone, &m, &e), e);
    roll_case_renew_era(&w.client);
    roll_case_call();
    must(roll_register(&w.writer[1].roll, &e), e);
    gone = doubts_and_begins(&m);
    roll_case_renew_era(&w.client);
    roll_case_call();
    roll_case_store_folded(0, 0, 1, at(m.notice[0]));
    roll_case_store_folded(1, 0, 1, at(m.notice[0]));
    gives(ERR_FENCED, remove_end(&w.writer[0].roll, &m, &e), e);
}

/* If another lane stayed unchanged, a writer that sleeps could go on there, and nobody would wait for it. */
static void test_a_removal__replaces_the_lanes_that_are_as_they_were(void **state)
{
    struct error e = {""};
    struct lane second;
    (void)state;
    roll_case_fail_over_with(1, 1);
    roll_case_load_view();
    must(roll_lane(&w.writer[1].roll, w.view, 1, &second, &e), e);
    assert_int_equal(lanes_number(&w.home_client, "EXISTS", &second), 1);
    must(remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    roll_case_load_view();
    assert_true(w.view->lane[1].number > 1);
    assert_int_equal(w.view->lane[1].era, 0);
    assert_int_equal(lanes_number(&w.home_client, "EXISTS", &second), 0);
    assert_null(log_view_writer(w.view, w.writer[1].id));
    assert_true(w.view->degraded);
}

static enum err pass_over(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
}

/* A build has read the lane for the last time when its node fails over without an entry whose writer is gone.
 * Who removes that writer knows that keys may be lost, and the build does not have them: so it reads again,
 * and does not heal the filter. */
static void test_a_removal__takes_back_that_a_cutover_is_near(void **state)
{
    struct error e = {""};
    struct generation shape = w.g;
    struct nodes home;
    struct builder *b = NULL;
    char id[24];
    bool read = true;
    (void)state;
    roll_case_replicate();
    roll_case_call();
    (void)snprintf(id, sizeof(id), "%016" PRIx64, lanes_era(&w.home_client));
    roll_case_put_field(NULL, "eras", id);
    roll_case_put_field(NULL, "lane_nodes", w.nodes.node[ROLL_CASE_LANE_NODE].name);
    must(grace_forget(w.writer[0].link, &w.names, "", ROLL_CASE_GENERATION + 1, &e), e);
    must(nodes_parse(&home, w.home.url, &e), e);
    nodes_pin(&home, &shape);
    must(builder_new(&b, w.writer[0].link, &w.names, &e), e);
    must(builder_begin(b, &shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(builder_cutover(b, true, &read, &e), e);
    assert_false(read);
    must(builder_follow(b, pass_over, NULL, &e), e);
    builder_note(b);
    must(builder_wrote(b, &e), e);
    roll_case_catch_up();
    roll_case_lag();
    roll_case_add(&w.writer[1], 1);
    roll_case_fail_over();
    roll_case_answers(&w.writer[0]);
    roll_case_load_view();
    must(remove_degraded(&w.writer[0].roll, w.view, w.writer[1].id, &e), e);
    must(builder_cutover(b, true, &read, &e), e);
    assert_false(read);
    gives(ERR_LOST, builder_follow(b, pass_over, NULL, &e), e);
    assert_int_equal(roll_case_taking(&w.writer[0]), 0);
    gives(ERR_LOST, builder_cutover(b, true, &read, &e), e);
    roll_case_load_view();
    assert_true(w.view->degraded);
    builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROLL_TEST(test_a_writer_that_is_gone__is_removed_and_the_filter_degraded),
        ROLL_TEST(test_a_removal__takes_back_that_a_cutover_is_near),
        ROLL_TEST_TWO_LANES(test_a_removal__replaces_the_lanes_that_are_as_they_were),
        ROLL_TEST(test_a_writer_in_doubt__registers_again_or_is_removed),
        ROLL_TEST_TWO_LANES(
            test_a_writer_in_doubt__stays_until_the_shards_of_both_generations_have_its_entries),
        ROLL_TEST(test_a_removal__counts_under_its_era_only),
    };
    return cmocka_run_group_tests(tests, roll_case_start, roll_case_stop);
}
