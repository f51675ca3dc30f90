/* SPDX-License-Identifier: MIT */
/* The lease of an expansion job: it is taken, renewed, released, and lost by a holder that was stopped. */
#include "tests/integration/filters.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "expansion/record/mutex.h"

extern const char embedded_job[];

enum { LEASE_MS = 400, DEADLINE_MS = 10000 };

#define FLAG PREFIX ":{f}:expansion_flag"

static struct servers servers;
static struct filter f;

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
    filter_init(&f, &servers, "f");
    assert_int_equal(servers_integer(&servers, 0, "DEL " FLAG), 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    filter_fini(&f);
    return 0;
}

static enum err acquire(struct mutex **out, const char *filter, const char *owner, unsigned lease_ms,
                        struct error *e)
{
    const struct mutex_options o = {.nodes = &servers.nodes,
                                    .prefix = PREFIX,
                                    .filter = filter,
                                    .filter_length = strlen(filter),
                                    .owner = owner,
                                    .lease_ms = lease_ms,
                                    .redis_timeout_ms = SYNC_CLIENT_MS};
    *out = NULL;
    return mutex_acquire(out, &o, 0, e);
}

static const char *holder(void)
{
    return servers_text(&servers, 0, "GET " FLAG);
}

static void test_mutex_acquire__takes_the_key_and_release_deletes_it(void **state)
{
    (void)state;
    struct error e = {""};
    struct mutex *m;
    char token[64];
    must(acquire(&m, "f", "one", 60000, &e), e);
    (void)snprintf(token, sizeof(token), ":%llu", (unsigned long long)mutex_token(m));
    assert_memory_equal(mutex_value(m), "one/", 4);
    assert_string_equal(strchr(mutex_value(m), ':'), token);
    assert_string_equal(holder(), mutex_value(m));
    assert_in_range(servers_integer(&servers, 0, "PTTL " FLAG), 50000, 60000);
    assert_false(mutex_lost(m));
    mutex_release(m);
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " FLAG), 0);
    mutex_release(NULL);
}

static void test_mutex_acquire__says_who_holds_it(void **state)
{
    (void)state;
    struct error e = {""};
    struct mutex *first, *second, *other;
    char value[64];
    must(acquire(&first, "f", "one", 60000, &e), e);
    (void)snprintf(value, sizeof(value), "%s", mutex_value(first));
    gives(ERR_BUSY, acquire(&second, "f", "two", 60000, &e), e);
    assert_non_null(strstr(e.text, value));
    assert_null(second);
    gives(ERR_BUSY, acquire(&second, "f", "one", 60000, &e), e); /* even its owner gets it only once */
    assert_string_equal(holder(), value);
    must(acquire(&other, "g", "two", 60000, &e), e); /* each filter has its own mutex */
    mutex_release(other);
    assert_string_equal(holder(), value);
    mutex_release(first);
    must(acquire(&second, "f", "two", 60000, &e), e);
    mutex_release(second);
}

/* Its holder is gone, and its key was copied without a TTL, or the server's clock has gone back. */
static void test_mutex_look__ends_a_lease_that_does_not_end(void **state)
{
    (void)state;
    static const char *const without[] = {"PERSIST " FLAG, "PEXPIRE " FLAG " 7200000"};
    struct error e = {""};
    freeReplyObject(servers_command(&servers, 0, "SET " FLAG " gone/0000000000000001:1 PX 1000"));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(servers_integer(&servers, 0, without[i]), 1);
        gives(ERR_BUSY, mutex_look(f.handle.redis, &f.handle.names, &e), e);
        assert_non_null(strstr(e.text, "its lease: 60000 ms"));
        assert_in_range(servers_integer(&servers, 0, "PTTL " FLAG), 1, 60000);
    }
    clock_sleep_us(5000);
    gives(ERR_BUSY, mutex_look(f.handle.redis, &f.handle.names, &e), e);
    assert_true(servers_integer(&servers, 0, "PTTL " FLAG) < 60000); /* it is not renewed by a look */
    assert_int_equal(servers_integer(&servers, 0, "DEL " FLAG), 1);
}

static void test_mutex_acquire__gives_a_greater_token_each_time(void **state)
{
    (void)state;
    uint64_t before = 0;
    for (int i = 0; i < 20; i++) {
        struct error e = {""};
        struct mutex *m;
        must(acquire(&m, "f", i % 2 == 0 ? "one" : "two", 60000, &e), e);
        assert_true(mutex_token(m) > before);
        before = mutex_token(m);
        mutex_release(m);
    }
}

/* The counter's node may come back with older data, while a job of that time still runs. */
static void test_mutex_acquire__gives_no_value_twice_where_the_counter_goes_back(void **state)
{
    (void)state;
    struct error e = {""};
    struct mutex *m;
    char value[64];
    must(acquire(&m, "f", "one", 60000, &e), e);
    (void)snprintf(value, sizeof(value), "%s", mutex_value(m));
    uint64_t token = mutex_token(m);
    mutex_release(m);
    assert_string_equal(
        servers_text(&servers, 0, "SET " PREFIX ":{f}:token %llu", (unsigned long long)token - 1), "OK");
    must(acquire(&m, "f", "one", 60000, &e), e);
    assert_int_equal(mutex_token(m), token);
    assert_string_not_equal(mutex_value(m), value);
    mutex_release(m);
}

static void test_mutex_acquire__says_that_redis_is_away(void **state)
{
    (void)state;
    struct error e = {""};
    struct mutex *m;
    process_signal(&servers.redis[0].process, SIGSTOP);
    uint64_t began = clock_mono_us();
    enum err code = acquire(&m, "f", "one", 60000, &e);
    uint64_t took = clock_mono_us() - began;
    process_signal(&servers.redis[0].process, SIGCONT);
    if (code != ERR_TIMEOUT && code != ERR_UNREACHABLE)
        fail_msg("%s: %s", error_name(code), e.text);
    assert_in_range(took / 1000, 1000, 3 * SYNC_CLIENT_MS);
    assert_null(m);
}

static void test_mutex__is_renewed_for_as_long_as_it_is_held(void **state)
{
    (void)state;
    struct error e = {""};
    struct mutex *m, *other;
    must(acquire(&m, "f", "one", LEASE_MS, &e), e);
    uint64_t until = clock_mono_us() + 3u * LEASE_MS * 1000;
    while (clock_mono_us() < until) {
        gives(ERR_BUSY, acquire(&other, "f", "two", LEASE_MS, &e), e);
        clock_sleep_us(20000);
    }
    assert_false(mutex_lost(m));
    assert_string_equal(holder(), mutex_value(m));
    mutex_release(m);
}

/* --- a holder that is stopped --- */

/* Pipes for requests and answers of the child that holds the mutex. */
struct child {
    pid_t pid;
    int ask, answer;
    char value[64];
};

/* In the child: take the mutex and send its value. Then answer each 'l' with whether it is lost, and release
 * it at 'r'. */
static void hold(int ask, int answer)
{
    struct error e = {""};
    struct mutex *m;
    char request;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (acquire(&m, "f", "sleeper", LEASE_MS, &e) != ERR_OK)
        _exit(1);
    if (write(answer, mutex_value(m), strlen(mutex_value(m)) + 1) < 0)
        _exit(2);
    bool more = true;
    while (more && read(ask, &request, 1) == 1) {
        char lost = mutex_lost(m) ? '1' : '0';
        more = request != 'r';
        if (!more)
            mutex_release(m);
        more = write(answer, &lost, 1) == 1 && more;
    }
    if (more)
        mutex_release(m); /* ends the mutex's thread, too */
    _exit(0);
}

static void child_start(struct child *c)
{
    int ask[2], answer[2];
    assert_int_equal(pipe(ask), 0);
    assert_int_equal(pipe(answer), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        (void)close(ask[1]);
        (void)close(answer[0]);
        hold(ask[0], answer[1]);
    }
    (void)close(ask[0]);
    (void)close(answer[1]);
    c->ask = ask[1];
    c->answer = answer[0];
    ssize_t n = read(c->answer, c->value, sizeof(c->value));
    assert_true(n > 0 && c->value[n - 1] == '\0');
}

static char child_ask(const struct child *c, char request)
{
    char answer = '?';
    assert_int_equal(write(c->ask, &request, 1), 1);
    assert_int_equal(read(c->answer, &answer, 1), 1);
    return answer;
}

static void child_end(struct child *c)
{
    int status = -1;
    (void)close(c->ask);
    (void)close(c->answer);
    (void)kill(c->pid, SIGCONT);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_int_equal(status, 0);
}

/* Wait for the lease to end and take it. */
static struct mutex *take_over(struct error *e)
{
    struct mutex *m;
    uint64_t began = clock_mono_us();
    enum err code;
    while ((code = acquire(&m, "f", "next", 60000, e)) == ERR_BUSY) {
        assert_true(clock_mono_us() - began < DEADLINE_MS * 1000ull);
        clock_sleep_us(10000);
    }
    must(code, *e);
    assert_in_range((clock_mono_us() - began) / 1000, 0, LEASE_MS + 1000);
    return m;
}

static void child_wait_lost(const struct child *c)
{
    uint64_t until = clock_mono_us() + DEADLINE_MS * 1000ull;
    while (child_ask(c, 'l') != '1') {
        if (clock_mono_us() > until)
            fail_msg("the holder that was stopped never learned that its lease is another's");
        clock_sleep_us(10000);
    }
}

static void test_mutex__of_a_stopped_holder_expires_and_is_lost_when_it_wakes(void **state)
{
    (void)state;
    struct error e = {""};
    struct child c;
    uint64_t token = 0;
    child_start(&c);
    assert_memory_equal(c.value, "sleeper/", 8);
    const char *colon = strrchr(c.value, ':');
    assert_true(colon != NULL && number_u64(colon + 1, strlen(colon + 1), &token));
    assert_string_equal(holder(), c.value);
    assert_int_equal(child_ask(&c, 'l'), '0');
    assert_int_equal(kill(c.pid, SIGSTOP), 0);
    struct mutex *m = take_over(&e);
    assert_true(mutex_token(m) > token);
    assert_int_equal(kill(c.pid, SIGCONT), 0);
    child_wait_lost(&c);
    assert_string_equal(holder(), mutex_value(m));
    assert_int_equal(child_ask(&c, 'r'), '1'); /* the release deletes nothing of the new holder */
    assert_string_equal(holder(), mutex_value(m));
    assert_false(mutex_lost(m));
    child_end(&c);
    mutex_release(m);
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " FLAG), 0);
}

static long long job_script(const char *mutex, const char *field, const char *value)
{
    static const char *const keys[] = {"expansion_flag", "job"};
    const char *const arguments[] = {mutex, "0", field, value};
    struct error e = {""};
    long long answer = 99;
    script_begin(&f.handle.call, embedded_job);
    for (size_t i = 0; i < 2; i++) {
        struct key_name name;
        names_filter_key(&f.handle.names, keys[i], &name);
        script_key(&f.handle.call, &name);
    }
    for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
        script_text(&f.handle.call, arguments[i]);
    must(script_run(&f.handle.call, f.handle.redis, handle_home(&f.handle), &answer, &e), e);
    return answer;
}

static void test_mutex__guards_the_record(void **state)
{
    (void)state;
    struct error e = {""};
    struct mutex *m;
    must(acquire(&m, "f", "one", 60000, &e), e);
    assert_int_equal(job_script(mutex_value(m), "last_id", "10"), 1);
    assert_int_equal(job_script("one:0", "last_id", "5"), -1);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:job last_id"), "10");
    char old[64];
    (void)snprintf(old, sizeof(old), "%s", mutex_value(m));
    mutex_release(m);
    assert_int_equal(job_script(old, "last_id", "5"), -1);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:job last_id"), "10");
}

static void test_mutex_release__wakes_who_waits_for_it(void **state)
{
    (void)state;
    struct error e = {""};
    struct mutex *m;
    struct client waiter;
    must(client_open(&waiter, servers.redis[0].port, 5000, &e), e);
    freeReplyObject(client_command(&waiter, "SUBSCRIBE " PREFIX ":events"));
    must(acquire(&m, "f", "one", 60000, &e), e);
    mutex_release(m);
    redisReply *r = NULL;
    assert_int_equal(redisGetReply(waiter.redis, (void **)&r), REDIS_OK);
    assert_int_equal(r->elements, 3);
    assert_string_equal(r->element[2]->str, "released f");
    freeReplyObject(r);
    client_close(&waiter);
}

/* The key is deleted (by FLUSHALL): nobody else has the mutex, but the holder has lost it. */
static void test_mutex__is_lost_when_its_key_is_gone(void **state)
{
    (void)state;
    struct error e = {""};
    struct mutex *m;
    must(acquire(&m, "f", "one", LEASE_MS, &e), e);
    assert_int_equal(servers_integer(&servers, 0, "DEL " FLAG), 1);
    uint64_t until = clock_mono_us() + DEADLINE_MS * 1000ull;
    while (!mutex_lost(m)) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(10000);
    }
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " FLAG), 0);
    mutex_release(m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_mutex_acquire__takes_the_key_and_release_deletes_it),
        TEST(test_mutex_acquire__says_who_holds_it),
        TEST(test_mutex_look__ends_a_lease_that_does_not_end),
        TEST(test_mutex_acquire__gives_a_greater_token_each_time),
        TEST(test_mutex_acquire__gives_no_value_twice_where_the_counter_goes_back),
        TEST(test_mutex_acquire__says_that_redis_is_away),
        TEST(test_mutex__is_renewed_for_as_long_as_it_is_held),
        TEST(test_mutex__of_a_stopped_holder_expires_and_is_lost_when_it_wakes),
        TEST(test_mutex__guards_the_record),
        TEST(test_mutex_release__wakes_who_waits_for_it),
        TEST(test_mutex__is_lost_when_its_key_is_gone),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
