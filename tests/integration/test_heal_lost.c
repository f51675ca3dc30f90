/* SPDX-License-Identifier: MIT */
/* A node loses its shards: these alone are made anew, from a scan that is theirs, while the others answer as
 * ever. What was acknowledged is never reported absent, and is there afterwards. */
#include "tests/integration/losing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/traffic.h"

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    return losing_start(&f, NULL);
}

static int setup_with_errors(void **state)
{
    (void)state;
    return losing_start(&f, "on_lost = error\n");
}

static int setup_cluster(void **state)
{
    (void)state;
    return losing_start_cluster(&f);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

static redisReply *history(void)
{
    redisReply *r = client_command(&f.client[0], "TB.HISTORY " FILTER);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
    return r;
}

/* How many of the last runs made just @shards lost shards anew. */
static unsigned refills(int64_t shards)
{
    unsigned count = 0;
    redisReply *r = history();
    for (size_t i = 0; i < r->elements; i++)
        for (size_t j = 0; j + 1 < r->element[i]->elements; j += 2)
            count += strcmp(r->element[i]->element[j]->str, "repaired_shards") == 0 &&
                     r->element[i]->element[j + 1]->integer == shards;
    freeReplyObject(r);
    return count;
}

static size_t runs(void)
{
    redisReply *r = history();
    size_t count = r->elements;
    freeReplyObject(r);
    return count;
}

/* For whoever reads why the test failed. */
static void show_history(void)
{
    redisReply *r = history();
    print_message("%zu runs\n", r->elements);
    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *run = r->element[i];
        for (size_t j = 0; j + 1 < run->elements; j += 2) {
            const redisReply *value = run->element[j + 1];
            print_message("%s=", run->element[j]->str);
            if (value->type == REDIS_REPLY_INTEGER)
                print_message("%lld ", value->integer);
            else
                print_message("%s ", value->str);
        }
        print_message("\n");
    }
    freeReplyObject(r);
}

/* Healed in place: the same generation, of which as many shards as were lost are filled anew. By the history:
 * the other coordinator may have begun a job since that found nothing more to do. */
static void was_refilled(int64_t generation, int64_t shards, unsigned times)
{
    assert_int_equal(fixture_generation(&f, 0), generation);
    unsigned found = refills(shards);
    if (found != times)
        show_history();
    assert_int_equal(found, times);
    healing_is(&f, 0, "phase", "STEADY");
    healing_is(&f, 0, "job_step", "done");
    healing_is(&f, 0, "degraded_scope", "");
    healing_is(&f, 0, "lost_shards", "0");
}

static void loses_and_heals(const char *what, void (*lose)(unsigned node))
{
    enum { MOST = 4000, MOST_JOBS = 8 };
    static struct traffic traffic;
    print_message("%s\n", what);
    int64_t generation = fixture_generation(&f, 0);
    unsigned here = losing_shards(&f, 1, generation), others = losing_shards(&f, 2, generation);
    assert_true(here >= 8);
    traffic_begin(&traffic, &f, LOSING_ROWS, MOST);
    clock_sleep_us(300 * 1000);
    int64_t epoch = healing_number(&f, 0, "epoch");
    unsigned before = refills(here);
    size_t jobs = runs();
    lose(1);
    losing_noticed(&f, 0, epoch);
    losing_await(&f, 0, LOSING_ROWS);
    losing_await(&f, 1, LOSING_ROWS);
    was_refilled(generation, here, before + 1);
    assert_in_range(runs(), jobs + 1, jobs + MOST_JOBS);
    traffic_end(&traffic);
    traffic_judge(&traffic, true);
    losing_is_whole(&f, LOSING_ROWS);
    assert_int_equal(losing_shards(&f, 1, generation), here);
    assert_int_equal(losing_shards(&f, 2, generation), others);
}

static void flush(unsigned node)
{
    losing_flush(&f, node);
}

static void restart_empty(unsigned node)
{
    struct error e = {""};
    temp_redis_kill(&f.redis[node]);
    must(temp_redis_restart(&f.redis[node], false, &e), e);
}

static void test_heal_lost__of_one_node_of_three_makes_its_shards_anew(void **state)
{
    (void)state;
    loses_and_heals("FLUSHALL of a node", flush);
    loses_and_heals("a node is started anew, empty", restart_empty);
    loses_and_heals("FLUSHALL of a node again", flush);
}

/* While it reads: what status says, and that the others answer exactly. */
static void test_heal_lost__says_which_shards_are_not_exact_and_the_others_are(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0), shards = healing_number(&f, 0, "shards");
    unsigned here = losing_shards(&f, 1, generation);
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, 1); /* the job waits for it */
    losing_flush(&f, 1);
    for (unsigned d = 0; d < 2; d++) {
        char scope[256], wanted[64];
        must(client_wait_status(&f.client[d], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
        must(client_wait_status_least(&f.client[d], FILTER, "lost_shards", here, HEALING_WAIT_MS, &e), e);
        healing_is(&f, d, "degraded", "1");
        must(client_status(&f.client[d], FILTER, "degraded_scope", scope, sizeof(scope), &e), e);
        (void)snprintf(wanted, sizeof(wanted), " of %" PRId64, shards);
        assert_non_null(strstr(scope, "shards 1,4,7,10,"));
        assert_non_null(strstr(scope, wanted));
    }
    clock_sleep_us(500 * 1000);
    for (unsigned d = 0; d < 2; d++) {
        fixture_all_present(&f, d, 0, LOSING_ROWS);
        /* A third of what is absent is "maybe". */
        uint64_t maybe = fixture_false_positives(&f, d, 9000);
        assert_in_range(maybe, 2500, 3600);
    }
    /* What is added to them meanwhile is acknowledged, and there. */
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, 1, &e), e);
    fixture_sql(f.db, "COMMIT");
    losing_is_whole(&f, LOSING_ROWS + 1);
    was_refilled(generation, here, 1);
}

/* Adds to a lost shard are acknowledged, and written nowhere: their rows are read. */
static void test_heal_lost__has_what_was_added_while_they_were_lost(void **state)
{
    (void)state;
    enum { ADDED = 600 };
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, ADDED);
    losing_flush(&f, 2);
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, ADDED, &e), e);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
    clock_sleep_us(1500 * 1000); /* longer than it would take without the transaction */
    healing_is(&f, 0, "degraded", "1");
    fixture_sql(f.db, "COMMIT");
    losing_is_whole(&f, LOSING_ROWS + ADDED);
    assert_int_equal(fixture_generation(&f, 0), generation);
}

/* A row whose place in the table moves behind the scan has its key still. */
static void test_heal_lost__sees_rows_that_change_their_ids(void **state)
{
    (void)state;
    struct error e = {""};
    fixture_sql(f.db, "ALTER TABLE short_link ALTER COLUMN id SET GENERATED BY DEFAULT");
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, 1);
    losing_flush(&f, 1);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, 1, &e), e);
    losing_throttle(&f, 0, 6000);
    fixture_sql(f.db, "COMMIT");
    must(client_wait_status_least(&f.client[0], FILTER, "job_repair_rows", 6000, HEALING_WAIT_MS, &e), e);
    fixture_sql(f.db, "UPDATE short_link SET id = -id WHERE id > 20000");
    assert_in_range(healing_number(&f, 0, "job_repair_rows"), 6000, LOSING_ROWS - 1); /* not too late */
    losing_throttle(&f, 0, 0);
    losing_is_whole(&f, LOSING_ROWS + 1);
}

static void test_heal_lost__again_while_it_is_filled(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, 1);
    losing_flush(&f, 1);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, 1, &e), e);
    clock_sleep_us(500 * 1000);
    losing_flush(&f, 1); /* while it waits */
    losing_throttle(&f, 0, 10000);
    fixture_sql(f.db, "COMMIT");
    must(client_wait_status_least(&f.client[0], FILTER, "job_repair_rows", 5000, HEALING_WAIT_MS, &e), e);
    losing_flush(&f, 1); /* while it reads */
    losing_throttle(&f, 0, 0);
    losing_is_whole(&f, LOSING_ROWS + 1);
    assert_int_equal(fixture_generation(&f, 0), generation);
}

/* The same by a restart, as of which masters are suspect, too. */
static void test_heal_lost__again_by_a_restart(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, 1);
    losing_flush(&f, 1);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, 1, &e), e);
    clock_sleep_us(500 * 1000);
    losing_throttle(&f, 0, 10000);
    fixture_sql(f.db, "COMMIT");
    must(client_wait_status_least(&f.client[0], FILTER, "job_repair_rows", 5000, HEALING_WAIT_MS, &e), e);
    restart_empty(1);
    losing_throttle(&f, 0, 0);
    losing_is_whole(&f, LOSING_ROWS + 1);
    assert_int_equal(fixture_generation(&f, 0), generation);
}

/* The node saves while its new shards are empty, and is started from that when they are filled: what was read
 * into them is older than the marks that were saved with them. */
static void test_heal_lost__is_done_again_by_an_older_file(void **state)
{
    (void)state;
    enum { MARKS_US = 2500 * 1000 };
    struct error e = {""};
    struct client c = {0};
    int64_t generation = fixture_generation(&f, 0);
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, 1);
    losing_flush(&f, 1);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, 1, &e), e);
    clock_sleep_us(MARKS_US);
    must(client_open(&c, f.redis[1].port, 10000, &e), e);
    must(client_save(&c, &e), e);
    client_close(&c);
    fixture_sql(f.db, "COMMIT");
    losing_is_whole(&f, LOSING_ROWS + 1);
    int64_t before = healing_safe_since(&f, 0);
    temp_redis_kill(&f.redis[1]);
    must(temp_redis_restart(&f.redis[1], true, &e), e);
    for (unsigned d = 0; d < 2; d++)
        healing_await(&f, d, LOSING_ROWS + 1, before);
    losing_is_whole(&f, LOSING_ROWS + 1);
    healing_is(&f, 0, "job_heal_by", "table");
    assert_int_equal(fixture_generation(&f, 0), generation);
}

/* Whichever shards chance has put there; not the master that has the filter's view. */
static void test_heal_lost__of_a_master_of_a_cluster(void **state)
{
    (void)state;
    int64_t generation = fixture_generation(&f, 0);
    for (unsigned n = 0; n < 2; n++) {
        int64_t epoch = healing_number(&f, 0, "epoch");
        losing_flush(&f, healing_other(&f, n));
        losing_noticed(&f, 0, epoch);
        losing_is_whole(&f, LOSING_ROWS);
        assert_int_equal(fixture_generation(&f, 0), generation);
        assert_in_range(healing_number(&f, 0, "job_repair_shards"), 1, 40);
    }
}

static void test_heal_lost__of_two_nodes_of_three_is_a_rebuild(void **state)
{
    (void)state;
    int64_t generation = fixture_generation(&f, 0);
    int64_t epoch = healing_number(&f, 0, "epoch");
    losing_flush_unseen(&f, 1);
    losing_flush(&f, 2);
    losing_noticed(&f, 0, epoch);
    losing_is_whole(&f, LOSING_ROWS);
    assert_true(fixture_generation(&f, 0) > generation);
}

static void test_heal_lost__is_an_error_where_that_is_wanted(void **state)
{
    (void)state;
    struct error e = {""};
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, 1);
    losing_flush(&f, 1);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
    clock_sleep_us(500 * 1000);
    unsigned errors = 0, yes = 0, no = 0;
    for (uint64_t i = 0; i < 900; i++) {
        char code[CLIENT_KEY_MAX];
        (void)fixture_code(i, code);
        redisReply *r = client_command(&f.client[i % 2], "BF.EXISTS " FILTER " %s", code);
        assert_non_null(r);
        errors += r->type == REDIS_REPLY_ERROR;
        yes += r->type == REDIS_REPLY_INTEGER && r->integer == 1;
        no += r->type == REDIS_REPLY_INTEGER && r->integer == 0;
        freeReplyObject(r);
    }
    assert_int_equal(no, 0);
    assert_in_range(errors, 200, 400);
    assert_in_range(yes, 500, 700);
    fixture_sql(f.db, "COMMIT");
    must(client_wait_status(&f.client[0], FILTER, "degraded", "0", HEALING_WAIT_MS, &e), e);
    fixture_all_present(&f, 0, 0, LOSING_ROWS);
}

/* What an operator may do meanwhile. */
static void test_heal_lost__gives_way_to_a_rebuild_and_is_not_dumped(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, 1);
    losing_flush(&f, 1);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
    clock_sleep_us(500 * 1000);
    redisReply *r = client_command(&f.client[0], "BF.SCANDUMP " FILTER " 0");
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR);
    assert_non_null(strstr(r->str, "filled from its source"));
    freeReplyObject(r);
    r = client_command(&f.client[0], "TB.ABORT " FILTER);
    assert_true(r != NULL && r->type == REDIS_REPLY_STATUS);
    freeReplyObject(r);
    must(client_wait_status(&f.client[0], FILTER, "job_state", "aborted", HEALING_WAIT_MS, &e), e);
    healing_is(&f, 0, "degraded", "1");
    fixture_all_present(&f, 0, 0, LOSING_ROWS);
    must(client_when_free(&f.client[0], HEALING_WAIT_MS, &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&f.client[0], FILTER, "phase", "BUILDING", HEALING_WAIT_MS, &e), e);
    fixture_all_present(&f, 0, 0, LOSING_ROWS); /* unsure still */
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, 1, &e), e);
    fixture_sql(f.db, "COMMIT");
    losing_is_whole(&f, LOSING_ROWS + 1);
    assert_true(fixture_generation(&f, 0) > generation);
}

/* With an argument only the tests whose names match it. */
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
#define TEST(name, with) cmocka_unit_test_setup_teardown(name, with, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_heal_lost__of_one_node_of_three_makes_its_shards_anew, setup),
        TEST(test_heal_lost__says_which_shards_are_not_exact_and_the_others_are, setup),
        TEST(test_heal_lost__has_what_was_added_while_they_were_lost, setup),
        TEST(test_heal_lost__sees_rows_that_change_their_ids, setup),
        TEST(test_heal_lost__again_while_it_is_filled, setup),
        TEST(test_heal_lost__again_by_a_restart, setup),
        TEST(test_heal_lost__is_done_again_by_an_older_file, setup),
        TEST(test_heal_lost__of_a_master_of_a_cluster, setup_cluster),
        TEST(test_heal_lost__of_two_nodes_of_three_is_a_rebuild, setup),
        TEST(test_heal_lost__is_an_error_where_that_is_wanted, setup_with_errors),
        TEST(test_heal_lost__gives_way_to_a_rebuild_and_is_not_dumped, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
