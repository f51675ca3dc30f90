/* SPDX-License-Identifier: MIT */
/* The folder's lease, on a real Redis: one process has it; another one takes it when its owner was stopped or
 * killed, and a process that lost it stops folding. Added keys are folded nevertheless, and none is lost. */
#include "shard/fold/lease.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "shard/view/view_load.h"
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

enum { REPLY_MS = 5000, TTL_MS = 400, LONG_MS = 60000, KEYS = 200 };

static struct lease one, other;
static struct sync_client *link_of_one, *link_of_other;
static const struct lease_report nothing = {.folds = 0};

static void begin(unsigned ttl_ms)
{
    struct error e = {""};
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    link_of_one = sync_client_new(&on.nodes, REPLY_MS, NULL);
    link_of_other = sync_client_new(&on.nodes, REPLY_MS, NULL);
    assert_true(link_of_one != NULL && link_of_other != NULL);
    lease_init(&one, link_of_one, &on.names, "one/1", ttl_ms);
    lease_init(&other, link_of_other, &on.names, "other/1", ttl_ms);
}

static int tear_down(void **state)
{
    (void)state;
    lease_fini(&one);
    lease_fini(&other);
    sync_client_free(link_of_one);
    sync_client_free(link_of_other);
    link_of_one = link_of_other = NULL;
    return 0;
}

static void takes(struct lease *lease)
{
    struct error e = {""};
    must(lease_take(lease, &nothing, &e), e);
    assert_true(lease_is_held(lease));
}

static void is_busy(struct lease *lease, const char *holder)
{
    struct error e = {""};
    gives(ERR_BUSY, lease_take(lease, &nothing, &e), e);
    assert_non_null(strstr(e.text, holder));
    assert_string_equal(lease->holder, holder);
    assert_false(lease_is_held(lease));
}

static void wait_until(uint64_t us)
{
    while (clock_mono_us() < us)
        clock_sleep_us(us - clock_mono_us());
}

static struct lease_status look(void)
{
    struct error e = {""};
    struct lease_status s;
    must(lease_look(on.link, &on.names, &s, &e), e);
    return s;
}

/* --- the lease alone --- */

static void test_a_lease__is_of_one_until_it_is_given_back(void **state)
{
    struct error e = {""};
    (void)state;
    begin(LONG_MS);
    assert_string_equal(look().holder, "");
    takes(&one);
    is_busy(&other, "one/1");
    assert_in_range(other.again - clock_mono_us(), (LONG_MS - 5000) * 1000ull, (LONG_MS + 100) * 1000ull);
    takes(&one); /* renews it */
    lease_give_back(&one);
    assert_false(lease_is_held(&one));
    takes(&other);
    is_busy(&one, "other/1");
    lease_give_back(&one); /* the lease is another process's */
    assert_string_equal(look().holder, "other/1");
    lease_give_back(&other);
    takes(&other);
    must(client_ok(&on.client, &e, "RENAME tb:{f}:folder lost"), e);
    takes(&one);
    is_busy(&other, "one/1"); /* and does not take itself for the holder until its own time is over */
}

static void test_a_lease__says_how_folding_fares(void **state)
{
    struct error e = {""};
    const struct lease_report report = {.folds = 7, .folded_ms = 1234567890123, .error = "shard f is cut"};
    (void)state;
    begin(LONG_MS);
    must(lease_take(&one, &report, &e), e);
    struct lease_status s = look();
    assert_string_equal(s.holder, "one/1");
    int64_t left_ms = 0;
    must(client_integer(&on.client, &left_ms, &e, "PTTL tb:{f}:folder"), e);
    assert_in_range(left_ms, LONG_MS - 5000, LONG_MS);
    assert_int_equal(s.report.folds, 7);
    assert_int_equal(s.report.folded_ms, 1234567890123);
    assert_string_equal(s.report.error, "shard f is cut");
}

static void test_a_lease_that_is_renewed__does_not_end(void **state)
{
    (void)state;
    begin(TTL_MS);
    takes(&one);
    for (unsigned i = 0; i < 6; i++) {
        wait_until(one.again);
        takes(&one);
        is_busy(&other, "one/1");
    }
}

static void test_a_lease_that_is_not_renewed__ends_for_both(void **state)
{
    (void)state;
    begin(TTL_MS);
    takes(&one);
    is_busy(&other, "one/1");
    wait_until(other.again);
    assert_false(lease_is_held(&one)); /* before Redis lets the other process have it */
    takes(&other);
    lease_give_back(&one); /* as far as this process knows it still has the lease */
    assert_string_equal(look().holder, "other/1");
    is_busy(&one, "other/1");
}

static void has_no_near_end(const char *command)
{
    struct error e = {""};
    int64_t had;
    begin(TTL_MS);
    takes(&one);
    must(client_integer(&on.client, &had, &e, command), e);
    assert_int_equal(had, 1);
    is_busy(&other, "one/1");
    wait_until(other.again);
    takes(&other);
}

/* The key has lost its expiry. */
static void test_a_lease_without_an_end__gets_one(void **state)
{
    (void)state;
    has_no_near_end("PERSIST tb:{f}:folder");
}

/* The server's clock was set back by two hours, and the holder is gone. */
static void test_a_lease_with_a_far_end__gets_another(void **state)
{
    (void)state;
    has_no_near_end("PEXPIRE tb:{f}:folder 7200000");
}

static void test_a_key_of_another_type__is_named_and_stays(void **state)
{
    struct error e = {""};
    struct lease_status s;
    (void)state;
    begin(TTL_MS);
    must(client_ok(&on.client, &e, "SET tb:{f}:folder theirs"), e);
    gives(ERR_WRONG_TYPE, lease_take(&one, &nothing, &e), e);
    assert_non_null(strstr(e.text, "tb:{f}:folder"));
    assert_false(lease_is_held(&one));
    gives(ERR_WRONG_TYPE, lease_look(on.link, &on.names, &s, &e), e);
    lease_give_back(&one);
    redisReply *r = client_command(&on.client, "GET tb:{f}:folder");
    assert_string_equal(r->str, "theirs");
    freeReplyObject(r);
}

/* Else a full lane could not be folded and trimmed. */
static void test_at_maxmemory__it_is_taken(void **state)
{
    struct error e = {""};
    (void)state;
    begin(LONG_MS);
    must(client_ok(&on.client, &e, "CONFIG SET maxmemory 1"), e);
    gives(ERR_REFUSED, client_ok(&on.client, &e, "SET a b"), e);
    takes(&one);
    takes(&one);
    lease_give_back(&one);
    must(client_ok(&on.client, &e, "CONFIG SET maxmemory 0"), e);
}

static void test_redis_is_away__it_is_not_held_for_longer(void **state)
{
    struct error e = {""};
    (void)state;
    begin(TTL_MS);
    takes(&one);
    temp_redis_stop(&on.redis);
    gives(ERR_UNREACHABLE, lease_take(&one, &nothing, &e), e);
    wait_until(one.until);
    assert_false(lease_is_held(&one));
    client_close(&on.client);
    must(temp_redis_restart(&on.redis, false, &e), e);
    must(client_open(&on.client, on.redis.port, REPLY_MS, &e), e);
    takes(&other);
}

/* --- processes that fold --- */

/* A process of its own, with a control that folds; it executes the orders that it reads. */
struct child {
    pid_t pid;
    int to, from;
};

struct order {
    bool adds;
    uint64_t first;
    unsigned count;
};

static const struct control_options folding = {
    .folds = true,
    .lease_ms = TTL_MS,
    .fold_interval_us = 10000,
    .look_interval_us = 20000,
    .retain_us = LONG_MS * UINT64_C(1000)}; /* a process that waits for the other one meets no gap */

static void obey(int in, int out)
{
    struct order o;
    struct solo s;
    struct control_options options = folding;
    const bool never = false;
    options.owner = "child";
    solo_open(&s, &on.nodes, &on.names, UINT64_MAX, &options);
    for (;;) {
        ssize_t n = read(in, &o, sizeof(o));
        if (n == 0)
            _exit(0);
        if (n < 0) { /* no order: the process folds */
            solo_run(&s, &never, 5);
            continue;
        }
        unsigned got = 0;
        for (unsigned i = 0; i < o.count; i++)
            got += solo_ask(&s, o.adds, o.first + i) == (o.adds ? KEY_ADDED : KEY_PRESENT);
        if (write(out, &got, sizeof(got)) != sizeof(got))
            _exit(1);
    }
}

static void child_start(struct child *c)
{
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    assert_true(pipe(to) == 0 && pipe(from) == 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        (void)close(to[1]);
        (void)close(from[0]);
        (void)fcntl(to[0], F_SETFL, O_NONBLOCK);
        obey(to[0], from[1]);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    c->to = to[1];
    c->from = from[0];
}

/* Have the child check or add keys. Returns how many were present, or new. */
static unsigned child_does(struct child *c, bool adds, uint64_t first, unsigned count)
{
    struct order o = {.adds = adds, .first = first, .count = count};
    unsigned got = 0;
    assert_int_equal(write(c->to, &o, sizeof(o)), sizeof(o));
    assert_int_equal(read(c->from, &got, sizeof(got)), sizeof(got));
    return got;
}

static void child_end(struct child *c, int how)
{
    int status;
    if (how != 0)
        assert_int_equal(kill(c->pid, how), 0);
    (void)close(c->to);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    (void)close(c->from);
}

static void make(void)
{
    struct error e = {""};
    begin(TTL_MS);
    must(log_member_make(on.link, &on.names, 10000, 1, 32768, &e), e);
}

static bool is_folded_to_the_end(void)
{
    struct error e = {""};
    struct log_view *v = malloc(sizeof(*v));
    struct key_name lane;
    char id[LOG_ID_TEXT_MAX];
    must(log_view_load(on.link, &on.names, v, &e), e);
    lane_key(&lane, &on.names, 0, v->lane[0].number);
    redisReply *r = client_command(&on.client, "XREVRANGE %b + - COUNT 1", lane.text, lane.length);
    (void)log_id_format(v->slot[1].folded[0].position.id, id);
    bool yes = r->elements == 1 && strcmp(r->element[0]->element[0]->str, id) == 0;
    freeReplyObject(r);
    free(v);
    return yes;
}

static void wait_until_folded(struct solo *s)
{
    const bool never = false;
    uint64_t until = clock_mono_us() + 10 * 1000000ull;
    while (!is_folded_to_the_end()) {
        solo_run(s, &never, 10);
        if (clock_mono_us() > until)
            fail_msg("not folded; the control says: %s", s->last.text);
    }
}

static bool child_holds(void)
{
    return strncmp(look().holder, "child/", 6) == 0;
}

/* A process with the lease is stopped for longer than the lease lasts. Another process folds meanwhile. The
 * first one's later writes lose nothing, and it does not fold while the other one does. */
static void test_a_folder_that_was_stopped__is_replaced_and_harms_nothing(void **state)
{
    struct child c;
    struct solo s;
    struct log_status status;
    struct control_options o = folding;
    (void)state;
    make();
    child_start(&c);
    assert_int_equal(child_does(&c, true, 0, KEYS), KEYS);
    o.lease_ms = LONG_MS;
    solo_open(&s, &on.nodes, &on.names, UINT64_MAX, &o);
    while (!child_holds())
        clock_sleep_us(2000);
    assert_int_equal(child_does(&c, true, KEYS, KEYS), KEYS); /* the child is in the middle of folding */
    assert_int_equal(kill(c.pid, SIGSTOP), 0);
    assert_int_equal(solo_ask(&s, true, 2 * KEYS), KEY_ADDED);
    wait_until_folded(&s);
    control_status(s.control, &status);
    assert_true(status.folder.is_here);
    assert_false(child_holds());
    assert_int_equal(kill(c.pid, SIGCONT), 0);
    assert_int_equal(child_does(&c, true, 3 * KEYS, KEYS), KEYS);
    for (unsigned i = 0; i < 20; i++) { /* the process keeps the lease while there is something to fold */
        assert_int_equal(solo_ask(&s, true, 10 * KEYS + i), KEY_ADDED);
        assert_false(child_holds());
    }
    wait_until_folded(&s);
    for (unsigned i = 0; i < 2 * KEYS + 1; i++)
        assert_int_equal(solo_ask(&s, false, i), KEY_PRESENT);
    assert_int_equal(child_does(&c, false, 0, 2 * KEYS + 1), 2 * KEYS + 1);
    child_end(&c, 0);
    solo_close(&s);
}

static void test_a_folder_that_was_killed__is_replaced_when_its_lease_ends(void **state)
{
    struct child c;
    struct solo s;
    (void)state;
    make();
    solo_open(&s, &on.nodes, &on.names, UINT64_MAX, &folding);
    child_start(&c);
    assert_int_equal(child_does(&c, true, 0, KEYS), KEYS);
    while (!child_holds())
        clock_sleep_us(2000);
    child_end(&c, SIGKILL);
    uint64_t killed = clock_mono_us();
    assert_int_equal(solo_ask(&s, true, KEYS), KEY_ADDED);
    wait_until_folded(&s);
    assert_in_range(clock_mono_us() - killed, 0, (TTL_MS + 3000) * 1000ull);
    for (unsigned i = 0; i <= KEYS; i++)
        assert_int_equal(solo_ask(&s, false, i), KEY_PRESENT);
    solo_close(&s);
}

/* A thread that reads the lease as often as it can. */
struct watcher {
    pthread_t thread;
    _Atomic bool ends;
    unsigned held, given; /* reads that found a holder; reads that found none after a holder */
};

static void *watch(void *arg)
{
    struct watcher *w = arg;
    struct sync_client *own = sync_client_new(&on.nodes, REPLY_MS, NULL);
    while (!atomic_load(&w->ends)) {
        struct lease_status s;
        if (lease_look(own, &on.names, &s, NULL) != ERR_OK)
            continue;
        w->held += s.holder[0] != '\0';
        w->given += s.holder[0] == '\0' && w->held > 0;
        clock_sleep_us(2000);
    }
    sync_client_free(own);
    return NULL;
}

/* A fold takes over thousands of shards, which takes longer than two leases. */
static void test_a_long_fold__renews_the_lease(void **state)
{
    enum { SHORT_MS = 60, LEASES = 2 };
    struct solo s;
    struct error e = {""};
    struct watcher w = {.held = 0};
    struct control_options o = folding;
    struct log_status status;
    (void)state;
    begin(TTL_MS);
    must(log_member_make(on.link, &on.names, 24000000, 1, 8192, &e), e);
    o.lease_ms = SHORT_MS;
    o.fold_interval_us = 1000;
    solo_open(&s, &on.nodes, &on.names, UINT64_MAX, &o);
    assert_int_equal(pthread_create(&w.thread, NULL, watch, &w), 0);
    assert_int_equal(solo_ask(&s, true, 1), KEY_ADDED);
    uint64_t until = clock_mono_us() + 20 * 1000000ull, longest = 0;
    do {
        uint64_t begun = clock_mono_us();
        solo_tend(&s);
        longest = clock_mono_us() - begun > longest ? clock_mono_us() - begun : longest;
        control_status(s.control, &status);
    } while (status.folder.report.folds == 0 && clock_mono_us() < until);
    atomic_store(&w.ends, true);
    assert_int_equal(pthread_join(w.thread, NULL), 0);
    assert_int_equal(status.folder.report.folds, 1);
    assert_true(longest > LEASES * SHORT_MS * 1000ull);
    assert_true(w.held > 10);
    assert_in_range(w.given, 0, w.held / 4); /* a busy machine may be late */
    solo_close(&s);
}

/* A filter without adds has no folder. */
static void test_nothing_to_fold__the_lease_is_given_back(void **state)
{
    struct solo s;
    const bool never = false;
    (void)state;
    make();
    solo_open(&s, &on.nodes, &on.names, UINT64_MAX, &folding);
    assert_int_equal(solo_ask(&s, false, 1), KEY_ABSENT);
    solo_run(&s, &never, 100);
    assert_string_equal(look().holder, ""); /* nothing was added, so no process took the lease */
    assert_int_equal(solo_ask(&s, true, 1), KEY_ADDED);
    wait_until_folded(&s);
    assert_string_not_equal(look().holder, "");
    uint64_t until = clock_mono_us() + 10 * 1000000ull;
    while (look().holder[0] != '\0' && clock_mono_us() < until)
        solo_run(&s, &never, 10);
    assert_string_equal(look().holder, "");
    uint64_t looks = s.tends;
    solo_run(&s, &never, 100);
    assert_in_range(s.tends - looks, 1, 10);
    solo_close(&s);
}

/* Two processes fold all the time, as neither knows of the other's lease: nothing is lost. */
static void test_without_the_lease__folding_is_safe(void **state)
{
    struct child c;
    struct solo s;
    struct control_options o = folding;
    (void)state;
    make();
    child_start(&c);
    o.lease_ms = LONG_MS;
    solo_open(&s, &on.nodes, &on.names, UINT64_MAX, &o);
    for (unsigned i = 0; i < 10; i++) {
        struct error e = {""};
        int64_t gone;
        assert_int_equal(child_does(&c, true, (uint64_t)i * KEYS, KEYS / 2), KEYS / 2);
        must(client_integer(&on.client, &gone, &e, "DEL tb:{f}:folder"),
             e); /* so that both processes take the lease */
        for (unsigned k = KEYS / 2; k < KEYS; k++)
            assert_int_equal(solo_ask(&s, true, (uint64_t)i * KEYS + k), KEY_ADDED);
        must(client_integer(&on.client, &gone, &e, "DEL tb:{f}:folder"), e);
    }
    wait_until_folded(&s);
    child_end(&c, SIGKILL);
    solo_close(&s);
    redisReply *r = client_command(&on.client, "KEYS *.log1");
    assert_int_equal(r->elements, 1);
    freeReplyObject(client_command(&on.client, "XTRIM %s MAXLEN 1", r->element[0]->str));
    freeReplyObject(r);
    o.folds = false;
    solo_open(&s, &on.nodes, &on.names, UINT64_MAX, &o); /* only the data of the shards */
    for (unsigned k = 0; k < 10 * KEYS; k++)
        assert_int_equal(solo_ask(&s, false, k), KEY_PRESENT);
    solo_close(&s);
}

#define LEASE_TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LEASE_TEST(test_a_lease__is_of_one_until_it_is_given_back),
        LEASE_TEST(test_a_lease__says_how_folding_fares),
        LEASE_TEST(test_a_lease_that_is_renewed__does_not_end),
        LEASE_TEST(test_a_lease_that_is_not_renewed__ends_for_both),
        LEASE_TEST(test_a_lease_without_an_end__gets_one),
        LEASE_TEST(test_a_lease_with_a_far_end__gets_another),
        LEASE_TEST(test_a_key_of_another_type__is_named_and_stays),
        LEASE_TEST(test_at_maxmemory__it_is_taken),
        LEASE_TEST(test_redis_is_away__it_is_not_held_for_longer),
        LEASE_TEST(test_a_folder_that_was_stopped__is_replaced_and_harms_nothing),
        LEASE_TEST(test_a_folder_that_was_killed__is_replaced_when_its_lease_ends),
        LEASE_TEST(test_a_long_fold__renews_the_lease),
        LEASE_TEST(test_nothing_to_fold__the_lease_is_given_back),
        LEASE_TEST(test_without_the_lease__folding_is_safe),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
