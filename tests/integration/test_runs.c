/* SPDX-License-Identifier: MIT */
/* Commands of a pipeline that differ only in their key are started together as a run (client_run_take()).
 * Clients do not notice: each command has its own reply, in the order of the commands, and replies of present
 * keys do not wait for those of absent ones. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/integration/scrape.h"
#include "tests/lib/raw.h"

static struct fixture fixture;

enum { TIMEOUT_MS = 3000, MANY = 1000 };

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1});
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .service = "timeout = 3s\nin_flight_max = 64\n",
                                     .redis = "timeout = 20s\n"};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture_reconnect(&fixture, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static int open_client(void)
{
    int fd = raw_open(fixture.daemon[0].port);
    assert_true(fd >= 0);
    return fd;
}

/* Append the commands of @text, one a line, as arrays of words. */
static void put(struct buffer *out, const char *text)
{
    char *copy = strdup(text), *lines = NULL, *words = NULL;
    assert_non_null(copy);
    for (char *line = strtok_r(copy, "\n", &lines); line != NULL; line = strtok_r(NULL, "\n", &lines)) {
        const char *argv[8];
        size_t argc = 0, lengths[8];
        for (char *word = strtok_r(line, " ", &words); word != NULL; word = strtok_r(NULL, " ", &words)) {
            argv[argc] = word;
            lengths[argc++] = strlen(word);
        }
        buffer_command(out, argc, argv, lengths);
    }
    free(copy);
}

static void send_all(int fd, struct buffer *b)
{
    assert_false(buffer_failed(b));
    assert_true(raw_send(fd, b->data, b->length));
    buffer_fini(b);
}

/* Send the commands of @text in one write. */
static void pipe_to(int fd, const char *text)
{
    struct buffer b = {0};
    put(&b, text);
    send_all(fd, &b);
}

static void says(const char *text, const char *reply)
{
    int fd = open_client();
    pipe_to(fd, text);
    if (!raw_expect(fd, reply))
        fail_msg("wrong replies to: %s", text);
    raw_close(fd);
}

/* --- order --- */

static void test_pipelines__keep_the_order_of_found_and_absent(void **state)
{
    (void)state;
    says("BF.RESERVE order 0.001 1000\nBF.ADD order k1\nBF.ADD order k2\nBF.ADD order k333",
         "+OK\r\n:1\r\n:1\r\n:1\r\n");
    says("BF.EXISTS order k1\nBF.EXISTS order none\nBF.EXISTS order k2\nBF.EXISTS order nil\nBF.EXISTS order "
         "k333\n",
         ":1\r\n:0\r\n:1\r\n:0\r\n:1\r\n");
    says(
        "BF.EXISTS order none\nBF.EXISTS order k1\nPING\nBF.EXISTS order k2\nBF.EXISTS order nil\nECHO word\n"
        "BF.MEXISTS order k1 nil k2\nBF.EXISTS order k2\nBF.EXISTS other k2\nBF.EXISTS other k1\nBF.EXISTS "
        "order k1",
        ":0\r\n:1\r\n+PONG\r\n:1\r\n:0\r\n$4\r\nword\r\n*3\r\n:1\r\n:0\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1\r\n");
    says("bf.exists order k1\nbf.exists order none\nBF.EXISTS order k2\nBF.EXISTS order\nBF.EXISTS order "
         "k1\nBF.EXISTS order nil",
         ":1\r\n:0\r\n:1\r\n-ERR wrong number of arguments for 'bf.exists' command\r\n:1\r\n:0\r\n");
    says("MULTI\nBF.EXISTS order k1\nBF.EXISTS order none\nEXEC\nBF.EXISTS order none\nBF.EXISTS order k1",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:0\r\n:0\r\n:1\r\n");
}

static void test_resp3__has_booleans_in_a_run_too(void **state)
{
    (void)state;
    char hello[2048];
    says("BF.ADD three k1", ":1\r\n");
    int fd = open_client();
    assert_true(raw_puts(fd, "HELLO 3\r\n"));
    assert_true(raw_read_until(fd, "$7\r\nmodules\r\n*0\r\n", hello, sizeof(hello)));
    pipe_to(fd,
            "BF.EXISTS three k1\nBF.EXISTS three none\nBF.ADD three k1\nBF.ADD three k2\nBF.ADD three k2");
    assert_true(raw_expect(fd, "#t\r\n#f\r\n#f\r\n#t\r\n#f\r\n"));
    raw_close(fd);
}

static void test_adds__are_new_once_and_found_by_what_is_behind_them_alone(void **state)
{
    (void)state;
    says("BF.ADD adds aa\nBF.ADD adds aa\nBF.ADD adds bb\nBF.ADD adds aa\nBF.ADD adds cc",
         ":1\r\n:0\r\n:1\r\n:0\r\n:1\r\n");
    says("BF.EXISTS adds dd\nBF.EXISTS adds ee\nBF.ADD adds dd\nBF.ADD adds ee\nBF.ADD adds dd\nBF.EXISTS "
         "adds ee\nBF.EXISTS adds dd",
         ":0\r\n:0\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n");
}

/* More commands than a run has, and more than may be in flight. The data are cut at any byte. */
static void test_long_pipelines__have_a_reply_for_each(void **state)
{
    (void)state;
    char line[64], none[64];
    struct buffer adds = {0}, checks = {0}, ones = {0}, wanted = {0};
    says("BF.RESERVE long 0.00001 10000", "+OK\r\n");
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(line, sizeof(line), "BF.ADD long key:%u", i);
        put(&adds, line);
        (void)snprintf(line, sizeof(line), "BF.EXISTS long key:%u", i);
        (void)snprintf(none, sizeof(none), "BF.EXISTS long no:%u", i);
        put(&checks, i % 3 == 0 ? none : line);
        buffer_puts(&ones, ":1\r\n");
        buffer_puts(&wanted, i % 3 == 0 ? ":0\r\n" : ":1\r\n");
    }
    int fd = open_client();
    send_all(fd, &adds);
    assert_true(raw_expect(fd, buffer_text(&ones)));
    size_t half = checks.length / 2 + 1;
    assert_true(raw_send(fd, checks.data, half));
    assert_true(raw_send(fd, checks.data + half, checks.length - half));
    assert_true(raw_expect(fd, buffer_text(&wanted)));
    for (size_t at = 0; at < checks.length; at += 7) /* no piece is a whole command */
        assert_true(raw_send(fd, checks.data + at, checks.length - at < 7 ? checks.length - at : 7));
    assert_true(raw_expect(fd, buffer_text(&wanted)));
    raw_close(fd);
    buffer_fini(&checks);
    buffer_fini(&ones);
    buffer_fini(&wanted);
}

/* --- filters that change --- */

static void test_a_filter__may_be_deleted_and_made_between_two_runs(void **state)
{
    (void)state;
    says("BF.ADD again k1\nBF.ADD again k2\nBF.EXISTS again k1\nBF.EXISTS again k2\nDEL again\nBF.EXISTS "
         "again k1\nBF.EXISTS again k2\n"
         "BF.ADD again k2\nBF.ADD again k2\nBF.EXISTS again k1\nBF.EXISTS again k2",
         ":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1\r\n:0\r\n:0\r\n:1\r\n");
}

static void test_a_filter__may_grow_in_a_run(void **state)
{
    (void)state;
    char line[64];
    struct buffer adds = {0}, checks = {0}, ones = {0};
    says("BF.RESERVE grows 0.00001 16", "+OK\r\n");
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(line, sizeof(line), "BF.ADD grows key:%u", i);
        put(&adds, line);
        (void)snprintf(line, sizeof(line), "BF.EXISTS grows key:%u", i);
        put(&checks, line);
        buffer_puts(&ones, ":1\r\n");
    }
    int fd = open_client();
    send_all(fd, &adds);
    assert_true(raw_expect(fd, buffer_text(&ones)));
    send_all(fd, &checks);
    assert_true(raw_expect(fd, buffer_text(&ones)));
    raw_close(fd);
    buffer_fini(&ones);
}

#define FULL "-ERR non scaling filter is full\r\n"

static void test_a_full_filter__refuses_each_key_of_a_run_by_itself(void **state)
{
    (void)state;
    says("BF.RESERVE full 0.00001 4 NONSCALING\nBF.ADD full k1\nBF.ADD full k2\nBF.ADD full k3\nBF.ADD full "
         "k4",
         "+OK\r\n:1\r\n:1\r\n:1\r\n:1\r\n");
    says("BF.ADD full k5\nBF.ADD full k1\nBF.ADD full k6\nBF.ADD full k2\nBF.EXISTS full k5\nBF.EXISTS full "
         "k1",
         FULL ":0\r\n" FULL ":0\r\n:0\r\n:1\r\n");
}

/* --- a node that does not answer --- */

static uint64_t since_ms(uint64_t from)
{
    return (clock_mono_us() - from) / 1000;
}

#define TOOK "-TIMEOUT"

/* Each of the next @count commands has timed out. */
static bool are_late(int fd, unsigned count)
{
    char line[512];
    while (count > 0 && raw_read_until(fd, "\r\n", line, sizeof(line)) &&
           strncmp(line, TOOK, sizeof(TOOK) - 1) == 0)
        count--;
    return count == 0;
}

/* Without shards in memory, no key is found before blocks are read. Then each command of the run times
 * out. */
static void test_what_was_found__does_not_wait_for_a_node(void **state)
{
    (void)state;
    bool memory = fixture_has_memory();
    says("BF.ADD away k1\nBF.ADD away k2\nBF.ADD away k3\nBF.EXISTS away k1\nBF.EXISTS away none",
         ":1\r\n:1\r\n:1\r\n:1\r\n:0\r\n");
    process_signal(&fixture.redis[0].process, SIGSTOP);
    uint64_t from = clock_mono_us();
    int fd = open_client();
    pipe_to(
        fd,
        "BF.EXISTS away k1\nBF.EXISTS away k2\nBF.EXISTS away none\nBF.EXISTS away k3\nBF.EXISTS away nil");
    bool found = !memory || raw_expect(fd, ":1\r\n:1\r\n");
    uint64_t took = since_ms(from);
    bool all = memory ? are_late(fd, 1) && raw_expect(fd, ":1\r\n") && are_late(fd, 1) : are_late(fd, 5);
    uint64_t whole = since_ms(from);
    process_signal(&fixture.redis[0].process, SIGCONT);
    assert_true(found && all);
    assert_true(took < TIMEOUT_MS / 2 && whole >= TIMEOUT_MS - 100);
    pipe_to(fd, "BF.EXISTS away none\nBF.EXISTS away k3");
    assert_true(raw_expect(fd, ":0\r\n:1\r\n"));
    raw_close(fd);
}

#define CHECKS(outcome) "twinbloom_requests_total{command=\"BF.EXISTS\",outcome=\"" outcome "\"}"

static double checks(const char *series)
{
    double n = scraped(&fixture.daemon[0], series);
    return n > 0 ? n : 0;
}

static void test_each_command_of_a_run__is_counted(void **state)
{
    (void)state;
    double ok = checks(CHECKS("ok"));
    says("BF.ADD counted k1\nBF.EXISTS counted k1\nBF.EXISTS counted none\nBF.EXISTS counted k1\nBF.EXISTS "
         "counted nil",
         ":1\r\n:1\r\n:0\r\n:1\r\n:0\r\n");
    scrape_wait(&fixture.daemon[0], CHECKS("ok"), ok + 4);
}

/* If shards are in memory, one of the four commands has its reply before. */
static void test_a_client_that_is_killed_while_it_waits__is_gone(void **state)
{
    (void)state;
    char list[4096], line[64];
    bool memory = fixture_has_memory();
    double cancelled = checks(CHECKS("cancelled"));
    says("BF.ADD killed k1\nBF.EXISTS killed k1\nBF.EXISTS killed none", ":1\r\n:1\r\n:0\r\n");
    int fd = open_client(), other = open_client();
    pipe_to(fd, "CLIENT ID");
    assert_true(raw_read_until(fd, "\r\n", list, sizeof(list)));
    process_signal(&fixture.redis[0].process, SIGSTOP);
    pipe_to(fd, "BF.EXISTS killed k1\nBF.EXISTS killed none\nBF.EXISTS killed k1\nBF.EXISTS killed nil");
    bool found = !memory || raw_expect(fd, ":1\r\n");
    (void)snprintf(line, sizeof(line), "CLIENT KILL ID %lu", strtoul(list + 1, NULL, 10));
    pipe_to(other, line);
    bool killed = raw_expect(other, ":1\r\n");
    bool closed = raw_expect_close(fd);
    process_signal(&fixture.redis[0].process, SIGCONT);
    assert_true(found && killed && closed);
    scrape_wait(&fixture.daemon[0], CHECKS("cancelled"), cancelled + (memory ? 3 : 4));
    pipe_to(other, "BF.EXISTS killed none\nBF.EXISTS killed k1");
    assert_true(raw_expect(other, ":0\r\n:1\r\n"));
    raw_close(fd);
    raw_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipelines__keep_the_order_of_found_and_absent),
        cmocka_unit_test(test_resp3__has_booleans_in_a_run_too),
        cmocka_unit_test(test_adds__are_new_once_and_found_by_what_is_behind_them_alone),
        cmocka_unit_test(test_long_pipelines__have_a_reply_for_each),
        cmocka_unit_test(test_a_filter__may_be_deleted_and_made_between_two_runs),
        cmocka_unit_test(test_a_filter__may_grow_in_a_run),
        cmocka_unit_test(test_a_full_filter__refuses_each_key_of_a_run_by_itself),
        cmocka_unit_test(test_what_was_found__does_not_wait_for_a_node),
        cmocka_unit_test(test_each_command_of_a_run__is_counted),
        cmocka_unit_test(test_a_client_that_is_killed_while_it_waits__is_gone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
