/* SPDX-License-Identifier: MIT */
/* twinbloom bench against a server of BF.* that is not Twinbloom: it has RedisBloom's commands and error
 * texts, and no TB.*. */
#include "tests/integration/responder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/buffer.h"

enum { KEYS = 4096, CONNECTIONS = 64 };

enum mood { SOUND, WITHOUT_INFO, TAKEN, OTHER_TYPE, ELSEWHERE, FORGETFUL, FULL, READ_ONLY };

static struct peer {
    struct responder address; /* only its port is used */
    int listener;
    pthread_t thread, serving[CONNECTIONS];
    size_t connections;
    _Atomic enum mood mood;
    atomic_bool in[KEYS];
    atomic_uint reserved, deleted, looks, strange;
} peer;

/* --- the server --- */

/* The number, below 64 * 64, from which bench_key() made @key. */
static size_t number_of(const char *key)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    return (size_t)(strchr(digits, key[0]) - digits) + 64 * (size_t)(strchr(digits, key[1]) - digits);
}

static void add(struct buffer *b, const char *key, size_t at)
{
    if (peer.mood == FULL && at == 3)
        buffer_puts(b, "-ERR non scaling filter is full\r\n");
    else if (atomic_exchange(&peer.in[number_of(key)], true))
        buffer_puts(b, ":0\r\n");
    else
        buffer_puts(b, ":1\r\n");
}

static void check(struct buffer *b, const char *key)
{
    bool in = peer.mood != FORGETFUL && atomic_load(&peer.in[number_of(key)]);
    buffer_puts(b, in ? ":1\r\n" : ":0\r\n");
}

static void answer_keys(const redisReply *command, struct buffer *b)
{
    const char *name = command->element[0]->str;
    bool many = name[3] == 'M', adds = strcmp(name + 3 + many, "ADD") == 0;
    size_t count = command->elements - 2;
    if (adds && !many && peer.mood == READ_ONLY) {
        buffer_puts(b, "-READONLY You can't write against a read only replica.\r\n");
        return;
    }
    if (adds && many && peer.mood == FULL && count > 4)
        count = 4; /* the reply ends with the error */
    if (many)
        buffer_printf(b, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        adds ? add(b, command->element[2 + i]->str, i) : check(b, command->element[2 + i]->str);
}

static void answer_reserve(const redisReply *command, struct buffer *b)
{
    atomic_fetch_add(&peer.reserved, 1);
    if (peer.mood == TAKEN)
        buffer_puts(b, "-ERR item exists\r\n");
    else if (peer.mood == OTHER_TYPE)
        buffer_puts(b, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    else if (peer.mood == ELSEWHERE)
        buffer_puts(b, "-MOVED 9834 10.0.0.2:6379\r\n");
    else if (command->elements != 4)
        buffer_puts(b, "-ERR wrong number of arguments for 'BF.RESERVE' command\r\n");
    else
        buffer_puts(b, "+OK\r\n");
}

/* Each call reports a quarter of a second more of both processor times. */
static void answer_info(struct buffer *b)
{
    char text[128];
    double used = 0.25 * (1 + atomic_fetch_add(&peer.looks, 1));
    int length = snprintf(text, sizeof(text),
                          "# CPU\r\nused_cpu_sys:%.6f\r\nused_cpu_user:%.6f\r\nused_cpu_sys_children:7.0\r\n",
                          used, used);
    buffer_printf(b, "$%d\r\n%s\r\n", length, text);
}

static void answer(const redisReply *command, struct buffer *b)
{
    const char *name = command->element[0]->str;
    if (strcmp(name, "BF.RESERVE") == 0) {
        answer_reserve(command, b);
    } else if (strcmp(name, "BF.ADD") == 0 || strcmp(name, "BF.MADD") == 0 ||
               strcmp(name, "BF.EXISTS") == 0 || strcmp(name, "BF.MEXISTS") == 0) {
        answer_keys(command, b);
    } else if (strcmp(name, "DEL") == 0) {
        atomic_fetch_add(&peer.deleted, 1);
        buffer_puts(b, ":1\r\n");
    } else if (strcmp(name, "INFO") == 0 && peer.mood != WITHOUT_INFO) {
        answer_info(b);
    } else {
        if (strcmp(name, "INFO") != 0)
            atomic_fetch_add(&peer.strange, 1);
        buffer_printf(b, "-ERR unknown command '%s', with args beginning with: \r\n", name);
    }
}

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    redisReader *reader = redisReaderCreate();
    char bytes[65536];
    ssize_t n;
    while ((n = read(fd, bytes, sizeof(bytes))) > 0 &&
           redisReaderFeed(reader, bytes, (size_t)n) == REDIS_OK) {
        void *command = NULL;
        struct buffer b = {0};
        while (redisReaderGetReply(reader, &command) == REDIS_OK && command != NULL) {
            answer(command, &b);
            freeReplyObject(command);
        }
        if (b.length > 0 && write(fd, b.data, b.length) != (ssize_t)b.length)
            (void)shutdown(fd, SHUT_RDWR);
        buffer_fini(&b);
    }
    redisReaderFree(reader);
    (void)close(fd);
    return NULL;
}

static void *listen_for_clients(void *arg)
{
    (void)arg;
    int fd;
    while (peer.connections < CONNECTIONS && (fd = accept(peer.listener, NULL, NULL)) >= 0)
        if (pthread_create(&peer.serving[peer.connections], NULL, serve, (void *)(intptr_t)fd) == 0)
            peer.connections++;
    return NULL;
}

static int start(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    memset(&peer, 0, sizeof(peer));
    peer.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(peer.listener >= 0);
    assert_int_equal(bind(peer.listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(peer.listener, 16), 0);
    assert_int_equal(getsockname(peer.listener, (struct sockaddr *)&address, &length), 0);
    peer.address.port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&peer.thread, NULL, listen_for_clients, NULL), 0);
    return 0;
}

/* The command has ended, so all its connections are closed. */
static int end(void **state)
{
    (void)state;
    (void)shutdown(peer.listener, SHUT_RDWR);
    assert_int_equal(pthread_join(peer.thread, NULL), 0);
    (void)close(peer.listener);
    for (size_t i = 0; i < peer.connections; i++)
        assert_int_equal(pthread_join(peer.serving[i], NULL), 0);
    return 0;
}

/* --- what bench makes of it --- */

static void assert_left_nothing(void)
{
    assert_int_equal(atomic_load(&peer.reserved), 1);
    assert_int_equal(atomic_load(&peer.deleted), 1);
    assert_int_equal(atomic_load(&peer.strange), 0);
}

static void test_bench__asks_for_no_more_than_such_a_server_has(void **state)
{
    (void)state;
    const struct result *r = twinbloom(
        &peer.address, "", "bench --keys 500 --requests 500 --connections 4 --pipeline 5 --adds 0.2");
    if (r->code != 0 || strstr(r->text, "present keys were reported absent.\n") == NULL ||
        strstr(r->text, "The first error") != NULL)
        fail_msg("code %d\n%s", r->code, r->text);
    assert_non_null(strstr(r->text, "\nThe server used 0.50 s of processor time, 1000.00 us a key.\n"));
    assert_left_nothing();
}

static void test_bench__asks_in_batches(void **state)
{
    (void)state;
    assert_says(&peer.address, "bench --keys 500 --requests 100 --connections 2 --batch 10 --adds 0.5 --json",
                0, "\"server_cpu_seconds\":0.5,\"disconnects\":0,\"error\":\"\"}");
    assert_left_nothing();
}

/* bench looks every 0.1 s whether its threads have ended. */
static void test_bench__takes_as_long_as_its_requests(void **state)
{
    static const char name[] = "\"duration_seconds\":";
    const double tick = 0.1;
    double seconds = tick;
    (void)state;
    for (unsigned tries = 0; tries < 10 && seconds >= tick; tries++) { /* the machine may be slow */
        const char *said = strstr(
            twinbloom(&peer.address, "", "bench --keys 10 --requests 1 --connections 1 --json")->text, name);
        assert_non_null(said);
        seconds = strtod(said + sizeof(name) - 1, NULL);
    }
    assert_true(seconds < tick);
}

static void test_bench__does_without_info(void **state)
{
    (void)state;
    peer.mood = WITHOUT_INFO;
    const struct result *r = twinbloom(&peer.address, "", "bench --keys 100 --requests 50");
    if (r->code != 0 || strstr(r->text, "processor") != NULL)
        fail_msg("code %d\n%s", r->code, r->text);
    assert_says(&peer.address, "bench --keys 100 --requests 50 --json", 0, "\"server_cpu_seconds\":null,");
}

static void test_bench__refuses_a_name_that_is_taken(void **state)
{
    (void)state;
    for (enum mood mood = TAKEN; mood <= OTHER_TYPE; mood++) {
        peer.mood = mood;
        assert_says(&peer.address, "bench --filter mine --keys 10 --requests 10", 2,
                    "the name mine is in use");
    }
    assert_int_equal(atomic_load(&peer.deleted), 0);
}

static void test_bench__names_the_node_of_a_cluster_that_has_the_slot(void **state)
{
    (void)state;
    peer.mood = ELSEWHERE;
    assert_says(&peer.address, "bench --filter mine --keys 10 --requests 10", 4,
                "MOVED 9834 10.0.0.2:6379: bench uses one node; run it on that node, with --filter mine");
    assert_int_equal(atomic_load(&peer.deleted), 0);
}

static void test_bench__tells_of_keys_that_are_forgotten(void **state)
{
    (void)state;
    peer.mood = FORGETFUL;
    assert_says(&peer.address, "bench --keys 100 --requests 200 --adds 0", 1, ": a broken promise.\n");
    assert_left_nothing();
}

static void test_bench__ends_where_a_key_does_not_go_in(void **state)
{
    (void)state;
    peer.mood = FULL;
    assert_says(&peer.address, "bench --keys 100 --requests 10", 4,
                "keys could not be added: ERR non scaling filter is full");
    assert_left_nothing();
}

static void test_bench__counts_errors_and_shows_the_first(void **state)
{
    (void)state;
    peer.mood = READ_ONLY;
    assert_says(&peer.address, "bench --keys 100 --requests 100 --adds 0.5", 5,
                "The first error: READONLY You can't write");
    assert_left_nothing();
}

static void test_bench__tells_of_adds_that_are_not_new(void **state)
{
    (void)state;
    assert_says(&peer.address, "bench --keys 40 --requests 100 --adds 1", 0,
                "60 adds repeated an earlier key");
    assert_says(&peer.address, "bench --keys 40 --requests 40 --adds 1 --json", 0, "\"added_again\":0,");
}

int main(void)
{
#define BENCH_TEST(f) cmocka_unit_test_setup_teardown(f, start, end)
    const struct CMUnitTest tests[] = {
        BENCH_TEST(test_bench__asks_for_no_more_than_such_a_server_has),
        BENCH_TEST(test_bench__asks_in_batches),
        BENCH_TEST(test_bench__takes_as_long_as_its_requests),
        BENCH_TEST(test_bench__does_without_info),
        BENCH_TEST(test_bench__refuses_a_name_that_is_taken),
        BENCH_TEST(test_bench__names_the_node_of_a_cluster_that_has_the_slot),
        BENCH_TEST(test_bench__tells_of_keys_that_are_forgotten),
        BENCH_TEST(test_bench__ends_where_a_key_does_not_go_in),
        BENCH_TEST(test_bench__counts_errors_and_shows_the_first),
        BENCH_TEST(test_bench__tells_of_adds_that_are_not_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
