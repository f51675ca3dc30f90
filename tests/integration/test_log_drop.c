/* SPDX-License-Identifier: MIT */
/* Filters that are logs are deleted on real servers: nothing is left, wherever a deleter is killed or sleeps,
 * and a new filter of the name is not touched. */
#include "tests/integration/lives.h"
#include "tests/integration/lane_append.h"
#include "tests/integration/cut_over.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/log/lane_sync.h"
#include "shard/generations/build.h"
#include "shard/generations/grace.h"
#include "shard/view/registry.h"

enum { HAS_READ = 2 /* a deleter's requests until it has the view */ };

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

static void makes(void)
{
    struct error e = {""};
    must(life_make(&w, w.link, &e), e);
}

static void drops(void)
{
    struct error e = {""};
    must(life_drop(&w, w.link, &e), e);
}

static void begin(void)
{
    life_begin(&w, "f", 1);
    makes();
    life_is_whole(&w, 0);
}

static int set_up(void **state)
{
    (void)state;
    begin();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    life_end(&w);
    return 0;
}

static redisReply *of_home(const char *command)
{
    struct key_name key;
    redisReply *r = NULL;
    struct error e = {""};
    names_filter_key(&w.names, "deleted", &key);
    must(sync_client_command(w.link, sync_client_home(w.link, &w.names), &r, &e, "%s %b", command, key.text,
                             key.length),
         e);
    return r;
}

/* For a while Redis records that the filter was deleted, so that coordinators do not take it for lost. */
static void is_said(void)
{
    uint64_t incarnation = 0;
    struct error e = {""};
    must(registry_look_deleted(w.link, &w.names, &incarnation, &e), e);
    assert_int_equal(incarnation, w.view.incarnation);
    redisReply *r = of_home("TTL");
    assert_in_range(r->integer, 3000, 3600);
    freeReplyObject(r);
}

static void gone(void)
{
    struct error e = {""};
    assert_int_equal(life_keys(&w), 0);
    gives(ERR_NOT_FOUND, life_drop(&w, w.link, &e), e);
}

static enum err apply_nothing(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
}

/* Add a key to lane @i, as a process that loaded the view before the deletion. *@state as in
 * lane_append(). */
static enum err add(unsigned i, enum tail_state *state, struct error *e)
{
    static uint64_t sequence;
    const uint8_t writer[LOG_WRITER_BYTES] = {1};
    const struct key_hash key = {.high = 1, .low = 2};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct log_position at = w.view.slot[1].folded[i].position;
    struct lane lane;
    enum err code = log_view_lane_at(&w.view, &w.names, &w.nodes, i, &lane, e);
    if (code != ERR_OK)
        return code;
    return lane_append(w.link, &lane, &at, bytes, log_entry_encode(bytes, writer, ++sequence, &key, 1),
                       apply_nothing, NULL, state, e);
}

static void test_drop__leaves_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    struct fold f;
    enum tail_state tail = TAIL_LOST;
    must(add(0, &tail, &e), e);
    assert_int_equal(tail, TAIL_COMPLETE);
    fold_init(&f, w.link, &w.names, 1);
    must(fold_draw(&f, 0, &e), e);
    fold_fini(&f);
    life_is_whole(&w, 1); /* one more key: the tokens */
    drops();
    gone();
    is_said();
}

/* Who sleeps while it deletes does not unsay what was deleted since. */
static void test_drop__of_an_earlier_incarnation_leaves_what_is_said_of_a_later_one(void **state)
{
    struct key_name key;
    struct error e = {""};
    (void)state;
    names_filter_key(&w.names, "deleted", &key);
    must(sync_client_command(w.link, sync_client_home(w.link, &w.names), NULL, &e, "SET %b ffffffffffffffff",
                             key.text, key.length),
         e);
    drops();
    redisReply *r = of_home("GET");
    assert_string_equal(r->str, "ffffffffffffffff");
    freeReplyObject(r);
}

/* --- in each state of a filter --- */

/* A build beside the first generation, all of whose keys are written, with a record. */
static struct builder *builds(void)
{
    struct builder *b;
    struct error e = {""};
    must(builder_new(&b, w.link, &w.names, &e), e);
    must(builder_begin(b, &w.view.slot[1].shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(builder_record(b, "all", 3, &e), e);
    return b;
}

static void cuts_over(void)
{
    struct error e = {""};
    struct builder *b = builds();
    must(cut_over(b, false, &e), e);
    builder_free(b);
}

/* The generation before a cutover is forgotten, but its shards are not deleted yet. */
static void forgets(void)
{
    struct error e = {""};
    cuts_over();
    must(grace_forget(w.link, &w.names, "", 1, &e), e);
}

static long long count(const char *what)
{
    struct key_name key;
    redisReply *r = NULL;
    struct error e = {""};
    names_filter_key(&w.names, what, &key);
    must(sync_client_command(w.link, sync_client_home(w.link, &w.names), &r, &e, "HLEN %b", key.text,
                             key.length),
         e);
    long long n = r->integer;
    freeReplyObject(r);
    return n;
}

static void test_drop__in_the_middle_of_a_build(void **state)
{
    (void)state;
    struct error e = {""};
    struct builder *b = builds();
    assert_true(count("build") > 0);
    drops();
    gone();
    gives(ERR_FENCED, builder_record(b, "more", 4, &e), e);
    gives(ERR_FENCED, cut_over(b, false, &e), e);
    assert_int_equal(life_keys(&w), 0);
    builder_free(b);
}

static void test_drop__in_grace(void **state)
{
    (void)state;
    cuts_over();
    drops();
    gone();
}

static void test_drop__of_one_whose_former_generation_was_forgotten(void **state)
{
    (void)state;
    long long keys = life_keys(&w);
    forgets();
    assert_int_equal(count("forgotten"), 1);
    assert_true(life_keys(&w) > keys + 2); /* the shards of both generations */
    drops();
    gone();
}

static void grows(void)
{
    struct error e = {""};
    must(log_grow(w.link, &w.names, 1, 1, &w.view, &e), e);
    assert_int_equal(w.view.slot[1].shape.layer_count, 2);
}

static void test_drop__of_one_that_has_grown(void **state)
{
    (void)state;
    grows();
    drops();
    gone();
    life_end(&w);
    begin();
    grows();
    cuts_over(); /* the new generation has both layers */
    drops();
    gone();
}

static void test_drop__leaves_others(void **state)
{
    (void)state;
    struct error e = {""};
    const struct names f = w.names;
    long long keys = life_keys(&w);
    must(names_init(&w.names, PREFIX, "f.1", 3, &e), e);
    makes();
    w.names = f;
    drops();
    must(names_init(&w.names, PREFIX, "f.1", 3, &e), e);
    life_is_whole(&w, 0);
    assert_int_equal(life_keys(&w), keys);
}

/* An operator may delete filters to get memory. */
static void test_drop__at_maxmemory(void **state)
{
    (void)state;
    struct error e = {""};
    struct client *c;
    for (unsigned i = 0; (c = servers_each(&w.servers, i)) != NULL; i++)
        must(client_ok(c, &e, "CONFIG SET maxmemory 1"), e);
    enum err code = life_drop(&w, w.link, &e);
    for (unsigned i = 0; (c = servers_each(&w.servers, i)) != NULL; i++)
        must(client_ok(c, &e, "CONFIG SET maxmemory 0"), e);
    must(code, e);
    gone();
}

/* --- what is in the way --- */

static void view_says(const char *format, const char *value)
{
    struct key_name key;
    redisReply *r = NULL;
    struct error e = {""};
    names_filter_key(&w.names, "view", &key);
    must(sync_client_command(w.link, sync_client_home(w.link, &w.names), &r, &e, format, key.text, key.length,
                             value),
         e);
    freeReplyObject(r);
}

static void test_drop__names_a_lane_that_is_none(void **state)
{
    (void)state;
    struct error e = {""};
    struct lane lane;
    redisReply *r = NULL;
    char name[KEY_NAME_MAX + 1];
    long long keys = life_keys(&w);
    must(log_view_lane_at(&w.view, &w.names, &w.nodes, 1, &lane, &e), e);
    (void)snprintf(name, sizeof(name), "%.*s", (int)lane.key.length, lane.key.text);
    must(sync_client_command(w.link, lane.where, &r, &e, "DEL %s", name), e);
    freeReplyObject(r);
    must(sync_client_command(w.link, lane.where, &r, &e, "RPUSH %s a", name), e);
    freeReplyObject(r);
    gives(ERR_WRONG_TYPE, life_drop(&w, w.link, &e), e);
    assert_non_null(strstr(e.text, name));
    assert_int_equal(life_keys(&w), keys);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    assert_false(w.view.deleting);
}

static void test_drop__names_a_view_that_is_damaged(void **state)
{
    (void)state;
    struct error e = {""};
    long long keys = life_keys(&w);
    view_says("HSET %b seed %s", "x");
    gives(ERR_PARSE, life_drop(&w, w.link, &e), e);
    assert_non_null(strstr(e.text, "test:{f}:view"));
    view_says("HSET %b format %s", "4");
    gives(ERR_FORMAT, life_drop(&w, w.link, &e), e);
    view_says("SET %b %s", "a string");
    gives(ERR_WRONG_TYPE, life_drop(&w, w.link, &e), e);
    assert_non_null(strstr(e.text, "test:{f}:view"));
    assert_int_equal(life_keys(&w), keys);
}

/* --- killed, asleep --- */

static void kill_deleters(enum proxy_moment moment, bool make_next)
{
    struct error e = {""};
    uint64_t n = 1;
    for (bool killed = true; killed; n++) {
        begin();
        forgets();
        killed = life_kill(&w, life_drop, n, moment);
        if (make_next) {
            enum err code = life_make(&w, w.link, &e);
            if (code == ERR_EXISTS) { /* the view still exists */
                drops();
                code = life_make(&w, w.link, &e);
            }
            must(code, e);
            life_is_whole(&w, 0);
        } else {
            enum err code = life_drop(&w, w.link, &e);
            if (code != ERR_NOT_FOUND)
                must(code, e);
            gone();
        }
        life_end(&w);
    }
    assert_true(n > 10);
}

static void test_drop__again_after_a_deleter_was_killed(void **state)
{
    (void)state;
    life_end(&w);
    kill_deleters(PROXY_BEFORE, false);
    kill_deleters(PROXY_AFTER, false);
    begin();
}

static void test_drop__by_one_that_was_killed_does_not_hinder_a_maker(void **state)
{
    (void)state;
    life_end(&w);
    kill_deleters(PROXY_BEFORE, true);
    kill_deleters(PROXY_AFTER, true);
    begin();
}

/* The first deleter sleeps, a second one deletes, and the filter may be made again; then the first one wakes
 * up. */
static void wake_deleters(enum proxy_moment moment, bool make_next)
{
    struct error e = {""};
    static struct life_sleeper s;
    bool slept = true;
    unsigned conflicts = 0;
    for (uint64_t n = 1; slept; n++) {
        begin();
        slept = life_put_to_sleep(&s, &w, life_drop, n, moment);
        enum err code = life_drop(&w, w.link, &e);
        if (code != ERR_NOT_FOUND)
            must(code, e);
        if (make_next)
            makes();
        code = life_wake(&s);
        conflicts += code == ERR_CONFLICT;
        if (code != ERR_NOT_FOUND && (code != ERR_CONFLICT || !make_next))
            must(code, s.e);
        if (!make_next)
            gone();
        else if (n > HAS_READ) /* a deleter that has not read the view before deletes the new filter */
            life_is_whole(&w, 0);
        life_end(&w);
    }
    assert_int_equal(conflicts > 0,
                     make_next); /* asleep behind the decision, and before the deletion begins */
}

static void test_drop__by_two(void **state)
{
    (void)state;
    life_end(&w);
    wake_deleters(PROXY_BEFORE, false);
    wake_deleters(PROXY_AFTER, false);
    begin();
}

static void test_drop__by_one_that_wakes_leaves_the_next_filter(void **state)
{
    (void)state;
    life_end(&w);
    wake_deleters(PROXY_BEFORE, true);
    wake_deleters(PROXY_AFTER, true);
    begin();
}

/* Wherever the deleter is: an add is acknowledged, or its lane is missing, and the view gives the reason. */
static void test_drop__tells_who_adds(void **state)
{
    (void)state;
    struct error e = {""};
    static struct life_sleeper s;
    static struct log_view now;
    unsigned acknowledged = 0, deleting = 0, none = 0;
    life_end(&w);
    bool slept = true;
    for (uint64_t n = 1; slept; n++) {
        begin();
        slept = life_put_to_sleep(&s, &w, life_drop, n, PROXY_AFTER);
        enum tail_state tail = TAIL_ERA;
        must(add(1, &tail, &e), e);
        enum err code = log_view_load(w.link, &w.names, &now, &e);
        if (tail == TAIL_COMPLETE) {
            must(code, e);
            acknowledged++;
        } else {
            assert_int_equal(tail, TAIL_LOST);
            assert_true(code == ERR_NOT_FOUND || (code == ERR_OK && now.deleting));
            none += code == ERR_NOT_FOUND;
            deleting += code == ERR_OK;
        }
        must(life_wake(&s), s.e);
        gone();
        life_end(&w);
    }
    assert_true(acknowledged > 0 && deleting > 0 && none > 0);
    begin();
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test_setup_teardown(test_drop__leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_drop__of_an_earlier_incarnation_leaves_what_is_said_of_a_later_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__in_the_middle_of_a_build, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__in_grace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__of_one_whose_former_generation_was_forgotten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_drop__of_one_that_has_grown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__leaves_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__at_maxmemory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__names_a_lane_that_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__names_a_view_that_is_damaged, set_up, tear_down),
    };
    const struct CMUnitTest listed[] = {
        cmocka_unit_test_setup_teardown(test_drop__again_after_a_deleter_was_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__by_one_that_was_killed_does_not_hinder_a_maker, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_drop__by_two, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop__by_one_that_wakes_leaves_the_next_filter, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_drop__tells_who_adds, set_up, tear_down),
    };
    int failed = cmocka_run_group_tests_name("drop", all, start, stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* a list of nodes, behind a proxy */
        failed += cmocka_run_group_tests_name("drop, two nodes", listed, start, stop);
    return failed;
}
