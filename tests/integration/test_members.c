/* SPDX-License-Identifier: MIT */
/* The list of members on a real Redis: living and dead members, and an empty Redis. */
#include "tests/integration/filters.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/members/members.h"

#define RECORD PREFIX ":{" PREFIX ":coordinators}:"

static struct servers servers;
static struct sync_client *l;
static struct members_heartbeat heartbeat;

static int start(void **state)
{
    (void)state;
    if (servers_start(&servers, 1) != 0)
        return -1;
    l = sync_client_new(&servers.nodes, SYNC_CLIENT_MS, NULL);
    return l == NULL ? -1 : 0;
}

static int stop(void **state)
{
    (void)state;
    members_fini(&heartbeat);
    sync_client_free(l);
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    return 0;
}

static void begin(const char *id, const char *nodes)
{
    members_begin(&heartbeat, PREFIX, id);
    members_text(&heartbeat, MEMBERS_HOST, "here");
    members_text(&heartbeat, MEMBERS_STATE, "serving");
    members_text(&heartbeat, MEMBERS_NODES, nodes);
}

static bool write_heartbeat(void)
{
    struct error e = {""};
    bool whole = false;
    must(members_write(&heartbeat, l, &whole, &e), e);
    return whole;
}

struct seen {
    size_t count, gone;
    char ids[512];
    uint64_t age_ms, incarnation, epoch; /* of the last member */
    char version[32];
};

static void see(void *arg, const struct members_entry *entry)
{
    struct seen *s = arg;
    size_t n = strlen(s->ids);
    s->count++;
    s->gone += entry->gone;
    if (s->count <= 20)
        (void)snprintf(s->ids + n, sizeof(s->ids) - n, "%s ", entry->id);
    s->age_ms = entry->age_ms;
    s->incarnation = entry->incarnation;
    s->epoch = entry->epoch;
    (void)snprintf(s->version, sizeof(s->version), "%s", members_value(entry, MEMBERS_VERSION));
}

static struct seen look(const char *filter)
{
    struct error e = {""};
    struct seen s = {0};
    must(members_read(l, PREFIX, filter, see, &s, &e), e);
    return s;
}

static void age(const char *id, unsigned ms)
{
    assert_int_equal(
        servers_integer(&servers, 0, "PEXPIRE " RECORD "%s %u", id, (unsigned)MEMBERS_KEEP_MS - ms), 1);
}

static void test_members__lists_who_has_said_that_it_is_there(void **state)
{
    (void)state;
    assert_int_equal(look(NULL).count, 0);
    begin("b", "x:1");
    assert_false(write_heartbeat());
    assert_true((begin("b", "x:1"), write_heartbeat()));
    begin("a", "x:1");
    members_text(&heartbeat, MEMBERS_VERSION, "9.9");
    assert_false(write_heartbeat());
    struct seen s = look(NULL);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.ids, "a b ");
    assert_int_equal(s.gone, 0);
    assert_string_equal(s.version, ""); /* b gave no version */
    struct error e = {""};
    must(members_leave(l, PREFIX, "a", &e), e);
    assert_string_equal(look(NULL).ids, "b ");
}

static void test_members__tells_who_is_gone_by_the_clock_of_redis(void **state)
{
    (void)state;
    begin("a", "x:1");
    (void)write_heartbeat();
    age("a", MEMBERS_GONE_MS - 500);
    assert_int_equal(look(NULL).gone, 0);
    age("a", MEMBERS_GONE_MS);
    struct seen s = look(NULL);
    assert_int_equal(s.gone, 1);
    assert_in_range(s.age_ms, MEMBERS_GONE_MS, MEMBERS_GONE_MS + 5000);
    /* The member was only stopped, and wakes up. */
    begin("a", "x:1");
    assert_true(write_heartbeat());
    s = look(NULL);
    assert_int_equal(s.gone, 0);
    assert_in_range(s.age_ms, 0, 5000);
    /* The member is dead, and leaves the list after a while. */
    age("a", MEMBERS_KEEP_MS - 1);
    clock_sleep_us(5000);
    assert_int_equal(look(NULL).count, 0);
    assert_int_equal(servers_integer(&servers, 0, "SCARD " PREFIX ":coordinators"), 0);
}

static void test_members__says_which_epoch_each_serves(void **state)
{
    (void)state;
    begin("a", "x:1");
    members_epoch(&heartbeat, "f", INCARNATION, 7);
    members_epoch(&heartbeat, "g h", INCARNATION, 18446744073709551615u);
    (void)write_heartbeat();
    struct seen s = look("f");
    assert_int_equal(s.epoch, 7);
    assert_int_equal(s.incarnation, INCARNATION);
    assert_int_equal(look("g h").epoch, 18446744073709551615u);
    assert_int_equal(look("h").epoch, 0);
    begin("a", "x:1"); /* fields that the heartbeat lacks stay */
    members_epoch(&heartbeat, "g h", INCARNATION, 0);
    assert_true(write_heartbeat());
    assert_int_equal(look("f").epoch, 7);
    assert_int_equal(look("g h").epoch, 0);
    (void)servers_integer(&servers, 0, "HSET " RECORD "a epoch:f nonsense");
    assert_int_equal(look("f").epoch, 0);
}

static void test_members__takes_many_epochs_at_once(void **state)
{
    (void)state;
    char name[24];
    begin("a", "x:1");
    for (unsigned i = 0; i < MEMBERS_CHANGES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i);
        members_epoch(&heartbeat, name, INCARNATION, i + 1);
    }
    (void)write_heartbeat();
    assert_int_equal(look("f499").epoch, 500);
    begin("a", "x:1");
    for (unsigned i = 0; i < MEMBERS_CHANGES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i);
        members_epoch(&heartbeat, name, INCARNATION, 0);
    }
    (void)write_heartbeat();
    assert_int_equal(look("f499").epoch, 0);
    assert_int_equal(servers_integer(&servers, 0, "HLEN " RECORD "a"), 4);
}

static void test_members__is_whole_again_after_redis_was_emptied(void **state)
{
    (void)state;
    begin("a", "x:1");
    (void)write_heartbeat();
    servers_flush(&servers);
    assert_int_equal(look(NULL).count, 0);
    begin("a", "x:1");
    assert_false(write_heartbeat()); /* so the next heartbeat has everything again */
    assert_int_equal(look(NULL).count, 1);
    /* Only the list is lost, or only the record. */
    (void)servers_integer(&servers, 0, "DEL " PREFIX ":coordinators");
    begin("a", "x:1");
    assert_true(write_heartbeat());
    assert_int_equal(look(NULL).count, 1);
    (void)servers_integer(&servers, 0, "DEL " RECORD "a");
    assert_int_equal(look(NULL).count, 0);
    begin("a", "x:1");
    assert_false(write_heartbeat());
    assert_int_equal(look(NULL).count, 1);
}

static void limit_memory(int bytes)
{
    struct error e = {""};
    struct client *c;
    for (unsigned i = 0; (c = servers_each(&servers, i)) != NULL; i++)
        must(client_ok(c, &e, "CONFIG SET maxmemory %d", bytes), e);
}

static void test_members__is_written_where_redis_is_out_of_memory(void **state)
{
    (void)state;
    begin("a", "x:1");
    (void)write_heartbeat();
    limit_memory(1);
    begin("a", "x:1");
    bool whole = write_heartbeat();
    begin("b", "x:1");
    bool other = write_heartbeat();
    limit_memory(0);
    assert_true(whole);
    assert_false(other);
    assert_string_equal(look(NULL).ids, "a b ");
}

static void test_members__has_a_bound(void **state)
{
    (void)state;
    char id[24];
    for (unsigned i = 0; i < MEMBERS_MAX + 50; i++) {
        (void)snprintf(id, sizeof(id), "crash-%u", i);
        begin(id, "x:1");
        (void)write_heartbeat();
    }
    assert_int_equal(servers_integer(&servers, 0, "SCARD " PREFIX ":coordinators"), MEMBERS_MAX);
    assert_int_equal(look(NULL).count, MEMBERS_MAX);
    begin("crash-0", "x:1"); /* the member is alive, whether it was removed or not */
    (void)write_heartbeat();
    assert_int_equal(servers_integer(&servers, 0, "SISMEMBER " PREFIX ":coordinators crash-0"), 1);
}

static void test_members_knows__names_who_does_not_know_a_node(void **state)
{
    (void)state;
    struct error e = {""};
    static struct generation g = {.node_count = 2, .nodes = {"x:1", "y:2"}};
    must(members_knows(l, PREFIX, &g, &e), e); /* the list is empty */
    begin("a", "x:1\nY:2\nz:3");
    (void)write_heartbeat();
    must(members_knows(l, PREFIX, &g, &e), e);
    begin("b", "x:1\ny:22");
    (void)write_heartbeat();
    gives(ERR_REFUSED, members_knows(l, PREFIX, &g, &e), e);
    assert_non_null(strstr(e.text, "coordinator b "));
    assert_non_null(strstr(e.text, "y:2 "));
    age("b", MEMBERS_GONE_MS + 1);
    must(members_knows(l, PREFIX, &g, &e), e);
}

static void test_members__says_why_it_cannot_be_read_or_written(void **state)
{
    (void)state;
    struct error e = {""};
    struct seen s = {0};
    bool whole;
    assert_string_equal(servers_text(&servers, 0, "SET " RECORD "a x"), "OK");
    begin("a", "x:1");
    gives(ERR_REFUSED, members_write(&heartbeat, l, &whole, &e), e);
    assert_int_equal(servers_integer(&servers, 0, "SADD " PREFIX ":coordinators a"), 1);
    gives(ERR_REFUSED, members_read(l, PREFIX, NULL, see, &s, &e), e);
    servers_flush(&servers);
    assert_int_equal(look(NULL).count, 0); /* the link works again */
    assert_string_equal(servers_text(&servers, 0, "SET " PREFIX ":coordinators x"), "OK");
    gives(ERR_REFUSED, members_read(l, PREFIX, NULL, see, &s, &e), e);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(test_members__lists_who_has_said_that_it_is_there),
        TEST(test_members__tells_who_is_gone_by_the_clock_of_redis),
        TEST(test_members__says_which_epoch_each_serves),
        TEST(test_members__takes_many_epochs_at_once),
        TEST(test_members__is_whole_again_after_redis_was_emptied),
        TEST(test_members__is_written_where_redis_is_out_of_memory),
        TEST(test_members__has_a_bound),
        TEST(test_members_knows__names_who_does_not_know_a_node),
        TEST(test_members__says_why_it_cannot_be_read_or_written),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
