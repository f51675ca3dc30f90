/* SPDX-License-Identifier: MIT */
/* A new filter without a source loses its view: the metadata node dies, and its replica does not know the
 * filter. The shards on other nodes remain. No coordinator restores the view, and none makes an empty one
 * without an order. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { KEYS = 2000, WAIT_MS = 60000, ASKED = 40 };

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.masters = 3,
                                      .replicas = 3,
                                      .daemons = 2,
                                      .redis_lines = "shard_bytes = 4KiB\n",
                                      .expansion = "lease = 2s\n",
                                      .service = "check_interval = 200ms\ntimeout = 2s\n"};
    return fixture_start(&f, &o);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

static unsigned home(void)
{
    struct error e = {""};
    int64_t slot = 0;
    must(client_integer(&f.cluster.client[1], &slot, &e, "CLUSTER KEYSLOT twinbloom:{seen}:view"), e);
    return temp_cluster_owner(&f.cluster, 1, (unsigned)slot);
}

/* Make the filter and have coordinator 0 fill it, while the metadata node has no replica. */
static unsigned make(void)
{
    struct error e = {""};
    unsigned node = home();
    must(temp_cluster_cut_off(&f.cluster, node, WAIT_MS, &e), e);
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.001 20000"), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    return node;
}

static void fail_over(unsigned node)
{
    struct error e = {""};
    unsigned heir = 0;
    temp_redis_kill(&f.cluster.node[node]);
    must(temp_cluster_failed_over(&f.cluster, node, WAIT_MS, &heir, &e), e);
}

static void start_again(unsigned d)
{
    struct error e = {""};
    client_close(&f.client[d]);
    must(daemon_launch(&f.daemon[d], &e), e);
    fixture_reconnect(&f, d);
}

/* Check single keys, some of which may get an error. Returns how many are reported absent. */
static unsigned denied(unsigned d)
{
    unsigned n = 0;
    for (uint64_t i = 0; i < KEYS; i += KEYS / ASKED) {
        char key[CLIENT_KEY_MAX];
        size_t length = fixture_code(i, key);
        redisReply *r = client_command(&f.client[d], "BF.EXISTS seen %b", key, length);
        assert_non_null(r);
        n += r->type == REDIS_REPLY_INTEGER && r->integer == 0;
        freeReplyObject(r);
    }
    return n;
}

static uint64_t present(unsigned d, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&f.client[d], "seen", fixture_code, first, count, &n, NULL, &e), e);
    return n;
}

/* Whether an add succeeds; if not, @why has the error. */
static bool add(unsigned d, const char *key, char *why, size_t size)
{
    redisReply *r = client_command(&f.client[d], "BF.ADD seen %s", key);
    assert_non_null(r);
    bool done = r->type == REDIS_REPLY_INTEGER;
    (void)snprintf(why, size, "%s", done ? "" : r->str);
    freeReplyObject(r);
    return done;
}

/* No key may be reported absent, and no add may succeed, until the filter is made again. */
static void stays_lost(void)
{
    struct error e = {""};
    char why[200];
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    for (unsigned d = 0; d < 2; d++) {
        do { /* the connection to the metadata node may still be broken */
            assert_false(add(d, "k", why, sizeof(why)));
            if (clock_mono_us() > until)
                fail_msg("coordinator %u: %s", d, why);
        } while (strstr(why, "lost its view") == NULL);
        assert_int_equal(present(d, 0, KEYS), KEYS);
    }
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.001 20000"), e);
    assert_true(add(1, "k", why, sizeof(why)));
    assert_in_range(present(1, 0, KEYS), 0, KEYS / 10);
}

static void test_lost_view__denies_no_key_and_is_made_anew_on_request(void **state)
{
    (void)state;
    unsigned node = make();
    clock_sleep_us(500000);
    assert_int_equal(present(1, 0, KEYS), KEYS);
    fail_over(node);
    for (unsigned i = 0; i < 10; i++)
        for (unsigned d = 0; d < 2; d++)
            assert_int_equal(denied(d), 0);
    stays_lost();
}

/* The other coordinator starts when the view is lost, and its first request is an add. */
static void test_lost_view__is_not_replaced_by_one_who_never_saw_it(void **state)
{
    (void)state;
    char why[200];
    daemon_kill(&f.daemon[1]);
    unsigned node = make();
    clock_sleep_us(1500000);
    daemon_pause(&f.daemon[0]);
    fail_over(node);
    start_again(1);
    assert_false(add(1, "k", why, sizeof(why)));
    print_message("%s\n", why);
    assert_non_null(strstr(why, "lost its view"));
    daemon_resume(&f.daemon[0]);
    stays_lost();
}

static void test_lost_view__of_which_nobody_knows_is_made_anew_on_request_alone(void **state)
{
    (void)state;
    struct error e = {""};
    char why[200];
    daemon_kill(&f.daemon[1]);
    unsigned node = make();
    daemon_kill(&f.daemon[0]);
    fail_over(node);
    for (unsigned d = 0; d < 2; d++)
        start_again(d);
    for (unsigned i = 0; i < 3; i++) {
        assert_false(add(i % 2, "k", why, sizeof(why)));
        assert_non_null(strstr(why, "lost its view"));
        clock_sleep_us(300000);
    }
    clock_sleep_us(6500000); /* until killed coordinators have left the list of members */
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.001 20000"), e);
    assert_true(add(1, "k", why, sizeof(why)));
    assert_in_range(present(1, 0, KEYS), 0, KEYS / 10);
}

/* Only coordinator 0 still knows the filter. */
static void test_lost_view__is_remembered_where_no_shard_is_left(void **state)
{
    (void)state;
    struct error e = {""};
    char why[200];
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.001 20000"), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    daemon_kill(&f.daemon[1]);
    for (unsigned i = 0; i < 3; i++)
        must(client_ok(&f.cluster.client[i], &e, "FLUSHALL"), e);
    clock_sleep_us(2500000); /* until the list of members is complete again */
    start_again(1);
    assert_false(add(1, "k", why, sizeof(why)));
    assert_non_null(strstr(why, "lost its view"));
    assert_int_equal(denied(0), 0);
    must(client_ok(&f.client[1], &e, "BF.RESERVE seen 0.001 20000"), e);
    assert_true(add(1, "k", why, sizeof(why)));
}

/* A deleted filter must not come back because a coordinator remembers it. */
static void test_lost_view__of_a_filter_that_was_deleted_stays_away(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n = 0;
    char why[200];
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.001 20000"), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    assert_int_equal(present(1, 0, KEYS), KEYS);
    must(client_integer(&f.client[1], &n, &e, "DEL seen"), e);
    clock_sleep_us(2500000);
    unsigned node = home();
    must(client_integer(&f.cluster.client[node], &n, &e, "EXISTS twinbloom:{seen}:view"), e);
    assert_int_equal(n, 0);
    assert_true(add(0, "k", why, sizeof(why)));
    assert_in_range(present(1, 0, KEYS), 0, KEYS / 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lost_view__denies_no_key_and_is_made_anew_on_request),
        TEST(test_lost_view__is_not_replaced_by_one_who_never_saw_it),
        TEST(test_lost_view__of_which_nobody_knows_is_made_anew_on_request_alone),
        TEST(test_lost_view__is_remembered_where_no_shard_is_left),
        TEST(test_lost_view__of_a_filter_that_was_deleted_stays_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
