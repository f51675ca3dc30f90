/* SPDX-License-Identifier: MIT */
/* Histories of a view, on two real servers: the filter lies on the first of them. */
#include "tests/integration/log_members.h"
#include "tests/integration/two_nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "shard/view/history.h"
#include "shard/view/shards.h"
#include "shard/view/view_load.h"
#include "tests/lib/client.h"
#include "tests/lib/temp_redis.h"

enum { REPLY_MS = 5000, WAIT_US = 15 * 1000 * 1000, KEYS = 20 };

static struct temp_redis home, other;
static struct client client, other_client;
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;

/* Each is a node of its own for test_what_many_masters_name__is_compared_to_the_last(). */
static const char *const addresses[] = {"--bind",     "127.0.0.1",  "127.0.0.2",  "127.0.0.3",  "127.0.0.4",
                                        "127.0.0.5",  "127.0.0.6",  "127.0.0.7",  "127.0.0.8",  "127.0.0.9",
                                        "127.0.0.10", "127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14",
                                        "127.0.0.15", "127.0.0.16", NULL};

static const struct two_nodes two = {&home, &other, &client, &nodes, &names, &l, &view};

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    two_nodes_start(&two, addresses);
    must(client_open(&other_client, other.port, REPLY_MS, &e), e);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    client_close(&other_client);
    two_nodes_stop(&two);
    return 0;
}

static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    must(client_ok(&client, &e, "FLUSHALL"), e);
    two_nodes_make(&two, &home, 1000, 1);
    return 0;
}

/* Another master notes each history, but holds nothing of this filter: it may refuse to. */
static void test_a_master_that_refuses_writes__stops_no_filter_elsewhere(void **state)
{
    struct error e = {""};
    struct log_member m;
    uint8_t answers[KEYS];
    (void)state;
    log_members_open(&m, &nodes, &names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    must(client_ok(&other_client, &e, "CONFIG SET min-replicas-to-write 1"), e);
    must(client_ok(&client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&client, &e, "REPLICAOF NO ONE"), e);
    enum err code;
    uint64_t until = clock_mono_us() + WAIT_US;
    while ((code = log_member_add(&m, KEYS, KEYS, answers, &e)) != ERR_OK && clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
    must(client_ok(&other_client, &e, "CONFIG SET min-replicas-to-write 0"), e);
    if (code != ERR_OK)
        fail_msg("%s; %s", e.text, m.last.text);
    assert_int_equal(log_member_count(&m, 0, 2 * KEYS, KEY_PRESENT), 2 * KEYS);
    log_member_close(&m);
}

/* An id that the server had before, in a view or in what this process has seen, does not tell of a new
 * server: what was acknowledged elsewhere may be missing there. */
static void test_a_server_that_was_there_before__has_not_lived_on(void **state)
{
    struct error e = {""};
    bool again;
    struct history_seen seen = {
        .generation = view->slot[view->current].shape.number, .count = 2, .id = {0x3333, 0x2222}};
    const struct registry_said said = {.named = true, .incarnation = view->incarnation};
    struct trusted now;
    uint64_t last = view->last_generation;
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        must(history_follow(l, &names, view, &said, &seen, &again, &e), e);
        assert_true(again);
        must(log_view_load(l, &names, view, &e), e);
        assert_true(view->degraded);
        assert_true(view->last_generation >= last + 1000); /* others may have used some numbers */
        must(client_ok(&client, &e, "FLUSHALL"), e);
        two_nodes_make(&two, &home, 1000, 1);
        must(client_ok(&client, &e, "REPLICAOF 127.0.0.1 1"), e);
        must(client_ok(&client, &e, "REPLICAOF NO ONE"), e);
        must(shards_eras(l, &names, &view->slot[view->current].shape, &now, &e), e);
        seen.id[1] = now.id[0]; /* the view does not know it, but this process does */
    }
}

/* The order tells which server was the last one. */
static void test_histories_that_were_missed__keep_their_order(void **state)
{
    struct error e = {""};
    bool again;
    const struct history_seen seen = {.generation = view->slot[view->current].shape.number,
                                      .count = 3,
                                      .id = {0x3333, 0x2222, 0x1111},
                                      .accepted = &view->eras};
    struct registry_said said = {.named = true};
    char field[REGISTRY_HISTORY_FIELD_MAX], later[2 * 16 + 2];
    (void)state;
    said.incarnation = view->incarnation;
    said.history_count = 1;
    said.history[0].incarnation = view->incarnation;
    said.history[0].id = 0x3333;
    must(client_ok(&client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&client, &e, "REPLICAOF NO ONE"), e);
    must(history_follow(l, &names, view, &said, &seen, &again, &e), e);
    assert_true(again);
    must(log_view_load(l, &names, view, &e), e);
    assert_true(view->history_count >= 3);
    for (unsigned i = 0; i < 3; i++) /* the server that is there now is new to who has seen the others */
        assert_int_equal(view->history[i], seen.id[i]);
    assert_false(view->degraded);
    (void)registry_history_field(&names, field);
    (void)snprintf(later, sizeof(later), "%016" PRIx64 " %016x", view->incarnation + 1, 0x9999);
    freeReplyObject(client_command(&other_client, "HSET tb:incarnations %s %s", field, later));
    said.history[0].id = 0x2222;
    must(history_follow(l, &names, view, &said, &seen, &again, &e),
         e); /* that of a later incarnation stays */
    assert_true(again);
    redisReply *r = client_command(&other_client, "HGET tb:incarnations %s", field);
    assert_string_equal(r->str, later);
    freeReplyObject(r);
    must(client_ok(&other_client, &e, "FLUSHALL"), e);
}

/* Store a view that has had histories up to @last. */
static void store_histories(unsigned last)
{
    char text[LOG_HISTORY_MAX * 17 + 1];
    for (unsigned i = 0; i < LOG_HISTORY_MAX; i++)
        (void)snprintf(text + i * 17, 18, "%016x ", last - i);
    text[LOG_HISTORY_MAX * 17 - 1] = '\0';
    redisReply *r = client_command(&client, "HSET tb:{%s}:view history %s", names.filter, text);
    assert_int_equal(r->type, REDIS_REPLY_INTEGER);
    freeReplyObject(r);
}

/* It keeps the last ones only. The first one left it, by a cutover, when it had been read and a master was
 * then asked. */
static void test_a_history_that_has_left_the_view__was_not_missed(void **state)
{
    enum { FIRST = 100, LAST = FIRST + LOG_HISTORY_MAX - 1 };
    struct error e = {""};
    bool again;
    struct history_seen seen = {0};
    struct registry_said said = {.named = true, .history_count = 1};
    (void)state;
    for (unsigned read = LAST; read < LAST + 2; read++) { /* it may have left it before, too */
        store_histories(read);
        must(log_view_load(l, &names, view, &e), e);
        if (read == LAST)
            history_note(&seen, view);
        store_histories(read + 1);
        said.incarnation = said.history[0].incarnation = view->incarnation;
        said.history[0].id = read + 1;
        must(history_follow(l, &names, view, &said, &seen, &again, &e), e);
        assert_true(again);
        must(log_view_load(l, &names, view, &e), e);
        assert_int_equal(view->history[0], read + 1);
        assert_false(view->degraded);
    }
    free(seen.accepted);
}

/* Each of many masters names another history, and the last one that is asked names one that the view lacks.
 */
static void test_what_many_masters_name__is_compared_to_the_last(void **state)
{
    enum { DATABASES = 16 }; /* a node each: with home one more than sixteen */
    struct error e = {""};
    struct nodes many;
    struct registry_said said;
    char urls[DATABASES * 80], field[REGISTRY_HISTORY_FIELD_MAX];
    (void)state;
    (void)registry_history_field(&names, field);
    must(client_ok(&other_client, &e, "FLUSHALL"), e);
    int length = snprintf(urls, sizeof(urls), "%s", home.url);
    for (unsigned i = 0; i < DATABASES; i++) {
        char last[2 * 16 + 2];
        uint64_t incarnation = view->incarnation - (i + 1 < DATABASES);
        (void)snprintf(last, sizeof(last), "%016" PRIx64 " %016x", incarnation, 0x9000 + i);
        length += snprintf(urls + length, sizeof(urls) - (size_t)length, ",redis://127.0.0.%u:%u/%u", i + 1,
                           (unsigned)other.port, i);
        must(client_ok(&other_client, &e, "SELECT %u", i), e);
        freeReplyObject(client_command(&other_client, "HSET tb:incarnations %s %s", field, last));
    }
    must(client_ok(&other_client, &e, "SELECT 0"), e);
    must(nodes_parse(&many, urls, &e), e);
    struct sync_client *asker = sync_client_new(&many, REPLY_MS, NULL);
    must(registry_look(asker, &names, &said, &e), e);
    sync_client_free(asker);
    assert_int_equal(history_judge(view, &said), HISTORY_MISSED);
}

#define HISTORY_TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(test_a_master_that_refuses_writes__stops_no_filter_elsewhere),
        HISTORY_TEST(test_a_server_that_was_there_before__has_not_lived_on),
        HISTORY_TEST(test_histories_that_were_missed__keep_their_order),
        HISTORY_TEST(test_a_history_that_has_left_the_view__was_not_missed),
        HISTORY_TEST(test_what_many_masters_name__is_compared_to_the_last),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
