/* SPDX-License-Identifier: MIT */
/* Replies that are asked for ahead, on a real Redis: who gets them, and when everybody asks for himself. */
#include "tests/integration/log_redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/redis/ahead.h"
#include "shard/redis/wire/replication.h"

enum { REPLY_MS = 5000 };

static struct error e;

static int set_up(void **state)
{
    (void)state;
    log_redis_make(1000, 1, 32768);
    return 0;
}

static void set(const char *key, const char *value)
{
    must(client_ok(&on.client, &e, "SET %s %s", key, value), e);
}

/* The code of a GET by the client that asks ahead; its value goes to @value. */
static enum err get(const char *key, char value[32])
{
    redisReply *r = NULL;
    enum err code = sync_client_command(on.link, 0, &r, &e, "GET %s", key);
    (void)snprintf(value, 32, "%s", code == ERR_OK && r->str != NULL ? r->str : "");
    freeReplyObject(r);
    return code;
}

static void gets(const char *key, const char *wanted)
{
    char value[32];
    must(get(key, value), e);
    assert_string_equal(value, wanted);
}

/* Ask ahead for "a" and "b" as user 1, and for "b" as user 2; then give all keys other values. */
static void ask(void)
{
    set("a", "1");
    set("b", "2");
    assert_true(ahead_begin(on.link));
    ahead_ask(on.link, 1, 0, "GET %s", "a");
    ahead_ask(on.link, 2, 0, "GET %s", "b");
    ahead_read(on.link);
    ahead_ask(on.link, 1, 0, "GET %s", "b");
}

static void change(void)
{
    set("a", "3");
    set("b", "4");
}

static void test_the_same_commands__get_the_replies_to_those_asked_ahead(void **state)
{
    (void)state;
    ask();
    ahead_close(on.link);
    change();
    ahead_use(on.link, 2);
    gets("b", "2");
    gets("b", "4"); /* it was asked for once */
    ahead_use(on.link, 1);
    gets("a", "1");
    gets("b", "2");
    ahead_end(on.link);
    gets("a", "3");
}

static void test_from_the_first_other_command_on__a_user_asks_for_itself(void **state)
{
    (void)state;
    ask();
    ahead_close(on.link);
    change();
    ahead_use(on.link, 1);
    gets("b", "4");
    gets("a", "3");
    ahead_use(on.link, 2);
    gets("b", "2");
    ahead_use(on.link, 0);
    gets("b", "4");
    ahead_end(on.link);
}

static void test_what_was_not_used__is_forgotten(void **state)
{
    (void)state;
    ask();
    ahead_close(on.link);
    ahead_end(on.link);
    change();
    gets("a", "3");
    assert_true(ahead_begin(on.link));
    ahead_close(on.link);
    ahead_use(on.link, 1);
    gets("a", "3");
    ahead_end(on.link);
}

static void test_replies_of_a_replica__do_not_count(void **state)
{
    char value[32];
    (void)state;
    ask();
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    ahead_close(on.link);
    ahead_use(on.link, 1);
    assert_int_equal(get("a", value), ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "replica"));
    ahead_end(on.link);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
}

/* The server at the address may be another one behind that. */
static void test_a_connection_that_breaks_between__has_everybody_ask_for_himself(void **state)
{
    char value[32];
    int64_t killed = 0;
    (void)state;
    ask();
    must(client_integer(&on.client, &killed, &e, "CLIENT KILL TYPE normal SKIPME yes"), e);
    assert_true(killed > 0);
    ahead_close(on.link);
    change();
    ahead_use(on.link, 2);
    assert_int_equal(get("b", value), ERR_UNREACHABLE); /* of one server's replies none is another one's */
    ahead_end(on.link);
    gets("b", "4");
}

/* --- a node that is away --- */

/* A list of the group's server and another one, and a client without connections. */
struct pair {
    struct temp_redis other;
    struct nodes nodes;
    struct sync_client *link;
};

static void pair_make(struct pair *p)
{
    char urls[256];
    must(temp_redis_start(&p->other, NULL, &e), e);
    (void)snprintf(urls, sizeof(urls), "%s,%s", on.redis.url, p->other.url);
    must(nodes_parse(&p->nodes, urls, &e), e);
    p->link = sync_client_new(&p->nodes, REPLY_MS, NULL);
    assert_non_null(p->link);
}

static void pair_free(struct pair *p)
{
    sync_client_free(p->link);
    temp_redis_fini(&p->other);
}

static void pair_gets(struct pair *p, unsigned where, const char *key, const char *wanted)
{
    redisReply *r = NULL;
    must(sync_client_command(p->link, where, &r, &e, "GET %s", key), e);
    assert_non_null(r);
    assert_string_equal(r->type == REDIS_REPLY_STRING ? r->str : "", wanted);
    freeReplyObject(r);
}

static void test_one_node_of_two_is_away__nobody_gets_the_reply_of_another(void **state)
{
    static struct pair p;
    (void)state;
    pair_make(&p);
    pair_gets(&p, 1, "a", "");
    set("a", "1");
    set("b", "2");
    temp_redis_kill(&p.other);
    assert_true(ahead_begin(p.link));
    ahead_ask(p.link, 1, 1, "GET %s", "a");
    ahead_ask(p.link, 2, 0, "GET %s", "a");
    ahead_ask(p.link, 3, 0, "GET %s", "b");
    ahead_close(p.link);
    for (unsigned user = 1; user <= 3; user++) {
        ahead_use(p.link, user);
        pair_gets(&p, 0, "b", "2");
        pair_gets(&p, 0, "a", "1");
    }
    ahead_end(p.link);
    pair_free(&p);
}

static void
test_one_node_of_two_goes_away_before_it_says_who_it_is__nobody_gets_that_of_the_other(void **state)
{
    static struct pair p;
    (void)state;
    pair_make(&p);
    set("b", "2");
    assert_true(ahead_begin(p.link));
    ahead_ask(p.link, 1, 0, "GET %s", "b");
    ahead_ask(p.link, 2, 1, "GET %s", "b");
    ahead_read(p.link);
    temp_redis_kill(&p.other);
    ahead_close(p.link);
    ahead_use(p.link, 1);
    pair_gets(&p, 0, "b", "2");
    ahead_end(p.link);
    pair_free(&p);
}

static void test_a_node_that_is_back_before_its_use__answers(void **state)
{
    static struct pair p;
    (void)state;
    pair_make(&p);
    temp_redis_kill(&p.other);
    assert_true(ahead_begin(p.link));
    ahead_ask(p.link, 1, 1, "GET %s", "a");
    must(temp_redis_restart(&p.other, false, &e), e);
    ahead_close(p.link);
    ahead_use(p.link, 1);
    pair_gets(&p, 1, "a", "");
    ahead_end(p.link);
    pair_free(&p);
}

static uint64_t infos(void)
{
    redisReply *r = client_command(&on.client, "INFO commandstats");
    const char *at = strstr(r->str, "cmdstat_info:calls=");
    uint64_t n = at == NULL ? 0 : strtoull(at + strlen("cmdstat_info:calls="), NULL, 10);
    freeReplyObject(r);
    return n;
}

static void test_the_ids_of_masters__are_asked_for_once_for_all_users(void **state)
{
    struct replications first = {0}, again = {0};
    (void)state;
    must(sync_client_replications(on.link, NULL, &first, &e), e);
    uint64_t before = infos();
    assert_true(ahead_begin(on.link));
    ahead_ask_replications(on.link, 1);
    ahead_ask_replications(on.link, 2);
    ahead_close(on.link);
    for (unsigned user = 1; user <= 2; user++) {
        ahead_use(on.link, user);
        must(sync_client_replications(on.link, &first, &again, &e), e);
        assert_int_equal(again.count, 1);
        assert_true(again.one[0].id == first.one[0].id && first.one[0].id != 0);
    }
    ahead_end(on.link);
    assert_int_equal(infos() - before, 2); /* and the one by which this is counted */
    replications_fini(&first);
    replications_fini(&again);
}

/* Users of "u0", "u1" and so on; between a group's questions and its answers all keys get another value. */
struct many {
    size_t asked, used, stops_at;
};

static void ask_one(void *arg, size_t i, unsigned user)
{
    struct many *m = arg;
    assert_int_equal(user, i % AHEAD_GROUP + 1);
    assert_int_equal(i, m->asked++);
    ahead_ask(on.link, user, 0, "GET u%u", (unsigned)i);
}

static bool use_one(void *arg, size_t i)
{
    struct many *m = arg;
    char key[16];
    (void)snprintf(key, sizeof(key), "u%u", (unsigned)i);
    assert_int_equal(i, m->used++);
    if (i % AHEAD_GROUP == 0)
        for (size_t j = i; j < m->asked; j++)
            must(client_ok(&on.client, &e, "SET u%u changed", (unsigned)j), e);
    gets(key, "first");
    return m->used < m->stops_at;
}

static void test_many_users__are_asked_for_in_groups_until_one_ends_it(void **state)
{
    enum { MANY = 2 * AHEAD_GROUP + 10 };
    struct many all = {.stops_at = SIZE_MAX}, some = {.stops_at = AHEAD_GROUP + 3}, none = {0};
    redisReply *unread = NULL;
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        must(client_ok(&on.client, &e, "SET u%u first", i), e);
    must(sync_client_send(on.link, 0, &e, "GET u0"), e); /* an error has left it unread */
    ahead_each(on.link, MANY, ask_one, use_one, &all);
    assert_true(all.asked == MANY && all.used == MANY);
    assert_int_not_equal(sync_client_reply(on.link, 0, &unread, &e), ERR_OK);
    for (unsigned i = 0; i < MANY; i++)
        must(client_ok(&on.client, &e, "SET u%u first", i), e);
    ahead_each(on.link, MANY, ask_one, use_one, &some);
    assert_true(some.asked == 2 * AHEAD_GROUP && some.used == some.stops_at);
    ahead_each(on.link, 0, ask_one, use_one, &none);
    assert_int_equal(none.asked, 0);
    gets("u0", "changed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_same_commands__get_the_replies_to_those_asked_ahead, set_up),
        cmocka_unit_test_setup(test_from_the_first_other_command_on__a_user_asks_for_itself, set_up),
        cmocka_unit_test_setup(test_what_was_not_used__is_forgotten, set_up),
        cmocka_unit_test_setup(test_replies_of_a_replica__do_not_count, set_up),
        cmocka_unit_test_setup(test_a_connection_that_breaks_between__has_everybody_ask_for_himself, set_up),
        cmocka_unit_test_setup(test_one_node_of_two_is_away__nobody_gets_the_reply_of_another, set_up),
        cmocka_unit_test_setup(
            test_one_node_of_two_goes_away_before_it_says_who_it_is__nobody_gets_that_of_the_other, set_up),
        cmocka_unit_test_setup(test_a_node_that_is_back_before_its_use__answers, set_up),
        cmocka_unit_test_setup(test_the_ids_of_masters__are_asked_for_once_for_all_users, set_up),
        cmocka_unit_test_setup(test_many_users__are_asked_for_in_groups_until_one_ends_it, set_up),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
