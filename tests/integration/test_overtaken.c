/* SPDX-License-Identifier: MIT */
/* A check behind an add that had to be retried, and while a node does not answer. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/proxy.h"
#include "tests/lib/raw.h"

#define OPTIONS "timeout = 60s\nshard_bytes = 1024\n" /* of Redis */

enum {
    ADDS = 8,
    CHECKS = 3,
    KEYS = 40,      /* in a check */
    CAPACITY = 200, /* of a filter */
    FULL_MS = 300,  /* how long a node refuses writes */
    LATER_ADDS = 100
};

static struct proxy *proxy;
static struct temp_redis redis[2];
static struct daemon coordinator, other; /* @coordinator meets the silent node; @other has memory */
static struct client full, grower;       /* @full: to the node that refuses writes. @grower: to @other */
static unsigned routes[2];               /* of the nodes; the second does not answer @coordinator */

static void start_redis(unsigned i)
{
    struct error e = {""};
    struct client c = {0};
    must(temp_redis_start(&redis[i], NULL, &e), e);
    must(client_open(&c, redis[i].port, 10000, &e), e);
    must(client_ok(&c, &e, "ACL SETUSER victim on >secret ~* &* +@all"), e);
    must(client_ok(&c, &e, "ACL SETUSER other on >secret ~* &* +@all"), e);
    client_close(&c);
}

static void start_daemon(struct daemon *d, const char *user, const char *redis_options,
                         const uint16_t ports[2])
{
    struct error e = {""};
    char nodes[160];
    (void)snprintf(nodes, sizeof(nodes), "redis://%s:secret@127.0.0.1:%u, redis://%s:secret@127.0.0.1:%u",
                   user, ports[0], user, ports[1]);
    /* A node's timeout is longer than a request's: commands are still under way when their request has
     * ended. */
    must(daemon_start(d,
                      &(struct daemon_options){
                          .nodes = nodes, .service = "threads = 1\ntimeout = 1s\n", .redis = redis_options},
                      &e),
         e);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    uint16_t ports[2];
    must(proxy_start(&proxy, &e), e);
    for (unsigned i = 0; i < 2; i++) {
        start_redis(i);
        must(proxy_add(proxy, WIRE_REDIS, redis[i].port, &routes[i], &ports[i], &e), e);
    }
    start_daemon(&coordinator, "victim", OPTIONS "resident_memory = 0\n", ports);
    start_daemon(&other, "other", OPTIONS, ports);
    must(client_open(&full, redis[0].port, 10000, &e), e);
    must(client_open(&grower, other.port, 10000, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&full);
    client_close(&grower);
    bool clean = daemon_fini(&coordinator);
    clean &= daemon_fini(&other);
    proxy_stop(proxy);
    temp_redis_fini(&redis[0]);
    temp_redis_fini(&redis[1]);
    return clean ? 0 : -1;
}

static void refuse_writes(bool refuse)
{
    struct error e = {""};
    must(client_ok(&full, &e, "CONFIG SET maxmemory %s", refuse ? "1" : "0"), e);
}

static void add_one(int fd, const char *filter, unsigned key)
{
    char line[64];
    (void)snprintf(line, sizeof(line), "BF.ADD %s k%u\r\n", filter, key);
    assert_true(raw_puts(fd, line));
}

/* Make a filter that has shards on each node and is known to the coordinator. */
static void make_filter(int fd, const char *filter)
{
    char line[64];
    (void)snprintf(line, sizeof(line), "BF.RESERVE %s 0.000001 %u\r\n", filter, CAPACITY);
    assert_true(raw_puts(fd, line));
    assert_true(raw_expect(fd, "+OK\r\n"));
    add_one(fd, filter, 1000);
    assert_true(raw_expect(fd, ":1\r\n"));
}

/* Send adds, some of which a node refuses for a while. Behind them, send checks of the same keys and of
 * others; the other node answers none of these checks. */
static void ask(int fd, const char *filter)
{
    char line[KEYS * 16];
    for (unsigned i = 0; i < ADDS; i++)
        add_one(fd, filter, i);
    (void)snprintf(line, sizeof(line), "BF.MEXISTS %s", filter);
    for (unsigned i = 0; i < KEYS; i++)
        (void)snprintf(line + strlen(line), sizeof(line) - strlen(line), " k%u", i);
    (void)snprintf(line + strlen(line), sizeof(line) - strlen(line), "\r\n");
    for (unsigned i = 0; i < CHECKS; i++)
        assert_true(raw_puts(fd, line));
}

/* Read one line of a reply, which may be an error. */
static void take(int fd, char line[512])
{
    assert_true(raw_read_until(fd, "\r\n", line, 512));
}

/* No acknowledged key is absent. Each add gets one line, and each key of a check gets one element. */
static void take_replies(int fd)
{
    char line[512];
    bool added[ADDS];
    for (unsigned i = 0; i < ADDS; i++) {
        take(fd, line);
        assert_true(line[0] == ':' || line[0] == '-');
        added[i] = line[0] == ':';
    }
    for (unsigned c = 0; c < CHECKS; c++) {
        take(fd, line);
        if (line[0] == '-')
            continue;
        assert_string_equal(line, "*40\r\n");
        for (unsigned i = 0; i < KEYS; i++) {
            take(fd, line);
            if (i < ADDS && added[i])
                assert_string_not_equal(line, ":0\r\n");
        }
    }
}

/* Fill the filter until it needs another layer. */
static void fill(const char *filter)
{
    struct error e = {""};
    must(client_madd(&grower, filter, fixture_code, 0, CAPACITY * 2, &e), e);
}

static void ask_while_a_node_is_silent(int fd, const char *filter, bool grow)
{
    const struct timespec pause = {.tv_nsec = FULL_MS * 1000000L};
    proxy_set(proxy, routes[1], &(struct proxy_fault){.user = "victim", .swallow = true});
    refuse_writes(true);
    ask(fd, filter);
    (void)nanosleep(&pause, NULL);
    refuse_writes(false);
    if (grow)
        fill(filter);
    take_replies(fd);
    proxy_lift(proxy);
}

/* No earlier command blocks these adds. */
static void every_add_goes_through(int fd, const char *filter)
{
    char line[512];
    for (unsigned i = 0; i < LATER_ADDS; i++)
        add_one(fd, filter, 2000 + i);
    for (unsigned i = 0; i < LATER_ADDS; i++) {
        take(fd, line);
        if (strcmp(line, ":0\r\n") != 0) /* 0: nobody knows whether the key was there before */
            assert_string_equal(line, ":1\r\n");
    }
    for (unsigned i = 0; i < LATER_ADDS; i++) {
        (void)snprintf(line, sizeof(line), "BF.EXISTS %s k%u\r\n", filter, 2000 + i);
        assert_true(raw_puts(fd, line));
        assert_true(raw_expect(fd, ":1\r\n"));
    }
}

static void asked_again(const char *filter, bool grow)
{
    int fd = raw_open(coordinator.port);
    assert_true(fd >= 0);
    make_filter(fd, filter);
    ask_while_a_node_is_silent(fd, filter, grow);
    every_add_goes_through(fd, filter);
    raw_close(fd);
}

static void test_check__is_asked_again_while_its_commands_are_under_way(void **state)
{
    (void)state;
    asked_again("steady", false);
}

static void test_check__is_asked_again_of_more_layers_than_before(void **state)
{
    (void)state;
    asked_again("grows", true);
}

/* An add and a check are under way when another coordinator deletes the filter. The check finds no filter;
 * the add then makes one. */
static void test_check__behind_an_add_that_makes_the_filter_again_sees_its_key(void **state)
{
    (void)state;
    struct error e = {""};
    const struct proxy_fault swallow = {.user = "other", .swallow = true};
    struct client deleter = {0};
    int64_t deleted = 0;
    int fd = raw_open(other.port), later = raw_open(other.port);
    assert_true(fd >= 0 && later >= 0);
    must(client_open(&deleter, coordinator.port, 10000, &e), e);
    make_filter(fd, "deleted");
    for (unsigned i = 0; i < 2; i++)
        proxy_set(proxy, routes[i], &swallow);
    assert_true(raw_puts(fd, "BF.ADD deleted k0\r\nBF.EXISTS deleted k0\r\n"));
    for (unsigned i = 0; i < 3; i++) { /* the same thread has begun both by then */
        assert_true(raw_puts(later, "PING\r\n"));
        assert_true(raw_expect(later, "+PONG\r\n"));
    }
    must(client_integer(&deleter, &deleted, &e, "DEL deleted"), e);
    proxy_lift(proxy);
    assert_int_equal(deleted, 1);
    assert_true(raw_expect(fd, ":1\r\n:1\r\n"));
    client_close(&deleter);
    raw_close(later);
    raw_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check__behind_an_add_that_makes_the_filter_again_sees_its_key),
        cmocka_unit_test(test_check__is_asked_again_while_its_commands_are_under_way),
        cmocka_unit_test(test_check__is_asked_again_of_more_layers_than_before),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
