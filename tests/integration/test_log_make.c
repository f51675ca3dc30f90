/* SPDX-License-Identifier: MIT */
/* Filters that are logs are made on real servers: completely, once, and with nothing left over, wherever a
 * maker is killed or sleeps. */
#include "tests/integration/lives.h"
#include "shard/generations/drop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/log/lane_sync.h"

static struct life w;

static int start(void **state)
{
    (void)state;
    return life_start(&w);
}

static int stop(void **state)
{
    (void)state;
    return life_stop(&w);
}

static int set_up(void **state)
{
    (void)state;
    life_begin(&w, "f", 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    life_end(&w);
    return 0;
}

static void makes(void)
{
    struct error e = {""};
    must(life_make(&w, w.link, &e), e);
}

static const char *key_of(const char *what)
{
    static char text[KEY_NAME_MAX + 1];
    struct key_name key;
    names_filter_key(&w.names, what, &key);
    (void)snprintf(text, sizeof(text), "%.*s", (int)key.length, key.text);
    return text;
}

static void test_make__gives_a_view_lanes_and_shards(void **state)
{
    (void)state;
    makes();
    life_is_whole(&w, 0);
    assert_int_equal(w.view.version, 1);
    assert_int_equal(w.view.lane_count, 2);
    assert_int_equal(w.view.expansion, 2);
    assert_true(w.view.slot[1].shape.built && w.view.slot[1].shape.layers[0].geometry.shards > 2);
    assert_true(w.view.slot[1].shape.layers[0].error_rate < 0.0051); /* later layers share the rate */
    assert_int_equal(w.view.eras.count, w.proxy != NULL ? 2 : CLUSTER_MASTERS);
    assert_true(w.view.seed != w.view.slot[1].shape.seed && w.view.seed != w.view.incarnation);
    for (unsigned i = 0; i < 2; i++)
        assert_true(trusted_contains(&w.view.eras, w.view.lane[i].era));
    if (w.proxy != NULL)
        assert_true(w.view.lane[0].era != w.view.lane[1].era); /* the lanes are on different nodes */
}

static void test_make__says_what_was_wished(void **state)
{
    (void)state;
    w.options.expansion = 0;
    w.options.sourced = true;
    w.options.lanes = 1;
    makes();
    life_is_whole(&w, 0);
    assert_true(w.view.sourced && !w.view.slot[1].shape.built);
    assert_int_equal(w.view.expansion, 0);
    assert_true(w.view.slot[1].shape.layers[0].error_rate == 0.01);
}

/* Of two incarnations the greater one is later, whatever the clock says. */
static void test_make__draws_a_later_incarnation(void **state)
{
    (void)state;
    const uint64_t latest = UINT64_MAX - 9;
    makes();
    life_is_whole(&w, 0);
    assert_true(w.view.incarnation < latest);
    struct error e = {""};
    must(life_drop(&w, w.link, &e), e);
    w.options.later_than = latest;
    makes();
    life_is_whole(&w, 0);
    assert_true(w.view.incarnation == latest + 1);
}

static void test_make__refuses_what_is_out_of_bounds(void **state)
{
    (void)state;
    struct error e = {""};
    w.options.lanes = 0;
    gives(ERR_RANGE, life_make(&w, w.link, &e), e);
    w.options.lanes = LOG_LANES_MAX + 1;
    gives(ERR_RANGE, life_make(&w, w.link, &e), e);
    w.options.lanes = 1;
    w.options.error_rate = 1;
    gives(ERR_RANGE, life_make(&w, w.link, &e), e);
    assert_int_equal(life_keys(&w), 0);
}

static void test_make__leaves_one_that_is_there(void **state)
{
    (void)state;
    struct error e = {""};
    makes();
    life_is_whole(&w, 0);
    uint64_t incarnation = w.view.incarnation;
    gives(ERR_EXISTS, life_make(&w, w.link, &e), e);
    life_is_whole(&w, 0);
    assert_int_equal(w.view.incarnation, incarnation);
}

/* Each filter is made beside the others: a name that is a pattern, or the beginning of another name, must not
 * match the others' keys. */
static void test_make__takes_any_name(void **state)
{
    (void)state;
    char bytes[255];
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i + 1);
    const struct {
        const void *name;
        size_t length;
    } names[] = {{"f", 1},  {"f*", 2},          {"f?[a-z]\\^", 9}, {"f.1", 3},   {"f.1.0", 5},
                 {"*", 1},  {"\0a\r\n{}%", 7},  {"", 0},           {bytes, 128}, {"f.0", 3},
                 {"fx", 2}, {bytes + 127, 128}, {"f}", 2},         {"[f]", 3},   {"\\f", 2}};
    struct error e = {""};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        must(names_init(&w.names, PREFIX, names[i].name, names[i].length, &e), e);
        long long others = life_keys(&w);
        makes();
        life_is_whole(&w, others);
        /* The view is lost and the filter is made again: only its own keys are deleted. */
        assert_int_equal(servers_integer(&w.servers, 0, "DEL %b", key_of("view"), strlen(key_of("view"))), 1);
        makes();
        life_is_whole(&w, others);
    }
}

static void test_make__names_a_key_that_is_in_the_way(void **state)
{
    (void)state;
    struct error e = {""};
    static const char *const what[] = {"view", "leftover"};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(servers_integer(&w.servers, 0, "RPUSH %s a", key_of(what[i])), 1);
        gives(ERR_WRONG_TYPE, life_make(&w, w.link, &e), e);
        assert_non_null(strstr(e.text, key_of(what[i])));
        assert_int_equal(life_keys(&w), 1);
        assert_int_equal(servers_integer(&w.servers, 0, "DEL %s", key_of(what[i])), 1);
    }
    assert_int_equal(servers_integer(&w.servers, 0, "HSET %s format 3 incarnation x", key_of("leftover")), 2);
    gives(ERR_PARSE, life_make(&w, w.link, &e), e);
    assert_non_null(strstr(e.text, key_of("leftover")));
    assert_int_equal(life_keys(&w), 1);
}

/* --- killed, asleep --- */

static void kill_makers(enum proxy_moment moment)
{
    struct error e = {""};
    uint64_t n = 1;
    for (bool killed = true; killed; n++) {
        life_begin(&w, "f", 1);
        killed = life_kill(&w, life_make, n, moment);
        enum err code = life_make(&w, w.link, &e);
        if (code != ERR_EXISTS)
            must(code, e);
        life_is_whole(&w, 0);
        gives(ERR_EXISTS, life_make(&w, w.link, &e), e);
        life_end(&w);
    }
    assert_true(n > 15);
    life_begin(&w, "f", 1);
}

static void test_make__again_after_a_maker_was_killed_before_any_command(void **state)
{
    (void)state;
    life_end(&w);
    kill_makers(PROXY_BEFORE);
}

static void test_make__again_after_a_maker_was_killed_behind_any_command(void **state)
{
    (void)state;
    life_end(&w);
    kill_makers(PROXY_AFTER);
}

/* A dead maker's commands run after the filter was made: the filter does not change, and the late keys are
 * deleted when a filter of that name is made next. */
static void test_make__by_commands_that_run_late_changes_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    life_end(&w);
    bool held = true;
    for (uint64_t n = 1; held; n++) {
        life_begin(&w, "f", 1);
        struct sync_client *l = sync_client_new(&w.nodes, 500, "twinbloom-job");
        proxy_count(w.proxy, "", n, PROXY_BEFORE);
        enum err code = life_make(&w, l, &e);
        held = proxy_is_held(w.proxy);
        sync_client_free(l);
        if (held)
            makes();
        else
            must(code, e);
        life_is_whole(&w, 0);
        long long keys = life_keys(&w);
        uint64_t incarnation = w.view.incarnation;
        proxy_release(w.proxy, true);
        life_is_whole(&w, life_keys(&w) - keys);
        assert_int_equal(w.view.incarnation, incarnation);
        must(life_drop(&w, w.link, &e), e);
        makes();
        life_is_whole(&w, 0);
        life_end(&w);
    }
    life_begin(&w, "f", 1);
}

/* A maker sleeps, another one makes the filter, and the first one wakes up. */
static void wake_makers(enum proxy_moment moment)
{
    struct error e = {""};
    static struct life_sleeper s;
    bool slept = true;
    uint64_t refused = 0;
    for (uint64_t n = 1; slept; n++) {
        life_begin(&w, "f", 1);
        slept = life_put_to_sleep(&s, &w, life_make, n, moment);
        enum err code = life_make(&w, w.link, &e);
        if (code != ERR_EXISTS)
            must(code, e);
        enum err first = life_wake(&s);
        if (code == ERR_OK && slept) /* ERR_UNREACHABLE: its lane was removed meanwhile */
            assert_true(first == ERR_EXISTS || first == ERR_CONFLICT || first == ERR_UNREACHABLE);
        refused += first != ERR_OK;
        life_is_whole(&w, 0);
        life_end(&w);
    }
    assert_true(refused > 10);
    life_begin(&w, "f", 1);
}

static void test_make__by_one_that_wakes_changes_nothing(void **state)
{
    (void)state;
    life_end(&w);
    wake_makers(PROXY_BEFORE);
    life_end(&w);
    wake_makers(PROXY_AFTER);
}

static enum err stop_work(void *arg, struct error *e)
{
    (void)arg;
    return error_set(e, ERR_MUTEX_LOST, "lost");
}

/* A maker sleeps. Another process begins to remove what it has made, and is killed. Then the maker wakes
 * up. */
static void test_make__of_what_is_being_removed_publishes_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    static struct life_sleeper s;
    const struct work work = {.fn = stop_work};
    bool slept = true;
    unsigned refused = 0;
    life_end(&w);
    for (uint64_t n = 1; slept; n++) {
        life_begin(&w, "f", 1);
        slept = life_put_to_sleep(&s, &w, life_make, n, PROXY_BEFORE);
        enum err removed = slept ? log_drop(w.link, &w.names, 0, 0, &work, &e) : ERR_OK;
        enum err code = life_wake(&s);
        refused += removed == ERR_MUTEX_LOST && code != ERR_OK; /* else the maker has made all of it again */
        if (code != ERR_OK)
            makes();
        life_is_whole(&w, 0);
        life_end(&w);
    }
    assert_true(refused > 0);
    life_begin(&w, "f", 1);
}

/* The filter is published, but the maker is not told so. Then it may run no script any more: it must not take
 * the filter for one that is to be removed. */
static void test_make__whose_publication_is_not_told_removes_nothing(void **state)
{
    (void)state;
    static struct life_sleeper s;
    proxy_count_only(w.proxy, "folded1.0"); /* only the publication has that */
    assert_true(life_put_to_sleep(&s, &w, life_make, 1, PROXY_AFTER));
    proxy_count_only(w.proxy, "");
    assert_string_equal(servers_text(&w.servers, 0, "ACL SETUSER default -eval"), "OK");
    proxy_release(w.proxy, false);
    enum err code = life_wake(&s);
    assert_string_equal(servers_text(&w.servers, 0, "ACL SETUSER default +eval"), "OK");
    gives(ERR_REFUSED, code, s.e);
    life_is_whole(&w, 0);
}

/* --- a view was lost --- */

static void test_make__closes_the_lanes_of_a_view_that_was_lost(void **state)
{
    (void)state;
    struct error e = {""};
    struct lane lane;
    redisReply *r = NULL;
    makes();
    life_is_whole(&w, 0);
    must(log_view_lane_at(&w.view, &w.names, &w.nodes, 1, &lane, &e), e);
    if (w.proxy != NULL)
        assert_string_equal(servers_text(&w.servers, 0, "FLUSHALL"),
                            "OK"); /* the other node still has its lane */
    else
        assert_int_equal(servers_integer(&w.servers, 0, "DEL %s", key_of("view")), 1);
    makes();
    life_is_whole(&w, 0);
    must(sync_client_command(w.link, lane.where, &r, &e, "EXISTS %b", lane.key.text, lane.key.length), e);
    assert_int_equal(r->integer, 0);
    freeReplyObject(r);
}

static enum err enter_as_new(void *arg, bool was_left, bool *clean, struct error *e)
{
    (void)arg;
    (void)e;
    *clean = !was_left;
    return ERR_OK;
}

/* A maker that knows that there are no leftovers need not scan all keys. */
static void test_make__does_not_look_where_all_is_clean(void **state)
{
    (void)state;
    w.options.enter = enter_as_new;
    assert_string_equal(servers_text(&w.servers, 1, "CONFIG RESETSTAT"), "OK");
    makes();
    redisReply *r = servers_command(&w.servers, 1, "INFO commandstats");
    assert_null(strstr(r->str, "cmdstat_scan"));
    freeReplyObject(r);
    life_is_whole(&w, 0);
}

/* --- nodes --- */

static void test_make__without_memory_leaves_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    w.options.capacity = 6000000;
    w.options.shard_bytes = 65536;
    assert_string_equal(servers_text(&w.servers, 1, "CONFIG SET maxmemory 3mb"), "OK");
    enum err code = life_make(&w, w.link, &e);
    assert_string_equal(servers_text(&w.servers, 1, "CONFIG SET maxmemory 0"), "OK");
    assert_int_equal(code, ERR_NOMEM);
    assert_int_equal(life_keys(&w), 0);
}

static unsigned changes;

/* Once lanes and shards are there, beside the record. */
static enum err change_id(void *arg, struct error *e)
{
    (void)arg;
    (void)e;
    if (changes > 0 && life_keys(&w) > (long long)w.options.lanes + 2) {
        changes--;
        assert_string_equal(servers_text(&w.servers, 1, "REPLICAOF 127.0.0.1 1"), "OK");
        assert_string_equal(servers_text(&w.servers, 1, "REPLICAOF NO ONE"), "OK");
    }
    return ERR_OK;
}

/* Lanes and shards that were made under the earlier id may be lost. */
static void test_make__begins_again_under_another_replication_id(void **state)
{
    (void)state;
    struct error e = {""};
    const struct work work = {.fn = change_id};
    changes = 1;
    must(log_make(w.link, &w.names, &w.options, &w.view, &work, &e), e);
    assert_int_equal(changes, 0);
    uint64_t incarnation = w.names.incarnation, lane = w.view.lane[1].era;
    life_is_whole(&w, 0);
    assert_int_equal(w.view.incarnation, incarnation);
    struct trusted now;
    must(shards_eras(w.link, &w.names, &w.view.slot[1].shape, &now, &e), e);
    assert_true(shards_eras_equal(&now, &w.view.eras) && trusted_contains(&now, lane));
    must(life_drop(&w, w.link, &e), e);
    struct make_options one_lane = w.options; /* the other node has nothing but shards */
    one_lane.lanes = 1;
    changes = 1;
    must(log_make(w.link, &w.names, &one_lane, &w.view, &work, &e), e);
    assert_int_equal(changes, 0);
    must(shards_eras(w.link, &w.names, &w.view.slot[1].shape, &now, &e), e);
    assert_true(shards_eras_equal(&now, &w.view.eras));
    must(life_drop(&w, w.link, &e), e);
    changes = 100;
    gives(ERR_UNREACHABLE, log_make(w.link, &w.names, &w.options, &w.view, &work, &e), e);
    assert_int_equal(life_keys(&w), 0);
}

static void test_make__ends_where_it_is_told_to(void **state)
{
    (void)state;
    struct error e = {""};
    const struct work work = {.fn = stop_work};
    gives(ERR_MUTEX_LOST, log_make(w.link, &w.names, &w.options, &w.view, &work, &e), e);
    assert_int_equal(life_keys(&w), 0);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test_setup_teardown(test_make__gives_a_view_lanes_and_shards, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__says_what_was_wished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__draws_a_later_incarnation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__refuses_what_is_out_of_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__leaves_one_that_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__takes_any_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__names_a_key_that_is_in_the_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__closes_the_lanes_of_a_view_that_was_lost, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_make__ends_where_it_is_told_to, set_up, tear_down),
    };
    const struct CMUnitTest listed[] = {
        cmocka_unit_test_setup_teardown(test_make__does_not_look_where_all_is_clean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__without_memory_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__begins_again_under_another_replication_id, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_make__again_after_a_maker_was_killed_before_any_command, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_make__again_after_a_maker_was_killed_behind_any_command, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_make__by_commands_that_run_late_changes_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_make__of_what_is_being_removed_publishes_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_make__by_one_that_wakes_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make__whose_publication_is_not_told_removes_nothing, set_up,
                                        tear_down),
    };
    int failed = cmocka_run_group_tests_name("make", all, start, stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* a list of nodes, behind a proxy */
        failed += cmocka_run_group_tests_name("make, two nodes", listed, start, stop);
    return failed;
}
