/* SPDX-License-Identifier: MIT */
/* Waiting for the mutex: its release or the end of the lease wakes the waiter, without polling. */
#include "tests/integration/filters.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "expansion/record/mutex.h"

/* TRIES: on a busy machine the event may be over before it is seen; then the test starts again. */
enum { LONG_MS = 60000, WAIT_MS = 20000, ROUNDS = 5, ROUNDS_MOST = 50, TRIES = 10 };

#define FLAG PREFIX ":{f}:expansion_flag"

static struct servers servers;

static int start(void **state)
{
    (void)state;
    return servers_start(&servers, 1);
}

static int stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    return 0;
}

static struct mutex_options options_of(const struct nodes *nodes, const char *owner)
{
    return (struct mutex_options){.nodes = nodes,
                                  .prefix = PREFIX,
                                  .filter = "f",
                                  .filter_length = 1,
                                  .owner = owner,
                                  .lease_ms = LONG_MS,
                                  .redis_timeout_ms = SYNC_CLIENT_MS};
}

/* Calls of @command since CONFIG RESETSTAT. */
static unsigned calls(const char *command)
{
    char field[64];
    redisReply *r = client_command(&servers.client[0], "INFO commandstats");
    assert_non_null(r);
    (void)snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    const char *at = strstr(r->str, field);
    unsigned n = at == NULL ? 0 : (unsigned)strtoul(at + strlen(field), NULL, 10);
    freeReplyObject(r);
    return n;
}

static void reset_calls(void)
{
    assert_string_equal(servers_text(&servers, 0, "CONFIG RESETSTAT"), "OK");
}

/* A thread that waits for the mutex. */
struct waiter {
    struct nodes nodes;
    struct mutex *mutex;
    enum err code;
    struct error error;
    uint64_t began, ended;
    unsigned wait_ms;
    pthread_t thread;
};

static void *wait_in_thread(void *arg)
{
    struct waiter *w = arg;
    const struct mutex_options o = options_of(&w->nodes, "waiter");
    w->began = clock_mono_us();
    w->code = mutex_acquire(&w->mutex, &o, w->wait_ms, &w->error);
    w->ended = clock_mono_us();
    return NULL;
}

static void waiter_start(struct waiter *w, unsigned wait_ms)
{
    *w = (struct waiter){.nodes = servers.nodes, .wait_ms = wait_ms};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_in_thread, w), 0);
}

/* Start a waiter and wait until it has tried without a subscription, and with one. */
static void waiter_waits(struct waiter *w, unsigned wait_ms)
{
    unsigned before = calls("eval");
    waiter_start(w, wait_ms);
    for (uint64_t until = clock_mono_us() + WAIT_MS * 1000ull; calls("eval") < before + 2;) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(2000);
    }
}

static uint64_t waiter_ms(const struct waiter *w, uint64_t since)
{
    return (w->ended - since) / 1000;
}

/* Join the thread, which must have got the mutex, and release the mutex. */
static void waiter_gets_it(struct waiter *w)
{
    (void)pthread_join(w->thread, NULL);
    must(w->code, w->error);
    assert_string_equal(servers_text(&servers, 0, "GET " FLAG), mutex_value(w->mutex));
    assert_memory_equal(mutex_value(w->mutex), "waiter/", 7);
    mutex_release(w->mutex);
}

static struct mutex *hold(void)
{
    struct error e = {""};
    struct mutex *m;
    const struct mutex_options o = options_of(&servers.nodes, "holder");
    must(mutex_acquire(&m, &o, 0, &e), e);
    return m;
}

static void hold_by_key(unsigned lease_ms)
{
    assert_string_equal(servers_text(&servers, 0, "SET " FLAG " dead:1 PX %u", lease_ms), "OK");
}

/* --- */

static void test_mutex_wait__takes_a_free_mutex_without_a_subscription(void **state)
{
    (void)state;
    struct waiter w;
    reset_calls();
    waiter_start(&w, WAIT_MS);
    waiter_gets_it(&w);
    assert_int_equal(calls("subscribe"), 0);
    assert_int_equal(calls("eval"), 2); /* taken and released */
}

static void test_mutex_wait__is_woken_by_the_release_and_asks_a_handful_of_times(void **state)
{
    (void)state;
    uint64_t best_us = UINT64_MAX;
    for (int i = 0; i < ROUNDS || (best_us > 20 * 1000 && i < ROUNDS_MOST); i++) {
        struct waiter w;
        struct mutex *m = hold();
        reset_calls();
        waiter_waits(&w, WAIT_MS);
        clock_sleep_us(300 * 1000); /* with 20 ms between tries there would be 15 */
        uint64_t released = clock_mono_us();
        mutex_release(m);
        (void)pthread_join(w.thread, NULL);
        /* Two tries before the wait, the holder's release, a third try. */
        assert_int_equal(calls("eval"), 4);
        assert_int_equal(calls("subscribe"), 1);
        must(w.code, w.error);
        uint64_t took = w.ended - released;
        mutex_release(w.mutex);
        assert_in_range(took / 1000, 0, LONG_MS / 4); /* the lease is a minute */
        best_us = took < best_us ? took : best_us;
    }
    assert_in_range(best_us, 0, 20 * 1000);
}

static void test_mutex_wait__ends_with_the_lease_of_a_holder_that_died(void **state)
{
    (void)state;
    enum { LEASE_MS = 650 };
    struct waiter w;
    uint64_t took;
    unsigned asked, tries = 0;
    do {
        uint64_t held = clock_mono_us();
        hold_by_key(LEASE_MS);
        reset_calls();
        waiter_start(&w, WAIT_MS);
        (void)pthread_join(w.thread, NULL);
        must(w.code, w.error);
        asked = calls("eval");
        took = waiter_ms(&w, held);
        mutex_release(w.mutex);
        assert_in_range(took, LEASE_MS - 1, WAIT_MS);
        assert_in_range(asked, 1, 4);
    } while ((asked < 3 || took > LEASE_MS + 1000) && ++tries < TRIES);
    assert_in_range(asked, 3, 4);
    assert_in_range(took, LEASE_MS - 1, LEASE_MS + 1000);
}

static void test_mutex_wait__follows_a_lease_that_is_renewed(void **state)
{
    (void)state;
    struct waiter w;
    uint64_t renewed, took;
    long long still;
    unsigned tries = 0;
    do {
        hold_by_key(400);
        waiter_waits(&w, WAIT_MS);
        renewed = clock_mono_us();
        still = servers_integer(&servers, 0, "PEXPIRE " FLAG " 600"); /* 0: the lease was over */
        waiter_gets_it(&w);
        took = waiter_ms(&w, renewed);
    } while ((still == 0 || took > 2000) && ++tries < TRIES);
    assert_int_equal(still, 1);
    assert_in_range(took, 590, 2000);
}

static void test_mutex_wait__names_the_holder_when_its_deadline_passes(void **state)
{
    (void)state;
    struct waiter w;
    struct mutex *m = hold();
    unsigned asked, tries = 0;
    do {
        reset_calls();
        waiter_start(&w, 400);
        (void)pthread_join(w.thread, NULL);
        gives(ERR_BUSY, w.code, w.error);
        assert_null(w.mutex);
        assert_non_null(strstr(w.error.text, "waited 400 ms"));
        assert_non_null(strstr(w.error.text, mutex_value(m)));
        asked = calls("eval");
        assert_in_range(waiter_ms(&w, w.began), 400, WAIT_MS);
    } while ((asked < 3 || waiter_ms(&w, w.began) > 2000) && ++tries < TRIES);
    assert_in_range(waiter_ms(&w, w.began), 400, 2000);
    assert_int_equal(asked, 3); /* the last try when the deadline passed */
    assert_string_equal(servers_text(&servers, 0, "GET " FLAG), mutex_value(m));
    mutex_release(m);
}

static void test_mutex_wait__does_not_ask_when_another_filter_is_released(void **state)
{
    (void)state;
    struct waiter w;
    struct mutex *m = hold();
    waiter_waits(&w, WAIT_MS);
    reset_calls();
    assert_int_equal(servers_integer(&servers, 0, "PUBLISH " PREFIX ":events %s", "released ff"), 1);
    assert_int_equal(servers_integer(&servers, 0, "PUBLISH " PREFIX ":events %s", "view f"), 1);
    assert_int_equal(servers_integer(&servers, 0, "PUBLISH " PREFIX ":events %s", "released "), 1);
    clock_sleep_us(100 * 1000);
    assert_int_equal(calls("eval"), 0);
    mutex_release(m);
    waiter_gets_it(&w);
}

static void wait_for_subscriber(void)
{
    const char *channel = PREFIX ":events";
    for (uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;; clock_sleep_us(5000)) {
        redisReply *r = client_command(&servers.client[0], "PUBSUB NUMSUB %s", channel);
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 2);
        bool there = r->element[1]->integer == 1;
        freeReplyObject(r);
        if (there)
            return;
        assert_true(clock_mono_us() < until);
    }
}

static void test_mutex_wait__subscribes_anew_where_its_connection_breaks(void **state)
{
    (void)state;
    struct waiter w;
    struct mutex *m = hold();
    waiter_waits(&w, LONG_MS / 2);
    for (int i = 0; i < 3; i++) {
        wait_for_subscriber();
        assert_int_equal(servers_integer(&servers, 0, "CLIENT KILL TYPE pubsub"), 1);
    }
    wait_for_subscriber();
    mutex_release(m); /* else the waiter would only end at its deadline */
    waiter_gets_it(&w);
}

static void test_mutex_wait__says_that_redis_is_away(void **state)
{
    (void)state;
    enum { GIVEN_MS = 600 };
    struct waiter w;
    struct mutex *m = hold();
    unsigned tries = 0;
    do { /* ERR_BUSY: the waiter's time was over before Redis was stopped */
        waiter_waits(&w, GIVEN_MS);
        process_signal(&servers.redis[0].process, SIGSTOP);
        (void)pthread_join(w.thread, NULL);
        process_signal(&servers.redis[0].process, SIGCONT);
    } while ((w.code == ERR_BUSY || waiter_ms(&w, w.began) > 3 * SYNC_CLIENT_MS) && ++tries < TRIES);
    if (w.code != ERR_TIMEOUT && w.code != ERR_UNREACHABLE)
        fail_msg("%s: %s", error_name(w.code), w.error.text);
    assert_in_range(waiter_ms(&w, w.began), GIVEN_MS, 3 * SYNC_CLIENT_MS);
    mutex_release(m);
}

/* --- a user that may not subscribe --- */

static unsigned lines_with(const char *path, const char *word)
{
    char line[1024];
    unsigned n = 0;
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, word) != NULL;
    (void)fclose(f);
    return n;
}

static void test_mutex_wait__without_pubsub_ends_with_the_lease_and_says_so_once(void **state)
{
    (void)state;
    char path[PATH_MAX + 8];
    struct waiter w[2];
    uint64_t took[2];
    unsigned asked = 0;
    (void)snprintf(path, sizeof(path), "%s/stderr", servers.redis[0].directory);
    assert_string_equal(servers_text(&servers, 0, "ACL SETUSER deaf on >secret ~* &* +@all -subscribe"),
                        "OK");
    (void)fflush(stderr);
    int kept = dup(STDERR_FILENO);
    assert_non_null(freopen(path, "we", stderr));
    for (unsigned i = 0, tries = 0; i < 2; i += took[i] <= 3000 && asked >= 4 ? 1 : ++tries / TRIES) {
        uint64_t held = clock_mono_us();
        hold_by_key(700);
        w[i] = (struct waiter){.nodes = servers.nodes, .wait_ms = WAIT_MS};
        (void)snprintf(w[i].nodes.node[0].user, sizeof(w[i].nodes.node[0].user), "deaf");
        (void)snprintf(w[i].nodes.node[0].password, sizeof(w[i].nodes.node[0].password), "secret");
        reset_calls();
        (void)wait_in_thread(&w[i]);
        took[i] = waiter_ms(&w[i], held);
        if (w[i].code == ERR_OK)
            mutex_release(w[i].mutex);
        asked = calls("eval");
    }
    (void)fflush(stderr);
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    for (int i = 0; i < 2; i++) {
        must(w[i].code, w[i].error);
        assert_in_range(took[i], 699, 3000);
    }
    assert_in_range(asked, 4, 5); /* two tries, perhaps one just too early, the successful one, the release */
    assert_int_equal(lines_with(path, "event=mutex_subscription_failed"), 1);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_mutex_wait__takes_a_free_mutex_without_a_subscription),
        TEST(test_mutex_wait__is_woken_by_the_release_and_asks_a_handful_of_times),
        TEST(test_mutex_wait__ends_with_the_lease_of_a_holder_that_died),
        TEST(test_mutex_wait__follows_a_lease_that_is_renewed),
        TEST(test_mutex_wait__names_the_holder_when_its_deadline_passes),
        TEST(test_mutex_wait__does_not_ask_when_another_filter_is_released),
        TEST(test_mutex_wait__subscribes_anew_where_its_connection_breaks),
        TEST(test_mutex_wait__says_that_redis_is_away),
        TEST(test_mutex_wait__without_pubsub_ends_with_the_lease_and_says_so_once),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
