/* SPDX-License-Identifier: MIT */
/* Builds of a filter that is a log, on real servers: lanes that are lost, changes of the view, Redis without
 * memory. */
#include "tests/integration/log_builds.h"
#include "tests/integration/lane_append.h"
#include "tests/integration/cut_over.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/info.h"
#include "shard/view/shards.h"

enum { ROWS = 8000, OTHERS = 1000000 /* the first key without a row */ };

#define LOG_TEST(test) cmocka_unit_test_setup_teardown(test, log_setup, log_teardown)

static struct log_process a, b;

static int log_teardown(void **state)
{
    (void)state;
    log_close(&a);
    log_close(&b);
    return 0;
}

/* --- lanes that do not last --- */

static void begins_again(struct log_process *p)
{
    assert_true(p->builder->anew);
    assert_true(log_reads_old());
    log_starts(p, UINT64_MAX);
    log_rows(p, 0, ROWS);
    log_add(OTHERS + 5000, 100);
    log_cuts_over(p);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(log_missing(OTHERS + 5000, OTHERS + 5100), 0);
}

static void test_build__begins_anew_where_the_lane_was_trimmed_over_its_hold(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_add(OTHERS, 100);
    log_add(OTHERS + 100, 100);
    log_trim();
    gives(ERR_LOST, build_checkpoint(a.build, "", 0, &e), e);
    gives(ERR_LOST, build_cutover(a.build, false, &e), e);
    uint64_t token = a.builder->fold.token.number;
    a.builder->took_over = false; /* as after a broken connection */
    begins_again(&a);
    assert_true(a.builder->fold.token.number > token);
}

/* Controls replace it; a driver tries again meanwhile. */
static void test_build__that_begins_where_the_lane_is_missing__says_that_it_is_lost(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_lose_lane();
    gives(ERR_LOST, builder_start(a.builder, &e), e);
    assert_non_null(strstr(e.text, "is missing"));
    log_replace_lane();
    begins_again(&a);
}

static void test_cutover__refuses_another_lane_than_that_of_the_start(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_replace_lane();
    gives(ERR_LOST, build_cutover(a.build, false, &e), e);
    assert_non_null(strstr(e.text, "a lane was replaced"));
    begins_again(&a);
}

static void test_resume__begins_anew_where_a_lane_was_replaced(void **state)
{
    char rows[32];
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    log_replace_lane();
    assert_true(log_resumes(&b, rows));
    begins_again(&b);
}

/* The view accepts another era. */
static void test_cutover__refuses_another_era_than_that_of_the_start(void **state)
{
    struct error e = {""};
    char text[64], right[64];
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    (void)snprintf(right, sizeof(right), "%s", log_field("lanes"));
    (void)snprintf(text, sizeof(text), "1:%016x", 0xabcd);
    log_set_field("lanes", text);
    gives(ERR_LOST, build_cutover(a.build, false, &e), e);
    assert_true(a.builder->anew);
    gives(ERR_LOST, builder_start(a.builder, &e), e); /* the lane is not in that era */
    assert_true(a.builder->anew);
    log_set_field("lanes", right);
    begins_again(&a);
}

static void test_cutover__refuses_where_the_shards_eras_changed(void **state)
{
    struct error e = {""};
    char text[256];
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    (void)snprintf(text, sizeof(text), "%s 000000000000abcd", log_field("eras"));
    log_set_field("eras", text);
    gives(ERR_LOST, build_cutover(a.build, false, &e), e);
    begins_again(&a);
}

/* Until then a node had lost bits that the record says are there. */
static void test_resume__begins_anew_where_the_shards_eras_changed(void **state)
{
    char rows[32], text[256];
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    (void)snprintf(text, sizeof(text), "%s 000000000000abcd", log_field("eras"));
    log_set_field("eras", text);
    assert_true(log_resumes(&b, rows));
    begins_again(&b);
}

/* A node of the shards came back in another era. */
static void test_cutover__refuses_where_a_node_is_in_another_era(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    a.builder->eras = (struct trusted){.count = 1, .id = {0xabcd}};
    gives(ERR_LOST, build_cutover(a.build, false, &e), e);
    assert_non_null(strstr(e.text, "another era"));
    begins_again(&a);
}

/* Else the whole build would be useless. */
static void test_start__waits_until_the_view_accepts_the_nodes_eras(void **state)
{
    struct error e = {""};
    char right[256];
    (void)state;
    log_begin(&a, UINT64_MAX);
    (void)snprintf(right, sizeof(right), "%s", log_field("eras"));
    log_set_field("eras", "000000000000abcd");
    gives(ERR_LOST, builder_start(a.builder, &e), e);
    assert_non_null(strstr(e.text, "another era"));
    log_set_field("eras", right);
    begins_again(&a);
}

/* --- what the view says --- */

static struct log_id bound_of_old(bool over_holds)
{
    struct fold f;
    struct error e = {""};
    struct lane lane;
    struct log_position at;
    struct fold_bound needed, over_hold;
    log_lane(&lane, &at);
    fold_init(&f, a.link, &log_names, LOG_OLD);
    must(fold_draw(&f, 1, &e), e);
    must(fold_store(&f, 0, log_stored()->lane[0].number, lane.era, &at, 1, false, &needed, &over_hold, &e),
         e);
    fold_fini(&f);
    assert_true(needed.some && over_hold.some);
    return over_holds ? over_hold.id : needed.id;
}

static void test_start__has_the_lane_kept(void **state)
{
    struct error e = {""};
    struct generation shape = log_shape();
    (void)state;
    struct log_id folded = log_stored()->slot[0].folded[0].position.id;
    log_add(OTHERS, 100);
    log_open(&a, &log_servers.nodes);
    must(builder_begin(a.builder, &shape, "", &e), e);
    assert_int_equal(log_stored()->hold[0].lane_number, 0);
    must(builder_start(a.builder, &e), e);
    log_bits(&a, UINT64_MAX, NULL, NULL);
    assert_int_equal(log_stored()->hold[0].lane_number, 1);
    assert_int_equal(log_id_compare(log_stored()->hold[0].from, folded), 0);
    log_add(OTHERS + 100, 100);
    assert_int_equal(log_id_compare(bound_of_old(false), folded), 0);
    assert_true(log_id_compare(bound_of_old(true), folded) > 0);
    log_checkpoint(&a, "");
    assert_int_equal(log_id_compare(bound_of_old(false), a.builder->noted[0].id), 0);
    assert_true(log_id_compare(a.builder->noted[0].id, folded) > 0);
    log_cuts_over(&a);
    assert_string_equal(log_field("hold.0"), "");
    assert_int_equal(log_id_compare(bound_of_old(false), a.builder->noted[0].id), 0);
    assert_int_equal(log_count_keys("}:build"), 0);
}

/* A second lane, which the current generation has not folded yet. */
static void test_build__follows_all_lanes(void **state)
{
    static const uint8_t writer[LOG_WRITER_BYTES] = "of lane 1";
    struct error e = {""};
    struct log_position at;
    struct lane second;
    struct sync_client *l = sync_client_new(&log_servers.nodes, SYNC_CLIENT_MS, NULL);
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct key_hash key = log_key(OTHERS + 1);
    enum tail_state tail = TAIL_EMPTY;
    char text[128], rows[32];
    (void)state;
    lane_key(&second.key, &log_names, 1, 7);
    second.where = nodes_key(&log_servers.nodes, second.key.text, second.key.length);
    must(lane_make(l, &second, writer, 1, &at, &e), e);
    (void)snprintf(text, sizeof(text), "%s,7:%016" PRIx64, log_field("lanes"), second.era);
    log_set_field("lanes", text);
    log_begin(&a, UINT64_MAX);
    assert_string_equal(log_field("hold.1"), "7 0-0");
    log_rows(&a, 0, ROWS);
    log_add(OTHERS, 1);
    size_t length = log_entry_encode(bytes, writer, 2, &key, 1);
    must(lane_append(l, &second, &at, bytes, length, log_pass_over, NULL, &tail, &e), e);
    log_checkpoint(&a, "all");
    assert_int_equal(log_id_compare(log_stored()->hold[1].from, at.id), 0);
    assert_false(log_resumes(&b, rows));
    log_bits(&b, UINT64_MAX, NULL, NULL);
    log_cuts_over(&b);
    const struct log_generation *g = &log_stored()->slot[log_stored()->current];
    assert_int_equal(g->folded[1].lane_number, 7);
    assert_int_equal(log_id_compare(g->folded[1].position.id, at.id), 0);
    assert_int_equal(log_missing_in(&g->shape, OTHERS, OTHERS + 2), 0);
    assert_string_equal(log_field("hold.1"), "");
    sync_client_free(l);
}

/* Before the cutover the view says that it is near. If that is taken back because the lane is too long, it is
 * said again before the cutover. */
static void test_cutover__is_near_before_it_is_done(void **state)
{
    struct fold f;
    struct error e = {""};
    struct lane lane;
    struct log_position at;
    struct fold_bound needed, over_hold;
    bool read = true;
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    must(builder_cutover(a.builder, false, &read, &e), e);
    assert_true(!read && log_reads_old() && log_stored()->near == LOG_OLD + 1);
    log_lane(&lane, &at);
    fold_init(&f, a.link, &log_names, LOG_OLD);
    must(fold_draw(&f, 1, &e), e);
    for (unsigned is_long = 0; is_long < 2; is_long++) {
        must(fold_store(&f, 0, log_stored()->lane[0].number, lane.era, &at, 1, is_long, &needed, &over_hold,
                        &e),
             e);
        assert_int_equal(log_stored()->near, is_long ? 0 : LOG_OLD + 1);
    }
    fold_fini(&f);
    must(builder_cutover(a.builder, false, &read, &e), e);
    assert_true(!read && log_reads_old() && log_stored()->near == LOG_OLD + 1);
    must(builder_take_over(a.builder, &e), e); /* what was said under the token before does not count */
    must(builder_cutover(a.builder, false, &read, &e), e);
    assert_true(!read && log_reads_old());
    must(builder_cutover(a.builder, false, &read, &e), e);
    assert_true(read && !log_reads_old() && log_stored()->near == 0);
}

static void test_start__takes_back_that_a_cutover_is_near(void **state)
{
    struct error e = {""};
    bool read;
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_checkpoint(&a, "all");
    must(builder_cutover(a.builder, false, &read, &e), e);
    assert_int_equal(log_stored()->near, LOG_OLD + 1);
    must(builder_start(a.builder, &e), e);
    assert_int_equal(log_stored()->near, 0);
    must(builder_cutover(a.builder, false, &read, &e), e);
    assert_int_equal(log_stored()->near, LOG_OLD + 1);
    must(grace_forget(a.link, &log_names, "", LOG_OLD + 1, &e), e);
    assert_int_equal(log_stored()->near, 0);
}

/* --- the metadata node goes back --- */

/* The present data of one of the filter's hashes; release it with freeReplyObject(). */
static redisReply *dumped(const char *what)
{
    struct key_name key;
    names_filter_key(&log_names, what, &key);
    redisReply *r = client_command(&log_servers.client[0], "DUMP %b", key.text, key.length);
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    return r;
}

static void restored(const char *what, redisReply *dump)
{
    struct key_name key;
    names_filter_key(&log_names, what, &key);
    redisReply *r = client_command(&log_servers.client[0], "RESTORE %b 0 %b REPLACE", key.text, key.length,
                                   dump->str, dump->len);
    assert_true(r != NULL && r->type == REDIS_REPLY_STATUS);
    freeReplyObject(r);
    freeReplyObject(dump);
}

/* As after a restart. Lane and shards do not change, so the builder goes on trusting the node. */
static void gets_another_id(struct log_process *p)
{
    struct error e = {""};
    must(client_ok(&log_servers.client[0], &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&log_servers.client[0], &e, "REPLICAOF NO ONE"), e);
    redisReply *r = client_command(&log_servers.client[0], "INFO replication");
    assert_non_null(r);
    p->builder->eras.id[p->builder->eras.count++] = info_id(r->str, r->len, "master_replid");
    freeReplyObject(r);
}

/* The view said that the cutover is near, and took it back, so that a writer forgot a key that the build had
 * not read. Then the view went back to the earlier state. */
static void test_cutover__is_near_at_one_home_only(void **state)
{
    struct error e = {""};
    bool read = true;
    (void)state;
    if (log_servers.cluster.masters > 0)
        return; /* in a cluster each master also has shards */
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    must(builder_cutover(a.builder, false, &read, &e), e);
    assert_true(!read && log_stored()->near == LOG_OLD + 1);
    redisReply *then = dumped("view");
    (void)servers_integer(&log_servers, 0, "HDEL " PREFIX ":{f}:view near");
    restored("view", then);
    gets_another_id(&a);
    gives(ERR_LOST, builder_cutover(a.builder, false, &read, &e), e);
    assert_true(!read && a.builder->anew && log_reads_old());
    assert_non_null(strstr(e.text, "metadata node"));
}

/* Another builder began again and made the shards again, empty, before the older record of their contents
 * came back. */
static void test_resume__begins_anew_where_home_went_back(void **state)
{
    char rows[32];
    (void)state;
    if (log_servers.cluster.masters > 0)
        return; /* in a cluster each master also has shards */
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_checkpoint(&a, "all");
    assert_false(log_resumes(&b, rows));
    log_close(&b);
    redisReply *view = dumped("view"), *record = dumped("build");
    assert_false(log_resumes(&b, rows));
    log_starts(&b, UINT64_MAX);
    log_close(&b);
    restored("view", view);
    restored("build", record);
    gets_another_id(&a);
    assert_true(log_resumes(&b, rows));
}

/* A builder slept before it made the shards. Home went back to before that build, also the counter of tokens;
 * another builder has built the generation with that number, and cut over. What the first one sends when it
 * wakes up must not replace the shards that are read. */
static void test_start__of_one_that_slept_while_home_went_back_makes_nothing(void **state)
{
    struct error e = {""};
    uint64_t later;
    (void)state;
    if (log_servers.cluster.masters > 0)
        return;                /* in a cluster each master also has shards */
    log_begin(&b, UINT64_MAX); /* the counter is there */
    must(grace_forget(b.link, &log_names, "", b.builder->shape.number, &e), e);
    must(grace_delete(b.link, &log_names, &e), e);
    log_close(&b);
    redisReply *view = dumped("view"), *token = dumped("token");
    log_begin(&a, UINT64_MAX);
    must(builder_start(a.builder, &e), e);
    const struct writer_token slept = a.builder->fold.token;
    must(shards_remove(a.link, &log_names, &a.builder->shape, NULL, &e),
         e); /* as if it had not come to that */
    restored("view", view);
    restored("token", token);
    log_begin(&b, UINT64_MAX);
    assert_int_equal(b.builder->shape.number, a.builder->shape.number);
    log_rows(&b, 0, ROWS);
    log_cuts_over(&b);
    assert_int_equal(log_missing(0, ROWS), 0);
    gives(ERR_FENCED, shards_make(a.link, &log_names, &b.builder->shape, 0, slept, &later, NULL, &e), e);
    assert_int_equal(log_missing(0, ROWS), 0);
}

static void test_cutover__is_the_same_when_its_reply_was_lost(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    log_cuts_over(&a);
    uint64_t version = log_stored()->version;
    must(cut_over(a.builder, false, &e), e);
    assert_int_equal(log_stored()->version, version);
}

static void test_begin__refuses_a_third_generation(void **state)
{
    struct error e = {""};
    struct generation shape = log_shape();
    (void)state;
    log_begin(&a, UINT64_MAX);
    assert_int_equal(a.builder->shape.number, LOG_OLD + 1);
    log_open(&b, &log_servers.nodes);
    gives(ERR_CONFLICT, builder_begin(b.builder, &shape, "", &e), e);
    log_close(&b);
    assert_int_equal(log_stored()->last_generation, LOG_OLD + 1);
    log_rows(&a, 0, ROWS);
    log_cuts_over(&a);
    log_open(&b, &log_servers.nodes);
    gives(ERR_CONFLICT, builder_begin(b.builder, &shape, "", &e), e);
}

static void test_resume__needs_a_build(void **state)
{
    struct error e = {""};
    struct buffer rows = {0};
    char text[GENERATION_TEXT_MAX];
    (void)state;
    log_open(&a, &log_servers.nodes);
    gives(ERR_NOT_FOUND, builder_resume(a.builder, &rows, &e), e);
    log_close(&a);
    log_begin(&a, UINT64_MAX);
    log_checkpoint(&a, "");
    (void)servers_integer(&log_servers, 0, "HSET " PREFIX ":{f}:build at.0 nonsense");
    log_open(&b, &log_servers.nodes);
    gives(ERR_PARSE, builder_resume(b.builder, &rows, &e), e);
    assert_non_null(strstr(e.text, PREFIX ":{f}:build"));
    assert_non_null(strstr(e.text, "at.0"));
    /* a former generation that lacks keys is not built again */
    unsigned slot = log_stored()->current;
    struct generation former = log_stored()->slot[slot].shape;
    former.built = false;
    (void)generation_text(&former, text);
    log_set_field(slot == 0 ? "generation0" : "generation1", text);
    log_set_field("bloom_filter_current_index", slot == 0 ? "1" : "0");
    gives(ERR_NOT_FOUND, builder_resume(b.builder, &rows, &e), e);
    buffer_fini(&rows);
}

static void set_maxmemory(const char *bytes)
{
    struct client *c;
    struct error e = {""};
    for (unsigned i = 0; (c = servers_each(&log_servers, i)) != NULL; i++)
        must(client_ok(c, &e, "CONFIG SET maxmemory %s", bytes), e);
}

/* A build that could not end would keep the lanes' entries forever. */
static void test_build__goes_on_at_maxmemory(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    set_maxmemory("1");
    enum err recorded = build_checkpoint(a.build, "all", 3, &e);
    enum err cut = recorded == ERR_OK ? build_cutover(a.build, false, &e) : recorded;
    set_maxmemory("0");
    gives(ERR_OK, cut, e);
    assert_int_equal(log_missing(0, ROWS), 0);
}

static void test_start__says_that_redis_has_no_memory(void **state)
{
    struct error e = {""};
    struct generation shape = log_shape();
    (void)state;
    log_open(&a, &log_servers.nodes);
    must(builder_begin(a.builder, &shape, "", &e), e);
    set_maxmemory("1");
    enum err code = builder_start(a.builder, &e);
    set_maxmemory("0");
    gives(ERR_NOMEM, code, e);
    assert_true(a.builder->anew);
    begins_again(&a);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        LOG_TEST(test_build__begins_anew_where_the_lane_was_trimmed_over_its_hold),
        LOG_TEST(test_build__that_begins_where_the_lane_is_missing__says_that_it_is_lost),
        LOG_TEST(test_cutover__refuses_another_lane_than_that_of_the_start),
        LOG_TEST(test_resume__begins_anew_where_a_lane_was_replaced),
        LOG_TEST(test_cutover__refuses_another_era_than_that_of_the_start),
        LOG_TEST(test_cutover__refuses_where_the_shards_eras_changed),
        LOG_TEST(test_resume__begins_anew_where_the_shards_eras_changed),
        LOG_TEST(test_cutover__refuses_where_a_node_is_in_another_era),
        LOG_TEST(test_start__waits_until_the_view_accepts_the_nodes_eras),
        LOG_TEST(test_start__has_the_lane_kept),
        LOG_TEST(test_build__follows_all_lanes),
        LOG_TEST(test_cutover__is_near_before_it_is_done),
        LOG_TEST(test_cutover__is_near_at_one_home_only),
        LOG_TEST(test_start__of_one_that_slept_while_home_went_back_makes_nothing),
        LOG_TEST(test_resume__begins_anew_where_home_went_back),
        LOG_TEST(test_start__takes_back_that_a_cutover_is_near),
        LOG_TEST(test_cutover__is_the_same_when_its_reply_was_lost),
        LOG_TEST(test_begin__refuses_a_third_generation),
        LOG_TEST(test_resume__needs_a_build),
        LOG_TEST(test_build__goes_on_at_maxmemory),
        LOG_TEST(test_start__says_that_redis_has_no_memory),
    };
    return cmocka_run_group_tests_name("log build, lanes", all, log_start, log_stop);
}
