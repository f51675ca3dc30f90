/* SPDX-License-Identifier: MIT */
/* A filter moves from one node to others, online: by TB.REBUILD with NODES, and by the configuration. Node 0
 * is the metadata node and has no shards. */
#include "tests/integration/fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 40000, WAIT_MS = 60000, REPLY_MS = 20000, NODES = 4, A = 1, B = 2, C = 3 };

/* Shards are small, so that there are several. */
#define SHARDS "shard_bytes = 16KiB\n"

static struct fixture fixture;
static char filter_lines[64], node[NODES][32];

static const char gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 20000 THEN PERFORM pg_advisory_lock_shared(7); "
    "PERFORM pg_advisory_unlock_shared(7); END IF; RETURN true; END $$";

/* The ports are known now. */
static void name_nodes(struct fixture *f)
{
    for (unsigned i = 0; i < NODES; i++)
        (void)snprintf(node[i], sizeof(node[i]), "127.0.0.1:%u", f->redis[i].port);
    (void)snprintf(filter_lines, sizeof(filter_lines), "nodes = %s\n", node[A]);
}

static int setup(void **state)
{
    (void)state;
    return fixture_start(
        &fixture,
        &(struct fixture_options){.nodes = NODES,
                                  .daemons = 2,
                                  .postgres = true,
                                  .rows = ROWS,
                                  .capacity = 100000,
                                  .rate = "0.001",
                                  .redis_lines = SHARDS,
                                  .filter = filter_lines,
                                  .expansion = "lease = 2s\npage_rows = 500\ncheckpoint_interval = 20ms\n",
                                  .prepare = name_nodes,
                                  .schema = gate,
                                  .where = "public.gate(id)"});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* --- what lies where --- */

struct found {
    struct client *redis;
    unsigned shards, others;
};

static void look_at(const char *name, void *arg)
{
    struct found *found = arg;
    redisReply *r = client_command(found->redis, "TYPE %s", name);
    assert_non_null(r);
    found->shards += strcmp(r->str, "string") == 0;
    found->others += strcmp(r->str, "string") != 0;
    freeReplyObject(r);
}

static struct found on_node(unsigned n)
{
    struct client redis = {0};
    struct error e = {""};
    struct found found = {.redis = &redis};
    must(client_open(&redis, fixture.redis[n].port, REPLY_MS, &e), e);
    must(client_scan(&redis, "twinbloom:{" FILTER ".*", look_at, &found, &e), e);
    client_close(&redis);
    return found;
}

static void status_is(unsigned d, const char *field, const char *expected)
{
    char text[256] = "";
    struct error e = {""};
    must(client_status(&fixture.client[d], FILTER, field, text, sizeof(text), &e), e);
    assert_string_equal(text, expected);
}

static void wait_done(unsigned d, int64_t generation)
{
    struct error e = {""};
    must(client_wait_status_least(&fixture.client[d], FILTER, "generation", generation, WAIT_MS, &e), e);
    fixture_wait(&fixture, d, "phase", "STEADY");
    fixture_wait(&fixture, d, "job_state", "done");
}

static void rebuild_on(unsigned d, const char *nodes)
{
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, d);
    must(client_ok(&fixture.client[d], &e, "TB.REBUILD " FILTER " NODES %s", nodes), e);
    wait_done(d, before + 1);
}

static void refused(unsigned d, const char *nodes, const char *says)
{
    redisReply *r = client_command(&fixture.client[d], "TB.REBUILD " FILTER " NODES %s", nodes);
    if (r == NULL || r->type != REDIS_REPLY_ERROR || strstr(r->str, says) == NULL)
        fail_msg("NODES %s: %s, expected \"%s\"", nodes, r == NULL ? "no reply" : r->str, says);
    freeReplyObject(r);
}

/* --- traffic --- */

static atomic_bool stop;
static uint64_t added;
static char failure[512];

static size_t added_code(uint64_t n, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "new-%llu", (unsigned long long)n);
}

/* Send one key at a time, through both coordinators in turn. A reply that is no integer is a failure. */
static long long ask(struct client *c, const char *command, uint64_t n)
{
    char key[CLIENT_KEY_MAX];
    (void)added_code(n, key);
    redisReply *r = client_command(c, "%s " FILTER " %s", command, key);
    long long answer = r != NULL && r->type == REDIS_REPLY_INTEGER ? r->integer : -1;
    if (answer < 0)
        (void)snprintf(failure, sizeof(failure), "%s %s: %s", command, key, r == NULL ? "no reply" : r->str);
    freeReplyObject(r);
    return answer;
}

static void *run(void *arg)
{
    (void)arg;
    struct client c[2] = {{0}, {0}};
    struct error e = {""};
    char sql[160];
    PGconn *db = PQconnectdb(fixture.postgres.dsn);
    for (unsigned d = 0; d < 2; d++)
        if (client_open(&c[d], fixture.daemon[d].port, REPLY_MS, &e) != ERR_OK)
            (void)snprintf(failure, sizeof(failure), "%s", e.text);
    for (uint64_t n = 0; !atomic_load(&stop) && failure[0] == '\0'; n++) {
        (void)snprintf(sql, sizeof(sql), "INSERT INTO short_link (code, url) VALUES ('new-%llu', 'x')",
                       (unsigned long long)n);
        PQclear(PQexec(db, sql));
        if (ask(&c[n % 2], "BF.ADD", n) >= 0)
            added = n + 1;
        for (uint64_t i = 0; i < 10 && failure[0] == '\0'; i++)
            if (ask(&c[i % 2], "BF.EXISTS", i * 7919 % (n + 1)) == 0)
                (void)snprintf(failure, sizeof(failure), "an acknowledged key is absent");
    }
    for (unsigned d = 0; d < 2; d++)
        client_close(&c[d]);
    PQfinish(db);
    return NULL;
}

static void all_there(unsigned d)
{
    struct error e = {""};
    uint64_t present = 0;
    fixture_all_present(&fixture, d, 0, ROWS);
    must(client_mexists(&fixture.client[d], FILTER, added_code, 0, added, &present, NULL, &e), e);
    assert_int_equal(present, added);
}

/* --- tests --- */

static void test_move__the_configuration_pins_a_filter_to_some_nodes(void **state)
{
    (void)state;
    status_is(0, "nodes", node[A]);
    assert_true(on_node(A).shards > 0);
    assert_int_equal(on_node(0).shards + on_node(B).shards + on_node(C).shards, 0);
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    wait_done(0, before + 1);
    status_is(1, "nodes", node[A]);
}

static void test_move__refuses_what_cannot_be(void **state)
{
    (void)state;
    char list[128];
    refused(0, "10.9.8.7:6379", "not configured");
    (void)snprintf(list, sizeof(list), "%s,%s", node[B], node[B]);
    refused(0, list, "listed twice");
    refused(0, ",", "not configured");
    process_signal(&fixture.redis[C].process, SIGSTOP);
    (void)snprintf(list, sizeof(list), "%s,%s", node[B], node[C]);
    refused(0, list, node[C]);
    process_signal(&fixture.redis[C].process, SIGCONT);
    redisReply *r = client_command(&fixture.client[0], "TB.REBUILD " FILTER " NODES");
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR);
    freeReplyObject(r);
    status_is(0, "nodes", node[A]);
}

static void test_move__refuses_a_node_that_lacks_the_memory(void **state)
{
    (void)state;
    struct client redis = {0};
    struct error e = {""};
    char list[128], text[512];
    (void)snprintf(list, sizeof(list), "%s,%s", node[B], node[C]);
    must(client_open(&redis, fixture.redis[C].port, REPLY_MS, &e), e);
    must(client_ok(&redis, &e, "CONFIG SET maxmemory 1mb"), e);
    redisReply *r = client_command(&fixture.client[0], "TB.PLAN " FILTER " NODES %s", list);
    bool no = false;
    for (size_t i = 0; r != NULL && i + 1 < r->elements; i += 2)
        no |= strcmp(r->element[i]->str, "refused") == 0 && strstr(r->element[i + 1]->str, node[C]) != NULL;
    freeReplyObject(r);
    assert_true(no);
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER " NODES %s", list), e);
    fixture_wait(&fixture, 0, "job_state", "failed");
    must(client_status(&fixture.client[0], FILTER, "job_error", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, node[C]));
    assert_non_null(strstr(text, "memory"));
    status_is(0, "nodes", node[A]);
    must(client_ok(&redis, &e, "CONFIG SET maxmemory 0"), e);
    client_close(&redis);
}

static const redisReply *value_of(const redisReply *list, const char *name)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2)
        if (strcmp(list->element[i]->str, name) == 0)
            return list->element[i + 1];
    fail_msg("there is no %s", name);
    return NULL;
}

/* The plan shows how much comes to the new nodes, and how much is freed on the old one. */
static void test_move__is_planned_for_each_node(void **state)
{
    (void)state;
    const char *const order[] = {node[C], node[B], node[A]};
    redisReply *r = client_command(&fixture.client[0], "TB.PLAN " FILTER " NODES %s,%s", node[C], node[B]);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
    const redisReply *nodes = value_of(r, "per_node");
    long long comes = 0;
    assert_int_equal(value_of(r, "fits")->integer, 1);
    assert_int_equal(nodes->elements, 3);
    for (size_t i = 0; i < 3; i++) {
        const redisReply *n = nodes->element[i];
        long long before = value_of(n, "before_bytes")->integer,
                  during = value_of(n, "during_bytes")->integer;
        assert_string_equal(value_of(n, "node")->str, order[i]);
        assert_int_equal(before, i < 2 ? 0 : value_of(r, "memory_now_bytes")->integer);
        assert_true(during == (i < 2 ? value_of(n, "after_bytes")->integer : before));
        assert_true(value_of(n, "used_bytes")->integer > 0);
        comes += value_of(n, "shards")->integer;
    }
    assert_int_equal(comes, value_of(r, "shards")->integer);
    assert_int_equal(value_of(nodes->element[2], "after_bytes")->integer, 0);
    freeReplyObject(r);
}

static void test_move__goes_online_and_leaves_nothing_behind(void **state)
{
    (void)state;
    pthread_t thread;
    char list[128], both[128];
    (void)snprintf(list, sizeof(list), "%s,%s", node[B], node[C]);
    (void)snprintf(both, sizeof(both), "%s, %s", node[B], node[C]);
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    clock_sleep_us(200000);
    rebuild_on(0, list);
    clock_sleep_us(200000);
    atomic_store(&stop, true);
    (void)pthread_join(thread, NULL);
    if (failure[0] != '\0')
        fail_msg("%s", failure);
    assert_true(added > 0);
    status_is(1, "nodes", both);
    struct found a = on_node(A), b = on_node(B), c = on_node(C);
    assert_int_equal(a.shards, 0);
    assert_int_equal(a.others, 0);
    assert_in_range(b.shards, 1, c.shards + 1); /* evenly distributed */
    assert_in_range(c.shards, 1, b.shards + 1);
    for (unsigned d = 0; d < 2; d++)
        all_there(d);
}

static void test_move__the_node_that_was_left_may_die(void **state)
{
    (void)state;
    struct error e = {""};
    char list[128];
    int64_t n;
    (void)snprintf(list, sizeof(list), "%s,%s", node[C], node[B]);
    temp_redis_kill(&fixture.redis[A]);
    for (unsigned d = 0; d < 2; d++) {
        all_there(d);
        fixture_sql(fixture.db, d == 0 ? "INSERT INTO short_link (code, url) VALUES ('after-0', 'x')"
                                       : "INSERT INTO short_link (code, url) VALUES ('after-1', 'x')");
        must(client_integer(&fixture.client[d], &n, &e, "BF.ADD " FILTER " after-%u", d), e);
        assert_int_equal(fixture_false_positives(&fixture, d, 3000) < 40, 1);
    }
    rebuild_on(1, list); /* a rebuild does not need the node either */
    for (unsigned d = 0; d < 2; d++) {
        all_there(d);
        must(client_integer(&fixture.client[d], &n, &e, "BF.EXISTS " FILTER " after-0"), e);
        assert_int_equal(n, 1);
    }
    must(temp_redis_restart(&fixture.redis[A], false, &e), e);
}

static void test_move__whoever_takes_over_builds_on_the_same_nodes(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 1);
    char first[128], second[128], nodes[128];
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER " NODES %s", node[B]), e);
    fixture_wait(&fixture, 1, "job_step", "scan");
    status_is(1, "job_nodes", node[B]);
    status_is(1, "alternate_nodes", node[B]);
    refused(1, node[C], "unfinished");
    must(client_status(&fixture.client[1], FILTER, "job_owner", first, sizeof(first), &e), e);
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    wait_done(1, before + 1);
    must(client_status(&fixture.client[1], FILTER, "job_owner", second, sizeof(second), &e), e);
    assert_string_not_equal(first, second);
    must(client_status(&fixture.client[1], FILTER, "nodes", nodes, sizeof(nodes), &e), e);
    assert_string_equal(nodes, node[B]);
    assert_int_equal(on_node(A).shards + on_node(C).shards, 0);
    all_there(1);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    all_there(0);
}

/* Start a coordinator whose configuration lacks nodes. */
static enum err start_ignorant(struct daemon *d, struct error *e)
{
    char list[160], filters[256];
    (void)snprintf(list, sizeof(list), "%s, %s", fixture.redis[0].url, fixture.redis[A].url);
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER "]\ncapacity = 100000\nerror_rate = 0.001\ntable = short_link\n"
                   "id_column = id\nkey = code\nwhere = public.gate(id)\nfollow = no\ngrace = 10s\n");
    return daemon_start(d,
                        &(struct daemon_options){
                            .nodes = list, .dsn = fixture.postgres.dsn, .redis = SHARDS, .filters = filters},
                        e);
}

static void expect_error(struct client *c, const char *command, const char *says)
{
    redisReply *r = client_command(c, command);
    if (r == NULL || r->type != REDIS_REPLY_ERROR || strstr(r->str, says) == NULL)
        fail_msg("%s: %s", command, r == NULL ? "no reply" : r->str != NULL ? r->str : "no error");
    freeReplyObject(r);
}

/* The filter's epoch, once it was the same for 2 s: folding takes a token first, which is an epoch more. */
static int64_t epoch_at_rest(void)
{
    enum { REST_MS = 2000, STEP_MS = 50 };
    int64_t epoch = 0, now;
    struct error e = {""};
    for (int rest = 0, waited = 0; rest < REST_MS; rest += STEP_MS, waited += STEP_MS) {
        must(client_status_number(&fixture.client[0], FILTER, "epoch", &now, &e), e);
        if (now != epoch)
            rest = 0;
        epoch = now;
        assert_in_range(waited, 0, WAIT_MS);
        clock_sleep_us(STEP_MS * 1000);
    }
    return epoch;
}

static void test_move__who_does_not_know_a_node_does_not_start_beside_its_shards(void **state)
{
    (void)state;
    struct daemon ignorant = {0};
    struct error e = {""};
    int64_t epoch, later;
    status_is(0, "nodes", node[B]);
    epoch = epoch_at_rest();
    assert_int_not_equal(start_ignorant(&ignorant, &e), ERR_OK);
    must(client_status_number(&fixture.client[0], FILTER, "epoch", &later, &e), e);
    assert_int_equal(epoch, later);
    (void)daemon_fini(&ignorant);
    rebuild_on(0, node[A]);
}

/* A coordinator lacks the node to which a filter moves. */
static void test_move__who_does_not_know_a_node_says_so_and_touches_nothing(void **state)
{
    (void)state;
    struct daemon ignorant = {0};
    struct client c = {0};
    struct error e = {""};
    int64_t epoch, later, n;
    must(start_ignorant(&ignorant, &e), e);
    must(client_open(&c, ignorant.port, REPLY_MS, &e), e);
    must(client_integer(&c, &n, &e, "BF.EXISTS " FILTER " c1"), e);
    assert_int_equal(n, 1);
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE wide 0.01 1000"), e);
    must(client_status_number(&fixture.client[0], "wide", "epoch", &epoch, &e), e);
    expect_error(&c, "BF.EXISTS wide c1", "which is not configured");
    expect_error(&c, "BF.ADD wide c1", "which is not configured");
    expect_error(&c, "BF.INFO wide", "which is not configured");
    must(client_wait_status(&c, "wide", "state", "unreachable", WAIT_MS, &e), e);
    clock_sleep_us(2500000); /* until its controller has looked */
    must(client_status_number(&fixture.client[0], "wide", "epoch", &later, &e), e);
    assert_int_equal(epoch, later);
    /* The others refuse to move a filter to a node that this coordinator lacks. */
    refused(0, node[C], "does not have node");
    client_close(&c);
    assert_true(daemon_fini(&ignorant));
    must(client_integer(&fixture.client[0], &n, &e, "DEL wide"), e);
    rebuild_on(0, node[C]); /* the coordinator has left, and prevents nothing */
    all_there(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_move__the_configuration_pins_a_filter_to_some_nodes),
        cmocka_unit_test(test_move__refuses_what_cannot_be),
        cmocka_unit_test(test_move__refuses_a_node_that_lacks_the_memory),
        cmocka_unit_test(test_move__is_planned_for_each_node),
        cmocka_unit_test(test_move__goes_online_and_leaves_nothing_behind),
        cmocka_unit_test(test_move__the_node_that_was_left_may_die),
        cmocka_unit_test(test_move__whoever_takes_over_builds_on_the_same_nodes),
        cmocka_unit_test(test_move__who_does_not_know_a_node_does_not_start_beside_its_shards),
        cmocka_unit_test(test_move__who_does_not_know_a_node_says_so_and_touches_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
