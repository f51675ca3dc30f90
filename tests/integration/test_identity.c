/* SPDX-License-Identifier: MIT */
/* Which server is the metadata node, and which nodes belong together. For a while the metadata node's address
 * leads to another server, where adds are acknowledged, and then to the first one again, which kept its data.
 * No acknowledged key is reported absent, neither by a coordinator that ran all the time nor by one that
 * started later. A coordinator with a different list of nodes does not start beside them. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

enum {
    ROWS = 2000,
    ADDED = 300,
    HEAL_MS = 60000,
    OTHER = 2 /* the server that replaces the metadata node */
};

static struct fixture fixture;
static struct proxy *proxy;
static unsigned route; /* of the metadata node */
static struct daemon third;
static uint64_t codes; /* the number of rows, all of them acknowledged */

/* Coordinators reach the metadata node through the proxy. No coordinator has the third server as a node
 * yet. */
static void prepare(struct fixture *f)
{
    struct error e = {""};
    uint16_t port = 0;
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, f->redis[0].port, &route, &port, &e), e);
    (void)snprintf(f->node_list, sizeof(f->node_list), "redis://127.0.0.1:%u, %s", port, f->redis[1].url);
}

static int setup(void **state)
{
    (void)state;
    codes = ROWS;
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 3,
                                                             .daemons = 2,
                                                             .postgres = true,
                                                             .rows = ROWS,
                                                             .capacity = 20000,
                                                             .rate = "0.0001",
                                                             .prepare = prepare,
                                                             .service = "check_interval = 200ms\n",
                                                             .redis_lines = "shard_bytes = 16KiB\n",
                                                             .expansion = "lease = 5s\n"});
}

static int teardown(void **state)
{
    (void)state;
    (void)daemon_fini(&third);
    third = (struct daemon){0};
    int code = fixture_stop(&fixture);
    proxy_stop(proxy);
    proxy = NULL;
    return code;
}

/* --- servers --- */

static void to_server(unsigned i, const char *command)
{
    struct error e = {""};
    struct client c = {0};
    must(client_open(&c, fixture.redis[i].port, 10000, &e), e);
    must(client_ok(&c, &e, command), e);
    client_close(&c);
}

static int64_t number(unsigned i, const char *command)
{
    struct error e = {""};
    struct client c = {0};
    int64_t n = 0;
    must(client_open(&c, fixture.redis[i].port, 10000, &e), e);
    must(client_integer(&c, &n, &e, command), e);
    client_close(&c);
    return n;
}

static void copy_home(void)
{
    char command[64];
    (void)snprintf(command, sizeof(command), "REPLICAOF 127.0.0.1 %u", fixture.redis[0].port);
    to_server(OTHER, command);
    uint64_t until = clock_mono_us() + 10 * 1000 * 1000;
    while (number(OTHER, "EXISTS twinbloom:{" FILTER "}:view") == 0 && clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
    /* When the replica has as much as the master, all earlier writes have arrived. */
    assert_int_equal(number(0, "WAIT 1 5000"), 1);
    to_server(OTHER, "REPLICAOF NO ONE");
}

static void aim(unsigned server)
{
    proxy_aim(proxy, route, fixture.redis[server].port);
}

/* --- what must hold --- */

static void add(const char *filter, unsigned d, bool rows)
{
    struct error e = {""};
    if (rows) {
        fixture_sql(fixture.db, "BEGIN");
        fixture_insert(fixture.db, codes, ADDED);
    }
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    while (client_madd(&fixture.client[d], filter, fixture_code, codes, ADDED, &e) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    if (rows)
        fixture_sql(fixture.db, "COMMIT");
    codes += ADDED;
}

/* How many of @count keys are reported absent; errors do not count. */
static uint64_t absent(const char *filter, unsigned d, client_key_fn *key, uint64_t first, uint64_t count)
{
    struct client *c = &fixture.client[d];
    uint64_t no = 0;
    if (c->redis == NULL || c->redis->err != 0)
        fixture_reconnect(&fixture, d);
    for (uint64_t i = 0; i < count; i++) {
        char code[CLIENT_KEY_MAX];
        (void)key(first + i, code);
        assert_int_equal(redisAppendCommand(c->redis, "BF.EXISTS %s %s", filter, code), REDIS_OK);
    }
    for (uint64_t i = 0; i < count; i++) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(c->redis, (void **)&r), REDIS_OK);
        no += r->type == REDIS_REPLY_INTEGER && r->integer == 0;
        freeReplyObject(r);
    }
    return no;
}

static void says_no_to_none(const char *filter, unsigned d)
{
    uint64_t no = absent(filter, d, fixture_code, codes - 2 * ADDED, 2 * ADDED);
    if (no == 0)
        return;
    process_show_log(&fixture.daemon[d].process, "twinbloomd");
    fail_msg("coordinator %u says no to %" PRIu64 " of %d keys", d, no, 2 * ADDED);
}

/* Wait until both coordinators report absent keys as absent again. */
static void heals(void)
{
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    for (unsigned healed = 0; healed < fixture.daemons;) {
        healed = 0;
        for (unsigned d = 0; d < fixture.daemons; d++) {
            says_no_to_none(FILTER, d);
            healed += absent(FILTER, d, fixture_absent_code, 0, 200) > 190;
        }
        if (healed < fixture.daemons && clock_mono_us() > until) {
            process_show_log(&fixture.daemon[0].process, "twinbloomd");
            fail_msg("not healed after %d ms", HEAL_MS);
        }
    }
    for (unsigned d = 0; d < fixture.daemons; d++)
        fixture_all_present(&fixture, d, 0, codes);
}

static void await_other_view(void)
{
    struct error e = {""};
    char built[8] = "";
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    for (unsigned d = 0; d < fixture.daemons; d++)
        while (client_status(&fixture.client[d], FILTER, "built", built, sizeof(built), &e) != ERR_OK ||
               strcmp(built, "1") != 0)
            if (clock_mono_us() > until)
                fail_msg("nobody has built it on the other server: %s", e.text);
}

enum fate { ALL_LIVE, ALL_ARE_NEW };

static void restart(unsigned d)
{
    struct error e = {""};
    client_close(&fixture.client[d]);
    must(daemon_launch(&fixture.daemon[d], &e), e);
    fixture_reconnect(&fixture, d);
}

static void come_back(void (*back)(void), enum fate fate)
{
    for (unsigned d = 0; d < 2 && fate == ALL_ARE_NEW; d++)
        (void)daemon_stop(&fixture.daemon[d], 10000);
    back();
    for (unsigned d = 0; d < 2 && fate == ALL_ARE_NEW; d++) {
        restart(d);
        says_no_to_none(FILTER, d);
    }
    heals();
    add(FILTER, 0, true);
    heals();
}

static void to_first(void)
{
    aim(0);
}

/* --- the tests --- */

/* The filter can be healed from the table. Another server, with a copy of the first one's data, acknowledges
 * keys. */
static void promoted(enum fate fate)
{
    add(FILTER, 0, true);
    copy_home();
    aim(OTHER);
    heals();
    fixture_wait(&fixture, 0, "degraded", "0");
    add(FILTER, 0, true);
    fixture_wait(&fixture, 1, "degraded", "0");
    come_back(to_first, fate);
}

static void test_promoted_and_healed__then_the_first_one(void **state)
{
    (void)state;
    promoted(ALL_LIVE);
}

static void test_promoted_and_healed__then_the_first_one_for_coordinators_that_are_new(void **state)
{
    (void)state;
    promoted(ALL_ARE_NEW);
}

static void test_promoted_and_not_healed__then_the_first_one(void **state)
{
    (void)state;
    add(FILTER, 0, true);
    copy_home();
    fixture_sql(fixture.db,
                "ALTER TABLE short_link RENAME TO away"); /* the writers have all keys, so that nothing needs
                                                             to be healed from the table */
    aim(OTHER);
    add(FILTER, 0, false);
    fixture_sql(fixture.db, "ALTER TABLE away RENAME TO short_link");
    fixture_insert(fixture.db, codes - ADDED, ADDED);
    come_back(to_first, ALL_LIVE);
}

static void made_on_an_empty_one(enum fate fate)
{
    add(FILTER, 0, true);
    aim(OTHER);
    await_other_view();
    heals();
    add(FILTER, 0, true);
    come_back(to_first, fate);
}

static void test_made_anew_on_an_empty_one__then_the_first_one(void **state)
{
    (void)state;
    made_on_an_empty_one(ALL_LIVE);
}

static void test_made_anew_on_an_empty_one__then_the_first_one_for_coordinators_that_are_new(void **state)
{
    (void)state;
    made_on_an_empty_one(ALL_ARE_NEW);
}

static void swap_home(void)
{
    to_server(0, "SWAPDB 0 1");
}

static void swap_all(void)
{
    to_server(0, "SWAPDB 0 1");
    to_server(1, "SWAPDB 0 1");
}

static void swapped(void (*swap)(void), enum fate fate)
{
    add(FILTER, 0, true);
    swap();
    heals();
    await_other_view();
    add(FILTER, 0, true);
    heals();
    come_back(swap, fate);
}

static void test_database_of_home_is_swapped__and_back(void **state)
{
    (void)state;
    swapped(swap_home, ALL_LIVE);
}

static void test_database_of_home_is_swapped__and_back_for_coordinators_that_are_new(void **state)
{
    (void)state;
    swapped(swap_home, ALL_ARE_NEW);
}

static void test_databases_of_all_nodes_are_swapped__and_back(void **state)
{
    (void)state;
    swapped(swap_all, ALL_LIVE);
}

/* Without a source no build can heal the filter, so acknowledged keys stay "maybe". */
static void test_filter_without_a_source__then_the_first_one(void **state)
{
    struct error e = {""};
    (void)state;
    fixture_ask(&fixture, 0, "BF.RESERVE seen 0.0001 20000");
    add("seen", 0, false);
    copy_home();
    aim(OTHER);
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    while (client_ok(&fixture.client[0], &e, "TB.TRUST seen") != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    add("seen", 0, false);
    says_no_to_none("seen", 0);
    aim(0);
    for (until = clock_mono_us() + 2 * 1000 * 1000; clock_mono_us() < until;)
        for (unsigned d = 0; d < 2; d++)
            says_no_to_none("seen", d);
    client_close(&fixture.client[1]);
    (void)daemon_stop(&fixture.daemon[1], 10000);
    restart(1);
    says_no_to_none("seen", 1);
}

/* --- other lists --- */

static enum err start_third(const char *nodes, const char *prefix, struct error *e)
{
    char redis[128];
    (void)snprintf(redis, sizeof(redis), "shard_bytes = 16KiB\nprefix = %s\n", prefix);
    const struct daemon_options o = {
        .nodes = nodes,
        .dsn = fixture.postgres.dsn,
        .service = "check_interval = 200ms\n",
        .redis = redis,
        .filters = "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\ntable = short_link\n"
                   "id_column = id\nkey = code\nwhere = deleted_at IS NULL\nfollow = no\ngrace = 10s\n"};
    (void)daemon_fini(&third);
    third = (struct daemon){0};
    return daemon_start(&third, &o, e);
}

/* The error has both lists, and the filter is unchanged. */
static void is_refused(const char *nodes, const char *because)
{
    struct error e = {""};
    char command[2 * PATH_MAX];
    if (start_third(nodes, "twinbloom", &e) == ERR_OK)
        fail_msg("a coordinator starts with %s", nodes);
    (void)snprintf(command, sizeof(command), "grep -q 'event=start_failed .*here, and .*%s' '%s/log'",
                   because, third.directory);
    if (system(command) != 0) {
        process_show_log(&third.process, "twinbloomd");
        fail_msg("%s: its log does not say \"%s\"", nodes, because);
    }
    (void)daemon_fini(&third);
    third = (struct daemon){0};
}

static void is_whole(int64_t generation)
{
    for (unsigned d = 0; d < 2; d++) {
        fixture_wait(&fixture, d, "degraded", "0");
        fixture_all_present(&fixture, d, 0, codes);
        assert_true(absent(FILTER, d, fixture_absent_code, 0, 200) > 190);
        assert_int_equal(fixture_generation(&fixture, d), generation);
    }
}

/* The list of all nodes, with server OTHER before or after them; the two nodes in reverse order. */
static char home_url[64], ahead[1024], behind[1024], reversed[1024];

static void make_lists(void)
{
    const char *comma = strchr(fixture.node_list, ',');
    (void)snprintf(home_url, sizeof(home_url), "%.*s", (int)(comma - fixture.node_list), fixture.node_list);
    (void)snprintf(ahead, sizeof(ahead), "%s, %s", fixture.redis[OTHER].url, fixture.node_list);
    (void)snprintf(behind, sizeof(behind), "%s, %s", fixture.node_list, fixture.redis[OTHER].url);
    (void)snprintf(reversed, sizeof(reversed), "%s, %s", fixture.redis[1].url, home_url);
}

static void test_nodes__that_disagree_are_refused(void **state)
{
    (void)state;
    make_lists();
    add(FILTER, 0, true);
    int64_t generation = fixture_generation(&fixture, 0);
    is_refused(reversed, "the first one is the metadata node");
    is_refused(ahead, "the first one is the metadata node");
    is_refused(fixture.redis[1].url, "the first one is the metadata node");
    is_refused(home_url, "has shards on node");
    is_whole(generation);
}

/* The database is forgotten in the URL of one node, as where another installation has a database of its own.
 * The coordinator would take all that is elsewhere for lost, and sweep what it sees. */
static void test_nodes__with_other_databases_are_refused(void **state)
{
    char other_home[256], other_second[256];
    (void)state;
    make_lists();
    (void)snprintf(other_home, sizeof(other_home), "%s/1, %s", home_url, fixture.redis[1].url);
    (void)snprintf(other_second, sizeof(other_second), "%s, %s/1", home_url, fixture.redis[1].url);
    add(FILTER, 0, true);
    int64_t generation = fixture_generation(&fixture, 0);
    is_refused(other_home, "the first one is the metadata node");
    is_refused(other_second, "databases");
    is_whole(generation);
}

static void test_nodes__that_disagree_are_refused_by_an_installation_without_a_list(void **state)
{
    (void)state;
    make_lists();
    add(FILTER, 0, true);
    int64_t generation = fixture_generation(&fixture, 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(number(i, "DEL twinbloom:nodes"), 1);
    is_refused(reversed, "the names of filters lie there");
    is_refused(home_url, "has shards on node");
    is_whole(generation);
}

static void test_nodes__that_come_and_go_are_taken(void **state)
{
    struct error e = {""};
    (void)state;
    make_lists();
    int64_t generation = fixture_generation(&fixture, 0);
    must(start_third(behind, "twinbloom", &e), e); /* one node more */
    (void)daemon_stop(&fixture.daemon[1], 10000);
    restart(1);                                               /* one node less */
    must(start_third(fixture.node_list, "twinbloom", &e), e); /* the removed node is empty */
    is_whole(generation);
    (void)daemon_fini(&third);
    third = (struct daemon){0};
}

/* The proxy cut connections to the metadata node, so a request may get an error at first. */
static void home_is_reached_again(unsigned d)
{
    struct error e = {""};
    size_t present = 0, n_absent = 0;
    uint64_t until = clock_mono_us() + 10000000;
    while (client_mexists(&fixture.client[d], FILTER, fixture_code, 0, 1, &present, &n_absent, &e) !=
           ERR_OK) {
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
        clock_sleep_us(20000);
    }
}

/* The metadata node is away when the coordinator starts, and the other node does not know the list. */
static void test_nodes__that_disagree_with_a_home_that_was_away_are_refused_later(void **state)
{
    struct error e = {""};
    (void)state;
    make_lists();
    add(FILTER, 0, true);
    int64_t generation = fixture_generation(&fixture, 0);
    assert_int_equal(number(1, "DEL twinbloom:nodes"), 1);
    proxy_set(proxy, route, &(struct proxy_fault){.refuse = true});
    must(start_third(reversed, "twinbloom", &e), e);
    clock_sleep_us(500 * 1000);
    proxy_lift(proxy);
    must(process_wait(&third.process, 20000, &e), e);
    assert_int_equal(process_exit_status(&third.process), 1);
    char *log = process_log(&third.process);
    assert_non_null(strstr(log, "the first one is the metadata node"));
    free(log);
    for (unsigned d = 0; d < 2; d++)
        home_is_reached_again(d);
    is_whole(generation);
    (void)daemon_fini(&third);
    third = (struct daemon){0};
}

/* Another prefix is another installation: it may have another metadata node, and does not touch this one. */
static void test_nodes__of_another_prefix_are_another_matter(void **state)
{
    struct error e = {""};
    struct client c = {0};
    (void)state;
    make_lists();
    add(FILTER, 0, true);
    int64_t generation = fixture_generation(&fixture, 0);
    must(start_third(reversed, "other", &e), e);
    must(client_open(&c, third.port, 10000, &e), e);
    must(client_wait_status(&c, FILTER, "built", "1", HEAL_MS, &e), e);
    client_close(&c);
    is_whole(generation);
    (void)daemon_fini(&third);
    third = (struct daemon){0};
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_promoted_and_healed__then_the_first_one),
        TEST(test_promoted_and_healed__then_the_first_one_for_coordinators_that_are_new),
        TEST(test_promoted_and_not_healed__then_the_first_one),
        TEST(test_made_anew_on_an_empty_one__then_the_first_one),
        TEST(test_made_anew_on_an_empty_one__then_the_first_one_for_coordinators_that_are_new),
        TEST(test_database_of_home_is_swapped__and_back),
        TEST(test_database_of_home_is_swapped__and_back_for_coordinators_that_are_new),
        TEST(test_databases_of_all_nodes_are_swapped__and_back),
        TEST(test_filter_without_a_source__then_the_first_one),
        TEST(test_nodes__that_disagree_are_refused),
        TEST(test_nodes__with_other_databases_are_refused),
        TEST(test_nodes__that_disagree_are_refused_by_an_installation_without_a_list),
        TEST(test_nodes__that_disagree_with_a_home_that_was_away_are_refused_later),
        TEST(test_nodes__that_come_and_go_are_taken),
        TEST(test_nodes__of_another_prefix_are_another_matter),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
