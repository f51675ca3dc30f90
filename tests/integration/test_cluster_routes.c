/* SPDX-License-Identifier: MIT */
/* How a link and a store find their way through a cluster whose slots move. */
#include "tests/integration/filters.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "base/clock.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/script_call.h"
#include "shard/filter/slots.h"
#include "shard/redis/acks.h"
#include "shard/redis/async_client.h"

enum { KEYS = 2000, WAIT_MS = 30000 };

static struct temp_cluster cluster;
static struct nodes seeds, nodes;
static struct sync_client *l;

static int start(void **state)
{
    (void)state;
    struct error e = {""};
    if (temp_cluster_start(&cluster, 4, 3, 0, &e) != ERR_OK || /* the fourth master has no slots */
        cluster_parse_seeds(&seeds, cluster.seeds, &e) != ERR_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    temp_cluster_fini(&cluster);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    nodes = (struct nodes){.cluster = cluster_new(&seeds)};
    l = sync_client_new(&nodes, SYNC_CLIENT_MS, NULL);
    return l == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    sync_client_free(l);
    cluster_free(nodes.cluster);
    struct error e = {""};
    for (unsigned i = 0; i < 3; i++)
        must(client_ok(&cluster.client[i], &e, "FLUSHALL"), e);
    return 0;
}

/* --- keys --- */

/* Make the @n-th key. Returns its address. */
static unsigned key_of(unsigned n, char key[32])
{
    (void)snprintf(key, 32, "key%u", n);
    return WHERE_SLOT | slots_of_key(key, strlen(key));
}

static void set_keys(unsigned count)
{
    struct error e = {""};
    redisReply *r;
    char key[32];
    for (unsigned i = 0; i < count; i++) {
        unsigned where = key_of(i, key);
        must(sync_client_command(l, where, &r, &e, "SET %s %u", key, i), e);
        freeReplyObject(r);
    }
}

/* Get all keys in one pipeline; each must have its value. */
static void get_keys(unsigned count)
{
    struct error e = {""};
    char key[32], value[16];
    for (unsigned i = 0; i < count; i++) {
        unsigned where = key_of(i, key);
        const char *const argv[] = {"GET", key};
        const size_t lengths[] = {3, strlen(key)};
        must(sync_client_append(l, where, 2, argv, lengths, &e), e);
    }
    for (unsigned i = 0; i < count; i++) {
        redisReply *r;
        must(sync_client_reply(l, key_of(i, key), &r, &e), e);
        (void)snprintf(value, sizeof(value), "%u", i);
        assert_int_equal(r->type, REDIS_REPLY_STRING);
        assert_string_equal(r->str, value);
        freeReplyObject(r);
    }
}

static unsigned slot_of(unsigned n)
{
    char key[32];
    return where_slot(key_of(n, key));
}

static void move(unsigned slot, unsigned from, unsigned to)
{
    struct error e = {""};
    must(temp_cluster_move(&cluster, slot, 1, from, to, 0, &e), e);
}

/* --- link --- */

static void test_link__follows_slots_that_have_moved_and_asks_for_the_map_once(void **state)
{
    (void)state;
    struct error e = {""};
    set_keys(KEYS);
    must(temp_cluster_move(&cluster, 0, TEMP_CLUSTER_SLOTS / 6, 0, 1, 0, &e), e);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
    temp_cluster_reset_counts(&cluster);
    get_keys(KEYS);
    get_keys(KEYS);
    assert_in_range(temp_cluster_maps_asked(&cluster), 1, 3); /* though there are hundreds of MOVED */
    must(temp_cluster_move(&cluster, 0, TEMP_CLUSTER_SLOTS / 6, 1, 0, 0, &e), e);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
}

static void test_link__asks_where_a_slot_is_on_its_way(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *r;
    char key[32];
    unsigned moved, slot = slot_of(0), from = temp_cluster_owner(&cluster, 0, slot), to = (from + 1) % 3;
    unsigned where = key_of(0, key);
    set_keys(1);
    must(temp_cluster_open(&cluster, slot, from, to, &e), e);
    must(temp_cluster_migrate(&cluster, slot, from, to, 10, &moved, &e), e);
    assert_int_equal(moved, 1);
    temp_cluster_reset_counts(&cluster);
    get_keys(1);
    must(sync_client_command(l, where, &r, &e, "APPEND %s 0", key),
         e); /* and the written value stays there */
    freeReplyObject(r);
    must(sync_client_command(l, where, &r, &e, "SET {%s}new 1", key), e);
    freeReplyObject(r);
    assert_int_equal(temp_cluster_maps_asked(&cluster), 0); /* ASK does not change the map */
    must(temp_cluster_close(&cluster, slot, from, to, &e), e);
    must(sync_client_command(l, where, &r, &e, "GET {%s}new", key), e);
    assert_string_equal(r->str, "1");
    freeReplyObject(r);
    must(sync_client_command(l, where, &r, &e, "GET %s", key), e);
    assert_string_equal(r->str, "00");
    freeReplyObject(r);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
    move(slot, to, from);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
}

/* --- scripts with keys on both sides --- */

static const char both[] = "return redis.call('GET', KEYS[1]) .. redis.call('GET', KEYS[2])";

struct closer {
    unsigned slot, from, to;
    struct error error;
    enum err code;
    pthread_t thread;
};

static void *close_later(void *arg)
{
    struct closer *c = arg;
    unsigned moved = 0;
    clock_sleep_us(400000);
    c->code = temp_cluster_migrate(&cluster, c->slot, c->from, c->to, 10, &moved, &c->error);
    if (c->code == ERR_OK)
        c->code = temp_cluster_close(&cluster, c->slot, c->from, c->to, &c->error);
    return NULL;
}

static void test_link__waits_with_a_script_whose_keys_are_on_both_sides(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *r;
    char key[32];
    unsigned where = key_of(1, key), slot = slot_of(1), moved;
    struct closer c = {.slot = slot, .from = temp_cluster_owner(&cluster, 0, slot)};
    c.to = (c.from + 1) % 3;
    for (unsigned i = 0; i < 2; i++) {
        must(sync_client_command(l, where, &r, &e, "SET {%s}%u %u", key, i, i), e);
        freeReplyObject(r);
    }
    must(temp_cluster_open(&cluster, slot, c.from, c.to, &e), e);
    must(temp_cluster_migrate(&cluster, slot, c.from, c.to, 1, &moved, &e), e);
    /* The deadline passes: the script was not executed, and may be sent again. */
    struct sync_client *hasty = sync_client_new(&nodes, 150, NULL);
    gives(ERR_UNREACHABLE, sync_client_command(hasty, where, &r, &e, "EVAL %s 2 {%s}0 {%s}1", both, key, key),
          e);
    assert_non_null(strstr(e.text, "TRYAGAIN"));
    sync_client_free(hasty);
    assert_int_equal(pthread_create(&c.thread, NULL, close_later, &c), 0);
    uint64_t began = clock_mono_us();
    enum err code = sync_client_command(l, where, &r, &e, "EVAL %s 2 {%s}0 {%s}1", both, key, key);
    uint64_t took = clock_mono_us() - began;
    (void)pthread_join(c.thread, NULL);
    must(c.code, c.error);
    must(code, e);
    assert_string_equal(r->str, "01");
    freeReplyObject(r);
    assert_in_range(took, 350000, 1900000);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
    move(slot, c.to, c.from);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
}

/* --- nodes --- */

static void test_link_masters__are_those_without_slots_too(void **state)
{
    (void)state;
    if (temp_redis_is_before_7()) /* it names none of them */
        skip();
    struct error e = {""};
    unsigned count;
    double share = 0;
    must(sync_client_masters(l, &count, &e), e);
    assert_int_equal(count, 4);
    for (unsigned i = 0; i < count; i++) {
        redisReply *r;
        must(sync_client_command(l, sync_client_master(l, i), &r, &e, "CLUSTER MYID"), e);
        unsigned at = 0;
        while (at < 4 && strcmp(r->str, cluster.id[at]) != 0)
            at++;
        assert_in_range(at, 0, 3);
        assert_true((sync_client_master_share(l, i) > 0.3) == (at < 3));
        share += sync_client_master_share(l, i);
        freeReplyObject(r);
    }
    assert_true(share > 0.999 && share < 1.001);
}

static void test_link__says_why_no_seed_tells_the_map(void **state)
{
    (void)state;
    struct error e = {""};
    struct temp_redis alone;
    redisReply *r;
    char text[100];
    static struct nodes dead;
    (void)snprintf(text, sizeof(text), "redis://127.0.0.1:%u", process_free_port());
    must(cluster_parse_seeds(&dead, text, &e), e);
    struct nodes n = {.cluster = cluster_new(&dead)};
    struct sync_client *x = sync_client_new(&n, 300, NULL);
    uint64_t began = clock_mono_us();
    gives(ERR_UNREACHABLE, sync_client_command(x, WHERE_SLOT, &r, &e, "GET a"), e);
    assert_true(clock_mono_us() - began < 2000000);
    assert_non_null(strstr(e.text, "no node of the cluster says which slots it has"));
    sync_client_free(x);
    cluster_free(n.cluster);

    must(temp_redis_start(&alone, NULL, &e), e);
    must(cluster_parse_seeds(&dead, alone.url, &e), e);
    n.cluster = cluster_new(&dead);
    x = sync_client_new(&n, 300, NULL);
    enum err code = sync_client_command(x, WHERE_SLOT, &r, &e, "GET a");
    sync_client_free(x);
    cluster_free(n.cluster);
    temp_redis_fini(&alone);
    gives(ERR_REFUSED, code, e);
    assert_non_null(strstr(e.text, "cluster support disabled"));
}

static void test_link__reports_what_was_on_a_connection_that_broke(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *r;
    char key[32];
    set_keys(3);
    for (unsigned i = 0; i < 3; i++) {
        unsigned where = key_of(i, key);
        const char *const argv[] = {"GET", key};
        const size_t lengths[] = {3, strlen(key)};
        must(sync_client_append(l, where, 2, argv, lengths, &e), e);
    }
    unsigned broken = temp_cluster_owner(&cluster, 0, slot_of(1)), failed = 0;
    must(client_ok(&cluster.client[broken], &e, "CLIENT SETNAME test"), e);
    int64_t killed;
    must(client_integer(&cluster.client[broken], &killed, &e, "CLIENT KILL TYPE normal SKIPME yes"), e);
    for (unsigned i = 0; i < 3; i++) {
        enum err code = sync_client_reply(l, key_of(i, key), &r, &e);
        bool there = temp_cluster_owner(&cluster, 0, slot_of(i)) == broken;
        assert_int_equal(code, there ? ERR_UNREACHABLE : ERR_OK);
        failed += there;
        if (code == ERR_OK)
            freeReplyObject(r);
    }
    assert_in_range(failed, 1, 3);
    get_keys(3);
}

/* --- store --- */

struct asked {
    unsigned answered, right, without;
};

/* A GET, which is sent again to where MOVED or ASK say. */
struct expectation {
    struct async_client *store;
    struct asked *asked;
    unsigned number, where;
    struct slot_redirect redirect;
    size_t length;
    char text[80];
};

static void on_value(void *arg, const redisReply *reply);

static bool dispatch(struct expectation *x)
{
    return async_client_send_together(x->store, x->where, &x->redirect, 1, x->text, &x->length, on_value,
                                      x) == 1;
}

static void on_value(void *arg, const redisReply *reply)
{
    struct expectation *x = arg;
    char value[16];
    if (x->redirect.port != 0 && dispatch(x))
        return;
    (void)snprintf(value, sizeof(value), "%u", x->number);
    x->asked->answered++;
    if (reply == NULL)
        x->asked->without++;
    else if (reply->type == REDIS_REPLY_STRING && strcmp(reply->str, value) == 0)
        x->asked->right++;
    free(x);
}

static bool send_get(struct async_client *s, struct asked *asked, unsigned number)
{
    char key[32];
    struct expectation *x = malloc(sizeof(*x));
    *x = (struct expectation){.store = s, .asked = asked, .number = number, .where = key_of(number, key)};
    x->length =
        (size_t)snprintf(x->text, sizeof(x->text), "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(key), key);
    if (dispatch(x))
        return true;
    free(x);
    return false;
}

static void turn(struct event_base *base)
{
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    clock_sleep_us(1000);
}

/* Get keys [0, count) by all stores, which share the map. */
static void get_by_stores(struct async_client **stores, struct event_base *base, unsigned n, unsigned count)
{
    struct asked asked = {0};
    unsigned sent = 0;
    uint64_t until = clock_mono_us() + 10000000;
    for (unsigned s = 0; s < n; s++)
        for (unsigned i = 0; i < count; i++) {
            while (!send_get(stores[s], &asked, i)) {
                turn(base);
                assert_true(clock_mono_us() < until);
            }
            sent++;
        }
    while (asked.answered < sent && clock_mono_us() < until)
        turn(base);
    assert_int_equal(asked.answered, sent);
    assert_int_equal(asked.right, sent);
}

static void test_store__follows_slots_that_have_moved_and_asks_for_the_map_once(void **state)
{
    (void)state;
    struct error e = {""};
    struct event_base *base = event_base_new();
    struct async_client *stores[3];
    set_keys(KEYS);
    for (unsigned i = 0; i < 3; i++)
        stores[i] = async_client_new(base, &nodes, SYNC_CLIENT_MS, NULL);
    temp_cluster_reset_counts(&cluster);
    get_by_stores(stores, base, 3, 10);
    assert_int_equal(temp_cluster_redirections(&cluster), 0);
    must(temp_cluster_move(&cluster, 0, TEMP_CLUSTER_SLOTS / 6, 0, 1, 0, &e), e);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
    temp_cluster_reset_counts(&cluster);
    get_by_stores(stores, base, 3, KEYS);
    assert_in_range(temp_cluster_redirections(&cluster), KEYS / 12, 3 * KEYS);
    for (int i = 0; i < 300; i++)
        turn(base);
    uint64_t before = temp_cluster_redirections(&cluster);
    get_by_stores(stores, base, 3, KEYS);
    assert_int_equal(temp_cluster_redirections(&cluster), before);
    assert_in_range(temp_cluster_maps_asked(&cluster), 1, 3); /* though each store gets hundreds of MOVED */
    for (unsigned i = 0; i < 3; i++)
        async_client_free(stores[i]);
    event_base_free(base);
    must(temp_cluster_move(&cluster, 0, TEMP_CLUSTER_SLOTS / 6, 1, 0, 0, &e), e);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
}

static void test_store__asks_where_a_slot_is_on_its_way(void **state)
{
    (void)state;
    struct error e = {""};
    struct event_base *base = event_base_new();
    struct async_client *s = async_client_new(base, &nodes, SYNC_CLIENT_MS, NULL);
    unsigned moved, slot = slot_of(0), from = temp_cluster_owner(&cluster, 0, slot), to = (from + 1) % 3;
    set_keys(1);
    must(temp_cluster_open(&cluster, slot, from, to, &e), e);
    must(temp_cluster_migrate(&cluster, slot, from, to, 10, &moved, &e), e);
    temp_cluster_reset_counts(&cluster);
    get_by_stores(&s, base, 1, 1);
    get_by_stores(&s, base, 1, 1);
    assert_int_equal(temp_cluster_redirections(&cluster), 2);
    assert_int_equal(temp_cluster_maps_asked(&cluster), 0);
    must(temp_cluster_close(&cluster, slot, from, to, &e), e);
    get_by_stores(&s, base, 1, 1);
    async_client_free(s);
    event_base_free(base);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
    move(slot, to, from);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
}

struct acked {
    bool is_told;
    enum ack_outcome outcome;
};

static void on_acked(void *arg, enum ack_outcome outcome, const char *why)
{
    (void)why;
    *(struct acked *)arg = (struct acked){.is_told = true, .outcome = outcome};
}

/* Ask until the outcome is @wanted, as adds do until their deadline. */
static void await_acks(struct async_client *s, struct event_base *base, enum ack_outcome wanted)
{
    const struct ack_need need = {.timeout_ms = 100};
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    char key[32];
    unsigned where = key_of(0, key);
    struct acked a;
    (void)snprintf(key, sizeof(key), "{key0}:log1");
    do {
        a = (struct acked){.is_told = false};
        if (async_client_await_acks(s, where, key, strlen(key), 0, &need, on_acked, &a))
            while (!a.is_told)
                turn(base);
        turn(base);
    } while ((!a.is_told || a.outcome != wanted) && clock_mono_us() < until);
    assert_true(a.is_told);
    assert_int_equal(a.outcome, wanted);
}

/* The small write before WAIT is a new key, which a slot on its way does not take. */
static void test_store__is_refused_acknowledgements_until_a_slot_has_moved(void **state)
{
    (void)state;
    struct error e = {""};
    struct event_base *base = event_base_new();
    struct async_client *s = async_client_new(base, &nodes, SYNC_CLIENT_MS, NULL);
    unsigned moved, slot = slot_of(0), from = temp_cluster_owner(&cluster, 0, slot), to = (from + 1) % 3;
    must(temp_cluster_open(&cluster, slot, from, to, &e), e);
    await_acks(s, base, ACK_REFUSED);
    must(temp_cluster_migrate(&cluster, slot, from, to, 10, &moved, &e), e);
    await_acks(s, base, ACK_REFUSED);
    must(temp_cluster_close(&cluster, slot, from, to, &e), e);
    await_acks(s, base, ACK_GIVEN);
    async_client_free(s);
    event_base_free(base);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
    move(slot, to, from);
    must(temp_cluster_agree(&cluster, WAIT_MS, &e), e);
}

/* Pending requests are told when a store is freed. */
static void test_store__tells_everybody_when_it_is_freed(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    struct async_client *s = async_client_new(base, &nodes, SYNC_CLIENT_MS, NULL);
    struct asked asked = {0};
    set_keys(10);
    get_by_stores(&s, base, 1, 10);
    for (unsigned i = 0; i < 10; i++)
        assert_true(send_get(s, &asked, i));
    async_client_free(s);
    assert_int_equal(asked.without, 10);
    s = async_client_new(base, &nodes, SYNC_CLIENT_MS, NULL); /* freed during its first request for the map */
    assert_true(send_get(s, &asked, 0) || asked.answered == 10);
    async_client_free(s);
    event_base_free(base);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_link__follows_slots_that_have_moved_and_asks_for_the_map_once),
        TEST(test_link__asks_where_a_slot_is_on_its_way),
        TEST(test_link__waits_with_a_script_whose_keys_are_on_both_sides),
        TEST(test_link_masters__are_those_without_slots_too),
        TEST(test_link__says_why_no_seed_tells_the_map),
        TEST(test_link__reports_what_was_on_a_connection_that_broke),
        TEST(test_store__follows_slots_that_have_moved_and_asks_for_the_map_once),
        TEST(test_store__asks_where_a_slot_is_on_its_way),
        TEST(test_store__is_refused_acknowledgements_until_a_slot_has_moved),
        TEST(test_store__tells_everybody_when_it_is_freed),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
