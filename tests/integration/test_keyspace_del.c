/* SPDX-License-Identifier: MIT */
/* Filters are deleted under two coordinators. */
#include "tests/integration/keyspace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { KEYS = 3000 };

static void test_del__deletes_for_both_coordinators_and_lets_the_name_begin_anew(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE gone 0.001 10000");
    keyspace_add(0, "gone", 0, KEYS);
    assert_int_equal(keyspace_present(1, "gone", 0, KEYS), KEYS);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "EXISTS gone gone nosuch"), 2);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL gone gone nosuch"), 1);
    for (unsigned d = 0; d < 2; d++) {
        keyspace_are_gone(d, "gone", 0, KEYS, 0);
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[d], "EXISTS gone"), 0);
        assert_string_equal(keyspace_refusal(&keyspace.fixture.client[d], "BF.INFO gone"), "ERR not found");
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[d], "BF.CARD gone"), 0);
    }
    clock_sleep_us(1500 * 1000); /* until late writes have been executed */
    keyspace_nothing_is_left_of("gone");
    assert_int_equal(keyspace_integer(&keyspace.redis[0], "SISMEMBER twinbloom:filters gone"), 0);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "BF.ADD gone a"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.EXISTS gone a"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.CARD gone"), 1);
    assert_int_equal(keyspace_integer(&keyspace.redis[0], "TTL twinbloom:{gone}:view"), -1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "UNLINK gone"), 1);
}

/* A registry that is left over, e.g. in a slot of a cluster, or whose master went back, still names the
 * filter. */
static void test_del__is_believed_where_a_registry_is_older(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE older 0.01 100");
    keyspace_add(0, "older", 0, 50);
    redisReply *r = client_command(&keyspace.redis[0], "HGET twinbloom:{older}:view incarnation");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL older"), 1);
    freeReplyObject(client_command(&keyspace.redis[1], "HSET twinbloom:incarnations older %s", r->str));
    freeReplyObject(r);
    for (unsigned d = 0; d < 2; d++)
        keyspace_are_gone(d, "older", 0, 50, 0);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "BF.ADD older a"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.EXISTS older a"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL older"), 1);
}

/* The filter was made while the metadata node's clock was ahead. Who has seen it takes a lesser incarnation
 * for an older filter. */
static void test_del__is_followed_by_a_later_filter_where_the_clock_went_back(void **state)
{
    (void)state;
    static const char ahead[] = "f000000000000000";
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE ahead 0.01 100");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL ahead"), 1);
    freeReplyObject(client_command(&keyspace.redis[0], "SET twinbloom:{ahead}:deleted %s EX 600", ahead));
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE ahead 0.01 100");
    redisReply *r = client_command(&keyspace.redis[0], "HGET twinbloom:{ahead}:view incarnation");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    assert_string_equal(r->str, "f000000000000001");
    freeReplyObject(r);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "BF.ADD ahead a"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL ahead"), 1);
}

/* A maker was given up, whose record is of a time when the clock was ahead. If it wakes up it names its
 * incarnation over any earlier one. */
static void test_a_filter_behind_a_record__is_later_than_that(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE model 0.01 100");
    keyspace_ask_redis("COPY twinbloom:{model}:view twinbloom:{behind}:leftover");
    keyspace_ask_redis("HSET twinbloom:{behind}:leftover incarnation f000000000000000");
    fixture_ask(&keyspace.fixture, 1, "BF.RESERVE behind 0.01 100");
    redisReply *r = client_command(&keyspace.redis[0], "HGET twinbloom:{behind}:view incarnation");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    assert_string_equal(r->str, "f000000000000001");
    for (unsigned i = 0; i < 2; i++) {
        redisReply *named = client_command(&keyspace.redis[i], "HGET twinbloom:incarnations behind");
        assert_string_equal(named->str, r->str);
        freeReplyObject(named);
    }
    freeReplyObject(r);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL behind model"), 2);
}

/* Heartbeats are some time old: one that is from before the deletion says that the filter is served. */
static void nobody_says_that_it_serves(const char *filter)
{
    redisReply *ids = client_command(&keyspace.redis[0], "SMEMBERS twinbloom:coordinators");
    assert_true(ids != NULL && ids->type == REDIS_REPLY_ARRAY && ids->elements >= 2);
    for (size_t i = 0; i < ids->elements; i++) {
        char command[300];
        (void)snprintf(command, sizeof(command), "HEXISTS twinbloom:{twinbloom:coordinators}:%s epoch:%s",
                       ids->element[i]->str, filter);
        keyspace_wait_integer(&keyspace.redis[0], command, 0);
    }
    freeReplyObject(ids);
}

/* A controller that sleeps names a filter between a deleter's looks at the registries. Later nobody knows any
 * more that it was deleted, and it would count as lost. */
static void test_keeper__takes_away_the_name_of_a_filter_that_was_deleted(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE named 0.01 100");
    keyspace_add(0, "named", 0, 50);
    redisReply *r = client_command(&keyspace.redis[0], "HGET twinbloom:{named}:view incarnation");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL named"), 1);
    for (unsigned i = 0; i < 2; i++)
        freeReplyObject(client_command(&keyspace.redis[i], "HSET twinbloom:incarnations named %s", r->str));
    freeReplyObject(r);
    keyspace_ask_redis("SADD twinbloom:filters named");
    keyspace_wait_integer(&keyspace.redis[0], "SISMEMBER twinbloom:filters named", 0);
    for (unsigned i = 0; i < 2; i++)
        keyspace_wait_integer(&keyspace.redis[i], "HEXISTS twinbloom:incarnations named", 0);
    nobody_says_that_it_serves("named");
    keyspace_ask_redis("DEL twinbloom:{named}:deleted");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "BF.ADD named a"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL named"), 1);
}

/* A follower's marks do not expire. */
static void test_del__takes_the_marks_of_a_follower(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE marked 0.01 100");
    assert_int_equal(keyspace_integer(&keyspace.redis[0], "HSET twinbloom:{marked}:marks a 1"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL marked"), 1);
    assert_int_equal(keyspace_integer(&keyspace.redis[0], "EXISTS twinbloom:{marked}:marks"), 0);
}

/* The coordinator gets no event; it finds the lanes of its view closed. */
static void test_del__is_met_by_a_coordinator_that_was_stopped_through_it_all(void **state)
{
    (void)state;
    struct error e = {""};
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE stopped 0.001 10000");
    keyspace_add(1, "stopped", 0, KEYS);
    daemon_pause(&keyspace.fixture.daemon[1]);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL stopped"), 1);
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE stopped 0.001 10000");
    keyspace_add(0, "stopped", KEYS, KEYS);
    /* The request waits in its socket while the coordinator sleeps, so it meets the old view. */
    redisReply *reply;
    assert_int_equal(redisAppendCommand(keyspace.fixture.client[1].redis, "BF.EXISTS stopped c%d", KEYS),
                     REDIS_OK);
    assert_int_equal(redisAppendCommand(keyspace.fixture.client[1].redis, "BF.ADD stopped late"), REDIS_OK);
    int done = 0;
    while (!done)
        assert_int_equal(redisBufferWrite(keyspace.fixture.client[1].redis, &done), REDIS_OK);
    daemon_resume(&keyspace.fixture.daemon[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(redisGetReply(keyspace.fixture.client[1].redis, (void **)&reply), REDIS_OK);
        assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
        assert_int_equal(reply->integer, 1);
        freeReplyObject(reply);
    }
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.EXISTS stopped late"), 1);
    assert_int_equal(keyspace_present(1, "stopped", KEYS, KEYS), KEYS);
    keyspace_are_gone(1, "stopped", 0, KEYS, KEYS / 20 - 1);

    daemon_pause(&keyspace.fixture.daemon[1]); /* stopped once more, and then there is no filter */
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL stopped"), 1);
    daemon_resume(&keyspace.fixture.daemon[1]);
    keyspace_are_gone(1, "stopped", KEYS, KEYS, 0);
    must(client_ok(&keyspace.fixture.client[1], &e, "BF.RESERVE stopped 0.01 10"), e);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "DEL stopped"), 1);
}

/* The add finds the lane of its view closed, and makes the filter anew. The check behind it was sent together
 * with it, and found no filter. */
static void test_del__makes_no_check_overtake_the_add_before_it(void **state)
{
    (void)state;
    enum { ROUNDS = 20 };
    redisContext *pipeline = keyspace.fixture.client[1].redis;
    for (unsigned i = 0; i < ROUNDS; i++) {
        fixture_ask(&keyspace.fixture, 0, "BF.RESERVE order 0.001 1000");
        keyspace_add(1, "order", 0, 1);
        daemon_pause(&keyspace.fixture.daemon[1]);
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL order"), 1);
        assert_int_equal(redisAppendCommand(pipeline, "BF.ADD order k%u", i), REDIS_OK);
        assert_int_equal(redisAppendCommand(pipeline, "BF.EXISTS order k%u", i), REDIS_OK);
        int done = 0;
        while (!done)
            assert_int_equal(redisBufferWrite(pipeline, &done), REDIS_OK);
        daemon_resume(&keyspace.fixture.daemon[1]);
        for (unsigned command = 0; command < 2; command++) {
            redisReply *reply;
            assert_int_equal(redisGetReply(pipeline, (void **)&reply), REDIS_OK);
            assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
            assert_int_equal(reply->integer, 1);
            freeReplyObject(reply);
        }
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL order"), 1);
    }
}

/* One connection that adds without pause, and remembers when each add began. */
struct adder {
    struct client client;
    atomic_bool stop;
    unsigned first;
    atomic_uint count, acknowledged, lost;
    uint64_t begun[200000];
};

static void *run_adder(void *arg)
{
    struct adder *a = arg;
    while (!atomic_load(&a->stop) && a->count < sizeof(a->begun) / sizeof(a->begun[0])) {
        int64_t n;
        struct error e;
        a->begun[a->count] = clock_mono_us();
        if (client_integer(&a->client, &n, &e, "BF.ADD busy c%u", a->first + a->count) != ERR_OK) {
            print_error("%s\n", e.text);
            a->lost += strncmp(e.text, "LOST", 4) == 0;
            a->begun[a->count] = 0; /* not acknowledged */
        } else {
            a->acknowledged++;
        }
        a->count++;
    }
    return NULL;
}

static void test_del__loses_no_key_whose_add_began_after_its_reply(void **state)
{
    (void)state;
    enum { AFTERWARDS = 100 }; /* adds */
    static struct adder adders[2];
    pthread_t threads[2];
    struct error e = {""};
    unsigned deletions = 0;
    uint64_t replied = 0, until = clock_mono_us() + 3000 * 1000;
    for (unsigned i = 0; i < 2; i++) {
        adders[i].first = i * 1000000;
        must(client_open(&adders[i].client, keyspace.fixture.daemon[i].port, KEYSPACE_REPLY_MS, &e), e);
        assert_int_equal(pthread_create(&threads[i], NULL, run_adder, &adders[i]), 0);
    }
    while (clock_mono_us() < until) {
        clock_sleep_us(20 * 1000);
        deletions += keyspace_integer(&keyspace.fixture.client[deletions % 2], "DEL busy") == 1;
        replied = clock_mono_us();
    }
    for (unsigned i = 0; i < 2; i++) {
        unsigned then = atomic_load(&adders[i].acknowledged);
        until = clock_mono_us() + KEYSPACE_REPLY_MS * 1000ull;
        while (atomic_load(&adders[i].acknowledged) < then + AFTERWARDS && clock_mono_us() < until)
            clock_sleep_us(10 * 1000);
    }
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&adders[i].stop, true);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        client_close(&adders[i].client);
    }
    assert_true(deletions > 5);
    assert_int_equal(adders[0].lost + adders[1].lost, 0); /* each add makes the filter again */
    for (unsigned i = 0; i < 2; i++) {
        unsigned after = 0;
        for (unsigned k = 0; k < adders[i].count; k++)
            if (adders[i].begun[k] > replied) {
                after++;
                for (unsigned d = 0; d < 2; d++)
                    if (keyspace_present(d, "busy", adders[i].first + k, 1) != 1)
                        fail_msg("coordinator %u reports key %u of adder %u absent", d, k, i);
            }
        assert_true(after > AFTERWARDS / 2);
    }
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL busy"), 1);
}

/* Imitate a coordinator that died after the first step of a deletion, by the script's own field. */
static void begin_to_delete(const char *filter)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "HSET twinbloom:{%s}:view deleting 1", filter);
    keyspace_ask_redis(command);
}

static void test_del__is_completed_by_a_keeper_where_its_driver_died(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE half 0.001 10000");
    keyspace_add(0, "half", 0, KEYS);
    begin_to_delete("half");
    keyspace_wait_integer(&keyspace.redis[0], "HEXISTS twinbloom:{half}:view generation1", 0);
    keyspace_wait_integer(&keyspace.redis[0], "SISMEMBER twinbloom:filters half", 0);
    for (unsigned d = 0; d < 2; d++)
        keyspace_are_gone(d, "half", 0, KEYS, 0);
    keyspace_nothing_is_left_of("half");
}

/* Imitate a deleter that died behind the view, whose name is in no registry any more. */
static void leave_record(bool listed)
{
    redisReply *r = client_command(&keyspace.redis[0], "HGET twinbloom:{left}:view incarnation");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    for (unsigned i = 0; i < 2; i++)
        freeReplyObject(client_command(&keyspace.redis[i], "HDEL twinbloom:incarnations left"));
    if (!listed)
        freeReplyObject(client_command(&keyspace.redis[0], "SREM twinbloom:filters left"));
    freeReplyObject(client_command(&keyspace.redis[0], "SET twinbloom:{left}:deleted %s PX 3600000", r->str));
    keyspace_ask_redis("RENAME twinbloom:{left}:view twinbloom:{left}:leftover");
    freeReplyObject(r);
}

static void test_keeper__removes_what_a_killed_deleter_has_left(void **state)
{
    (void)state;
    for (unsigned listed = 0; listed < 2; listed++) {
        fixture_ask(&keyspace.fixture, 0, "BF.RESERVE left 0.001 10000");
        keyspace_add(0, "left", 0, KEYS);
        /* Until a controller has seen it: then it looks, though the name is not in the list. */
        clock_sleep_us(1500 * 1000);
        leave_record(listed);
        keyspace_wait_integer(&keyspace.redis[0], "EXISTS twinbloom:{left}:leftover", 0);
        keyspace_wait_integer(&keyspace.redis[0], "SISMEMBER twinbloom:filters left", 0);
        for (unsigned d = 0; d < 2; d++)
            keyspace_are_gone(d, "left", 0, KEYS, 0);
        keyspace_nothing_is_left_of("left");
    }
}

static void wake_keepers(void)
{
    redisReply *reply = client_command(&keyspace.redis[0], "PUBLISH twinbloom:events %s", "released next");
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
}

static void test_del__is_completed_by_who_makes_the_name_anew(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 30; i++) { /* controllers look before, after and in the middle of it */
        fixture_ask(&keyspace.fixture, 0, "BF.RESERVE next 0.001 10000");
        keyspace_add(1, "next", 0, 500);
        begin_to_delete("next");
        wake_keepers();
        clock_sleep_us(i * 1000);
        fixture_ask(&keyspace.fixture, 0, "BF.RESERVE next 0.01 10000");
        keyspace_are_gone(1, "next", 0, 500, 49);
        keyspace_add(1, "next", 0, 500);
        assert_int_equal(keyspace_present(0, "next", 0, 500), 500);
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "DEL next"), 1);
    }
}

static void test_del__takes_all_layers(void **state)
{
    (void)state;
    struct error e = {""};
    char layers[16];
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE layered 0.01 100 EXPANSION 2");
    keyspace_add(0, "layered", 0, 2000);
    must(client_status(&keyspace.fixture.client[0], "layered", "layers", layers, sizeof(layers), &e), e);
    assert_true(strcmp(layers, "4") >= 0);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "DEL layered"), 1);
    keyspace_are_gone(0, "layered", 0, 2000, 0);
    clock_sleep_us(1500 * 1000);
    keyspace_nothing_is_left_of("layered");
}

static void test_del__refuses_while_somebody_holds_the_mutex(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE held 0.001 1000");
    keyspace_add(0, "held", 0, 100);
    keyspace_ask_redis("SET twinbloom:{held}:expansion_flag somebody:99 PX 60000");
    const char *text = keyspace_refusal(&keyspace.fixture.client[0], "DEL held");
    if (strstr(text, "BUSY filter 'held' is busy: ") != text || strstr(text, "somebody:99") == NULL ||
        strstr(text, "abort its job first") == NULL)
        fail_msg("%s", text);
    assert_int_equal(keyspace_present(1, "held", 0, 100), 100);
    assert_int_equal(keyspace_integer(&keyspace.redis[0], "HINCRBY twinbloom:{held}:view deleting 0"), 0);
    keyspace_ask_redis("DEL twinbloom:{held}:expansion_flag");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL held"), 1);
}

static void *run_expire(void *arg)
{
    (void)arg;
    static int64_t done;
    done = keyspace_integer(&keyspace.fixture.client[0], "PEXPIREAT persisted 1 XX");
    return &done;
}

/* The deletion waits for the mutex, and meanwhile the filter has no time any more: its condition does not
 * hold. */
static void test_expire__in_the_past_deletes_no_filter_that_has_no_time_by_now(void **state)
{
    (void)state;
    pthread_t thread;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE persisted 0.001 1000");
    keyspace_add(0, "persisted", 0, 100);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "EXPIRE persisted 1000"), 1);
    keyspace_ask_redis("SET twinbloom:{persisted}:expansion_flag somebody:99 PX 60000");
    assert_int_equal(pthread_create(&thread, NULL, run_expire, NULL), 0);
    clock_sleep_us(700 * 1000);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "PERSIST persisted"), 1);
    keyspace_ask_redis("DEL twinbloom:{persisted}:expansion_flag");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "TTL persisted"), -1);
    assert_int_equal(keyspace_present(1, "persisted", 0, 100), 100);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "PEXPIREAT persisted 1"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "EXISTS persisted"), 0);
}

static void test_del__refuses_configured_filters_before_it_touches_any(void **state)
{
    (void)state;
    static const char text[] =
        "CONFLICT filter 'fixed' is configured: remove [filter fixed] from the configuration first";
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE beside 0.01 100");
    assert_string_equal(keyspace_refusal(&keyspace.fixture.client[0], "DEL beside fixed"), text);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "EXISTS beside fixed"), 2);
    assert_string_equal(keyspace_refusal(&keyspace.fixture.client[0], "EXPIRE fixed 100"), text);
    assert_string_equal(keyspace_refusal(&keyspace.fixture.client[0], "PEXPIRE fixed 0"), text);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "TTL fixed"), -1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL beside"), 1);
}

static void test_del__is_no_loss_to_a_coordinator_that_is_not_asked(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE unasked 0.01 100");
    keyspace_add(0, "unasked", 0, 10);
    keyspace_add(1, "unasked", 0, 10);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL unasked"), 1);
    /* Coordinator 1 gets an event, or looks; no request to it names the filter. */
    clock_sleep_us(2000 * 1000);
    assert_int_equal(keyspace_integer(&keyspace.redis[0], "EXISTS twinbloom:{unasked}:view"), 0);
    for (unsigned d = 0; d < 2; d++)
        keyspace_are_gone(d, "unasked", 0, 10, 0);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "BF.ADD unasked x"), 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[1], "DEL unasked"), 1);
}

/* A check would be answered from memory while the control has not noticed the deletion yet. */
static void test_del__is_met_by_the_next_request_of_the_coordinator_that_did_it(void **state)
{
    enum { TIMES = 100 };
    (void)state;
    unsigned present = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.ADD met a"), 1);
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.EXISTS met a"), 1);
        assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL met"), 1);
        present += keyspace_integer(&keyspace.fixture.client[0], "BF.EXISTS met a") != 0;
    }
    assert_int_equal(present, 0);
}

static void test_keeper__puts_back_a_name_that_was_taken_away_late(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE late 0.01 100");
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "BF.ADD late a"), 1);
    keyspace_ask_redis("SREM twinbloom:filters late");
    keyspace_wait_integer(&keyspace.redis[0], "SISMEMBER twinbloom:filters late", 1);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL late"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_del__deletes_for_both_coordinators_and_lets_the_name_begin_anew),
        cmocka_unit_test(test_del__is_believed_where_a_registry_is_older),
        cmocka_unit_test(test_del__takes_the_marks_of_a_follower),
        cmocka_unit_test(test_del__is_followed_by_a_later_filter_where_the_clock_went_back),
        cmocka_unit_test(test_a_filter_behind_a_record__is_later_than_that),
        cmocka_unit_test(test_keeper__takes_away_the_name_of_a_filter_that_was_deleted),
        cmocka_unit_test(test_del__is_met_by_a_coordinator_that_was_stopped_through_it_all),
        cmocka_unit_test(test_del__makes_no_check_overtake_the_add_before_it),
        cmocka_unit_test(test_del__loses_no_key_whose_add_began_after_its_reply),
        cmocka_unit_test(test_del__is_completed_by_a_keeper_where_its_driver_died),
        cmocka_unit_test(test_keeper__removes_what_a_killed_deleter_has_left),
        cmocka_unit_test(test_del__is_completed_by_who_makes_the_name_anew),
        cmocka_unit_test(test_del__takes_all_layers),
        cmocka_unit_test(test_del__refuses_while_somebody_holds_the_mutex),
        cmocka_unit_test(test_expire__in_the_past_deletes_no_filter_that_has_no_time_by_now),
        cmocka_unit_test(test_del__refuses_configured_filters_before_it_touches_any),
        cmocka_unit_test(test_del__is_no_loss_to_a_coordinator_that_is_not_asked),
        cmocka_unit_test(test_del__is_met_by_the_next_request_of_the_coordinator_that_did_it),
        cmocka_unit_test(test_keeper__puts_back_a_name_that_was_taken_away_late),
    };
    return cmocka_run_group_tests(tests, keyspace_setup, keyspace_teardown);
}
