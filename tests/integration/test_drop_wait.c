/* SPDX-License-Identifier: MIT */
/* A deletion waits for the filter's mutex, or its process sleeps; meanwhile the name gets another filter, or
 * the filter another expiry. What a killed process has left is removed. */
#include "tests/integration/drop_call.h"
#include "tests/integration/lives.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "shard/view/handle.h"
#include "shard/view/registry.h"

#define FLAG PREFIX ":{f}:expansion_flag"
#define VIEW PREFIX ":{f}:view"

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

static void take_mutex(void)
{
    assert_string_equal(servers_text(&w.servers, 0, "SET " FLAG " " MUTEX), "OK");
}

static void release(void)
{
    assert_int_equal(servers_integer(&w.servers, 0, "DEL " FLAG), 1);
    (void)servers_integer(&w.servers, 0, "PUBLISH " PREFIX ":events %s", "released f");
}

static void make(void)
{
    struct error e = {""};
    must(life_make(&w, w.link, &e), e);
}

static int setup(void **state)
{
    (void)state;
    life_begin(&w, "f", 1);
    make();
    take_mutex();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    life_end(&w);
    return 0;
}

static void begin_to_delete(void)
{
    assert_int_equal(servers_integer(&w.servers, 0, "HSET " VIEW " deleting 1"), 0);
}

static void let_it_be_due(void)
{
    assert_int_equal(servers_integer(&w.servers, 0, "HSET " VIEW " expire_at 1000"), 1);
}

struct drop {
    enum drop_call_when when;
    enum err code;
    struct error e;
};

static void *run_drop(void *arg)
{
    struct drop *d = arg;
    d->code = drop_call(&w.nodes, PREFIX, d->when, &d->e);
    return NULL;
}

/* While @d waits for the mutex, which this test holds, delete the filter and make another one. */
static void make_another_meanwhile(struct drop *d)
{
    struct error e = {""};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_drop, d), 0);
    clock_sleep_us(300 * 1000);
    must(life_drop(&w, w.link, &e), e);
    make();
    release();
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static bool has_view(void)
{
    return servers_integer(&w.servers, 0, "EXISTS " VIEW) == 1;
}

static void test_filter_drop__finishes_no_deletion_that_is_over(void **state)
{
    (void)state;
    static struct drop d;
    d = (struct drop){.when = CALL_IF_BEGUN};
    begin_to_delete();
    make_another_meanwhile(&d);
    gives(ERR_CONFLICT, d.code, d.e);
    assert_true(has_view());
}

static void test_filter_drop__lets_no_filter_expire_by_the_time_of_another(void **state)
{
    (void)state;
    static struct drop d;
    d = (struct drop){.when = CALL_IF_DUE};
    let_it_be_due();
    make_another_meanwhile(&d);
    gives(ERR_CONFLICT, d.code, d.e);
    assert_true(has_view());
}

static void test_filter_drop__does_what_is_asked_finished_or_due(void **state)
{
    (void)state;
    static struct drop d;
    static const enum drop_call_when all[] = {CALL_NOW, CALL_IF_BEGUN, CALL_IF_DUE};
    release();
    for (unsigned i = 0; i < 3; i++) {
        if (i > 0)
            make();
        if (all[i] == CALL_IF_BEGUN)
            begin_to_delete();
        if (all[i] == CALL_IF_DUE)
            let_it_be_due();
        d = (struct drop){.when = all[i]};
        (void)run_drop(&d);
        gives(ERR_OK, d.code, d.e);
        assert_false(has_view());
        d = (struct drop){.when = all[i]};
        (void)run_drop(&d);
        gives(ERR_NOT_FOUND, d.code, d.e);
    }
}

/* --- who deletes is asleep --- */

static enum err drop_if_due(struct life *life, struct sync_client *l, struct error *e)
{
    (void)l;
    return drop_call(&life->nodes, PREFIX, CALL_IF_DUE, e);
}

static enum err drop_now(struct life *life, struct sync_client *l, struct error *e)
{
    (void)l;
    return drop_call(&life->nodes, PREFIX, CALL_NOW, e);
}

static enum err drop_if_begun(struct life *life, struct sync_client *l, struct error *e)
{
    (void)l;
    return drop_call(&life->nodes, PREFIX, CALL_IF_BEGUN, e);
}

static int begin(void **state)
{
    (void)state;
    life_begin(&w, "f", 1);
    return 0;
}

static void begin_again(void)
{
    life_end(&w);
    life_begin(&w, "f", 1);
}

/* Its lease is over, another process ends the deletion, and makes a new filter, which nobody deletes. */
static void test_filter_drop__that_sleeps_deletes_no_later_filter(void **state)
{
    (void)state;
    static struct life_sleeper s;
    struct error e = {""};
    unsigned conflicts = 0;
    bool slept = true;
    for (uint64_t n = 1; slept; n++) {
        begin_again();
        make();
        begin_to_delete();
        slept = life_put_to_sleep(&s, &w, drop_if_begun, n, PROXY_BEFORE);
        if (slept) {
            enum err code = life_drop(&w, w.link, &e);
            if (code != ERR_NOT_FOUND)
                must(code, e);
            make();
        }
        conflicts += life_wake(&s) == ERR_CONFLICT;
        if (slept && !has_view())
            fail_msg("asleep before request %" PRIu64 ", it deletes the later filter", n);
    }
    assert_true(conflicts > 1);
}

/* The filter is registered on all nodes, as by who makes it in the service. */
static void name_it(void)
{
    struct error e = {""};
    struct handle f = {.redis = w.link, .names = w.names};
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    f.names.incarnation = w.view.incarnation;
    must(registry_keep(&f, &e), e);
    handle_fini(&f);
}

static bool is_named_everywhere(void)
{
    bool named = true;
    for (unsigned i = 0; i < w.servers.count; i++)
        named &= servers_integer(&w.servers, i, "HEXISTS " PREFIX ":incarnations %s", "f") == 1;
    return named && servers_integer(&w.servers, 0, "SISMEMBER " PREFIX ":filters %s", "f") == 1;
}

/* Remove the expiry, as the service does. False: the filter is gone, or is being deleted. */
static bool persist(uint64_t incarnation)
{
    struct error e = {""};
    bool done = false;
    struct handle f = {.redis = w.link, .names = w.names};
    f.names.incarnation = incarnation;
    enum err code = handle_expire(&f, 0, 0, &done, &e);
    handle_fini(&f);
    if (code != ERR_NOT_FOUND)
        must(code, e);
    return code == ERR_OK && done;
}

static void test_filter_drop__that_is_due_heeds_a_persist_until_it_begins(void **state)
{
    (void)state;
    static struct life_sleeper s;
    unsigned kept = 0, late = 0;
    bool slept = true;
    for (uint64_t n = 1; slept; n++) {
        begin_again();
        make();
        name_it();
        let_it_be_due();
        slept = life_put_to_sleep(&s, &w, drop_if_due, n, PROXY_BEFORE);
        bool acknowledged = slept && persist(w.view.incarnation);
        enum err code = life_wake(&s);
        kept += acknowledged;
        late += !acknowledged;
        if (acknowledged != has_view() || acknowledged != (code == ERR_CONFLICT))
            fail_msg("asleep before request %" PRIu64 ": persisted %d, there %d, %s", n, acknowledged,
                     has_view(), error_name(code));
        if (acknowledged && !is_named_everywhere())
            fail_msg("asleep before request %" PRIu64 ", it leaves the filter without its name", n);
    }
    assert_true(kept > 2 && late > 2);
}

static void test_expire__of_a_filter_before_is_none_of_the_next(void **state)
{
    (void)state;
    struct error e = {""};
    make();
    let_it_be_due();
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    uint64_t before = w.view.incarnation;
    must(life_drop(&w, w.link, &e), e);
    make();
    let_it_be_due();
    assert_false(persist(before));
    assert_int_equal(servers_integer(&w.servers, 0, "HEXISTS " VIEW " %s", "expire_at"), 1);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    assert_true(persist(w.view.incarnation));
    assert_int_equal(servers_integer(&w.servers, 0, "HEXISTS " VIEW " %s", "expire_at"), 0);
}

/* --- who made or deleted was killed --- */

/* As DEL or a controller: there is no view. */
static void clears(life_job_fn *drop)
{
    struct error e = {""};
    gives(ERR_NOT_FOUND, drop(&w, w.link, &e), e);
    assert_int_equal(life_keys(&w), 0);
}

static void kill_and_clear(life_job_fn *killed, bool exists, life_job_fn *drop)
{
    unsigned left = 0;
    bool held = true;
    for (uint64_t n = 1; held; n++) {
        begin_again();
        if (exists)
            make();
        held = life_kill(&w, killed, n, PROXY_AFTER);
        if (has_view())
            continue;
        left += life_keys(&w) > 0;
        clears(drop);
    }
    assert_true(left > 2);
}

static void test_filter_drop__removes_what_a_killed_maker_has_left(void **state)
{
    (void)state;
    kill_and_clear(life_make, false, drop_now);
    kill_and_clear(life_make, false, drop_if_begun);
}

static void test_filter_drop__removes_what_a_killed_deleter_has_left(void **state)
{
    (void)state;
    kill_and_clear(life_drop, true, drop_now);
    kill_and_clear(life_drop, true, drop_if_begun);
}

static void move_to_record(void)
{
    assert_string_equal(servers_text(&w.servers, 0, "RENAME " VIEW " " PREFIX ":{f}:leftover"), "OK");
}

static void is_named_nowhere(void)
{
    for (unsigned i = 0; i < w.servers.count; i++)
        assert_int_equal(servers_integer(&w.servers, i, "HEXISTS " PREFIX ":incarnations %s", "f"), 0);
    assert_int_equal(servers_integer(&w.servers, 0, "SISMEMBER " PREFIX ":filters %s", "f"), 0);
}

/* The record's own name goes. That of a filter that was lost stays until somebody asks for its deletion: else
 * its keys would be absent. */
static void test_filter_drop__of_a_record_keeps_the_name_of_a_lost_filter(void **state)
{
    (void)state;
    struct error e = {""};
    make();
    name_it();
    move_to_record();
    gives(ERR_NOT_FOUND, drop_now(&w, w.link, &e), e);
    is_named_nowhere();
    make();
    name_it();
    assert_int_equal(servers_integer(&w.servers, 0, "DEL " VIEW), 1);
    make();
    move_to_record();
    gives(ERR_NOT_FOUND, drop_if_begun(&w, w.link, &e), e);
    assert_int_equal(servers_integer(&w.servers, 0, "EXISTS " PREFIX ":{f}:leftover"), 0);
    assert_true(is_named_everywhere());
    must(drop_now(&w, w.link, &e), e);
    is_named_nowhere();
    for (unsigned i = 0; i < w.servers.count; i++) { /* but for what it says of the deletion */
        redisReply *r = client_command(servers_each(&w.servers, i), "KEYS " PREFIX ":{f*");
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
        for (size_t k = 0; k < r->elements; k++)
            assert_string_equal(r->element[k]->str, PREFIX ":{f}:deleted");
        freeReplyObject(r);
    }
}

/* A controller finds neither a view nor a record of a filter that was made after a deletion, and then lost.
 */
static void test_filter_drop__of_one_deleted_before_keeps_the_name_of_a_lost_filter(void **state)
{
    (void)state;
    struct error e = {""};
    make();
    name_it();
    must(drop_now(&w, w.link, &e), e);
    make();
    name_it();
    assert_int_equal(servers_integer(&w.servers, 0, "DEL " VIEW), 1);
    gives(ERR_NOT_FOUND, drop_if_begun(&w, w.link, &e), e);
    assert_true(is_named_everywhere());
}

/* Another process has deleted what this one has seen. */
static void test_filter_drop__of_what_was_deleted_elsewhere_makes_none_in_its_place(void **state)
{
    (void)state;
    struct error e = {""};
    make();
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    must(drop_now(&w, w.link, &e), e);
    gives(ERR_NOT_FOUND, drop_call_seen(&w.nodes, PREFIX, w.view.incarnation, &e), e);
    must(drop_call_seen(&w.nodes, PREFIX, w.view.incarnation + 1, &e), e); /* that one was lost */
}

/* As BF.RESERVE of another process, behind its DEL where it finds a filter. */
static uint64_t make_again(void)
{
    struct error e = {""};
    enum err code = life_make(&w, w.link, &e);
    if (code == ERR_EXISTS) {
        code = life_drop(&w, w.link, &e);
        if (code == ERR_OK)
            code = life_make(&w, w.link, &e);
    }
    must(code, e);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    return w.view.incarnation;
}

/* Who deletes it has found no view, and sleeps. Then the name gets another filter, which nobody deletes. */
static void test_filter_drop__of_a_lost_filter_deletes_none_that_was_made_since(void **state)
{
    enum { FIRST_LOOK = 4 }; /* the request that finds no view */
    static struct life_sleeper s;
    struct error e = {""};
    unsigned conflicts = 0;
    bool slept = true;
    (void)state;
    for (uint64_t n = FIRST_LOOK + 1; slept; n++) {
        begin_again();
        make();
        name_it();
        assert_int_equal(servers_integer(&w.servers, 0, "DEL " VIEW), 1);
        slept = life_put_to_sleep(&s, &w, drop_now, n, PROXY_BEFORE);
        uint64_t later = slept ? make_again() : 0;
        conflicts += life_wake(&s) == ERR_CONFLICT;
        if (slept && (log_view_load(w.link, &w.names, &w.view, &e) != ERR_OK || w.view.deleting ||
                      w.view.incarnation != later))
            fail_msg("asleep before request %" PRIu64 ", it deletes the later filter", n);
    }
    assert_true(conflicts > 1);
}

/* There is no filter. Who deletes it sleeps, and meanwhile somebody makes it: it was not there, or is
 * deleted. */
static void test_filter_drop__of_none_does_not_mind_one_that_is_made_meanwhile(void **state)
{
    static struct life_sleeper s;
    unsigned found = 0, made = 0;
    bool slept = true;
    (void)state;
    for (uint64_t n = 1; slept; n++) {
        begin_again();
        slept = life_put_to_sleep(&s, &w, drop_now, n, PROXY_BEFORE);
        if (slept) {
            make();
            name_it();
        }
        enum err code = life_wake(&s);
        found += slept && code == ERR_OK;
        made += slept && code == ERR_NOT_FOUND;
        if (code != (slept && !has_view() ? ERR_OK : ERR_NOT_FOUND))
            fail_msg("asleep before request %" PRIu64 ", it is told %s: %s", n, error_name(code), s.e.text);
        if (has_view() && !is_named_everywhere())
            fail_msg("asleep before request %" PRIu64 ", it leaves the filter without its name", n);
    }
    assert_true(found > 1 && made > 1);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, begin, teardown)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_filter_drop__finishes_no_deletion_that_is_over),
        TEST(test_filter_drop__lets_no_filter_expire_by_the_time_of_another),
        TEST(test_filter_drop__does_what_is_asked_finished_or_due),
    };
    const struct CMUnitTest listed[] = {
        FRESH(test_filter_drop__that_sleeps_deletes_no_later_filter),
        FRESH(test_filter_drop__that_is_due_heeds_a_persist_until_it_begins),
        FRESH(test_expire__of_a_filter_before_is_none_of_the_next),
        FRESH(test_filter_drop__removes_what_a_killed_maker_has_left),
        FRESH(test_filter_drop__removes_what_a_killed_deleter_has_left),
        FRESH(test_filter_drop__of_a_record_keeps_the_name_of_a_lost_filter),
        FRESH(test_filter_drop__of_a_lost_filter_deletes_none_that_was_made_since),
        FRESH(test_filter_drop__of_none_does_not_mind_one_that_is_made_meanwhile),
        FRESH(test_filter_drop__of_one_deleted_before_keeps_the_name_of_a_lost_filter),
        FRESH(test_filter_drop__of_what_was_deleted_elsewhere_makes_none_in_its_place),
    };
    int failed = cmocka_run_group_tests_name("drop", tests, start, stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* a list of nodes, behind a proxy */
        failed += cmocka_run_group_tests_name("drop, two nodes", listed, start, stop);
    return failed;
}
