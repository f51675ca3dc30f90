/* SPDX-License-Identifier: MIT */
/* Masters that a filter does not trust, as event loops meet them: a server that was started again from its
 * file, a replica that lagged and was promoted, a server that was a replica for a while. No key that was
 * acknowledged is reported absent, ever. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/coordinator.h"

enum { KEYS = 200, LATE = 100 /* keys that a replica lacks */, NEVER = 100000, SETTLE_MS = 900 };

static struct servers servers;
static struct filter f;
static struct coordinator one, other;
static const struct filter_policy plain = {0};
static const struct filter_policy strict = {.configured = true, .error_on_lost = true};

static int setup(void **state)
{
    (void)state;
    memset(&one, 0, sizeof(one));
    memset(&other, 0, sizeof(other));
    assert_int_equal(servers_start(&servers, 1), 0);
    filter_init(&f, &servers, "f");
    filter_make(&f, 4);
    coordinator_open(&one, &servers, plain);
    coordinator_add(&one, 0, KEYS);
    coordinator_open(&other, &servers, strict);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    coordinator_close(&other);
    filter_fini(&f);
    return servers_stop(&servers);
}

static void reconnect(void)
{
    struct error e = {""};
    client_close(&servers.client[0]);
    must(client_open(&servers.client[0], servers.redis[0].port, 5000, &e), e);
}

/* The server dies and comes back with all that it had. */
static void restart(void)
{
    struct error e = {""};
    must(client_save(&servers.client[0], &e), e);
    temp_redis_kill(&servers.redis[0]);
    must(temp_redis_restart(&servers.redis[0], true, &e), e);
    reconnect();
}

/* As whoever heals does. */
static void trust(void)
{
    struct error e = {""};
    struct lineages s;
    lineages_init(&s);
    must(link_lineages(f.fence.link, NULL, NULL, &s, &e), e);
    must(fence_trust(&f.fence, &s, MUTEX, &e), e);
    lineages_fini(&s);
}

/* Nobody tells of events here: an answer that is not given makes it look, from time to time. */
static void look_again(struct coordinator *c)
{
    coordinator_run(c, 300);
    (void)coordinator_check(c, NEVER, 1, KEY_NO);
    coordinator_run(c, 300);
}

static void start_lagging(struct temp_redis *replica, struct client *c)
{
    struct error e = {""};
    char state[16] = "";
    must(temp_redis_start(replica, NULL, &e), e);
    must(client_open(c, replica->port, 5000, &e), e);
    must(client_ok(c, &e, "REPLICAOF 127.0.0.1 %u", servers.redis[0].port), e);
    for (int i = 0; i < 500 && strcmp(state, "up") != 0; i++) {
        redisReply *r = client_command(c, "INFO replication");
        const char *at = strstr(r->str, "master_link_status:");
        if (at != NULL)
            (void)sscanf(at, "master_link_status:%15[a-z]", state);
        freeReplyObject(r);
        clock_sleep_us(20000);
    }
    assert_string_equal(state, "up");
    trust(); /* the first replica gives the master another id */
    assert_string_equal(servers_text(&servers, 0, "ACL SETUSER default -psync -sync"), "OK");
    assert_true(servers_integer(&servers, 0, "CLIENT KILL TYPE replica") >= 0);
}

/* The replica's server is started on the master's port. */
static void promote_on_the_same_port(struct temp_redis *replica, struct client *c)
{
    struct error e = {""};
    uint16_t port = servers.redis[0].port;
    temp_redis_kill(&servers.redis[0]);
    must(client_ok(c, &e, "REPLICAOF NO ONE"), e);
    must(client_save(c, &e), e);
    client_close(c);
    temp_redis_stop(replica);
    temp_redis_fini(&servers.redis[0]);
    servers.redis[0] = *replica;
    servers.redis[0].port = port;
    must(temp_redis_restart(&servers.redis[0], true, &e), e);
    reconnect();
}

/* --- static nodes --- */

static void test_publish__writes_down_who_the_masters_are(void **state)
{
    (void)state;
    struct error e = {""};
    struct lineages s;
    lineages_init(&s);
    must(link_lineages(f.fence.link, NULL, NULL, &s, &e), e);
    assert_int_equal(s.count, 1);
    assert_true(s.one[0].id != 0 && s.one[0].run != 0 && !s.one[0].empty && !s.one[0].promoted);
    must(fence_load(&f.fence, &f.view, &e), e);
    assert_true(f.view.trusted.known && f.view.trusted.count == 1 && f.view.trusted.id[0] == s.one[0].id);
    assert_true(f.view.trusted_ms != 0);
    filter_open(&f, 2, true); /* and a change of the view leaves it alone */
    must(fence_load(&f.fence, &f.view, &e), e);
    assert_true(f.view.trusted.count == 1 && f.view.trusted.id[0] == s.one[0].id);
    lineages_fini(&s);
}

static void test_restart__answers_are_not_no_until_it_is_trusted(void **state)
{
    (void)state;
    assert_int_equal(coordinator_check(&one, NEVER, KEYS, KEY_NO), KEYS);
    assert_int_equal(coordinator_check(&other, NEVER, KEYS, KEY_NO), KEYS);
    restart();
    coordinator_run(&one, SETTLE_MS);
    coordinator_run(&other, SETTLE_MS);
    assert_int_equal(coordinator_check(&one, NEVER, KEYS, KEY_YES), KEYS);
    assert_true(one.suspect > 0);
    assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
    assert_int_equal(coordinator_check(&other, NEVER, KEYS, KEY_LOST), KEYS);
    assert_int_equal(coordinator_check(&other, 0, KEYS, KEY_YES), KEYS);
    coordinator_add(&one, KEYS, 50);
    assert_int_equal(coordinator_results(&one, 50, KEY_NO), 50); /* none is told to be new */
    coordinator_add(&other, KEYS + 50, 50);
    assert_int_equal(coordinator_results(&other, 50, KEY_NO), 50);
    trust();
    look_again(&one);
    look_again(&other);
    assert_int_equal(coordinator_check(&one, NEVER, KEYS, KEY_NO), KEYS);
    assert_int_equal(coordinator_check(&other, NEVER, KEYS, KEY_NO), KEYS);
    assert_int_equal(coordinator_check(&one, 0, KEYS + 100, KEY_YES), KEYS + 100);
    coordinator_add(&one, KEYS + 100, 50);
    assert_int_equal(coordinator_results(&one, 50, KEY_YES), 50);
}

static void test_replica__that_lagged_reports_nothing_absent(void **state)
{
    (void)state;
    struct temp_redis replica = {0};
    struct client c = {0};
    start_lagging(&replica, &c);
    coordinator_add(&one, KEYS, LATE);
    assert_int_equal(coordinator_check(&other, 0, KEYS + LATE, KEY_YES), KEYS + LATE);
    promote_on_the_same_port(&replica, &c);
    assert_true(filter_check(&f, view_current(&f.view), KEYS, LATE) < LATE / 10); /* they are not there */
    coordinator_run(&one, SETTLE_MS);
    coordinator_run(&other, SETTLE_MS);
    assert_int_equal(coordinator_check(&one, 0, KEYS + LATE, KEY_YES), KEYS + LATE);
    (void)coordinator_check(&other, 0, KEYS + LATE, KEY_YES);
    assert_int_equal(coordinator_results(&other, KEYS + LATE, KEY_NO), 0);
    (void)filter_add(&f, view_current(&f.view), KEYS, LATE); /* as healing does */
    trust();
    look_again(&one);
    assert_int_equal(coordinator_check(&one, 0, KEYS + LATE, KEY_YES), KEYS + LATE);
    assert_int_equal(coordinator_check(&one, NEVER, KEYS, KEY_NO), KEYS);
}

/* Under connections that live on. */
static void test_demotion__is_noticed_by_those_who_are_connected(void **state)
{
    (void)state;
    struct temp_redis master = {0};
    struct error e = {""};
    assert_int_equal(coordinator_check(&one, NEVER, KEYS, KEY_NO), KEYS);
    must(temp_redis_start(&master, NULL, &e), e);
    assert_string_equal(servers_text(&servers, 0, "REPLICAOF 127.0.0.1 %u", master.port), "OK");
    coordinator_run(&one, SETTLE_MS);
    assert_int_equal(coordinator_ask(&one, OPERATION_CHECK, 0, 1), ERR_UNREACHABLE);
    assert_non_null(strstr(one.error, "replica"));
    assert_int_equal(link_lineages(f.fence.link, NULL, NULL, &(struct lineages){0}, &e), ERR_UNREACHABLE);
    temp_redis_fini(&master);
    assert_string_equal(servers_text(&servers, 0, "REPLICAOF NO ONE"), "OK");
    coordinator_run(&one, SETTLE_MS);
    (void)coordinator_check(&one, NEVER, KEYS, KEY_YES);
    assert_int_equal(coordinator_results(&one, KEYS, KEY_NO), 0);
}

static void test_promotion__in_between_two_commands_is_noticed(void **state)
{
    (void)state;
    assert_int_equal(coordinator_check(&one, NEVER, KEYS, KEY_NO), KEYS);
    assert_string_equal(servers_text(&servers, 0, "REPLICAOF 127.0.0.1 1"), "OK");
    assert_string_equal(servers_text(&servers, 0, "REPLICAOF NO ONE"), "OK");
    coordinator_run(&one, SETTLE_MS);
    assert_int_equal(coordinator_check(&one, NEVER, KEYS, KEY_YES), KEYS);
}

static void test_view__of_an_older_version_trusts_all(void **state)
{
    (void)state;
    struct error e = {""};
    assert_int_equal(servers_integer(&servers, 0, "HDEL " PREFIX ":{f}:view trusted trusted_ms"), 2);
    restart();
    coordinator_close(&one);
    coordinator_open(&one, &servers, plain);
    assert_int_equal(coordinator_check(&one, NEVER, KEYS, KEY_NO), KEYS);
    must(fence_load(&f.fence, &f.view, &e), e);
    assert_false(f.view.trusted.known);
}

static void test_trust_instead__changes_only_what_it_has_seen(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view stale;
    struct lineages s;
    lineages_init(&s);
    must(link_lineages(f.fence.link, NULL, NULL, &s, &e), e);
    must(fence_load(&f.fence, &stale, &e), e);
    f.view = stale;
    uint64_t since = stale.trusted_ms;
    const struct lineage more = {.id = 42};
    must(lineages_add(&s, &more, &e), e);
    clock_sleep_us(3000);
    must(fence_trust_instead(&f.fence, &f.view, &s, &e), e);
    assert_int_equal(f.view.trusted.count, 2);
    must(fence_load(&f.fence, &f.view, &e), e);
    assert_true(f.view.trusted.count == 2 && f.view.trusted_ms == since);
    gives(ERR_CONFLICT, fence_trust_instead(&f.fence, &stale, &s, &e), e);
    gives(ERR_MUTEX_LOST, fence_trust(&f.fence, &s, "owner:8", &e), e);
    must(fence_trust(&f.fence, &s, MUTEX, &e), e);
    must(fence_load(&f.fence, &f.view, &e), e);
    assert_true(f.view.trusted_ms > since);
    f.fence.names.incarnation++;
    gives(ERR_FENCED, fence_trust(&f.fence, &s, MUTEX, &e), e);
    lineages_fini(&s);
}

static void test_info__a_user_who_may_not_call_it_is_told(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *reply;
    assert_string_equal(servers_text(&servers, 0, "ACL SETUSER default -info"), "OK");
    coordinator_close(&one);
    coordinator_open(&one, &servers, plain);
    assert_int_equal(coordinator_ask(&one, OPERATION_CHECK, 0, 1), ERR_UNREACHABLE);
    assert_non_null(strstr(one.error, "+info"));
    struct link *l = link_new(&servers.nodes, LINK_MS, NULL);
    gives(ERR_REFUSED, link_command(l, NODE_HOME, &reply, &e, "PING"), e);
    assert_non_null(strstr(e.text, "+info"));
    link_free(l);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_publish__writes_down_who_the_masters_are),
        TEST(test_restart__answers_are_not_no_until_it_is_trusted),
        TEST(test_replica__that_lagged_reports_nothing_absent),
        TEST(test_demotion__is_noticed_by_those_who_are_connected),
        TEST(test_promotion__in_between_two_commands_is_noticed),
        TEST(test_view__of_an_older_version_trusts_all),
        TEST(test_trust_instead__changes_only_what_it_has_seen),
        TEST(test_info__a_user_who_may_not_call_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
