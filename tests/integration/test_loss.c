/* SPDX-License-Identifier: MIT */
/* Redis loses data: no acknowledged key is reported absent, and the filter heals by itself from its
 * source. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 5000, SAMPLE = 1000, HEAL_MS = 60000, BACK_MS = 15000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 20000,
                                               .rate = "0.001",
                                               .expansion = "lease = 2s\n"};

/* Check @count codes at coordinator @d, one command each, all in one pipeline. *@no counts "no", *@yes counts
 * "yes"; other replies are errors, which a loss may cause. */
static void ask(unsigned d, client_key_fn *key, uint64_t count, uint64_t *yes, uint64_t *no)
{
    struct client *c = &fixture.client[d];
    if (c->redis == NULL || c->redis->err != 0)
        fixture_reconnect(&fixture, d);
    for (uint64_t i = 0; i < count; i++) {
        char code[CLIENT_KEY_MAX];
        (void)key(i, code);
        assert_int_equal(redisAppendCommand(c->redis, "BF.EXISTS " FILTER " %s", code), REDIS_OK);
    }
    for (uint64_t i = 0; i < count; i++) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(c->redis, (void **)&r), REDIS_OK);
        *yes += r->type == REDIS_REPLY_INTEGER && r->integer == 1;
        *no += r->type == REDIS_REPLY_INTEGER && r->integer == 0;
        freeReplyObject(r);
    }
}

/* Wait until both coordinators report almost all absent codes as absent again (while a filter is lost, they
 * may only say "maybe"). A code with a row may never be reported absent meanwhile. */
static void heals_without_a_false_no(const char *what)
{
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    for (;;) {
        uint64_t healed = 0;
        for (unsigned d = 0; d < fixture.daemons; d++) {
            uint64_t yes = 0, no = 0, absent_yes = 0, absent_no = 0;
            ask(d, fixture_code, SAMPLE, &yes, &no);
            if (no > 0)
                fail_msg("%s: coordinator %u said no to %" PRIu64 " of %d keys that have a row", what, d, no,
                         SAMPLE);
            ask(d, fixture_absent_code, SAMPLE, &absent_yes, &absent_no);
            healed += yes == SAMPLE && absent_no > SAMPLE * 95 / 100;
        }
        if (healed == fixture.daemons)
            return;
        if (clock_mono_us() > until)
            fail_msg("%s: not healed after %d ms", what, HEAL_MS);
        clock_sleep_us(20000);
    }
}

static void is_whole_again(void)
{
    struct error e = {""};
    for (unsigned d = 0; d < fixture.daemons; d++) {
        must(client_wait_status(&fixture.client[d], FILTER, "degraded", "0", HEAL_MS, &e), e);
        must(client_wait_status(&fixture.client[d], FILTER, "built", "1", HEAL_MS, &e), e);
        must(client_wait_status(&fixture.client[d], FILTER, "phase", "STEADY", HEAL_MS, &e), e);
        fixture_all_present(&fixture, d, 0, ROWS);
    }
}

static void expect_healing(const char *what)
{
    heals_without_a_false_no(what);
    is_whole_again();
}

struct found {
    struct client *client;
    char name[256];
    unsigned count;
};

static void take_a_string(const char *name, void *arg)
{
    struct found *found = arg;
    redisReply *r = client_command(found->client, "TYPE %s", name);
    if (r != NULL && r->type == REDIS_REPLY_STATUS && strcmp(r->str, "string") == 0) {
        (void)snprintf(found->name, sizeof(found->name), "%s", name);
        found->count++;
    }
    freeReplyObject(r);
}

/* Find the name of a shard on any node, and connect to that node. */
static void find_shard(struct client *c, char *name, size_t size)
{
    struct error e = {""};
    for (unsigned i = 0; i < fixture.nodes; i++) {
        struct found found = {.client = c};
        must(client_open(c, fixture.redis[i].port, 10000, &e), e);
        must(client_scan(c, "twinbloom:{" FILTER ".*", take_a_string, &found, &e), e);
        if (found.count > 0) {
            (void)snprintf(name, size, "%s", found.name);
            return;
        }
        client_close(c);
    }
    fail_msg("no node has a shard");
}

/* The fold of added keys finds that the shard is lost, and the shard comes back from memory. Until then all
 * keys get the same answers as before. */
static void comes_back_from_memory(struct client *node, const char *name, int64_t length)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + BACK_MS * 1000ull;
    int64_t now = 0;
    must(client_madd(&fixture.client[0], FILTER, fixture_code, ROWS, SAMPLE, &e), e);
    while (now != length) {
        if (clock_mono_us() > until)
            fail_msg("%s has %" PRId64 " of %" PRId64 " bytes after %d ms", name, now, length, BACK_MS);
        for (unsigned d = 0; d < fixture.daemons; d++) {
            uint64_t yes = 0, no = 0, absent_yes = 0, absent_no = 0;
            ask(d, fixture_code, SAMPLE, &yes, &no);
            ask(d, fixture_absent_code, SAMPLE, &absent_yes, &absent_no);
            assert_int_equal(yes, SAMPLE);
            assert_in_range(absent_yes, 0,
                            SAMPLE / 50); /* false positives; "maybe" would be the share of a whole shard */
            assert_int_equal(absent_yes + absent_no, SAMPLE);
        }
        must(client_integer(node, &now, &e, "STRLEN %s", name), e);
    }
}

/* Wait until both coordinators have all shards in memory. */
static void are_resident(void)
{
    struct error e = {""};
    for (unsigned d = 0; d < fixture.daemons; d++) {
        char shards[32];
        fixture_all_present(&fixture, d, 0, SAMPLE);
        must(client_status(&fixture.client[d], FILTER, "shards", shards, sizeof(shards), &e), e);
        must(client_wait_status(&fixture.client[d], FILTER, "resident_shards", shards, HEAL_MS, &e), e);
    }
}

static void test_loss__of_one_deleted_shard_heals(void **state)
{
    (void)state;
    struct error e = {""};
    struct client c = {0};
    char name[256];
    int64_t n = 0, length = 0;
    int64_t before = fixture_generation(&fixture, 0);
    find_shard(&c, name, sizeof(name));
    if (fixture_has_memory())
        are_resident();
    must(client_integer(&c, &length, &e, "STRLEN %s", name), e);
    must(client_integer(&c, &n, &e, "DEL %s", name), e);
    assert_int_equal(n, 1);
    if (fixture_has_memory())
        comes_back_from_memory(&c, name, length);
    client_close(&c);
    expect_healing("DEL");
    if (fixture_has_memory())
        assert_int_equal(fixture_generation(&fixture, 0), before);
    else
        assert_true(fixture_generation(&fixture, 0) > before);
}

static void overwrite_with(const char *what, size_t length)
{
    struct error e = {""};
    struct client c = {0};
    char name[256];
    static char garbage[1 << 20];
    find_shard(&c, name, sizeof(name));
    memset(garbage, 0, sizeof(garbage));
    must(client_ok(&c, &e, "SET %s %b", name, garbage, length), e);
    client_close(&c);
    expect_healing(what);
}

static void test_loss__of_a_shard_overwritten_with_garbage_heals(void **state)
{
    (void)state;
    overwrite_with("SET of a short string", 7);
    overwrite_with("SET of as many zero bytes", 1 << 20);
}

static void test_loss__of_a_truncated_shard_heals(void **state)
{
    (void)state;
    struct error e = {""};
    struct client c = {0};
    char name[256];
    find_shard(&c, name, sizeof(name));
    /* Keep only the first half: the second half's blocks are lost, the first half's unchanged. */
    int64_t length = 0;
    must(client_integer(&c, &length, &e, "STRLEN %s", name), e);
    redisReply *half = client_command(&c, "GETRANGE %s 0 %lld", name, (long long)(length / 2 - 1));
    assert_true(half != NULL && half->type == REDIS_REPLY_STRING && half->len > 0);
    enum err err = client_ok(&c, &e, "SET %s %b", name, half->str, (size_t)half->len);
    freeReplyObject(half);
    client_close(&c);
    must(err, e);
    expect_healing("truncation");
}

static void test_loss__of_everything_by_flushall_heals(void **state)
{
    (void)state;
    struct error e = {""};
    for (unsigned i = 0; i < fixture.nodes; i++) {
        struct client c = {0};
        must(client_open(&c, fixture.redis[i].port, 10000, &e), e);
        must(client_ok(&c, &e, "FLUSHALL"), e);
        client_close(&c);
    }
    expect_healing("FLUSHALL of all nodes");
}

static void test_loss__of_one_flushed_node_heals(void **state)
{
    (void)state;
    for (unsigned i = 0; i < fixture.nodes; i++) {
        struct error e = {""};
        struct client c = {0};
        must(client_open(&c, fixture.redis[i].port, 10000, &e), e);
        must(client_ok(&c, &e, "FLUSHALL"), e);
        client_close(&c);
        expect_healing(i == 0 ? "FLUSHALL of the first node" : "FLUSHALL of the second node");
    }
}

static void test_loss__of_data_at_a_restart_heals(void **state)
{
    (void)state;
    struct error e = {""};
    for (unsigned i = 0; i < fixture.nodes; i++) {
        temp_redis_kill(&fixture.redis[i]);
        must(temp_redis_restart(&fixture.redis[i], false, &e), e);
        expect_healing(i == 0 ? "restart of the first node" : "restart of the second node");
    }
}

static void test_loss__does_not_forget_a_key_that_was_added_while_degraded(void **state)
{
    (void)state;
    enum { FIRST = 100000, ADDED = 200 };
    struct error e = {""};
    struct client c = {0};
    char name[256];
    int64_t n = 0;
    find_shard(&c, name, sizeof(name));
    must(client_integer(&c, &n, &e, "DEL %s", name), e);
    client_close(&c);
    /* BEGIN, INSERT, BF.ADD, COMMIT: after a refused add the writer tries again. */
    fixture_sql(fixture.db, "BEGIN");
    fixture_insert(fixture.db, FIRST, ADDED);
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    while (client_madd(&fixture.client[0], FILTER, fixture_code, FIRST, ADDED, &e) != ERR_OK) {
        if (clock_mono_us() > until)
            fail_msg("adds are refused for ever: %s", e.text);
        clock_sleep_us(50000);
    }
    fixture_sql(fixture.db, "COMMIT");
    expect_healing("DEL before adds");
    for (unsigned d = 0; d < fixture.daemons; d++)
        fixture_all_present(&fixture, d, FIRST, ADDED);
}

/* CONFIG SET on every node. */
static void configure_nodes(const char *setting, const char *value)
{
    struct error e = {""};
    for (unsigned i = 0; i < fixture.nodes; i++) {
        struct client c = {0};
        must(client_open(&c, fixture.redis[i].port, 10000, &e), e);
        must(client_ok(&c, &e, "CONFIG SET %s %s", setting, value), e);
        client_close(&c);
    }
}

/* Redis allows reads and refuses writes: nothing is lost, so an acknowledged add must have been executed. */
static void test_refusal__of_writes_by_redis_acknowledges_nothing(void **state)
{
    (void)state;
    enum { FIRST = 200000, ADDED = 4 };
    struct error e = {""};
    configure_nodes("maxmemory", "1");
    bool acknowledged[ADDED] = {false};
    for (uint64_t i = 0; i < ADDED; i++)
        acknowledged[i] = client_madd(&fixture.client[0], FILTER, fixture_code, FIRST + i, 1, &e) == ERR_OK;
    uint64_t present = 0, refused = 0;
    for (uint64_t i = 0; i < ADDED; i++) {
        refused += !acknowledged[i];
        must(client_mexists(&fixture.client[1], FILTER, fixture_code, FIRST + i, 1, &present, NULL, &e), e);
        if (acknowledged[i] && present == 0)
            fail_msg("key %" PRIu64 " was acknowledged and is absent", FIRST + i);
    }
    configure_nodes("maxmemory", "0");
    assert_int_equal(refused, ADDED);
    must(client_madd(&fixture.client[0], FILTER, fixture_code, FIRST, ADDED, &e), e);
    for (unsigned d = 0; d < fixture.daemons; d++)
        fixture_all_present(&fixture, d, FIRST, ADDED);
    is_whole_again();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusal__of_writes_by_redis_acknowledges_nothing),
        cmocka_unit_test(test_loss__of_one_deleted_shard_heals),
        cmocka_unit_test(test_loss__of_a_shard_overwritten_with_garbage_heals),
        cmocka_unit_test(test_loss__of_a_truncated_shard_heals),
        cmocka_unit_test(test_loss__of_everything_by_flushall_heals),
        cmocka_unit_test(test_loss__of_one_flushed_node_heals),
        cmocka_unit_test(test_loss__of_data_at_a_restart_heals),
        cmocka_unit_test(test_loss__does_not_forget_a_key_that_was_added_while_degraded),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
