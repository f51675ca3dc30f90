/* SPDX-License-Identifier: MIT */
/* Many filters that nobody asks for: what they cost Redis, and that they are looked at all the same. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/protocol/list.h"

enum { MASTERS = 3, FILTERS = 60, LOOKS = 6 * FILTERS, DEADLINE_MS = 60000, STEP_US = 200000 };

static struct fixture fixture;

static int make(const struct fixture_options *o)
{
    struct error e = {""};
    int result = fixture_start(&fixture, o);
    for (unsigned i = 0; i < FILTERS && result == 0; i++) {
        int64_t n = 0;
        must(client_ok(&fixture.client[0], &e, "BF.RESERVE idle-%u 0.01 1000", i), e);
        must(client_integer(&fixture.client[0], &n, &e, "BF.ADD idle-%u key", i), e);
        assert_int_equal(n, 1);
    }
    return result;
}

static int make_on_list(void **state)
{
    (void)state;
    return make(&(struct fixture_options){.nodes = 2, .daemons = 1});
}

static int make_on_cluster(void **state)
{
    (void)state;
    return make(&(struct fixture_options){.masters = MASTERS, .owners = MASTERS, .daemons = 1});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* The sum over all nodes of the number behind @field in a section of INFO. */
static uint64_t sum(const char *section, const char *field)
{
    struct error e = {""};
    uint64_t n = 0;
    for (unsigned i = 0; i < (fixture.nodes > 0 ? fixture.nodes : MASTERS); i++) {
        struct client c;
        const struct temp_redis *node = fixture.nodes > 0 ? &fixture.redis[i] : &fixture.cluster.node[i];
        must(client_open(&c, node->port, DEADLINE_MS, &e), e);
        redisReply *r = client_command(&c, "INFO %s", section);
        const char *at = strstr(r->str, field);
        n += at == NULL ? 0 : strtoull(at + strlen(field), NULL, 10);
        freeReplyObject(r);
        client_close(&c);
    }
    return n;
}

static uint64_t views(void)
{
    return sum("commandstats", "cmdstat_hgetall:calls=");
}

/* Wait until the view of each filter has been read a few times on average. Returns the number of calls of
 * sum(). */
static unsigned await_looks(void)
{
    unsigned calls = 1;
    uint64_t until = clock_mono_us() + DEADLINE_MS * 1000ull, from = views(), now = from;
    for (; now - from < LOOKS && clock_mono_us() < until; calls++) {
        clock_sleep_us(STEP_US);
        now = views();
    }
    assert_true(now - from >= LOOKS);
    return calls;
}

/* Looks that are due at nearly one time ask each master once who it is. */
static void test_looks_at_many_filters__share_what_they_ask_of_a_node(void **state)
{
    (void)state;
    (void)await_looks(); /* all filters are loaded, and folded */
    uint64_t views_before = views(), before = sum("commandstats", "cmdstat_info:calls=");
    unsigned polls = await_looks() + 2;
    uint64_t own = (uint64_t)polls * fixture.nodes;
    assert_true(sum("commandstats", "cmdstat_info:calls=") - before - own < (views() - views_before) / 2);
}

/* A status of all filters is asked for in groups, too, and says what that of one says. */
static void test_status_of_all_filters__asks_a_node_once_for_many(void **state)
{
    enum { TIMES = 5 };
    (void)state;
    uint64_t before = sum("commandstats", "cmdstat_info:calls=");
    redisReply *all = NULL;
    for (unsigned i = 0; i < TIMES; i++) {
        freeReplyObject(all);
        all = client_command(&fixture.client[0], "TB.STATUS");
    }
    assert_true(sum("commandstats", "cmdstat_info:calls=") - before < FILTERS * TIMES);
    assert_int_equal(all->elements, FILTERS);
    for (size_t i = 0; i < FILTERS; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%s", list_field(all->element[i], "filter")->str);
        redisReply *one = client_command(&fixture.client[0], "TB.STATUS %s", name);
        assert_int_equal(all->element[i]->elements, one->elements);
        for (size_t at = 0; at < one->elements; at++)
            assert_int_equal(all->element[i]->element[at]->type, one->element[at]->type);
        assert_true(list_is(all->element[i], "redis", "ok"));
        freeReplyObject(one);
    }
    freeReplyObject(all);
}

/* A node goes away for some looks. Those filters that lie on the other one are looked at as ever. */
static void test_looks_at_many_filters__go_on_while_a_node_is_away(void **state)
{
    enum { AWAY_US = 4 * 1000 * 1000, TURNS = 2 };
    (void)state;
    struct error e = {""};
    for (unsigned turn = 0; turn < TURNS; turn++) {
        (void)await_looks();
        temp_redis_kill(&fixture.redis[turn]);
        for (uint64_t until = clock_mono_us() + AWAY_US; clock_mono_us() < until;) {
            redisReply *r = client_command(&fixture.client[0], "TB.STATUS");
            assert_non_null(r); /* else the coordinator has ended */
            freeReplyObject(r);
        }
        must(temp_redis_restart(&fixture.redis[turn], true, &e), e);
        for (unsigned i = 0; i < FILTERS; i++) {
            int64_t is_there = 0;
            must(client_integer(&fixture.client[0], &is_there, &e, "BF.EXISTS idle-%u key", i), e);
            assert_int_equal(is_there, 1);
        }
    }
    (void)await_looks();
}

/* And they ask once, over a connection of its own, which masters there are. */
static void test_looks_at_many_filters_of_a_cluster__share_its_map(void **state)
{
    (void)state;
    (void)await_looks();
    uint64_t views_before = views(), before = sum("stats", "total_connections_received:");
    unsigned polls = await_looks() + 2;
    uint64_t own = (uint64_t)polls * MASTERS;
    assert_true(sum("stats", "total_connections_received:") - before - own < (views() - views_before) / 4);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test(test_looks_at_many_filters__share_what_they_ask_of_a_node),
        cmocka_unit_test(test_status_of_all_filters__asks_a_node_once_for_many),
        cmocka_unit_test(test_looks_at_many_filters__go_on_while_a_node_is_away),
    };
    const struct CMUnitTest cluster[] = {
        cmocka_unit_test(test_looks_at_many_filters_of_a_cluster__share_its_map),
    };
    return cmocka_run_group_tests_name("list", list, make_on_list, teardown) +
           cmocka_run_group_tests_name("cluster", cluster, make_on_cluster, teardown);
}
