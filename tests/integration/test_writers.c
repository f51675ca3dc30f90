/* SPDX-License-Identifier: MIT */
/* Writers die or are stopped without leaving the register, and lanes' nodes get other replication ids. The
 * writer is a process of its own, which adds keys batch by batch and reports which were acknowledged. */
#include "tests/integration/log_members.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "shard/fold/lease.h"
#include "shard/request/log_filter_state.h"
#include "shard/view/view_load.h"
#include "tests/lib/temp_redis.h"

enum {
    REPLY_MS = 5000,
    MEMBERS = 2,
    KEYS = 200000,
    BATCH = 20,
    GRACE_US = 300 * 1000,
    WAIT_US = 20 * 1000 * 1000,
    SOME = 2000 /* acknowledged keys of a writer before the test disturbs it */
};

/* What processes were told about each key. */
struct told {
    _Atomic uint32_t acknowledged; /* of the other process: keys from 0 on */
    _Atomic bool stop;
    _Atomic uint64_t worst_us; /* that an add has taken */
    _Atomic uint8_t news[KEYS], unsure[KEYS], done[KEYS];
};

static struct temp_redis redis;
static struct client client;
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;
static struct told *told;
static struct log_member member[MEMBERS];
static unsigned opened;
static pid_t writer;

static int start(void **state)
{
    static const char *const at_once[] = {"--repl-diskless-sync-delay", "0", NULL};
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(&redis, at_once, &e), e);
    must(client_open(&client, redis.port, REPLY_MS, &e), e);
    must(nodes_parse(&nodes, redis.url, &e), e);
    l = sync_client_new(&nodes, REPLY_MS, NULL);
    view = malloc(sizeof(*view));
    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(l != NULL && view != NULL && told != MAP_FAILED);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    (void)munmap(told, sizeof(*told));
    free(view);
    sync_client_free(l);
    client_close(&client);
    temp_redis_fini(&redis);
    return 0;
}

static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    must(client_ok(&client, &e, "FLUSHALL"), e);
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, KEYS, 2, 32768, &e), e);
    memset(told, 0, sizeof(*told));
    return 0;
}

static void end_writer(int sig)
{
    int status;
    if (writer > 0) {
        (void)kill(writer, sig);
        assert_int_equal(waitpid(writer, &status, 0), writer);
    }
    writer = 0;
}

static int tear_down(void **state)
{
    (void)state;
    end_writer(SIGKILL);
    while (opened > 0)
        log_member_abandon(&member[--opened]); /* nobody may be left who folds its entries */
    return 0;
}

/* --- members --- */

static enum err open_member(struct log_member *m, bool folds, uint64_t memory, struct error *e)
{
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &names,
                                         .memory = memory,
                                         .timeout_ms = REPLY_MS,
                                         .writer_grace_us = GRACE_US,
                                         .folds = folds};
    return log_member_open(m, &o, e);
}

static struct log_member *opens_with(uint64_t memory, bool folds)
{
    struct error e = {""};
    must(open_member(&member[opened], folds, memory, &e), e);
    return &member[opened++];
}

static struct log_member *opens(bool folds)
{
    return opens_with(UINT64_MAX, folds);
}

/* Add keys, and note the answers. True: they are acknowledged. */
static bool add(struct log_member *m, uint32_t first)
{
    struct error e = {""};
    uint64_t keys[BATCH];
    uint8_t answers[BATCH];
    for (unsigned i = 0; i < BATCH; i++)
        keys[i] = first + i;
    uint64_t began = clock_mono_us();
    enum err code = log_member_ask(m, true, keys, BATCH, answers, &e);
    uint64_t took = clock_mono_us() - began;
    if (took > atomic_load(&told->worst_us))
        atomic_store(&told->worst_us, took);
    if (code != ERR_OK) {
        (void)fprintf(stderr, "%s; the control: %s\n", e.text, m->last.text);
        return false;
    }
    for (unsigned i = 0; i < BATCH; i++) {
        atomic_fetch_add(&told->news[first + i], answers[i] == KEY_ADDED);
        atomic_fetch_add(&told->unsure[first + i], answers[i] == KEY_UNSURE);
        atomic_fetch_add(&told->done[first + i], 1);
    }
    return true;
}

/* The process that adds all keys in turn, until it is ended. */
static int run_writer(void)
{
    static struct log_member m;
    struct error e = {""};
    if (open_member(&m, false, UINT64_MAX, &e) != ERR_OK)
        return 1;
    for (uint32_t at = 0; at + BATCH <= KEYS && !atomic_load(&told->stop);)
        if (add(&m, at)) {
            at += BATCH;
            atomic_store(&told->acknowledged, at);
        }
    log_member_close(&m);
    return 0;
}

/* Call it before a member is opened in this process. */
static void start_writer(void)
{
    assert_int_equal(opened, 0);
    writer = fork();
    assert_true(writer >= 0);
    if (writer == 0)
        _exit(run_writer());
}

static void wait_for_acknowledged(uint32_t count)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    while (atomic_load(&told->acknowledged) < count && clock_mono_us() < until)
        clock_sleep_us(1000);
    if (atomic_load(&told->acknowledged) < count)
        fail_msg("%u keys are acknowledged, not %u; the longest add took %u ms", (unsigned)told->acknowledged,
                 (unsigned)count, (unsigned)(told->worst_us / 1000));
}

/* --- the view --- */

static void load(void)
{
    struct error e = {""};
    must(log_view_load(l, &names, view, &e), e);
}

static int replicas(void)
{
    redisReply *r = client_command(&client, "INFO replication");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    const char *at = strstr(r->str, "connected_slaves:");
    int n = at == NULL ? 0 : (int)strtol(at + strlen("connected_slaves:"), NULL, 10);
    freeReplyObject(r);
    return n;
}

static bool has_writers(const void *count)
{
    return view->writer_count == *(const unsigned *)count;
}

static bool is_degraded(const void *unused)
{
    (void)unused;
    return view->degraded;
}

static bool has_doubt(const void *unused)
{
    (void)unused;
    bool has = false;
    for (unsigned i = 0; i < view->writer_count; i++)
        has |= view->writer[i].in_doubt;
    return has;
}

static bool has_lost(const void *unused)
{
    (void)unused;
    return view->slot[view->current].lost.generation != 0;
}

static bool has_era_of_node(const void *unused)
{
    (void)unused;
    uint64_t era = lanes_era(&client);
    return view->lane[0].era == era && view->lane[1].era == era && view->eras.id[0] == era && replicas() > 0;
}

static void wait_for_view(bool (*is_so)(const void *arg), const void *arg, const char *what)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    do {
        load();
        if (is_so(arg))
            return;
        clock_sleep_us(5000);
    } while (clock_mono_us() < until);
    fail_msg("the view does not get %s in time", what);
}

static void wait_for_writers(unsigned count)
{
    wait_for_view(has_writers, &count, "that many writers");
}

/* All keys that were acknowledged to the writer must be present for @m. */
static void all_are_present(struct log_member *m)
{
    uint32_t count = atomic_load(&told->acknowledged);
    for (uint32_t at = 0; at < count; at += SOME) {
        uint32_t some = count - at < SOME ? count - at : SOME;
        assert_int_equal(log_member_count(m, at, some, KEY_PRESENT), some);
    }
}

/* Give the node another replication id. It was a replica meanwhile, so it may have lost data. */
static void promote(void)
{
    struct error e = {""};
    must(client_ok(&client, &e, "REPLICAOF 127.0.0.1 1"), e); /* no server there: the node keeps its data */
    must(client_ok(&client, &e, "REPLICAOF NO ONE"), e);
}

static void looks_twice(struct log_member *m)
{
    struct log_status status;
    control_status(m->control, &status);
    uint64_t looks = status.looks;
    do {
        log_filter_look(m->filter);
        clock_sleep_us(5000);
        control_status(m->control, &status);
    } while (status.looks < looks + 2);
}

/* --- tests --- */

static void test_a_writer_that_was_killed__is_not_waited_for(void **state)
{
    (void)state;
    start_writer();
    struct log_member *folder = opens(true), *other = opens(false);
    assert_true(add(folder, KEYS - BATCH) && add(other, KEYS - 2 * BATCH));
    wait_for_acknowledged(SOME);
    end_writer(SIGKILL);
    wait_for_writers(2);
    assert_false(view->degraded);
    looks_twice(folder); /* the folder has read the removal and the lane behind it */
    looks_twice(other);
    promote();
    uint64_t began = clock_mono_us();
    assert_int_equal(log_member_count(other, KEYS - BATCH, 1, KEY_PRESENT), 1);
    assert_true(add(other, KEYS - 3 * BATCH)); /* behind the roll call */
    uint64_t took = clock_mono_us() - began;
    print_message("a roll call behind a death: %u ms\n", (unsigned)(took / 1000));
    assert_true(took < 3000000); /* with sanitizers, on a busy machine */
    all_are_present(folder);
    all_are_present(other);
    load();
    assert_false(view->degraded);
    assert_int_equal(view->writer_count, 2);
}

/* Nobody knows which keys the dead writer had acknowledged, because its lane's node failed over before it
 * could be removed. */
static void test_a_writer_that_died_in_a_roll_call__degrades_the_filter(void **state)
{
    (void)state;
    start_writer();
    struct log_member *folder = opens(true);
    assert_true(add(folder, KEYS - BATCH));
    wait_for_acknowledged(SOME);
    assert_int_equal(kill(writer, SIGSTOP), 0);
    promote();
    end_writer(SIGKILL);
    (void)add(folder, KEYS - 2 * BATCH);
    wait_for_view(is_degraded, NULL, "degraded");
    all_are_present(folder); /* here the keys were in the lane */
    assert_int_equal(log_member_count(folder, KEYS, 10, KEY_MAYBE), 10);
}

/* A shard that only the dead writer had is lost, too: others report that, and the writer is removed
 * nevertheless. */
static void test_a_writer_that_died_in_a_roll_call_beside_a_loss__is_removed(void **state)
{
    (void)state;
    start_writer();
    struct log_member *folder = opens_with(0, true);
    assert_true(add(folder, KEYS - BATCH));
    wait_for_acknowledged(SOME);
    assert_int_equal(kill(writer, SIGSTOP), 0);
    redisReply *r = client_command(&client, "KEYS tb:{f.*.*.*}:*");
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements > 1);
    freeReplyObject(client_command(&client, "DEL %b", r->element[0]->str, r->element[0]->len));
    freeReplyObject(r);
    (void)log_member_count(folder, KEYS, 1000, KEY_ABSENT); /* the folder meets the loss */
    wait_for_view(has_lost, NULL, "a lost shard");
    promote();
    end_writer(SIGKILL);
    uint64_t until = clock_mono_us() + WAIT_US;
    while (!add(folder, KEYS - 2 * BATCH) && clock_mono_us() < until)
        load();
    load();
    assert_int_equal(view->writer_count, 1);
    assert_true(view->degraded);
    assert_true(add(folder, KEYS - 3 * BATCH));
}

/* The writer's removal is in the lanes, and not folded yet, as another process has the lease. */
static void test_a_writer_that_is_being_removed_when_a_roll_call_comes__is_removed(void **state)
{
    struct error e = {""};
    struct lease lease;
    const struct lease_report none = {.folds = 0};
    (void)state;
    lease_init(&lease, l, &names, "somebody", 60 * 1000);
    start_writer();
    wait_for_acknowledged(SOME);
    must(lease_take(&lease, &none, &e), e);
    struct log_member *folder = opens(true);
    assert_true(add(folder, KEYS - BATCH));
    end_writer(SIGKILL);
    wait_for_view(has_doubt, NULL, "a doubt");
    clock_sleep_us(3 * GRACE_US);
    load();
    assert_int_equal(view->writer_count, 2);
    promote();
    uint64_t until = clock_mono_us() + WAIT_US;
    while (!add(folder, KEYS - 2 * BATCH) && clock_mono_us() < until)
        load();
    load();
    assert_int_equal(view->writer_count, 1);
    assert_true(view->degraded);
    lease_give_back(&lease);
    lease_fini(&lease);
    all_are_present(folder); /* here the keys were in the lane */
}

/* The writer wakes up with entries that were, or were not, sent and met before its removal. */
static void test_a_writer_that_only_slept__registers_again_and_nothing_is_lost(void **state)
{
    unsigned unsure = 0;
    (void)state;
    start_writer();
    struct log_member *folder = opens(true);
    assert_true(add(folder, KEYS - BATCH));
    for (unsigned round = 1; round <= 3; round++) {
        wait_for_acknowledged(round * SOME);
        wait_for_writers(2);
        assert_int_equal(kill(writer, SIGSTOP), 0);
        wait_for_writers(1);
        uint32_t at = atomic_load(&told->acknowledged); /* the same keys as it is about to add */
        for (unsigned i = 0; i < 5; i++)
            assert_true(add(folder, at + i * BATCH));
        assert_int_equal(kill(writer, SIGCONT), 0);
    }
    wait_for_acknowledged(4 * SOME);
    atomic_store(&told->stop, true);
    end_writer(0);
    all_are_present(folder);
    for (unsigned i = 0; i < told->acknowledged; i++) {
        if (told->news[i] + told->unsure[i] == 0 || told->news[i] > 1)
            fail_msg("key %u was new %u times", i, told->news[i]);
        unsure += told->unsure[i];
    }
    print_message("of %u keys %u were unsure\n", told->acknowledged, unsure);
    load();
    assert_false(view->degraded);
}

/* A writer without adds stays registered. */
static void test_a_writer_that_is_idle__stays_registered(void **state)
{
    (void)state;
    struct log_member *idle = opens(false), *folder = opens(true);
    assert_true(add(idle, 0) && add(folder, BATCH));
    load();
    for (uint64_t seen = 0; seen != view->version; load()) { /* until the folder has drawn its token */
        seen = view->version;
        clock_sleep_us(GRACE_US);
    }
    wait_for_writers(2);
    const struct log_writer *w = log_view_writer(view, idle->filter->writer);
    assert_non_null(w);
    uint64_t first = w->registration, version = view->version;
    uint64_t until = clock_mono_us() + 12 * GRACE_US; /* more than two rounds */
    while (clock_mono_us() < until) {
        load();
        assert_non_null(log_view_writer(view, idle->filter->writer));
        clock_sleep_us(5000);
    }
    assert_true(log_view_writer(view, idle->filter->writer)->registration > first);
    assert_true(view->version == version); /* nobody else has to do anything */
    assert_int_equal(log_member_added(idle, 2 * BATCH, BATCH), BATCH);
}

/* The same process has the same data, which is known, so nobody has to do anything, or to wait. */
static void test_the_first_replica__is_noticed_by_no_caller(void **state)
{
    static struct temp_redis replica;
    struct error e = {""};
    char port[8];
    (void)state;
    must(client_ok(&client, &e, "CONFIG SET repl-backlog-ttl 1"), e);
    start_writer();
    struct log_member *folder = opens(true);
    assert_true(add(folder, KEYS - BATCH));
    wait_for_acknowledged(SOME);
    load();
    uint64_t before = lanes_era(&client);
    (void)snprintf(port, sizeof(port), "%u", redis.port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    uint64_t calm = atomic_exchange(&told->worst_us, 0);
    must(temp_redis_start(&replica, extra, &e), e);
    wait_for_view(has_era_of_node, NULL, "the lanes' new replication ids");
    assert_true(lanes_era(&client) != before);
    wait_for_acknowledged(told->acknowledged + SOME);
    uint64_t worst = told->worst_us;
    atomic_store(&told->stop, true);
    end_writer(0);
    temp_redis_fini(&replica);
    print_message("the longest add took %u us before, and %u us beside the first replica\n", (unsigned)calm,
                  (unsigned)worst);
    assert_true(worst < 1000000); /* with sanitizers, on a busy machine */
    /* Redis 6 does not say that it has received nothing, so the writers are asked. */
    for (unsigned i = 0; i < told->acknowledged; i++)
        if (told->news[i] != 1 && !(temp_redis_is_before_7() && told->news[i] == 0 && told->unsure[i] == 1))
            fail_msg("key %u was new %u times, and unsure %u times", i, told->news[i], told->unsure[i]);
    all_are_present(folder);
    assert_false(view->degraded);
    assert_true(temp_redis_is_before_7() || (view->lane[0].number == 1 && view->lane[1].number == 1));
}

static redisReply *view_as_it_is(struct key_name *key)
{
    names_filter_key(&names, "view", key);
    redisReply *r = client_command(&client, "DUMP %b", key->text, key->length);
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    return r;
}

/* The metadata node went back to a time before the writer registered, and the writer is dead. Processes that
 * have seen it in the register enter it again, so that a roll call waits for it. */
static void test_a_registration_that_went_back__is_entered_by_those_who_saw_it(void **state)
{
    struct error e = {""};
    struct key_name key;
    (void)state;
    start_writer();
    wait_for_writers(0);
    redisReply *before = view_as_it_is(&key);
    struct log_member *other = opens(false);
    wait_for_acknowledged(SOME);
    assert_int_equal(log_member_count(other, 0, SOME, KEY_PRESENT), SOME);
    clock_sleep_us(GRACE_US); /* the other process has read the view by now */
    wait_for_writers(1);
    uint8_t id[LOG_WRITER_BYTES];
    memcpy(id, view->writer[0].id, sizeof(id));
    end_writer(SIGKILL);
    must(client_ok(&client, &e, "RESTORE %b 0 %b REPLACE", key.text, key.length, before->str, before->len),
         e);
    freeReplyObject(before);
    wait_for_writers(1);
    assert_memory_equal(view->writer[0].id, id, sizeof(id));
    promote();
    clock_sleep_us(GRACE_US);
    load();
    assert_true(view->lane[0].era != lanes_era(&client)); /* nobody accepts the id without the writer */
    (void)opens(true);
    wait_for_view(is_degraded, NULL, "degraded");
    all_are_present(other);
}

#define WRITERS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Another process has the lease, and would fold the few entries some seconds later. */
static void test_a_writer_that_leaves__does_not_wait_until_folding_is_due(void **state)
{
    enum {
        INTERVAL_US = 500 * 1000,
        LONG_US = 60 * 1000 * 1000,
        SOON_US = 2 * 1000 * 1000,
        FOLDS_US = 7000000
    };
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .writer_grace_us = LONG_US,
                                         .fold_interval_us = INTERVAL_US,
                                         .look_interval_us = GRACE_US,
                                         .folds = true};
    struct error e = {""};
    struct log_status s;
    (void)state;
    must(log_member_open(&member[opened++], &o, &e), e);
    assert_true(add(&member[0], 0));
    uint64_t until = clock_mono_us() + FOLDS_US; /* little is folded when it is ten intervals old */
    do {
        clock_sleep_us(20000);
        control_status(member[0].control, &s);
    } while (s.folder.report.folds == 0 && clock_mono_us() < until);
    assert_true(s.folder.report.folds > 0);
    must(log_member_open(&member[opened++], &o, &e), e); /* opened later, so it does not have the lease */
    assert_true(add(&member[1], BATCH));
    uint64_t began = clock_mono_us();
    log_member_close(&member[--opened]);
    assert_in_range(clock_mono_us() - began, 0, SOON_US);
    load();
    assert_int_equal(view->writer_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WRITERS_TEST(test_a_writer_that_was_killed__is_not_waited_for),
        WRITERS_TEST(test_a_writer_that_died_in_a_roll_call__degrades_the_filter),
        WRITERS_TEST(test_a_writer_that_died_in_a_roll_call_beside_a_loss__is_removed),
        WRITERS_TEST(test_a_writer_that_is_being_removed_when_a_roll_call_comes__is_removed),
        WRITERS_TEST(test_a_writer_that_only_slept__registers_again_and_nothing_is_lost),
        WRITERS_TEST(test_a_writer_that_is_idle__stays_registered),
        WRITERS_TEST(test_a_writer_that_leaves__does_not_wait_until_folding_is_due),
        WRITERS_TEST(test_the_first_replica__is_noticed_by_no_caller),
        WRITERS_TEST(test_a_registration_that_went_back__is_entered_by_those_who_saw_it),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
